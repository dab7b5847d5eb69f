//! Development containers: `devcontainer.json`, which is JSON with comments.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;

use super::container;
use super::image::ImageName;
use super::say;
use super::text::{Sheet, shown};
use super::yaml::YamlNode;

/// The text without its comments and tabs, each character in its place.
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

/// Every finding in a configuration.
#[must_use]
pub fn check(
    sheet: &Sheet,
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
    glued(sheet, &arguments, &mut drafts);
    let image = node.get("image").and_then(|node| Some((node.text()?, node.line)));
    let parsed = image.and_then(|(text, _)| ImageName::parse(text));
    if let (Some((written, line)), Some(image)) = (image, &parsed) {
        drafts.extend(container::image(sheet, written, image, line));
    }
    for key in ["containerEnv", "remoteEnv"] {
        if let Some(variables) = node.get(key).map(container::variables) {
            let is_gpu = parsed.as_ref().and_then(ImageName::gpu).is_some();
            container::environment(sheet, &variables, is_gpu, None, &mut drafts);
        }
    }
    let need = parsed
        .as_ref()
        .and_then(ImageName::gpu)
        .map(|gpu| (gpu.backend, image.map_or(node.line, |(_, line)| line)));
    let need = need.or_else(|| feature(node)).or_else(|| built(node, folder, dockerfiles));
    // The service of a compose file has its own way to a GPU.
    if let Some((backend, line)) = need.filter(|_| node.get("dockerComposeFile").is_none()) {
        lacks(sheet, node, &arguments, backend, line, &mut drafts);
    }
    drafts
}

/// `--gpus all` in one text is one word that Docker does not know.
fn glued(sheet: &Sheet, arguments: &[(&str, usize)], drafts: &mut Vec<FindingDraft>) {
    let options = ["--gpus", "--device", "--runtime", "--group-add"];
    for (text, line) in arguments {
        let Some((option, value)) = text.split_once(' ').filter(|(option, _)| options.contains(option))
        else {
            continue;
        };
        let new = format!("{option}={}", value.trim());
        drafts.push(
            sheet
                .draft(id!("file.run-args"), Severity::Error, *line)
                .affects(Affects::Run)
                .summary(format!(
                    "Docker takes `{}` for the name of an option: every word is an entry of its own",
                    shown(text)
                ))
                .fix(say::replace(sheet, *line, text, &new)),
        );
    }
}

/// The feature that installs CUDA.
fn feature(node: &YamlNode) -> Option<(Backend, usize)> {
    let pairs = node.get("features").map(YamlNode::pairs).unwrap_or_default();
    let found = pairs.iter().find(|pair| pair.key.contains("/nvidia-cuda"))?;
    Some((Backend::Cuda, found.line))
}

fn built(node: &YamlNode, folder: &str, dockerfiles: &BTreeMap<String, Backend>) -> Option<(Backend, usize)> {
    let file = node.at(&["build", "dockerfile"]).or_else(|| node.get("dockerFile"))?;
    let path = super::join(folder, file.text()?);
    dockerfiles.get(&path).map(|backend| (*backend, file.line))
}

fn lacks(
    sheet: &Sheet,
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
    let (is_given, arguments) = match backend {
        Backend::Rocm => (
            contains("/dev/kfd") && contains("/dev/dri") || is_privileged,
            "\"--device=/dev/kfd\", \"--device=/dev/dri\", \"--group-add=video\"",
        ),
        Backend::Sycl | Backend::Opencl | Backend::Vulkan => {
            (contains("/dev/dri") || has("--gpus") || asks || is_privileged, "\"--device=/dev/dri\"")
        }
        _ => (has("--gpus") || contains("nvidia") || asks, "\"--gpus=all\""),
    };
    if is_given {
        return;
    }
    let (id, why) = match backend {
        Backend::Rocm if contains("/dev/dri") => (id!("ctr.amd-devices"), "it does not get /dev/kfd"),
        Backend::Rocm => (id!("ctr.amd-devices"), "it gets neither /dev/kfd nor /dev/dri"),
        _ => (id!("ctr.no-gpus-flag"), "nothing gives it a GPU"),
    };
    let fix = match node.pair("runArgs") {
        Some(pair) => format!("add {arguments} to the list of line {}", pair.line),
        None => format!("add the line `\"runArgs\": [{arguments}],`"),
    };
    drafts.push(
        sheet
            .draft(id, Severity::Error, line)
            .backend(backend)
            .affects(Affects::Run)
            .summary(format!("the container is one for {}, and {why}", say::backend(backend)))
            .fix(fix),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::yaml::parse;

    #[test]
    fn comments_go_and_lines_stay() {
        let text = "{ // one\n\t\"a\": \"b // no \\\" /* no */\", /* two\n three */ \"c\": [1,],\n}";
        let clean = without_comments(text);
        assert_eq!(clean.lines().count(), text.lines().count());
        let node = parse(&clean).unwrap().remove(0);
        assert_eq!(node.text_of("a"), Some("b // no \" /* no */"));
        assert_eq!(node.get("c").map(|node| node.line), Some(3));
    }
}
