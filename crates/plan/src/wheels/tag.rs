//! Evaluates the platform tags in a wheel's file name (PEP 425, 600, 656).

use gpubuild_core::version::Version;
use gpubuild_detect::facts::Libc;
use gpubuild_host::{Arch, Os, Platform};

/// The C library of a machine, as distinguished by platform tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WheelLibc {
    /// glibc with its version; `None` if the version is unknown.
    Glibc(Option<Version>),
    /// musl.
    Musl,
    /// An unknown C library, or one that platform tags do not distinguish (Windows, macOS).
    Other,
}

impl WheelLibc {
    /// The C library of a host.
    #[must_use]
    pub fn of(libc: Option<&Libc>) -> Self {
        match libc {
            Some(libc) if libc.family == "glibc" => Self::Glibc(libc.version.clone()),
            Some(libc) if libc.family == "musl" => Self::Musl,
            _ => Self::Other,
        }
    }
}

/// Whether a machine supports a wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagFit {
    /// The machine supports it.
    Yes,
    /// It requires another system or processor.
    OtherPlatform,
    /// It requires glibc, but the machine has musl.
    NeedsGlibc,
    /// It requires this newer version of glibc.
    NeedsNewerGlibc(Version),
}

/// Whether a machine supports the wheel with this file name. Returns the best result of all its platform tags.
#[must_use]
pub fn fit(file_name: &str, platform: Platform, libc: &WheelLibc) -> TagFit {
    let stem = file_name.strip_suffix(".whl").unwrap_or(file_name);
    let tags = stem.rsplit('-').next().unwrap_or_default();
    let mut best = TagFit::OtherPlatform;
    for tag in tags.split('.') {
        let fit = fit_of_tag(tag, platform, libc);
        if rank(&fit) < rank(&best) {
            best = fit;
        }
    }
    best
}

/// Whether a machine supports the archives in a platform's folder on NVIDIA's server: `linux-x86_64`, `linux-sbsa`.
#[must_use]
pub fn fit_of_folder(folder: &str, platform: Platform, libc: &WheelLibc) -> TagFit {
    let own = match (platform.os, platform.arch) {
        (Os::Linux, Arch::X86_64) => "linux-x86_64",
        (Os::Linux, Arch::Aarch64) => "linux-sbsa",
        (Os::Windows, Arch::X86_64) => "windows-x86_64",
        _ => return TagFit::OtherPlatform,
    };
    match folder == own {
        true if platform.os == Os::Linux && *libc == WheelLibc::Musl => TagFit::NeedsGlibc,
        true => TagFit::Yes,
        false => TagFit::OtherPlatform,
    }
}

fn rank(fit: &TagFit) -> u8 {
    match fit {
        TagFit::Yes => 0,
        TagFit::NeedsNewerGlibc(_) => 1,
        TagFit::NeedsGlibc => 2,
        TagFit::OtherPlatform => 3,
    }
}

fn fit_of_tag(tag: &str, platform: Platform, libc: &WheelLibc) -> TagFit {
    if tag == "any" {
        return TagFit::Yes;
    }
    let (windows, linux) = match platform.arch {
        Arch::X86_64 => ("win_amd64", "_x86_64"),
        Arch::Aarch64 => ("win_arm64", "_aarch64"),
    };
    let yes_if = |fits: bool| if fits { TagFit::Yes } else { TagFit::OtherPlatform };
    match platform.os {
        Os::Windows => yes_if(tag == windows),
        Os::Macos => {
            let arch = if platform.arch == Arch::Aarch64 { "_arm64" } else { "_x86_64" };
            yes_if(tag.starts_with("macosx_") && (tag.ends_with(arch) || tag.ends_with("_universal2")))
        }
        Os::Linux => match tag.strip_suffix(linux) {
            Some("linux") => TagFit::Yes,
            Some(kind) if kind.starts_with("musllinux") => yes_if(*libc == WheelLibc::Musl),
            Some(kind) => glibc_of(kind).map_or(TagFit::OtherPlatform, |needs| fit_of_glibc(needs, libc)),
            None => TagFit::OtherPlatform,
        },
    }
}

/// The oldest glibc that a `manylinux` tag supports; `kind` is the tag without the architecture.
fn glibc_of(kind: &str) -> Option<Version> {
    let text = match kind {
        "manylinux1" => "2.5".to_owned(),
        "manylinux2010" => "2.12".to_owned(),
        "manylinux2014" => "2.17".to_owned(),
        _ => kind.strip_prefix("manylinux_")?.replace('_', "."),
    };
    text.parse().ok()
}

fn fit_of_glibc(needs: Version, libc: &WheelLibc) -> TagFit {
    match libc {
        WheelLibc::Musl => TagFit::NeedsGlibc,
        WheelLibc::Glibc(Some(has)) if *has < needs => TagFit::NeedsNewerGlibc(needs),
        // If the version is unknown, the installer decides.
        WheelLibc::Glibc(_) | WheelLibc::Other => TagFit::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINUX: Platform = Platform { os: Os::Linux, arch: Arch::X86_64 };

    fn glibc(version: &str) -> WheelLibc {
        WheelLibc::Glibc(Some(version.parse().unwrap()))
    }

    #[test]
    fn file_names_determine_supported_machines() {
        let nvcc = "nvidia_cuda_nvcc-13.0.88-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl";
        let cublas = "nvidia_cublas-13.1.1.3-py3-none-manylinux_2_27_x86_64.whl";
        let arm = Platform { os: Os::Linux, arch: Arch::Aarch64 };
        let windows = Platform { os: Os::Windows, arch: Arch::X86_64 };
        let mac = Platform { os: Os::Macos, arch: Arch::Aarch64 };
        let table = [
            (nvcc, LINUX, glibc("2.36"), TagFit::Yes),
            (nvcc, LINUX, glibc("2.17"), TagFit::Yes),
            (nvcc, LINUX, glibc("2.12"), TagFit::NeedsNewerGlibc("2.17".parse().unwrap())),
            (nvcc, LINUX, WheelLibc::Glibc(None), TagFit::Yes),
            (nvcc, LINUX, WheelLibc::Musl, TagFit::NeedsGlibc),
            (nvcc, arm, glibc("2.36"), TagFit::OtherPlatform),
            (nvcc, windows, WheelLibc::Other, TagFit::OtherPlatform),
            (cublas, LINUX, glibc("2.17"), TagFit::NeedsNewerGlibc("2.27".parse().unwrap())),
            ("a-1-py3-none-win_amd64.whl", windows, WheelLibc::Other, TagFit::Yes),
            ("a-1-py3-none-win_arm64.whl", windows, WheelLibc::Other, TagFit::OtherPlatform),
            ("a-1-py3-none-macosx_10_10_universal2.whl", mac, WheelLibc::Other, TagFit::Yes),
            ("a-1-py3-none-macosx_10_10_x86_64.whl", mac, WheelLibc::Other, TagFit::OtherPlatform),
            ("a-1-py3-none-musllinux_1_1_x86_64.whl", LINUX, WheelLibc::Musl, TagFit::Yes),
            ("a-1-py3-none-musllinux_1_1_x86_64.whl", LINUX, glibc("2.36"), TagFit::OtherPlatform),
            ("a-1-py3-none-any.whl", LINUX, WheelLibc::Musl, TagFit::Yes),
            ("nonsense", LINUX, glibc("2.36"), TagFit::OtherPlatform),
        ];
        for (name, platform, libc, expected) in table {
            assert_eq!(fit(name, platform, &libc), expected, "{name} on {platform:?} with {libc:?}");
        }
    }
}
