//! Compiler launchers: real caches and distributors with real compilers, and launchers that fail.
#![expect(clippy::disallowed_methods, reason = "tests start servers and stop them")]

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use gpubuild_core::Backend;
use gpubuild_detect::facts;
use gpubuild_detect::toolkit;
use gpubuild_exec::exec::{BuildEvent, TreeState};
use gpubuild_host::{Environment, Os, ReadFiles, RunPrograms, WriteFiles, find_program};
use gpubuild_plan::plan::PlannedTree;
use gpubuild_plan::plan::launchers::{self, LauncherContext};

use crate::requirements::{requires, skip};
use crate::support::{Project, plan, project};

pub(crate) const MIXED: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(l C CXX)\nadd_library(t-core STATIC one.c two.c three.cpp)\n\
         target_include_directories(t-core PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/include)\n",
    ),
    ("include/all.h", "#define VALUE 7\n"),
    ("one.c", "#include <all.h>\nint one(void) { return VALUE; }\n"),
    ("two.c", "#include <all.h>\nint two(void) { return VALUE + 1; }\n"),
    ("three.cpp", "#include <all.h>\nint three() { return VALUE + 2; }\n"),
];

/// Whether these programs are on PATH. Panics if one is missing that `GPUBUILD_REQUIRE` names.
pub(crate) fn have(project: &Project, programs: &[(&str, &str)]) -> bool {
    for (requirement, program) in programs {
        if find_program(&project.host, program).is_empty() {
            skip(requirement, &format!("no {program}"));
            return false;
        }
    }
    true
}

/// Plans a tree with the launchers that `table` and `env` request, as `gpubuild build` does.
pub(crate) fn tree(project: &Project, name: &str, table: &str, env: &[(&str, &str)]) -> PlannedTree {
    through(project, project.tree(&[Backend::Cpu], &["t-core"], &[]), name, table, env)
}

fn through(
    project: &Project,
    mut tree: PlannedTree,
    name: &str,
    table: &str,
    env: &[(&str, &str)],
) -> PlannedTree {
    tree.id = name.into();
    tree.build = project.path("build").join(name);
    let catalogue = toolkit::Catalogue::embedded();
    let inventory = toolkit::probe(&project.host, &catalogue);
    let known =
        launchers::launchers(&inventory, &catalogue, &facts::gather(&project.host), &|_| false, &|_| None);
    let environment = Environment::new(Os::Linux, env.iter().copied());
    let (table, root) = (toml::from_str(table).unwrap(), project.path("."));
    let context =
        LauncherContext { launchers: &known, flag: None, env: &environment, table: &table, root: &root };
    let mut plan_of_tree = plan(vec![tree]);
    launchers::apply(&mut plan_of_tree, &context).unwrap();
    let mut tree = plan_of_tree.trees.remove(0);
    tree.env.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    tree
}

/// Builds a tree and returns the numbers of cache hits and misses.
pub(crate) fn built(project: &Project, tree: PlannedTree) -> (u64, u64) {
    project.events.lock().unwrap().clear();
    assert_eq!(project.build(vec![tree]).unwrap().state, TreeState::Built);
    let events = project.events.lock().unwrap();
    let counts = events.iter().find_map(|event| match event {
        BuildEvent::Cached { hits, misses, note, .. } => {
            assert_eq!(*note, None);
            Some((*hits, *misses))
        }
        _ => None,
    });
    assert!(!events.iter().any(|event| matches!(event, BuildEvent::LauncherDropped { .. })), "{events:?}");
    counts.expect("an event reports the cache statistics")
}

