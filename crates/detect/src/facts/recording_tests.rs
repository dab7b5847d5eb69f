//! Tests that a recording contains everything that detection reads, and no personal data.

use std::time::Duration;

use gpubuild_host::recorded::{CommandResult, RecordedHostBuilder};
use gpubuild_host::{
    Arch, Command, Host, HostInfo, InspectHost, Os, ReadFiles, RealHost, RecordedHost, find_program, glob,
    library, record,
};

use super::gather;

/// Size in bytes of a library that is too large to be recorded completely.
const LARGE: usize = 1 << 20;

fn linux() -> RecordedHostBuilder {
    RecordedHost::builder(Os::Linux, Arch::X86_64)
}

/// Runs `inspect` on a host and on its recording, and asserts that both results are equal.
fn check<T: PartialEq + std::fmt::Debug>(
    host: &dyn Host,
    inspect: impl Fn(&dyn InspectHost) -> T,
) -> (T, String) {
    let mut first = None;
    let (recording, _) = record(host, &[], |host| first = Some(inspect(host)));
    let text = recording.to_toml();
    let replayed =
        RecordedHost::parse("replay.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let second = inspect(&replayed);
    assert_eq!(Some(&second), first.as_ref(), "{text}");
    (second, text)
}

#[test]
fn a_recording_of_this_machine_yields_the_same_facts() {
    let host = RealHost::new();
    let (facts, text) = check(&host, |host| {
        let mut facts = gather(host);
        // A recording has placeholders for them.
        facts.gpus.iter_mut().for_each(|gpu| gpu.uuid = None);
        facts
    });
    assert_eq!(facts.platform, host.platform());
    assert!(text.len() < 1 << 20, "{} bytes", text.len());
    if host.platform().os == Os::Linux {
        assert!(
            text.contains("path = \"/proc/self/status\"")
                && !text.contains(&format!("/proc/{}", std::process::id()))
        );
    }
}

#[test]
fn a_recording_with_every_kind_of_entry_yields_the_same_results() {
    let host = linux()
        .env("PATH", "/usr/local/cuda/bin:/usr/bin")
        .env("LD_LIBRARY_PATH", "/opt/lib")
        .env("GPUBUILD_SET", "cuda.cc=90")
        .executable("/usr/local/cuda-12.4/bin/nvcc")
        .executable("/usr/bin/nvcc")
        .link("/usr/local/cuda", "/etc/alternatives/cuda")
        .link("/etc/alternatives/cuda", "../../usr/local/cuda-12.4")
        .link("/usr/local/dangling", "nowhere")
        .file("/usr/local/cuda-12.4/version.json", "{\"cuda\": {\"version\": \"12.4.1\"}}\n")
        .bytes(
            "/opt/lib/libcuda.so.1",
            &[0x7f, b'E', b'L', b'F', 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 62, 0, 1],
        )
        .file("/odd", "a\r\nb\0c\u{1b}'''\"\"\"\\")
        .closed_device("/dev/kfd", "permission-denied", 109)
        .closed_device("/dev/nvidia0", "no-such-device", 0)
        .device("/dev/dri/renderD128")
        .file("/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n")
        .link("/sys/bus/pci/devices/0000:c1:00.0", "../../../devices/pci/0000:c1:00.0")
        .file("/sys/devices/pci/0000:c1:00.0/class", "0x030200\n")
        .file("/sys/devices/pci/0000:c1:00.0/vendor", "0x10de\n")
        .file("/sys/devices/pci/0000:c1:00.0/device", "0x2335\n")
        .link("/sys/devices/pci/0000:c1:00.0/driver", "../../../bus/pci/drivers/nvidia")
        .command(&["/usr/bin/nvcc", "--version"], "release 12.4\n")
        .command_result(&["/usr/bin/nvcc", "hang"], CommandResult::Hangs)
        .probe("cuda", "{\"driver_version\": 12040}")
        .identity(1000, &[1000, 27])
        .build();
    let second = Duration::from_secs(1);
    let (_, text) = check(&host, |host| {
        let open = |path: &str| host.open_device(&host.path(path)).map_err(|error| error.kind());
        let seen = (
            gather(host),
            find_program(host, "nvcc"),
            glob(host, "/usr/local/cuda*/version.json"),
            glob(host, "/usr/local/*"),
            library::find(host, "libcuda.so.1"),
            host.canonical(&host.path("/usr/local/cuda/bin")).map_err(|error| error.kind()),
            host.read_link(&host.path("/usr/local/dangling")).map_err(|error| error.kind()),
            host.read(&host.path("/odd")).map_err(|error| error.kind()),
        );
        let devices =
            (open("/dev/kfd"), open("/dev/nvidia0"), open("/dev/dri/renderD128"), open("/dev/none"));
        let kfd = host.stat(&host.path("/dev/kfd")).map(|stat| stat.owner).map_err(|error| error.kind());
        let ran = (
            host.run(&Command::new("/usr/bin/nvcc", second).arg("--version")),
            host.run(&Command::new("/usr/bin/nvcc", second).arg("hang")),
            host.run(&Command::new("nothing", second)),
            host.probe("cuda", second),
            host.identity().clone(),
        );
        (seen, devices, kfd, ran)
    });
    assert!(text.contains("open_error = \"no-such-device\""), "{text}");
    assert!(text.contains("version.json"));
}

#[test]
fn a_recording_of_a_windows_host_yields_the_same_results() {
    let key = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}\0000";
    let host = RecordedHost::builder(Os::Windows, Arch::X86_64)
        .env("Path", r"C:\CUDA\bin")
        .executable(r"C:\CUDA\bin\nvcc.exe")
        .registry(key, "DriverDesc", "NVIDIA GeForce RTX 4090")
        .registry(key, "DriverVersion", "32.0.15.7283")
        .registry(key, "MatchingDeviceId", r"PCI\VEN_10DE&DEV_2684")
        .registry_number(key, "HardwareInformation.qwMemorySize", 25_757_220_864)
        .build();
    let (seen, _) = check(&host, |host| (gather(host), find_program(host, "NVCC")));
    assert_eq!(seen.0.gpus.len(), 1);
    assert_eq!(seen.1[0].as_str(), r"C:\CUDA\bin\nvcc.exe");
}

