//! Every kind of input file of every command, in place of which there is something that is not a readable document. Each command has
//! to end at once with an error that names the path, and must not write anything.
#![expect(clippy::disallowed_methods, reason = "tests prepare their own files and start the program")]

use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{RunResult, Sandbox, recorded};

/// What is in the place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Pipe,
    Socket,
    Folder,
    /// A link to /dev/zero.
    Endless,
    /// 65 MiB of zeros that occupy no disk blocks.
    Large,
    Dangling,
    Loop,
    Unreadable,
}

const FAULTS: [Fault; 8] = [
    Fault::Pipe,
    Fault::Socket,
    Fault::Folder,
    Fault::Endless,
    Fault::Large,
    Fault::Dangling,
    Fault::Loop,
    Fault::Unreadable,
];

impl Fault {
    /// Creates it. `false` if this user cannot: root may read every file.
    pub(crate) fn create(self, path: &Path) -> bool {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match self {
            Self::Pipe => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
            Self::Socket => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
            Self::Folder => std::fs::create_dir(path).unwrap(),
            Self::Endless => symlink("/dev/zero", path).unwrap(),
            Self::Large => std::fs::File::create(path).unwrap().set_len(65 << 20).unwrap(),
            Self::Dangling => symlink("missing", path).unwrap(),
            Self::Loop => symlink(path.file_name().unwrap(), path).unwrap(),
            Self::Unreadable => {
                std::fs::write(path, "x").unwrap();
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o0)).unwrap();
                return std::fs::read(path).is_err();
            }
        }
        true
    }
}

/// A kind of input file.
struct InputKind {
    /// Path of the file in the sandbox.
    file: &'static str,
    arguments: &'static [&'static str],
    /// The id of the error.
    id: &'static str,
    faults: &'static [Fault],
}

const fn kind(file: &'static str, arguments: &'static [&'static str], id: &'static str) -> InputKind {
    InputKind { file, arguments, id, faults: &FAULTS }
}

impl InputKind {
    const fn with(mut self, faults: &'static [Fault]) -> Self {
        self.faults = faults;
        self
    }
}

/// Logs can be large, and other files have another id then.
const EXCEPT_LARGE: &[Fault] = &[
    Fault::Pipe,
    Fault::Socket,
    Fault::Folder,
    Fault::Endless,
    Fault::Dangling,
    Fault::Loop,
    Fault::Unreadable,
];
/// gpubuild.toml is also searched in the folders above if there is a broken link.
const PROJECT: &[Fault] =
    &[Fault::Pipe, Fault::Socket, Fault::Folder, Fault::Endless, Fault::Large, Fault::Unreadable];
/// What is not a regular file counts as a missing configuration.
const CONFIGURATION: &[Fault] = &[Fault::Large, Fault::Unreadable];

const KINDS: &[InputKind] = &[
    kind("in.toml", &["detect", "--host", "in.toml"], "host.recording-invalid"),
    kind("in.toml", &["doctor", "--host", "in.toml"], "host.recording-invalid"),
    kind("in.toml", &["plan", "--host", "in.toml"], "host.recording-invalid"),
    kind("in.toml", &["setup", "--host", "in.toml"], "host.recording-invalid"),
    kind("in.toml", &["report", "--host", "in.toml"], "host.recording-invalid"),
    kind("in.toml", &["estimate", "8B", "--host", "in.toml"], "host.recording-invalid"),
    kind("in.toml", &["host", "record", "out.toml", "--host", "in.toml"], "host.recording-invalid"),
    kind("Dockerfile", &["doctor", "--file", "Dockerfile"], "file.unreadable").with(EXCEPT_LARGE),
    kind("Dockerfile", &["doctor", "--file", "Dockerfile"], "file.too-large").with(&[Fault::Large]),
    kind("program", &["doctor", "--binary", "program"], "binary.unreadable"),
    kind("build.log", &["doctor", "--log", "build.log"], "doctor.log-unreadable").with(EXCEPT_LARGE),
    kind("before.json", &["doctor", "--host", "HOST", "--diff", "before.json"], "doctor.snapshot-unreadable"),
    kind("model.gguf", &["estimate", "model.gguf", "--host", "HOST"], "estimate.model-invalid"),
    kind("speeds.json", &["estimate", "8B", "--measured", "speeds.json"], "estimate.measured-invalid"),
    kind(
        "t.html",
        &["report", "--host", "HOST", "--html", "out", "--timings", "t.html"],
        "report.unreadable",
    ),
    kind("p.svg", &["report", "--host", "HOST", "--html", "out", "--bench", "p.svg"], "report.unreadable"),
    kind("program", &["audit", "program", "--json"], "audit.file.unreadable"),
    kind("m.json", &["resolve", "--manifest", "m.json", "--host", "HOST"], "manifest.unreadable")
        .with(EXCEPT_LARGE),
    kind("m.json", &["resolve", "--manifest", "m.json"], "manifest.invalid").with(&[Fault::Large]),
    kind("m.json", &["install", "--manifest", "m.json", "--to", "to"], "manifest.unreadable")
        .with(EXCEPT_LARGE),
    kind("key.pub", &["resolve", "--manifest", "r.json", "--key", "key.pub"], "manifest.key-invalid"),
    kind("lock.toml", &["toolkit", "install", "cuda", "--lock", "lock.toml"], "toolkit.lock-broken"),
    kind("more/a.toml", &["detect", "--host", "HOST", "--toolkits", "more"], "toolkit.description-invalid"),
    kind("wheels.toml", &["venv", "--wheels", "wheels.toml"], "venv.table-invalid"),
    kind("gpubuild.toml", &["plan", "--host", "HOST"], "project.unreadable").with(PROJECT),
    kind("gpubuild.toml", &["link"], "project.unreadable").with(PROJECT),
    kind("config/gpubuild/config.toml", &["resolve", "--manifest", "r.json"], "config.invalid")
        .with(CONFIGURATION),
];

/// Runs with at most 2 GB of address space, and for at most 10 seconds.
pub(crate) fn run(sandbox: &Sandbox, arguments: &[&str]) -> RunResult {
    let host = recorded("debian-12-bare");
    let limited = "ulimit -v 2000000; exec timeout 10 \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_gpubuild")]).current_dir(sandbox.path("."));
    command.args(arguments.iter().map(|argument| if *argument == "HOST" { &host } else { *argument }));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("GPUBUILD_CACHE", sandbox.path("cache"));
    command.env("XDG_CONFIG_HOME", sandbox.path("config"));
    RunResult::from(command.output().unwrap())
}

