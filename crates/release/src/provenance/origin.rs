//! Where and from which commit something is built: what the CI service and git say.

use std::time::Duration;

use gpubuild_host::{CommandOutput, Environment, HostPath, InspectHost};
use serde::Serialize;

/// The time limit of one git command.
const DEADLINE: Duration = Duration::from_secs(60);
/// The builder outside of CI.
const LOCAL: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "#local");

/// Where and from which commit a variant was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BuildOrigin {
    /// A URI that identifies the builder: the workflow at GitHub, the runner at GitLab.
    pub builder: String,
    /// The URL of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invocation: Option<String>,
    /// The commit, if the project is in a git repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitOrigin>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommitOrigin {
    /// Its hash.
    pub hash: String,
    /// The URL of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Whether tracked files differed from the commit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub modified: bool,
}

impl BuildOrigin {
    /// The origin of a build on this machine. `file` is a file of the project in `folder`: a repository that does not track it is not the
    /// project's.
    #[must_use]
    pub fn of(host: &dyn InspectHost, folder: &HostPath, file: &str) -> Self {
        let service = Service::of(host.env());
        let commit = commit(host, folder, file).map(|commit| CommitOrigin {
            repository: service.repository.clone().or(commit.repository),
            ..commit
        });
        Self { builder: service.builder, invocation: service.invocation, commit }
    }

    /// The origin in one line.
    #[must_use]
    pub fn text(&self) -> String {
        let commit = self.commit.as_ref().map(|commit| {
            let at = commit.repository.as_ref().map(|url| format!(" of {url}")).unwrap_or_default();
            let modified = if commit.modified { ", with changed files" } else { "" };
            format!("from commit {}{at}{modified} ", commit.hash)
        });
        format!("built {}by {}", commit.unwrap_or_default(), self.builder)
    }
}

/// What a CI service says about itself in the environment.
struct Service {
    builder: String,
    invocation: Option<String>,
    repository: Option<String>,
}

impl Service {
    fn of(env: &Environment) -> Self {
        Self::github(env).or_else(|| Self::gitlab(env)).unwrap_or_else(|| Self {
            builder: LOCAL.to_owned(),
            invocation: None,
            repository: None,
        })
    }

    /// The same builder and invocation as in GitHub's own attestations.
    fn github(env: &Environment) -> Option<Self> {
        env.get("GITHUB_ACTIONS").filter(|value| *value == "true")?;
        let server = env.get("GITHUB_SERVER_URL")?;
        let repository = format!("{server}/{}", env.get("GITHUB_REPOSITORY")?);
        let attempt = env.get("GITHUB_RUN_ATTEMPT").unwrap_or("1");
        let run = env.get("GITHUB_RUN_ID");
        Some(Self {
            builder: format!("{server}/{}", env.get("GITHUB_WORKFLOW_REF")?),
            invocation: run.map(|run| format!("{repository}/actions/runs/{run}/attempts/{attempt}")),
            repository: Some(repository),
        })
    }

    /// The same builder as in GitLab's own attestations.
    fn gitlab(env: &Environment) -> Option<Self> {
        env.get("GITLAB_CI").filter(|value| *value == "true")?;
        let project = env.get("CI_PROJECT_URL")?;
        Some(Self {
            builder: format!("{project}/-/runners/{}", env.get("CI_RUNNER_ID")?),
            invocation: env.get("CI_JOB_URL").map(str::to_owned),
            repository: Some(project.to_owned()),
        })
    }
}

/// The commit that is checked out; `None` without git, or if the repository does not track the file.
fn commit(host: &dyn InspectHost, folder: &HostPath, file: &str) -> Option<CommitOrigin> {
    let git = |arguments: &[&str]| {
        let command = crate::git::command(folder, DEADLINE, arguments);
        host.run(&command).ok().filter(CommandOutput::success).map(|output| output.stdout)
    };
    git(&["ls-files", "--error-unmatch", "--", file])?;
    let hash = git(&["rev-parse", "--verify", "HEAD"])?.trim().to_owned();
    let is_hash = hash.len() >= 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
    let remote = git(&["remote", "get-url", "origin"]);
    is_hash.then(|| CommitOrigin {
        hash,
        repository: remote.and_then(|url| public_url(url.trim())),
        modified: changes.is_none_or(|changes| !changes.trim().is_empty()),
    })
}

