//! Failures: each has its id and exit code and leaves nothing partial, and a second call completes.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpListener;

use crate::sandbox::{RunResult, Sandbox, skip};
use crate::wheels;

#[test]
fn wheel_with_wrong_hash_is_rejected_and_others_are_kept() {
    for sandbox in [Sandbox::new(), Sandbox::with_uv()].into_iter().flatten() {
        let good = wheels::lock(&sandbox.wheels);
        let bad = good.replace(&sandbox.wheels[1].sha256, &"0".repeat(64));
        sandbox.write("lock.toml", &bad);
        sandbox.install(&[]).fails(1, "wheel.hash-mismatch").says(&["nvidia-cuda-runtime", "was discarded"]);
        sandbox.holds_nothing();
        sandbox.write("lock.toml", &good);
        // The first wheel is cached, so its file is not needed again.
        std::fs::remove_file(&sandbox.wheels[0].path).unwrap();
        sandbox.install(&[]).succeeds();
        sandbox.run(&["toolkit", "verify"]).succeeds();
    }
}

#[test]
fn truncated_wheel_is_reported_before_unpacking() {
    let Some(sandbox) = Sandbox::new() else { return };
    let path = &sandbox.wheels[1].path;
    let content = std::fs::read(path).unwrap();
    std::fs::write(path, &content[..content.len() / 2]).unwrap();
    sandbox.install(&[]).fails(1, "wheel.damaged").says(&["is damaged: it has", "download the wheel again"]);
    sandbox.holds_nothing();
    std::fs::write(path, content).unwrap();
    sandbox.install(&[]).succeeds();
}

#[test]
fn wheels_that_contradict_their_record_or_each_other_are_refused() {
    for sandbox in [Sandbox::new(), Sandbox::with_uv()].into_iter().flatten() {
        let install = |files: &[wheels::Entry<'_>], record: &dyn Fn(String) -> String| {
            let [nvcc, runtime, cublas] = sandbox.wheels.clone();
            let info = ("1.0", "py3-none-any");
            let runtime = wheels::wheel_of(&sandbox.path("wheels"), runtime.package, info, files, record);
            sandbox.write("lock.toml", &wheels::lock(&[nvcc, runtime, cublas]));
            sandbox.install(&[])
        };
        let (header, nvcc) = ("nvidia/cu13/include/cuda.h", "nvidia/cu13/bin/nvcc");
        install(&[(nvcc, "another", true)], &|record| record).fails(1, "wheel.conflict").says(&[
            "nvidia-cuda-nvcc",
            "nvidia-cuda-runtime",
            nvcc,
        ]);
        sandbox.holds_nothing();
        install(&[(header, "", false)], &|record| record.replace("cuda.h,sha256=", "cuda.h,sha256=A"))
            .fails(1, "wheel.damaged")
            .says(&["nvidia-cuda-runtime", header]);
        sandbox.holds_nothing();
        install(&[(header, "", false)], &|record| format!("../../bin/tool,sha256=A,1\n{record}")).succeeds();
        sandbox.run(&["toolkit", "verify"]).succeeds();
    }
}

/// The folder of an incomplete installation is emptied, so not through a link.
#[cfg(unix)]
#[test]
fn links_in_place_of_own_folders_are_removed() {
    let Some(sandbox) = Sandbox::new() else { return };
    std::fs::create_dir(sandbox.path("photos")).unwrap();
    sandbox.write("photos/holiday.jpg", "mine");
    let partial = sandbox.path("cache/toolkits/.cuda-13.0.partial");
    for link in [partial.clone(), partial.join("wheels")] {
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(sandbox.path("photos"), &link).unwrap();
        sandbox.install(&[]).succeeds();
        assert!(std::fs::symlink_metadata(sandbox.path("cache/toolkits/cuda-13.0")).unwrap().is_dir());
        assert_eq!(std::fs::read_to_string(sandbox.path("photos/holiday.jpg")).unwrap(), "mine");
        sandbox.run(&["toolkit", "remove", "cuda@13.0"]).succeeds();
    }
}

#[test]
fn lock_with_an_id_that_is_no_name_is_refused() {
    let Some(sandbox) = Sandbox::new() else { return };
    let lock = wheels::lock(&sandbox.wheels).replace("id = \"base\"", "id = \"/etc\"");
    sandbox.write("lock.toml", &lock);
    sandbox.install(&[]).fails(2, "toolkit.lock-broken").says(&["is not a name"]);
}

