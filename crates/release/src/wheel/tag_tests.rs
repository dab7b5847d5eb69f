use gpubuild_object::{NeededObject, ObjectFormat, ObjectKind, ObjectMachine, When};

use super::*;

const LINUX: Platform = Platform { os: Os::Linux, arch: Arch::X86_64 };

/// A library that needs these symbol versions.
fn library(versions: &[&str]) -> ObjectFile {
    let needed = NeededObject {
        name: "libc.so.6".to_owned(),
        when: When::Start,
        versions: versions.iter().map(|&version| version.to_owned()).collect(),
        functions: Vec::new(),
    };
    ObjectFile {
        format: ObjectFormat::Elf,
        machine: ObjectMachine { name: "x86_64", wide: true, number: 62 },
        also: Vec::new(),
        kind: ObjectKind::Library,
        interpreter: None,
        name: None,
        needed: vec![needed],
        rpath: Vec::new(),
        runpath: Vec::new(),
        offers: Vec::new(),
        functions: Vec::new(),
        system: None,
        cuda: gpubuild_object::FatbinCode::default(),
        hip: gpubuild_object::HipCode::default(),
    }
}

fn tags(on: Platform, versions: &[&str]) -> PlatformTags {
    platform(on, &[library(versions)], None)
}

#[test]
fn symbol_versions_determine_the_oldest_tag() {
    for (versions, tag) in [
        (&["GLIBC_2.2.5"][..], "manylinux1_x86_64.manylinux_2_5_x86_64"),
        (&["GLIBC_2.2.5", "GLIBC_2.14"], "manylinux2014_x86_64.manylinux_2_17_x86_64"),
        (&["GLIBC_2.29"], "manylinux_2_31_x86_64"),
        (&["GLIBC_2.2.5", "GLIBCXX_3.4.29"], "manylinux_2_34_x86_64"),
        (&["GLIBC_2.2.5", "CXXABI_1.3.12"], "manylinux_2_31_x86_64"),
        (&["GLIBC_2.2.5", "CXXABI_FLOAT128"], "manylinux_2_24_x86_64"),
        (&["GLIBC_2.2.5", "GLIBC_ABI_DT_RELR"], "manylinux_2_36_x86_64"),
        (&["GLIBC_2.99"], "manylinux_2_99_x86_64"),
        (&["GOMP_4.0"], "manylinux1_x86_64.manylinux_2_5_x86_64"),
    ] {
        assert_eq!(tags(LINUX, versions).tags.join("."), tag, "{versions:?}");
    }
    let arm = Platform { os: Os::Linux, arch: Arch::Aarch64 };
    assert_eq!(tags(arm, &["GLIBC_2.17"]).tags, ["manylinux2014_aarch64", "manylinux_2_17_aarch64"]);
}

#[test]
fn versions_that_no_tag_allows_are_reported() {
    for version in ["GLIBCXX_3.9.0", "GLIBC_PRIVATE"] {
        let found = tags(LINUX, &["GLIBC_2.2.5", version]);
        assert_eq!(found.tags, ["linux_x86_64"]);
        assert!(found.untagged.unwrap().contains(version));
    }
}

#[test]
fn other_systems_have_their_own_tags() {
    let tag = |os, arch| tags(Platform { os, arch }, &[]).tags.join(".");
    assert_eq!(tag(Os::Windows, Arch::X86_64), "win_amd64");
    assert_eq!(tag(Os::Windows, Arch::Aarch64), "win_arm64");
    assert_eq!(tag(Os::Macos, Arch::Aarch64), "macosx_11_0_arm64");
    let mut file = library(&[]);
    file.system = "12.3".parse().ok();
    let mac = Platform { os: Os::Macos, arch: Arch::X86_64 };
    assert_eq!(platform(mac, &[file.clone()], None).tags, ["macosx_12_0_x86_64"]);
    file.system = "10.13".parse().ok();
    assert_eq!(platform(mac, &[file], None).tags, ["macosx_10_13_x86_64"]);
    let musl = Libc { family: "musl".to_owned(), version: "1.2.5".parse().ok() };
    assert_eq!(platform(LINUX, &[library(&[])], Some(&musl)).tags, ["musllinux_1_2_x86_64"]);
}

#[test]
fn the_table_is_sorted_and_has_both_processors() {
    let table = PolicyTable::embedded();
    assert!(table.policies.is_sorted_by(|one, other| one.glibc < other.glibc));
    for policy in &table.policies {
        assert!(policy.x86_64.is_some(), "{}", policy.glibc);
        assert_eq!(policy.aarch64.is_some(), policy.glibc >= "2.17".parse().unwrap(), "{}", policy.glibc);
    }
}
