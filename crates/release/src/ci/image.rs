//! What CI jobs run on: the table of machines and containers, and each of them as a recorded host.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::{Arch, Os, RecordedHost};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// The embedded table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Images {
    image: Vec<CiImage>,
    #[serde(default)]
    prepare: Vec<Prepare>,
    #[serde(default)]
    setup: Vec<Setup>,
    #[serde(default)]
    layout: Vec<Layout>,
}

/// A machine, or a container on one.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CiImage {
    /// `ubuntu-24.04`, `cuda-12.4-ubuntu-22.04`.
    pub id: String,
    /// Another image whose keys apply where this one sets none.
    like: Option<String>,
    /// Operating system.
    pub os: Option<Os>,
    /// Processor.
    pub arch: Option<Arch>,
    /// `ubuntu-24.04`, as facts name distributions.
    pub distribution: String,
    /// Version of the C library.
    pub glibc: Option<String>,
    /// Version of the compiler called `gcc`.
    pub gcc: Option<String>,
    /// Label of GitHub's machine; one that it lacks is not among GitHub's jobs.
    pub github: Option<String>,
    /// Container in which the job runs.
    pub container: Option<String>,
    /// The same at GitLab, where every job of Linux runs in a container.
    pub gitlab: Option<Gitlab>,
    /// Processors.
    pub cpus: u32,
    /// Memory, `16GiB`.
    pub memory: String,
    /// Disk that is free, `14GiB`.
    pub disk: String,
    /// Bytes that the container takes once it is unpacked, about.
    pub unpacked: Option<String>,
    /// A toolkit that it brings along.
    pub holds: Option<Holds>,
    /// Whether variants that name no image are built on it.
    pub default: bool,
    /// Backends whose variants are built on it rather than on the default machines.
    default_for: Vec<Backend>,
    /// The contents, as entries of a recorded host.
    entry: Vec<Table>,
    /// Where these facts come from.
    pub source: String,
}

/// A job at GitLab.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gitlab {
    /// The container.
    pub image: String,
    /// Tag of the machine.
    pub tag: String,
}

/// A toolkit in a container.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Holds {
    /// For which backend.
    pub backend: Backend,
    /// Its version, `12.4.1`.
    pub version: Version,
}

/// What a container lacks before gpubuild can be there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prepare {
    distributions: Vec<String>,
    run: Vec<String>,
}

/// What gives an image a backend that it cannot build as it is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The backend.
    pub backend: Backend,
    distributions: Vec<String>,
    /// Commands of the image's shell.
    run: Vec<String>,
    /// Whether what was built also runs there afterwards, without a GPU.
    #[serde(default)]
    pub runs: bool,
    entries: Vec<Table>,
    /// Where this comes from.
    pub source: String,
}

impl Setup {
    /// Its commands on an image: with `sudo` where the job is not root.
    #[must_use]
    pub fn commands(&self, image: &CiImage) -> Vec<String> {
        let sudo = if image.container.is_some() || image.os != Some(Os::Linux) { "" } else { "sudo " };
        self.run.iter().map(|line| line.replace("{sudo}", sudo)).collect()
    }
}

/// The contents of a container with a toolkit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layout {
    backend: Backend,
    entries: Vec<Table>,
}

