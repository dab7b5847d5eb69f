//! Compose files: which services need a GPU, and which of them get one.

mod access;

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;

use super::container::{self, ContainerVariable};
use super::expand::expand;
use super::image::{GpuImage, ImageName};
use super::say;
use super::text::{Sheet, shown};
use super::yaml::YamlNode;
use access::{ComposeService, DeviceAccess};

/// What other files say that are looked at together with this one.
#[derive(Debug, Default)]
pub struct Others {
    /// Services that get their GPU in another compose file of the same folder.
    pub served: Vec<String>,
    /// What the last stage of the Dockerfiles needs, by their path.
    pub dockerfiles: BTreeMap<String, Backend>,
}

/// The services that get a GPU in a compose file, for the others of its folder.
#[must_use]
pub fn served(document: &YamlNode) -> Vec<String> {
    let services = document.get("services").map(YamlNode::pairs).unwrap_or_default();
    let gets = |name: &str| DeviceAccess::of(&ComposeService::new(document, name)).is_any();
    services.iter().filter(|pair| gets(&pair.key)).map(|pair| pair.key.clone()).collect()
}

/// Every finding in a compose file.
#[must_use]
pub fn check(sheet: &Sheet, document: &YamlNode, folder: &str, others: &Others) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    for pair in document.get("services").map(YamlNode::pairs).unwrap_or_default() {
        let service = ComposeService::new(document, &pair.key);
        let subject = ComposeSubject { sheet, service: &service, name: &pair.key, line: pair.line };
        subject.check(folder, others, &mut drafts);
    }
    drafts
}

/// What a service needs, and the line that shows it.
struct ServiceNeed {
    backend: Backend,
    line: usize,
    why: String,
    image: Option<GpuImage>,
}

struct ComposeSubject<'a> {
    sheet: &'a Sheet,
    service: &'a ComposeService<'a>,
    name: &'a str,
    line: usize,
}

