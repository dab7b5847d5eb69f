//! The search for libraries on Linux, and their versions.

use super::*;

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
