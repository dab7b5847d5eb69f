//! Commits of git repositories, fetched with the git of the machine: its credentials, proxies and SSH keys apply.

use std::time::Duration;

use gpubuild_host::{Command, CommandOutput, FileKind, HostPath, RunError};
use gpubuild_release::fetch::{MIN_RATE, git_limit};

use crate::{SourceError, SourceRequest};

/// Variables that would make git use another repository, as in a hook.
const REPOSITORY: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
];
/// Settings that make the files the same on every machine, and run no program of the repository.
const SETTINGS: [&str; 8] = [
    "core.autocrlf=false",
    "core.eol=lf",
    "core.hooksPath=/dev/null",
    "core.longpaths=true",
    "advice.detachedHead=false",
    "gc.auto=0",
    // Pipes that the caller of git opens, and programs.
    "protocol.fd.allow=never",
    "protocol.ext.allow=never",
];
/// Accepts plain HTTP only if the user has written it, and not as the target of a redirect.
const ENCRYPTED: [&str; 2] = ["-c", "protocol.http.allow=user"];
/// What curl reports through git about a transfer below the minimum rate.
const TOO_SLOW: &str = "Operation too slow";
/// Maximum length of git's message, in lines.
const LINES: usize = 4;

/// Fetches a commit into `tree`, without git's own files. Git verifies all objects by their hashes.
pub(crate) fn fetch(
    request: &SourceRequest<'_>,
    url: &str,
    rev: &str,
    submodules: bool,
    tree: &HostPath,
) -> Result<(), SourceError> {
    let git = Git { request, url, tree, end: request.host.elapsed() + git_limit(request.host) };
    (request.progress)(&format!("fetching {url} at {}", &rev[..12]));
    request.host.create_dir_all(tree).map_err(|error| SourceError::write(tree, &error))?;
    git.run(&["init", "--quiet"])?;
    let start: &[&str] = if url.starts_with("https:") { &ENCRYPTED } else { &[] };
    let start = [start, &["fetch", "--quiet"]].concat();
    // Not every server allows to fetch a commit by its hash.
    if !git.accepts(&[&start[..], &["--depth=1", "--no-tags", "--", url, rev]].concat())? {
        let all = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];
        git.run(&[&start[..], &["--", url, all[0], all[1]]].concat())?;
    }
    // A tag is an object with another hash than its commit.
    let commit = git.output(&["rev-parse", "--verify", "--quiet", &format!("{rev}^{{commit}}")])?;
    if !commit.success() || commit.stdout.trim() != rev {
        return Err(SourceError::NoRev { url: url.to_owned(), rev: rev.to_owned() });
    }
    git.run(&["checkout", "--quiet", "--detach", rev])?;
    if submodules {
        // Submodules can have relative URLs.
        git.run(&["remote", "add", "origin", url])?;
        let update = ["submodule", "--quiet", "update", "--init", "--recursive"];
        let shallow = [&update[..], &["--depth=1"]].concat();
        if !git.accepts(&shallow)? {
            git.run(&update)?;
        }
    }
    clean(request, tree).map_err(|error| SourceError::write(tree, &error))
}

/// Removes git's own files, and makes all others read-only.
fn clean(request: &SourceRequest<'_>, tree: &HostPath) -> std::io::Result<()> {
    let host = request.host;
    let mut pending = vec![tree.clone()];
    while let Some(folder) = pending.pop() {
        for name in host.list(&folder)? {
            let path = folder.join(&name);
            if name == ".git" {
                host.remove(&path)?;
                continue;
            }
            if host.read_link(&path).is_ok() {
                continue;
            }
            match host.stat(&path)?.kind {
                FileKind::Directory => pending.push(path),
                FileKind::File => host.set_read_only(&path)?,
                FileKind::Device | FileKind::Other => {}
            }
        }
    }
    Ok(())
}

struct Git<'a> {
    request: &'a SourceRequest<'a>,
    url: &'a str,
    tree: &'a HostPath,
    /// When the last command has to end.
    end: Duration,
}

impl Git<'_> {
    fn output(&self, arguments: &[&str]) -> Result<CommandOutput, SourceError> {
        // While a server packs a commit, it sends a byte per second.
        let patience = self.request.client.patience().as_secs().max(1);
        let rate = [format!("http.lowSpeedLimit={MIN_RATE}"), format!("http.lowSpeedTime={patience}")];
        let settings = SETTINGS.into_iter().chain(rate.iter().map(String::as_str));
        let left = self.end.saturating_sub(self.request.host.elapsed());
        let command = Command::new("git", left)
            .args(settings.flat_map(|setting| ["-c", setting]))
            .args(arguments.iter().copied())
            .current_dir(self.tree.clone())
            // A question would wait for an answer that cannot be given.
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C");
        let command = REPOSITORY.iter().fold(command, |command, name| command.env_remove(*name));
        self.request.host.run(&command).map_err(|error| match error {
            RunError::NotFound { .. } => SourceError::NoGit { url: self.url.to_owned() },
            RunError::Interrupted => SourceError::Interrupted,
            RunError::Timeout { .. } => {
                self.slow(format!("git did not finish within {} s", git_limit(self.request.host).as_secs()))
            }
            other => self.failed(other.to_string()),
        })
    }

    /// Whether a command succeeds that some servers refuse.
    fn accepts(&self, arguments: &[&str]) -> Result<bool, SourceError> {
        let output = self.output(arguments)?;
        // Another request would be as slow.
        if output.stderr.contains(TOO_SLOW) {
            return Err(self.error(&output));
        }
        Ok(output.success())
    }

    fn run(&self, arguments: &[&str]) -> Result<(), SourceError> {
        let output = self.output(arguments)?;
        if output.success() { Ok(()) } else { Err(self.error(&output)) }
    }

    /// The error of a command that has failed.
    fn error(&self, output: &CommandOutput) -> SourceError {
        let lines: Vec<&str> = output.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("; ");
        let message = if last.is_empty() { format!("git {}", output.ending()) } else { last };
        if output.stderr.contains(TOO_SLOW) { self.slow(message) } else { self.failed(message) }
    }

    fn slow(&self, message: String) -> SourceError {
        SourceError::GitSlow { url: self.url.to_owned(), message }
    }

    fn failed(&self, message: String) -> SourceError {
        SourceError::Git { url: self.url.to_owned(), message }
    }
}
