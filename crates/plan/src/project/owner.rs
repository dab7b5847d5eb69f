//! Refuses project files of other users: a project file can run programs, and commands search for it in all parent folders.
//!
//! The rule is that of git's `safe.directory`, with two differences. Files of root are accepted, because root can run programs as any
//! user anyway. The workspace of a CI job is accepted, because a job in a container often runs as root in a folder that belongs to the
//! user outside the container, and the service itself names that folder in a variable.

use gpubuild_core::shell;
use gpubuild_host::{HostPath, Os, ReadFiles};

use super::{ForeignProject, ProjectError};

/// The variable with folders whose project files are used, whatever their owner.
pub const SAFE_FOLDERS: &str = "GPUBUILD_SAFE_DIRECTORY";
/// The variable in which sudo passes the id of the user who called it.
const SUDO_UID: &str = "SUDO_UID";
/// Variables in which CI services pass the folder of the job: GitHub, GitLab, Azure, Buildkite, Jenkins, Drone and Woodpecker.
const WORKSPACES: [&str; 7] = [
    "GITHUB_WORKSPACE",
    "CI_PROJECT_DIR",
    "BUILD_SOURCESDIRECTORY",
    "BUILDKITE_BUILD_CHECKOUT_PATH",
    "WORKSPACE",
    "DRONE_WORKSPACE",
    "CI_WORKSPACE",
];
/// The largest part of `/etc/passwd` that is read, in bytes.
const MAX_PASSWD: usize = 1 << 20;

/// Checks that a project file and its folder belong to this user, to root, or to the user who called sudo, or that the folder is
/// allowed by `safe`, by [`SAFE_FOLDERS`] or as the workspace of a CI job. Platforms without numeric owners have no such check.
pub(super) fn check(host: &dyn ReadFiles, file: &HostPath, safe: &[String]) -> Result<(), ProjectError> {
    let Some(user) = host.identity().uid else { return Ok(()) };
    let folder = file.parent().unwrap_or_else(|| file.clone());
    let caller = host.env().get(SUDO_UID).and_then(|text| text.parse().ok()).filter(|_| user == 0);
    let is_trusted = |owner: u32| owner == 0 || owner == user || Some(owner) == caller;
    let foreign = [file, &folder].into_iter().find_map(|path| {
        let owner = host.stat(path).ok()?.owner?.uid;
        (!is_trusted(owner)).then_some((path, owner))
    });
    match foreign {
        Some((path, owner)) if !is_allowed(host, &folder, safe) => {
            Err(ProjectError::OtherOwner(Box::new(ForeignProject {
                file: file.to_string(),
                path: path.to_string(),
                owner: named(host, owner),
                user: named(host, user),
                allow: shell::quote(host.platform().os, folder.as_str())
                    .map(|folder| format!("export {SAFE_FOLDERS}={folder}")),
                folder: folder.to_string(),
            })))
        }
        _ => Ok(()),
    }
}

fn is_allowed(host: &dyn ReadFiles, folder: &HostPath, safe: &[String]) -> bool {
    let real = |path: HostPath| host.canonical(&path).unwrap_or_else(|_| path.normalized());
    let separator = if host.platform().os == Os::Windows { ';' } else { ':' };
    let listed = host.env().get(SAFE_FOLDERS).unwrap_or_default().split(separator);
    let folder = real(folder.clone());
    let is_named = |entry: &str| match entry.strip_suffix("/*") {
        _ if matches!(entry, "*" | "/*") => true,
        Some(above) => host.path(above).is_absolute() && folder.is_inside(&real(host.path(above))),
        None => host.path(entry).is_absolute() && folder.key() == real(host.path(entry)).key(),
    };
    let is_workspace = |name: &&str| {
        let workspace = host.env().get(name).map(|text| host.path(text)).filter(HostPath::is_absolute);
        workspace.map(real).is_some_and(|path| path.parent().is_some() && folder.is_inside(&path))
    };
    safe.iter().map(String::as_str).chain(listed).any(is_named) || WORKSPACES.iter().any(is_workspace)
}

/// The id of a user, with the name if it is known.
fn named(host: &dyn ReadFiles, uid: u32) -> String {
    let bytes = host.read_start(&host.path("/etc/passwd"), MAX_PASSWD).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id == uid.to_string()).then(|| name.to_owned())
    });
    name.map_or_else(|| uid.to_string(), |name| format!("{uid} ({name})"))
}

#[cfg(test)]
mod tests {
    use gpubuild_detect::diagnostic::Diagnostic as _;
    use gpubuild_host::recorded::{RecordedEntry, RecordedHostBuilder};
    use gpubuild_host::{Arch, HostInfo as _, Owner, RecordedHost};

    use super::*;
    use crate::project::find;

