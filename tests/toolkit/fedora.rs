//! Toolkits from the packages of Fedora: dnf and rpm with a repository of small signed packages, and Fedora's os-release in a mount
//! namespace.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::sandbox::{RunResult, on_path, skip};

/// The programs that make and use the repository.
const PROGRAMS: [&str; 8] = ["dnf", "rpm", "rpmbuild", "rpmkeys", "rpmsign", "createrepo_c", "gpg", "cpio"];

/// Runs the command that follows with the files of a test in place of the system's.
const INSIDE: &str =
    "mount --bind os-release /usr/lib/os-release && mount --bind dnf.conf /etc/dnf/dnf.conf && exec \"$@\"";

/// Changes a byte near the end of the file that follows, in the compressed files of a package.
const CHANGE: &str =
    "change() { printf X | dd of=$1 bs=1 seek=$(($(stat -c %s $1) - 40)) conv=notrunc; }; change";

/// A package: name, architecture, lines of its spec file, and files with their content; `->` before a content makes a link.
struct Package<'a>(&'a str, &'a str, &'a str, &'a [(&'a str, &'a str)]);

/// The temporary folders of a test.
struct Repository {
    folder: tempfile::TempDir,
}

impl Repository {
    /// A repository with the packages of Vulkan. Prints why and returns `None` without the programs and namespaces that it needs.
    fn new() -> Option<Self> {
        if let Some(program) = PROGRAMS.into_iter().find(|program| on_path(program).is_none()) {
            skip("dnf", &format!("no {program}"));
            return None;
        }
        let repository = Self { folder: tempfile::tempdir().unwrap() };
        repository.write(
            "os-release",
            "NAME=\"Fedora Linux\"\nID=fedora\nVERSION_ID=41\nPLATFORM_ID=\"platform:f41\"\n",
        );
        let root = repository.folder.path().display();
        repository.write(
            "dnf.conf",
            &format!(
                "[main]\ngpgcheck=1\nplugins=1\ncachedir={root}/lists\nlogdir={root}/log\nreposdir={root}/none\n\
                 [local]\nname=local\nbaseurl=file://{root}/repo\ngpgcheck=1\ngpgkey=file://{root}/key\n"
            ),
        );
        if !repository.inside(&["true"]).status().is_ok_and(|status| status.success()) {
            skip("dnf", "no mount namespaces");
            return None;
        }
        repository.make_key();
        repository.fill();
        repository.sign_and_index("repo");
        Some(repository)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Runs a script of `sh` in the folder, with the key and the database of packages of this test.
    #[track_caller]
    fn sh(&self, script: &str) {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(self.folder.path());
        command.env("HOME", self.folder.path()).env("GNUPGHOME", self.path("gnupg"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn make_key(&self) {
        self.sh("mkdir -m 700 gnupg
            gpg --batch --quiet --passphrase '' --quick-gen-key test rsa2048 sign never
            gpg --armor --export > key
            rpm --import key");
    }

    fn fill(&self) {
        let pc = "prefix=/usr\nincludedir=${prefix}/include\nName: Vulkan\nDescription: v\nVersion: 1.3.999\nCflags: -I${includedir}\n";
        let core = "#define VK_HEADER_VERSION 999\n#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION(0, 1, 3, VK_HEADER_VERSION)\n";
        // Stands in for a program that needs its library: it lists where the loader would search.
        let glslc = "#!/bin/sh\nIFS=:\nfor d in $LD_LIBRARY_PATH; do [ -f \"$d/libshaderc.so.1\" ] && { echo \"shaderc $*\"; exit 0; }; done\nexit 1\n";
        let libc = "Requires: libc.so.6()(64bit)";
        let loader = "Requires: libc.so.6()(64bit)\nProvides: vulkan-loader(x86-64)";
        for package in [
            Package(
                "glibc",
                "x86_64",
                "Provides: libc.so.6()(64bit)",
                &[("usr/lib64/evil", "must not be unpacked")],
            ),
            Package("glibc", "i686", "Provides: libc.so.6", &[("usr/lib/evil", "must not be unpacked")]),
            Package(
                "vulkan-headers",
                "noarch",
                "",
                &[
                    ("usr/include/vulkan/vulkan.h", "#include \"vulkan_core.h\"\n"),
                    ("usr/include/vulkan/vulkan_core.h", core),
                ],
            ),
            Package("vulkan-loader", "x86_64", loader, &[("usr/lib64/libvulkan.so.1", "loader")]),
            Package("vulkan-loader", "i686", "Requires: libc.so.6", &[("usr/lib/libvulkan.so.1", "32 bits")]),
            Package(
                "vulkan-loader-devel",
                "x86_64",
                "Requires: vulkan-headers, vulkan-loader(x86-64)",
                &[("usr/lib64/libvulkan.so", "->libvulkan.so.1"), ("usr/lib64/pkgconfig/vulkan.pc", pc)],
            ),
            Package("libshaderc", "x86_64", libc, &[("usr/lib64/libshaderc.so.1", "shaderc")]),
            Package("glslc", "x86_64", "Requires: libshaderc", &[("usr/bin/glslc", glslc)]),
            Package(
                "spirv-headers-devel",
                "noarch",
                "",
                &[("usr/include/spirv/unified1/spirv.h", "/* */\n")],
            ),
        ] {
            self.package(&package);
        }
    }

    fn package(&self, Package(name, arch, lines, files): &Package<'_>) {
        let root = format!("build/{name}.{arch}");
        let mut list = String::new();
        for (path, content) in *files {
            match content.strip_prefix("->") {
                Some(target) => {
                    std::fs::create_dir_all(self.path(&root).join(path).parent().unwrap()).unwrap();
                    std::os::unix::fs::symlink(target, self.path(&root).join(path)).unwrap();
                }
                None => self.write(&format!("{root}/{path}"), content),
            }
            let mode = if content.starts_with("#!") { "%attr(755, root, root) " } else { "" };
            writeln!(list, "{mode}/{path}").unwrap();
        }
        let arch_line = if *arch == "noarch" { "BuildArch: noarch\n" } else { "" };
        let from = self.path(&root).display().to_string();
        let spec = format!(
            "Name: {name}\nVersion: 1.3.999.0\nRelease: 1.fc41\nSummary: test\nLicense: MIT\nAutoReqProv: no\n{arch_line}{lines}\n\
             %description\ntest\n%install\nmkdir -p %{{buildroot}}\ncp -a {from}/. %{{buildroot}}/\n%files\n{list}"
        );
        self.write("build/package.spec", &spec);
        self.sh(&format!(
            "rpmbuild -bb --quiet --target {arch} --define \"_rpmdir $PWD/repo\" --define \"_topdir $PWD/build/top\" \
             --define '_build_id_links none' --define '__os_install_post %{{nil}}' \
             --define '_rpmfilename %%{{NAME}}-%%{{VERSION}}-%%{{RELEASE}}.%%{{ARCH}}.rpm' build/package.spec"
        ));
    }

    fn sign_and_index(&self, folder: &str) {
        self.sh(&format!(
            "rpmsign --define '_gpg_name test' --define \"__gpg $(command -v gpg)\" --addsign {folder}/*.rpm\ncreaterepo_c --quiet {folder}"
        ));
    }

    /// A command in a mount namespace with Fedora's os-release and the configuration of the repository.
    fn inside(&self, command: &[&str]) -> Command {
        let mut inside = Command::new("unshare");
        inside
            .args(["-rm", "sh", "-c", INSIDE, "sh"])
            .args(command)
            .current_dir(self.folder.path())
            .env_clear();
        inside.env("PATH", "/usr/bin:/bin").env("HOME", self.folder.path());
        inside.env("GPUBUILD_CACHE", self.path("cache"));
        inside
    }

    fn run(&self, arguments: &[&str]) -> RunResult {
        let all = [&[env!("CARGO_BIN_EXE_gpubuild")], arguments].concat();
        RunResult::from(self.inside(&all).output().unwrap())
    }

    fn install(&self, more: &[&str]) -> RunResult {
        self.run(&[&["toolkit", "install", "vulkan"], more].concat())
    }

    fn prefix(&self, name: &str) -> PathBuf {
        self.path("cache/toolkits/vulkan-1.3.999.0/prefix").join(name)
    }

    /// Checks that nothing is installed or listed.
    #[track_caller]
    fn holds_nothing(&self) {
        assert!(!self.prefix("").exists(), "a partial installation exists");
        assert_eq!(self.run(&["toolkit", "list", "--json"]).json()["installed"], serde_json::json!([]));
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        // The agent of gpg would run until it notices that its folder is gone.
        let _ = Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", self.path("gnupg")).status();
    }
}

#[test]
fn packages_become_a_prefix() {
    let Some(repository) = Repository::new() else { return };
    repository.install(&[]).succeeds().says(&["vulkan 1.3.999.0 is installed"]);
    let content = |name: &str| std::fs::read_to_string(repository.prefix(name)).unwrap();
    assert_eq!(content("lib64/libvulkan.so"), "loader");
    assert!(content("lib64/pkgconfig/vulkan.pc").starts_with("prefix=${pcfiledir}/../..\n"));
    for absent in ["lib64/evil", "lib/evil", "lib/libvulkan.so.1"] {
        assert!(repository.prefix(absent).symlink_metadata().is_err(), "{absent}");
    }
    let glslc = Command::new(repository.prefix("bin/glslc")).arg("x").output().unwrap();
    assert_eq!(String::from_utf8(glslc.stdout).unwrap(), "shaderc x\n");
    let list = repository.run(&["toolkit", "list", "--json"]).json();
    let packages = list["installed"][0]["packages"].as_array().unwrap();
    let names: Vec<&str> = packages.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let expected = [
        "glslc",
        "libshaderc",
        "spirv-headers-devel",
        "vulkan-headers",
        "vulkan-loader",
        "vulkan-loader-devel",
    ];
    assert_eq!(names, expected);
    repository.run(&["toolkit", "verify"]).succeeds();
    repository.run(&["toolkit", "remove", "vulkan"]).succeeds();
    repository.holds_nothing();
}

#[test]
fn unsigned_changed_and_missing_packages_are_rejected() {
    let Some(repository) = Repository::new() else { return };
    repository.sh("cp -a repo good; rpmsign --delsign repo/glslc*.rpm; createrepo_c --quiet repo");
    repository.install(&[]).fails(1, "toolkit.package-unsigned").says(&["glslc-1.3.999.0-1.fc41.x86_64.rpm"]);
    repository.holds_nothing();
    // Changed after the list was written.
    repository.sh(
        "rm -r repo lists; cp -a good repo; printf X | dd of=$(ls repo/glslc*) bs=1 seek=3000 conv=notrunc",
    );
    repository.install(&[]).fails(1, "toolkit.package-changed");
    repository.holds_nothing();
    for (name, id) in [("glslc", "toolkit.package-missing"), ("libshaderc", "toolkit.package-conflict")] {
        repository
            .sh(&format!("rm -r repo lists; cp -a good repo; rm repo/{name}-*; createrepo_c --quiet repo"));
        repository.install(&[]).fails(1, id).says(&[name]);
        repository.holds_nothing();
    }
}

#[test]
fn offline_uses_only_signed_packages_of_a_folder() {
    let Some(repository) = Repository::new() else { return };
    repository.install(&["--offline"]).fails(1, "fetch.offline");
    let made = repository.inside(&["dnf", "-q", "makecache"]).status().unwrap();
    assert!(made.success());
    repository.install(&["--offline"]).fails(1, "fetch.offline").says(&["glslc-1.3.999.0-1.fc41.x86_64.rpm"]);
    repository.sh("mv repo good; cp -a good links");
    let install = || repository.install(&["--offline", "--find-links", "links"]);
    for change in [
        &format!("{CHANGE} links/glslc*"),
        "printf X >> $(ls links/glslc*)",
        "rpmsign --delsign links/glslc*.rpm",
        // Another package under the name.
        "cp links/libshaderc* $(ls links/glslc*)",
    ] {
        repository.sh(&format!("rm -r links; cp -a good links; {change}"));
        install().fails(1, "fetch.offline").says(&["glslc-1.3.999.0-1.fc41.x86_64.rpm"]);
        repository.holds_nothing();
    }
    repository.sh("rm -r links; cp -a good links");
    install().succeeds();
    repository.run(&["toolkit", "verify"]).succeeds();
}
