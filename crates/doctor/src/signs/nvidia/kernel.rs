//! Which kernels have NVIDIA's module, whether it may be loaded, and what can build it.

use std::collections::BTreeSet;

use gpubuild_core::version::Version;
use gpubuild_detect::finding::Evidence;
use gpubuild_host::{Command, HostPath, InspectHost, ReadFiles, RunPrograms, glob};

use crate::signs::SignContext;

/// Folders with the modules of all kernels. The first two are the same folder on most distributions.
const ROOTS: [&str; 4] = [
    "/lib/modules",
    "/usr/lib/modules",
    "/run/booted-system/kernel-modules/lib/modules",
    "/run/current-system/kernel-modules/lib/modules",
];
/// Subfolders of the kernel's own modules in which packages and installers place NVIDIA's module.
const INSIDE_KERNEL: [&str; 7] = [
    "kernel/drivers/video",
    "kernel/drivers/video/nvidia",
    "kernel/drivers/gpu/nvidia",
    "kernel/drivers/gpu/drm/nvidia",
    "kernel/drivers/nvidia",
    "kernel/drivers/char/drm",
    "kernel/extra",
];
/// Depth to which other folders are searched.
const DEPTH: usize = 5;
/// Maximum number of folders that are searched.
const MOST_FOLDERS: usize = 300;

/// NVIDIA's modules for the running kernel and for the other installed kernels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstalledKernels {
    /// The running kernel.
    pub running: ModuleSigns,
    /// The other installed kernels, sorted by release.
    pub others: Vec<ModuleSigns>,
    /// Sources that a module can be built from: `/var/lib/dkms/nvidia/550.54.14`, `/usr/src/akmods/nvidia-kmod.latest`.
    pub sources: Vec<HostPath>,
    /// Logs of builds for the running kernel that the compiler ended.
    pub failures: Vec<HostPath>,
    /// The file in which negativo17's packages select open or proprietary modules.
    pub variant_file: Option<HostPath>,
    /// Whether the firmware allows signed modules only, if it is known.
    pub secure_boot: Option<(bool, Evidence)>,
    /// Configuration that prevents NVIDIA's module from being loaded.
    pub forbidden: Vec<Evidence>,
}

/// An installed kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleSigns {
    /// Release of the kernel.
    pub release: String,
    /// Whether its module folder exists. An update may have removed the folder of the running kernel.
    pub has_folder: bool,
    /// NVIDIA's main modules for this kernel.
    pub modules: Vec<HostPath>,
    /// Whether its headers are installed.
    pub has_headers: bool,
    /// The driver's version of these modules, if it is known. Only for the running kernel.
    pub version: Option<Version>,
    /// Whether these modules are NVIDIA's open ones. `None` if it is not known. Only for the running kernel.
    pub open: Option<bool>,
}

impl InstalledKernels {
    /// Whether sources of the module are installed.
    #[must_use]
    pub fn can_be_built(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Whether modules are built by akmods and not by DKMS.
    #[must_use]
    pub fn uses_akmods(&self) -> bool {
        self.sources.iter().any(|source| source.as_str().contains("akmods"))
            && !self.sources.iter().any(|source| source.as_str().contains("dkms"))
    }
}

pub(super) fn gather(context: &SignContext<'_>) -> InstalledKernels {
    let host = context.host;
    let running = context.facts.kernel.as_ref().map(|kernel| kernel.value.clone()).unwrap_or_default();
    let mut releases: BTreeSet<String> = BTreeSet::new();
    for root in ROOTS {
        releases.extend(host.list(&host.path(root)).unwrap_or_default());
    }
    releases.remove(&running);
    let release = running.clone();
    let others = releases.iter().map(|release| kernel(host, release));
    let sources = sources(host);
    let mut running = kernel(host, &running);
    running.version = module_version(host, &running);
    running.open = is_open(host, &running, &sources);
    InstalledKernels {
        others: others.filter(|kernel| kernel.has_folder).collect(),
        running,
        sources,
        failures: failures(host, &release),
        variant_file: variant_file(host),
        secure_boot: secure_boot(host),
        forbidden: forbidden(host),
    }
}

/// A field that `modinfo` reports for the module on disk. Recordings contain its output.
fn module_field(host: &dyn RunPrograms, field: &str) -> Option<String> {
    let run = |arguments: &[&str]| {
        let command =
            Command::new("modinfo", std::time::Duration::from_secs(3)).args(arguments.iter().copied());
        host.recorded_output(&command).filter(|output| !output.stdout.trim().is_empty())
    };
    if let Some(output) = run(&["-F", field, "nvidia"]) {
        return Some(output.stdout.trim().to_owned());
    }
    let output = run(&["nvidia"])?;
    let line =
        output.stdout.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::trim))?;
    Some(line.to_owned())
}

