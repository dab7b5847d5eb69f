//! A project in a temporary folder, and archives to fetch.
#![expect(clippy::disallowed_methods, reason = "tests start the program and write their own files")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A project with its own home and cache.
pub(crate) struct Project {
    folder: tempfile::TempDir,
}

/// A finished command.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Option<i32>,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { stdout: text(&output.stdout), stderr: text(&output.stderr), exit: output.status.code() }
    }
}

impl Finished {
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        assert_eq!(self.exit, Some(0), "{self:?}");
        self
    }

    /// Checks the exit code and the id of the error.
    #[track_caller]
    pub(crate) fn fails(self, exit: i32, id: &str) -> Self {
        assert!(self.exit == Some(exit) && self.stderr.contains(&format!("[{id}]")), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text) || self.stdout.contains(text), "{text} in {self:?}");
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Project {
    /// A project with this value of `source`.
    pub(crate) fn new(source: &str) -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        project.set_source(source);
        project
    }

    pub(crate) fn set_source(&self, source: &str) {
        self.write(
            "app/gpubuild.toml",
            format!("# A comment.\nschema = 1\n\n[project]\nname = \"adder\"\nsource = {source} # the library\ntargets = [\"adder\"]\n"),
        );
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub(crate) fn remove(&self, name: &str) {
        let path = self.path(name);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }

    /// Names in a folder, without lock files; empty if it does not exist.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.rsplit('.').next() != Some("lock"));
        names.sort();
        names
    }

    /// A command of gpubuild in the project.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
        command.args(arguments).current_dir(self.path("app")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("home")).env("GPUBUILD_CACHE", self.path("cache"));
        command.env("GPUBUILD_STORE", "off").env("GPUBUILD_HTTP_RETRIES", "0").env("NO_COLOR", "1");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.command(arguments).output().unwrap().into()
    }

    /// Makes cargo's configuration replace crates.io.
    pub(crate) fn replace_crates_io(&self, index: &str) {
        let text = format!(
            "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+{index}\"\n"
        );
        self.write("home/.cargo/config.toml", text);
    }
}

/// The files of a CMake project with a library, below a folder.
pub(crate) fn library(folder: &str, value: u32) -> Vec<(String, String)> {
    let script =
        "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\nadd_library(adder STATIC adder.c)\n";
    vec![
        (format!("{folder}/CMakeLists.txt"), script.to_owned()),
        (format!("{folder}/adder.c"), format!("int add(int x) {{ return x + {value}; }}\n")),
    ]
}

/// A `.tar.gz` of files.
pub(crate) fn archive(files: &[(String, String)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    let tar = builder.into_inner().unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&tar).unwrap();
    encoder.finish().unwrap()
}

/// A ZIP archive of files that are not compressed.
pub(crate) fn stored_zip(files: &[(String, String)]) -> Vec<u8> {
    let four = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let mut crc = flate2::Crc::new();
        crc.update(content.as_bytes());
        let sizes = [crc.sum().to_le_bytes(), four(content.len()), four(content.len()), four(name.len())];
        let common = [&[10, 0, 0, 0, 0, 0, 0, 0, 33, 0][..], &sizes.concat()].concat();
        directory.extend([b"PK\x01\x02\x0a\x03", &common[..], &[0; 10]].concat());
        directory.extend([&four(archive.len())[..], name.as_bytes()].concat());
        archive.extend([b"PK\x03\x04", &common[..], name.as_bytes(), content.as_bytes()].concat());
    }
    let count = u16::try_from(files.len()).unwrap().to_le_bytes();
    let end = [&[0; 4][..], &count, &count, &four(directory.len()), &four(archive.len()), &[0; 2]].concat();
    [archive, directory, b"PK\x05\x06".to_vec(), end].concat()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    gpubuild_exec::store::sha256(bytes)
}
