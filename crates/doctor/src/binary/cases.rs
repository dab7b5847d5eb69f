//! Binaries on recorded machines: how the loader resolves their libraries, and which findings result.

use std::collections::BTreeMap;

use gpubuild_detect::facts;
use gpubuild_detect::finding::{Finding, Findings, Severity};
use gpubuild_detect::matrix::Probes;
use gpubuild_detect::toolkit::{self, Catalogue};
use gpubuild_host::recorded::RecordedHostBuilder;
use gpubuild_host::{Arch, Os, RecordedHost};
use gpubuild_object::graph::EdgeTarget;
use gpubuild_samples::{Elf, bundles, fat_binary, mach_o, pe, ptx, sass, universal};

use super::{Examined, examine};
use crate::{DiagnosisCase, Filter, MachineSigns};

const LIB: &str = "/usr/lib/x86_64-linux-gnu";
const APP: &str = "/opt/app/bin/app";

/// An examined file on a machine.
struct BinarySample {
    examined: Examined,
    findings: Vec<Finding>,
}

fn examine_at(host: RecordedHostBuilder, path: &str) -> BinarySample {
    let host = host.build();
    let catalogue = Catalogue::embedded();
    let facts = facts::gather(&host);
    let inventory = toolkit::probe(&host, &catalogue);
    let probes = Probes::new();
    let matrix = gpubuild_plan::offer::evaluate(&facts, &inventory, &catalogue, &probes);
    let signs = MachineSigns::default();
    let case = DiagnosisCase {
        facts: &facts,
        inventory: &inventory,
        catalogue: &catalogue,
        matrix: &matrix,
        probes: &probes,
        signs: &signs,
        env: gpubuild_host::HostInfo::env(&host),
        asked: None,
        project: None,
    };
    let examined = examine(&host, &case, &gpubuild_host::HostInfo::path(&host, path)).unwrap();
    let findings = crate::diagnose_binary(&case, &Findings::embedded(), &examined, &Filter::default());
    BinarySample { examined, findings }
}

impl BinarySample {
    /// Ids of all findings, in order.
    fn ids(&self) -> Vec<&str> {
        self.findings.iter().map(|finding| finding.id.as_str()).collect()
    }

    /// Ids of errors and warnings.
    fn faults(&self) -> Vec<&str> {
        let problems = self.findings.iter().filter(|finding| finding.severity < Severity::Info);
        problems.map(|finding| finding.id.as_str()).collect()
    }

    fn finding(&self, id: &str) -> &Finding {
        self.findings
            .iter()
            .find(|finding| finding.id == id)
            .unwrap_or_else(|| panic!("{id} of {:?}", self.ids()))
    }

    /// Name and place of every library that is searched for: its path, or the result of the search without one.
    fn places(&self) -> BTreeMap<&str, String> {
        let graph = &self.examined.graph;
        graph
            .links
            .iter()
            .map(|link| {
                let place = match &link.target {
                    EdgeTarget::Loaded(index) => graph.objects[*index].path.to_string(),
                    other => format!("{other:?}"),
                };
                (link.needed.name.as_str(), place)
            })
            .collect()
    }

    fn place(&self, name: &str) -> String {
        self.places().get(name).cloned().unwrap_or_default()
    }
}

/// Debian 12 with its C and C++ libraries.
fn linux() -> RecordedHostBuilder {
    let libc = Elf::library("libc.so.6").version_definitions(&["GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.36"]);
    let banner = (".rodata", b"GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\n".to_vec());
    let libc = Elf { sections: vec![banner], ..libc };
    let library = |name: &'static str| Elf::library(name).needed(&["libc.so.6"]);
    RecordedHost::builder(Os::Linux, Arch::X86_64)
        .file("/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n")
        .env("PATH", "/usr/bin")
        .link("/lib", "usr/lib")
        .link("/lib64", "usr/lib64")
        .bytes("/usr/lib64/ld-linux-x86-64.so.2", &Elf::library("ld-linux-x86-64.so.2").build())
        .bytes(&format!("{LIB}/libc.so.6"), &libc.build())
        .bytes(
            &format!("{LIB}/libm.so.6"),
            &library("libm.so.6").version_definitions(&["GLIBC_2.29"]).build(),
        )
        .bytes(
            &format!("{LIB}/libstdc++.so.6.0.30"),
            &library("libstdc++.so.6").version_definitions(&["GLIBCXX_3.4", "GLIBCXX_3.4.30"]).build(),
        )
        .link(&format!("{LIB}/libstdc++.so.6"), "libstdc++.so.6.0.30")
}

/// The same with the device nodes of NVIDIA's driver.
fn nodes() -> RecordedHostBuilder {
    linux().device("/dev/nvidiactl").device("/dev/nvidia0").device("/dev/nvidia-uvm")
}