impl Images {
    /// The table in the crate.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "a test reads the embedded table")]
    pub fn embedded() -> &'static Self {
        static IMAGES: OnceLock<Images> = OnceLock::new();
        IMAGES.get_or_init(|| {
            let mut images: Images =
                gpubuild_toml::from_str(include_str!("images.toml")).expect("src/ci/images.toml is tested");
            let bases: BTreeMap<String, CiImage> =
                images.image.iter().map(|image| (image.id.clone(), image.clone())).collect();
            for image in &mut images.image {
                if let Some(base) = image.like.as_ref().and_then(|like| bases.get(like)) {
                    image.take_over(base);
                }
            }
            images
        })
    }

    /// The image of an id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&CiImage> {
        self.image.iter().find(|image| image.id == id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &CiImage> {
        self.image.iter()
    }

    /// Those that a variant of these backends is built on if it names none: the default machines, or what is said to be for
    /// one of the backends.
    #[must_use]
    pub fn defaults(&self, backends: &[Backend]) -> Vec<&CiImage> {
        let special = |image: &&CiImage| image.default_for.iter().any(|backend| backends.contains(backend));
        let special: Vec<&CiImage> = self.image.iter().filter(special).collect();
        if special.is_empty() { self.image.iter().filter(|image| image.default).collect() } else { special }
    }

    /// What gives an image a backend.
    #[must_use]
    pub fn setup(&self, image: &CiImage, backend: Backend) -> Option<&Setup> {
        let suits =
            |setup: &&Setup| setup.backend == backend && setup.distributions.contains(&image.distribution);
        self.setup.iter().find(suits)
    }

    /// What a container lacks before gpubuild can be there; nothing for machines.
    #[must_use]
    pub fn prepare(&self, image: &CiImage) -> &[String] {
        match image.container {
            Some(_) => self.prepare_always(image).unwrap_or_default(),
            None => &[],
        }
    }

    /// The same where every job of Linux runs in a container.
    #[must_use]
    pub fn prepare_always(&self, image: &CiImage) -> Option<&[String]> {
        let name = image.distribution.split('-').next().unwrap_or_default();
        let suits =
            |prepare: &&Prepare| prepare.distributions.iter().any(|distribution| distribution == name);
        self.prepare.iter().find(suits).map(|prepare| prepare.run.as_slice())
    }

    /// The image as a recorded host, with what some setups have put into it.
    ///
    /// # Panics
    /// A mistake in the embedded table, which a test looks for.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test makes every image with every setup")]
    pub fn host(&self, image: &CiImage, setups: &[&Setup]) -> RecordedHost {
        let mut entries = image.base();
        let arch = image.arch.map(Arch::id).unwrap_or_default();
        if let Some(holds) = &image.holds {
            let layout = self.layout.iter().find(|layout| layout.backend == holds.backend);
            let (version, release) = (holds.version.to_string(), holds.version.release());
            let fill = [("{version}", version.as_str()), ("{release}", release.as_str())];
            entries.extend(layout.iter().flat_map(|layout| &layout.entries).map(|one| filled(one, &fill)));
        }
        let setups = setups.iter().flat_map(|setup| &setup.entries);
        entries.extend(image.entry.iter().chain(setups).map(|one| filled(one, &[("{arch}", arch)])));
        let mut recording = image.head();
        recording.insert("file".to_owned(), Value::Array(entries.into_iter().map(Value::Table).collect()));
        let text = toml::to_string(&recording).expect("tables of texts can be written");
        RecordedHost::parse(&image.id, &text).expect("images are valid recordings")
    }
}

/// An entry with its placeholders filled.
fn filled(entry: &Table, values: &[(&str, &str)]) -> Table {
    let fill = |value: &Value| match value {
        Value::String(text) => {
            Value::String(values.iter().fold(text.clone(), |text, (name, value)| text.replace(name, value)))
        }
        other => other.clone(),
    };
    entry.iter().map(|(key, value)| (key.clone(), fill(value))).collect()
}

impl CiImage {
    /// The toolkit for a backend that it brings along.
    #[must_use]
    pub fn holds_for(&self, backend: Backend) -> Option<&Holds> {
        self.holds.as_ref().filter(|holds| holds.backend == backend)
    }

    /// `linux-x86_64`.
    #[must_use]
    pub fn platform(&self) -> String {
        let (os, arch) = (self.os.map(Os::id), self.arch.map(Arch::id));
        format!("{}-{}", os.unwrap_or_default(), arch.unwrap_or_default())
    }

    /// The label of the machine at GitHub.
    #[must_use]
    pub fn runner(&self) -> Option<&str> {
        self.github.as_deref()
    }

