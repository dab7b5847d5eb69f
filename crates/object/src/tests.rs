//! Tests of each format, and robustness tests with damaged files.

use gpubuild_host::{HostInfo, RecordedHost};
use gpubuild_samples::{self as samples, Elf, bundles, fat_binary, mach_o, pe, ptx, sass, universal};

use super::*;

const ARM: u32 = 0x0100_000c;
const INTEL: u32 = 0x0100_0007;

fn parse_bytes(bytes: &[u8]) -> Result<ObjectFile, UnreadableObject> {
    let host = RecordedHost::builder(Os::Linux, Arch::X86_64).bytes("/f", bytes).build();
    read(&host, &host.path("/f"), Arch::X86_64)
}

fn names(binary: &ObjectFile) -> Vec<&str> {
    binary.needed.iter().map(|needed| needed.name.as_str()).collect()
}

#[test]
fn elf_dependencies_and_versions_are_read() {
    let file = Elf::program()
        .needed(&["libcudart.so.12", "libc.so.6"])
        .runpath("$ORIGIN/../lib::/opt/x")
        .version_needs("libc.so.6", &["GLIBC_2.38", "GLIBC_2.2.5"]);
    let binary = parse_bytes(&file.build()).unwrap();
    assert_eq!(
        (binary.format, binary.kind, binary.machine.name),
        (ObjectFormat::Elf, ObjectKind::Program, "x86_64")
    );
    assert_eq!(binary.interpreter.as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
    assert_eq!(names(&binary), ["libcudart.so.12", "libc.so.6"]);
    assert_eq!(binary.runpath, ["$ORIGIN/../lib", "/opt/x"]);
    assert_eq!(binary.needed[1].versions, ["GLIBC_2.38", "GLIBC_2.2.5"]);
    let library = Elf::library("libx.so.1").version_definitions(&["X_1", "X_2"]).rpath("/a:/b");
    let binary = parse_bytes(&library.build()).unwrap();
    assert_eq!((binary.kind, binary.name.as_deref()), (ObjectKind::Library, Some("libx.so.1")));
    assert_eq!(
        (binary.offers.as_slice(), binary.rpath.len()),
        (&["X_1".to_owned(), "X_2".to_owned()][..], 2)
    );
    let small = Elf { wide: false, machine: 3, ..Elf::library("libold.so") }.needed(&["libm.so.6"]);
    let binary = parse_bytes(&small.build()).unwrap();
    assert_eq!(
        (binary.machine.name, binary.machine.wide, names(&binary)),
        ("i386", false, vec!["libm.so.6"])
    );
}

/// A 64-bit ELF library with many sections of one name and the same content.
fn overlapping_sections(name: &str, count: u16, content: &[u8]) -> Vec<u8> {
    let names = format!("\0{name}\0.shstrtab\0");
    let section = |name: usize, kind: u32, offset: usize, size: usize| {
        let numbers = [u32::try_from(name).unwrap().to_le_bytes(), kind.to_le_bytes()].concat();
        let wide = [2, 0, offset as u64, size as u64, 0, 1, 0].map(u64::to_le_bytes).concat();
        [numbers, wide].concat()
    };
    let names_at = 64 + content.len();
    let table = names_at + names.len();
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([3_u16, 62].map(u16::to_le_bytes).concat());
    file.extend(1_u32.to_le_bytes());
    file.extend([0, 0, table as u64].map(u64::to_le_bytes).concat());
    file.extend(0_u32.to_le_bytes());
    file.extend([64, 56, 0, 64, count + 2, count + 1].map(u16::to_le_bytes).concat());
    file.extend(content);
    file.extend(names.as_bytes());
    file.extend([0; 64]);
    for _ in 0..count {
        file.extend(section(1, 1, 64, content.len()));
    }
    file.extend(section(2 + name.len(), 3, names_at, names.len()));
    file
}

/// Without limits, each of these small files takes minutes or gigabytes.
#[test]
fn parts_that_overlap_or_repeat_are_read_up_to_a_limit() {
    let code = fat_binary(&[&vec![sass(80); 1000]]);
    let binary = parse_bytes(&overlapping_sections(".nv_fatbin", 60_000, &code)).unwrap();
    assert!(binary.cuda.incomplete && binary.cuda.kernels.len() == 1, "{binary:?}");
    let once = parse_bytes(&overlapping_sections(".nv_fatbin", 1, &code)).unwrap();
    assert!(!once.cuda.incomplete);
    let folders = String::leak("/a:".repeat(1000));
    let names = vec!["libx.so"; 3000];
    let binary = parse_bytes(&Elf::program().runpath(folders).needed(&names).build()).unwrap();
    assert_eq!((binary.runpath.len(), binary.needed.len()), (256, 1024));
    let functions = vec!["cuInit"; 40_000];
    let imports = [("nvcuda.dll", functions.as_slice()); 3];
    let binary = parse_bytes(&pe(0x8664, true, &imports, &[], &[])).unwrap();
    let count: usize = binary.needed.iter().map(|needed| needed.functions.len()).sum();
    assert!((60_000..=1 << 16).contains(&count), "{count}");
}

#[test]
fn runpath_overrides_rpath() {
    let binary = parse_bytes(&Elf::program().rpath("/old").runpath("/new").build()).unwrap();
    assert_eq!((binary.rpath.len(), binary.runpath.as_slice()), (0, &["/new".to_owned()][..]));
}

#[test]
fn only_driver_functions_are_collected() {
    let file =
        Elf::program().needed(&["libcuda.so.1"]).imports(&["cuInit", "cuCtxCreate_v4", "cudaMalloc", "puts"]);
    assert_eq!(parse_bytes(&file.build()).unwrap().needed[0].functions, ["cuInit", "cuCtxCreate_v4"]);
    let driver = Elf::library("libcuda.so.1").exports(&["cuInit", "helper"]);
    assert_eq!(parse_bytes(&driver.build()).unwrap().functions, ["cuInit"]);
    let other = Elf::program().needed(&["libx.so"]).imports(&["cuInit"]);
    assert!(parse_bytes(&other.build()).unwrap().needed[0].functions.is_empty());
}

#[test]
fn kernels_are_read_from_every_container() {
    let section = fat_binary(&[
        &[sass(80), ptx(80, (8, 5))],
        &[
            (2, 90, (1, 7), 0x10_0011),
            (2, 100, (1, 8), 0x120_0011),
            (8, 75, (1, 67), 0x11),
            (64, 1, (0, 0), 0),
        ],
    ]);
    let binary = parse_bytes(&Elf::program().section(".nv_fatbin", section).build()).unwrap();
    let list: Vec<String> = binary
        .cuda
        .kernels
        .iter()
        .map(|kernel| format!("{:?} {} {:?}", kernel.kind, kernel.arch, kernel.ptx))
        .collect();
    let expected = ["Sass 80 None", "Sass 90a None", "Sass 100f None", "Ptx 80 Some((8, 5))", "Lto 75 None"];
    assert_eq!(list, expected);
    assert_eq!((binary.cuda.containers, binary.cuda.incomplete), (2, false));
    assert_eq!(binary.cuda.toolkit(), None);
    let newer =
        parse_bytes(&Elf::program().section(".nv_fatbin", fat_binary(&[&[(2, 90, (1, 8), 0x11)]])).build());
    assert_eq!(newer.unwrap().cuda.toolkit().unwrap().as_str(), "13.0");
}

#[test]
fn kernels_that_are_longer_than_their_container_are_not_counted() {
    let mut section = fat_binary(&[&[sass(80)], &[sass(80)]]);
    for container in [0, section.len() / 2] {
        section[container + 24..container + 32].copy_from_slice(&(u64::MAX - 200).to_le_bytes());
    }
    let binary = parse_bytes(&Elf::program().section(".nv_fatbin", section).build()).unwrap();
    assert!(binary.cuda.incomplete && binary.cuda.is_empty(), "{binary:?}");
}

#[test]
fn toolkit_is_read_from_uncompressed_machine_code() {
    let mut section = fat_binary(&[&[sass(86)]]);
    section[80..84].copy_from_slice(b"\x7fELF");
    section[100..104].copy_from_slice(&124_u32.to_le_bytes());
    let mut longer = section;
    longer.extend([0; 64]);
    let binary = parse_bytes(&Elf::program().section(".nv_fatbin", longer).build()).unwrap();
    assert_eq!(binary.cuda.toolkit().unwrap().as_str(), "12.4");
}

#[test]
fn hip_targets_are_read_from_every_bundle() {
    let host = "host-x86_64-unknown-linux";
    let section = bundles(&[
        &[host, "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"],
        &[host, "hip-amdgcn-amd-amdhsa-gfx1100", "hip-spirv64-amd-amdhsa--amdgcnspirv"],
    ]);
    let binary = parse_bytes(&Elf::program().section(".hip_fatbin", section).build()).unwrap();
    let targets: Vec<&str> = binary.hip.targets.iter().map(String::as_str).collect();
    assert_eq!(targets, ["gfx1100", "gfx90a:xnack-", "spirv"]);
    assert_eq!((binary.hip.compressed, binary.hip.incomplete), (0, false));
    let mut section = b"CCOB\x02\0\x01\0".to_vec();
    section.extend(64_u32.to_le_bytes());
    section.resize(64, 1);
    section.resize(4096, 0);
    section.extend(samples::bundles(&[&["hip-amdgcn-amd-amdhsa--gfx906"]]));
    let binary = parse_bytes(&Elf::program().section(".hip_fatbin", section).build()).unwrap();
    assert_eq!((binary.hip.compressed, binary.hip.targets.len()), (1, 1));
}

#[test]
fn embedded_kernels_are_found_at_any_offset() {
    // A byte array in a static library at an unaligned offset, then data that only starts like a container or bundle.
    let fat = fat_binary(&[&[sass(75), sass(90), ptx(90, (9, 0))]]);
    let mut content = b"!<arch>\nmember of an archive/".to_vec();
    content.extend(&fat);
    content.extend(b"\x50\xed\x55\xba\x01\0\x10\0\xff\xff\xff\xff\xff\xff\xff\xff");
    content.extend(bundles(&[&["host-x86_64-unknown-linux", "hipv4-amdgcn-amd-amdhsa--gfx90a"]]));
    content.extend(b"text __CLANG_OFFLOAD_BUNDLE__ of a tool");
    let host = RecordedHost::builder(Os::Linux, Arch::X86_64).bytes("/libgk.a", &content).build();
    let (cuda, hip) = embedded(&host, &host.path("/libgk.a")).unwrap();
    let sizes: Vec<(String, u64)> =
        cuda.bytes.iter().map(|(kernel, size)| (kernel.arch.sm(), *size)).collect();
    assert_eq!(sizes.iter().map(|(arch, _)| arch.as_str()).collect::<Vec<_>>(), ["sm_75", "sm_90", "sm_90"]);
    let entries = u64::from_le_bytes(fat[8..16].try_into().unwrap());
    assert_eq!(
        sizes.iter().map(|(_, size)| size).sum::<u64>(),
        entries,
        "the sizes do not include the container's header"
    );
    assert_eq!(hip.bytes.keys().map(String::as_str).collect::<Vec<_>>(), ["gfx90a"]);
    let whole = embedded(&host, &host.path("/nothing"));
    assert_eq!(whole.unwrap_err(), UnreadableObject::Missing);
}

#[test]
fn pe_imports_and_delayed_imports_are_read() {
    let file = pe(
        0x8664,
        false,
        &[("cudart64_12.dll", &["cudaMalloc"]), ("KERNEL32.dll", &["ExitProcess"])],
        &[("nvcuda.dll", &["cuInit", "cuCtxCreate_v4"])],
        &[(".nv_fatb", fat_binary(&[&[sass(89)]])), (".nvFatBi", vec![0; 24])],
    );
    let binary = parse_bytes(&file).unwrap();
    assert_eq!(
        (binary.format, binary.kind, binary.machine.name),
        (ObjectFormat::Pe, ObjectKind::Program, "x86_64")
    );
    assert_eq!(names(&binary), ["cudart64_12.dll", "KERNEL32.dll", "nvcuda.dll"]);
    assert_eq!(binary.needed[2].when, When::FirstCall);
    assert_eq!(binary.needed[2].functions, ["cuInit", "cuCtxCreate_v4"]);
    assert!(binary.cuda.registers && binary.cuda.kernels.len() == 1);
    let library = parse_bytes(&pe(0xaa64, true, &[], &[], &[])).unwrap();
    assert_eq!((library.kind, library.machine.name), (ObjectKind::Library, "aarch64"));
}

#[test]
fn mach_o_libraries_are_read() {
    let part = |processor| {
        let libraries = [("@rpath/libggml.dylib", false), ("/usr/lib/libSystem.B.dylib", true)];
        mach_o(processor, 2, &libraries, &["@loader_path/../lib"], (13, 3))
    };
    let binary = parse_bytes(&part(ARM)).unwrap();
    assert_eq!((binary.format, binary.machine.name), (ObjectFormat::MachO, "aarch64"));
    assert_eq!(names(&binary), ["@rpath/libggml.dylib", "/usr/lib/libSystem.B.dylib"]);
    assert_eq!(binary.needed[1].when, When::IfThere);
    assert_eq!(
        (binary.rpath.as_slice(), binary.system.unwrap().as_str().to_owned()),
        (&["@loader_path/../lib".to_owned()][..], "13.3".to_owned())
    );
    let both = parse_bytes(&universal(&[(ARM, part(ARM)), (INTEL, part(INTEL))])).unwrap();
    assert_eq!((both.machine.name, both.also.as_slice()), ("x86_64", &["aarch64"][..]));
}

#[test]
fn other_formats_are_described() {
    for (bytes, expected) in [
        (&b""[..], "empty"),
        (b"#!/bin/sh\n", "a script"),
        (b"!<arch>\nx", "a static library"),
        (b"PK\x03\x04....", "a wheel"),
        (b"\xca\xfe\xba\xbe\0\0\0\x34", "Java"),
        (b"hello, world", "not an executable"),
        (b"MZ", "damaged"),
        (b"\x7fELF", "damaged"),
    ] {
        let error = parse_bytes(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let object = Elf { kind: 1, ..Elf::library("x") };
    assert!(parse_bytes(&object.build()).unwrap_err().to_string().contains("an object file"));
    let host = RecordedHost::builder(Os::Linux, Arch::X86_64).opaque("/lib/libx.so").directory("/d").build();
    let at = |path: &str| read(&host, &host.path(path), Arch::X86_64).unwrap_err();
    assert_eq!(at("/lib/libx.so"), UnreadableObject::NotRecorded);
    assert_eq!(at("/none"), UnreadableObject::Missing);
    assert_eq!(at("/d"), UnreadableObject::Foreign("a folder"));
}

/// A file of each format that contains everything that the parsers read.
fn samples_of_all_formats() -> Vec<Vec<u8>> {
    let elf = Elf::program()
        .needed(&["libcuda.so.1", "libc.so.6"])
        .runpath("$ORIGIN")
        .version_needs("libc.so.6", &["GLIBC_2.38"])
        .version_definitions(&["X_1"])
        .imports(&["cuInit"])
        .section(".nv_fatbin", fat_binary(&[&[sass(80), ptx(80, (8, 0))], &[sass(90)]]))
        .section(".hip_fatbin", bundles(&[&["hip-amdgcn-amd-amdhsa--gfx906"]]));
    let small = Elf { wide: false, machine: 3, ..elf.clone() };
    let windows = pe(
        0x8664,
        false,
        &[("nvcuda.dll", &["cuInit"])],
        &[("vulkan-1.dll", &["vkCreateInstance"])],
        &[(".nv_fatb", fat_binary(&[&[sass(89)]]))],
    );
    let mac = mach_o(ARM, 2, &[("@rpath/libggml.dylib", false)], &["@loader_path"], (13, 0));
    vec![elf.build(), small.build(), windows, universal(&[(ARM, mac.clone())]), mac]
}

#[test]
fn truncated_files_do_not_panic() {
    for file in samples_of_all_formats() {
        let step = (file.len() / 400).max(1);
        for end in (0..file.len()).step_by(step) {
            let _ = parse_bytes(&file[..end]);
        }
    }
}

#[test]
fn wrong_numbers_do_not_panic() {
    for file in samples_of_all_formats() {
        // Headers and tables are at the start, so later bytes are tested less densely.
        let places = (0..file.len()).filter(|at| *at < 1200 || at % 37 == 0);
        for at in places {
            for value in [0x00, 0x7f, 0xff] {
                let mut damaged = file.clone();
                damaged[at] = value;
                let _ = parse_bytes(&damaged);
            }
            let mut damaged = file.clone();
            let end = (at + 8).min(damaged.len());
            damaged[at..end].fill(0xff);
            let _ = parse_bytes(&damaged);
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]
    #[test]
    fn random_damage_does_not_panic(which in 0usize..5, damage in proptest::collection::vec((0.0f64..1.0, 0u8..), 1..12)) {
        let mut file = samples_of_all_formats().swap_remove(which);
        for (place, value) in damage {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "an offset in the file")]
            let at = (place * file.len() as f64) as usize;
            file[at] = value;
        }
        let _ = parse_bytes(&file);
    }

    #[test]
    fn random_bytes_do_not_panic(start in 0usize..6, rest in proptest::collection::vec(0u8.., 0..300)) {
        let magic: [&[u8]; 6] = [b"\x7fELF\x02\x01\x01", b"\x7fELF\x01\x01", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe\0\0\0\x02", b""];
        let _ = parse_bytes(&[magic[start], &rest].concat());
    }
}

#[test]
fn newest_needed_glibc_is_found_among_other_versions() {
    let machine = ObjectMachine { name: "x86_64", wide: true, number: 62 };
    let needed = |versions: &[&str]| {
        let versions = versions.iter().map(|&name| name.to_owned()).collect();
        let mut file = ObjectFile::new(ObjectFormat::Elf, machine.clone(), ObjectKind::Program);
        file.needed.push(NeededObject { versions, ..NeededObject::at_start("libc.so.6") });
        file.needed_glibc().map(|found| found.to_string())
    };
    assert_eq!(needed(&["GCC_3.0", "GLIBC_PRIVATE"]), None);
    assert_eq!(needed(&["GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.4", "GCC_3.0"]).as_deref(), Some("2.17"));
}
