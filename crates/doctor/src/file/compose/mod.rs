//! Checks compose files: which services need a GPU, and whether they get access to one.

mod access;

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;

use super::container::{self, ContainerVariable, VulkanUse};
use super::expand::expand;
use super::image::{GpuImage, ImageName};
use super::text::{SourceText, sanitize};
use super::yaml::YamlNode;
use access::{ComposeService, DeviceAccess};

/// Facts from the other files that are checked together with a compose file.
#[derive(Debug, Default)]
pub struct RelatedFiles {
    /// Services that get a GPU in another compose file in the same folder.
    pub services_with_gpu: Vec<String>,
    /// The backend that the final image of each Dockerfile is built for, by path.
    pub dockerfiles: BTreeMap<String, Backend>,
}

/// The names of the services that get a GPU.
#[must_use]
pub fn services_with_gpu(document: &YamlNode) -> Vec<String> {
    let services = document.get("services").map(YamlNode::pairs).unwrap_or_default();
    let has_gpu = |name: &str| DeviceAccess::of(&ComposeService::new(document, name)).is_any();
    services.iter().filter(|pair| has_gpu(&pair.key)).map(|pair| pair.key.clone()).collect()
}

/// All findings in a compose file.
#[must_use]
pub fn check(
    source: &SourceText,
    document: &YamlNode,
    folder: &str,
    related: &RelatedFiles,
) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    for pair in document.get("services").map(YamlNode::pairs).unwrap_or_default() {
        let service = ComposeService::new(document, &pair.key);
        let subject = ComposeSubject { source, service: &service, name: &pair.key, line: pair.line };
        subject.check(folder, related, &mut drafts);
    }
    drafts
}

/// The backend that a service needs. `line` and `why` show how the check knows.
struct ServiceNeed {
    backend: Backend,
    line: usize,
    why: String,
    image: Option<GpuImage>,
}

struct ComposeSubject<'a> {
    source: &'a SourceText,
    service: &'a ComposeService<'a>,
    name: &'a str,
    line: usize,
}