    /// The container at GitLab: the one that it is, or the one in which the machine is.
    #[must_use]
    pub fn gitlab(&self) -> Option<(&str, &str)> {
        let gitlab = self.gitlab.as_ref()?;
        Some((self.container.as_deref().unwrap_or(&gitlab.image), &gitlab.tag))
    }

    fn take_over(&mut self, base: &Self) {
        let own = std::mem::replace(self, base.clone());
        self.id = own.id;
        self.container = own.container;
        self.holds = own.holds;
        self.unpacked = own.unpacked;
        self.source = own.source;
        self.default = own.default;
        self.default_for = own.default_for;
        self.like = own.like;
        self.entry.extend(own.entry);
    }

    /// The parts of the recording that are not files.
    fn head(&self) -> Table {
        let table = |pairs: &[(&str, &str)]| -> Value {
            Value::Table(
                pairs
                    .iter()
                    .map(|(key, value)| ((*key).to_owned(), Value::String((*value).to_owned())))
                    .collect(),
            )
        };
        let (os, arch) = (self.os.map(Os::id), self.arch.map(Arch::id));
        let platform = table(&[("os", os.unwrap_or_default()), ("arch", arch.unwrap_or_default())]);
        let cpus = self.cpus.to_string();
        let env = match self.os {
            Some(Os::Windows) => table(&[
                ("Path", r"C:\Windows\system32;C:\Windows"),
                ("PATHEXT", ".COM;.EXE;.BAT;.CMD"),
                ("SystemRoot", r"C:\Windows"),
                ("ProgramFiles", r"C:\Program Files"),
                ("ProgramFiles(x86)", r"C:\Program Files (x86)"),
                ("USERPROFILE", r"C:\Users\runneradmin"),
                ("LOCALAPPDATA", r"C:\Users\runneradmin\AppData\Local"),
                ("NUMBER_OF_PROCESSORS", &cpus),
            ]),
            Some(Os::Macos) => {
                table(&[("PATH", "/opt/homebrew/bin:/usr/bin:/bin"), ("HOME", "/Users/runner")])
            }
            _ => table(&[("PATH", "/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin"), ("HOME", "/root")]),
        };
        let schema = Value::String("gpubuild.host/1".to_owned());
        [("schema", schema), ("platform", platform), ("env", env)]
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    /// Files that every system has.
    fn base(&self) -> Vec<Table> {
        let mut entries = Vec::new();
        let mut file = |path: &str, key: &str, value: &str| {
            let pair = |key: &str, value: &str| (key.to_owned(), Value::String(value.to_owned()));
            entries.push(Table::from_iter([pair("path", path), pair(key, value)]));
        };
        let (name, version) = self.distribution.split_once('-').unwrap_or((&self.distribution, ""));
        match self.os {
            Some(Os::Macos) => {
                let list = format!(
                    "<plist version=\"1.0\"><dict><key>ProductName</key><string>macOS</string>\
                     <key>ProductVersion</key><string>{version}</string></dict></plist>"
                );
                file("/System/Library/CoreServices/SystemVersion.plist", "text", &list);
            }
            Some(Os::Linux) => {
                let like = if name == "ubuntu" { "ID_LIKE=debian\n" } else { "" };
                file("/etc/os-release", "text", &format!("ID={name}\nVERSION_ID=\"{version}\"\n{like}"));
                let memory = gpubuild_plan::plan::bytes::parse(&self.memory).unwrap_or_default() / 1024;
                file("/proc/meminfo", "text", &format!("MemTotal: {memory} kB\nMemAvailable: {memory} kB\n"));
                let one = |cpu| {
                    format!("processor\t: {cpu}\nmodel name\t: CI\nflags\t\t: fpu sse sse2 avx avx2\n\n")
                };
                file("/proc/cpuinfo", "text", &(0..self.cpus).map(one).collect::<String>());
            }
            _ => {}
        }
        if let Some((major, minor)) = self.glibc.as_deref().and_then(|version| version.split_once('.')) {
            let text = format!("#define\t__GLIBC__\t{major}\n#define\t__GLIBC_MINOR__\t{minor}\n");
            file("/usr/include/features.h", "text", &text);
        }
        if let Some(gcc) = &self.gcc {
            let triplet = format!("{}-linux-gnu", self.arch.map(Arch::id).unwrap_or_default());
            for program in ["gcc", "g++"] {
                file(&format!("/usr/bin/{program}-{gcc}"), "kind", "executable");
                file(&format!("/usr/bin/{program}"), "link", &format!("{program}-{gcc}"));
            }
            file(&format!("/usr/lib/gcc/{triplet}/{gcc}"), "kind", "directory");
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::facts;

    #[test]
    fn every_image_is_the_machine_that_it_says() {
        let images = Images::embedded();
        let mut seen = std::collections::BTreeSet::new();
        for image in images.iter() {
            assert!(seen.insert(&image.id), "{} is listed twice", image.id);
            assert!(!image.source.is_empty(), "{}", image.id);
            let setups: Vec<&Setup> =
                Backend::ALL.iter().filter_map(|one| images.setup(image, *one)).collect();
            let facts = facts::gather(&images.host(image, &setups));
            assert_eq!(Some(facts.platform.os), image.os, "{}", image.id);
            assert_eq!(Some(facts.platform.arch), image.arch, "{}", image.id);
            if image.os != Some(Os::Windows) {
                assert_eq!(facts.distro.unwrap().value.label(), image.distribution, "{}", image.id);
            }
            if let Some(glibc) = &image.glibc {
                assert_eq!(facts.libc.unwrap().value.label(), format!("glibc-{glibc}"), "{}", image.id);
                assert_eq!(
                    facts.memory.total_bytes,
                    gpubuild_plan::plan::bytes::parse(&image.memory),
                    "{}",
                    image.id
                );
            }
            assert!(gpubuild_plan::plan::bytes::parse(&image.disk).is_some(), "{}", image.id);
        }
    }

    #[test]
    fn every_setup_is_for_an_image_and_gives_what_it_promises() {
        let images = Images::embedded();
        let catalogue = gpubuild_detect::toolkit::Catalogue::embedded();
        for setup in &images.setup {
            let on: Vec<&CiImage> = images
                .iter()
                .filter(|image| setup.distributions.contains(&image.distribution) && image.holds.is_none())
                .collect();
            assert!(!on.is_empty(), "{setup:?}");
            for image in on {
                let sight = gpubuild_plan::look::look(&images.host(image, &[setup]), catalogue.clone());
                let verdict = sight.matrix.verdict(setup.backend);
                assert_eq!(
                    verdict.build,
                    gpubuild_detect::matrix::Readiness::Ready,
                    "{} {:?}",
                    image.id,
                    verdict.build_reasons
                );
            }
        }
    }

    #[test]
    fn every_container_holds_its_toolkit() {
        let images = Images::embedded();
        let catalogue = gpubuild_detect::toolkit::Catalogue::embedded();
        for image in images.iter() {
            let Some(holds) = &image.holds else { continue };
            let sight = gpubuild_plan::look::look(&images.host(image, &[]), catalogue.clone());
            let id = &catalogue.for_backend(holds.backend).unwrap().id;
            let version = sight.inventory.chosen(id).and_then(|copy| copy.version()).cloned();
            assert_eq!(version.as_ref(), Some(&holds.version), "{}", image.id);
            assert_eq!(
                sight.matrix.verdict(holds.backend).build,
                gpubuild_detect::matrix::Readiness::Ready,
                "{}",
                image.id
            );
        }
    }

    #[test]
    fn machines_that_are_retired_are_not_in_the_table() {
        let retired = ["ubuntu-20.04", "windows-2019", "macos-13", "macos-14"];
        assert!(
            Images::embedded().iter().all(|image| retired.iter().all(|label| image.runner() != Some(*label)))
        );
    }
}