/// The `https` URL of a repository without user and password; `None` for a folder of this machine.
fn public_url(remote: &str) -> Option<String> {
    let (host, path) = match remote.split_once("://") {
        Some(("https" | "http" | "ssh" | "git", rest)) => rest.split_once('/')?,
        Some(_) => return None,
        // `git@host:path`, but not a path of Windows or of this machine.
        None => remote.split_once(':').filter(|(host, _)| host.len() > 1 && !host.contains(['/', '\\']))?,
    };
    let host = host.rsplit('@').next().unwrap_or(host);
    // A port is that of a protocol that the URL no longer names.
    let host = if remote.starts_with("https://") { host } else { host.split(':').next().unwrap_or(host) };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!host.is_empty() && !path.is_empty()).then(|| format!("https://{host}/{path}"))
}

/// Whether two URLs name the same repository.
pub(super) fn is_same_repository(one: &str, other: &str) -> bool {
    let plain = |url: &str| {
        let url = url.strip_prefix("git+").unwrap_or(url);
        let url = url.split(['?', '#']).next().unwrap_or(url).trim_end_matches('/');
        let url = url.strip_suffix(".git").unwrap_or(url);
        match url.split_once("://") {
            Some(_) => public_url(url).unwrap_or_else(|| url.to_owned()),
            // As in `slsa-verifier`: `github.com/me/app`.
            None => format!("https://{url}"),
        }
    };
    plain(one).eq_ignore_ascii_case(&plain(other))
}

#[cfg(test)]
mod tests {
    use gpubuild_host::Os;

    use super::*;

    #[test]
    fn urls_of_remotes_contain_no_secrets() {
        for (remote, url) in [
            ("https://github.com/me/app.git", Some("https://github.com/me/app")),
            ("https://me:token@github.com/me/app", Some("https://github.com/me/app")),
            ("https://git.example.org:8443/me/app/", Some("https://git.example.org:8443/me/app")),
            ("git@github.com:me/app.git", Some("https://github.com/me/app")),
            ("ssh://git@github.com:22/me/app.git", Some("https://github.com/me/app")),
            ("/home/me/app", None),
            ("../app", None),
            ("C:\\me\\app", None),
            ("file:///home/me/app", None),
            ("", None),
        ] {
            assert_eq!(public_url(remote).as_deref(), url, "{remote}");
        }
    }

    #[test]
    fn repositories_are_compared_without_their_spelling() {
        let url = "https://github.com/Me/App";
        for same in ["github.com/me/app", "git+https://github.com/me/app.git", "https://github.com/me/app/"] {
            assert!(is_same_repository(url, same), "{same}");
        }
        for other in ["https://github.com/me/app2", "https://example.org/me/app", "github.com", ""] {
            assert!(!is_same_repository(url, other), "{other}");
        }
    }

    #[test]
    fn services_name_their_builder_and_run() {
        let env = |pairs: &[(&str, &str)]| Environment::new(Os::Linux, pairs.iter().copied());
        let github = Service::of(&env(&[
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_SERVER_URL", "https://github.com"),
            ("GITHUB_REPOSITORY", "me/app"),
            ("GITHUB_WORKFLOW_REF", "me/app/.github/workflows/release.yml@refs/tags/v1"),
            ("GITHUB_RUN_ID", "7"),
            ("GITHUB_RUN_ATTEMPT", "2"),
        ]));
        assert_eq!(github.builder, "https://github.com/me/app/.github/workflows/release.yml@refs/tags/v1");
        assert_eq!(github.invocation.as_deref(), Some("https://github.com/me/app/actions/runs/7/attempts/2"));
        let gitlab = Service::of(&env(&[
            ("GITLAB_CI", "true"),
            ("CI_PROJECT_URL", "https://gitlab.com/me/app"),
            ("CI_RUNNER_ID", "12"),
            ("CI_JOB_URL", "https://gitlab.com/me/app/-/jobs/9"),
        ]));
        assert_eq!(gitlab.builder, "https://gitlab.com/me/app/-/runners/12");
        assert_eq!(Service::of(&Environment::default()).builder, LOCAL);
    }
}
