//! Launchers that compile on other machines: real distributors with real servers, and schedulers that fail.
#![expect(clippy::disallowed_methods, reason = "tests start servers and stop them")]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

use gpubuild_exec::exec::{BuildEvent, TreeState};
use gpubuild_host::{HostPath, NetworkAccess as _, WriteFiles};
use gpubuild_plan::plan::{PlannedFarm, PlannedQuestion, PlannedTree};

use crate::launchers::{MIXED, Sccache, Server, built, dropped, free_port, have, serve, start, tree};
use crate::requirements::skip;
use crate::support::{Project, project};

/// What the last build reported about a farm: the distributed languages, the reasons for the others, and the slots.
fn distributing(project: &Project) -> (Vec<String>, BTreeMap<String, String>, Option<u32>) {
    let events = project.events.lock().unwrap();
    let found = events.iter().find_map(|event| match event {
        BuildEvent::Distributing { languages, local, slots, .. } => {
            Some((languages.clone(), local.clone(), *slots))
        }
        _ => None,
    });
    found.expect("the build reports where it compiles")
}

/// The number of parallel jobs of the last build.
fn jobs(project: &Project) -> u32 {
    let events = project.events.lock().unwrap();
    let compiling = |event: &BuildEvent| match event {
        BuildEvent::Compiling { jobs, .. } => Some(*jobs),
        _ => None,
    };
    events.iter().find_map(compiling).unwrap()
}

