//! Operations that plant a fault in a finished host. An operation that finds nothing to change returns `None`: the fault does not apply
//! to the host.

use gpubuild_host::recorded::{HostRecording, RecordedEntry};
use gpubuild_host::{Owner, ProbeAnswer, ProbeStatus};
use serde::Deserialize;

use super::{
    AmdCard, Card, GTX_970, GTX_1080, Machine, RAPHAEL, RTX_5090, RX_580, RX_5700, RX_6700, cuda_of,
};

/// One change of a host. In paths and values, `{name}` is a property of the host and `*` is any text.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Removes all files, folders and links that match, with their contents.
    Remove(String),
    /// Like `remove`, for what not every host has.
    Clear(String),
    /// Adds a text file.
    File(String, String),
    /// Adds a binary file.
    Bytes(String, Vec<u8>),
    /// Adds a file whose content is not read.
    Library(String),
    /// Adds an executable.
    Program(String),
    /// Adds a folder.
    Folder(String),
    /// Adds or replaces a link.
    Link(String, String),
    /// Moves a file.
    Move(String, String),
    /// Replaces text in all text files that match.
    Replace(String, String, String),
    /// Makes device nodes impossible to open; they belong to this group.
    Deny(String, u32),
    /// Sets a variable.
    Env(String, String),
    /// Prepends to a variable that is a list of folders.
    Prepend(String, String),
    /// Removes a variable.
    Unset(String),
    /// Removes the folders that contain a text from `PATH`.
    StripPath(String),
    /// Sets the user's groups.
    Groups(Vec<u32>),
    /// Makes the driver's probe fail with a message.
    Fails(String, String),
    /// Removes the driver's answer.
    Silence(String),
    /// Like `silence`, for what not every host has.
    Quiet(String),
    /// Binds the PCI devices of a vendor to another driver; an empty name unbinds them.
    Bind(String, String),
    /// Removes registry values: a key and a name.
    Unregister(String, String),
    /// Sets a registry value.
    Register(String, String, String),
    /// Replaces NVIDIA's driver, kernel module and libraries, by another version.
    Driver(String),
    /// Replaces NVIDIA's libraries by another version; the module stays.
    Libraries(String),
    /// Replaces NVIDIA's card.
    Card(String),
    /// Replaces AMD's card.
    AmdCard(String),
    /// Adds integrated graphics before AMD's card.
    IntegratedFirst,
    /// Replaces GCC by another major version.
    Gcc(u32),
}

/// Whether `text` matches a pattern in which `*` is any text, slashes included.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, pattern)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(start) else { return false };
    let mut parts = pattern;
    while let Some((part, more)) = parts.split_once('*') {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        parts = more;
    }
    rest.ends_with(parts)
}

