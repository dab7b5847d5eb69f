//! Which kind of file a text is: told by its name and, failing that, by its content.

use super::devcontainer::without_comments;
use super::dockerfile::parse::is_keyword;

/// Kinds of files that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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

impl Kind {
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
pub fn by_name(path: &str) -> Option<Kind> {
    let path = path.replace('\\', "/").to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    let is_yaml = has_end(name, &["yml", "yaml"]);
    let stem = name.split('.').next().unwrap_or(name);
    if is_yaml {
        if path.contains(".github/workflows/") || matches!(name, "action.yml" | "action.yaml") {
            return Some(Kind::Workflow);
        }
        let is_compose = stem.split(['-', '_']).any(|part| part == "compose");
        return is_compose.then_some(Kind::Compose);
    }
    if has_end(name, &["json", "jsonc"]) {
        let is_devcontainer =
            name.trim_start_matches('.').starts_with("devcontainer.") || path.contains(".devcontainer/");
        return is_devcontainer.then_some(Kind::Devcontainer);
    }
    let is_docker = |part: &str| matches!(part, "dockerfile" | "containerfile");
    let names_it = is_docker(stem)
        || name.rsplit('.').next().is_some_and(is_docker)
        || stem.split(['-', '_']).any(is_docker);
    (names_it && !has_end(name, &["md", "txt", "rs", "py", "sh", "toml", "dockerignore"]))
        .then_some(Kind::Dockerfile)
}

fn has_end(name: &str, ends: &[&str]) -> bool {
    name.rsplit_once('.').is_some_and(|(_, end)| ends.contains(&end))
}

/// The kind that a content shows.
#[must_use]
pub fn by_content(text: &str) -> Option<Kind> {
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
            return Some(Kind::Devcontainer);
        }
        let is_object = clean.contains("\"apiVersion\"") && clean.contains("\"kind\"");
        return is_object.then_some(Kind::Kubernetes);
    }
    let word = first.split_whitespace().next().unwrap_or_default();
    if is_keyword(word) && !first.contains(": ") {
        let has_stage = text
            .lines()
            .any(|line| line.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("from ")));
        return has_stage.then_some(Kind::Dockerfile);
    }
    let has =
        |key: &str| text.lines().any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')));
    if has("apiVersion") && has("kind") {
        Some(Kind::Kubernetes)
    } else if has("jobs") && (has("on") || has("\"on\"") || has("'on'") || has("true")) {
        Some(Kind::Workflow)
    } else if has("services") {
        Some(Kind::Compose)
    } else if has("runs") && text.contains("composite") {
        Some(Kind::Workflow)
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
            ("Dockerfile", Some(Kind::Dockerfile)),
            ("docker/Dockerfile.cuda", Some(Kind::Dockerfile)),
            ("cuda.Dockerfile", Some(Kind::Dockerfile)),
            (".devops\\cuda.dockerfile", Some(Kind::Dockerfile)),
            ("Containerfile", Some(Kind::Dockerfile)),
            ("Dockerfile-gpu", Some(Kind::Dockerfile)),
            ("Dockerfile.md", None),
            ("compose.yaml", Some(Kind::Compose)),
            ("docker-compose.gpu.yml", Some(Kind::Compose)),
            ("compose.override.yml", Some(Kind::Compose)),
            (".github/workflows/ci.yml", Some(Kind::Workflow)),
            ("action.yml", Some(Kind::Workflow)),
            (".devcontainer/devcontainer.json", Some(Kind::Devcontainer)),
            (".devcontainer.json", Some(Kind::Devcontainer)),
            ("package.json", None),
            ("deployment.yaml", None),
        ] {
            assert_eq!(by_name(path), expected, "{path}");
        }
    }

    #[test]
    fn contents_tell() {
        for (text, expected) in [
            ("# x\n\nFROM a\n", Some(Kind::Dockerfile)),
            ("ARG A\nfrom a\n", Some(Kind::Dockerfile)),
            ("services:\n  a:\n", Some(Kind::Compose)),
            ("name: x\non: push\njobs:\n", Some(Kind::Workflow)),
            ("apiVersion: v1\nkind: Pod\n", Some(Kind::Kubernetes)),
            ("// x\n{\n \"runArgs\": []\n}", Some(Kind::Devcontainer)),
            ("{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}", Some(Kind::Kubernetes)),
            ("{}", None),
            ("hello: world\n", None),
            ("From: me\nTo: you\n", None),
            ("", None),
        ] {
            assert_eq!(by_content(text), expected, "{text}");
        }
    }
}
