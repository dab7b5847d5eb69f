//! Linux: distributions, compilers, containers, WSL.

use std::fmt::Write as _;

use gpubuild_host::{Arch, Os};

use super::Machine;

/// Group ids of Debian and its derivatives.
pub const VIDEO: u32 = 44;
pub const RENDER: u32 = 109;

impl Machine {
    /// An Ubuntu desktop or server, such as `24.04`.
    pub fn ubuntu(version: &str) -> Self {
        let (name, kernel, glibc, gcc, cmake) = match version {
            "20.04" => ("focal", "5.15.0-105-generic", 31, 9, "3.16"),
            "22.04" => ("jammy", "6.5.0-44-generic", 35, 11, "3.22"),
            "24.04" => ("noble", "6.8.0-45-generic", 39, 13, "3.28"),
            "25.10" => ("questing", "6.17.0-5-generic", 42, 15, "3.31"),
            other => panic!("no Ubuntu {other}"),
        };
        Self::linux(
            "ubuntu",
            version,
            &format!(
                "PRETTY_NAME=\"Ubuntu {version} LTS\"\nNAME=Ubuntu\nVERSION_CODENAME={name}\nID_LIKE=debian\n"
            ),
        )
        .debian_layout()
        .kernel(kernel)
        .glibc(glibc)
        .gcc(gcc)
        .tools(cmake)
    }

    /// Debian, such as `12`.
    pub fn debian(version: &str) -> Self {
        let (name, kernel, glibc, gcc, cmake) = match version {
            "11" => ("bullseye", "5.10.0-28-amd64", 31, 10, "3.18"),
            "12" => ("bookworm", "6.1.0-26-amd64", 36, 12, "3.25"),
            "13" => ("trixie", "6.12.43+deb13-amd64", 41, 14, "3.31"),
            other => panic!("no Debian {other}"),
        };
        Self::linux(
            "debian",
            version,
            &format!("PRETTY_NAME=\"Debian GNU/Linux {version} ({name})\"\nVERSION_CODENAME={name}\n"),
        )
        .debian_layout()
        .kernel(kernel)
        .glibc(glibc)
        .gcc(gcc)
        .tools(cmake)
    }

    /// Fedora, such as `41`.
    pub fn fedora(version: &str) -> Self {
        let (kernel, glibc, gcc, cmake) = match version {
            "40" => ("6.8.5-301.fc40.x86_64", 39, 14, "3.28"),
            "41" => ("6.11.4-301.fc41.x86_64", 40, 14, "3.30"),
            "42" => ("6.14.0-63.fc42.x86_64", 41, 15, "3.31"),
            "43" => ("6.17.1-300.fc43.x86_64", 42, 15, "3.31"),
            other => panic!("no Fedora {other}"),
        };
        Self::linux(
            "fedora",
            version,
            &format!("PRETTY_NAME=\"Fedora Linux {version} (Workstation Edition)\"\n"),
        )
        .lib64_layout()
        .kernel(kernel)
        .glibc(glibc)
        .gcc_plain(gcc, "x86_64-redhat-linux")
        .tools(cmake)
    }

    /// A Red Hat derivative, such as `rocky` and `9`.
    pub fn rhel_like(id: &str, version: &str) -> Self {
        let (kernel, glibc, gcc) = match version {
            "8" => ("4.18.0-553.el8_10.x86_64", 28, 8),
            "9" => ("5.14.0-427.el9.x86_64", 34, 11),
            other => panic!("no {id} {other}"),
        };
        Self::linux(id, version, &format!("PRETTY_NAME=\"{id} {version}\"\nID_LIKE=\"rhel centos fedora\"\n"))
            .lib64_layout()
            .kernel(kernel)
            .glibc(glibc)
            .gcc_plain(gcc, "x86_64-redhat-linux")
            .tools("3.26")
    }

    /// Arch Linux.
    pub fn arch_linux() -> Self {
        let mut machine = Self::linux("arch", "", "PRETTY_NAME=\"Arch Linux\"\nBUILD_ID=rolling\n");
        "/usr/lib".clone_into(&mut machine.lib);
        machine
            .kernel("6.11.5-arch1-1")
            .glibc(40)
            .gcc_plain(14, "x86_64-pc-linux-gnu")
            .tools("3.31")
            .opaque("/usr/lib/libc.so.6")
    }

