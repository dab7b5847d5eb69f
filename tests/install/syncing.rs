//! What `gpubuild install` and `gpubuild pack` flush before and after they rename: system calls recorded with strace.
#![expect(clippy::disallowed_methods, reason = "a test starts programs and reads their output")]

use std::collections::HashSet;
use std::process::Command;

use crate::kills::version;
use crate::requirements::skip;
use crate::support::Sandbox;

/// A call that changes files, in order.
#[derive(Debug, PartialEq)]
enum Call {
    /// A file was created or opened for writing.
    Written(String),
    Flushed(String),
    /// The file system of a path was flushed.
    AllFlushed,
    Renamed(String, String),
}

/// The first path of a line of strace at or after a text: `"/tmp/file"` or `3</tmp/file>`.
fn quoted(text: &str, open: char, close: char) -> Option<(String, &str)> {
    let (_, rest) = text.split_once(open)?;
    let (path, rest) = rest.split_once(close)?;
    Some((path.to_owned(), rest))
}

fn call(line: &str) -> Option<Call> {
    let line = line.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ' ');
    if line.contains(" = -1 ") {
        return None;
    }
    if line.starts_with("fsync(") || line.starts_with("fdatasync(") {
        return quoted(line, '<', '>').map(|(path, _)| Call::Flushed(path));
    }
    if line.starts_with("syncfs(") {
        return Some(Call::AllFlushed);
    }
    if line.starts_with("openat(") && line.contains("O_CREAT") {
        return quoted(line, '"', '"').map(|(path, _)| Call::Written(path));
    }
    if line.starts_with("rename") {
        let (from, rest) = quoted(line, '"', '"')?;
        return quoted(rest, '"', '"').map(|(to, _)| Call::Renamed(from, to));
    }
    None
}

/// The calls of a command. `None` without strace.
fn calls(sandbox: &Sandbox, arguments: &[&str]) -> Option<Vec<Call>> {
    let trace = sandbox.path("trace");
    let usual = sandbox.command();
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-y",
        "-s",
        "4096",
        "-e",
        "trace=openat,fsync,fdatasync,syncfs,rename,renameat,renameat2",
        "-o",
    ]);
    command.arg(&trace).arg(usual.get_program()).args(arguments).current_dir(sandbox.path(""));
    command.env_clear().envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    match command.output() {
        Ok(output) if output.status.success() => {
            Some(sandbox.read("trace").lines().filter_map(call).collect())
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            skip("strace", "no strace");
            None
        }
    }
}

/// Checks that everything below a renamed path was flushed before, and returns the number of these files.
fn flushed_before_renames(calls: &[Call], folder: &str) -> usize {
    let (mut written, mut flushed, mut count) = (HashSet::new(), HashSet::new(), 0);
    for call in calls {
        match call {
            Call::Written(path) if !path.ends_with("lock") => {
                written.insert(path.as_str());
                flushed.remove(path.as_str());
            }
            Call::Flushed(path) => {
                flushed.insert(path.as_str());
            }
            Call::AllFlushed => flushed.extend(written.iter().copied()),
            Call::Renamed(from, to) if to.starts_with(folder) => {
                let below = format!("{from}/");
                for path in written.iter().filter(|path| **path == from || path.starts_with(&below)) {
                    assert!(
                        flushed.contains(path),
                        "{path} was not flushed before {from} was renamed to {to}"
                    );
                    count += 1;
                }
            }
            Call::Written(_) | Call::Renamed(..) => {}
        }
    }
    count
}

#[test]
fn files_are_flushed_before_the_rename_and_folders_after_it() {
    let sandbox = Sandbox::new();
    version(1, 3).write(&sandbox, "release");
    let to = sandbox.at("to");
    let arguments = ["install", "--unsigned", "--manifest", "release", "--to", &to];
    let Some(calls) = calls(&sandbox, &arguments) else { return };
    let files = flushed_before_renames(&calls, &to);
    assert!(files >= 5, "four files of the version and the state: {calls:#?}");
    let is_alone = |call: &Call| matches!(call, Call::Flushed(path) if path.contains("/versions/"));
    assert!(!calls.iter().any(is_alone), "the files of a version are flushed at once: {calls:#?}");
    let is_switch = |call: &Call| matches!(call, Call::Renamed(_, path) if path.ends_with("/to/current"));
    let switch = calls.iter().position(is_switch).unwrap();
    let is_state = |call: &Call| matches!(call, Call::Renamed(_, path) if path.ends_with("/to/state.json"));
    assert!(calls[..switch].iter().any(is_state), "the state is written before the switch: {calls:#?}");
    assert!(calls[switch..].contains(&Call::Flushed(to.clone())), "{calls:#?}");
}
