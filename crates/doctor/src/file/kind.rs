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
    /// A GitLab CI file.
    Gitlab,
    /// A shell script.
    Shell,
    /// CMakeLists.txt or a CMake module.
    Cmake,
    /// A build script of another language, of which only the text is checked.
    BuildScript,
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
            Self::Gitlab => "GitLab CI file",
            Self::Shell => "shell script",
            Self::Cmake => "CMake file",
            Self::BuildScript => "build script",
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
        let is_gitlab = name.trim_end_matches(".yaml").trim_end_matches(".yml").ends_with("gitlab-ci");
        if is_gitlab || path.contains(".gitlab/") || path.contains(".gitlab-ci/") {
            return Some(InputKind::Gitlab);
        }
        let is_compose = name.split(['.', '-', '_']).any(|part| part == "compose");
        return is_compose.then_some(InputKind::Compose);
    }
    if has_extension(name, &["json", "jsonc"]) {
        let is_devcontainer =
            name.trim_start_matches('.').starts_with("devcontainer.") || path.contains(".devcontainer/");
        return is_devcontainer.then_some(InputKind::Devcontainer);
    }
    if matches!(name, "build.rs" | "setup.py" | "conanfile.py" | "makefile" | "gnumakefile")
        || has_extension(name, &["mk", "ps1", "bat", "cmd"])
    {
        return Some(InputKind::BuildScript);
    }
    if name == "cmakelists.txt" || has_extension(name, &["cmake"]) {
        return Some(InputKind::Cmake);
    }
    if has_extension(name, &["sh", "bash", "zsh", "ksh"]) {
        return Some(InputKind::Shell);
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
    if let Some(interpreter) = text.lines().next().and_then(|line| line.strip_prefix("#!")) {
        let is_shell = |part: &str| matches!(part, "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh");
        return interpreter.split(['/', ' ']).any(|part| is_shell(part.trim())).then_some(InputKind::Shell);
    }
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
    } else if has_script(text) && (has("stages") || has("image") || has("default") || has("before_script")) {
        Some(InputKind::Gitlab)
    } else if has("services") {
        Some(InputKind::Compose)
    } else if has("runs") && text.contains("composite") {
        Some(InputKind::Workflow)
    } else {
        None
    }
}

/// Whether a job with a `script` is among the top-level keys.
fn has_script(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(' ') && line.trim_start().starts_with("script:"))
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
            ("gpu.compose.yaml", Some(InputKind::Compose)),
            (".github/workflows/ci.yml", Some(InputKind::Workflow)),
            ("action.yml", Some(InputKind::Workflow)),
            (".devcontainer/devcontainer.json", Some(InputKind::Devcontainer)),
            (".devcontainer.json", Some(InputKind::Devcontainer)),
            (".gitlab-ci.yml", Some(InputKind::Gitlab)),
            (".gitlab/jobs/gpu.yml", Some(InputKind::Gitlab)),
            ("scripts/install.sh", Some(InputKind::Shell)),
            ("src/CMakeLists.txt", Some(InputKind::Cmake)),
            ("cmake/cuda.cmake", Some(InputKind::Cmake)),
            ("build.rs", Some(InputKind::BuildScript)),
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
            ("#!/usr/bin/env bash\nls\n", Some(InputKind::Shell)),
            ("#!/bin/sh -e\nls\n", Some(InputKind::Shell)),
            ("#!/usr/bin/python3\n", None),
            ("stages: [a]\nb:\n  script: [make]\n", Some(InputKind::Gitlab)),
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