/// Describes why a case fails; `None` if it passes.
fn problem(kind: &InputKind, fault: Fault) -> Option<String> {
    let sandbox = Sandbox::new();
    if kind.file != "gpubuild.toml" && kind.arguments[0] != "audit" {
        sandbox.write("vendor/CMakeLists.txt", "project(x C)\n");
        sandbox.write("gpubuild.toml", "schema = 1\n[project]\nname = \"x\"\nsource = \"vendor\"\n");
    }
    if !fault.create(&sandbox.path(kind.file)) {
        return None;
    }
    let before = sandbox.files_outside("none");
    let ran = run(&sandbox, kind.arguments);
    let shown = [ran.stdout.as_str(), &ran.stderr].concat();
    let is_clear = matches!(ran.exit, Some(1 | 2)) && shown.contains(kind.id) && shown.contains(kind.file);
    let wrote = sandbox.files_outside("none") != before;
    let described = || format!("{fault:?} for {:?}: wrote files: {wrote}\n{ran:#?}\n", kind.arguments);
    (!is_clear || wrote).then(described)
}

#[test]
fn every_input_file_is_read_with_limits() {
    let cases: Vec<_> =
        KINDS.iter().flat_map(|kind| kind.faults.iter().map(move |fault| (kind, *fault))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut problems = String::new();
        while let Some((kind, fault)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let _ = write!(problems, "{}", problem(kind, *fault).unwrap_or_default());
        }
        problems
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let problems: String = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(problems, "");
}

#[test]
fn pipes_from_the_shell_are_read() {
    let sandbox = Sandbox::new();
    let host = recorded("debian-12-bare");
    let script = "exec \"$0\" detect --host <(cat \"$1\") --json";
    let ran = sandbox.start(&["bash", "-c", script, env!("CARGO_BIN_EXE_gpubuild"), &host]);
    let named = sandbox.run(&["detect", "--host", &host, "--json"]);
    assert_eq!(ran.succeeds().stdout, named.stdout);
    let script = "head -c 99999999 /dev/zero | \"$0\" doctor --file -";
    let ran = sandbox.start(&["bash", "-c", script, env!("CARGO_BIN_EXE_gpubuild")]);
    ran.fails(2, "file.unreadable").says(&["standard input: it is larger than 64 MiB"]);
}
