//! A repository of small packages for apt, and the command that uses it in place of the system's sources.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};

use crate::sandbox::{RunResult, on_path, skip};

/// The temporary folders of a test.
pub(crate) struct Repository {
    folder: tempfile::TempDir,
    triplet: String,
    arch: String,
}

/// A package: name, version, other control fields, and files with their content; `->` before a content makes a link.
struct Package<'a>(&'a str, &'a str, &'a str, &'a [(&'a str, &'a str)]);

const HEADER: &str = "#define VK_HEADER_VERSION 999\n#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION(0, 1, 3, VK_HEADER_VERSION)\n";
const PKG_CONFIG: &str = "prefix=/usr\nincludedir=${prefix}/include\nName: Vulkan\nDescription: v\nVersion: 1.3.999\nCflags: -I${includedir}\n";

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Whether sets of packages are described for this system.
fn is_described() -> bool {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim_matches('"').to_owned()
    };
    let version: f64 = value("VERSION_ID").parse().unwrap_or_default();
    (value("ID") == "debian" && version >= 12.0) || (value("ID") == "ubuntu" && version >= 24.0)
}

impl Repository {
    /// A repository with the packages of Vulkan. Prints why and returns `None` on systems other than Debian and Ubuntu.
    pub(crate) fn new() -> Option<Self> {
        if on_path("apt-get").is_none() || on_path("dpkg-deb").is_none() || !is_described() {
            skip("apt", "no Debian 12 or Ubuntu 24.04");
            return None;
        }
        let arch = output(Command::new("dpkg").arg("--print-architecture"));
        let machine = if arch == "arm64" { "aarch64" } else { "x86_64" };
        let folder = tempfile::tempdir().unwrap();
        let repository = Self { folder, triplet: format!("{machine}-linux-gnu"), arch };
        std::fs::create_dir_all(repository.path("lists/partial")).unwrap();
        let root = repository.folder.path().display().to_string();
        std::fs::write(repository.path("status"), "").unwrap();
        std::fs::write(repository.path("sources.list"), format!("deb [trusted=yes] file:{root}/repo ./\n"))
            .unwrap();
        let configuration = format!(
            "Dir::Etc::sourcelist \"{root}/sources.list\";\nDir::Etc::sourceparts \"-\";\n\
             Dir::State::lists \"{root}/lists\";\nDir::State::status \"{root}/status\";\n"
        );
        std::fs::write(repository.path("apt.conf"), configuration).unwrap();
        repository.fill();
        Some(repository)
    }

    fn fill(&self) {
        let lib = |name: &str| format!("usr/lib/{}/{name}", self.triplet);
        let absolute = format!("->/usr/lib/{}/libvulkan.so.1", self.triplet);
        // Stands in for a program that needs its library: it lists where the loader would search.
        let glslc = "#!/bin/sh\nIFS=:\nfor d in $LD_LIBRARY_PATH; do [ -f \"$d/libshaderc.so.1\" ] && { echo \"shaderc $*\"; exit 0; }; done\nexit 1\n";
        for package in [
            Package(
                "libvulkan-dev",
                "1:1.3.999.0-1",
                "Depends: libvulkan1, libc6\n",
                &[
                    ("usr/include/vulkan/vulkan.h", "#include \"vulkan_core.h\"\n"),
                    ("usr/include/vulkan/vulkan_core.h", HEADER),
                    (&lib("libvulkan.so"), "->libvulkan.so.1"),
                    (&lib("libabsolute.so"), &absolute),
                    (&lib("libdangling.so"), "->/usr/lib/nowhere/libdangling.so.1"),
                    ("usr/include/passwd", "->../../etc/passwd"),
                    (&lib("pkgconfig/vulkan.pc"), PKG_CONFIG),
                ],
            ),
            Package("libvulkan1", "1.3.999.0-1", "Depends: libc6\n", &[(&lib("libvulkan.so.1"), "loader")]),
            Package("glslc", "2023.2-1", "Depends: libshaderc1 (= 2023.2-1)\n", &[("usr/bin/glslc", glslc)]),
            Package("libshaderc1", "2023.2-1", "Depends: libc6\n", &[(&lib("libshaderc.so.1"), "shaderc")]),
            Package(
                "spirv-headers",
                "1.6-1",
                "",
                &[
                    ("usr/include/spirv/unified1/spirv.h", "/* */\n"),
                    ("usr/share/man/man1/x.1", "page"),
                    ("usr/share/doc/spirv-headers/copyright", "licence"),
                    ("lib/udev/rules", "rule"),
                ],
            ),
            Package("libc6", "2.99-1", "", &[("usr/lib/evil", "must not be unpacked")]),
        ] {
            self.package(&package, &self.arch);
        }
        self.index();
    }

