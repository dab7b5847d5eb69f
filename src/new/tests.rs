//! Tests of the embedded templates and of workspace edits.

use std::collections::BTreeSet;
use std::path::Path;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_plan::plan::request::BackendSelection;
use gpubuild_plan::project;
use gpubuild_plan::project::source::Source;
use gpubuild_plan::project::source::lock::LockedSource;

use super::render::files;
use super::workspace::{WorkspaceProblem, accepts_member, with_alias, with_members};
use super::{CrateDependency, RenderRequest, Template, templates};

fn request<'a>(template: &'a Template, name: &'a str, backends: BackendSelection) -> RenderRequest<'a> {
    RenderRequest { template, name, backends, gpubuild: CrateDependency::Published }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "reads the repository")]
fn all_template_files_are_embedded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates/new");
    let projects = gpubuild_templates::PROJECTS.iter();
    let embedded: BTreeSet<&str> =
        projects.flat_map(|one| one.files.iter().map(|(_, text)| *text).chain([one.about])).collect();
    for entry in walkdir::WalkDir::new(&root).into_iter().map(Result::unwrap) {
        if entry.file_type().is_file() {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            assert!(embedded.contains(text.as_str()), "{} is not embedded", entry.path().display());
        }
    }
    for one in templates() {
        for name in one.about.names.keys() {
            assert!(one.files.iter().any(|(file, _)| file == name), "{}: {name} is missing", one.id);
        }
        // cargo excludes folders with a Cargo.toml from a package, and Git applies every .gitignore.
        assert!(
            one.files.iter().all(|(file, _)| !file.ends_with("Cargo.toml") && !file.ends_with(".gitignore"))
        );
        assert!(one.about.command.len() == 2 && one.about.backends[0] == Backend::Cpu, "{}", one.id);
    }
}

#[test]
fn all_placeholders_are_filled_in_and_all_project_files_are_valid() {
    for template in templates() {
        for backends in [BackendSelection::Auto, BackendSelection::Named(template.about.backends.clone())] {
            let request = request(template, "my-lib", backends);
            request.check().unwrap();
            let files = files(&request);
            let placeholder = regex_lite::Regex::new("@[A-Za-z]+@").unwrap();
            for file in &files {
                let left = placeholder.find(&file.text).or_else(|| placeholder.find(&file.path));
                assert_eq!(left.map(|left| left.as_str()), None, "{} of {}", file.path, template.id);
                assert!(file.text.ends_with('\n') && !file.text.contains('\r'), "{}", file.path);
            }
            let file = |name: &str| files.iter().find(|file| file.path == name).unwrap();
            let (parsed, _) = project::parse("gpubuild.toml", &file("gpubuild.toml").text).unwrap();
            if let Source::Fetched(source) = parsed.project.source {
                let text = &file("gpubuild.lock").text;
                let locked = LockedSource::parse(text).unwrap();
                assert_eq!((&locked.text(), locked.origin), (text, source.origin), "{}", template.id);
            }
            for cargo in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
                let table: toml::Table = cargo.text.parse().unwrap();
                let all = ["dependencies", "build-dependencies"].into_iter().filter_map(|key| table.get(key));
                let names = ["gpubuild-build", "gpubuild-link"];
                let ours: Vec<_> =
                    all.flat_map(|list| names.into_iter().filter_map(|name| list.get(name))).collect();
                assert_eq!(ours.len(), 1, "{}", cargo.path);
                assert_eq!(ours[0].as_str(), Some("0.1"), "{}", cargo.path);
            }
        }
    }
}

#[test]
fn backends_are_written_to_the_project_file_or_the_features() {
    let find = |id: &str| templates().iter().find(|one| one.id == id).unwrap();
    let text = |id: &str, name: &str| {
        let request = request(find(id), "x", BackendSelection::Named(vec![Backend::Cpu, Backend::Vulkan]));
        files(&request).into_iter().find(|file| file.path == name).unwrap().text
    };
    assert!(text("own-kernels", "gpubuild.toml").contains("backends = [\"cpu\", \"vulkan\"]\n"));
    assert!(text("llama", "Cargo.toml").contains("default = [\"vulkan\"]\n"));
    assert!(
        text("llama", "gpubuild.toml")
            .ends_with("\n\n[[variants]]\nname = \"default\"\nbackends = [\"cpu\", \"vulkan\"]\n")
    );
    let refused =
        request(find("own-kernels"), "x", BackendSelection::Named(vec![Backend::Metal])).check().unwrap_err();
    assert_eq!(refused.id(), "new.backend");
}