    /// openSUSE: `tumbleweed` or `15.6`.
    pub fn opensuse(version: &str) -> Self {
        let (id, kernel, glibc, gcc) = match version {
            "tumbleweed" => ("opensuse-tumbleweed", "6.11.3-1-default", 40, 14),
            "15.6" => ("opensuse-leap", "6.4.0-150600.23.25-default", 38, 7),
            other => panic!("no openSUSE {other}"),
        };
        Self::linux(id, version, &format!("PRETTY_NAME=\"openSUSE {version}\"\nID_LIKE=\"suse opensuse\"\n"))
            .lib64_layout()
            .kernel(kernel)
            .glibc(glibc)
            .gcc(gcc)
            .tools("3.28")
    }

    /// Alpine, which uses musl.
    pub fn alpine() -> Self {
        let mut machine = Self::linux("alpine", "3.20.3", "PRETTY_NAME=\"Alpine Linux v3.20\"\n");
        "/usr/lib".clone_into(&mut machine.lib);
        machine
            .kernel("6.6.58-0-lts")
            .opaque("/lib/ld-musl-x86_64.so.1")
            .gcc_plain(13, "x86_64-alpine-linux-musl")
            .tools("3.29")
    }

    fn linux(id: &str, version: &str, more: &str) -> Self {
        let version_id = if version.is_empty() || version == "tumbleweed" {
            String::new()
        } else {
            format!("VERSION_ID=\"{version}\"\n")
        };
        Self::new(Os::Linux, Arch::X86_64)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", "/home/user")
            .env("USER", "user")
            .user(1000, &[1000, 27, VIDEO, RENDER])
            .file("/etc/os-release", &format!("{more}{version_id}ID={id}\n"))
            .file("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n")
            .file(
                "/etc/group",
                "root:x:0:\nsudo:x:27:user\nvideo:x:44:user\nrender:x:109:user\nuser:x:1000:\n",
            )
            .cpu("AMD Ryzen 7 5800X 8-Core Processor")
            .file(
                "/proc/meminfo",
                "MemTotal:       33554432 kB\nMemFree:        16777216 kB\nMemAvailable:   25165824 kB\n",
            )
    }

    /// Sets the CPU name; it has eight threads with AVX2.
    pub fn cpu(self, name: &str) -> Self {
        let maker = if name.contains("Intel") { "GenuineIntel" } else { "AuthenticAMD" };
        let flags = "fpu sse sse2 ssse3 sse4_1 sse4_2 popcnt cx16 lahf_lm avx avx2 bmi1 bmi2 f16c fma movbe abm xsave";
        let mut text = String::new();
        for index in 0..8 {
            let _ = writeln!(
                text,
                "processor\t: {index}\nvendor_id\t: {maker}\nmodel name\t: {name}\nflags\t\t: {flags}\n"
            );
        }
        self.file("/proc/cpuinfo", &text)
    }

    /// Sets the running kernel.
    pub fn kernel(self, release: &str) -> Self {
        self.file("/proc/sys/kernel/osrelease", &format!("{release}\n"))
            .folder(&format!("/lib/modules/{release}/kernel/drivers"))
    }

    /// The release of the running kernel.
    pub fn kernel_release(&self) -> String {
        let host = self.host();
        let text = gpubuild_host::ReadFiles::read_text(
            &host,
            &gpubuild_host::HostInfo::path(&host, "/proc/sys/kernel/osrelease"),
        );
        text.expect("a Linux host has a kernel").trim().to_owned()
    }