impl Machine {
    /// A host from a recording.
    pub fn recorded(name: &str, text: &str) -> Self {
        let recording = HostRecording::parse(name, text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut machine = Self::new(recording.platform.os, recording.platform.arch);
        machine.env = recording.env;
        machine.identity = recording.identity;
        machine.files = recording.files.into_iter().map(|file| (file.path, file.entry)).collect();
        machine.commands = recording.commands;
        machine.probes = recording.probes.into_iter().collect();
        machine.registry = recording.registry;
        machine
    }

    /// Whether a file, folder or link matches.
    pub fn has(&self, pattern: &str) -> bool {
        let below = format!("{pattern}/");
        if !pattern.contains('*') {
            let next = self.files.range(below.clone()..).next();
            return self.files.contains_key(pattern)
                || next.is_some_and(|(path, _)| path.starts_with(&below));
        }
        self.files.keys().any(|path| matches(pattern, path))
    }

    /// The text of a recorded file.
    pub fn text(&self, path: &str) -> Option<String> {
        match self.files.get(path)? {
            RecordedEntry::File { content: Some(content), .. } => {
                Some(String::from_utf8_lossy(content).into_owned())
            }
            _ => None,
        }
    }

    /// The first path that matches.
    fn first(&self, pattern: &str) -> Option<&str> {
        self.files.keys().map(String::as_str).find(|path| matches(pattern, path))
    }

    /// A property of the host by name.
    pub fn property(&self, name: &str) -> Option<String> {
        let folder = |path: &str| path.rsplit_once(['/', '\\']).map(|(folder, _)| folder.to_owned());
        match name {
            "kernel" => Some(self.text("/proc/sys/kernel/osrelease")?.trim().to_owned()),
            // The version of NVIDIA's loaded module.
            "driver" => Some(self.text("/sys/module/nvidia/version")?.trim().to_owned()),
            // The folder of NVIDIA's libraries.
            "nvlib" => folder(self.first(&format!("*/libcuda.so.{}", self.property("driver")?))?),
            // The folder of Vulkan's and OpenCL's loaders.
            "lib" => folder(self.first("*/libvulkan.so.1").or_else(|| self.first("*/libOpenCL.so.1"))?),
            // The folder of a complete CUDA Toolkit.
            "cuda" => {
                let nvcc = self.files.keys().find(|path| {
                    path.ends_with("/bin/nvcc")
                        && self
                            .files
                            .contains_key(&format!("{}/include/cuda.h", path.trim_end_matches("/bin/nvcc")))
                })?;
                Some(nvcc.trim_end_matches("/bin/nvcc").to_owned())
            }
            // Its version: `12.4`.
            "toolkit" => {
                let header = self.text(&format!("{}/include/cuda.h", self.property("cuda")?))?;
                let number: u32 =
                    header.split("CUDA_VERSION ").nth(1)?.split_whitespace().next()?.parse().ok()?;
                Some(format!("{}.{}", number / 1000, number % 1000 / 10))
            }
            // AMD's ROCm folder.
            "rocm" => Some(self.first("/opt/rocm-*/bin/hipcc")?.trim_end_matches("/bin/hipcc").to_owned()),
            "rocm-version" => Some(self.property("rocm")?.trim_start_matches("/opt/rocm-").to_owned()),
            "mesa" => Some(self.first("/usr/share/vulkan/icd.d/*_icd.x86_64.json")?.to_owned()),
            // The architecture of NVIDIA's card: `8.9`.
            "cc" => {
                let answer = &self.probes.get("cuda")?.answer;
                Some(answer.split("\"cc\": \"").nth(1)?.split('"').next()?.to_owned())
            }
            _ => None,
        }
    }

    /// Replaces `{name}` by the host's properties.
    pub fn filled(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let is_name = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            match after.split_once('}') {
                Some((name, tail)) if !name.is_empty() && is_name(name) => {
                    out = out + before + &self.property(name)?;
                    rest = tail;
                }
                _ => {
                    out = out + before + "{";
                    rest = after;
                }
            }
        }
        Some(out + rest)
    }

