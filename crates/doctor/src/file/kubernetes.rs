//! Checks Kubernetes manifests: which containers need a GPU, and whether they request one.

use std::rc::Rc;

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;

use super::container;
use super::fix;
use super::image::ImageName;
use super::text::{SourceText, sanitize};
use super::yaml::{YamlNode, YamlPair};

/// All findings in the documents of a manifest.
#[must_use]
pub fn check(source: &SourceText, documents: &[Rc<YamlNode>]) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    for document in documents {
        let items = document.get("items").map(YamlNode::items).unwrap_or_default();
        let objects = std::iter::once(document).chain(items);
        for pod in objects.filter_map(|object| pod(object)) {
            for list in ["initContainers", "containers"] {
                for node in pod.get(list).map(YamlNode::items).unwrap_or_default() {
                    container(source, pod, node, &mut drafts);
                }
            }
        }
    }
    drafts
}

/// The pod specification of an object: of a pod, of a template, or of a cron job's template.
fn pod(object: &YamlNode) -> Option<&YamlNode> {
    let paths: [&[&str]; 3] =
        [&["spec"], &["spec", "template", "spec"], &["spec", "jobTemplate", "spec", "template", "spec"]];
    paths.into_iter().filter_map(|path| object.at(path)).find(|spec| spec.get("containers").is_some())
}

/// Whether a resource name stands for GPUs.
fn is_gpu(key: &str) -> bool {
    key.contains("gpu") || key.starts_with("nvidia.com/mig-")
}

fn gpus(node: Option<&YamlNode>) -> Vec<&YamlPair> {
    node.map(YamlNode::pairs).unwrap_or_default().iter().filter(|pair| is_gpu(&pair.key)).collect()
}

fn container(source: &SourceText, pod: &YamlNode, node: &YamlNode, drafts: &mut Vec<FindingDraft>) {
    let variables = node.get("env").map(container::variables).unwrap_or_default();
    let image_node = node.get("image");
    let written = image_node.and_then(YamlNode::text).unwrap_or_default();
    let image = ImageName::parse(written);
    let line = image_node.map_or(node.line, |node| node.line);
    if let Some(image) = &image {
        drafts.extend(container::image(source, written, image, line));
    }
    let name = sanitize(node.text_of("name").unwrap_or("?"));
    resources(source, node, &name, drafts);
    let gpu = image.as_ref().and_then(ImageName::gpu);
    let backend = gpu.as_ref().map(|gpu| gpu.backend);
    let vulkan = container::uses_vulkan(&variables)
        .map(|variable| container::VulkanUse { line: variable.line, backend });
    let limits = gpus(node.at(&["resources", "limits"]));
    container::environment(source, &variables, gpu.is_some() || !limits.is_empty(), vulkan, drafts);
    let Some(gpu) = gpu else { return };
    let requests = gpus(node.at(&["resources", "requests"]));
    let has_claims = node.at(&["resources", "claims"]).is_some() || pod.get("resourceClaims").is_some();
    let has_runtime = pod
        .text_of("runtimeClassName")
        .is_some_and(|class| class.contains("nvidia") || class.contains("amd"));
    let is_privileged = node.at(&["securityContext", "privileged"]).and_then(YamlNode::text) == Some("true");
    let may_have_gpu =
        has_claims || has_runtime || is_privileged || !limits.is_empty() || !requests.is_empty();
    if may_have_gpu {
        return;
    }
    let resource = match gpu.backend {
        Backend::Rocm => "amd.com/gpu",
        Backend::Sycl => "gpu.intel.com/i915",
        _ => "nvidia.com/gpu",
    };
    let image_name = image.map(|image| image.to_string()).unwrap_or_default();
    let fix = match node.at(&["resources", "limits"]) {
        Some(limits) => format!("add `{resource}: 1` to the limits in line {}", limits.line),
        None => format!(
            "add `resources: {{limits: {{{resource}: 1}}}}` to container `{name}` in line {}",
            node.line
        ),
    };
    // Overlays of kustomize often add the resources to the manifests in `base`.
    let severity = if source.is_in_folder("base") { Severity::Info } else { Severity::Error };
    drafts.push(
        source
            .draft(id!("ctr.no-gpus-flag"), severity, line)
            .backend(gpu.backend)
            .affects(Affects::Run)
            .summary(format!(
                "container `{name}` does not request a GPU, but its image `{image_name}` is built for {}",
                container::backend_name(gpu.backend)
            ))
            .fix(fix),
    );
}

/// Reports resource requests that the API server rejects.
fn resources(source: &SourceText, node: &YamlNode, name: &str, drafts: &mut Vec<FindingDraft>) {
    let limits = gpus(node.at(&["resources", "limits"]));
    let requests = gpus(node.at(&["resources", "requests"]));
    let rejected = |line: usize, why: String, fix: String| {
        let draft = source.draft(id!("file.gpu-limit"), Severity::Error, line).affects(Affects::Run);
        draft.summary(format!("Kubernetes rejects container `{name}`: {why}")).fix(fix)
    };
    for pair in limits.iter().chain(&requests) {
        let value = pair.node.text().unwrap_or_default();
        // Some plugins define resources with other units, such as GPU memory in bytes or percent.
        let is_count = pair.key.ends_with("/gpu") || pair.key.starts_with("nvidia.com/mig-");
        let is_whole = value.parse::<u64>().is_ok() || value.contains(['{', '$']);
        if is_count && !is_whole {
            drafts.push(rejected(
                pair.line,
                format!(
                    "`{}` must be a whole number of GPUs, not `{}`",
                    sanitize(&pair.key),
                    sanitize(value)
                ),
                fix::replace(source, pair.line, value, "1"),
            ));
        }
    }
    for pair in &requests {
        let key = sanitize(&pair.key);
        let value = pair.node.text().unwrap_or_default();
        match limits.iter().find(|limit| limit.key == pair.key) {
            None => drafts.push(rejected(
                pair.line,
                format!("`{key}` is in `requests` but not in `limits`"),
                format!(
                    "add `{key}: {}` to `resources.limits`; the request is then optional",
                    sanitize(value)
                ),
            )),
            Some(limit) if limit.node.text() != Some(value) => drafts.push(rejected(
                pair.line,
                format!("the request and the limit of `{key}` differ"),
                fix::replace(source, pair.line, value, limit.node.text().unwrap_or("1")),
            )),
            Some(_) => {}
        }
    }
}
