//! Finds shared libraries as the dynamic loader of the host's platform would, by reading files only.
//!
//! [`LibraryLoader::find`] does not consider the program that opens the library, nor its folders; [`search`] does.

pub(crate) mod cache;
pub mod search;

use crate::{HostInfo, ReadFiles};
use std::cell::OnceCell;
use std::collections::BTreeSet;

use self::search::{ElfRequest, LinuxLoader};
use super::{Arch, HostPath, Os};
use crate::search as files;

/// A model of the host's dynamic loader. Its configuration is read once and used for all lookups.
pub struct LibraryLoader<'a> {
    host: &'a dyn ReadFiles,
    is_musl: OnceCell<bool>,
    /// `/etc/ld.so.cache`, if it can be read.
    cache: OnceCell<Option<Vec<u8>>>,
}

impl<'a> LibraryLoader<'a> {
    /// Creates a loader for a host. Configuration is read on first use.
    #[must_use]
    pub fn new(host: &'a dyn ReadFiles) -> Self {
        Self { host, is_musl: OnceCell::new(), cache: OnceCell::new() }
    }

    /// The path from which a program loads the library `name` (`libcuda.so.1`, `nvcuda.dll`). `None` if the loader does not
    /// find it. An absolute path is returned unchanged if the file exists.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<HostPath> {
        let host = self.host;
        let path = host.path(name);
        if path.is_absolute() {
            return host.is_file(&path).then_some(path);
        }
        if name.is_empty() {
            return None;
        }
        match host.platform().os {
            Os::Linux => self.find_linux(name),
            Os::Windows => find_windows(host, name),
            Os::Macos => in_folders(host, &macos_folders(host), name),
        }
    }

    fn find_linux(&self, name: &str) -> Option<HostPath> {
        self.first_elf(name, &ElfRequest::plain(self.host.platform().arch, self.default_loader()))
    }

    /// The loader of the distribution's own programs: musl's if only musl is installed, otherwise glibc's.
    #[must_use]
    pub fn default_loader(&self) -> LinuxLoader {
        let is_musl = *self.is_musl.get_or_init(|| is_musl(self.host));
        if is_musl { LinuxLoader::Musl } else { LinuxLoader::Glibc }
    }
}

/// [`LibraryLoader::find`] for a single library.
#[must_use]
pub fn find(host: &dyn ReadFiles, name: &str) -> Option<HostPath> {
    LibraryLoader::new(host).find(name)
}

/// All folders that the loader searches, in order. Used for messages, and to find files whose names contain a version.
#[must_use]
pub fn folders(host: &dyn ReadFiles) -> Vec<HostPath> {
    let mut folders = match host.platform().os {
        Os::Linux if is_musl(host) => [variable(host, "LD_LIBRARY_PATH"), musl_folders(host)].concat(),
        Os::Linux => [
            variable(host, "LD_LIBRARY_PATH"),
            configured_folders(host),
            default_folders(host, search::native(host.platform().arch)),
        ]
        .concat(),
        Os::Windows => windows_folders(host),
        Os::Macos => macos_folders(host),
    };
    let mut seen = BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.key()));
    folders
}

fn in_folders(host: &dyn ReadFiles, folders: &[HostPath], name: &str) -> Option<HostPath> {
    folders.iter().map(|folder| folder.join(name)).find(|path| host.is_file(path))
}

/// Whether a file that starts with these bytes is an ELF file for a different machine number or address size.
fn is_foreign_elf(start: &[u8], (machine, wide): (u16, bool)) -> bool {
    const CLASS_64: u8 = 2;
    start.len() >= 20
        && start.starts_with(b"\x7fELF")
        && ((start[4] == CLASS_64) != wide || start[18..20] != machine.to_le_bytes())
}

/// The absolute folders that a variable lists.
fn variable(host: &dyn HostInfo, name: &str) -> Vec<HostPath> {
    let value = host.env().get(name).unwrap_or_default();
    // glibc accepts both separators.
    value
        .split(|c| c == ':' || (c == ';' && host.platform().os == Os::Linux))
        .map(|folder| host.path(folder))
        .filter(HostPath::is_absolute)
        .collect()
}

