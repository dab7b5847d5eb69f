//! A crate that is cross-compiled with a real compiler and run in an emulator.

use std::time::Duration;

use gpubuild_host::{Command, HostInfo, HostPath, ReadFiles, RunPrograms, find_program};

use crate::support::{SMALL, Workspace, workspace};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const PROGRAMS: [&str; 3] = ["aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "qemu-aarch64-static"];

/// Returns the folder of the target's C library, or the missing requirement.
fn missing(workspace: &Workspace) -> Result<HostPath, String> {
    let host = &workspace.host;
    if host.platform().arch == gpubuild_host::Arch::Aarch64 {
        return Err("a processor other than aarch64".to_owned());
    }
    if let Some(name) = PROGRAMS.iter().find(|name| find_program(host, name).is_empty()) {
        return Err((*name).to_owned());
    }
    let ask =
        Command::new("rustc", Duration::from_secs(60)).args(["--print", "target-libdir", "--target", TARGET]);
    let folder =
        host.run(&ask).map(|output| host.path(output.stdout.trim())).map_err(|error| error.to_string())?;
    if !host.is_dir(&folder) {
        return Err(format!("Rust's library for {TARGET} (`rustup target add {TARGET}`)"));
    }
    let ask = Command::new(PROGRAMS[0], Duration::from_secs(60)).args(["-print-file-name=libc.so.6"]);
    let library =
        host.run(&ask).map(|output| output.stdout.trim().to_owned()).map_err(|error| error.to_string())?;
    // `…/aarch64-linux-gnu/lib/libc.so.6`
    let library = host.path(&library).normalized();
    library.parent().and_then(|folder| folder.parent()).ok_or_else(|| "a C library for aarch64".to_owned())
}

#[test]
fn crate_is_cross_compiled() {
    let Some(workspace) = workspace(SMALL) else { return };
    let system = match missing(&workspace) {
        Ok(system) => system,
        Err(what) => {
            crate::requirements::skip("cross", &format!("no {what}"));
            return;
        }
    };
    let linker = ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", PROGRAMS[0]);
    let build = ["build", "--target", TARGET];

    // Without compilers for the target, the linker error names the variables to set.
    workspace.cargo(&["check", "--target", TARGET], &[linker]).success();
    let stderr = workspace.cargo(&build, &[linker]).failure().output.stderr;
    for part in [
        "gpubuild: `x-sys` cannot be built for aarch64-unknown-linux-gnu",
        "[cross.toolchain-missing]",
        "fix: set `CC_aarch64_unknown_linux_gnu` and `CXX_aarch64_unknown_linux_gnu`",
    ] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }

    let variables = [
        linker,
        ("CC_aarch64_unknown_linux_gnu", PROGRAMS[0]),
        ("CXX_aarch64_unknown_linux_gnu", PROGRAMS[1]),
    ];
    workspace.cargo(&build, &variables).success();
    let program = workspace.target().join(TARGET).join("debug/app");
    let bytes = workspace.host.read_start(&program, 20).unwrap();
    assert_eq!(&bytes[18..20], &[0xb7, 0], "an ELF file for aarch64");
    let run =
        Command::new(PROGRAMS[2], Duration::from_secs(60)).args(["-L", system.as_str(), program.as_str()]);
    let output = workspace.host.run(&run).unwrap();
    assert_eq!(output.stdout.trim(), "42", "{}", output.stderr);
    assert!(!workspace.cargo(&[&build[..], &["-v"]].concat(), &variables).success().ran_script_of("x-sys"));

    // The toolkit of the host platform has no libraries for the target.
    let stderr = workspace
        .cargo(&[&build[..], &["--features", "app/cuda"]].concat(), &variables)
        .failure()
        .output
        .stderr;
    for part in
        ["[cross.toolkit-missing]", "fix: gpubuild toolkit install cuda --target aarch64-unknown-linux-gnu"]
    {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
}