#[test]
fn missing_wheel_is_reported() {
    for sandbox in [Sandbox::new(), Sandbox::with_uv()].into_iter().flatten() {
        std::fs::remove_file(&sandbox.wheels[1].path).unwrap();
        sandbox.install(&[]).fails(1, "wheel.not-found").says(&["nvidia-cuda-runtime 1.0"]);
        sandbox.holds_nothing();
        let bare = ["toolkit", "install", "cuda", "--lock", "lock.toml", "--offline"];
        sandbox.run(&bare).fails(1, "fetch.offline").says(&["without `--offline`", "`--find-links`"]);
    }
}

#[test]
fn wheels_of_another_lock_are_not_reused() {
    let Some(sandbox) = Sandbox::new() else { return };
    let other = wheels::make_with(&sandbox.path("wheels"), "#!/bin/sh\necho another\n");
    // The second wheel is missing, so the attempt fails after the first.
    std::fs::remove_file(&other[1].path).unwrap();
    sandbox.write("lock.toml", &wheels::lock(&other));
    sandbox.install(&[]).fails(1, "wheel.not-found");
    let good = wheels::make(&sandbox.path("wheels"));
    sandbox.write("lock.toml", &wheels::lock(&good));
    sandbox.install(&[]).succeeds();
    assert!(std::fs::read_to_string(sandbox.prefix("bin/nvcc")).unwrap().contains("release 13.0"));
    assert_eq!(std::fs::read_dir(sandbox.path("cache/toolkits/cuda-13.0/wheels")).unwrap().count(), 2);
}

/// A local index with a page per package that serves only the first half of each wheel.
fn stopping_index(sandbox: &Sandbox) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let wheels: Vec<(String, String, Vec<u8>)> = sandbox
        .wheels
        .iter()
        .map(|wheel| {
            let name = wheel.path.file_name().unwrap().to_str().unwrap().to_owned();
            (wheel.package.to_owned(), name, std::fs::read(&wheel.path).unwrap())
        })
        .collect();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let Ok(length) = stream.read(&mut request) else { continue };
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            let (kind, full, body): (&str, usize, Vec<u8>) = if let Some((_, _, bytes)) =
                wheels.iter().find(|(_, name, _)| path.ends_with(name.as_str()))
            {
                ("application/octet-stream", bytes.len(), bytes[..bytes.len() / 2].to_vec())
            } else if let Some((_, name, _)) =
                wheels.iter().find(|(package, ..)| path.contains(package.as_str()))
            {
                let page =
                    format!("<!DOCTYPE html><html><body><a href=\"/files/{name}\">{name}</a></body></html>");
                ("text/html", page.len(), page.into_bytes())
            } else {
                ("text/html", 0, Vec::new())
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {full}\r\nConnection: close\r\n\r\n"
            );
            // The client may have disconnected.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    format!("http://{address}/simple")
}

#[test]
fn network_failure_is_reported_and_next_call_completes() {
    let run = |sandbox: &Sandbox, index: &str| {
        let arguments = ["toolkit", "install", "cuda", "--lock", "lock.toml"];
        let mut command = sandbox.command(&arguments);
        command.env("PIP_INDEX_URL", index).env("UV_DEFAULT_INDEX", index);
        RunResult::from(command.output().unwrap())
    };
    for sandbox in [Sandbox::new(), Sandbox::with_uv()].into_iter().flatten() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        run(&sandbox, &format!("http://{closed}/simple"))
            .fails(1, "wheel.network")
            .says(&["finished downloads are kept"]);
        sandbox.holds_nothing();
        let half = run(&sandbox, &stopping_index(&sandbox));
        assert_eq!(half.exit, Some(1), "{half:#?}");
        // Old versions of pip treat the truncated file as complete and report a wrong hash.
        assert!(
            ["[wheel.network]", "[wheel.hash-mismatch]"].iter().any(|id| half.stderr.contains(id)),
            "{half:#?}"
        );
        sandbox.holds_nothing();
        sandbox.install(&[]).succeeds();
        sandbox.run(&["toolkit", "verify"]).succeeds();
    }
}

#[test]
fn insufficient_disk_space_is_reported_before_download() {
    let Some(sandbox) = Sandbox::new() else { return };
    let lock = wheels::lock(&sandbox.wheels);
    let size = format!("size = {}", sandbox.wheels[0].size);
    sandbox.write("lock.toml", &lock.replacen(&size, "size = 17592186044416", 1));
    let arguments = ["toolkit", "install", "cuda", "--lock", "lock.toml"];
    sandbox.run(&arguments).fails(1, "disk.full").says(&["needs", "GiB of disk", "GPUBUILD_CACHE"]);
    assert!(!sandbox.exists("cache"));
}