fn multiarch(host: &dyn HostInfo) -> &'static str {
    match host.platform().arch {
        Arch::X86_64 => "x86_64-linux-gnu",
        Arch::Aarch64 => "aarch64-linux-gnu",
    }
}

fn default_folders(host: &dyn HostInfo, machine: (u16, bool)) -> Vec<HostPath> {
    let (triplet, wide) = match machine {
        (62, true) => ("x86_64-linux-gnu", "lib64"),
        (183, _) => ("aarch64-linux-gnu", "lib64"),
        (3, _) => ("i386-linux-gnu", "lib32"),
        (40, _) => ("arm-linux-gnueabihf", "lib32"),
        _ => (multiarch(host), "lib64"),
    };
    ["/lib/", "/usr/lib/"]
        .iter()
        .map(|folder| format!("{folder}{triplet}"))
        .chain([format!("/{wide}"), format!("/usr/{wide}"), "/lib".to_owned(), "/usr/lib".to_owned()])
        .map(|folder| host.path(&folder))
        .collect()
}

fn is_musl(host: &dyn ReadFiles) -> bool {
    let loader = format!("/lib/ld-musl-{}.so.1", host.platform().arch.id());
    host.exists(&host.path(&loader))
        && !host.exists(&glibc_loader(host))
        && !default_folders(host, search::native(host.platform().arch))
            .iter()
            .any(|folder| host.is_file(&folder.join("libc.so.6")))
}

/// The path of glibc's dynamic loader, as programs refer to it.
fn glibc_loader(host: &dyn HostInfo) -> HostPath {
    host.path(match host.platform().arch {
        Arch::X86_64 => "/lib64/ld-linux-x86-64.so.2",
        Arch::Aarch64 => "/lib/ld-linux-aarch64.so.1",
    })
}

fn musl_folders(host: &dyn ReadFiles) -> Vec<HostPath> {
    let configuration = format!("/etc/ld-musl-{}.path", host.platform().arch.id());
    let configured = host.read_text(&host.path(&configuration)).unwrap_or_default();
    let folders =
        if configured.trim().is_empty() { "/lib:/usr/local/lib:/usr/lib" } else { configured.as_str() };
    folders.split([':', '\n']).map(|folder| host.path(folder.trim())).filter(HostPath::is_absolute).collect()
}

/// The folders of `/etc/ld.so.conf` and the files that it includes.
fn configured_folders(host: &dyn ReadFiles) -> Vec<HostPath> {
    let mut folders = Vec::new();
    let mut seen = BTreeSet::new();
    read_configuration(host, &host.path("/etc/ld.so.conf"), &mut folders, &mut seen);
    folders
}

fn read_configuration(
    host: &dyn ReadFiles,
    file: &HostPath,
    folders: &mut Vec<HostPath>,
    seen: &mut BTreeSet<String>,
) {
    if !seen.insert(file.key()) {
        return;
    }
    let Ok(text) = host.read_text(file) else { return };
    for line in configuration_lines(&text) {
        match line {
            ConfigurationLine::Folder(folder) => folders.push(host.path(folder)),
            ConfigurationLine::Include(pattern) => {
                let parent = file.parent().unwrap_or_else(|| file.clone());
                for included in files::glob(host, parent.join(pattern).as_str()) {
                    read_configuration(host, &included, folders, seen);
                }
            }
        }
    }
}

