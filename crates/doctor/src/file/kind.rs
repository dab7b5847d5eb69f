//! Determines the kind of a file from its name, or else from its content.

use super::devcontainer::without_comments;
use super::dockerfile::parse::is_keyword;

/// The supported kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// A Dockerfile or Containerfile.
    Dockerfile,
    /// A compose file.
    Compose,
    /// A GitHub Actions workflow, or a composite action.
    Workflow,
    /// Kubernetes objects.
    Kubernetes,
    /// devcontainer.json.
    Devcontainer,
}

impl InputKind {
    /// The name of the kind in messages.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Dockerfile => "Dockerfile",
            Self::Compose => "compose file",
            Self::Workflow => "workflow",
            Self::Kubernetes => "Kubernetes manifest",
            Self::Devcontainer => "devcontainer.json",
        }
    }
}

/// The kind of a file according to its path.
#[must_use]
pub fn by_name(path: &str) -> Option<InputKind> {
    let path = path.replace('\\', "/").to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    let is_yaml = has_extension(name, &["yml", "yaml"]);
    let stem = name.split('.').next().unwrap_or(name);
    if is_yaml {
        if path.contains(".github/workflows/") || matches!(name, "action.yml" | "action.yaml") {
            return Some(InputKind::Workflow);
        }
        let is_compose = stem.split(['-', '_']).any(|part| part == "compose");
        return is_compose.then_some(InputKind::Compose);
    }
    if has_extension(name, &["json", "jsonc"]) {
        let is_devcontainer =
            name.trim_start_matches('.').starts_with("devcontainer.") || path.contains(".devcontainer/");
        return is_devcontainer.then_some(InputKind::Devcontainer);
    }
    let is_docker = |part: &str| matches!(part, "dockerfile" | "containerfile");
    let is_named_so = is_docker(stem)
        || name.rsplit('.').next().is_some_and(is_docker)
        || stem.split(['-', '_']).any(is_docker);
    (is_named_so && !has_extension(name, &["md", "txt", "rs", "py", "sh", "toml", "dockerignore"]))
        .then_some(InputKind::Dockerfile)
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    name.rsplit_once('.').is_some_and(|(_, end)| extensions.contains(&end))
}

/// The kind of a file according to its content.
#[must_use]
pub fn by_content(text: &str) -> Option<InputKind> {
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("//"));
    let first = first.unwrap_or_default();
    if first.starts_with('{') {
        let clean = without_comments(text);
        let keys = [
            "\"runArgs\"",
            "\"hostRequirements\"",
            "\"dockerFile\"",
            "\"dockerComposeFile\"",
            "\"remoteUser\"",
            "\"containerEnv\"",
            "\"customizations\"",
        ];
        if keys.iter().any(|key| clean.contains(key)) {
            return Some(InputKind::Devcontainer);
        }
        let is_object = clean.contains("\"apiVersion\"") && clean.contains("\"kind\"");
        return is_object.then_some(InputKind::Kubernetes);
    }
    let word = first.split_whitespace().next().unwrap_or_default();
    if is_keyword(word) && !first.contains(": ") {
        let has_stage = text
            .lines()
            .any(|line| line.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("from ")));
        return has_stage.then_some(InputKind::Dockerfile);
    }
    let has =
        |key: &str| text.lines().any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')));
    if has("apiVersion") && has("kind") {
        Some(InputKind::Kubernetes)
    } else if has("jobs") && (has("on") || has("\"on\"") || has("'on'") || has("true")) {
        Some(InputKind::Workflow)
    } else if has("services") {
        Some(InputKind::Compose)
    } else if has("runs") && text.contains("composite") {
        Some(InputKind::Workflow)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_derived_from_the_name() {
        for (path, expected) in [
            ("Dockerfile", Some(InputKind::Dockerfile)),
            ("docker/Dockerfile.cuda", Some(InputKind::Dockerfile)),
            ("cuda.Dockerfile", Some(InputKind::Dockerfile)),
            (".devops\\cuda.dockerfile", Some(InputKind::Dockerfile)),
            ("Containerfile", Some(InputKind::Dockerfile)),
            ("Dockerfile-gpu", Some(InputKind::Dockerfile)),
            ("Dockerfile.md", None),
            ("compose.yaml", Some(InputKind::Compose)),
            ("docker-compose.gpu.yml", Some(InputKind::Compose)),
            ("compose.override.yml", Some(InputKind::Compose)),
            (".github/workflows/ci.yml", Some(InputKind::Workflow)),
            ("action.yml", Some(InputKind::Workflow)),
            (".devcontainer/devcontainer.json", Some(InputKind::Devcontainer)),
            (".devcontainer.json", Some(InputKind::Devcontainer)),
            ("package.json", None),
            ("deployment.yaml", None),
        ] {
            assert_eq!(by_name(path), expected, "{path}");
        }
    }

    #[test]
    fn kind_is_derived_from_the_content() {
        for (text, expected) in [
            ("# x\n\nFROM a\n", Some(InputKind::Dockerfile)),
            ("ARG A\nfrom a\n", Some(InputKind::Dockerfile)),
            ("services:\n  a:\n", Some(InputKind::Compose)),
            ("name: x\non: push\njobs:\n", Some(InputKind::Workflow)),
            ("apiVersion: v1\nkind: Pod\n", Some(InputKind::Kubernetes)),
            ("// x\n{\n \"runArgs\": []\n}", Some(InputKind::Devcontainer)),
            ("{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}", Some(InputKind::Kubernetes)),
            ("{}", None),
            ("hello: world\n", None),
            ("From: me\nTo: you\n", None),
            ("", None),
        ] {
            assert_eq!(by_content(text), expected, "{text}");
        }
    }
}