/// A field of the module's own information, which is text in modules that are not compressed: `version=550.54.14`.
fn own_field(host: &dyn ReadFiles, kernel: &ModuleSigns, field: &str) -> Option<String> {
    const LIMIT: usize = 1 << 20;
    let module = kernel.modules.iter().find(|module| module.as_str().rsplit('.').next() == Some("ko"))?;
    let bytes = host.read_start(module, LIMIT).ok()?;
    let wanted = format!("{field}=");
    let text = bytes
        .split(|byte| *byte == 0 || *byte == b'\n')
        .find_map(|part| std::str::from_utf8(part).ok()?.trim().strip_prefix(&wanted))?;
    Some(text.trim().to_owned())
}

/// The driver's version of the modules on disk for the running kernel.
fn module_version(host: &dyn InspectHost, kernel: &ModuleSigns) -> Option<Version> {
    if kernel.modules.is_empty() {
        return None;
    }
    let text = module_field(host, "version").or_else(|| own_field(host, kernel, "version"));
    if let Some(version) = text.and_then(|text| text.parse().ok()) {
        return Some(version);
    }
    // DKMS has a folder per version, with one per kernel for which the module is installed.
    let is_dkms = kernel.modules.iter().any(|module| module.as_str().contains("/dkms/"));
    let built = glob(host, &format!("/var/lib/dkms/nvidia*/*/{}", kernel.release));
    let versions = built.iter().filter_map(|path| path.parent()?.file_name()?.parse::<Version>().ok());
    versions.max().filter(|_| is_dkms)
}

