//! Checks of a container's environment and image, shared by compose files, manifests and devcontainer.json.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{FindingDraft, Severity};

use super::dockerfile::check::{capabilities, hidden, library_path};
use super::image::ImageName;
use super::text::SourceText;
use super::yaml::{YamlNode, YamlValue};
use super::{fix, tags};

/// A variable of a container's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerVariable {
    /// The variable's name.
    pub name: String,
    /// The value; `None` if it is inherited from the environment of the caller.
    pub value: Option<String>,
    /// The line in the file.
    pub line: usize,
}

/// The variables of a node: a map, a list of `NAME=value`, or a Kubernetes list of `name` and `value`.
#[must_use]
pub fn variables(node: &YamlNode) -> Vec<ContainerVariable> {
    match &node.value {
        YamlValue::Map(pairs) => {
            let of_pair = |pair: &super::yaml::YamlPair| ContainerVariable {
                name: pair.key.clone(),
                value: pair
                    .node
                    .text()
                    .filter(|_| !pair.node.is_null() || !pair.node.is_number())
                    .map(str::to_owned),
                line: pair.line,
            };
            pairs.iter().map(of_pair).collect()
        }
        YamlValue::List(items) => items
            .iter()
            .filter_map(|item| {
                if let Some(text) = item.text() {
                    let (name, value) =
                        text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
                    return Some(ContainerVariable {
                        name: name.to_owned(),
                        value: value.map(str::to_owned),
                        line: item.line,
                    });
                }
                let name = item.text_of("name")?.to_owned();
                let line = item.pair("value").map_or(item.line, |pair| pair.line);
                Some(ContainerVariable { name, value: item.text_of("value").map(str::to_owned), line })
            })
            .collect(),
        YamlValue::Text { .. } => Vec::new(),
    }
}

/// The last variable with this name.
#[must_use]
pub fn find<'a>(variables: &'a [ContainerVariable], name: &str) -> Option<&'a ContainerVariable> {
    variables.iter().rfind(|variable| variable.name == name)
}

/// The variable that requests devices from NVIDIA's container runtime.
#[must_use]
pub fn requests_nvidia(variables: &[ContainerVariable]) -> Option<&ContainerVariable> {
    let variable = find(variables, "NVIDIA_VISIBLE_DEVICES")?;
    let value = variable.value.as_deref()?;
    (!matches!(value.trim(), "" | "none" | "void")).then_some(variable)
}

/// A variable that only programs with Vulkan read.
#[must_use]
pub fn uses_vulkan(variables: &[ContainerVariable]) -> Option<&ContainerVariable> {
    let names = ["VK_ICD_FILENAMES", "VK_DRIVER_FILES", "GGML_VK_VISIBLE_DEVICES", "VK_ADD_DRIVER_FILES"];
    variables.iter().find(|variable| names.contains(&variable.name.as_str()))
}

/// How a container uses Vulkan.
#[derive(Debug, Clone, Copy)]
pub struct VulkanUse {
    /// The line that shows it.
    pub line: usize,
    /// The backend that the image is built for, if known.
    pub backend: Option<Backend>,
}

impl VulkanUse {
    /// The severity of a missing driver for Vulkan: an error if the image has no other use for the GPU.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self.backend {
            Some(Backend::Vulkan) => Severity::Error,
            Some(_) => Severity::Info,
            None => Severity::Warning,
        }
    }
}

/// Checks an environment. `gpu`: whether the container is meant to use a GPU; `vulkan`: its use of Vulkan.
pub fn environment(
    source: &SourceText,
    variables: &[ContainerVariable],
    gpu: bool,
    vulkan: Option<VulkanUse>,
    drafts: &mut Vec<FindingDraft>,
) {
    for variable in variables {
        let Some(value) = &variable.value else { continue };
        match variable.name.as_str() {
            "LD_LIBRARY_PATH" => drafts.extend(library_path(source, value, variable.line, None)),
            "CUDA_VISIBLE_DEVICES" | "NVIDIA_VISIBLE_DEVICES" | "HIP_VISIBLE_DEVICES" if gpu => {
                drafts.extend(hidden(source, &variable.name, value, variable.line));
            }
            "NVIDIA_DRIVER_CAPABILITIES" => {
                if let Some(used) = vulkan {
                    drafts.extend(capabilities(source, value, variable.line, used.line, used.severity()));
                }
            }
            _ => {}
        }
    }
}

/// Reports an image that can't be pulled.
#[must_use]
pub fn image(source: &SourceText, written: &str, image: &ImageName, line: usize) -> Option<FindingDraft> {
    let problem = tags::problem(image, false)?;
    // The image may come from the default of a variable.
    let name = image.to_string();
    let written = if source.line(line).contains(&name) { &name } else { written };
    Some(
        source
            .draft(problem.id, problem.severity, line)
            .backend(Backend::Cuda)
            .summary(format!("`{image}` {}: {}", problem.what, problem.why))
            .fix(fix::replace(source, line, written, &problem.replacement)),
    )
}

/// The display name of a backend in findings about files.
#[must_use]
pub fn backend_name(backend: Backend) -> &'static str {
    match backend {
        Backend::Cpu => "CPUs",
        Backend::Cuda => "CUDA",
        Backend::Rocm => "ROCm",
        Backend::Metal => "Metal",
        Backend::Vulkan => "Vulkan",
        Backend::Sycl => "SYCL",
        Backend::Opencl => "OpenCL",
    }
}
