//! CUDA 12 from archives in the layout of NVIDIA's server, which the tests create and serve.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::kill::{Victim, temporary_names};
use crate::sandbox::{RunResult, Sandbox};
use crate::server::{Reply, Request, Server, files, part};

/// What an archive contains below its top folder.
enum Content {
    File(&'static str),
    Program(&'static str),
    Link(&'static str),
}
use Content::{File, Link, Program};

const NVCC: &str = "#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.86'\n";
const HEADER: &str = "#define CUDA_VERSION 12090\n";

/// The manifest of a release and its archives by path.
struct Redist {
    manifest: String,
    archives: Vec<(String, Vec<u8>)>,
}

/// NVIDIA's name of the platform of this machine.
const PLATFORM: &str = if cfg!(target_arch = "aarch64") { "linux-sbsa" } else { "linux-x86_64" };

impl Redist {
    fn new() -> Self {
        let mut redist = Self { manifest: "{\"release_label\": \"12.9.1\"".to_owned(), archives: Vec::new() };
        redist.add(
            "cuda_nvcc",
            &[
                ("bin/nvcc", Program(NVCC)),
                ("bin/nvcc.profile", File("TOP = $(_HERE_)/..\n")),
                ("nvvm/bin/cicc", Program("#!/bin/sh\n")),
                ("LICENSE", File("terms")),
            ],
        );
        redist.add("cuda_cccl", &[("include/cub/cub.cuh", File("// cub\n")), ("LICENSE", File("terms"))]);
        redist.add(
            "cuda_cudart",
            &[
                ("include/cuda.h", File(HEADER)),
                ("include/cuda_runtime.h", File(HEADER)),
                ("lib/libcudart.so", Link("libcudart.so.12")),
                ("lib/libcudart.so.12", Link("libcudart.so.12.9.79")),
                ("lib/libcudart.so.12.9.79", File("library")),
                ("lib/libcudart_static.a", File("library")),
                ("lib/stubs/libcuda.so", File("stub")),
            ],
        );
        redist.add("libcublas", &[("lib/libcublas.so.12", File("library"))]);
        redist.add("cuda_nvrtc", &[("lib/libnvrtc.so.12", File("library"))]);
        redist.manifest.push('}');
        redist
    }

    fn add(&mut self, package: &str, content: &[(&str, Content)]) {
        let top = format!("{package}-{PLATFORM}-12.9.0-archive");
        let bytes = archive(&top, content);
        let path = format!("{package}/{PLATFORM}/{top}.tar.xz");
        write!(
            self.manifest,
            ", \"{package}\": {{\"version\": \"12.9.0\", \"{PLATFORM}\": {{\"relative_path\": \"{path}\", \
             \"sha256\": \"{}\", \"size\": \"{}\"}}}}",
            gpubuild_exec::store::sha256(&bytes),
            bytes.len()
        )
        .unwrap();
        self.archives.push((path, bytes));
    }

    /// Replaces the content of an archive, and its hash in the manifest.
    fn replace(&mut self, package: &str, bytes: Vec<u8>) {
        let (_, old) = self.archives.iter_mut().find(|(path, _)| path.starts_with(package)).unwrap();
        let sum = gpubuild_exec::store::sha256(old);
        self.manifest = self.manifest.replace(&sum, &gpubuild_exec::store::sha256(&bytes));
        *old = bytes;
    }

    /// The archives and the manifest as on the server, below `redist/`.
    fn served(&self) -> Vec<(String, Vec<u8>)> {
        let mut all: Vec<(String, Vec<u8>)> =
            self.archives.iter().map(|(path, bytes)| (format!("redist/{path}"), bytes.clone())).collect();
        all.push(("redist/redistrib_12.9.1.json".to_owned(), self.manifest.clone().into_bytes()));
        all
    }

    /// Writes the manifest and its lock.
    fn lock(&self, sandbox: &Sandbox) {
        sandbox.write("m.json", &self.manifest);
        sandbox
            .run(&["toolkit", "lock", "cuda@12.9", "--manifest", "m.json", "--output", "twelve.toml"])
            .succeeds();
    }

    /// Writes the archives to a folder of the sandbox.
    fn write(&self, sandbox: &Sandbox, folder: &str) {
        for (path, bytes) in &self.archives {
            let path = sandbox.path(folder).join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }
}

/// A compressed tar archive. Its format is recognized by its content, not by its name.
fn archive(top: &str, content: &[(&str, Content)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in content {
        let mut header = tar::Header::new_gnu();
        let (text, mode) = match content {
            File(text) => (*text, 0o644),
            Program(text) => (*text, 0o755),
            Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_link_name(target).unwrap();
                ("", 0o777)
            }
        };
        header.set_mode(mode);
        header.set_size(text.len() as u64);
        let path = format!("{top}/{name}");
        // `set_path` refuses paths that lead out of the archive.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, text.as_bytes()).unwrap();
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&builder.into_inner().unwrap()).unwrap();
    encoder.finish().unwrap()
}

const INSTALL: [&str; 5] = ["toolkit", "install", "cuda", "--lock", "twelve.toml"];

fn install(sandbox: &Sandbox, more: &[&str]) -> RunResult {
    let mut command = sandbox.command(&[&INSTALL, more].concat());
    RunResult::from(command.env("GPUBUILD_HTTP_RETRIES", "0").output().unwrap())
}

fn prefix(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.path("cache/toolkits/cuda-12.9/prefix").join(name)
}

#[track_caller]
fn holds_nothing(sandbox: &Sandbox) {
    assert!(!sandbox.exists("cache/toolkits/cuda-12.9"), "a partial installation exists");
}

#[test]
fn build_installs_a_missing_toolkit_from_a_mirror() {
    let Some(sandbox) = crate::building::project() else { return };
    let redist = Redist::new();
    redist.lock(&sandbox);
    fs::rename(sandbox.path("twelve.toml"), sandbox.path("gpubuild.lock.d/cuda-12.9.toml")).unwrap();
    let table = fs::read_to_string(sandbox.path("gpubuild.toml")).unwrap();
    sandbox.write("gpubuild.toml", &table.replace("13.0", "12.9"));
    let server = Server::start(files(redist.served()));
    let build = ["build", "--backends", "cuda", "--provision"];
    let run = |more: &[&str]| sandbox.run(&[&build[..], more].concat());
    run(&["--from", "absent"]).fails(2, "usage.no-folder").says(&["`--from` accepts a URL"]);
    run(&["--offline"]).fails(1, "fetch.offline");
    holds_nothing(&sandbox);
    run(&["--from", &server.url("redist")]).succeeds().says(&["installing cuda 12.9"]);
    assert!(prefix(&sandbox, "bin/nvcc").is_file());
}

#[test]
fn archives_are_installed_verified_extended_and_removed() {
    let Some(sandbox) = Sandbox::new() else { return };
    let redist = Redist::new();
    redist.lock(&sandbox);
    let server = Server::start(files(redist.served()));
    let from = server.url("redist");
    let planned = install(&sandbox, &["--from", &from, "--dry-run", "--json"]).succeeds().json();
    assert_eq!(planned["wheels"].as_array().unwrap().len(), 3, "{planned:#}");
    holds_nothing(&sandbox);
    let installed = install(&sandbox, &["--from", &from, "--json"]);
    assert_eq!(installed.succeeds().json()["installed"]["version"], "12.9.1");
    installed.says(&["installing cuda 12.9.1 into", "cuda_nvcc"]);
    for name in
        ["bin/nvcc", "nvvm/bin/cicc", "include/cub/cub.cuh", "lib64/libcudart_static.a", "version.json"]
    {
        assert!(prefix(&sandbox, name).is_file(), "{name}");
    }
    let link = |name: &str| std::fs::read_link(prefix(&sandbox, name)).unwrap();
    assert_eq!(link("lib64"), PathBuf::from("lib"));
    assert_eq!(link("lib/libcudart.so.12"), PathBuf::from("libcudart.so.12.9.79"));
    // The archive contains the stub of the driver's library, so none is compiled.
    assert_eq!(std::fs::read_to_string(prefix(&sandbox, "lib/stubs/libcuda.so")).unwrap(), "stub");
    let detected = sandbox.run(&["detect", "--json"]).succeeds().json();
    assert!(detected.to_string().contains("\"found_via\":[\"gpubuild\"]"), "{detected:#}");
    let env = sandbox.run(&["toolkit", "env", "cuda@12.9"]);
    let nvcc = format!("export CUDACXX={}\n", prefix(&sandbox, "bin/nvcc").display());
    assert!(env.succeeds().stdout.contains(&nvcc), "{env:#?}");
    assert!(sandbox.run(&["toolkit", "list"]).succeeds().stdout.contains("cuda@12.9  12.9.1"));

    // The installation needs no network; a component needs only its own archives.
    assert_eq!(install(&sandbox, &["--offline", "--json"]).succeeds().json()["state"], "unchanged");
    let before = server.requests().len();
    assert_eq!(before, 3);
    install(&sandbox, &["--from", &from, "--with", "cublas"]).succeeds();
    assert_eq!(server.requests().len(), before + 2);
    assert!(prefix(&sandbox, "lib/libcublas.so").is_file() && prefix(&sandbox, "bin/nvcc").is_file());
    assert_eq!(link("lib/libcudart.so.12"), PathBuf::from("libcudart.so.12.9.79"));
    let verified = sandbox.run(&["toolkit", "verify", "--json"]).succeeds().json();
    assert_eq!(verified["toolkits"][0]["compared"], 13, "{verified:#}");
    std::fs::remove_file(prefix(&sandbox, "include/cuda.h")).unwrap();
    std::fs::remove_file(prefix(&sandbox, "lib/libcudart.so.12")).unwrap();
    let verified = sandbox.run(&["toolkit", "verify"]);
    for id in ["toolkit.file-missing", "toolkit.link-wrong"] {
        assert!(verified.exit == Some(1) && verified.stdout.contains(id), "{id}: {verified:#?}");
    }

    sandbox.run(&["toolkit", "remove", "cuda@12.9"]).succeeds();
    holds_nothing(&sandbox);
    install(&sandbox, &["--offline"]).fails(1, "fetch.offline").says(&["--from"]);
    redist.write(&sandbox, "mirror");
    install(&sandbox, &["--offline", "--from", "mirror"]).succeeds();
    sandbox.run(&["toolkit", "verify"]).succeeds();
}

#[test]
fn invalid_archives_leave_nothing_and_the_next_call_completes() {
    let Some(sandbox) = Sandbox::new() else { return };
    let good = Redist::new();
    good.lock(&sandbox);
    let mut longer = good.served();
    longer[1].1.push(0);
    let mut wrong = good.served();
    *wrong[1].1.last_mut().unwrap() ^= 1;
    let mut missing = good.served();
    missing.remove(1);
    for (served, id, text) in [
        (longer, "archive.size", "another file than the pinned one"),
        (wrong, "source.hash-mismatch", "nothing was unpacked"),
        (missing, "net.status", "redist/cuda_cccl"),
    ] {
        let server = Server::start(files(served));
        install(&sandbox, &["--from", &server.url("redist/")]).fails(1, id).says(&[text]);
        holds_nothing(&sandbox);
        // The first archive is kept, the damaged one is not.
        assert_eq!(
            std::fs::read_dir(sandbox.path("cache/toolkits/.cuda-12.9.partial/wheels")).unwrap().count(),
            1
        );
    }
    let mut escaping = Redist::new();
    escaping.replace("cuda_cccl", archive("top", &[("../../../../evil", File("x"))]));
    escaping.lock(&sandbox);
    let server = Server::start(files(escaping.served()));
    install(&sandbox, &["--from", &server.url("redist")]).fails(1, "archive.path");
    assert!(!sandbox.exists("cache/evil") && !sandbox.exists("evil"));
    holds_nothing(&sandbox);
    let mut broken = Redist::new();
    broken.replace("cuda_nvcc", archive("top", &[("bin/nvcc", Program("#!/bin/sh\nexit 3\n"))]));
    broken.lock(&sandbox);
    let server = Server::start(files(broken.served()));
    install(&sandbox, &["--from", &server.url("redist")]).fails(1, "toolkit.broken");
    holds_nothing(&sandbox);
    install(&sandbox, &["--from", "absent"]).fails(2, "usage.no-folder");
    install(&sandbox, &["--from", "ftp://x"]).fails(2, "net.address-invalid");

    good.lock(&sandbox);
    let server = Server::start(files(good.served()));
    install(&sandbox, &["--from", &server.url("redist")]).succeeds();
    sandbox.run(&["toolkit", "verify"]).succeeds();
}

#[test]
fn interrupted_download_is_continued_by_the_next_call() {
    let Some(sandbox) = Sandbox::new() else { return };
    let redist = Redist::new();
    redist.lock(&sandbox);
    let (all, nvcc) = (redist.served(), redist.archives[0].1.clone());
    let half = nvcc.len() / 2;
    let server = Server::start(move |request: &Request| {
        match all.iter().find(|(path, _)| request.path[1..] == **path) {
            Some((path, body)) if path.contains("cuda_nvcc") && request.before == 0 => {
                part(request, body).cut(half)
            }
            Some((_, body)) => part(request, body),
            None => Reply::status(404, b""),
        }
    });
    let from = server.url("redist");
    let first = install(&sandbox, &["--from", &from]);
    assert_eq!(first.exit, Some(1), "{first:#?}");
    holds_nothing(&sandbox);
    install(&sandbox, &["--from", &from]).succeeds();
    let requests = server.requests();
    let continued = requests.iter().filter(|request| request.path.contains("cuda_nvcc"));
    assert_eq!(continued.map(Request::range).collect::<Vec<_>>(), [None, Some(half)]);
    assert!(!sandbox.exists("cache/toolkits/cuda-12.9/downloads"), "downloads remain");
    sandbox.run(&["toolkit", "verify"]).succeeds();
}

#[test]
fn lock_is_made_from_a_manifest_at_a_url() {
    let Some(sandbox) = Sandbox::new() else { return };
    let redist = Redist::new();
    redist.lock(&sandbox);
    let server = Server::start(files(redist.served()));
    let url = server.url("redist/redistrib_12.9.1.json");
    let lock = |release: &str, place: &str| {
        sandbox.run(&["toolkit", "lock", release, "--manifest", place, "--output", "-"])
    };
    let made = lock("cuda@12.9.1", &url);
    assert_eq!(made.succeeds().stdout, std::fs::read_to_string(sandbox.path("twelve.toml")).unwrap());
    lock("cuda@12.8", "m.json").fails(1, "toolkit.lock-unreadable").says(&["it belongs to 12.9.1"]);
    lock("cuda@13.0", "m.json").fails(2, "toolkit.not-in-wheels").says(&["omit `--manifest`"]);
    lock("cuda@12.9", "absent.json").fails(2, "toolkit.lock-unreadable");
    lock("cuda@12.9", &server.url("absent.json")).fails(1, "net.status");
}

#[test]
fn kill_keeps_the_last_good_installation() {
    let Some(sandbox) = Sandbox::new() else { return };
    let redist = Redist::new();
    redist.lock(&sandbox);
    redist.write(&sandbox, "mirror");
    let base = ["--offline", "--from", "mirror"];
    let more = [&base[..], &["--with", "cublas"]].concat();
    let extend = || -> Command { sandbox.command(&[&INSTALL, &more[..]].concat()) };
    let folders = vec![sandbox.path("cache")];
    let mut victim = Victim::new(23, folders.clone(), &mut extend());
    let mut round = 0;
    while victim.needs_more(3, round) {
        round += 1;
        sandbox.run(&["toolkit", "remove", "cuda"]).succeeds();
        install(&sandbox, &base).succeeds();
        victim.kill(&mut extend());
        // A kill between the two renames leaves the earlier installation under its other name, and the next call recovers it.
        if sandbox.exists("cache/toolkits/cuda-12.9") {
            sandbox.run(&["toolkit", "verify"]).succeeds();
        } else {
            assert!(sandbox.exists("cache/toolkits/.cuda-12.9.old"), "round {round}");
        }
        install(&sandbox, &more).succeeds();
        sandbox.run(&["toolkit", "verify"]).succeeds();
        assert_eq!(temporary_names(&folders), Vec::<PathBuf>::new(), "round {round}");
    }
}