impl ComposeSubject<'_> {
    fn check(&self, folder: &str, others: &Others, drafts: &mut Vec<FindingDraft>) {
        let variables = self.variables();
        let written = self.service.get("image").and_then(|node| Some((node.text()?, node.line)));
        let image = written.and_then(|(text, _)| ImageName::parse(&without_variables(text)));
        if let (Some((written, line)), Some(image)) = (written, &image) {
            drafts.extend(container::image(self.sheet, written, image, line));
        }
        let access = DeviceAccess::of(self.service);
        access::reservations(self.sheet, self.service, self.name, drafts);
        let need = self.need(image.as_ref(), &variables, folder, others);
        if let Some(need) = &need {
            let is_served = others.served.iter().any(|name| name == self.name);
            let wants_none = self.service.is_foreign || self.is_for_processors() || self.only_builds();
            if !wants_none && !is_served {
                self.lacks(need, &access, drafts);
            }
        }
        let vulkan = container::uses_vulkan(&variables).map(|variable| variable.line);
        let vulkan = vulkan
            .or_else(|| need.as_ref().filter(|need| need.backend == Backend::Vulkan).map(|need| need.line));
        container::environment(
            self.sheet,
            &variables,
            need.is_some() || access.nvidia.is_some(),
            vulkan,
            drafts,
        );
        if let (Some(line), Some(_), None) =
            (vulkan, access.nvidia, container::find(&variables, "NVIDIA_DRIVER_CAPABILITIES"))
            && !access.has_graphics
        {
            drafts.push(self.no_graphics(line));
        }
        if let Some(line) = access.legacy {
            let is_jetson =
                need.as_ref().and_then(|need| need.image.as_ref()).is_some_and(|image| image.jetson);
            if !is_jetson {
                drafts.push(self.legacy(line));
            }
        }
    }

    fn variables(&self) -> Vec<ContainerVariable> {
        let mut list: Vec<ContainerVariable> =
            self.service.all("environment").into_iter().rev().flat_map(container::variables).collect();
        for variable in &mut list {
            variable.value = variable.value.take().map(|value| without_variables(&value));
        }
        list
    }

    fn need(
        &self,
        image: Option<&ImageName>,
        variables: &[ContainerVariable],
        folder: &str,
        others: &Others,
    ) -> Option<ServiceNeed> {
        let line = self.service.get("image").map_or(self.line, |node| node.line);
        if let Some(gpu) = image.and_then(ImageName::gpu) {
            let why = format!(
                "its image `{}` is one for {}",
                image.map(ToString::to_string).unwrap_or_default(),
                say::backend(gpu.backend)
            );
            return Some(ServiceNeed { backend: gpu.backend, line, why, image: Some(gpu) });
        }
        if let Some(variable) = container::asks_for_nvidia(variables) {
            let why = "it sets NVIDIA_VISIBLE_DEVICES, which nothing reads without the runtime".to_owned();
            return Some(ServiceNeed { backend: Backend::Cuda, line: variable.line, why, image: None });
        }
        for key in ["command", "entrypoint"] {
            let Some(node) = self.service.get(key) else { continue };
            let words: Vec<&str> = node
                .one_or_many()
                .iter()
                .filter_map(|word| word.text())
                .flat_map(str::split_whitespace)
                .collect();
            if let Some(program) =
                words.iter().find(|word| matches!(**word, "nvidia-smi" | "rocminfo" | "rocm-smi"))
            {
                let backend = if *program == "nvidia-smi" { Backend::Cuda } else { Backend::Rocm };
                return Some(ServiceNeed {
                    backend,
                    line: node.line,
                    why: format!("it runs `{program}`"),
                    image: None,
                });
            }
        }
        let build = self.service.get("build")?;
        let context = build.text().or_else(|| build.text_of("context")).unwrap_or(".");
        let file = build.text_of("dockerfile").unwrap_or("Dockerfile");
        let path = super::join(&super::join(folder, context), file);
        let backend = *others.dockerfiles.get(&path)?;
        let why = format!("`{path}` ends in an image for {}", say::backend(backend));
        Some(ServiceNeed { backend, line: build.line, why, image: None })
    }

    /// A service that compiles and ends.
    fn only_builds(&self) -> bool {
        let command = self.service.get("command").map(YamlNode::one_or_many).unwrap_or_default();
        let first =
            command.first().and_then(|word| word.text()).and_then(|text| text.split_whitespace().next());
        first
            .is_some_and(|program| matches!(program, "make" | "cmake" | "ninja" | "nvcc" | "bazel" | "meson"))
    }

    /// A service of a profile for machines without a GPU.
    fn is_for_processors(&self) -> bool {
        let Some(profiles) = self.service.get("profiles") else { return false };
        let profiles = profiles.one_or_many();
        !profiles.is_empty()
            && profiles.iter().all(|profile| {
                profile.text().is_some_and(|text| text.split(['-', '_']).any(|part| part == "cpu"))
            })
    }

    fn lacks(&self, need: &ServiceNeed, access: &DeviceAccess, drafts: &mut Vec<FindingDraft>) {
        let name = shown(self.name);
        match need.backend {
            Backend::Rocm => self.lacks_amd(need, access, drafts),
            Backend::Sycl | Backend::Opencl | Backend::Vulkan => {
                let is_served = access.nodes.dri || access.nvidia.is_some();
                drafts.extend((!is_served).then(|| self.no_dri(need)));
            }
            _ if access.nvidia.is_none() && access.is_broken.is_none() => drafts.push(
                self.sheet
                    .draft(id!("ctr.no-gpus-flag"), Severity::Error, need.line)
                    .backend(need.backend)
                    .affects(Affects::Run)
                    .summary(format!("service `{name}` gets no GPU: {}", need.why))
                    .fix(format!(
                        "add `gpus: all` to service `{name}` of line {}; Compose before 2.30 wants `deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, count: all, capabilities: [gpu]}}]}}}}}}`",
                        self.line
                    )),
            ),
            _ => {}
        }
    }

    fn lacks_amd(&self, need: &ServiceNeed, access: &DeviceAccess, drafts: &mut Vec<FindingDraft>) {
        let name = shown(self.name);
        if access.is_privileged || access.amd {
            return;
        }
        let missing: Vec<&str> = [("/dev/kfd", access.nodes.kfd), ("/dev/dri", access.nodes.dri)]
            .into_iter()
            .filter(|(_, is_there)| !is_there)
            .map(|(path, _)| path)
            .collect();
        let draft = |severity| {
            let draft = self.sheet.draft(id!("ctr.amd-devices"), severity, need.line);
            draft.backend(Backend::Rocm).affects(Affects::Run)
        };
        if !missing.is_empty() {
            let groups = if access.groups.is_some() { "" } else { " and `group_add: [video, render]`" };
            drafts.push(
                draft(Severity::Error)
                    .summary(format!("service `{name}` does not get {}: {}", missing.join(" and "), need.why))
                    .fix(format!(
                        "add `devices: [/dev/kfd, /dev/dri]`{groups} to service `{name}` of line {}",
                        self.line
                    )),
            );
        } else if access.groups.is_none()
            && !matches!(access.user.as_deref(), Some("root" | "0" | "0:0" | "root:root"))
        {
            let severity = if access.user.is_some() { Severity::Warning } else { Severity::Info };
            drafts.push(
                draft(severity)
                    .summary(format!("service `{name}` gets /dev/kfd and /dev/dri without their groups: only root may open them"))
                    .fix(format!("add `group_add: [video, render]` to service `{name}` of line {}; an image without these names wants the numbers that `ls -ln /dev/kfd /dev/dri/renderD128` shows", self.line)),
            );
        }
    }

    fn no_dri(&self, need: &ServiceNeed) -> FindingDraft {
        let name = shown(self.name);
        self.sheet
            .draft(id!("file.dri-missing"), Severity::Error, need.line)
            .backend(need.backend)
            .affects(Affects::Run)
            .summary(format!("service `{name}` does not get /dev/dri: {}", need.why))
            .fix(format!("add `devices: [/dev/dri]` to service `{name}` of line {}", self.line))
    }

    fn no_graphics(&self, line: usize) -> FindingDraft {
        let name = shown(self.name);
        self.sheet
            .draft(id!("ctr.caps-graphics"), Severity::Warning, line)
            .evidence(self.sheet.evidence(self.line))
            .backend(Backend::Vulkan)
            .affects(Affects::Run)
            .summary(format!("service `{name}` uses Vulkan, and NVIDIA's runtime brings in `compute,utility` only"))
            .fix(format!("add `NVIDIA_DRIVER_CAPABILITIES: compute,utility,graphics` to the environment of service `{name}` of line {}", self.line))
    }

    fn legacy(&self, line: usize) -> FindingDraft {
        let name = shown(self.name);
        self.sheet
            .draft(id!("file.runtime-legacy"), Severity::Info, line)
            .backend(Backend::Cuda)
            .affects(Affects::Run)
            .summary(format!(
                "service `{name}` gets its GPU by `runtime: nvidia`, which every host has to be set up for"
            ))
            .fix(format!("write line {line} as `gpus: all`"))
    }
}

/// A text of a compose file with the defaults of its variables.
fn without_variables(text: &str) -> String {
    expand(text, &|_| None).text.replace("$$", "$")
}
