//! Damaged, removed, old and future versions of every file that a build keeps for the next one.
#![expect(clippy::disallowed_methods, reason = "a test damages files")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::common::{Random, cases};
use super::{LIBRARY, Sandbox, answers, project, run, set};

#[derive(Debug, Clone, Copy)]
enum Damage {
    Removed,
    Emptied,
    Truncated,
    OneBit,
    Older,
    Newer,
    Mode,
    Owner,
    Folder,
    Link,
}

const DAMAGES: [Damage; 10] = [
    Damage::Removed,
    Damage::Emptied,
    Damage::Truncated,
    Damage::OneBit,
    Damage::Older,
    Damage::Newer,
    Damage::Mode,
    Damage::Owner,
    Damage::Folder,
    Damage::Link,
];

/// Replaces the number after `"version":`, or the one in `"schema":"gpubuild…/1"`.
fn with_version(text: &str, number: &str) -> String {
    let Some(start) = text.find("\"version\":").or_else(|| text.find("\"schema\":")) else {
        return format!("{{\"version\":{number}}}");
    };
    let Some(digit) = text[start..].find(|letter: char| letter.is_ascii_digit()) else {
        return text.to_owned();
    };
    let (before, after) = text.split_at(start + digit);
    format!("{before}{number}{}", after.trim_start_matches(|letter: char| letter.is_ascii_digit()))
}

fn damage(path: &Path, damage: Damage, random: &mut Random) {
    let content = fs::read(path).unwrap();
    let text = || String::from_utf8_lossy(&content).into_owned();
    match damage {
        Damage::Removed => fs::remove_file(path).unwrap(),
        Damage::Emptied => fs::write(path, "").unwrap(),
        Damage::Truncated => fs::write(path, &content[..content.len() / 2]).unwrap(),
        Damage::OneBit => {
            let mut content = content;
            if !content.is_empty() {
                let at = random.below(content.len());
                content[at] ^= 1 << random.below(7);
            }
            fs::write(path, content).unwrap();
        }
        Damage::Older => fs::write(path, with_version(&text(), "0")).unwrap(),
        Damage::Newer => fs::write(path, with_version(&text(), "99")).unwrap(),
        Damage::Mode => fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap(),
        // Only root may give a file away.
        Damage::Owner => drop(std::os::unix::fs::chown(path, Some(65534), Some(65534))),
        Damage::Folder => {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }
        Damage::Link => {
            fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink("/nonexistent/file", path).unwrap();
        }
    }
}

/// The files that gpubuild itself writes for later calls.
fn state_files(sandbox: &Sandbox) -> Vec<PathBuf> {
    let is_state = |path: &Path| {
        let text = path.to_str().unwrap();
        let own = ["/gpubuild/", "/.cmake/api/", "/cache/"].iter().any(|part| text.contains(part));
        own || path.extension().is_some_and(|end| end == "json" || end == "lock")
    };
    let folders = [".gpubuild", "store", "cache"].map(|name| sandbox.path(name));
    let entries = folders.iter().flat_map(|folder| walkdir::WalkDir::new(folder).sort_by_file_name());
    let files = entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_file());
    files.map(walkdir::DirEntry::into_path).filter(|path| is_state(path)).collect()
}

/// Damages one file per case, after a build with a store. The next build is correct or names the file, and after `clean` and
/// `cache prune --all` a build always is.
fn mutate(count: usize) {
    let Some(sandbox) = project() else { return };
    let (mut random, mut refused) = (Random::new(29), 0);
    for case in 0..count {
        let number = case / 2 % 90;
        set(&sandbox, number);
        run(&sandbox, &["build"]).succeeds();
        let files = state_files(&sandbox);
        let (path, kind) = (files[random.below(files.len())].clone(), DAMAGES[case % DAMAGES.len()]);
        damage(&path, kind, &mut random);
        let at = format!("{kind:?}: {}", path.display());
        // Every other case changes the sources, or needs the store.
        if case % 3 == 1 {
            set(&sandbox, number + 1);
        } else if case % 3 == 2 {
            drop(run(&sandbox, &["clean"]));
        }
        let number = if case % 3 == 1 { number + 1 } else { number };
        for call in [&["link"][..], &["cache", "list"], &["cache", "explain"]] {
            is_sound(run(&sandbox, call).exit, &at);
        }
        let built = run(&sandbox, &["build"]);
        is_sound(built.exit, &at);
        if built.is_success() {
            answers(&sandbox, LIBRARY, number);
        } else {
            refused += 1;
            assert!(built.stderr.contains("hint:"), "{at}: {built:#?}");
            // What the hints advise: the file is removed, or the folder.
            remove(&path);
        }
        run(&sandbox, &["clean"]).succeeds();
        run(&sandbox, &["cache", "prune", "--all"]).succeeds();
        run(&sandbox, &["build"]).succeeds();
        answers(&sandbox, LIBRARY, number);
        remove(&sandbox.path("store"));
        remove(&sandbox.path("cache"));
    }
    assert!(refused <= count / 4, "{refused} of {count} builds were refused");
}

fn remove(path: &Path) {
    if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path).unwrap();
    } else {
        let _ = fs::remove_file(path);
    }
}

/// Neither a crash nor an internal error.
#[track_caller]
fn is_sound(exit: Option<i32>, at: &str) {
    assert!(matches!(exit, Some(0..=2)), "{at}: {exit:?}");
}

#[test]
fn damaged_state_never_leads_to_a_wrong_build() {
    mutate(1);
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn many_kinds_of_damaged_state_never_lead_to_a_wrong_build() {
    mutate(cases(20));
}

#[test]
fn links_and_folders_in_place_of_locks_of_the_store_are_replaced() {
    let Some(sandbox) = project() else { return };
    set(&sandbox, 1);
    let replace_locks = || {
        let locks = fs::read_dir(sandbox.path("store/v1/locks")).unwrap().map(|lock| lock.unwrap().path());
        for (at, path) in locks.filter(|path| path.is_file()).enumerate() {
            let kind = if at % 2 == 0 { Damage::Link } else { Damage::Folder };
            damage(&path, kind, &mut Random::new(1));
        }
    };
    run(&sandbox, &["build"]).succeeds();
    replace_locks();
    run(&sandbox, &["clean"]).succeeds();
    run(&sandbox, &["build"]).succeeds();
    answers(&sandbox, LIBRARY, 1);
    replace_locks();
    run(&sandbox, &["cache", "prune", "--all"]).succeeds();
    run(&sandbox, &["build"]).succeeds();
    answers(&sandbox, LIBRARY, 1);
}