/// Starts two distcc daemons and returns them with their logs and the value of `DISTCC_HOSTS`.
fn distcc(project: &Project) -> (Vec<Server>, Vec<String>, String) {
    let (mut servers, mut logs, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..2 {
        let (port, log) = (free_port(), project.path(&format!("distccd-{index}.log")).to_string());
        let text = port.to_string();
        std::fs::write(&log, "").unwrap();
        // A daemon started by root switches to another user, which must be able to write the log.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&log, std::fs::Permissions::from_mode(0o666)).unwrap();
            std::fs::set_permissions(project.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let arguments = [
            "--no-detach",
            "--daemon",
            "--listen",
            "127.0.0.1",
            "-p",
            &text,
            "-a",
            "127.0.0.1",
            "--jobs",
            "2",
            "--log-level",
            "info",
            "--log-file",
            &log,
            "--user",
            "nobody",
        ];
        servers.push(serve("distccd", port, &arguments));
        logs.push(log);
        hosts.push(format!("127.0.0.1:{port}/2"));
    }
    (servers, logs, hosts.join(" "))
}

fn compiled(logs: &[String]) -> Vec<usize> {
    let count = |log: &String| std::fs::read_to_string(log).unwrap().matches("COMPILE_OK").count();
    logs.iter().map(count).collect()
}

const MANY: usize = 6;

/// A project whose files take long enough to compile that both hosts get some of them.
fn many() -> Option<Project> {
    let project = project(MIXED)?;
    let names: Vec<String> = (0..MANY).map(|index| format!("m{index}.cpp")).collect();
    for (index, name) in names.iter().enumerate() {
        project.write(
            name,
            &format!(
                "#include <vector>\nint m{index}(const std::vector<int>& of) {{ return of[{index}]; }}\n"
            ),
        );
    }
    let list = names.join(" ");
    project.write(
        "CMakeLists.txt",
        &format!(
            "cmake_minimum_required(VERSION 3.16)\nproject(l C CXX)\nadd_library(t-core STATIC {list})\n"
        ),
    );
    Some(project)
}

#[test]
fn distcc_uses_all_hosts_behind_ccache() {
    let Some(project) = many() else { return };
    if !have(&project, &[("distcc", "distcc"), ("distcc", "distccd"), ("ccache", "ccache")]) {
        return;
    }
    let (_servers, logs, hosts) = distcc(&project);
    let (state, cache) = (project.path("distcc"), project.path("ccache").to_string());
    project.host.create_dir_all(&state).unwrap();
    // Without the local fallback, a file that is not distributed fails.
    let env = [
        ("DISTCC_HOSTS", hosts.as_str()),
        ("DISTCC_DIR", state.as_str()),
        ("DISTCC_FALLBACK", "0"),
        ("CCACHE_DIR", &cache),
    ];
    let plain = tree(&project, "plain", "launcher = \"distcc\"", &env);
    assert!(plain.jobs.total < 4);
    project.build(vec![plain]).unwrap();
    let languages = vec!["C".to_owned(), "CXX".to_owned()];
    assert_eq!(distributing(&project), (languages, BTreeMap::new(), Some(4)));
    assert_eq!(jobs(&project), 4, "jobs follow the slots of the hosts");
    let alone = compiled(&logs);
    assert!(alone.iter().all(|count| *count > 0), "both hosts compile: {alone:?}");
    assert!(alone.iter().sum::<usize>() >= MANY, "{alone:?}");

    let both = tree(&project, "both", "launcher = \"ccache+distcc\"", &env);
    assert_eq!(built(&project, both), (0, MANY as u64));
    let after = compiled(&logs);
    assert!(after.iter().sum::<usize>() >= alone.iter().sum::<usize>() + MANY, "{alone:?} {after:?}");
    assert_eq!(
        built(&project, tree(&project, "again", "launcher = \"ccache+distcc\"", &env)),
        (MANY as u64, 0)
    );
    let last: usize = compiled(&logs).iter().sum();
    assert_eq!(last, after.iter().sum::<usize>(), "cached files are not distributed");
}

/// A scheduler of icecream, a daemon on this machine that compiles for no other, and one that does.
struct Icecream {
    _servers: Vec<Server>,
    scheduler: String,
    /// The socket of the daemon on this machine, which the client uses.
    socket: String,
}

#[cfg(unix)]
impl Icecream {
    /// Starts the servers. They need root and the user `icecc`.
    fn start(project: &Project) -> Self {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(project.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        // The text port is the next one.
        let pair =
            |port: &u16| port.checked_add(1).is_some_and(|next| TcpListener::bind(("0.0.0.0", next)).is_ok());
        let port = std::iter::repeat_with(free_port).find(pair).unwrap();
        let (name, at) = (format!("gpubuild-{port}"), format!("127.0.0.1:{port}"));
        let scheduler = serve("icecc-scheduler", port, &["-p", &port.to_string(), "-n", &name]);
        let mut servers = vec![scheduler];
        for (node, more) in [("here", &["-m", "2", "--no-remote"][..]), ("there", &["-m", "3"])] {
            let folder = project.path(node);
            let (base, log, socket) = (folder.join("base"), folder.join("log"), folder.join("socket"));
            project.host.create_dir_all(&base).unwrap();
            project.output(&["chown", "-R", "icecc", folder.as_str()]);
            let own_port = free_port().to_string();
            let env = [("ICECC_TESTS", "1"), ("ICECC_TEST_SOCKET", socket.as_str())];
            let arguments =
                ["-s", &at, "-n", &name, "-p", &own_port, "-N", node, "-b", base.as_str(), "-u", "icecc"];
            let logged = ["-l", log.as_str()];
            servers.push(start("iceccd", &env, &[&arguments[..], &logged, more].concat()));
        }
        let text_port = format!("127.0.0.1:{}", port + 1);
        let list = || {
            project.host.converse(&text_port, "listcs\nquit\n", Duration::from_secs(10)).unwrap_or_default()
        };
        // A scheduler accepts no connections for some seconds after a daemon's.
        for _ in 0..600 {
            if list().matches(" jobs=0/").count() == 2 {
                let socket = project.path("here/socket").to_string();
                return Self { _servers: servers, scheduler: at, socket };
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the daemons of icecream do not register: {}", list());
    }
}

#[cfg(unix)]
#[test]
fn jobs_follow_the_slots_of_the_machines_of_icecream() {
    let Some(project) = many() else { return };
    let programs = ["icecc", "icecc-scheduler", "iceccd"].map(|program| ("icecream", program));
    if !have(&project, &programs) {
        return;
    }
    if project.output(&["id", "-u"]).trim() != "0" {
        return skip("icecream", "its daemons need root");
    }
    let farm = Icecream::start(&project);
    let env = [("ICECC_SCHEDULER", farm.scheduler.as_str()), ("ICECC_TEST_SOCKET", &farm.socket)];
    let tree = tree(&project, "cpu", "launcher = \"icecream\"", &env);
    assert_eq!(project.build(vec![tree]).unwrap().state, TreeState::Built);
    let languages = vec!["C".to_owned(), "CXX".to_owned()];
    assert_eq!(distributing(&project), (languages, BTreeMap::new(), Some(3)));
    assert_eq!(jobs(&project), 3, "jobs follow the slots of the other machine");
    // The scheduler decides where each file is compiled: a busy machine gets none.
}

#[cfg(unix)]
#[test]
fn build_succeeds_whatever_answers_instead_of_a_scheduler_of_icecream() {
    let Some(project) = project(MIXED) else { return };
    let script = project.path("icecc");
    project.host.write(&script, b"#!/bin/sh\nexec \"$@\"\n").unwrap();
    project.host.set_executable(&script).unwrap();
    let head = "200-ICECC 1.4.0: 1s uptime\n200 Use 'help' for help and 'quit' to quit.\n";
    let nothing = (Vec::new(), Some("has no machines"));
    let unknown = || (vec!["C".to_owned(), "CXX".to_owned()], None);
    for (index, (answer, slots, (languages, why))) in [
        (format!("{head}200 done\n"), None, nothing),
        (format!("{head} a (1:1) [x] speed=1 jobs=0/4294967295 load=1\n200 done\n"), Some(1024), unknown()),
        ("HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(), None, unknown()),
        (String::new(), None, unknown()),
    ]
    .into_iter()
    .enumerate()
    {
        project.events.lock().unwrap().clear();
        project.write("one.c", &format!("#include <all.h>\nint one(void) {{ return VALUE + {index}; }}\n"));
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut tree = tree(&project, "cpu", &format!("launcher = {:?}", script.as_str()), &[]);
        let question = PlannedQuestion {
            address: server.local_addr().unwrap().to_string(),
            text: "listcs\nquit\n".to_owned(),
        };
        let farm = PlannedFarm {
            launcher: "icecream".to_owned(),
            status: Vec::new(),
            scheduler: Some(question),
            required: true,
            recompile: None,
            local: None,
        };
        tree.farms.extend(["C", "CXX"].map(|language| (language.to_owned(), farm.clone())));
        let before = tree.jobs.total;
        let answers = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            std::io::Read::read_exact(&mut stream, &mut [0; 12]).unwrap();
            std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
        });
        assert_eq!(project.build(vec![tree]).unwrap().state, TreeState::Built);
        answers.join().unwrap();
        let (found, local, found_slots) = distributing(&project);
        assert_eq!((found, found_slots), (languages, slots));
        assert!(local.values().all(|text| why.is_some_and(|why| text.contains(why))), "{local:?}");
        assert_eq!(jobs(&project), slots.unwrap_or(before).max(before));
    }
}

/// An sccache that passes compilations through, and whose scheduler answers `status`.
#[cfg(unix)]
fn stand_in(project: &Project, status: &str) -> PlannedTree {
    let script = project.path("sccache");
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in\n--dist-status) printf '%s\\n' '{status}'; exit;;\n--show-stats) \
         echo '{{\"stats\":{{\"cache_hits\":{{\"counts\":{{}}}},\"cache_misses\":{{\"counts\":{{}}}}}}}}'; exit;;\nesac\nexec \"$@\"\n"
    );
    project.host.write(&script, text.as_bytes()).unwrap();
    project.host.set_executable(&script).unwrap();
    let mut tree = tree(project, "cpu", &format!("launcher = {:?}", script.as_str()), &[]);
    for language in ["C", "CXX"] {
        let status = vec![script.to_string(), "--dist-status".to_owned()];
        let farm = PlannedFarm {
            launcher: "sccache-dist".to_owned(),
            status,
            scheduler: None,
            required: true,
            recompile: Some("SCCACHE_RECACHE".to_owned()),
            local: None,
        };
        tree.farms.insert(language.to_owned(), farm);
    }
    tree
}

#[cfg(unix)]
#[test]
fn build_succeeds_and_says_why_nothing_is_distributed() {
    let Some(project) = project(MIXED) else { return };
    for (index, (status, expected)) in [
        (r#"{"Disabled":"disabled"}"#, "names no scheduler"),
        (r#"{"NotConnected":["http://10.0.0.1:10600/","refused"]}"#, "http://10.0.0.1:10600/: refused"),
        // The scheduler answers, and the compilation does not leave the machine.
        (
            r#"{"SchedulerStatus":["http://10.0.0.1:10600/",{"num_servers":1,"num_cpus":64,"in_progress":0}]}"#,
            "compiled a test file on this machine",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        project.events.lock().unwrap().clear();
        // Each build compiles something.
        project.write("one.c", &format!("#include <all.h>\nint one(void) {{ return VALUE + {index}; }}\n"));
        let tree = stand_in(&project, status);
        let before = tree.jobs.total;
        assert_eq!(project.build(vec![tree]).unwrap().state, TreeState::Built);
        let (languages, local, slots) = distributing(&project);
        assert_eq!((languages, slots), (Vec::new(), None));
        assert_eq!(local.keys().collect::<Vec<_>>(), ["C", "CXX"]);
        assert!(local.values().all(|why| why.contains(expected)), "{local:?}");
        assert_eq!(jobs(&project), before, "no more jobs than this machine has");
        assert_eq!(dropped(&project), [], "the launcher still caches");
    }
}

/// A scheduler and two build servers of sccache 0.19 or newer with `dist-server`.
struct SccacheFarm {
    _servers: Vec<Server>,
    /// The client's configuration.
    config: HostPath,
}

const KEY: &str = "ZZtt6zGxXm2D3Rb-8F63aXDrPe0ad2ObhTdQsPouPVE";

impl SccacheFarm {
    /// Starts the servers. They need root, bubblewrap and overlay file systems.
    fn start(project: &Project, client_token: &str) -> Self {
        let port = free_port();
        let (at, folder) = (format!("127.0.0.1:{port}"), project.path("farm"));
        project.host.create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            project.host.write(&path, text.as_bytes()).unwrap();
            path
        };
        let scheduler = write(
            "scheduler.toml",
            &format!(
                "public_addr = \"{at}\"\n[client_auth]\ntype = \"token\"\ntoken = \"right\"\n[server_auth]\ntype = \"jwt_hs256\"\n\
                 secret_key = \"{KEY}\"\n"
            ),
        );
        let mut servers = vec![serve("sccache-dist", port, &["scheduler", "--config", scheduler.as_str()])];
        for index in 0..2 {
            let (port, cache, build) =
                (free_port(), folder.join(&format!("c{index}")), folder.join(&format!("b{index}")));
            project.host.create_dir_all(&cache).unwrap();
            project.host.create_dir_all(&build).unwrap();
            let (here, bubblewrap) = (format!("127.0.0.1:{port}"), project.output(&["which", "bwrap"]));
            let generate = [
                "sccache-dist",
                "auth",
                "generate-jwt-hs256-server-token",
                "--config",
                scheduler.as_str(),
                "--server",
                &here,
            ];
            let token = project.output(&generate);
            let server = write(
                &format!("server-{index}.toml"),
                &format!(
                    "cache_dir = \"{cache}\"\npublic_addr = \"{here}\"\nscheduler_url = \"http://{at}\"\n[builder]\ntype = \"overlay\"\n\
                     build_dir = \"{build}\"\nbwrap_path = \"{}\"\n[scheduler_auth]\ntype = \"jwt_token\"\ntoken = \"{}\"\n",
                    bubblewrap.trim(),
                    token.trim()
                ),
            );
            servers.push(serve("sccache-dist", port, &["server", "--config", server.as_str()]));
        }
        let config = write(
            "client.toml",
            &format!(
                "[dist]\nscheduler_url = \"http://{at}\"\ntoolchains = []\ncache_dir = \"{}\"\n[dist.auth]\ntype = \"token\"\n\
                 token = \"{client_token}\"\n",
                folder.join("client")
            ),
        );
        Self { _servers: servers, config }
    }
}

#[test]
fn sccache_distributes_to_its_build_servers() {
    let Some(project) = many() else { return };
    if !have(
        &project,
        &[("sccache-dist", "sccache"), ("sccache-dist", "sccache-dist"), ("sccache-dist", "bwrap")],
    ) {
        return;
    }
    for (token, is_right) in [("right", true), ("wrong", false)] {
        let farm = SccacheFarm::start(&project, token);
        let (server, folder) = (Sccache(free_port().to_string()), project.path(token).to_string());
        let env = [
            ("SCCACHE_SERVER_PORT", server.0.as_str()),
            ("SCCACHE_DIR", folder.as_str()),
            ("SCCACHE_CONF", farm.config.as_str()),
        ];
        let tree = tree(&project, token, "launcher = \"sccache-dist\"", &env);
        project.events.lock().unwrap().clear();
        assert_eq!(project.build(vec![tree.clone()]).unwrap().state, TreeState::Built);
        if !is_right {
            let why = dropped(&project);
            assert!(why.iter().all(|(_, why)| why.contains("401")), "{why:?}");
            assert_eq!(why.len(), 2);
            continue;
        }
        let (languages, local, slots) = distributing(&project);
        assert_eq!((languages, local), (vec!["C".to_owned(), "CXX".to_owned()], BTreeMap::new()));
        assert_eq!(slots, Some(jobs(&project)));
        let events = project.events.lock().unwrap().clone();
        let servers = events.iter().find_map(|event| match event {
            BuildEvent::Distributed { servers, failed: 0, .. } => Some(servers.values().sum::<u64>()),
            _ => None,
        });
        assert_eq!(servers, Some(MANY as u64), "{events:?}");
        // What a build server compiled is in the cache of this machine.
        project.host.remove(&tree.build).unwrap();
        assert_eq!(built(&project, tree), (MANY as u64, 0));
    }
}
