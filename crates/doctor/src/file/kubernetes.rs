//! Kubernetes manifests: which containers need a GPU, and whether the scheduler is asked for one.

use std::rc::Rc;

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;

use super::container;
use super::image::ImageName;
use super::say;
use super::text::{Sheet, shown};
use super::yaml::{YamlNode, YamlPair};

/// Every finding in the documents of a manifest.
#[must_use]
pub fn check(sheet: &Sheet, documents: &[Rc<YamlNode>]) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    for document in documents {
        let items = document.get("items").map(YamlNode::items).unwrap_or_default();
        let objects = std::iter::once(document).chain(items);
        for pod in objects.filter_map(|object| pod(object)) {
            for list in ["initContainers", "containers"] {
                for node in pod.get(list).map(YamlNode::items).unwrap_or_default() {
                    container(sheet, pod, node, &mut drafts);
                }
            }
        }
    }
    drafts
}

/// The specification of the pods that an object makes.
fn pod(object: &YamlNode) -> Option<&YamlNode> {
    let paths: [&[&str]; 3] =
        [&["spec"], &["spec", "template", "spec"], &["spec", "jobTemplate", "spec", "template", "spec"]];
    paths.into_iter().filter_map(|path| object.at(path)).find(|spec| spec.get("containers").is_some())
}

/// Whether a resource is a GPU.
fn is_gpu(key: &str) -> bool {
    key.contains("gpu") || key.starts_with("nvidia.com/mig-")
}

fn gpus(node: Option<&YamlNode>) -> Vec<&YamlPair> {
    node.map(YamlNode::pairs).unwrap_or_default().iter().filter(|pair| is_gpu(&pair.key)).collect()
}

fn container(sheet: &Sheet, pod: &YamlNode, node: &YamlNode, drafts: &mut Vec<FindingDraft>) {
    let variables = node.get("env").map(container::variables).unwrap_or_default();
    let image_node = node.get("image");
    let written = image_node.and_then(YamlNode::text).unwrap_or_default();
    let image = ImageName::parse(written);
    let line = image_node.map_or(node.line, |node| node.line);
    if let Some(image) = &image {
        drafts.extend(container::image(sheet, written, image, line));
    }
    let name = shown(node.text_of("name").unwrap_or("?"));
    resources(sheet, node, &name, drafts);
    let gpu = image.as_ref().and_then(ImageName::gpu);
    let vulkan = container::uses_vulkan(&variables).map(|variable| variable.line);
    let limits = gpus(node.at(&["resources", "limits"]));
    container::environment(sheet, &variables, gpu.is_some() || !limits.is_empty(), vulkan, drafts);
    let Some(gpu) = gpu else { return };
    let requests = gpus(node.at(&["resources", "requests"]));
    let has_claims = node.at(&["resources", "claims"]).is_some() || pod.get("resourceClaims").is_some();
    let has_runtime = pod
        .text_of("runtimeClassName")
        .is_some_and(|class| class.contains("nvidia") || class.contains("amd"));
    let is_privileged = node.at(&["securityContext", "privileged"]).and_then(YamlNode::text) == Some("true");
    let may_be_given =
        has_claims || has_runtime || is_privileged || !limits.is_empty() || !requests.is_empty();
    if may_be_given {
        return;
    }
    let resource = match gpu.backend {
        Backend::Rocm => "amd.com/gpu",
        Backend::Sycl => "gpu.intel.com/i915",
        _ => "nvidia.com/gpu",
    };
    let shown_image = image.map(|image| image.to_string()).unwrap_or_default();
    let fix = match node.at(&["resources", "limits"]) {
        Some(limits) => format!("add `{resource}: 1` to the limits of line {}", limits.line),
        None => format!(
            "add `resources: {{limits: {{{resource}: 1}}}}` to container `{name}` of line {}",
            node.line
        ),
    };
    drafts.push(
        sheet
            .draft(id!("ctr.no-gpus-flag"), Severity::Error, line)
            .backend(gpu.backend)
            .affects(Affects::Run)
            .summary(format!(
                "container `{name}` asks the scheduler for no GPU: its image `{shown_image}` is one for {}",
                say::backend(gpu.backend)
            ))
            .fix(fix),
    );
}

/// Requests that the API server refuses.
fn resources(sheet: &Sheet, node: &YamlNode, name: &str, drafts: &mut Vec<FindingDraft>) {
    let limits = gpus(node.at(&["resources", "limits"]));
    let requests = gpus(node.at(&["resources", "requests"]));
    let refused = |line: usize, why: String, fix: String| {
        let draft = sheet.draft(id!("file.gpu-limit"), Severity::Error, line).affects(Affects::Run);
        draft.summary(format!("Kubernetes refuses container `{name}`: {why}")).fix(fix)
    };
    for pair in limits.iter().chain(&requests) {
        let value = pair.node.text().unwrap_or_default();
        // A shared memory in bytes or percents is a plugin's own unit.
        let is_count = pair.key.ends_with("/gpu") || pair.key.starts_with("nvidia.com/mig-");
        let is_whole = value.parse::<u64>().is_ok() || value.contains(['{', '$']);
        if is_count && !is_whole {
            drafts.push(refused(
                pair.line,
                format!("`{}` is counted in whole cards, not `{}`", shown(&pair.key), shown(value)),
                say::replace(sheet, pair.line, value, "1"),
            ));
        }
    }
    for pair in &requests {
        let key = shown(&pair.key);
        let value = pair.node.text().unwrap_or_default();
        match limits.iter().find(|limit| limit.key == pair.key) {
            None => drafts.push(refused(
                pair.line,
                format!("`{key}` stands in the requests and not in the limits"),
                format!("add `{key}: {}` to `resources.limits`; the request may go", shown(value)),
            )),
            Some(limit) if limit.node.text() != Some(value) => drafts.push(refused(
                pair.line,
                format!("request and limit of `{key}` differ"),
                say::replace(sheet, pair.line, value, limit.node.text().unwrap_or("1")),
            )),
            Some(_) => {}
        }
    }
}
