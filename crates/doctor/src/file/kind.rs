//! Which kind of file a text is: told by its name and, failing that, by its content.

use super::devcontainer::without_comments;
use super::dockerfile::parse::is_keyword;

/// Kinds of files that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// Dockerfile, Containerfile.
    Dockerfile,
    /// A compose file.
    Compose,
    /// A workflow of GitHub Actions, or an action made of steps.
    Workflow,
    /// Objects for Kubernetes.
    Kubernetes,
    /// devcontainer.json.
    Devcontainer,
}

impl InputKind {
    /// For messages.
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

/// The kind that a path names.
#[must_use]
pub fn by_name(path: &str) -> Option<InputKind> {
    let path = path.replace('\\', "/").to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    let is_yaml = has_end(name, &["yml", "yaml"]);
    let stem = name.split('.').next().unwrap_or(name);
    if is_yaml {
        if path.contains(".github/workflows/") || matches!(name, "action.yml" | "action.yaml") {
            return Some(InputKind::Workflow);
        }
        let is_compose = stem.split(['-', '_']).any(|part| part == "compose");
        return is_compose.then_some(InputKind::Compose);
    }
    if has_end(name, &["json", "jsonc"]) {
        let is_devcontainer =
            name.trim_start_matches('.').starts_with("devcontainer.") || path.contains(".devcontainer/");
        return is_devcontainer.then_some(InputKind::Devcontainer);
    }
    let is_docker = |part: &str| matches!(part, "dockerfile" | "containerfile");
    let names_it = is_docker(stem)
        || name.rsplit('.').next().is_some_and(is_docker)
        || stem.split(['-', '_']).any(is_docker);
    (names_it && !has_end(name, &["md", "txt", "rs", "py", "sh", "toml", "dockerignore"]))
        .then_some(InputKind::Dockerfile)
}

fn has_end(name: &str, ends: &[&str]) -> bool {
    name.rsplit_once('.').is_some_and(|(_, end)| ends.contains(&end))
}

/// The kind that a content shows.
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
    fn names_tell() {
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
    fn contents_tell() {
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
