//! Hosts whose driver packages are too old for the card, not completely installed, or on hold.

use gpubuild_detect::finding::Severity;

use crate::machine::*;
use crate::nvidia::{commands, consequences, refuses};
use crate::{check, diagnose, ids};

#[test]
fn card_that_is_newer_than_the_driver_is_diagnosed() {
    let machine = Machine::debian("13").nvidia_card(RTX_5090, None);
    let kernel = machine.kernel_release();
    let machine = machine
        .opaque(&format!("/lib/modules/{kernel}/updates/dkms/nvidia-current.ko.xz"))
        .folder(&format!("/var/lib/dkms/nvidia-current/550.163.01/{kernel}"));
    let machine = machine
        .opaque(&format!("/lib/modules/{kernel}/updates/dkms/nvidia.ko.xz"))
        .command(&["modinfo", "-F", "license", "nvidia"], "NVIDIA\n")
        .program("/usr/sbin/modinfo")
        .command(&["modinfo", "-F", "version", "nvidia"], "550.163.01\n");
    let found = check("nv.driver.card-too-new", &machine, &["nv.driver.card-too-new"]);
    assert!(found[0].summary.contains("550.163.01") && found[0].summary.contains("570"), "{found:?}");
    assert!(commands(&found).contains("debian13") && commands(&found).contains("nvidia-open"), "{found:?}");
    let none = Machine::debian("13").nvidia_card(RTX_5090, None);
    assert!(commands(&diagnose(&none, None)).contains("nvidia-open"));
}

#[test]
fn interrupted_installation_is_diagnosed() {
    let status = "Package: libnvidia-compute-580\nStatus: install ok unpacked\nVersion: 580.1\n\n\
        Package: tzdata\nStatus: install ok half-configured\nVersion: 2026\n\n\
        Package: bash\nStatus: install ok installed\nVersion: 5\n\n";
    let machine = Machine::ubuntu("24.04")
        .nvidia(RTX_3060, "580.95.05")
        .without_probe("cuda")
        .without("/usr/lib/x86_64-linux-gnu/libcuda.so.1")
        .without("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05");
    let broken = machine.clone().file("/var/lib/dpkg/status", status);
    let found = check("pkg.unfinished", &broken, &["pkg.unfinished"]);
    assert!(found[0].summary.contains("libnvidia-compute-580` and another package is unpacked"), "{found:?}");
    assert_eq!(commands(&found), "sudo dpkg --configure -a && sudo apt --fix-broken install");
    assert!(consequences(&found).contains(&"nv.driver.library-missing"), "{found:?}");
    // A package that no backend needs does not explain it.
    let other = status.replace("libnvidia-compute-580", "foo");
    let found = diagnose(&machine.clone().file("/var/lib/dpkg/status", &other), None);
    assert_eq!(ids(&found, Severity::Warning), ["nv.driver.library-missing", "pkg.unfinished"]);
    let whole = status.replace("unpacked", "installed").replace("half-configured", "installed");
    let found = diagnose(&machine.file("/var/lib/dpkg/status", &whole), None);
    assert_eq!(ids(&found, Severity::Warning), ["nv.driver.library-missing"]);
}

#[test]
fn held_driver_packages_are_diagnosed() {
    let status =
        "Package: libnvidia-compute-550\nStatus: hold ok installed\nVersion: 550.144.03-0ubuntu1\n\n";
    let machine = Machine::ubuntu("24.04").nvidia(RTX_5090, "550.144.03");
    let machine = refuses(machine, 100, "no CUDA device is visible").file("/var/lib/dpkg/status", status);
    let found = check("pkg.held", &machine, &["nv.driver.card-too-new", "pkg.held"]);
    assert!(found[1].remedy.commands.join(" ").contains("unhold libnvidia-compute-550"), "{found:?}");
}