/// An entry of `ld.so.conf`.
#[derive(Debug, PartialEq, Eq)]
enum ConfigurationLine<'a> {
    Folder(&'a str),
    Include(&'a str),
}

fn configuration_lines(text: &str) -> Vec<ConfigurationLine<'_>> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let mut words = line.split([' ', '\t', ',', ':']).filter(|word| !word.is_empty());
        match words.next() {
            Some("include") => lines.extend(words.map(ConfigurationLine::Include)),
            Some("hwcap") | None => {}
            // `folder=type` is an obsolete syntax.
            Some(first) => lines.extend(
                std::iter::once(first)
                    .chain(words)
                    .filter_map(|word| word.split('=').next())
                    .filter(|folder| folder.starts_with('/'))
                    .map(ConfigurationLine::Folder),
            ),
        }
    }
    lines
}

fn find_windows(host: &dyn ReadFiles, name: &str) -> Option<HostPath> {
    // The loader appends the default extension.
    let named = if name.contains('.') { name.to_owned() } else { format!("{name}.dll") };
    windows_folders(host).iter().map(|folder| folder.join(&named)).find(|path| host.is_file(path))
}

fn windows_root(host: &dyn HostInfo) -> HostPath {
    let env = host.env();
    host.path(env.get("SystemRoot").or_else(|| env.get("windir")).unwrap_or(r"C:\Windows"))
}

fn windows_folders(host: &dyn HostInfo) -> Vec<HostPath> {
    let root = windows_root(host);
    let path = host
        .env()
        .get("PATH")
        .unwrap_or_default()
        .split(';')
        .map(|folder| host.path(folder.trim_matches('"')));
    [root.join("System32"), root.clone()].into_iter().chain(path.filter(HostPath::is_absolute)).collect()
}