/// The same with a GPU and its driver.
fn nvidia(set: &str, driver: &str) -> RecordedHostBuilder {
    nodes()
        .env("GPUBUILD_SET", set)
        .bytes(
            &format!("{LIB}/libcuda.so.{driver}"),
            &Elf::library("libcuda.so.1").needed(&["libc.so.6"]).build(),
        )
        .link(&format!("{LIB}/libcuda.so.1"), &format!("libcuda.so.{driver}"))
}

fn app(host: RecordedHostBuilder, file: &Elf) -> BinarySample {
    examine_at(host.bytes(APP, &file.build()), APP)
}

#[test]
fn healthy_program_has_no_findings() {
    let file = Elf::program()
        .needed(&["libstdc++.so.6", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"])
        .version_needs("libc.so.6", &["GLIBC_2.34", "GLIBC_2.36"])
        .version_needs("libstdc++.so.6", &["GLIBCXX_3.4.30"]);
    let sample = app(linux(), &file);
    assert_eq!(sample.ids(), Vec::<&str>::new());
    assert_eq!(sample.place("libstdc++.so.6"), "/lib/x86_64-linux-gnu/libstdc++.so.6");
    assert_eq!(sample.place("libc.so.6"), "/lib/x86_64-linux-gnu/libc.so.6");
}

#[test]
fn rpath_precedes_the_variable_and_runpath_follows_it() {
    let library = Elf::library("libx.so").build();
    let host = || {
        linux()
            .env("LD_LIBRARY_PATH", "/env")
            .bytes("/opt/app/lib/libx.so", &library)
            .bytes("/env/libx.so", &library)
            .bytes(&format!("{LIB}/libx.so"), &library)
    };
    let place = |file: Elf| app(host(), &file.needed(&["libx.so"])).place("libx.so");
    assert_eq!(place(Elf::program().rpath("$ORIGIN/../lib")), "/opt/app/bin/../lib/libx.so");
    assert_eq!(place(Elf::program().runpath("${ORIGIN}/../lib")), "/env/libx.so");
    assert_eq!(place(Elf::program()), "/env/libx.so");
    let without = host().env("LD_LIBRARY_PATH", "");
    let file = Elf::program().runpath("$ORIGIN/../lib").needed(&["libx.so"]);
    assert_eq!(app(without, &file).place("libx.so"), "/opt/app/bin/../lib/libx.so");
}

#[test]
fn rpath_is_inherited_and_runpath_is_not() {
    let host = |inner: Elf| {
        linux()
            .bytes("/opt/app/lib/liba.so", &inner.needed(&["libb.so"]).build())
            .bytes("/opt/app/lib/libb.so", &Elf::library("libb.so").build())
    };
    let file = Elf::program().needed(&["liba.so"]);
    let found = "/opt/app/bin/../lib/libb.so";
    let check = |file: Elf, inner: Elf, expected: &str| {
        assert_eq!(app(host(inner), &file).place("libb.so"), expected);
    };
    check(file.clone().rpath("$ORIGIN/../lib"), Elf::library("liba.so"), found);
    check(file.clone().runpath("$ORIGIN/../lib"), Elf::library("liba.so"), "Missing");
    // A library with RUNPATH inherits no RPATH.
    check(file.clone().rpath("$ORIGIN/../lib"), Elf::library("liba.so").runpath("/none"), "Missing");
    check(
        file.runpath("$ORIGIN/../lib"),
        Elf::library("liba.so").runpath("$ORIGIN"),
        "/opt/app/bin/../lib/libb.so",
    );
}

#[test]
fn placeholders_expand_to_the_library_folder_and_the_processor() {
    let library = Elf::library("libx.so").build();
    let file = Elf::program().needed(&["libx.so"]).runpath("/opt/$LIB:/opt/$PLATFORM:/opt/$UNKNOWN");
    let host = linux().bytes("/opt/lib/x86_64-linux-gnu/libx.so", &library);
    assert_eq!(app(host, &file).place("libx.so"), "/opt/lib/x86_64-linux-gnu/libx.so");
    let host = linux().bytes("/opt/x86_64/libx.so", &library);
    assert_eq!(app(host, &file).place("libx.so"), "/opt/x86_64/libx.so");
}

#[test]
fn program_behind_a_link_finds_libraries_in_its_real_folder() {
    let file = Elf::program().needed(&["libx.so"]).runpath("$ORIGIN");
    let host = linux()
        .bytes("/opt/app/real/app", &file.build())
        .bytes("/opt/app/real/libx.so", &Elf::library("libx.so").build())
        .link("/usr/local/bin/app", "/opt/app/real/app");
    assert_eq!(examine_at(host, "/usr/local/bin/app").place("libx.so"), "/opt/app/real/libx.so");
}

#[test]
fn first_loaded_library_of_a_name_is_used_for_all() {
    let host = linux()
        .bytes(
            "/opt/app/bin/liba.so",
            &Elf::library("liba.so").needed(&["libx.so.1"]).runpath("/opt/other").build(),
        )
        .bytes("/opt/app/bin/libx.so.1", &Elf::library("libx.so.1").build())
        .bytes("/opt/other/libx.so.1", &Elf::library("libx.so.1").build());
    let sample = app(host, &Elf::program().needed(&["liba.so", "libx.so.1"]).runpath("$ORIGIN"));
    assert_eq!(sample.place("libx.so.1"), "/opt/app/bin/libx.so.1");
    assert_eq!(sample.examined.graph.objects.len(), 3);
}

#[test]
fn missing_library_names_its_package() {
    let sample = app(linux(), &Elf::program().needed(&["libgomp.so.1", "libfoo.so.2"]));
    assert_eq!(sample.faults(), ["binary.library-missing", "binary.library-missing"]);
    let summaries: Vec<&str> = sample.findings.iter().map(|finding| finding.summary.as_str()).collect();
    assert!(summaries.contains(&"`libgomp.so.1` is missing: GCC's OpenMP"), "{summaries:?}");
    assert!(summaries.contains(&"`libfoo.so.2` is missing"));
    let commands: Vec<&String> =
        sample.findings.iter().flat_map(|finding| &finding.remedy.commands).collect();
    assert_eq!(commands, ["sudo apt install libgomp1"]);
    let vulkan = app(linux(), &Elf::program().needed(&["libvulkan.so.1"]));
    assert_eq!(vulkan.faults(), ["vk.loader-missing"]);
}

#[test]
fn library_in_an_unsearched_folder_is_reported_with_that_folder() {
    let host = linux()
        .env("CUDA_HOME", "/opt/cuda-12")
        .file("/opt/cuda-12/version.json", "{\"cuda\": {\"version\": \"12.4.1\"}}")
        .executable("/opt/cuda-12/bin/nvcc")
        .opaque("/opt/cuda-12/lib64/libcudart.so.12")
        .opaque("/opt/cuda-12/lib64/libcublas.so.12");
    let sample = app(host, &Elf::program().needed(&["libcudart.so.12", "libcublas.so.12"]));
    assert_eq!(sample.faults(), ["binary.library-not-searched"]);
    let finding = sample.finding("binary.library-not-searched");
    assert!(
        finding.summary.contains("`libcudart.so.12`, `libcublas.so.12` are in `/opt/cuda-12/lib64`"),
        "{}",
        finding.summary
    );
    assert_eq!(
        finding.remedy.commands,
        ["export LD_LIBRARY_PATH=/opt/cuda-12/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"]
    );
}

#[test]
fn libraries_for_other_processors_are_skipped_and_reported() {
    let foreign = Elf { machine: 183, ..Elf::library("libx.so") }.build();
    let host = linux().bytes("/opt/app/bin/libx.so", &foreign);
    let file = Elf::program().needed(&["libx.so"]).runpath("$ORIGIN");
    assert_eq!(app(host.clone(), &file).faults(), ["binary.library-wrong-processor"]);
    let host = host.bytes(&format!("{LIB}/libx.so"), &Elf::library("libx.so").build());
    let sample = app(host, &file);
    assert_eq!(
        (sample.faults().len(), sample.place("libx.so")),
        (0, "/lib/x86_64-linux-gnu/libx.so".to_owned())
    );
}

#[test]
fn file_for_another_machine_has_only_that_finding() {
    let arm = Elf { machine: 183, ..Elf::program() }.needed(&["libnone.so"]);
    assert_eq!(app(linux(), &arm).ids(), ["binary.wrong-processor"]);
    let host = linux().bytes("/opt/app.exe", &pe(0x8664, false, &[("none.dll", &[])], &[], &[]));
    assert_eq!(examine_at(host, "/opt/app.exe").ids(), ["binary.wrong-system"]);
    let mac = RecordedHost::builder(Os::Macos, Arch::Aarch64);
    let intel = mach_o(0x0100_0007, 2, &[], &[], (12, 0));
    assert_eq!(examine_at(mac.clone().bytes("/a", &intel), "/a").ids(), ["binary.wrong-processor"]);
    let mac = mac.directory("/Library/Apple/usr/share/rosetta");
    assert_eq!(examine_at(mac.bytes("/a", &intel), "/a").ids(), ["binary.emulated"]);
}

#[test]
fn damaged_library_is_reported() {
    let host = linux().bytes(&format!("{LIB}/libx.so"), b"\x7fELF\x02\x01\x01");
    let sample = app(host, &Elf::program().needed(&["libx.so"]));
    assert_eq!(sample.faults(), ["binary.library-refused"]);
    let host = linux().file(&format!("{LIB}/libx.so"), "INPUT(libx.so.1)\n");
    assert_eq!(app(host, &Elf::program().needed(&["libx.so"])).faults(), ["binary.library-refused"]);
}

#[test]
fn glibc_requirement_is_reported_once() {
    let file = Elf::program()
        .needed(&["libc.so.6", "libm.so.6"])
        .version_needs("libc.so.6", &["GLIBC_2.34", "GLIBC_2.38"])
        .version_needs("libm.so.6", &["GLIBC_2.37"]);
    let sample = app(linux(), &file);
    assert_eq!(sample.faults(), ["binary.glibc-too-old"]);
    assert_eq!(sample.findings[0].summary, "`app` needs glibc 2.38, and this machine has 2.36");
    // If no libraries are recorded, the release of the C library decides.
    let bare = || {
        RecordedHost::builder(Os::Linux, Arch::X86_64)
            .command(&["ldd", "--version"], "ldd (Ubuntu GLIBC 2.35-0ubuntu3) 2.35\n")
            .env("PATH", "/usr/bin")
    };
    assert_eq!(app(bare(), &file).faults(), ["binary.glibc-too-old"]);
    let older =
        Elf::program().needed(&["libc.so.6", "libother.so"]).version_needs("libc.so.6", &["GLIBC_2.34"]);
    let sample = app(bare(), &older);
    assert_eq!((sample.faults().len(), sample.place("libother.so").as_str()), (0, "Unknown"));
}

#[test]
fn old_cpp_library_before_the_system_one_is_reported() {
    let old = Elf::library("libstdc++.so.6").version_definitions(&["GLIBCXX_3.4", "GLIBCXX_3.4.28"]).build();
    let host =
        || linux().env("LD_LIBRARY_PATH", "/opt/conda/lib").bytes("/opt/conda/lib/libstdc++.so.6", &old);
    let file =
        Elf::program().needed(&["libstdc++.so.6"]).version_needs("libstdc++.so.6", &["GLIBCXX_3.4.30"]);
    let sample = app(host(), &file);
    assert_eq!(sample.faults(), ["binary.libstdcxx-too-old"]);
    assert!(sample.findings[0].evidence.iter().any(|seen| seen.place == "LD_LIBRARY_PATH"));
    // A copy without recorded content has its version in its file name.
    let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
        .opaque(&format!("{LIB}/libstdc++.so.6.0.28"))
        .link(&format!("{LIB}/libstdc++.so.6"), "libstdc++.so.6.0.28");
    assert_eq!(app(host, &file).faults(), ["binary.libstdcxx-too-old"]);
    let other = Elf::program().needed(&["libz.so.1"]).version_needs("libz.so.1", &["ZLIB_1.3"]);
    let host = linux().bytes(
        &format!("{LIB}/libz.so.1"),
        &Elf::library("libz.so.1").version_definitions(&["ZLIB_1.2"]).build(),
    );
    assert_eq!(app(host, &other).faults(), ["binary.symbol-version-missing"]);
}

#[test]
fn musl_and_glibc_do_not_mix() {
    let alpine = || {
        RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/etc/os-release", "ID=alpine\nVERSION_ID=3.20\n")
            .bytes("/lib/ld-musl-x86_64.so.1", &Elf::library("libc.musl-x86_64.so.1").build())
            .link("/lib/libc.musl-x86_64.so.1", "ld-musl-x86_64.so.1")
            .bytes("/usr/lib/libstdc++.so.6", &Elf::library("libstdc++.so.6").build())
    };
    let gnu = Elf::program().needed(&["libc.so.6"]).version_needs("libc.so.6", &["GLIBC_2.34"]);
    assert_eq!(app(alpine(), &gnu).faults(), ["binary.libc-family"]);
    let library = Elf::library("libx.so").needed(&["libc.so.6"]).version_needs("libc.so.6", &["GLIBC_2.34"]);
    assert_eq!(app(alpine(), &library).faults(), ["binary.libc-family"]);
    let own = Elf { interpreter: Some("/lib/ld-musl-x86_64.so.1"), ..Elf::program() };
    let own = own.needed(&["libstdc++.so.6", "libc.musl-x86_64.so.1", "libm.so.6"]);
    assert_eq!(app(alpine(), &own).faults(), Vec::<&str>::new());
    assert_eq!(app(linux(), &own).faults(), ["binary.libc-family"]);
    let old = Elf { wide: false, machine: 3, interpreter: Some("/lib/ld-linux.so.2"), ..Elf::program() };
    assert_eq!(app(linux(), &old.clone().needed(&["libc.so.6"])).faults(), ["binary.loader-32-bit"]);
    let library = Elf { interpreter: None, ..old.clone() };
    let host = linux()
        .bytes("/usr/lib/ld-linux.so.2", &library.build())
        .bytes("/usr/lib/i386-linux-gnu/libx.so", &library.build());
    let sample = app(host, &old.needed(&["libx.so"]));
    assert_eq!((sample.faults().len(), sample.place("libx.so").as_str()), (0, "/lib/i386-linux-gnu/libx.so"));
    let nix = Elf { interpreter: Some("/nix/store/abc-glibc-2.40/lib/ld-linux-x86-64.so.2"), ..gnu };
    assert_eq!(app(linux(), &nix).faults(), ["binary.loader-missing"]);
}

#[test]
fn driver_stubs_are_found_on_every_search_path() {
    let stub = Elf::library("libcuda.so.1").build();
    let host = || {
        nvidia("cuda.driver=550.54.14,cuda.cc=89", "550.54.14").bytes("/cuda/lib64/stubs/libcuda.so.1", &stub)
    };
    let linked = Elf::program().needed(&["libcuda.so.1"]);
    let opening = Elf::program()
        .section(".nvFatBinSegment", vec![0; 24])
        .section(".nv_fatbin", fat_binary(&[&[sass(89)]]));
    for file in [
        linked.clone().rpath("/cuda/lib64/stubs"),
        linked.clone().runpath("/cuda/lib64/stubs"),
        opening.clone().runpath("/cuda/lib64/stubs"),
    ] {
        assert_eq!(app(host(), &file).faults(), ["cuda.stub-at-runtime"]);
    }
    let by_variable = || host().env("LD_LIBRARY_PATH", "/cuda/lib64/stubs");
    for file in [&linked, &opening] {
        let sample = app(by_variable(), file);
        assert_eq!(sample.faults(), ["cuda.stub-at-runtime"]);
        assert!(sample.findings[0].evidence.iter().any(|seen| seen.place == "LD_LIBRARY_PATH"));
    }
    // A copy under another name is a stub too; the driver's own library is not.
    let link = nvidia("cuda.driver=550.54.14,cuda.cc=89", "550.54.14")
        .bytes("/cuda/lib64/stubs/libcuda.so", &stub)
        .link("/opt/app/bin/libcuda.so.1", "/cuda/lib64/stubs/libcuda.so");
    assert_eq!(app(link, &linked.clone().runpath("$ORIGIN")).faults(), ["cuda.stub-at-runtime"]);
    assert_eq!(app(host(), &linked).ids(), ["binary.driver-linked"]);
}

#[test]
fn linked_program_does_not_start_without_a_driver() {
    let linked = Elf::program().needed(&["libcuda.so.1", "libnvidia-ml.so.1"]);
    let sample = app(linux(), &linked);
    assert_eq!(sample.faults(), ["binary.driver-missing"]);
    assert!(sample.findings[0].summary.contains("`libcuda.so.1`, `libnvidia-ml.so.1`"));
    let opening = Elf::program().section(".nvFatBinSegment", vec![0; 24]);
    let sample = app(linux(), &opening);
    assert_eq!((sample.faults().len(), sample.ids()), (0, vec!["binary.driver-absent"]));
    // A program that is linked with the driver and opens it as well does not start: that is said once.
    let both = Elf::program().needed(&["libcuda.so.1"]).section(".nvFatBinSegment", vec![0; 24]);
    assert_eq!(app(linux(), &both).ids(), ["binary.driver-missing"]);
}

fn with_runtime(release: &'static str) -> Elf {
    Elf::program().needed(&[release]).runpath("$ORIGIN")
}

#[test]
fn runtime_release_determines_the_oldest_driver() {
    let runtime = |name: &'static str| Elf::library(name).build();
    let host = |driver: &str| {
        nvidia(&format!("cuda.driver={driver},cuda.cc=89"), driver)
            .bytes("/opt/app/bin/libcudart.so.13", &runtime("libcudart.so.13"))
            .bytes("/opt/app/bin/libcudart.so.12", &runtime("libcudart.so.12"))
    };
    for (driver, release, faults) in [
        ("550.54.14", "libcudart.so.13", 1),
        ("580.65.06", "libcudart.so.13", 0),
        ("550.54.14", "libcudart.so.12", 0),
        ("525.60.13", "libcudart.so.12", 0),
        ("470.82.01", "libcudart.so.12", 1),
    ] {
        let sample = app(host(driver), &with_runtime(release));
        assert_eq!(sample.faults().len(), faults, "{driver} {release} {:?}", sample.ids());
        assert!(sample.faults().iter().all(|id| *id == "nv.driver.too-old"));
    }
    // If the runtime is part of the file, the release of its kernels decides.
    let own = Elf::program()
        .section(".nvFatBinSegment", vec![0; 24])
        .section(".nv_fatbin", fat_binary(&[&[(2, 89, (1, 8), 0x11)]]));
    assert_eq!(app(host("550.54.14"), &own).faults(), ["nv.driver.too-old"]);
    assert_eq!(app(host("580.65.06"), &own).faults(), Vec::<&str>::new());
}

#[test]
fn kernels_are_compared_with_gpu_and_driver() {
    let file = |entries: &[gpubuild_samples::SampleSection]| {
        Elf::program().section(".nvFatBinSegment", vec![0; 24]).section(".nv_fatbin", fat_binary(&[entries]))
    };
    for (entries, cc, driver, expected) in [
        (vec![sass(80), sass(89)], "89", "550.54.14", vec![]),
        (vec![sass(80)], "89", "550.54.14", vec![]),
        (vec![sass(80)], "90", "550.54.14", vec!["nv.no-kernel-image"]),
        (vec![sass(90)], "89", "550.54.14", vec!["nv.no-kernel-image"]),
        (vec![ptx(90, (8, 0))], "89", "550.54.14", vec!["nv.no-kernel-image"]),
        (vec![sass(70), ptx(80, (8, 4))], "89", "550.54.14", vec!["binary.kernels-compiled-at-start"]),
        (vec![sass(70), ptx(80, (8, 5))], "89", "550.54.14", vec!["nv.ptx.too-new"]),
        (vec![ptx(52, (8, 5)), ptx(80, (8, 0))], "89", "550.54.14", vec!["binary.kernels-compiled-at-start"]),
        (vec![ptx(80, (8, 6))], "90", "560.35.05", vec!["nv.ptx.too-new"]),
        (vec![(2, 90, (1, 7), 0x10_0011)], "100", "580.65.06", vec!["nv.no-kernel-image"]),
        (vec![(2, 100, (1, 8), 0x20_0011)], "103", "580.65.06", vec![]),
    ] {
        let host = nvidia(&format!("cuda.driver={driver},cuda.cc={cc}"), driver);
        let sample = app(host, &file(&entries));
        assert_eq!(sample.ids(), expected, "{entries:?} on {cc} with {driver}");
    }
}

#[test]
fn library_without_kernels_for_the_gpu_is_named() {
    let library = Elf::library("libggml-cuda.so").section(".nv_fatbin", fat_binary(&[&[sass(90)]]));
    let host = nvidia("cuda.driver=550.54.14,cuda.cc=86", "550.54.14")
        .bytes("/opt/app/bin/libggml-cuda.so", &library.build());
    let sample = app(host, &with_runtime("libggml-cuda.so"));
    assert_eq!(sample.faults(), ["nv.no-kernel-image"]);
    assert!(
        sample.findings[0].summary.starts_with("`libggml-cuda.so` has no kernels for"),
        "{}",
        sample.findings[0].summary
    );
    assert!(sample.findings[0].summary.contains("sm_86") && sample.findings[0].summary.contains("sm_90"));
}

/// A machine with HIP's runtime and the nodes of AMD's driver.
fn amd() -> RecordedHostBuilder {
    linux()
        .bytes(&format!("{LIB}/libamdhip64.so.6"), &Elf::library("libamdhip64.so.6").build())
        .device("/dev/kfd")
        .device("/dev/dri/renderD128")
}

#[test]
fn problem_of_the_machine_is_reported_as_the_cause() {
    let file = Elf::program().needed(&["libcuda.so.1"]);
    let faulty = linux()
        .env("GPUBUILD_SET", "cuda.driver=550.54.14,cuda.cc=89")
        .opaque(&format!("{LIB}/libcuda.so.550.54.14"))
        .link(&format!("{LIB}/libcuda.so.1"), "libcuda.so.550.54.14");
    let sample = app(faulty, &file);
    let cause = sample.finding("nv.device-nodes-missing");
    let folded: Vec<&str> = cause.consequences.iter().map(|one| one.id.as_str()).collect();
    assert_eq!((sample.faults(), folded), (vec!["nv.device-nodes-missing"], vec!["binary.backend-blocked"]));
    // A program that does not use the driver gets no findings about it.
    let other = linux().env("GPUBUILD_SET", "cuda.driver=550.54.14,cuda.cc=89");
    assert_eq!(app(other.clone(), &Elf::program()).ids(), Vec::<&str>::new());
    let sample = app(other, &file);
    assert_eq!(sample.faults(), ["nv.driver.library-missing"]);
    assert_eq!(sample.findings[0].consequences[0].id, "binary.driver-missing");
}

#[test]
fn hip_targets_are_compared_with_the_gpu() {
    let file = |targets: &[&str]| Elf::program().section(".hip_fatbin", bundles(&[targets]));
    for (targets, gfx, set, expected) in [
        (vec!["hip-amdgcn-amd-amdhsa--gfx1100"], "gfx1100", "", vec![]),
        (vec!["hip-amdgcn-amd-amdhsa--gfx1030"], "gfx1031", "", vec!["rocm.gfx-unsupported"]),
        (vec!["hip-amdgcn-amd-amdhsa--gfx1030"], "gfx1031", "10.3.0", vec![]),
        (vec!["hip-amdgcn-amd-amdhsa--gfx10-3-generic"], "gfx1031", "", vec![]),
        (vec!["hip-amdgcn-amd-amdhsa--gfx90a:xnack-"], "gfx90a", "", vec![]),
    ] {
        let mut host = amd().env("GPUBUILD_SET", &format!("rocm.gfx={gfx}"));
        if !set.is_empty() {
            host = host.env("HSA_OVERRIDE_GFX_VERSION", set);
        }
        assert_eq!(app(host, &file(&targets)).ids(), expected, "{targets:?} on {gfx} {set}");
    }
    let compressed =
        Elf::program().section(".hip_fatbin", [b"CCOB\x02\0\x01\0\x40\0\0\0".to_vec(), vec![7; 52]].concat());
    let host = amd().env("GPUBUILD_SET", "rocm.gfx=gfx1100");
    assert_eq!(app(host, &compressed).ids(), ["binary.kernels-unknown"]);
    let host = amd()
        .env("GPUBUILD_SET", "rocm.gfx=gfx1010")
        .bytes("/opt/app/bin/librocblas.so.4", &Elf::library("librocblas.so.4").build())
        .opaque("/opt/app/bin/rocblas/library/TensileLibrary_lazy_gfx1100.dat")
        .opaque("/opt/app/bin/rocblas/library/TensileLibrary_lazy_gfx90a.dat");
    assert_eq!(app(host, &with_runtime("librocblas.so.4")).faults(), ["rocm.gfx-unsupported"]);
}

#[test]
fn mixed_cuda_releases_are_reported() {
    let library = |name: &'static str| Elf::library(name);
    let host = || nvidia("cuda.driver=580.65.06,cuda.cc=89", "580.65.06");
    let mixed = host()
        .bytes("/opt/app/bin/libcudart.so.12", &library("libcudart.so.12").build())
        .bytes("/opt/app/bin/libcublas.so.13", &library("libcublas.so.13").build());
    let file = Elf::program().needed(&["libcudart.so.12", "libcublas.so.13"]).runpath("$ORIGIN");
    assert_eq!(app(mixed, &file).faults(), ["nv.cudart-mixed"]);
    // Libraries with version numbers of their own belong to any release.
    let unmixed = host()
        .bytes("/opt/app/bin/libcudart.so.12", &library("libcudart.so.12").build())
        .bytes("/opt/app/bin/libcufft.so.11", &library("libcufft.so.11").build());
    let file = Elf::program().needed(&["libcudart.so.12", "libcufft.so.11"]).runpath("$ORIGIN");
    assert_eq!(app(unmixed, &file).faults(), Vec::<&str>::new());
}

#[test]
fn older_copy_before_the_programs_own_is_reported() {
    let runtime = Elf::library("libcudnn.so.9").build();
    let host = |system: &str, own: &str| {
        nvidia("cuda.driver=580.65.06,cuda.cc=89", "580.65.06")
            .env("LD_LIBRARY_PATH", "/usr/local/cuda/lib64")
            .bytes(&format!("/usr/local/cuda/lib64/libcudnn.so.{system}"), &runtime)
            .link("/usr/local/cuda/lib64/libcudnn.so.9", &format!("libcudnn.so.{system}"))
            .bytes(&format!("/opt/app/bin/libcudnn.so.{own}"), &runtime)
            .link("/opt/app/bin/libcudnn.so.9", &format!("libcudnn.so.{own}"))
    };
    let sample = app(host("9.1.0", "9.8.0"), &with_runtime("libcudnn.so.9"));
    assert_eq!(sample.faults(), ["nv.cudart-mixed"]);
    assert!(sample.findings[0].summary.contains("9.1.0") && sample.findings[0].summary.contains("9.8.0"));
    assert_eq!(app(host("9.8.0", "9.8.0"), &with_runtime("libcudnn.so.9")).faults(), Vec::<&str>::new());
}

#[test]
fn functions_that_the_driver_lacks_are_reported() {
    let file = Elf::program().needed(&["libcuda.so.1"]).imports(&["cuInit", "cuCtxCreate_v4"]);
    let recorded = |driver: &str| {
        nodes()
            .env("GPUBUILD_SET", &format!("cuda.driver={driver},cuda.cc=89"))
            .opaque(&format!("{LIB}/libcuda.so.{driver}"))
            .link(&format!("{LIB}/libcuda.so.1"), &format!("libcuda.so.{driver}"))
    };
    let sample = app(recorded("550.54.14"), &file);
    assert_eq!(sample.faults(), ["nv.symbol-too-new"]);
    assert!(
        sample.findings[0].summary.contains("`cuCtxCreate_v4` of CUDA 12.5"),
        "{}",
        sample.findings[0].summary
    );
    assert_eq!(app(recorded("570.86.10"), &file).faults(), Vec::<&str>::new());
    // The functions that the library exports take precedence over its version.
    let driver = Elf::library("libcuda.so.1").exports(&["cuInit", "cuCtxCreate_v4"]).build();
    let offering = nodes()
        .env("GPUBUILD_SET", "cuda.driver=550.54.14,cuda.cc=89")
        .bytes(&format!("{LIB}/libcuda.so.1"), &driver);
    assert_eq!(app(offering, &file).faults(), Vec::<&str>::new());
}

#[test]
fn windows_searches_the_program_folder_before_its_system_folders() {
    let dll = pe(0x8664, true, &[], &[], &[]);
    let windows = || {
        RecordedHost::builder(Os::Windows, Arch::X86_64)
            .env("PATH", r"C:\CUDA\bin")
            .opaque(r"C:\Windows\System32\kernel32.dll")
            .opaque(r"C:\Windows\System32\user32.dll")
            .bytes(r"C:\CUDA\bin\cudart64_12.dll", &dll)
    };
    let imports: &[(&str, &[&str])] = &[
        ("CUDART64_12.dll", &["cudaMalloc"]),
        ("KERNEL32.dll", &["ExitProcess"]),
        ("api-ms-win-crt-runtime-l1-1-0.dll", &["exit"]),
        ("VCRUNTIME140.dll", &["memcpy"]),
    ];
    let file = pe(0x8664, false, imports, &[("nvcuda.dll", &["cuInit"]), ("plugin.dll", &[])], &[]);
    let sample = examine_at(windows().bytes(r"C:\app\app.exe", &file), r"C:\app\app.exe");
    assert_eq!(sample.place("CUDART64_12.dll"), r"C:\CUDA\bin\CUDART64_12.dll");
    assert_eq!(sample.place("api-ms-win-crt-runtime-l1-1-0.dll"), "System");
    assert_eq!(sample.faults(), ["binary.vcredist-missing"]);
    assert_eq!(sample.ids()[1..], ["binary.library-missing-later", "binary.driver-absent"]);
    let beside = windows()
        .bytes(r"C:\app\cudart64_12.dll", &dll)
        .bytes(r"C:\app\vcruntime140.dll", &dll)
        .bytes(r"C:\app\app.exe", &file);
    let sample = examine_at(beside, r"C:\app\app.exe");
    assert_eq!(sample.place("CUDART64_12.dll"), r"C:\app\CUDART64_12.dll");
    // A recording without Windows' own files gives no findings about them.
    let bare = RecordedHost::builder(Os::Windows, Arch::X86_64).bytes(r"C:\app\app.exe", &file);
    let sample = examine_at(bare, r"C:\app\app.exe");
    assert_eq!(sample.place("KERNEL32.dll"), "Unknown");
    assert_eq!(sample.faults(), ["binary.library-missing"]);
    let arm = windows().bytes(r"C:\app\cudart64_12.dll", &pe(0xaa64, true, &[], &[], &[]));
    let sample = examine_at(
        arm.bytes(r"C:\app\app.exe", &pe(0x8664, false, &imports[..1], &[], &[])),
        r"C:\app\app.exe",
    );
    assert_eq!(sample.faults(), ["binary.library-refused"]);
}

#[test]
fn macos_follows_rpaths_and_has_libraries_without_files() {
    const ARM: u32 = 0x0100_000c;
    let mac = || {
        RecordedHost::builder(Os::Macos, Arch::Aarch64)
            .file(
                "/System/Library/CoreServices/SystemVersion.plist",
                "<plist><dict><key>ProductVersion</key><string>14.5</string></dict></plist>",
            )
            .opaque("/usr/lib/dyld")
    };
    let libraries: &[(&str, bool)] = &[
        ("@rpath/libggml.dylib", false),
        ("/usr/lib/libSystem.B.dylib", false),
        ("/System/Library/Frameworks/Metal.framework/Versions/A/Metal", false),
        ("/opt/gone/libweak.dylib", true),
    ];
    let program = |system| mach_o(ARM, 2, libraries, &["@executable_path/../lib"], system);
    let ggml =
        |processor| mach_o(processor, 6, &[("@rpath/libbase.dylib", false)], &["@loader_path/."], (11, 0));
    let host = mac()
        .bytes("/opt/app/bin/app", &program((13, 0)))
        .bytes("/opt/app/lib/libggml.dylib", &ggml(ARM))
        .bytes("/opt/app/lib/libbase.dylib", &mach_o(ARM, 6, &[], &[], (11, 0)));
    let sample = examine_at(host, APP);
    assert_eq!(sample.faults(), Vec::<&str>::new(), "{:?}", sample.places());
    assert_eq!(sample.place("@rpath/libbase.dylib"), "/opt/app/lib/libbase.dylib");
    assert_eq!(sample.place("/usr/lib/libSystem.B.dylib"), "System");
    let sample = examine_at(mac().bytes(APP, &program((13, 0))), APP);
    assert_eq!(sample.faults(), ["binary.library-missing"]);
    let intel = universal(&[(0x0100_0007, ggml(0x0100_0007))]);
    let sample =
        examine_at(mac().bytes(APP, &program((13, 0))).bytes("/opt/app/lib/libggml.dylib", &intel), APP);
    assert_eq!(sample.faults(), ["binary.library-wrong-processor"]);
    assert_eq!(examine_at(mac().bytes(APP, &program((15, 0))), APP).faults(), ["binary.system-too-old"]);
}