pub(crate) fn dropped(project: &Project) -> Vec<(String, String)> {
    let events = project.events.lock().unwrap();
    let of = |event: &BuildEvent| match event {
        BuildEvent::LauncherDropped { language, why, .. } => Some((language.clone(), why.clone())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// A server process that is killed when the test ends.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Kills the process group: distccd serves requests from child processes.
        let group = format!("-{}", self.0.id());
        let _ = std::process::Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a server in a process group of its own.
pub(crate) fn start(program: &str, env: &[(&str, &str)], arguments: &[&str]) -> Server {
    let mut command = std::process::Command::new(program);
    command.process_group(0).envs(env.iter().copied()).args(arguments);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Server(command.spawn().unwrap())
}

/// Starts a server and waits until it listens.
pub(crate) fn serve(program: &str, port: u16, arguments: &[&str]) -> Server {
    let server = start(program, &[], arguments);
    for _ in 0..600 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return server;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{program} does not answer on port {port}");
}

fn redis(project: &Project) -> (Server, String) {
    let port = free_port();
    let folder = project.path("redis");
    project.host.create_dir_all(&folder).unwrap();
    let text = port.to_string();
    let arguments = ["--port", &text, "--bind", "127.0.0.1", "--save", "", "--dir", folder.as_str()];
    (serve("redis-server", port, &arguments), format!("redis://127.0.0.1:{port}"))
}

#[test]
fn ccache_serves_a_second_build_folder() {
    let Some(project) = project(MIXED) else { return };
    if !have(&project, &[("ccache", "ccache")]) {
        return;
    }
    let folder = project.path("ccache").to_string();
    let env = [("CCACHE_DIR", folder.as_str())];
    let first = tree(&project, "a", "launcher = \"ccache\"", &env);
    assert_eq!(built(&project, first.clone()), (0, 3));
    assert_eq!(built(&project, tree(&project, "b", "launcher = \"auto\"", &env)), (3, 0));
    assert_eq!(
        project.build(vec![first]).unwrap().state,
        TreeState::Unchanged,
        "and no launcher is tested again"
    );
}

#[test]
fn ccache_shares_results_through_redis() {
    let (Some(one), Some(other)) = (project(MIXED), project(MIXED)) else { return };
    if !have(&one, &[("ccache", "ccache"), ("redis", "redis-server")]) {
        return;
    }
    let (_server, url) = redis(&one);
    let table = format!("launcher = \"ccache\"\nremote = {url:?}\n");
    for (project, expected) in [(&one, (0, 3)), (&other, (3, 0))] {
        // Each checkout has its own local cache, so shared results must come from the server.
        let folder = project.path("ccache").to_string();
        let tree = tree(project, "cpu", &table, &[("CCACHE_DIR", folder.as_str())]);
        assert_eq!(built(project, tree), expected);
    }
}

/// Stops the sccache server on a port when dropped.
pub(crate) struct Sccache(pub(crate) String);

impl Drop for Sccache {
    fn drop(&mut self) {
        let mut stop = std::process::Command::new("sccache");
        let _ = stop.arg("--stop-server").env("SCCACHE_SERVER_PORT", &self.0).output();
    }
}

#[test]
fn sccache_serves_a_second_build_folder() {
    let Some(project) = project(MIXED) else { return };
    if !have(&project, &[("sccache", "sccache")]) {
        return;
    }
    let (server, folder) = (Sccache(free_port().to_string()), project.path("sccache").to_string());
    let env = [("SCCACHE_SERVER_PORT", server.0.as_str()), ("SCCACHE_DIR", folder.as_str())];
    let tree = tree(&project, "a", "launcher = \"sccache\"", &env);
    assert_eq!(built(&project, tree.clone()), (0, 3));
    project.host.remove(&tree.build).unwrap();
    assert_eq!(built(&project, tree), (3, 0));
    let other = self::tree(&project, "b", "launcher = \"sccache\"", &env);
    assert_eq!(built(&project, other), (3, 0), "the build folder is not part of the cache key");
}

const KERNELS: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.18)\nproject(l CXX CUDA)\nadd_library(t-cuda STATIC one.cu two.cu)\n",
    ),
    (
        "one.cu",
        "__global__ void one(float *x) { x[threadIdx.x] += 1; }\nvoid go1(float *x) { one<<<1, 32>>>(x); }\n",
    ),
    (
        "two.cu",
        "__global__ void two(float *x) { x[threadIdx.x] *= 2; }\nvoid go2(float *x) { two<<<1, 32>>>(x); }\n",
    ),
];

/// Installs nvcc from NVIDIA's wheels if `GPUBUILD_REQUIRE` names `cuda-wheels`.
fn nvcc(project: &Project) -> Option<String> {
    if !requires("cuda-wheels") {
        skip("cuda-wheels", "GPUBUILD_REQUIRE does not name cuda-wheels");
        return None;
    }
    let cache = project.path("cache");
    let install = gpubuild_host::Command::new(env!("CARGO_BIN_EXE_gpubuild"), Duration::from_secs(600))
        .args(["toolkit", "install", "cuda@13.5"])
        .env("GPUBUILD_CACHE", cache.as_str());
    let output = project.host.run(&install).unwrap();
    assert!(output.success(), "{}", output.stderr);
    Some(cache.join("toolkits/cuda-13.5/prefix/bin/nvcc").to_string())
}

