//! Generated Rust code is formatted for short and long project names.

use crate::support::{Workspace, is_on_path};

#[test]
fn templates_are_formatted_for_short_and_long_names() {
    if !is_on_path("rustfmt") {
        crate::requirements::skip("rustfmt", "no rustfmt");
        return;
    }
    let Some(workspace) = Workspace::new(&[]) else { return };
    let long = format!("l{}g", "-on".repeat(20));
    for template in gpubuild::new::templates() {
        for name in ["a", "std-like", "zz", long.as_str()] {
            let folder = format!("{}-{name}", template.id);
            if template.about.workspace.is_some() {
                workspace.write(&format!("{folder}/Cargo.toml"), "[workspace]\n");
            }
            workspace.make(&[&folder, "--template", template.id, "--name", name]);
            let files = walkdir::WalkDir::new(workspace.path(&folder))
                .into_iter()
                .map(|entry| entry.unwrap().into_path());
            let files: Vec<_> =
                files.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect();
            assert!(files.len() >= 3, "{files:?}");
            let mut arguments = vec!["--check", "--edition", "2024"];
            arguments.extend(files.iter().map(|path| path.to_str().unwrap()));
            let checked = workspace.start(&folder, "rustfmt", &arguments);
            assert!(checked.ok, "{folder}: {}{}", checked.stdout, checked.stderr);
        }
    }
}
