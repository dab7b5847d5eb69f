//! The images on which CI jobs run: machines and containers, each available as a recorded host.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::version::Version;
use gpubuild_detect::facts;
use gpubuild_host::{Arch, Os, RecordedHost, RecordingError};
use gpubuild_plan::project::variant::ImageTable;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::requests::ImageRequests;

/// All images and their setups.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Images {
    /// The environment of images by operating system.
    env: BTreeMap<String, Table>,
    image: Vec<CiImage>,
    #[serde(default)]
    prepare: Vec<Prepare>,
    #[serde(default)]
    setup: Vec<Setup>,
    #[serde(default)]
    layout: Vec<Layout>,
}

/// A machine of a CI service, or a container on such a machine.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CiImage {
    /// The id: `ubuntu-24.04`, `cuda-12.4-ubuntu-22.04`.
    pub id: String,
    /// The id of an image from which this one inherits all keys that describe the machine.
    like: Option<String>,
    /// The operating system.
    pub os: Option<Os>,
    /// The processor architecture.
    pub arch: Option<Arch>,
    /// The distribution as facts name it: `ubuntu-24.04`.
    pub distribution: String,
    /// The version of glibc.
    pub glibc: Option<String>,
    /// The major version of the default `gcc`.
    pub gcc: Option<String>,
    /// The label of the GitHub runner; without one, the image is not used for GitHub jobs.
    pub github: Option<String>,
    /// The container in which the job runs.
    pub container: Option<String>,
    /// The container and machine at GitLab, where every Linux job runs in a container.
    pub gitlab: Option<Gitlab>,
    /// The number of logical processors.
    pub cpus: u32,
    /// The memory, `16GiB`.
    pub memory: String,
    /// The free disk space, `14GiB`.
    pub disk: String,
    /// The approximate size of the unpacked container, `7GiB`.
    pub unpacked: Option<String>,
    /// The toolkit in the container.
    pub holds: Option<Holds>,
    /// Whether variants that name no image are built on this one.
    pub default: bool,
    /// Backends whose variants are built on this image instead of the default ones.
    default_for: Vec<Backend>,
    /// Additional files, as entries of a recorded host.
    entry: Vec<Table>,
    /// The source of these facts.
    pub source: String,
    /// For an image of the project: all labels of its runner.
    #[serde(skip)]
    pub labels: Vec<String>,
    /// For an image of the project: what its jobs request from schedulers.
    #[serde(skip)]
    pub requests: ImageRequests,
    /// For an image of the project: the recording, which replaces everything that is derived from the keys above.
    #[serde(skip)]
    recording: Option<String>,
}

/// The container and machine of an image at GitLab.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gitlab {
    /// The container.
    pub image: String,
    /// The tag of the machine.
    pub tag: String,
}

/// The toolkit in a container.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Holds {
    /// The backend that the toolkit is for.
    pub backend: Backend,
    /// The toolkit's version, `12.4.1`.
    pub version: Version,
}

/// Commands that prepare a container for the installation of gpubuild.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prepare {
    distributions: Vec<String>,
    run: Vec<String>,
}

/// Commands that install what an image needs to build a backend.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The backend.
    pub backend: Backend,
    distributions: Vec<String>,
    /// The shell commands; `{sudo}` is replaced by [`Setup::commands`].
    run: Vec<String>,
    /// Whether the backend then also runs without a GPU, on a software device.
    #[serde(default)]
    pub runs: bool,
    entries: Vec<Table>,
    /// The source of the package names and paths.
    pub source: String,
}

impl Setup {
    /// The commands for an image, with `sudo` if the job does not run as root.
    #[must_use]
    pub fn commands(&self, image: &CiImage) -> Vec<String> {
        let sudo = if image.container.is_some() || image.os != Some(Os::Linux) { "" } else { "sudo " };
        self.run.iter().map(|line| line.replace("{sudo}", sudo)).collect()
    }
}

/// The files of a toolkit in a container, for one backend.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layout {
    backend: Backend,
    entries: Vec<Table>,
}

