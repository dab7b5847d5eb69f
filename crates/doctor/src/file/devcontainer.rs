//! Checks `devcontainer.json`, which is JSON with comments.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;

use super::container;
use super::fix;
use super::image::ImageName;
use super::text::{SourceText, sanitize};
use super::yaml::YamlNode;

/// Replaces comments and tabs with spaces, so that the YAML parser accepts the text. Line numbers do not change.
#[must_use]
pub fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_text = false;
    while let Some(c) = chars.next() {
        match (in_text, c, chars.peek()) {
            (true, '\\', Some(_)) => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            (_, '"', _) => in_text = !in_text,
            (false, '/', Some('/')) => {
                while chars.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            (false, '/', Some('*')) => {
                let mut last = ' ';
                for c in chars.by_ref() {
                    if c == '\n' {
                        out.push('\n');
                    }
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
                out.push(' ');
                continue;
            }
            (false, '\t', _) => {
                out.push(' ');
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// All findings in a devcontainer.json.
#[must_use]
pub fn check(
    source: &SourceText,
    node: &YamlNode,
    folder: &str,
    dockerfiles: &BTreeMap<String, Backend>,
) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    let arguments: Vec<(&str, usize)> = node
        .get("runArgs")
        .map(YamlNode::items)
        .unwrap_or_default()
        .iter()
        .filter_map(|item| Some((item.text()?, item.line)))
        .collect();
    check_arguments(source, &arguments, &mut drafts);
    let image = node.get("image").and_then(|node| Some((node.text()?, node.line)));
    let parsed = image.and_then(|(text, _)| ImageName::parse(text));
    if let (Some((written, line)), Some(image)) = (image, &parsed) {
        drafts.extend(container::image(source, written, image, line));
    }
    for key in ["containerEnv", "remoteEnv"] {
        if let Some(variables) = node.get(key).map(container::variables) {
            let is_gpu = parsed.as_ref().and_then(ImageName::gpu).is_some();
            container::environment(source, &variables, is_gpu, None, &mut drafts);
        }
    }
    let need = parsed
        .as_ref()
        .and_then(ImageName::gpu)
        .map(|gpu| (gpu.backend, image.map_or(node.line, |(_, line)| line)));
    let need = need.or_else(|| feature(node)).or_else(|| built(node, folder, dockerfiles));
    // With a compose file, GPU access is configured in its service.
    if let Some((backend, line)) = need.filter(|_| node.get("dockerComposeFile").is_none()) {
        check_access(source, node, &arguments, backend, line, &mut drafts);
    }
    drafts
}

/// Reports `"--gpus all"`: Docker reads an option and its value in one string as an unknown option.
fn check_arguments(source: &SourceText, arguments: &[(&str, usize)], drafts: &mut Vec<FindingDraft>) {
    let options = ["--gpus", "--device", "--runtime", "--group-add"];
    for (text, line) in arguments {
        let Some((option, value)) = text.split_once(' ').filter(|(option, _)| options.contains(option))
        else {
            continue;
        };
        let new = format!("{option}={}", value.trim());
        drafts.push(
            source
                .draft(id!("file.run-args"), Severity::Error, *line)
                .affects(Affects::Run)
                .summary(format!(
                    "Docker reads `{}` as one option name: each argument must be a separate entry",
                    sanitize(text)
                ))
                .fix(fix::replace(source, *line, text, &new)),
        );
    }
}

/// The dev container feature that installs CUDA, and its line.
fn feature(node: &YamlNode) -> Option<(Backend, usize)> {
    let pairs = node.get("features").map(YamlNode::pairs).unwrap_or_default();
    let found = pairs.iter().find(|pair| pair.key.contains("/nvidia-cuda"))?;
    Some((Backend::Cuda, found.line))
}

/// The backend of the Dockerfile that the container is built from, and the line that names it.
fn built(node: &YamlNode, folder: &str, dockerfiles: &BTreeMap<String, Backend>) -> Option<(Backend, usize)> {
    let file = node.at(&["build", "dockerfile"]).or_else(|| node.get("dockerFile"))?;
    let path = super::join(folder, file.text()?);
    dockerfiles.get(&path).map(|backend| (*backend, file.line))
}

/// Reports a container for a GPU that does not get access to one.
fn check_access(
    source: &SourceText,
    node: &YamlNode,
    arguments: &[(&str, usize)],
    backend: Backend,
    line: usize,
    drafts: &mut Vec<FindingDraft>,
) {
    let has = |start: &str| arguments.iter().any(|(text, _)| text.starts_with(start));
    let contains = |part: &str| arguments.iter().any(|(text, _)| text.contains(part));
    let asks = node.at(&["hostRequirements", "gpu"]).is_some_and(|gpu| gpu.text() != Some("false"));
    let is_privileged = node.is_true("privileged") || has("--privileged");
    let (has_access, arguments) = match backend {
        Backend::Rocm => (
            contains("/dev/kfd") && contains("/dev/dri") || is_privileged,
            "\"--device=/dev/kfd\", \"--device=/dev/dri\", \"--group-add=video\"",
        ),
        Backend::Sycl | Backend::Opencl | Backend::Vulkan => {
            (contains("/dev/dri") || has("--gpus") || asks || is_privileged, "\"--device=/dev/dri\"")
        }
        _ => (has("--gpus") || contains("nvidia") || asks, "\"--gpus=all\""),
    };
    if has_access {
        return;
    }
    let (id, why) = match backend {
        Backend::Rocm if contains("/dev/dri") => (id!("ctr.amd-devices"), "it has no access to /dev/kfd"),
        Backend::Rocm => (id!("ctr.amd-devices"), "it has access to neither /dev/kfd nor /dev/dri"),
        _ => (id!("ctr.no-gpus-flag"), "it does not request a GPU"),
    };
    let fix = match node.pair("runArgs") {
        Some(pair) => format!("add {arguments} to the list in line {}", pair.line),
        None => format!("add the line `\"runArgs\": [{arguments}],`"),
    };
    drafts.push(
        source
            .draft(id, Severity::Error, line)
            .backend(backend)
            .affects(Affects::Run)
            .summary(format!("the container is built for {}, but {why}", container::backend_name(backend)))
            .fix(fix),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::yaml::parse;

    #[test]
    fn removing_comments_preserves_line_numbers() {
        let text = "{ // one\n\t\"a\": \"b // no \\\" /* no */\", /* two\n three */ \"c\": [1,],\n}";
        let clean = without_comments(text);
        assert_eq!(clean.lines().count(), text.lines().count());
        let node = parse(&clean).unwrap().remove(0);
        assert_eq!(node.text_of("a"), Some("b // no \" /* no */"));
        assert_eq!(node.get("c").map(|node| node.line), Some(3));
    }
}
