use gpubuild_host::{Arch, Os};

use super::*;

const LINUX: Platform = Platform { os: Os::Linux, arch: Arch::X86_64 };

fn new_glibc() -> WheelLibc {
    WheelLibc::Glibc(Some("2.36".parse().unwrap()))
}

#[test]
fn embedded_locks_are_complete_for_all_their_platforms() {
    assert!(offered("cuda").len() >= 6);
    for lock in embedded() {
        let all: Vec<String> = lock.optional().map(str::to_owned).collect();
        assert!(lock.platforms.is_sorted(), "{}", lock.release);
        for platform in &lock.platforms {
            let (os, arch) = platform.split_once('-').unwrap();
            let os = if os == "windows" { Os::Windows } else { Os::Linux };
            let arch = if arch == "x86_64" { Arch::X86_64 } else { Arch::Aarch64 };
            let wheels = lock.select(&all, Platform { os, arch }, &new_glibc()).unwrap();
            assert!(wheels.iter().all(|wheel| wheel.files.len() == 1 && wheel.size() > 1000), "{platform}");
        }
        assert!(lock.version.as_str().starts_with(lock.release.as_str()), "{}", lock.version);
        let packages: Vec<&PinnedWheel> = lock.components.iter().flat_map(Component::packages).collect();
        assert!(
            packages.iter().all(|package| package.is_archive() == lock.has_archives()),
            "{}",
            lock.release
        );
        assert_eq!(lock.has_archives(), lock.version.major() < 13, "{}", lock.release);
        if lock.has_archives() {
            assert_eq!(lock.platforms, ["linux-aarch64", "linux-x86_64", "windows-x86_64"]);
            assert!(packages.iter().all(|package| package.files.len() == 3), "{}", lock.release);
        }
    }
}

#[test]
fn archives_belong_to_the_folder_of_their_platform() {
    let lock = offered("cuda").into_values().next().unwrap();
    let arm = Platform { os: Os::Linux, arch: Arch::Aarch64 };
    let selected = lock.select(&[], arm, &new_glibc()).unwrap();
    assert!(selected.iter().all(|one| one.files[0].name.contains("/linux-sbsa/")), "{selected:?}");
    let musl = lock.select(&[], LINUX, &WheelLibc::Musl);
    assert!(matches!(musl, Err(SelectError::Platform { fit: TagFit::NeedsGlibc, .. })), "{musl:?}");
    let mut bad = lock.clone();
    for (name, what) in [
        ("a/linux-x86_64/../../x.tar.xz", "path of an archive"),
        ("/a/linux-x86_64/x.tar.xz", "path of an archive"),
        ("a/linux-x86_64/x.tar.xz?y", "path of an archive"),
        ("x.tar.xz", "path of an archive"),
    ] {
        name.clone_into(&mut bad.components[0].archives[0].files[0].name);
        assert_eq!(bad.check(), Err(format!("`{name}` is not the {what}")));
    }
}

#[test]
fn components_include_their_dependencies() {
    let lock = offered("cuda").into_values().next_back().unwrap();
    let names = |with: &[String]| -> Vec<String> {
        lock.select(with, LINUX, &new_glibc()).unwrap().into_iter().map(|wheel| wheel.package).collect()
    };
    let base = names(&[]);
    assert!(base.contains(&"nvidia-cuda-nvcc".to_owned()) && !base.contains(&"nvidia-cublas".to_owned()));
    let more = names(&["cublas".to_owned()]);
    assert!(more.contains(&"nvidia-cublas".to_owned()) && more.contains(&"nvidia-cuda-nvrtc".to_owned()));
    let unknown = lock.select(&["cufoo".to_owned()], LINUX, &new_glibc());
    assert_eq!(unknown, Err(SelectError::UnknownComponent("cufoo".to_owned())));
}

#[test]
fn unsupported_machines_get_the_incompatibility() {
    let lock = offered("cuda").into_values().next_back().unwrap();
    let why = |platform: Platform, libc: &WheelLibc| match lock.select(&[], platform, libc) {
        Err(SelectError::Platform { fit, .. }) => fit,
        other => panic!("{other:?}"),
    };
    let old = WheelLibc::Glibc(Some("2.11".parse().unwrap()));
    assert_eq!(why(LINUX, &WheelLibc::Musl), TagFit::NeedsGlibc);
    assert!(matches!(why(LINUX, &old), TagFit::NeedsNewerGlibc(_)));
    assert_eq!(
        why(Platform { os: Os::Macos, arch: Arch::Aarch64 }, &WheelLibc::Other),
        TagFit::OtherPlatform
    );
}

#[test]
fn invalid_locks_are_reported() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../toolkits/locks/cuda-13.0.toml");
    #[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
    let good = std::fs::read_to_string(path).unwrap();
    let sum = &WheelLock::parse(&good).unwrap().components[0].wheels[0].files[0].sha256;
    for (from, to, message) in [
        (SCHEMA, "gpubuild.lock/9", "`schema` is `gpubuild.lock/9`"),
        (sum.as_str(), "abc", "`abc` is not a sha256 hash"),
        ("size = ", "size = 9000000000", "is more than 16 TiB"),
        ("needs = [\"nvrtc\"]", "needs = [\"x\"]", "needs `x`, which does not exist"),
        ("release", "relaese", "unknown field"),
    ] {
        let error = WheelLock::parse(&good.replace(from, to)).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn names_and_versions_are_words() {
    let good = embedded().first().unwrap();
    let long = "1".repeat(101);
    let odd = ["", " ", "1 2", "1\n2", "1\"", "\u{1b}[31m", "1\u{202e}2", "é", "../x", "1;x", long.as_str()];
    for word in odd {
        let mut bad = good.clone();
        word.clone_into(&mut bad.components[0].archives[0].version);
        assert!(bad.check().unwrap_err().contains("is not a name or version"), "{word}");
        let mut bad = good.clone();
        word.clone_into(&mut bad.components[0].archives[0].package);
        assert!(bad.check().unwrap_err().contains("is not a name or version"), "{word}");
        if let Ok(version) = format!("12.9{word}").parse::<Version>() {
            let is_valid = version.as_str().len() <= 100 && is_word(version.as_str());
            assert_eq!(WheelLock { version, ..good.clone() }.check().is_ok(), is_valid, "{word}");
        }
    }
    let mut bad = good.clone();
    bad.components[0].archives[0].files[0].sha256 = "A".repeat(64);
    assert!(bad.check().unwrap_err().contains("is not a sha256 hash"));
}

#[test]
fn embedded_lock_files_are_named_after_toolkit_and_release() {
    for ((name, _), lock) in LOCKS.iter().zip(embedded()) {
        assert_eq!(lock.check(), Ok(()), "{name}");
        assert_eq!(*name, format!("{}-{}", lock.toolkit, lock.release));
        assert!(is_embedded(&lock.toolkit));
    }
    assert!(!is_embedded("rocm"));
}
