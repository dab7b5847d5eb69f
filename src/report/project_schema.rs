//! The published schema of gpubuild.toml accepts all project files of this repository, and editors find it.

use gpubuild_plan::plan::request::BackendSelection;
use gpubuild_plan::project;
use serde_json::{Value, json};

use super::schemas::{mismatch, project_file, project_file_address, read};
use crate::new::{CrateDependency, RenderRequest, render, templates};

fn check(text: &str) -> Option<String> {
    let schema = project_file();
    mismatch(&toml::from_str(text).unwrap(), &schema, &schema, "")
}

#[test]
fn project_files_match_the_schema() {
    let page = read("docs/reference/project-file.md");
    let examples = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let complete = |text: &&str| text.starts_with("schema = 1");
    let [small, example] = examples.filter(complete).collect::<Vec<_>>()[..] else { panic!("two examples") };
    for text in [small, example, &read("gpubuild.toml"), &read("examples/llama-sys/gpubuild.toml")] {
        assert_eq!(check(text), None);
        assert!(project::parse("gpubuild.toml", text).is_ok());
    }
    let problem = |from: &str, to: &str| check(&example.replacen(from, to, 1)).unwrap_or_default();
    assert_eq!(problem("schema = 1 ", "schema = 2 "), "/schema: 2 is not an allowed value");
    assert_eq!(problem("name = \"infer\"", ""), "/project: \"name\" is missing");
    assert_eq!(problem("[backends.rocm]", "[backends.rocn]"), "/backends/rocn: unknown key");
    assert_eq!(problem("native = false", "native = \"off\""), "/project/native: \"off\" is not \"boolean\"");
}

#[test]
fn files_of_templates_match_the_schema_and_name_its_address() {
    let first = format!("#:schema {}\n", project_file_address());
    for template in templates() {
        for backends in [BackendSelection::Auto, BackendSelection::Named(template.about.backends.clone())] {
            let request =
                RenderRequest { template, name: "my-lib", backends, gpubuild: CrateDependency::Published };
            let files = render::files(&request);
            let file = files.iter().find(|file| file.path == project::FILE_NAME).unwrap();
            assert!(file.text.starts_with(&first), "{}", template.id);
            assert_eq!(check(&file.text), None, "{}", template.id);
        }
    }
}

#[test]
fn entry_for_schema_store_names_the_address() {
    let entry: Value = serde_json::from_str(&read("packaging/schemastore.json")).unwrap();
    assert_eq!(
        (&entry["fileMatch"], &entry["url"]),
        (&json!([project::FILE_NAME]), &json!(project_file_address()))
    );
}