    fn folder(uid: u32) -> RecordedEntry {
        RecordedEntry::Directory { open_error: None, owner: Some(Owner { uid, gid: uid }) }
    }

    fn file(uid: u32) -> RecordedEntry {
        let owner = Some(Owner { uid, gid: uid });
        RecordedEntry::File { content: Some([].into()), executable: false, open_error: None, owner }
    }

    /// A machine with a project whose folder and file belong to two users.
    fn host(user: u32, of_folder: u32, of_file: u32) -> RecordedHostBuilder {
        RecordedHost::builder(Os::Linux, Arch::X86_64)
            .identity(user, &[user])
            .file("/etc/passwd", "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n")
            .entry("/srv/app", folder(of_folder))
            .entry("/srv/app/gpubuild.toml", file(of_file))
            .directory("/srv/app/src/deep")
            .link("/link", "/srv/app")
    }

    fn is_found(host: RecordedHostBuilder, safe: &[&str]) -> bool {
        let host = host.build();
        let safe: Vec<String> = safe.iter().map(|&text| text.to_owned()).collect();
        match find(&host, &host.path("/srv/app/src/deep"), &safe) {
            Ok(file) => file.as_str() == "/srv/app/gpubuild.toml",
            Err(error) => {
                assert_eq!(error.id(), "project.other-owner");
                false
            }
        }
    }

    #[test]
    fn only_files_of_this_user_of_root_and_of_the_caller_of_sudo_are_used() {
        for (user, folder, file, expected) in [
            (1000, 1000, 1000, true),
            (1000, 0, 1000, true),
            (1000, 0, 0, true),
            (0, 0, 0, true),
            (1000, 1000, 1001, false),
            (1000, 1001, 1000, false),
            (1000, 1001, 0, false),
            (0, 1000, 1000, false),
            (0, 0, 1000, false),
        ] {
            assert_eq!(is_found(host(user, folder, file), &[]), expected, "{user} {folder} {file}");
        }
        let with_sudo = |user: u32, caller: &str| host(user, 1000, 1000).env("SUDO_UID", caller);
        assert!(is_found(with_sudo(0, "1000"), &[]));
        assert!(!is_found(with_sudo(0, "1001"), &[]));
        assert!(!is_found(with_sudo(0, "x"), &[]));
        // Only root trusts the variable.
        assert!(!is_found(with_sudo(1001, "1000"), &[]));
    }

    #[test]
    fn the_error_names_the_owner_the_file_and_the_command() {
        let host = host(0, 1000, 1000).build();
        let error = find(&host, &host.path("/srv/app/src"), &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`/srv/app/gpubuild.toml` is not used: `/srv/app/gpubuild.toml` belongs to user 1000 (ada), and gpubuild runs as user \
             0 (root)"
        );
        let hint = error.hint().unwrap();
        assert!(hint.contains("`export GPUBUILD_SAFE_DIRECTORY=/srv/app`"), "{hint}");
    }

    #[test]
    fn folders_are_allowed_by_exact_path_by_prefix_or_all() {
        for (safe, expected) in [
            ("/srv/app", true),
            ("/srv/app/", true),
            ("/link", true),
            ("/srv/*", true),
            ("/other:/srv/app", true),
            ("*", true),
            ("/srv", false),
            ("/srv/ap", false),
            ("/sr/*", false),
            ("/srv/app/src", false),
            ("app", false),
            ("", false),
            ("::", false),
        ] {
            let from_variable = host(0, 1000, 1000).env(SAFE_FOLDERS, safe);
            assert_eq!(is_found(from_variable, &[]), expected, "{safe}");
            if !safe.contains(':') {
                assert_eq!(is_found(host(0, 1000, 1000), &[safe]), expected, "{safe}");
            }
        }
    }

    #[test]
    fn the_workspace_of_a_ci_job_is_allowed_and_nothing_above_it() {
        for (name, folder, expected) in [
            ("GITHUB_WORKSPACE", "/srv/app", true),
            ("CI_PROJECT_DIR", "/srv", true),
            ("CI_PROJECT_DIR", "/srv/app/src", false),
            ("CI_PROJECT_DIR", "/", false),
            ("CI_PROJECT_DIR", "srv", false),
            ("CI", "/srv/app", false),
        ] {
            assert_eq!(is_found(host(0, 1000, 1000).env(name, folder), &[]), expected, "{name} {folder}");
        }
    }

    #[test]
    fn a_platform_without_numeric_owners_has_no_check() {
        let host = RecordedHost::builder(Os::Windows, Arch::X86_64)
            .entry(r"C:\app\gpubuild.toml", file(1000))
            .build();
        assert!(find(&host, &host.path(r"C:\app"), &[]).is_ok());
    }
}
