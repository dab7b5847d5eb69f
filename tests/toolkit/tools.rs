//! `gpubuild fetch --tool` and the cache of tools, on a machine that has neither uv nor pip.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use gpubuild_exec::exec::InstalledTools;
use gpubuild_exec::python::fetch::{fetch, fetched};
use gpubuild_exec::python::{Network, PipInstallError, UnpackWheel, WheelAccess};
use gpubuild_host::{Environment, Host, HostInfo as _, HostPath, Os};
use gpubuild_plan::plan::{Fetch, libclang};
use gpubuild_plan::wheels::PinnedWheel;
use serde_json::json;

use crate::faulty::{ERRORS, Fault, FaultyHost};
use crate::requirements::{requires, skip};
use crate::sandbox::RunResult;
use crate::server::{Server, files};

/// The pinned wheel for x86_64 Linux.
const WHEEL: &str = "libclang-18.1.1-py2.py3-none-manylinux2010_x86_64.whl";

/// Runs gpubuild with a folder as PATH that has no program, and without a project.
fn gpubuild(folder: &Path, arguments: &[&str], index: &str) -> RunResult {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
    command.args(arguments).current_dir(folder).env_clear().env("PATH", folder);
    command.env("HOME", folder).env("GPUBUILD_CACHE", folder.join("cache"));
    if !index.is_empty() {
        command.env("PIP_INDEX_URL", index).env("GPUBUILD_HTTP_RETRIES", "0");
    }
    RunResult::from(command.output().unwrap())
}

/// The names in the cache of tools, without lock files.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("cache/tools")).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.rsplit('.').next() != Some("lock")).collect()
}

/// A page of an index with the wheel of this hash, and a file in place of the wheel.
fn index(sha256: &str) -> Vec<(String, Vec<u8>)> {
    let file =
        json!({"filename": WHEEL, "url": format!("../../files/{WHEEL}"), "hashes": {"sha256": sha256}});
    let page = json!({"meta": {"api-version": "1.0"}, "name": "libclang", "files": [file]});
    vec![
        ("simple/libclang/".to_owned(), page.to_string().into_bytes()),
        (format!("files/{WHEEL}"), b"another file".to_vec()),
    ]
}

#[test]
fn only_the_pinned_libclang_is_accepted() {
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        skip("glibc", "no x86_64 Linux with glibc");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let fetch = ["fetch", "--tool", "libclang"];
    let pinned = libclang::pinned();
    let place = pinned.wheels.iter().position(|name| name == WHEEL).unwrap();
    let sha256 = &pinned.sha256[place];
    for (served, message) in [
        (Vec::new(), "libclang"),
        (index(&"0".repeat(64)), "has no pinned wheel of libclang 18.1.1 for this machine"),
        (index(sha256), "is expected"),
    ] {
        let server = Server::start(files(served));
        let ran = gpubuild(folder, &fetch, &server.url("simple"));
        ran.fails(1, "fetch.failed");
        assert!(ran.stderr.contains(message) && ran.stderr.contains("libclang-dev"), "{message}: {ran:#?}");
        assert_eq!(names(folder), Vec::<String>::new());
    }
    let ran = gpubuild(folder, &["fetch", "--tool", "libclang", "--offline"], "");
    ran.fails(1, "fetch.offline");
    assert!(ran.stderr.contains("run `gpubuild fetch --tool libclang` once without `--offline`"), "{ran:#?}");
    for arguments in
        [&["--tool", "gcc"][..], &["--tool", "cmake", "--locked"], &["--tool", "cmake", "--project", "."]]
    {
        assert_eq!(gpubuild(folder, &[&["fetch"], arguments].concat(), "").exit, Some(2), "{arguments:?}");
    }
    // A complete copy needs no network.
    let at = folder.join("cache/tools/libclang-18.1.1/clang/native");
    std::fs::create_dir_all(&at).unwrap();
    std::fs::write(at.join("libclang.so"), "library").unwrap();
    let marker = r#"{"package":"libclang","version":"18.1.1","program":"clang/native/libclang.so"}"#;
    std::fs::write(folder.join("cache/tools/libclang-18.1.1/verified.json"), marker).unwrap();
    let report = gpubuild(folder, &["fetch", "--tool", "libclang", "--offline", "--json"], "").json();
    let expected =
        json!([{"tool": "libclang", "version": "18.1.1", "path": at.join("libclang.so").to_str()}]);
    assert_eq!(report["tools"], expected, "{report:#}");
    assert_eq!(report["projects"], json!([]), "{report:#}");
}

