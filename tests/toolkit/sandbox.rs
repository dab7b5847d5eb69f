//! A temporary cache and folder of wheels, and the command that uses them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) use crate::requirements::{requires, skip};
use crate::wheels::{self, Wheel};

/// The temporary folders of a test.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
    pub(crate) wheels: [Wheel; 3],
    /// The Python that has pip, and the variable that selects uv, if the test uses it.
    pub(crate) python: PathBuf,
    uv: Option<PathBuf>,
}

/// Exit code and output of a finished command.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Option<i32>,
}

/// The first program with this name on PATH.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The real Python, not a wrapper script.
fn python() -> Option<PathBuf> {
    let program = on_path("python3")?;
    let output =
        Command::new(program).args(["-c", "import pip, sys; print(sys.executable)"]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(path.trim()))
}

impl Sandbox {
    /// Prints why and returns `None` without Linux and a Python with pip.
    pub(crate) fn new() -> Option<Self> {
        let Some(python) = python().filter(|_| cfg!(target_os = "linux")) else {
            skip("pip", "no Python with pip on Linux");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let wheels = wheels::make(&folder.path().join("wheels"));
        let sandbox = Self { folder, wheels, python, uv: None };
        sandbox.write("lock.toml", &wheels::lock(&sandbox.wheels));
        Some(sandbox)
    }

    /// Like [`Sandbox::new`], with uv.
    pub(crate) fn with_uv() -> Option<Self> {
        let Some(uv) = on_path("uv") else {
            skip("uv", "no uv");
            return None;
        };
        Some(Self { uv: Some(uv), ..Self::new()? })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// A path in the installation.
    pub(crate) fn prefix(&self, name: &str) -> PathBuf {
        self.path("cache/toolkits/cuda-13.0/prefix").join(name)
    }

    /// Writes an executable script.
    #[cfg(unix)]
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The command with a PATH of the system's programs, Python and the test's programs, and its own caches.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
        let bin = self.python.parent().unwrap();
        let path = std::env::join_paths([bin, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
        command.args(arguments).current_dir(self.folder.path()).env_clear();
        command.env("PATH", path).env("GPUBUILD_CACHE", self.path("cache")).env("HOME", self.folder.path());
        // pip reports a failed connection only when it retries.
        command.env("PIP_RETRIES", "1").env("UV_HTTP_RETRIES", "0");
        if let Some(uv) = &self.uv {
            command.env("UV", uv).env("UV_CACHE_DIR", self.path("uv-cache"));
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> RunResult {
        RunResult::from(self.command(arguments).output().unwrap())
    }

    /// Arguments that install the wheels of this sandbox without an index.
    pub(crate) const INSTALL: [&'static str; 8] =
        ["toolkit", "install", "cuda", "--lock", "lock.toml", "--find-links", "wheels", "--offline"];

    pub(crate) fn install(&self, more: &[&str]) -> RunResult {
        self.run(&[&Self::INSTALL, more].concat())
    }

    /// Checks that nothing is installed or listed.
    #[track_caller]
    pub(crate) fn holds_nothing(&self) {
        assert!(!self.exists("cache/toolkits/cuda-13.0"), "a partial installation exists");
        let list = self.run(&["toolkit", "list", "--json"]).json();
        assert_eq!(list["installed"], serde_json::json!([]));
    }
}

impl From<Output> for RunResult {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { stdout: text(output.stdout), stderr: text(output.stderr), exit: output.status.code() }
    }
}

impl RunResult {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self:#?}"))
    }

    #[track_caller]
    pub(crate) fn succeeds(&self) -> &Self {
        assert_eq!(self.exit, Some(0), "{self:#?}");
        self
    }

    /// Checks the exit code and the error id, and that standard output is empty.
    #[track_caller]
    pub(crate) fn fails(&self, exit: i32, id: &str) -> &Self {
        assert_eq!(self.exit, Some(exit), "{self:#?}");
        assert!(self.stderr.contains(&format!("[{id}]")), "{self:#?}");
        assert_eq!(self.stdout, "", "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn says(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(self.stderr.contains(text), "`{text}` is missing in {self:#?}");
        }
        self
    }
}