/// Whether the modules on disk are the open ones: by license, folder, sources, or package.
fn is_open(host: &dyn InspectHost, kernel: &ModuleSigns, sources: &[HostPath]) -> Option<bool> {
    if kernel.modules.is_empty() {
        return None;
    }
    if let Some(license) = module_field(host, "license").or_else(|| own_field(host, kernel, "license")) {
        return Some(license.contains("MIT") || license.contains("GPL"));
    }
    let has_open = |path: &HostPath| path.as_str().contains("open");
    // Ubuntu's folders of signed modules: `kernel/nvidia-580srv-open`.
    if let Some(module) = kernel.modules.iter().find(|module| module.as_str().contains("/kernel/nvidia-")) {
        return Some(has_open(module));
    }
    if kernel.modules.iter().chain(sources).any(has_open) {
        return Some(true);
    }
    let installed = |patterns: &[&str]| {
        let found = patterns.iter().flat_map(|pattern| glob(host, pattern));
        found.map(|path| path.file_name().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let packages = installed(&[
        "/var/lib/dpkg/info/nvidia-dkms-*.list",
        "/var/lib/dpkg/info/nvidia-kernel-*dkms.list",
        "/var/lib/dpkg/info/nvidia-open-kernel-*.list",
        "/var/lib/dpkg/info/nvidia-kernel-open-*.list",
        "/var/lib/pacman/local/nvidia-dkms-*",
        "/var/lib/pacman/local/nvidia-open-*",
        "/var/lib/pacman/local/nvidia-lts-*",
    ]);
    if packages.is_empty() { None } else { Some(packages.iter().any(|name| name.contains("open"))) }
}

fn kernel(host: &dyn ReadFiles, release: &str) -> ModuleSigns {
    let mut kernel = ModuleSigns { release: release.to_owned(), ..ModuleSigns::default() };
    if release.is_empty() {
        return kernel;
    }
    let mut seen = BTreeSet::new();
    for root in ROOTS {
        let folder = host.path(root).join(release);
        if !host.is_dir(&folder)
            || !seen.insert(host.canonical(&folder).map_or(folder.key(), |real| real.key()))
        {
            continue;
        }
        kernel.has_folder = true;
        kernel.has_headers |= host.exists(&folder.join("build"));
        kernel.modules.extend(modules(host, &folder));
    }
    let headers = [format!("/usr/src/linux-headers-{release}"), format!("/usr/src/kernels/{release}")];
    kernel.has_headers |= headers.iter().any(|folder| host.is_dir(&host.path(folder)));
    kernel
}

fn modules(host: &dyn ReadFiles, folder: &HostPath) -> Vec<HostPath> {
    let mut found = Vec::new();
    let mut budget = MOST_FOLDERS;
    for name in host.list(folder).unwrap_or_default() {
        if !matches!(name.as_str(), "kernel" | "build" | "source" | "vdso") && !name.starts_with("modules.") {
            walk(host, &folder.join(&name), DEPTH, &mut budget, &mut found);
        }
    }
    let packed = host.list(&folder.join("kernel")).unwrap_or_default();
    let packed = packed.iter().filter(|name| name.starts_with("nvidia")).map(|name| format!("kernel/{name}"));
    for inside in packed.chain(INSIDE_KERNEL.map(str::to_owned)) {
        walk(host, &folder.join(&inside), 1, &mut budget, &mut found);
    }
    found
}

fn walk(
    host: &dyn ReadFiles,
    folder: &HostPath,
    depth: usize,
    budget: &mut usize,
    found: &mut Vec<HostPath>,
) {
    if *budget == 0 {
        return;
    }
    *budget -= 1;
    for name in host.list(folder).unwrap_or_default() {
        let path = folder.join(&name);
        if is_module(&name) {
            if host.is_file(&path) && !found.contains(&path) {
                found.push(path);
            }
        } else if depth > 1 && !name.contains(".ko") && host.is_dir(&path) {
            walk(host, &path, depth - 1, budget, found);
        }
    }
}

/// Whether a file is the driver's main module, under any of the names that distributions use: `nvidia.ko.zst`,
/// `nvidia-current.ko`, `nvidia-legacy-390xx.ko`.
fn is_module(name: &str) -> bool {
    let Some((stem, ending)) = name.split_once(".ko") else { return false };
    if !matches!(ending, "" | ".xz" | ".zst" | ".gz") {
        return false;
    }
    let stem = stem.replace('-', "_");
    let Some(rest) = stem.strip_prefix("nvidia") else { return false };
    let parts = ["_drm", "_modeset", "_uvm", "_peermem", "_fs", "_vfio"];
    let named = rest.is_empty()
        || ["_current", "_legacy", "_tesla"].iter().any(|start| rest.starts_with(start))
        || rest.strip_prefix('_').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    named && !parts.iter().any(|part| rest.ends_with(part))
}

/// The logs of akmods have the kernel in their names, those of DKMS in their first line, if at all.
fn failures(host: &dyn ReadFiles, release: &str) -> Vec<HostPath> {
    let mut found = glob(host, &format!("/var/cache/akmods/nvidia*/*-for-{release}.failed.log"));
    let is_for_it = |path: &HostPath| {
        host.read_text(path).is_ok_and(|text| {
            let names_another = text.contains(" for kernel ") && !text.contains(release);
            text.lines().any(|line| line.contains("***") && line.contains("Error")) && !names_another
        })
    };
    found.extend(glob(host, "/var/lib/dkms/nvidia*/*/build/make.log").into_iter().filter(is_for_it));
    found
}

fn variant_file(host: &dyn ReadFiles) -> Option<HostPath> {
    let path = host.path("/etc/nvidia/kernel.conf");
    host.read_text(&path).is_ok_and(|text| text.contains("MODULE_VARIANT=")).then_some(path)
}

fn sources(host: &dyn ReadFiles) -> Vec<HostPath> {
    let mut sources: Vec<HostPath> =
        ["/var/lib/dkms/nvidia*/*", "/usr/src/akmods/nvidia*", "/usr/src/nvidia-*"]
            .iter()
            .flat_map(|pattern| glob(host, pattern))
            // Skip DKMS' links to built modules, and other packages of NVIDIA.
            .filter(|path| {
                !path.file_name().is_some_and(|name| name.starts_with("kernel-") || name.contains(".db"))
            })
            .filter(|path| !path.as_str().contains("nvidia-fs") && !path.as_str().contains("peermem"))
            .collect();
    sources.dedup();
    sources
}

/// Reads the last byte of the firmware variable. In `efivars` it follows four bytes of attributes.
fn secure_boot(host: &dyn ReadFiles) -> Option<(bool, Evidence)> {
    const GUID: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
    let places = [
        (format!("/sys/firmware/efi/efivars/SecureBoot-{GUID}"), 4),
        (format!("/sys/firmware/efi/vars/SecureBoot-{GUID}/data"), 0),
    ];
    places.iter().find_map(|(place, offset)| {
        let bytes = host.read_start(&host.path(place), 16).ok()?;
        let byte = bytes.get(*offset)?;
        Some((*byte == 1, Evidence::file(place, format!("byte {} is {byte}", offset + 1))))
    })
}

/// Lines of modprobe's configuration and parameters of the kernel's command line that prevent loading the module.
fn forbidden(host: &dyn ReadFiles) -> Vec<Evidence> {
    let files = [
        "/etc/modprobe.d/*.conf",
        "/lib/modprobe.d/*.conf",
        "/usr/lib/modprobe.d/*.conf",
        "/run/modprobe.d/*.conf",
    ];
    let mut found: Vec<Evidence> = Vec::new();
    for file in files.iter().flat_map(|pattern| glob(host, pattern)) {
        let Ok(text) = host.read_text(&file) else { continue };
        if let Some(line) = text.lines().map(str::trim).find(|line| forbids(line))
            && !found.iter().any(|known| known.value == line && same_name(&known.place, file.as_str()))
        {
            found.push(Evidence::file(file.as_str(), line));
        }
    }
    let command_line = host.read_text(&host.path("/proc/cmdline")).unwrap_or_default();
    let parameter = command_line.split_whitespace().find(|parameter| {
        parameter.split_once('=').is_some_and(|(name, list)| {
            matches!(name, "modprobe.blacklist" | "module_blacklist" | "rd.driver.blacklist")
                && list.split(',').any(|module| module == "nvidia")
        })
    });
    found.extend(parameter.map(|parameter| Evidence::file("/proc/cmdline", parameter)));
    found
}

/// Whether two paths have the same file name: `/lib` is `/usr/lib` on most distributions.
fn same_name(left: &str, right: &str) -> bool {
    left.rsplit('/').next() == right.rsplit('/').next()
}

fn forbids(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["blacklist", module] | ["alias", module, "off"] => matches!(module, "nvidia" | "nvidia-current"),
        ["install", "nvidia", command, ..] => command.ends_with("/false") || command.ends_with("/true"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signs::gathered;
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, Os, RecordedHost};

    fn observe(host: RecordedHostBuilder) -> InstalledKernels {
        gathered(&host.file("/proc/sys/kernel/osrelease", "6.8.0-45-generic\n").build(), gather)
    }

    fn linux() -> RecordedHostBuilder {
        RecordedHost::builder(Os::Linux, Arch::X86_64)
    }

    #[test]
    fn module_is_found_in_the_folders_of_all_distributions() {
        for place in [
            "updates/dkms/nvidia.ko.zst",
            "extra/nvidia/nvidia.ko.xz",
            "extra/kmod-nvidia/nvidia.ko",
            "kernel/drivers/video/nvidia.ko",
            "kernel/nvidia-535srv/nvidia.ko",
            "extramodules/nvidia.ko.zst",
            "updates/nvidia.ko.zst",
            "updates/dkms/nvidia-current.ko",
            "updates/dkms/nvidia-legacy-390xx.ko",
            "misc/nvidia.ko.xz",
            "video/nvidia.ko",
        ] {
            let kernels = observe(linux().opaque(&format!("/lib/modules/6.8.0-45-generic/{place}")));
            assert_eq!(kernels.running.modules.len(), 1, "{place}");
        }
        for place in [
            "kernel/drivers/video/fbdev/nvidia/nvidiafb.ko",
            "updates/dkms/nvidia-uvm.ko",
            "updates/dkms/nvidia-current-modeset.ko",
            "kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko.zst",
            "updates/dkms/nvidia.ko.txt",
        ] {
            let kernels = observe(linux().opaque(&format!("/lib/modules/6.8.0-45-generic/{place}")));
            assert_eq!(kernels.running.modules, [], "{place}");
        }
    }

    #[test]
    fn running_kernel_and_other_kernels_are_distinguished() {
        let kernels = observe(
            linux()
                .opaque("/usr/lib/modules/6.8.0-41-generic/updates/dkms/nvidia.ko.zst")
                .link("/lib", "usr/lib")
                .directory("/usr/lib/modules/6.8.0-45-generic/kernel")
                .directory("/usr/src/linux-headers-6.8.0-45-generic")
                .directory("/var/lib/dkms/nvidia/550.107.02/source"),
        );
        assert!(
            kernels.running.has_folder && kernels.running.modules.is_empty() && kernels.running.has_headers
        );
        let others: Vec<_> =
            kernels.others.iter().map(|kernel| (kernel.release.as_str(), kernel.modules.len())).collect();
        assert_eq!(others, [("6.8.0-41-generic", 1)]);
        assert_eq!(kernels.sources[0].as_str(), "/var/lib/dkms/nvidia/550.107.02");
        assert!(!kernels.uses_akmods());
    }

    #[test]
    fn secure_boot_variable_follows_four_attribute_bytes() {
        let place = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
        let on = |bytes: &[u8]| observe(linux().bytes(place, bytes)).secure_boot.map(|(on, _)| on);
        assert_eq!(on(&[6, 0, 0, 0, 1]), Some(true));
        assert_eq!(on(&[6, 0, 0, 0, 0]), Some(false));
        assert_eq!(on(&[6, 0, 0, 0]), None);
        assert_eq!(observe(linux()).secure_boot, None);
    }

    #[test]
    fn module_blacklists_are_recognised() {
        for (line, expected) in [
            ("blacklist nvidia", true),
            ("alias nvidia off", true),
            ("install nvidia /bin/false", true),
            ("blacklist nouveau", false),
            ("# blacklist nvidia", false),
            ("options nvidia NVreg_DeviceFileMode=0666", false),
            ("install nvidia PATH=$PATH:/bin; if /sbin/modprobe --ignore-install nvidia; then", false),
        ] {
            assert_eq!(forbids(line), expected, "{line}");
        }
        let kernels = observe(linux().file("/proc/cmdline", "ro modprobe.blacklist=nouveau,nvidia quiet\n"));
        assert_eq!(kernels.forbidden.len(), 1);
    }
}
