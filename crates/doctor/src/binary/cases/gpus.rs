//! Kernels, drivers and runtime libraries.

use super::*;

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
