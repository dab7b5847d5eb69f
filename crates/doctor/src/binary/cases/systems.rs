//! Windows and macOS.

use super::*;

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