#[test]
fn compiler_caches_serve_nvcc_or_are_dropped() {
    let Some(project) = project(KERNELS) else { return };
    let Some(nvcc) = nvcc(&project) else { return };
    for launcher in ["ccache", "sccache"] {
        if !have(&project, &[(launcher, launcher)]) {
            continue;
        }
        let (server, folder) = (Sccache(free_port().to_string()), project.path(launcher).to_string());
        let env = [
            ("SCCACHE_SERVER_PORT", server.0.as_str()),
            ("SCCACHE_DIR", folder.as_str()),
            ("CCACHE_DIR", folder.as_str()),
        ];
        for (name, expected) in [("a", (0, 2)), ("b", (2, 0))] {
            let entries = [("CMAKE_CUDA_COMPILER", nvcc.as_str()), ("CMAKE_CUDA_ARCHITECTURES", "90")];
            let tree = project.tree(&[Backend::Cuda], &["t-cuda"], &entries);
            let name = format!("{launcher}-{name}");
            let tree = through(&project, tree, &name, &format!("launcher = {launcher:?}"), &env);
            // Some pairs fail (sccache 0.16 with nvcc 13.5): the build then drops the launcher and reports why.
            project.events.lock().unwrap().clear();
            assert_eq!(project.build(vec![tree.clone()]).unwrap().state, TreeState::Built);
            // The plan limits device compilers and device linking with a Ninja pool.
            let steps = project.host.read_text(&tree.build.join("build.ninja")).unwrap();
            let rules = project.host.read_text(&tree.build.join("CMakeFiles/rules.ninja")).unwrap();
            assert_eq!(steps.matches("pool = gpubuild_device").count(), 3, "{steps}");
            assert!(rules.contains("pool gpubuild_device\n  depth = 1\n"), "{rules}");
            let why = dropped(&project);
            if !why.is_empty() {
                assert!(
                    why.iter()
                        .all(|(language, why)| language == "CUDA"
                            && why.contains("works alone but fails with it")),
                    "{why:?}"
                );
                println!("dropped: {why:?}");
                break;
            }
            let counts = project.events.lock().unwrap().iter().find_map(|event| match event {
                BuildEvent::Cached { hits, misses, .. } => Some((*hits, *misses)),
                _ => None,
            });
            assert_eq!(counts, Some(expected), "{name}");
        }
    }
}

#[test]
fn sccache_shares_results_through_redis_if_supported() {
    let Some(project) = project(MIXED) else { return };
    if !have(&project, &[("sccache", "sccache"), ("redis", "redis-server")]) {
        return;
    }
    let (_server, url) = redis(&project);
    let table = format!("launcher = \"sccache\"\nremote = {url:?}\n");
    for (name, expected) in [("a", (0, 3)), ("b", (3, 0))] {
        let (server, folder) = (Sccache(free_port().to_string()), project.path(name).to_string());
        let env = [("SCCACHE_SERVER_PORT", server.0.as_str()), ("SCCACHE_DIR", folder.as_str())];
        let tree = tree(&project, &format!("cpu-{name}"), &table, &env);
        assert_eq!(tree.env["SCCACHE_REDIS"], url);
        // Debian builds sccache without Redis support: the launcher is then dropped and the build succeeds. The server says why it does not
        // start, but a client on a busy machine may stop waiting for it before.
        let version = project.output(&["sccache", "--version"]);
        if version.contains("0.4.0-pre") {
            assert_eq!(project.build(vec![tree]).unwrap().state, TreeState::Built);
            let what = dropped(&project);
            assert!(what.iter().all(|(_, why)| why.to_lowercase().contains("server startup")), "{what:?}");
            assert_eq!(what.iter().map(|(language, _)| language.as_str()).collect::<Vec<_>>(), ["C", "CXX"]);
            skip("sccache-redis", "this sccache does not support Redis");
            return;
        }
        assert_eq!(built(&project, tree), expected);
    }
}

