//! Apple silicon Macs and their development tools.

use gpubuild_host::{Arch, Os};

use super::Machine;

impl Machine {
    /// An Apple silicon Mac with macOS `version` and no development tools.
    pub fn mac(version: &str) -> Self {
        Self::new(Os::Macos, Arch::Aarch64)
            .env("PATH", "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin")
            .env("HOME", "/Users/user")
            .user(501, &[20, 501])
            .file(
                "/System/Library/CoreServices/SystemVersion.plist",
                &format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\">\n<dict>\n\t<key>ProductName</key>\n\t<string>macOS</string>\n\t<key>ProductVersion</key>\n\t<string>{version}</string>\n</dict>\n</plist>\n"),
            )
            .folder("/System/Library/Frameworks/Metal.framework")
            .probe(
                "metal",
                "{\"devices\": [{\"name\": \"Apple M3 Pro\", \"families\": [\"apple9\", \"metal3\"], \"unified_memory\": true, \"memory_bytes\": 27917287424}]}",
            )
    }

    /// Adds the selected command line tools.
    pub fn command_line_tools(self, sdk: &str) -> Self {
        self.link("/var/db/xcode_select_link", "/Library/Developer/CommandLineTools")
            .apple_clang("/Library/Developer/CommandLineTools/usr")
            .apple_sdk("/Library/Developer/CommandLineTools/SDKs", sdk)
    }

    /// Adds a selected Xcode that contains the Metal compiler, as up to Xcode 16.
    pub fn xcode(self, version: &str, sdk: &str) -> Self {
        let toolchain = "/Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr";
        self.xcode_without_metal(version, sdk)
            .program(&format!("{toolchain}/bin/metal"))
            .program(&format!("{toolchain}/bin/metallib"))
    }

    /// Adds a selected Xcode without the Metal compiler, as Xcode 26.
    pub fn xcode_without_metal(self, version: &str, sdk: &str) -> Self {
        let developer = "/Applications/Xcode.app/Contents/Developer";
        self.link("/var/db/xcode_select_link", developer)
            .file(
                "/Applications/Xcode.app/Contents/version.plist",
                &format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\">\n<dict>\n\t<key>CFBundleShortVersionString</key>\n\t<string>{version}</string>\n</dict>\n</plist>\n"),
            )
            .apple_clang(&format!("{developer}/Toolchains/XcodeDefault.xctoolchain/usr"))
            .apple_sdk(&format!("{developer}/Platforms/MacOSX.platform/Developer/SDKs"), sdk)
    }

    fn apple_clang(self, usr: &str) -> Self {
        self.program("/usr/bin/clang")
            .program("/usr/bin/clang++")
            .program(&format!("{usr}/bin/clang"))
            .link(&format!("{usr}/bin/clang++"), "clang")
            .folder(&format!("{usr}/lib/clang/16"))
    }

    fn apple_sdk(self, folder: &str, sdk: &str) -> Self {
        self.file(
            &format!("{folder}/MacOSX{sdk}.sdk/SDKSettings.json"),
            &format!("{{\"CanonicalName\": \"macosx{sdk}\", \"Version\": \"{sdk}\"}}\n"),
        )
        .folder(&format!("{folder}/MacOSX{sdk}.sdk/System/Library/Frameworks/Metal.framework"))
        .link(&format!("{folder}/MacOSX.sdk"), &format!("MacOSX{sdk}.sdk"))
    }

    /// Adds CMake and Ninja from Homebrew.
    pub fn homebrew_tools(self) -> Self {
        self.program("/opt/homebrew/bin/brew")
            .program("/opt/homebrew/bin/cmake")
            .folder("/opt/homebrew/share/cmake-3.31/Modules")
            .program("/opt/homebrew/bin/ninja")
    }
}
