//! Generated Rust is as rustfmt has it, however long the name is.

use crate::support::{Desk, is_on_path};

#[test]
fn every_template_is_formatted_for_short_and_long_names() {
    if !is_on_path("rustfmt") {
        println!("skipped: no rustfmt");
        return;
    }
    let Some(desk) = Desk::new(&[]) else { return };
    let long = format!("l{}g", "-on".repeat(20));
    for template in gpubuild::new::templates() {
        for name in ["a", "std-like", "zz", long.as_str()] {
            let folder = format!("{}-{name}", template.id);
            if template.about.workspace.is_some() {
                desk.write(&format!("{folder}/Cargo.toml"), "[workspace]\n");
            }
            desk.make(&[&folder, "--template", template.id, "--name", name]);
            let files =
                walkdir::WalkDir::new(desk.path(&folder)).into_iter().map(|entry| entry.unwrap().into_path());
            let files: Vec<_> =
                files.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect();
            assert!(files.len() >= 3, "{files:?}");
            let mut words = vec!["--check", "--edition", "2024"];
            words.extend(files.iter().map(|path| path.to_str().unwrap()));
            let checked = desk.start(&folder, "rustfmt", &words);
            assert!(checked.ok, "{folder}: {}{}", checked.stdout, checked.stderr);
        }
    }
}