impl ComposeSubject<'_> {
    fn check(&self, folder: &str, related: &RelatedFiles, drafts: &mut Vec<FindingDraft>) {
        let variables = self.variables();
        let written = self.service.get("image").and_then(|node| Some((node.text()?, node.line)));
        let image = written.and_then(|(text, _)| ImageName::parse(&with_defaults(text)));
        if let (Some((written, line)), Some(image)) = (written, &image) {
            drafts.extend(container::image(self.source, written, image, line));
        }
        let access = DeviceAccess::of(self.service);
        access::check_reservations(self.source, self.service, self.name, drafts);
        let need = self.need(image.as_ref(), &variables, folder, related);
        if let Some(need) = &need {
            let has_gpu_elsewhere = related.services_with_gpu.iter().any(|name| name == self.name);
            let is_exempt = self.service.extends_other_file || self.is_for_cpus() || self.only_builds();
            if !is_exempt && !has_gpu_elsewhere {
                self.check_access(need, &access, drafts);
            }
        }
        let vulkan = container::uses_vulkan(&variables).map(|variable| variable.line);
        let vulkan = vulkan
            .or_else(|| need.as_ref().filter(|need| need.backend == Backend::Vulkan).map(|need| need.line));
        let backend = image.as_ref().and_then(ImageName::gpu).map(|gpu| gpu.backend);
        let vulkan = vulkan.map(|line| VulkanUse { line, backend });
        container::environment(
            self.source,
            &variables,
            need.is_some() || access.nvidia.is_some(),
            vulkan,
            drafts,
        );
        if let (Some(used), Some(_), None) =
            (vulkan, access.nvidia, container::find(&variables, "NVIDIA_DRIVER_CAPABILITIES"))
            && !access.has_graphics
        {
            drafts.push(self.missing_graphics(used));
        }
        if let Some(line) = access.legacy {
            let is_jetson =
                need.as_ref().and_then(|need| need.image.as_ref()).is_some_and(|image| image.jetson);
            if !is_jetson {
                drafts.push(self.legacy_runtime(line));
            }
        }
    }

    fn variables(&self) -> Vec<ContainerVariable> {
        let mut list: Vec<ContainerVariable> =
            self.service.all("environment").into_iter().rev().flat_map(container::variables).collect();
        for variable in &mut list {
            variable.value = variable.value.take().map(|value| with_defaults(&value));
        }
        list
    }

    fn need(
        &self,
        image: Option<&ImageName>,
        variables: &[ContainerVariable],
        folder: &str,
        related: &RelatedFiles,
    ) -> Option<ServiceNeed> {
        let line = self.service.get("image").map_or(self.line, |node| node.line);
        if let Some(gpu) = image.and_then(ImageName::gpu) {
            let why = format!(
                "its image `{}` is built for {}",
                image.map(ToString::to_string).unwrap_or_default(),
                container::backend_name(gpu.backend)
            );
            return Some(ServiceNeed { backend: gpu.backend, line, why, image: Some(gpu) });
        }
        if let Some(variable) = container::requests_nvidia(variables) {
            let why =
                "it sets `NVIDIA_VISIBLE_DEVICES`, which has no effect without NVIDIA's runtime".to_owned();
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
        let backend = *related.dockerfiles.get(&path)?;
        let why = format!("the final image of `{path}` is built for {}", container::backend_name(backend));
        Some(ServiceNeed { backend, line: build.line, why, image: None })
    }

    /// Whether the service only compiles something.
    fn only_builds(&self) -> bool {
        let command = self.service.get("command").map(YamlNode::one_or_many).unwrap_or_default();
        let first =
            command.first().and_then(|word| word.text()).and_then(|text| text.split_whitespace().next());
        first
            .is_some_and(|program| matches!(program, "make" | "cmake" | "ninja" | "nvcc" | "bazel" | "meson"))
    }

    /// Whether the service belongs only to profiles for machines without a GPU.
    fn is_for_cpus(&self) -> bool {
        let Some(profiles) = self.service.get("profiles") else { return false };
        let profiles = profiles.one_or_many();
        !profiles.is_empty()
            && profiles.iter().all(|profile| {
                profile.text().is_some_and(|text| text.split(['-', '_']).any(|part| part == "cpu"))
            })
    }

    /// Reports a service that needs a GPU and does not get access to one.
    fn check_access(&self, need: &ServiceNeed, access: &DeviceAccess, drafts: &mut Vec<FindingDraft>) {
        let name = sanitize(self.name);
        match need.backend {
            Backend::Rocm => self.check_amd_access(need, access, drafts),
            Backend::Sycl | Backend::Opencl | Backend::Vulkan => {
                let has_access = access.nodes.dri || access.nvidia.is_some();
                drafts.extend((!has_access).then(|| self.missing_dri(need)));
            }
            _ if access.nvidia.is_none() && access.invalid_reservation.is_none() => drafts.push(
                self.source
                    .draft(id!("ctr.no-gpus-flag"), Severity::Error, need.line)
                    .backend(need.backend)
                    .affects(Affects::Run)
                    .summary(format!("service `{name}` does not request a GPU, but {}", need.why))
                    .fix(format!(
                        "add `gpus: all` to service `{name}` in line {}; Compose versions before 2.30 need `deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, count: all, capabilities: [gpu]}}]}}}}}}`",
                        self.line
                    )),
            ),
            _ => {}
        }
    }

    fn check_amd_access(&self, need: &ServiceNeed, access: &DeviceAccess, drafts: &mut Vec<FindingDraft>) {
        let name = sanitize(self.name);
        if access.is_privileged || access.amd {
            return;
        }
        let missing: Vec<&str> = [("/dev/kfd", access.nodes.kfd), ("/dev/dri", access.nodes.dri)]
            .into_iter()
            .filter(|(_, is_present)| !is_present)
            .map(|(path, _)| path)
            .collect();
        let draft = |severity| {
            let draft = self.source.draft(id!("ctr.amd-devices"), severity, need.line);
            draft.backend(Backend::Rocm).affects(Affects::Run)
        };
        if !missing.is_empty() {
            let groups = if access.groups.is_some() { "" } else { " and `group_add: [video, render]`" };
            drafts.push(
                draft(Severity::Error)
                    .summary(format!(
                        "service `{name}` has no access to {}, but {}",
                        missing.join(" and "),
                        need.why
                    ))
                    .fix(format!(
                        "add `devices: [/dev/kfd, /dev/dri]`{groups} to service `{name}` in line {}",
                        self.line
                    )),
            );
        } else if access.groups.is_none()
            && !matches!(access.user.as_deref(), Some("root" | "0" | "0:0" | "root:root"))
        {
            let severity = if access.user.is_some() { Severity::Warning } else { Severity::Info };
            drafts.push(
                draft(severity)
                    .summary(format!("service `{name}` has /dev/kfd and /dev/dri but not their groups: only root can open the devices"))
                    .fix(format!("add `group_add: [video, render]` to service `{name}` in line {}; if the image does not define these groups, use the numeric ids that `ls -ln /dev/kfd /dev/dri/renderD128` shows", self.line)),
            );
        }
    }

    fn missing_dri(&self, need: &ServiceNeed) -> FindingDraft {
        let name = sanitize(self.name);
        self.source
            .draft(id!("file.dri-missing"), Severity::Error, need.line)
            .backend(need.backend)
            .affects(Affects::Run)
            .summary(format!("service `{name}` has no access to /dev/dri, but {}", need.why))
            .fix(format!("add `devices: [/dev/dri]` to service `{name}` in line {}", self.line))
    }

    fn missing_graphics(&self, used: VulkanUse) -> FindingDraft {
        let name = sanitize(self.name);
        self.source
            .draft(id!("ctr.caps-graphics"), used.severity(), used.line)
            .evidence(self.source.evidence(self.line))
            .backend(Backend::Vulkan)
            .affects(Affects::Run)
            .summary(format!("service `{name}` uses Vulkan, but NVIDIA's runtime provides only `compute,utility`"))
            .fix(format!("add `NVIDIA_DRIVER_CAPABILITIES: compute,utility,graphics` to the environment of service `{name}` in line {}", self.line))
    }

    fn legacy_runtime(&self, line: usize) -> FindingDraft {
        let name = sanitize(self.name);
        self.source
            .draft(id!("file.runtime-legacy"), Severity::Info, line)
            .backend(Backend::Cuda)
            .affects(Affects::Run)
            .summary(format!(
                "service `{name}` uses `runtime: nvidia`, which must be configured on every host"
            ))
            .fix(format!("change line {line} to `gpus: all`"))
    }
}

/// A text with its variables replaced by their defaults. `$$` is Compose's escape for `$`.
fn with_defaults(text: &str) -> String {
    expand(text, &|_| None).text.replace("$$", "$")
}