#[test]
fn quotes_in_a_folder_name_are_escaped() {
    let folder = CrateDependency::Folder("/home/a \"b\"\\c".to_owned());
    let table: toml::Table = format!("gpubuild-link = {}", folder.dependency("link")).parse().unwrap();
    assert_eq!(table["gpubuild-link"]["path"].as_str(), Some("/home/a \"b\"\\c/crates/link"));
    assert_eq!(table["gpubuild-link"]["version"].as_str(), Some("0.1"));
}

#[track_caller]
fn check_members(before: &str, after: &str) {
    let after = (after != before).then(|| after.to_owned());
    assert_eq!(with_members(before, &["xtask".to_owned()]), Ok(after));
}

#[test]
fn new_members_keep_the_format_of_the_list() {
    check_members("[workspace]\n", "[workspace]\nmembers = [\"xtask\"]\n");
    check_members("[workspace]\nmembers = []\n", "[workspace]\nmembers = [\"xtask\"]\n");
    check_members(
        "[workspace]\nmembers = [\"a\"] # all\n",
        "[workspace]\nmembers = [\"a\", \"xtask\"] # all\n",
    );
    check_members("[workspace]\nmembers = [ \"a\" ]\n", "[workspace]\nmembers = [ \"a\", \"xtask\" ]\n");
    check_members(
        "# one\n[workspace] # two\nmembers = [\n  # three\n  \"a\", # four\n  \"b\", # five\n  # six\n  ] # seven\n\n[profile.dev]   # eight\nopt-level=1\n",
        "# one\n[workspace] # two\nmembers = [\n  # three\n  \"a\", # four\n  \"b\", # five\n  # six\n  \"xtask\",\n  ] # seven\n\n[profile.dev]   # eight\nopt-level=1\n",
    );
    check_members(
        "workspace.members = [\n\t\"a\",\n\t\"b\" # last\n]\n",
        "workspace.members = [\n\t\"a\",\n\t\"b\", # last\n\t\"xtask\",\n]\n",
    );
    check_members(
        "[workspace]\r\nmembers = [\r\n  \"a\", # one\r\n]\r\n",
        "[workspace]\r\nmembers = [\r\n  \"a\", # one\r\n  \"xtask\",\r\n]\r\n",
    );
    check_members("workspace = { members = [\"a\"] }\n", "workspace = { members = [\"a\", \"xtask\"] }\n");
}

#[test]
fn members_that_a_name_or_pattern_covers_are_not_added() {
    for pattern in ["xtask", "*", "x*k", "./xtask/", "**", "xtask/**"] {
        let text = format!("[workspace]\nmembers = [\"{pattern}\"]\n");
        check_members(&text, &text);
    }
    let text = "[workspace]\nmembers = [\"crates/*\", \"x*y\"]\n";
    check_members(text, "[workspace]\nmembers = [\"crates/*\", \"x*y\", \"xtask\"]\n");
    assert_eq!(with_members(text, &["crates/demo".to_owned()]), Ok(None));
}

#[test]
fn workspaces_that_cannot_be_edited_are_reported() {
    let add = |text: &str| with_members(text, &["xtask".to_owned()]);
    assert_eq!(add("[package]\nname = \"a\"\n"), Err(WorkspaceProblem::NoWorkspace));
    assert_eq!(
        add("[workspace]\nexclude = [\"xtask\"]\n"),
        Err(WorkspaceProblem::Excluded("xtask".to_owned()))
    );
    assert_eq!(add("[workspace]\nexclude = [\"xtas\"]\nmembers = [\"xtask\"]\n"), Ok(None));
    assert!(matches!(add("[workspace\n"), Err(WorkspaceProblem::Invalid(why)) if why.contains("line 1")));
    assert!(matches!(add("[workspace]\nmembers = 1\n"), Err(WorkspaceProblem::Invalid(_))));
    assert_eq!(accepts_member("[workspace]\nexclude = [\"out\"]\n", "out/demo"), Ok(false));
    assert_eq!(accepts_member("[workspace]\n", "demo"), Ok(true));
    assert_eq!(accepts_member("[package]\n", "demo"), Ok(false));
}

#[test]
fn alias_is_added_to_existing_ones() {
    let add = |text: &str| with_alias(text, "xtask", "run --package xtask --");
    assert_eq!(add("").unwrap(), "[alias]\nxtask = \"run --package xtask --\"\n");
    assert_eq!(
        add("# mine\n[alias]\nt = \"test\" # often\n\n[net]\nretry = 3\n").unwrap(),
        "# mine\n[alias]\nt = \"test\" # often\nxtask = \"run --package xtask --\"\n\n[net]\nretry = 3\n"
    );
    assert_eq!(
        add("[net]\nretry = 3\n").unwrap(),
        "[net]\nretry = 3\n\n[alias]\nxtask = \"run --package xtask --\"\n"
    );
    assert_eq!(add("alias.xtask = [\"run\"]\n"), Err(WorkspaceProblem::AliasExists("xtask".to_owned())));
}
