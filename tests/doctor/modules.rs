//! Modules of NVIDIA's driver that do not compile for the running kernel, or that are of the wrong flavour.

use gpubuild_detect::finding::Finding;

use crate::machine::*;
use crate::{check, diagnose};

fn commands(findings: &[Finding]) -> String {
    findings[0].remedy.commands.join(" && ")
}

#[test]
fn sources_that_do_not_compile_need_a_newer_driver() {
    let log = "/var/lib/dkms/nvidia/470.256.02/build/make.log";
    let broken = "DKMS make.log for nvidia/470.256.02 for kernel 6.11.5-arch1-1 (x86_64)\nmake: *** [Makefile:80: modules] Error 2\n";
    let machine = Machine::arch_linux()
        .nvidia_card(GTX_1080, None)
        .nvidia_libraries("470.256.02")
        .file("/usr/src/nvidia-470.256.02/dkms.conf", "PACKAGE_NAME=\"nvidia\"\n")
        .folder("/lib/modules/6.11.5-arch1-1/build")
        .file(log, broken);
    let found = check("nv.driver.dkms-failed", &machine, &["nv.driver.dkms"]);
    assert!(found[0].summary.contains("do not compile"), "{found:?}");
    assert!(commands(&found).contains(log) && commands(&found).contains("linux-lts"), "{found:?}");
    assert!(!commands(&found).contains("dkms autoinstall"), "{found:?}");
    // A log of another kernel's build, one without an error, and a build without headers do not show that.
    let other = broken.replace("6.11.5-arch1-1", "6.9.0-arch1-1");
    for again in [
        machine.clone().file(log, &other),
        machine.clone().file(log, "make: Leaving directory\n"),
        machine.clone().without("/lib/modules/6.11.5-arch1-1/build"),
    ] {
        let found = diagnose(&again, None);
        assert!(commands(&found).contains("dkms autoinstall"), "{found:?}");
    }
}

#[test]
fn akmods_that_failed_need_a_newer_driver() {
    let machine = Machine::fedora("42").nvidia_card(RTX_4070, None).nvidia_libraries("565.77");
    let kernel = machine.kernel_release();
    let failed = |release: &str| format!("/var/cache/akmods/nvidia/565.77-1-for-{release}.failed.log");
    let machine = machine
        .file("/usr/src/akmods/nvidia-kmod-565.77-1.fc42.src.rpm", "")
        .folder(&format!("/usr/src/kernels/{kernel}"));
    let found = check(
        "nv.driver.dkms-failed-akmods",
        &machine.clone().file(&failed(&kernel), "akmods: Building rpms failed\n"),
        &["nv.driver.dkms"],
    );
    assert!(commands(&found).contains("dnf upgrade --refresh 'akmod-nvidia*'"), "{found:?}");
    let found = diagnose(&machine.file(&failed("6.9.1-200.fc42.x86_64"), "akmods: failed\n"), None);
    assert!(!commands(&found).contains("upgrade"), "{found:?}");
}

#[test]
fn flavour_is_changed_where_the_packages_select_it() {
    let file = "/etc/nvidia/kernel.conf";
    let machine = Machine::fedora("42")
        .nvidia_card(GTX_1080, None)
        .nvidia_module("560.31.02", true)
        .nvidia_libraries("560.31.02")
        .probe_fails("cuda", "cuInit answered 100: no CUDA device is visible")
        .file(file, "MODULE_VARIANT=kernel-open\n");
    let found = check("nv.driver.open-unsupported-variant", &machine, &["nv.driver.open-unsupported"]);
    assert!(commands(&found).contains(file) && commands(&found).contains("akmods"), "{found:?}");
    let found = diagnose(&machine.without(file), None);
    assert!(commands(&found).contains("akmod-nvidia-580xx"), "{found:?}");
}