    /// Applies a change. `None` if there is nothing to change.
    pub fn step(mut self, step: &Step) -> Option<Self> {
        let fill = |text: &str| self.filled(text);
        match step {
            Step::Remove(pattern) => {
                let pattern = fill(pattern)?;
                let below = format!("{pattern}/*");
                let before = self.files.len();
                self.files.retain(|path, _| !matches(&pattern, path) && !matches(&below, path));
                (self.files.len() < before).then_some(self)
            }
            Step::Clear(pattern) => {
                let pattern = fill(pattern)?;
                let below = format!("{pattern}/*");
                self.files.retain(|path, _| !matches(&pattern, path) && !matches(&below, path));
                Some(self)
            }
            Step::File(path, text) => Some(self.clone().file(&fill(path)?, &fill(text)?)),
            Step::Bytes(path, content) => Some(self.bytes(path, content)),
            Step::Library(path) => Some(self.clone().opaque(&fill(path)?)),
            Step::Program(path) => Some(self.clone().program(&fill(path)?)),
            Step::Folder(path) => Some(self.clone().folder(&fill(path)?)),
            Step::Link(path, target) => Some(self.clone().link(&fill(path)?, &fill(target)?)),
            Step::Move(from, to) => {
                let (from, to) = (fill(from)?, fill(to)?);
                let entry = self.files.remove(&from)?;
                Some(self.entry(&to, entry))
            }
            Step::Replace(pattern, from, to) => {
                let (pattern, from, to) = (fill(pattern)?, fill(from)?, fill(to)?);
                let mut changed = false;
                for (_, entry) in self.files.iter_mut().filter(|(path, _)| matches(&pattern, path)) {
                    if let RecordedEntry::File { content: Some(content), .. } = entry {
                        let text = String::from_utf8_lossy(content).into_owned();
                        changed |= text.contains(&from);
                        *content = text.replace(&from, &to).into_bytes().into();
                    }
                }
                changed.then_some(self)
            }
            Step::Deny(pattern, group) => {
                let pattern = fill(pattern)?;
                let mut changed = false;
                for (_, entry) in self.files.iter_mut().filter(|(path, _)| matches(&pattern, path)) {
                    if let RecordedEntry::Device { open_error, owner } = entry {
                        *open_error = Some("permission-denied".to_owned());
                        *owner = Some(Owner { uid: 0, gid: *group });
                        changed = true;
                    }
                }
                changed.then_some(self)
            }
            Step::Env(name, value) => Some(self.clone().env(name, &fill(value)?)),
            Step::Prepend(name, value) => {
                let value = fill(value)?;
                let old = self.env.get(name).map(|old| format!(":{old}")).unwrap_or_default();
                Some(self.env(name, &format!("{value}{old}")))
            }
            Step::Unset(name) => self.env.remove(name).map(|_| self),
            Step::StripPath(part) => {
                let part = fill(part)?;
                let (name, separator) =
                    if self.env.contains_key("Path") { ("Path", ';') } else { ("PATH", ':') };
                let old = self.env.get(name)?.clone();
                let kept: Vec<&str> = old.split(separator).filter(|folder| !folder.contains(&part)).collect();
                let new = kept.join(&separator.to_string());
                (new != old).then(|| self.env(name, &new))
            }
            Step::Groups(groups) => {
                self.identity.groups.clone_from(groups);
                (self.identity.uid != Some(0)).then_some(self)
            }
            Step::Fails(id, error) => {
                self.probes.get(id)?;
                let error = error.clone();
                Some(
                    self.answers(
                        id,
                        ProbeAnswer { status: ProbeStatus::Failed, error, answer: String::new() },
                    ),
                )
            }
            Step::Silence(id) => self.probes.remove(id).map(|_| self),
            Step::Quiet(id) => Some(self.without_probe(id)),
            Step::Bind(vendor, driver) => self.bind(vendor, driver),
            Step::Unregister(key, name) => {
                let before = self.registry.len();
                self.registry.retain(|one| {
                    let value = one.value.as_ref().map_or("", |(name, _)| name);
                    !(matches(key, &one.key) && matches(name, value))
                });
                (self.registry.len() < before).then_some(self)
            }
            Step::Register(key, name, text) => Some(self.registry(key, name, text)),
            Step::Driver(version) => self.driver(version),
            Step::Libraries(version) => self.libraries(version),
            Step::Card(name) => self.card(name),
            Step::AmdCard(name) => self.amd_card(name),
            Step::IntegratedFirst => {
                self.first("/sys/class/kfd/kfd/topology/nodes/1/properties")?;
                self.amd_cards(RX_NONE, 2).map(|machine| machine.amd_at(RAPHAEL, "0000:01:00.0", 1))
            }
            Step::Gcc(major) => self.compiler(*major),
        }
    }

    fn devices(&self, vendor: &str) -> Vec<String> {
        let is_gpu = |folder: &str| {
            let class = self.text(&format!("{folder}/class")).unwrap_or_default();
            class.starts_with("0x03") || class.starts_with("0x12")
        };
        self.files
            .keys()
            .filter_map(|path| path.strip_suffix("/vendor"))
            .filter(|folder| {
                folder.starts_with("/sys/bus/pci/devices/")
                    && self.text(&format!("{folder}/vendor")).is_some_and(|text| text.trim() == vendor)
                    && is_gpu(folder)
            })
            .map(str::to_owned)
            .collect()
    }

    fn bind(mut self, vendor: &str, driver: &str) -> Option<Self> {
        let devices = self.devices(vendor);
        for folder in &devices {
            self.files.remove(&format!("{folder}/driver"));
            if !driver.is_empty() {
                self = self
                    .folder(&format!("/sys/bus/pci/drivers/{driver}"))
                    .link(&format!("{folder}/driver"), &format!("../../../bus/pci/drivers/{driver}"))
                    .folder(&format!("/sys/module/{}/holders", driver.replace('-', "_")));
            }
        }
        (!devices.is_empty()).then_some(self)
    }