#[cfg(unix)]
#[test]
fn full_or_read_only_disk_is_reported() {
    let Some(sandbox) = Sandbox::new() else { return };
    let disk = sandbox.path("disk");
    std::fs::create_dir_all(&disk).unwrap();
    let start = |argv: &[&str]| {
        std::process::Command::new(argv[0])
            .args(&argv[1..])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let disk_path = disk.to_str().unwrap();
    if !start(&["mount", "-t", "tmpfs", "-o", "ro,size=64m", "tmpfs", disk_path]) {
        skip("mount", "no permission to mount a small disk");
        return;
    }
    let install =
        || RunResult::from(sandbox.command(&Sandbox::INSTALL).env("GPUBUILD_CACHE", &disk).output().unwrap());
    let again = |options: &str| assert!(start(&["mount", "-o", &format!("remount,{options}"), disk_path]));
    let read_only = install();
    // Enough for the estimated size but not for the actual one: each small file uses a page.
    again("rw,size=16k");
    let full = install();
    again("rw,size=64m");
    let good = install();
    assert!(start(&["umount", disk_path]));
    read_only.fails(1, "cache.read-only").says(&["set GPUBUILD_CACHE to a writable folder"]);
    full.fails(1, "disk.full").says(&["No space left"]);
    good.succeeds();
}

#[test]
fn broken_compiler_is_not_installed() {
    let Some(sandbox) = Sandbox::new() else { return };
    let broken = wheels::make_with(&sandbox.path("wheels"), "#!/bin/sh\necho 'error: no luck' >&2\nexit 3\n");
    sandbox.write("lock.toml", &wheels::lock(&broken));
    sandbox.install(&[]).fails(1, "toolkit.broken").says(&["does not run: error: no luck"]);
    sandbox.holds_nothing();
    let good = wheels::make(&sandbox.path("wheels"));
    sandbox.write("lock.toml", &wheels::lock(&good));
    sandbox.install(&[]).succeeds();
}

#[test]
fn unknown_release_lists_available_ones() {
    let Some(sandbox) = Sandbox::new() else { return };
    let run = |arguments: &[&str]| sandbox.run(&[&["toolkit", "install"], arguments].concat());
    run(&["cuda@12.5"])
        .fails(2, "toolkit.unknown-release")
        .says(&["offered: 12.4, 12.6, 12.8, 12.9, 13.0, 13.5"]);
    run(&["cuda@13.0", "--with", "cufoo"])
        .fails(2, "toolkit.unknown-component")
        .says(&["offered: cublas, nvrtc"]);
    run(&["cudda"]).fails(2, "toolkit.unknown").says(&["offered: cuda"]);
    run(&["sycl"]).fails(2, "toolkit.unknown").says(&["`gpubuild explain sycl`"]);
    run(&["cuda", "--find-links", "absent"]).fails(2, "usage.no-folder");
    sandbox.write("bad.toml", "schema = 1\n");
    run(&["cuda", "--lock", "bad.toml"]).fails(2, "toolkit.lock-broken");
    run(&["cuda@13.5", "--lock", "lock.toml"])
        .fails(2, "toolkit.lock-other")
        .says(&["is the lock of cuda 13.0"]);
    assert!(!sandbox.exists("cache"));
}

#[test]
fn unsupported_hosts_fail_before_download() {
    let Some(sandbox) = Sandbox::new() else { return };
    let machine = |os: &str, arch: &str, files: &[(&str, &str)]| {
        let mut text = format!(
            "schema = \"gpubuild.host/1\"\n[platform]\nos = \"{os}\"\narch = \"{arch}\"\n[env]\nHOME = \"/home/u\"\nPATH = \"/usr/bin\"\n"
        );
        for (path, content) in files {
            let _ = writeln!(text, "[[file]]\npath = \"{path}\"\ntext = '''{content}'''");
        }
        sandbox.write("machine.toml", &text);
        sandbox.run(&["toolkit", "install", "cuda@13.0", "--dry-run", "--host", "machine.toml"])
    };
    let alpine =
        [("/lib/ld-musl-x86_64.so.1", "musl libc"), ("/etc/os-release", "ID=alpine\nVERSION_ID=3.21\n")];
    machine("linux", "x86_64", &alpine).fails(2, "wheel.musl").says(&["need glibc"]);
    let old = [("/lib64/libc.so.6", "GNU C Library (GNU libc) stable release version 2.12, by Roland")];
    machine("linux", "x86_64", &old)
        .fails(2, "wheel.glibc-too-old")
        .says(&["`nvidia-cuda-nvcc` needs glibc 2.17, but this system has 2.12"]);
    let new = [("/lib64/libc.so.6", "GNU C Library (GNU libc) stable release version 2.28, by Roland")];
    machine("linux", "x86_64", &new).succeeds();
    machine("macos", "aarch64", &[])
        .fails(2, "toolkit.no-wheels-here")
        .says(&["no wheels for macOS on aarch64"]);
}