#[test]
fn names_and_secrets_are_not_recorded() {
    let host = linux()
        .env("HOME", "/home/alice")
        .env("USER", "alice")
        .env("PATH", "/home/alice/bin:/usr/bin")
        .env("CUDA_PATH", "/home/alice/cuda")
        .env("UV_INDEX_URL", "https://pypi.example")
        .env("GPUBUILD_API_TOKEN", "very-secret")
        .env("CMAKE_PROXY", "http://me:very-secret@proxy")
        .env("EDITOR", "vi")
        .file("/etc/hostname", "wonderland\n")
        .file("/home/alice/cuda/version.txt", "built by alice on wonderland\n")
        .bytes("/home/alice/cuda/lib.bin", b"\xff/home/alice\xff")
        .link("/opt/cuda", "/home/alice/cuda")
        .build();
    let (recording, redactions) = record(&host, &[], |host| {
        assert_eq!(host.env().get("EDITOR"), None);
        assert!(host.read(&host.path("/opt/cuda/version.txt")).is_ok());
        assert!(host.read(&host.path("/opt/cuda/lib.bin")).is_ok());
    });
    let text = recording.to_toml();
    for word in ["alice", "wonderland", "secret", "EDITOR", "UV_INDEX"] {
        assert!(!text.contains(word), "{word}:\n{text}");
    }
    let summary = redactions.summary();
    assert_eq!(summary, "redacted 2 values: CMAKE_PROXY, GPUBUILD_API_TOKEN");
    let replayed = RecordedHost::parse("replay.toml", &text).unwrap();
    assert_eq!(replayed.env().get("CUDA_PATH"), Some("/home/user/cuda"));
    assert_eq!(replayed.env().get("CMAKE_PROXY"), Some("http://[redacted]@proxy"));
    assert_eq!(
        replayed.read_text(&replayed.path("/opt/cuda/version.txt")).unwrap(),
        "built by user on host\n"
    );
    assert!(replayed.is_file(&replayed.path("/home/user/cuda/lib.bin")));
}

#[test]
fn the_version_of_a_large_library_is_kept() {
    let mut library = vec![0xff_u8; LARGE];
    library.extend_from_slice(b"\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\n\0");
    let host = linux().bytes("/lib/x86_64-linux-gnu/libc.so.6", &library).build();
    let (libc, text) = check(&host, |host| gather(host).libc);
    assert_eq!(libc.map(|libc| libc.value.label()).as_deref(), Some("glibc-2.36"));
    assert!(text.len() < 1000, "{text}");
}