    /// Adds the packages of Vulkan for another platform, and returns Rust's name of it. Its libraries depend on a program.
    pub(crate) fn add_target(&self) -> String {
        let (arch, machine) = if self.arch == "arm64" { ("amd64", "x86_64") } else { ("arm64", "aarch64") };
        let lib = |name: &str| format!("usr/lib/{machine}-linux-gnu/{name}");
        let files: &[(&str, &str)] = &[
            ("usr/include/vulkan/vulkan.h", "#include \"vulkan_core.h\"\n"),
            ("usr/include/vulkan/vulkan_core.h", HEADER),
            (&lib("libvulkan.so"), "->libvulkan.so.1"),
            (&lib("pkgconfig/vulkan.pc"), PKG_CONFIG),
        ];
        let helper = [("usr/bin/helper", "#!/bin/sh\n")];
        self.package(&Package("helper", "1-1", "Multi-Arch: foreign\n", &helper), &self.arch);
        for package in [
            Package("libvulkan-dev", "1:1.3.999.0-1", "Depends: libvulkan1, libc6, helper\n", files),
            Package(
                "libvulkan1",
                "1.3.999.0-1",
                "Depends: libc6\n",
                &[(&lib("libvulkan.so.1"), "loader of the target")],
            ),
            Package("libc6", "2.99-1", "", &[("usr/lib/evil", "must not be unpacked")]),
            Package("spirv-headers", "1.6-1", "", &[("usr/include/spirv/unified1/spirv.h", "/* */\n")]),
        ] {
            self.package(&package, arch);
        }
        self.index();
        format!("{machine}-unknown-linux-gnu")
    }

    fn package(&self, package: &Package<'_>, arch: &str) {
        let Package(name, version, fields, files) = *package;
        let root = self.path("build").join(arch).join(name);
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            match content.strip_prefix("->") {
                Some(target) => std::os::unix::fs::symlink(target, &path).unwrap(),
                None => std::fs::write(&path, content).unwrap(),
            }
            if content.starts_with("#!") {
                output(Command::new("chmod").arg("755").arg(&path));
            }
        }
        std::fs::create_dir_all(root.join("DEBIAN")).unwrap();
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {arch}\nMaintainer: t <t@example.org>\n{fields}Description: test\n"
        );
        std::fs::write(root.join("DEBIAN/control"), control).unwrap();
        std::fs::create_dir_all(self.path("repo")).unwrap();
        let file = self.file(name, version, arch);
        output(Command::new("dpkg-deb").args(["--root-owner-group", "-Znone", "-b"]).arg(&root).arg(file));
    }

    fn file(&self, name: &str, version: &str, arch: &str) -> PathBuf {
        // As in an archive, the name of the file lacks the epoch.
        let version = version.split_once(':').map_or(version, |(_, version)| version);
        self.path("repo").join(format!("{name}_{version}_{arch}.deb"))
    }

    /// Writes the package list.
    pub(crate) fn index(&self) {
        let mut text = String::new();
        let mut names: Vec<_> =
            std::fs::read_dir(self.path("repo")).unwrap().map(|one| one.unwrap().path()).collect();
        names.sort();
        for path in names.iter().filter(|path| path.extension().is_some_and(|end| end == "deb")) {
            let bytes = std::fs::read(path).unwrap();
            let mut hash = String::new();
            for byte in Sha256::digest(&bytes) {
                let _ = write!(hash, "{byte:02x}");
            }
            let control = output(Command::new("dpkg-deb").arg("-f").arg(path));
            let name = path.file_name().unwrap().to_str().unwrap();
            let _ = writeln!(text, "{control}\nFilename: ./{name}\nSize: {}\nSHA256: {hash}\n", bytes.len());
        }
        std::fs::write(self.path("repo/Packages"), text).unwrap();
    }

    /// Removes a package from the repository and its list.
    pub(crate) fn remove(&self, name: &str) {
        let folder = self.path("repo");
        for entry in std::fs::read_dir(&folder).unwrap().map(|one| one.unwrap().path()) {
            if entry.file_name().unwrap().to_str().unwrap().starts_with(&format!("{name}_")) {
                std::fs::remove_file(entry).unwrap();
            }
        }
        self.index();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path in the installation.
    pub(crate) fn prefix(&self, name: &str) -> PathBuf {
        self.path("cache/toolkits/vulkan-1.3.999.0/prefix").join(name.replace("{triplet}", &self.triplet))
    }

    /// The command with its own cache and apt configuration.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
        command.args(arguments).current_dir(self.folder.path()).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", self.folder.path());
        command.env("GPUBUILD_CACHE", self.path("cache")).env("APT_CONFIG", self.path("apt.conf"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> RunResult {
        RunResult::from(self.command(arguments).output().unwrap())
    }

    pub(crate) fn install(&self, more: &[&str]) -> RunResult {
        self.run(&[&["toolkit", "install", "vulkan"], more].concat())
    }

    /// Fills the lists that stand in for the system's.
    pub(crate) fn update(&self) {
        output(Command::new("apt-get").args(["update", "-qq"]).env("APT_CONFIG", self.path("apt.conf")));
    }

    /// Checks that nothing is installed or listed.
    #[track_caller]
    pub(crate) fn holds_nothing(&self) {
        assert!(!self.path("cache/toolkits/vulkan-1.3.999.0").exists(), "a partial installation exists");
        assert_eq!(self.run(&["toolkit", "list", "--json"]).json()["installed"], serde_json::json!([]));
    }
}

/// The target of a link.
#[track_caller]
pub(crate) fn link(path: &Path) -> String {
    std::fs::read_link(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .display()
        .to_string()
}