    fn debian_layout(mut self) -> Self {
        "/usr/lib/x86_64-linux-gnu".clone_into(&mut self.lib);
        self.opaque("/lib/x86_64-linux-gnu/libc.so.6")
            .file("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
            .file(
                "/etc/ld.so.conf.d/x86_64-linux-gnu.conf",
                "/usr/local/lib/x86_64-linux-gnu\n/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n",
            )
    }

    fn lib64_layout(mut self) -> Self {
        "/usr/lib64".clone_into(&mut self.lib);
        self.opaque("/lib64/libc.so.6").file("/etc/ld.so.conf", "include ld.so.conf.d/*.conf\n")
    }

    /// Sets glibc 2.`minor`.
    pub fn glibc(self, minor: u32) -> Self {
        self.file(
            "/usr/include/features.h",
            &format!("#define\t__GLIBC__\t2\n#define\t__GLIBC_MINOR__\t{minor}\n"),
        )
    }

    /// Adds Debian's GCC as the default compiler.
    pub fn gcc(self, major: u32) -> Self {
        self.gcc_beside(major)
            .link("/usr/bin/gcc", &format!("gcc-{major}"))
            .link("/usr/bin/g++", &format!("g++-{major}"))
    }

    /// Adds another GCC under a versioned name.
    pub fn gcc_beside(self, major: u32) -> Self {
        self.program(&format!("/usr/bin/x86_64-linux-gnu-gcc-{major}"))
            .link(&format!("/usr/bin/gcc-{major}"), &format!("x86_64-linux-gnu-gcc-{major}"))
            .program(&format!("/usr/bin/x86_64-linux-gnu-g++-{major}"))
            .link(&format!("/usr/bin/g++-{major}"), &format!("x86_64-linux-gnu-g++-{major}"))
            .folder(&format!("/usr/lib/gcc/x86_64-linux-gnu/{major}"))
    }

    /// Adds GCC without a version in its name; only its output has the version.
    pub fn gcc_plain(self, major: u32, triplet: &str) -> Self {
        let version = format!("gcc (GCC) {major}.2.1\n");
        self.program("/usr/bin/gcc")
            .program("/usr/bin/g++")
            .folder(&format!("/usr/lib/gcc/{triplet}/{major}"))
            .command(&["/usr/bin/gcc", "--version"], &version)
            .command(&["/usr/bin/gcc", "-dumpfullversion"], &format!("{major}.2.1\n"))
    }

    /// Removes all compilers.
    pub fn without_compiler(mut self) -> Self {
        self.files.retain(|path, _| {
            !path.starts_with("/usr/bin/") || !(path.contains("gcc") || path.contains("g++"))
        });
        self.commands.retain(|command| !command.argv[0].contains("gcc"));
        self
    }

    fn tools(self, cmake: &str) -> Self {
        self.program("/usr/bin/cmake")
            .folder(&format!("/usr/share/cmake-{cmake}/Modules"))
            .program("/usr/bin/ninja")
            .program("/usr/bin/python3.11")
            .link("/usr/bin/python3", "python3.11")
    }

    /// Puts the host into a Docker container, as root.
    pub fn docker(self) -> Self {
        self.file("/.dockerenv", "")
            .file("/proc/1/cgroup", "0::/\n")
            .env("HOME", "/root")
            .env("USER", "root")
            .user(0, &[0])
    }

    /// Puts the host into a rootless Podman container.
    pub fn podman(self) -> Self {
        self.file("/run/.containerenv", "engine=\"podman-4.9.4\"\nrootless=1\n")
            .env("container", "podman")
            .user(0, &[0])
    }

    /// Puts the host into a Kubernetes pod.
    pub fn kubernetes(self) -> Self {
        self.env("KUBERNETES_SERVICE_HOST", "10.96.0.1")
            .env("KUBERNETES_SERVICE_PORT", "443")
            .folder("/var/run/secrets/kubernetes.io/serviceaccount")
            .file("/proc/1/cgroup", "0::/kubepods.slice/kubepods-pod1234.slice\n")
            .user(0, &[0])
    }

    /// WSL 2 with the GPU of Windows behind `/dev/dxg`.
    pub fn wsl(self) -> Self {
        self.wsl_without_gpu().device("/dev/dxg").opaque("/usr/lib/wsl/lib/libdxcore.so")
    }

    /// WSL 2 with a kernel that offers no GPU.
    pub fn wsl_without_gpu(self) -> Self {
        self.kernel("5.15.167.4-microsoft-standard-WSL2")
            .file(
                "/proc/version",
                "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f9c826d3017f) (gcc (GCC) 11.2.0)\n",
            )
            .env("WSL_DISTRO_NAME", "Ubuntu")
            .env("WSL_INTEROP", "/run/WSL/8_interop")
            .file("/etc/ld.so.conf.d/ld.wsl.conf", "/usr/lib/wsl/lib\n")
    }

    /// WSL 1.
    pub fn wsl1(self) -> Self {
        self.kernel("4.4.0-19041-Microsoft")
            .file(
                "/proc/version",
                "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) (gcc version 5.4.0)\n",
            )
            .env("WSL_DISTRO_NAME", "Ubuntu")
    }

    /// Adds a PCI device. `class` as in sysfs: `0x030000` VGA, `0x030200` 3D, `0x120000` accelerator.
    pub fn pci(self, address: &str, class: &str, vendor: &str, device: &str, driver: Option<&str>) -> Self {
        let base = format!("/sys/bus/pci/devices/{address}");
        let machine = self
            .file(&format!("{base}/class"), &format!("{class}\n"))
            .file(&format!("{base}/vendor"), &format!("{vendor}\n"))
            .file(&format!("{base}/device"), &format!("{device}\n"));
        match driver {
            Some(driver) => machine
                .folder(&format!("/sys/bus/pci/drivers/{driver}"))
                .link(&format!("{base}/driver"), &format!("../../../bus/pci/drivers/{driver}"))
                .folder(&format!("/sys/module/{driver}/holders")),
            None => machine,
        }
    }
}