impl Images {
    /// The embedded table.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "tests parse the embedded table")]
    pub fn embedded() -> &'static Self {
        static IMAGES: OnceLock<Images> = OnceLock::new();
        IMAGES.get_or_init(|| {
            let mut images: Images =
                gpubuild_toml::from_str(include_str!("images.toml")).expect("src/ci/images.toml is tested");
            let bases: BTreeMap<String, CiImage> =
                images.image.iter().map(|image| (image.id.clone(), image.clone())).collect_map();
            for image in &mut images.image {
                if let Some(base) = image.like.as_ref().and_then(|like| bases.get(like)) {
                    image.inherit(base);
                }
            }
            images
        })
    }

    /// Adds an image of a project.
    ///
    /// # Errors
    /// The recording is not valid.
    pub fn add(&mut self, name: &str, table: &ImageTable, recording: &str) -> Result<(), RecordingError> {
        let facts = facts::gather(&RecordedHost::parse(&table.host, recording)?);
        let tag = if table.labels.len() == 1 { table.labels.first() } else { None };
        let gitlab = table.container.clone().zip(tag.cloned()).map(|(image, tag)| Gitlab { image, tag });
        self.image.push(CiImage {
            id: name.to_owned(),
            os: Some(facts.platform.os),
            arch: Some(facts.platform.arch),
            distribution: facts.distro.map(|distro| distro.value.label()).unwrap_or_default(),
            github: table.labels.first().cloned(),
            container: table.container.clone(),
            gitlab,
            cpus: facts.cpu.threads.unwrap_or(1),
            memory: facts.memory.total_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            source: table.host.clone(),
            labels: table.labels.clone(),
            requests: ImageRequests::new(table, facts.gpus.first().map(|gpu| gpu.vendor)),
            recording: Some(recording.to_owned()),
            ..CiImage::default()
        });
        Ok(())
    }

    /// The image with an id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&CiImage> {
        self.image.iter().find(|image| image.id == id)
    }

    /// All images, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = &CiImage> {
        self.image.iter()
    }

    /// The images for a variant that names none: those that are the default for one of its backends, or else the general defaults.
    #[must_use]
    pub fn defaults(&self, backends: &[Backend]) -> Vec<&CiImage> {
        let special = |image: &&CiImage| image.default_for.iter().any(|backend| backends.contains(backend));
        let special: Vec<&CiImage> = self.image.iter().filter(special).collect();
        if special.is_empty() { self.image.iter().filter(|image| image.default).collect() } else { special }
    }

    /// The setup for a backend on an image; `None` if the image needs none or the backend cannot be installed.
    #[must_use]
    pub fn setup(&self, image: &CiImage, backend: Backend) -> Option<&Setup> {
        // An image of a project is as it was recorded.
        if image.recording.is_some() {
            return None;
        }
        let fits =
            |setup: &&Setup| setup.backend == backend && setup.distributions.contains(&image.distribution);
        self.setup.iter().find(fits)
    }

    /// The commands that prepare a container for the installation of gpubuild; empty for machines.
    #[must_use]
    pub fn prepare(&self, image: &CiImage) -> &[String] {
        match image.container {
            Some(_) => self.prepare_always(image).unwrap_or_default(),
            None => &[],
        }
    }

    /// The same for a service that runs every Linux job in a container.
    #[must_use]
    pub fn prepare_always(&self, image: &CiImage) -> Option<&[String]> {
        let name = image.distribution.split('-').next().unwrap_or_default();
        let fits = |prepare: &&Prepare| prepare.distributions.iter().any(|distribution| distribution == name);
        self.prepare.iter().find(fits).map(|prepare| prepare.run.as_slice())
    }

    /// The image as a recorded host, with the files that these setups install.
    ///
    /// # Panics
    /// The embedded table is invalid, which a test rules out.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test creates every image with every setup")]
    pub fn host(&self, image: &CiImage, setups: &[&Setup]) -> RecordedHost {
        if let Some(recording) = &image.recording {
            return RecordedHost::parse(&image.id, recording).expect("`add` has parsed it");
        }
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
        let mut recording = self.head(image);
        recording.insert("file".to_owned(), Value::Array(entries.into_iter().map(Value::Table).collect()));
        let text = toml::to_string(&recording).expect("tables of strings can be serialized");
        RecordedHost::parse(&image.id, &text).expect("images are valid recordings")
    }

    /// The parts of a recording that are not files.
    fn head(&self, image: &CiImage) -> Table {
        let os = image.os.map(Os::id).unwrap_or_default();
        let arch = image.arch.map(Arch::id).unwrap_or_default();
        let platform = [("os", os), ("arch", arch)];
        let platform = platform.map(|(key, value)| (key.to_owned(), Value::String(value.to_owned())));
        let cpus = image.cpus.to_string();
        let env = self.env.get(os).map(|env| filled(env, &[("{cpus}", &cpus)]));
        Table::from_iter([
            ("schema".to_owned(), Value::String("gpubuild.host/1".to_owned())),
            ("platform".to_owned(), Value::Table(Table::from_iter(platform))),
            ("env".to_owned(), Value::Table(env.unwrap_or_default())),
        ])
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
    /// The toolkit for a backend in the container.
    #[must_use]
    pub fn holds_for(&self, backend: Backend) -> Option<&Holds> {
        self.holds.as_ref().filter(|holds| holds.backend == backend)
    }

    /// The platform, `linux-x86_64`.
    #[must_use]
    pub fn platform(&self) -> String {
        let (os, arch) = (self.os.map(Os::id), self.arch.map(Arch::id));
        format!("{}-{}", os.unwrap_or_default(), arch.unwrap_or_default())
    }

    /// Whether the image is one of the project.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.recording.is_some()
    }

    /// The label of the GitHub runner.
    #[must_use]
    pub fn runner(&self) -> Option<&str> {
        self.github.as_deref()
    }

    /// Container and machine tag at GitLab: the image's own container, or else the one that replaces the machine.
    #[must_use]
    pub fn gitlab(&self) -> Option<(&str, &str)> {
        let gitlab = self.gitlab.as_ref()?;
        Some((self.container.as_deref().unwrap_or(&gitlab.image), &gitlab.tag))
    }

    /// Replaces the keys that describe the machine by those of another image.
    fn inherit(&mut self, base: &Self) {
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

    /// The files of the operating system and the compiler.
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

    #[test]
    fn every_image_has_the_declared_properties() {
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
    fn every_setup_enables_its_backend_on_an_image() {
        let images = Images::embedded();
        let catalogue = gpubuild_detect::toolkit::Catalogue::embedded();
        for setup in &images.setup {
            let fitting: Vec<&CiImage> = images
                .iter()
                .filter(|image| setup.distributions.contains(&image.distribution) && image.holds.is_none())
                .collect();
            assert!(!fitting.is_empty(), "{setup:?}");
            for image in fitting {
                let machine =
                    gpubuild_plan::machine::inspect(&images.host(image, &[setup]), catalogue.clone());
                let verdict = machine.matrix.verdict(setup.backend);
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
    fn every_container_has_its_toolkit() {
        let images = Images::embedded();
        let catalogue = gpubuild_detect::toolkit::Catalogue::embedded();
        for image in images.iter() {
            let Some(holds) = &image.holds else { continue };
            let machine = gpubuild_plan::machine::inspect(&images.host(image, &[]), catalogue.clone());
            let id = &catalogue.for_backend(holds.backend).unwrap().id;
            let version = machine.inventory.chosen(id).and_then(|copy| copy.version()).cloned();
            assert_eq!(version.as_ref(), Some(&holds.version), "{}", image.id);
            assert_eq!(
                machine.matrix.verdict(holds.backend).build,
                gpubuild_detect::matrix::Readiness::Ready,
                "{}",
                image.id
            );
        }
    }

    #[test]
    fn retired_runners_are_not_in_the_table() {
        let retired = ["ubuntu-20.04", "windows-2019", "macos-13", "macos-14"];
        assert!(
            Images::embedded().iter().all(|image| retired.iter().all(|label| image.runner() != Some(*label)))
        );
    }
}