fn macos_folders(host: &dyn HostInfo) -> Vec<HostPath> {
    let mut folders = variable(host, "DYLD_LIBRARY_PATH");
    match host.env().get("DYLD_FALLBACK_LIBRARY_PATH") {
        Some(_) => folders.extend(variable(host, "DYLD_FALLBACK_LIBRARY_PATH")),
        None => folders.extend(["/usr/local/lib", "/usr/lib"].map(|folder| host.path(folder))),
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedHost;
    use crate::recorded::RecordedHostBuilder;

    fn linux() -> RecordedHostBuilder {
        RecordedHost::builder(Os::Linux, Arch::X86_64)
    }

    fn check(host: RecordedHostBuilder, name: &str, expected: Option<&str>) {
        let host = host.build();
        assert_eq!(find(&host, name).as_ref().map(HostPath::as_str), expected);
    }

    fn elf(class: u8, machine: u8) -> Vec<u8> {
        let mut bytes = b"\x7fELF".to_vec();
        bytes.resize(64, 0);
        bytes[4] = class;
        bytes[18] = machine;
        bytes
    }

    #[test]
    fn the_variable_comes_first_and_libraries_for_other_machines_are_skipped() {
        let host = linux()
            .env("LD_LIBRARY_PATH", "relative::/opt/32;/opt/cuda/lib64")
            .bytes("/opt/32/libcuda.so.1", &elf(1, 3))
            .bytes("/opt/cuda/lib64/libcuda.so.1", &elf(2, 62))
            .opaque("/usr/lib/x86_64-linux-gnu/libcuda.so.1");
        check(host, "libcuda.so.1", Some("/opt/cuda/lib64/libcuda.so.1"));
    }

    #[test]
    fn the_cache_precedes_default_folders_and_replaces_the_configuration() {
        let cache = cache::tests::cache(&[
            (0x0303, "libcuda.so.1", "/gone/libcuda.so.1", 0),
            (0x0303, "libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", 0),
        ]);
        let host = || {
            linux()
                .bytes("/etc/ld.so.cache", &cache)
                .file("/etc/ld.so.conf", "/opt/late\n")
                .opaque("/usr/lib/wsl/lib/libcuda.so.1")
                .opaque("/usr/lib/x86_64-linux-gnu/libcuda.so.1")
                .opaque("/usr/lib/x86_64-linux-gnu/libvulkan.so.1")
                .opaque("/opt/late/libze.so.1")
        };
        check(host(), "libcuda.so.1", Some("/usr/lib/wsl/lib/libcuda.so.1"));
        check(host(), "libvulkan.so.1", Some("/usr/lib/x86_64-linux-gnu/libvulkan.so.1"));
        check(host(), "libze.so.1", None);
    }

    #[test]
    fn without_a_cache_the_configuration_is_used() {
        let host = linux()
            .file(
                "/etc/ld.so.conf",
                "# comment\ninclude ld.so.conf.d/*.conf\ninclude /etc/ld.so.conf\n/last\n",
            )
            .file("/etc/ld.so.conf.d/10-rocm.conf", "/opt/rocm/lib, /opt/rocm/lib64 # both\n")
            .file("/etc/ld.so.conf.d/readme", "/never")
            .opaque("/opt/rocm/lib64/libamdhip64.so.6");
        let built = host.clone().build();
        let folders = folders(&built);
        let folders: Vec<&str> = folders.iter().map(HostPath::as_str).collect();
        assert_eq!(folders[..3], ["/opt/rocm/lib", "/opt/rocm/lib64", "/last"]);
        check(host, "libamdhip64.so.6", Some("/opt/rocm/lib64/libamdhip64.so.6"));
    }

    #[test]
    fn default_folders_are_searched_and_absolute_paths_are_checked() {
        check(
            linux().opaque("/usr/lib64/libOpenCL.so.1"),
            "libOpenCL.so.1",
            Some("/usr/lib64/libOpenCL.so.1"),
        );
        check(linux().directory("/usr/lib64/libOpenCL.so.1"), "libOpenCL.so.1", None);
        check(linux().link("/usr/lib/libx.so", "/gone"), "libx.so", None);
        check(linux().opaque("/a/libx.so"), "/a/libx.so", Some("/a/libx.so"));
        check(linux(), "/a/libx.so", None);
        check(linux(), "", None);
    }

    #[test]
    fn musl_uses_its_own_folder_list() {
        let host = linux()
            .file("/lib/ld-musl-x86_64.so.1", "")
            .file("/etc/ld-musl-x86_64.path", "/lib\n/opt/lib\n")
            .opaque("/opt/lib/libvulkan.so.1")
            .opaque("/usr/lib/libOpenCL.so.1");
        check(host.clone(), "libvulkan.so.1", Some("/opt/lib/libvulkan.so.1"));
        check(host, "libOpenCL.so.1", None);
    }

    #[test]
    fn windows_searches_system32_before_path() {
        let windows = || RecordedHost::builder(Os::Windows, Arch::X86_64).env("Path", r"C:\x;C:\CUDA\bin");
        let host = windows().opaque(r"C:\Windows\System32\nvcuda.dll").opaque(r"C:\x\nvcuda.dll");
        check(host, "NVCUDA.DLL", Some(r"C:\Windows\System32\NVCUDA.DLL"));
        let host = windows().opaque(r"C:\CUDA\bin\cudart64_12.dll");
        check(host, "cudart64_12.dll", Some(r"C:\CUDA\bin\cudart64_12.dll"));
        let host = windows().env("SystemRoot", r"D:\Win").opaque(r"D:\Win\System32\vulkan-1.dll");
        check(host, "vulkan-1", Some(r"D:\Win\System32\vulkan-1.dll"));
    }

    #[test]
    fn macos_searches_dyld_variables_before_fallback_folders() {
        let macos = || RecordedHost::builder(Os::Macos, Arch::Aarch64);
        let host = macos().opaque("/usr/local/lib/libvulkan.1.dylib");
        check(host, "libvulkan.1.dylib", Some("/usr/local/lib/libvulkan.1.dylib"));
        check(macos().opaque("/opt/homebrew/lib/libvulkan.1.dylib"), "libvulkan.1.dylib", None);
        let host = macos()
            .env("DYLD_LIBRARY_PATH", "/opt/homebrew/lib")
            .opaque("/opt/homebrew/lib/libvulkan.1.dylib");
        check(host, "libvulkan.1.dylib", Some("/opt/homebrew/lib/libvulkan.1.dylib"));
    }
}