    fn libraries(mut self, version: &str) -> Option<Self> {
        let old = self.property("driver").filter(|old| old != version)?;
        let names: Vec<String> =
            self.files.keys().filter(|path| path.ends_with(&format!(".so.{old}"))).cloned().collect();
        for name in &names {
            let entry = self.files.remove(name)?;
            self.files.insert(name.replace(&old, version), entry);
        }
        for entry in self.files.values_mut() {
            if let RecordedEntry::Link(target) = entry
                && target.contains(&format!(".so.{old}"))
            {
                *target = target.replace(&old, version);
            }
        }
        (!names.is_empty()).then_some(self)
    }

    fn driver(self, version: &str) -> Option<Self> {
        let old = self.property("driver")?;
        let mut machine = self.libraries(version)?;
        for path in ["/sys/module/nvidia/version", "/proc/driver/nvidia/version"] {
            let text = machine.text(path)?;
            machine = machine.file(path, &text.replace(&old, version));
        }
        if let Some(answer) = machine.probes.get_mut("cuda") {
            answer.answer = answer.answer.replace(
                &format!("\"driver_version\": {}", cuda_of(&old)),
                &format!("\"driver_version\": {}", cuda_of(version)),
            );
        }
        Some(machine)
    }

    fn card(self, name: &str) -> Option<Self> {
        let card: Card = match name {
            "GTX 970" => GTX_970,
            "GTX 1080" => GTX_1080,
            "RTX 5090" => RTX_5090,
            other => panic!("no card {other}"),
        };
        let devices = self.devices("0x10de");
        let [folder] = &devices[..] else { return None };
        let address = folder.rsplit('/').next()?.to_owned();
        let driver = self.property("driver")?;
        self.probes.get("cuda")?;
        let mut machine = self.file(&format!("{folder}/device"), &format!("{}\n", card.device));
        machine = machine.file(&format!("{folder}/class"), &format!("{}\n", card.class));
        Some(machine.nvidia_information(&address, card).nvidia_answers(card, &driver))
    }

    fn amd_card(self, name: &str) -> Option<Self> {
        let card = match name {
            "RX 580" => RX_580,
            "RX 5700" => RX_5700,
            "RX 6700" => RX_6700,
            other => panic!("no card {other}"),
        };
        self.amd_cards(Some(card), 1)
    }

    /// Replaces the only AMD card, or keeps it, at a KFD node.
    fn amd_cards(self, card: Option<AmdCard>, node: u32) -> Option<Self> {
        let devices = self.devices("0x1002");
        let [folder] = &devices[..] else { return None };
        let address = folder.rsplit('/').next()?.to_owned();
        let gfx =
            |text: String| text.split("gfx_target_version ").nth(1)?.split_whitespace().next()?.parse().ok();
        let old: u32 = gfx(self.text("/sys/class/kfd/kfd/topology/nodes/1/properties")?)?;
        let known = [
            super::RX_6800,
            super::RX_7900,
            super::RX_7600,
            super::RX_9070,
            super::MI210,
            super::MI300X,
            super::RX_6700,
        ];
        let card = card.or_else(|| known.into_iter().find(|known| known.gfx == old))?;
        if node == 1 && card.gfx == old {
            return None;
        }
        let mut machine = self;
        machine.probes.remove("rocm");
        let nodes = "/sys/class/kfd/kfd/topology/nodes/1/";
        machine.files.retain(|path, _| !path.starts_with(nodes) && !path.starts_with(&format!("{folder}/")));
        Some(machine.amd_at(card, &address, node))
    }

    fn compiler(self, major: u32) -> Option<Self> {
        if !self.has("/usr/bin/gcc") || self.has(&format!("/usr/bin/gcc-{major}")) {
            return None;
        }
        let is_debian = self.has("/usr/bin/x86_64-linux-gnu-gcc-*");
        let folder = self.first("/usr/lib/gcc/*")?;
        let triplet = folder.split('/').nth(4)?.to_owned();
        let machine = self.without_compiler();
        Some(if is_debian { machine.gcc(major) } else { machine.gcc_plain(major, &triplet) })
    }
}

/// Keeps the card that the host has.
const RX_NONE: Option<AmdCard> = None;

#[test]
fn patterns_match_any_text() {
    assert!(matches("/a/*/c", "/a/b/b/c") && matches("/a*", "/a") && matches("/a", "/a"));
    assert!(!matches("/a/*/c", "/a/c") && !matches("/a", "/a/b") && !matches("*x", "/a"));
}
