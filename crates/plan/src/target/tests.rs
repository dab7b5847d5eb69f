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
    assert!(table().emulator.iter().all(runner::has_known_systems));
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

mod runners {
    use gpubuild_host::{Arch, RecordedHost};

    use super::*;

    const VARIABLE: &str = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER";
    const PROGRAM: &str = "/usr/bin/qemu-aarch64-static";

    /// The words of the runner on an x86_64 Linux machine, or the id of the error.
    fn runner_for(
        target: &str,
        variables: &[(&str, &str)],
        files: &[(&str, &str)],
    ) -> Result<String, String> {
        let host =
            RecordedHost::builder(Os::Linux, Arch::X86_64).env("PATH", "/usr/bin").env("HOME", "/home/u");
        let host = variables.iter().fold(host, |host, (name, value)| host.env(name, value));
        let host = files.iter().fold(host, |host, (path, text)| match *text {
            "program" => host.executable(path),
            text => host.file(path, text),
        });
        let host = host.build();
        // The command evaluates expressions.
        let applies = |expression: &str, target: &Target| {
            expression == "cfg(unix)" || expression == format!("cfg(target_arch = \"{}\")", target.arch)
        };
        let found = runner(&host, &Target::parse(target).unwrap(), &host.path("/w/p/program"), &applies);
        found.map(|words| words.join(" ")).map_err(|reason| reason.id.to_string())
    }

    #[test]
    fn the_configuration_of_cargo_has_precedence() {
        let arm = "aarch64-unknown-linux-gnu";
        let emulator = (PROGRAM, "program");
        let config = "[target.aarch64-unknown-linux-gnu]\nrunner = \"tools/run  -v\"\n";
        let list = "[target.aarch64-unknown-linux-gnu]\nrunner = [\"qemu\", \"a b\"]\n";
        let file = ("/w/.cargo/config.toml", config);
        let of = |variables: &[(&str, &str)], files: &[(&str, &str)]| runner_for(arm, variables, files);
        assert_eq!(of(&[(VARIABLE, "qemu -L  /s")], &[file, emulator]), Ok("qemu -L /s".to_owned()));
        assert_eq!(of(&[], &[file, emulator]), Ok("/w/tools/run -v".to_owned()));
        assert_eq!(of(&[], &[("/home/u/.cargo/config.toml", list), emulator]), Ok("qemu a b".to_owned()));
        assert_eq!(of(&[], &[("/home/u/.cargo/config.toml", list), file]), Ok("/w/tools/run -v".to_owned()));
        assert_eq!(
            of(&[], &[("/w/p/.cargo/config", "[target"), emulator]),
            Err("cross.cargo-config".to_owned())
        );
        // Also for programs that this machine runs itself.
        let here = "x86_64-unknown-linux-musl";
        let variable = ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUNNER", "strace");
        assert_eq!(runner_for(here, &[variable], &[]), Ok("strace".to_owned()));
        assert_eq!(runner_for(here, &[], &[file]), Ok(String::new()));
    }

    #[test]
    fn conditions_of_cargo_are_read_after_the_target() {
        let arm = "aarch64-unknown-linux-gnu";
        let of = |files: &[(&str, &str)]| runner_for(arm, &[], files);
        let unix = ("/w/p/.cargo/config.toml", "[target.'cfg(unix)']\nrunner = \"tools/near\"\n");
        let other = "[target.'cfg(windows)']\nrunner = \"wine\"\n[target.'cfg(unix)']\nlinker = \"x\"\n";
        let far = "[target.'cfg(unix)']\nrunner = [\"far\"]\n";
        let triple = "[target.aarch64-unknown-linux-gnu]\nrunner = \"own\"\n";
        let both = "[target.'cfg(target_arch = \"aarch64\")']\nrunner = \"arm\"\n";
        assert_eq!(of(&[unix]), Ok("/w/p/tools/near".to_owned()));
        assert_eq!(
            of(&[("/w/.cargo/config.toml", other), ("/home/u/.cargo/config.toml", far)]),
            Ok("far".to_owned())
        );
        assert_eq!(of(&[unix, ("/w/.cargo/config.toml", far)]), Ok("/w/p/tools/near".to_owned()));
        assert_eq!(of(&[unix, ("/w/.cargo/config.toml", triple)]), Ok("own".to_owned()));
        assert_eq!(of(&[unix, ("/w/.cargo/config.toml", both)]), Err("cross.cargo-config".to_owned()));
        assert_eq!(
            runner_for("x86_64-pc-windows-gnu", &[(VARIABLE, "x")], &[("/w/.cargo/config.toml", other)]),
            Err("cross.runner-missing".to_owned())
        );
    }

    #[test]
    fn emulators_are_found() {
        let arm = "aarch64-unknown-linux-gnu";
        let emulator = (PROGRAM, "program");
        let library = ("/usr/aarch64-linux-gnu/lib/libc.so.6", "");
        assert_eq!(runner_for(arm, &[], &[emulator]), Ok(PROGRAM.to_owned()));
        let with_libraries = format!("{PROGRAM} -L /usr/aarch64-linux-gnu");
        assert_eq!(runner_for(arm, &[], &[emulator, library]), Ok(with_libraries));
        let own = ("QEMU_LD_PREFIX", "/mine");
        assert_eq!(runner_for(arm, &[own], &[emulator, library]), Ok(PROGRAM.to_owned()));
        assert_eq!(runner_for(arm, &[], &[library]), Err("cross.runner-missing".to_owned()));
        let riscv = ("/usr/bin/qemu-riscv64", "program");
        assert_eq!(runner_for("riscv64gc-unknown-linux-gnu", &[], &[riscv]), Ok(riscv.0.to_owned()));

        let wine = ("/usr/bin/wine", "program");
        assert_eq!(runner_for("x86_64-pc-windows-gnu", &[], &[wine]), Ok(wine.0.to_owned()));
        let missing = Err("cross.runner-missing".to_owned());
        assert_eq!(runner_for("x86_64-pc-windows-gnu", &[], &[emulator]), missing);
        assert_eq!(runner_for("aarch64-pc-windows-msvc", &[], &[wine]), missing);
        assert_eq!(runner_for("aarch64-apple-darwin", &[], &[emulator, wine]), missing);
    }
}