/// A client that stops waiting for its server once, as sccache does on a busy machine.
#[cfg(unix)]
#[test]
fn launcher_is_tried_again_while_its_server_starts() {
    let Some(project) = project(MIXED) else { return };
    let (script, started) = (project.path("slow"), project.path("started"));
    let text = format!(
        "#!/bin/sh\nif [ ! -e '{started}' ]; then\n  : > '{started}'\n  echo 'sccache: error: Timed out waiting for server startup' >&2\n\
         exit 2\nfi\nexec \"$@\"\n"
    );
    project.host.write(&script, text.as_bytes()).unwrap();
    project.host.set_executable(&script).unwrap();
    let tree = tree(&project, "cpu", &format!("launcher = {:?}", script.as_str()), &[]);
    assert_eq!(project.build(vec![tree]).unwrap().state, TreeState::Built);
    assert_eq!(dropped(&project), []);
}

/// A launcher that fails for C++ trials and logs every trial.
fn faulty(project: &Project) -> String {
    let (script, count) = (project.path("faulty"), project.path("trials"));
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in\n*trial.cpp*) echo x >> '{count}'; echo 'sccache: error: failed to execute compile' >&2; exit 2;;\n\
         *trial.*) echo x >> '{count}';;\nesac\nexec \"$@\"\n"
    );
    project.host.write(&script, text.as_bytes()).unwrap();
    project.host.set_executable(&script).unwrap();
    script.to_string()
}

#[cfg(unix)]
#[test]
fn broken_launcher_is_dropped_per_language() {
    let Some(project) = project(MIXED) else { return };
    let script = faulty(&project);
    let tree = tree(&project, "cpu", &format!("launcher = {script:?}"), &[]);
    let outcome = project.build(vec![tree.clone()]).unwrap();
    assert_eq!(outcome.state, TreeState::Built);
    let what = dropped(&project);
    assert_eq!(what.len(), 1, "{what:?}");
    assert!(what[0].0 == "CXX" && what[0].1.contains("failed to execute compile"), "{what:?}");
    let rules = project.host.read_text(&tree.build.join("CMakeFiles/rules.ninja")).unwrap();
    assert!(rules.contains(&format!("{script} /")), "C uses the launcher: {rules}");
    let cxx = rules.lines().find(|line| line.contains("-x c++") || line.contains("c++ $DEFINES")).unwrap();
    assert!(!cxx.contains(&script), "{cxx}");
    assert_eq!(project.build(vec![tree]).unwrap().state, TreeState::Unchanged);
    let trials = project.host.read_text(&project.path("trials")).unwrap();
    assert_eq!(trials.lines().count(), 2, "one trial per language, none in the second build");
}

#[cfg(unix)]
#[test]
fn launcher_is_not_applied_twice() {
    let Some(project) = project(MIXED) else { return };
    if !have(&project, &[("ccache", "ccache")]) {
        return;
    }
    let folder = project.path("ccache").to_string();
    let env = [("CCACHE_DIR", folder.as_str())];
    // The compiler is a symlink to ccache, as distributions install it on PATH.
    let masked = project.path("mask/cc");
    project.host.create_dir_all(&project.path("mask")).unwrap();
    let ccache = find_program(&project.host, "ccache").remove(0);
    project.host.symlink(ccache.as_str(), &masked).unwrap();
    let mut one = tree(&project, "masked", "launcher = \"ccache\"", &env);
    one.cache.insert("CMAKE_C_COMPILER".into(), masked.to_string());
    project.build(vec![one]).unwrap();
    let what = dropped(&project);
    assert!(what.len() == 1 && what[0].0 == "C" && what[0].1.contains("already"), "{what:?}");

    // The project sets its own launcher.
    let text = MIXED[0].1.replace(
        "project(l C CXX)",
        "project(l C CXX)\nset_property(GLOBAL PROPERTY RULE_LAUNCH_COMPILE ccache)",
    );
    project.write("CMakeLists.txt", &text);
    let other = tree(&project, "rule", "launcher = \"ccache\"", &env);
    let rules = other.build.join("CMakeFiles/rules.ninja");
    assert_eq!(built(&project, other), (3, 0));
    let rules = project.host.read_text(&rules).unwrap();
    assert!(rules.lines().all(|line| line.matches("ccache ").count() <= 1), "{rules}");
}
