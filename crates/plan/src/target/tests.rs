use gpubuild_host::Os;

use super::*;

#[test]
fn every_row_of_the_table_is_a_target() {
    for row in &table().target {
        let target = Target::parse(&row.triple).unwrap();
        assert!(target.os.is_some() && target.zig().as_deref() == Some(row.zig.as_str()), "{}", row.triple);
        let with_version = Target::parse(&format!("{}.2.28", row.triple));
        assert_eq!(with_version.is_ok(), row.glibc, "{}", row.triple);
    }
    assert!(zig_wheel().files.iter().all(|file| file.sha256.len() == 64));
    assert_eq!(zig_in_wheel(Os::Windows), "ziglang/zig.exe");
}

#[test]
fn glibc_version_is_part_of_the_name() {
    let target = Target::parse("x86_64-unknown-linux-gnu.2.28").unwrap();
    assert_eq!(target.triple, "x86_64-unknown-linux-gnu");
    assert_eq!(target.name(), "x86_64-unknown-linux-gnu.2.28");
    assert_eq!(target.zig().as_deref(), Some("x86_64-linux-gnu.2.28"));
    assert_eq!(target.cargo_variable("LINKER"), "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER");
}

#[test]
fn unknown_names_are_refused() {
    for name in [
        "",
        "aarch64",
        "x86_64-unknown-linux-gnu.",
        "x86_64-unknown-linux-gnu.3.1",
        "x86_64-unknown-linux-gnu.2.28;x",
        "x86_64-unknown-linux-musl.2.28",
        "../x-linux-gnu",
    ] {
        assert_eq!(Target::parse(name).unwrap_err().id, "cross.target-unknown", "{name}");
    }
    // Compilers of the user can have targets that Zig is not used for.
    assert_eq!(Target::parse("riscv64gc-unknown-linux-gnu").unwrap().zig(), None);
}