#[test]
fn pinned_libclang_and_ninja_are_fetched_without_python() {
    if !requires("network") {
        skip("network", "GPUBUILD_REQUIRE does not name network");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let report = gpubuild(folder, &["fetch", "--tool", "ninja,libclang", "--json"], "").json();
    let path = |index: usize| Path::new(report["tools"][index]["path"].as_str().unwrap());
    assert!(Command::new(path(0)).arg("--version").status().unwrap().success(), "{report:#}");
    assert!(std::fs::metadata(path(1)).unwrap().len() > 50_000_000, "{report:#}");
    assert_eq!(names(folder).len(), 2);
}

/// Unpacks files instead of a wheel.
struct Unpacked<'a> {
    host: &'a dyn Host,
    files: &'a [&'a str],
}

impl UnpackWheel for Unpacked<'_> {
    fn unpack(&self, _: &PinnedWheel, _: &[HostPath], folder: &HostPath) -> Result<(), PipInstallError> {
        let write = |path: &&str| self.host.write(&folder.join(path), path.as_bytes());
        self.files
            .iter()
            .try_for_each(write)
            .map_err(|error| PipInstallError::Write { path: folder.to_string(), message: error.to_string() })
    }
}

/// A host with its own cache whose disk has a fault.
fn faulty(folder: &Path, fault: Fault, at: usize) -> FaultyHost {
    let mut host = FaultyHost::new(fault, at);
    host.env = Environment::new(Os::Linux, [("GPUBUILD_CACHE", folder.join("cache").to_str().unwrap())]);
    host
}

#[test]
fn library_is_complete_or_missing_after_every_fault() {
    let library = "clang/native/libclang.so";
    let wanted = Fetch { file: BTreeMap::from([("linux".into(), library.into())]), ..libclang::pinned() };
    let tools = InstalledTools::default();
    let run = |host: &FaultyHost, files: &[&str]| {
        let direct = Unpacked { host, files };
        let access =
            WheelAccess { tools: &tools, network: Network::Allowed, index: None, direct: Some(&direct) };
        fetch(host, &wanted, access, &|_| {})
    };
    let mut points = 0;
    for fault in [Fault::Kill].into_iter().chain(ERRORS) {
        for at in 0.. {
            let temporary = tempfile::tempdir().unwrap();
            let folder = temporary.path();
            let host = faulty(folder, fault, at);
            let result = run(&host, &["clang/__init__.py", library]);
            let healthy = faulty(folder, Fault::Kill, usize::MAX);
            let found = fetched(&healthy, &wanted);
            assert!(result.is_err() || found == result.clone().ok(), "{fault:?} at {at}: {result:?}");
            if let Some(path) = found {
                assert_eq!(std::fs::read_to_string(path.as_str()).unwrap(), library, "{fault:?} at {at}");
            }
            let again = || run(&healthy, &["clang/__init__.py", library]).unwrap();
            let path = again();
            // Programs that other tests start hold copies of the lock for a moment. The next call then removes what is left.
            for _ in 0..1000 {
                if names(folder).len() == 1 {
                    break;
                }
                again();
            }
            assert!(path.as_str().ends_with(library) && fetched(&healthy, &wanted) == Some(path));
            assert_eq!(names(folder), ["libclang-18.1.1"], "{fault:?} at {at}: no leftover");
            if host.changes() <= at {
                break;
            }
            points += 1;
        }
    }
    assert!(points > 50, "{points} faults");
    // A wheel without the library.
    let temporary = tempfile::tempdir().unwrap();
    let host = faulty(temporary.path(), Fault::Kill, usize::MAX);
    let error = run(&host, &["clang/__init__.py"]).unwrap_err().to_string();
    assert!(error.contains("`libclang` does not contain `clang/native/libclang.so`"), "{error}");
    assert!(host.env().get("GPUBUILD_CACHE").is_some() && names(temporary.path()).is_empty());
}
