//! Metal: which developer tools are selected, and whether they contain the compiler.

use std::time::Duration;

use gpubuild_core::version::Version;
use gpubuild_host::{Command, CommandOutput, HostPath, InspectHost, Os, ReadFiles, glob};

use super::SignContext;

/// Observations about Apple's developer tools; empty on other systems than macOS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metal {
    /// The selected developer folder.
    pub selected: Option<HostPath>,
    /// What selects it: a variable, a link, `xcode-select -p` or `the default`.
    pub selected_by: String,
    /// All copies of Xcode with their versions.
    pub xcodes: Vec<(HostPath, Option<Version>)>,
    /// The compiler in the selected folder.
    pub compiler: Option<HostPath>,
    /// The separately installed Metal toolchain, which Xcode 26 and newer need.
    pub asset: Option<HostPath>,
}

impl Metal {
    /// Whether only the command line tools are selected.
    #[must_use]
    pub fn is_tools_only(&self) -> bool {
        self.selected.as_ref().is_some_and(|path| path.as_str().contains("CommandLineTools"))
    }

    /// The selected Xcode and its version.
    #[must_use]
    pub fn xcode(&self) -> Option<&(HostPath, Option<Version>)> {
        let selected = self.selected.as_ref()?;
        self.xcodes.iter().find(|(path, _)| selected.as_str().starts_with(path.as_str()))
    }
}

/// Folders in which the Metal toolchain is mounted or installed.
const ASSETS: [&str; 6] = [
    "/private/var/run/com.apple.security.cryptexd/mnt/com.apple.MobileAsset.MetalToolchain*",
    "/var/run/com.apple.security.cryptexd/mnt/com.apple.MobileAsset.MetalToolchain*",
    "/System/Library/AssetsV2/com_apple_MobileAsset_MetalToolchain/*.asset",
    "/Volumes/MetalToolchain*",
    "/Library/Developer/Toolchains/*Metal*.xctoolchain",
    "{home}/Library/Developer/Toolchains/*Metal*.xctoolchain",
];

pub(super) fn gather(context: &SignContext<'_>) -> Metal {
    let host = context.host;
    if host.platform().os != Os::Macos {
        return Metal::default();
    }
    let xcodes: Vec<(HostPath, Option<Version>)> = glob(host, "/Applications/Xcode*.app")
        .into_iter()
        .filter(|path| host.is_dir(&path.join("Contents/Developer")))
        .map(|path| (path.clone(), xcode_version(host, &path)))
        .collect();
    let (selected, selected_by) = selected(host, &xcodes);
    let compiler = selected.as_ref().and_then(|folder| {
        let places = [
            "Toolchains/XcodeDefault.xctoolchain/usr/bin/metal",
            "usr/bin/metal",
            "Toolchains/*/usr/bin/metal",
        ];
        places.iter().find_map(|place| glob(host, folder.join(place).as_str()).into_iter().next())
    });
    let home = host.env().get("HOME").unwrap_or("/var/root");
    let mounts = format!("{home}/Library/Developer/DVTDownloads/MetalToolchain/mounts/*");
    let asset = ASSETS
        .iter()
        .map(|pattern| pattern.replace("{home}", home))
        .chain([mounts])
        .find_map(|pattern| glob(host, &pattern).into_iter().next());
    Metal { selected, selected_by, xcodes, compiler, asset }
}

/// The selected developer folder: `DEVELOPER_DIR`, the link of `xcode-select`, Xcode, then the command line tools.
fn selected(host: &dyn InspectHost, xcodes: &[(HostPath, Option<Version>)]) -> (Option<HostPath>, String) {
    if let Some(value) = host.env().get("DEVELOPER_DIR") {
        let path = host.path(value.trim_end_matches('/'));
        let inside = path.join("Contents/Developer");
        let path = if host.is_dir(&inside) { inside } else { path };
        return (Some(path), "DEVELOPER_DIR".to_owned());
    }
    let link = host.path("/var/db/xcode_select_link");
    if let Ok(target) = host.read_link(&link) {
        return (Some(host.path(target.trim_end_matches('/'))), link.to_string());
    }
    // A recording may have the output of the tool instead of its link. No process is started.
    let command =
        |argument: &str| Command::new("xcode-select", Duration::from_secs(3)).args([argument.to_owned()]);
    let recorded =
        ["-p", "--print-path"].iter().find_map(|argument| host.recorded_output(&command(argument)));
    if let Some(output) = recorded.filter(CommandOutput::success) {
        return (Some(host.path(output.stdout.trim().trim_end_matches('/'))), "xcode-select -p".to_owned());
    }
    let xcode = xcodes.first().map(|(path, _)| path.join("Contents/Developer"));
    let tools = host.path("/Library/Developer/CommandLineTools");
    (xcode.or_else(|| Some(tools).filter(|path| host.is_dir(path))), "the default".to_owned())
}

fn xcode_version(host: &dyn ReadFiles, application: &HostPath) -> Option<Version> {
    let own = ["Contents/version.plist", "Contents/Info.plist"].iter().find_map(|file| {
        let text = host.read_text(&application.join(file)).ok()?;
        let after = text.split_once("<key>CFBundleShortVersionString</key>")?.1;
        after.split_once("<string>")?.1.split_once("</string>")?.0.trim().parse().ok()
    });
    // Since 26 the SDK has the version of Xcode; before, its version was lower.
    own.or_else(|| {
        let folder = application.join("Contents/Developer/Platforms/MacOSX.platform/Developer/SDKs");
        let names = host.list(&folder).unwrap_or_default();
        let versions =
            names.iter().filter_map(|name| name.strip_prefix("MacOSX")?.strip_suffix(".sdk")?.parse().ok());
        versions.filter(|version: &Version| version.major() >= 26).max()
    })
}
