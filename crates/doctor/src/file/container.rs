//! What containers are started with, wherever that is written down: their environment, their image.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::FindingDraft;

use super::dockerfile::check::{capabilities, hidden, library_path};
use super::image::ImageName;
use super::text::Sheet;
use super::yaml::{YamlNode, YamlValue};
use super::{say, tags};

/// A variable of a container's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerVariable {
    /// Its name.
    pub name: String,
    /// Its value; none if it comes from outside.
    pub value: Option<String>,
    /// The line.
    pub line: usize,
}

/// The variables of a node: a map, or a list of `NAME=value`, or Kubernetes' list of names and values.
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

/// The last variable of a name.
#[must_use]
pub fn find<'a>(variables: &'a [ContainerVariable], name: &str) -> Option<&'a ContainerVariable> {
    variables.iter().rfind(|variable| variable.name == name)
}

/// Whether the environment asks NVIDIA's runtime for devices.
#[must_use]
pub fn asks_for_nvidia(variables: &[ContainerVariable]) -> Option<&ContainerVariable> {
    let variable = find(variables, "NVIDIA_VISIBLE_DEVICES")?;
    let value = variable.value.as_deref()?;
    (!matches!(value.trim(), "" | "none" | "void")).then_some(variable)
}

/// Whether the environment is one of a program that uses Vulkan.
#[must_use]
pub fn uses_vulkan(variables: &[ContainerVariable]) -> Option<&ContainerVariable> {
    let names = ["VK_ICD_FILENAMES", "VK_DRIVER_FILES", "GGML_VK_VISIBLE_DEVICES", "VK_ADD_DRIVER_FILES"];
    variables.iter().find(|variable| names.contains(&variable.name.as_str()))
}

/// What is wrong with an environment. `gpu`: whether the container is one for a GPU; `vulkan`: the line that shows that it
/// uses Vulkan.
pub fn environment(
    sheet: &Sheet,
    variables: &[ContainerVariable],
    gpu: bool,
    vulkan: Option<usize>,
    drafts: &mut Vec<FindingDraft>,
) {
    for variable in variables {
        let Some(value) = &variable.value else { continue };
        match variable.name.as_str() {
            "LD_LIBRARY_PATH" => drafts.extend(library_path(sheet, value, variable.line)),
            "CUDA_VISIBLE_DEVICES" | "NVIDIA_VISIBLE_DEVICES" | "HIP_VISIBLE_DEVICES" if gpu => {
                drafts.extend(hidden(sheet, &variable.name, value, variable.line));
            }
            "NVIDIA_DRIVER_CAPABILITIES" => {
                if let Some(used) = vulkan {
                    drafts.extend(capabilities(sheet, value, variable.line, used));
                }
            }
            _ => {}
        }
    }
}

/// An image that can't be pulled.
#[must_use]
pub fn image(sheet: &Sheet, written: &str, image: &ImageName, line: usize) -> Option<FindingDraft> {
    let problem = tags::problem(image, false)?;
    // The image may be the default of a variable.
    let name = image.to_string();
    let written = if sheet.line(line).contains(&name) { &name } else { written };
    Some(
        sheet
            .draft(problem.id, problem.severity, line)
            .backend(Backend::Cuda)
            .summary(format!("`{image}` {}: {}", problem.what, problem.why))
            .fix(say::replace(sheet, line, written, &problem.instead)),
    )
}
