//! Generated pages of the documentation match their data.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test reads and writes its own files")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gpubuild::report::reference;
use gpubuild_detect::diagnostic;
use gpubuild_detect::finding::Findings;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::search::star_matches;
use serde_json::Value;

fn check(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/reference").join(name);
    if std::env::var_os("GPUBUILD_UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "docs/reference/{name} is not what the data makes: run with GPUBUILD_UPDATE_DOCS=1"
    );
}

#[test]
fn backends_page_is_up_to_date() {
    check("backends.md", &reference::backends(&Catalogue::embedded()));
}

#[test]
fn findings_page_is_up_to_date() {
    check("findings.md", &reference::findings(&Findings::embedded()));
}

/// The text of every Rust file below a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_catalogued_error_is_used() {
    let mut text = String::new();
    for folder in ["src", "crates"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut text);
    }
    let errors = diagnostic::errors();
    let idle: Vec<&String> = errors.keys().filter(|id| !text.contains(&format!("\"{id}\""))).collect();
    assert!(idle.is_empty(), "no code uses {idle:?}: remove them from findings/errors.toml");
}

#[test]
fn errors_page_is_up_to_date() {
    check("errors.md", &reference::errors(&diagnostic::errors()));
}

#[test]
fn command_line_page_is_up_to_date() {
    check("command-line.md", &gpubuild::cli::reference::page());
}

/// The definition that a schema refers to: directly, or in addition to a description.
fn definition<'a>(schema: &'a Value, definitions: &'a Value) -> &'a Value {
    match schema["allOf"][0]["$ref"].as_str().or(schema["$ref"].as_str()) {
        Some(reference) => &definitions[reference.rsplit('/').next().unwrap()],
        None => schema,
    }
}

/// The types that a value in gpubuild.toml may have.
fn toml_types(schema: &Value, definitions: &Value) -> Vec<String> {
    let schema = definition(schema, definitions);
    if *schema == definitions["Backend"] {
        return vec!["backend id".to_owned()];
    }
    if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        return choices.iter().flat_map(|choice| toml_types(choice, definitions)).collect();
    }
    if let Some(value) = schema.get("const") {
        return vec![format!("`{value}`")];
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| format!("`{value}`")).collect();
    }
    vec![match schema["type"].as_str().unwrap() {
        "array" => {
            let items = toml_types(&schema["items"], definitions);
            format!("array of {}s", items.join("s or "))
        }
        "object" if schema["properties"].get("rocm").is_some() => "table by backend id".to_owned(),
        "object" => "table".to_owned(),
        kind => kind.to_owned(),
    }]
}

/// The properties of a table: required ones first.
fn sorted_keys(table: &Value) -> Vec<(&String, &Value, bool)> {
    let is_required =
        |key: &str| table["required"].as_array().is_some_and(|keys| keys.iter().any(|one| one == key));
    let keys = table["properties"].as_object().unwrap().iter();
    let mut keys: Vec<_> = keys.map(|(key, value)| (key, value, is_required(key))).collect();
    keys.sort_by_key(|(_, _, is_required)| !is_required);
    keys
}

/// The section of a table, and of the tables in it.
fn key_section(heading: &str, about: &Value, table: &Value, definitions: &Value) -> String {
    let mut page = format!("\n## {heading}\n\n{}\n", about["description"].as_str().unwrap());
    page += "\n| key | type | default | meaning |\n|---|---|---|---|\n";
    let mut sections = String::new();
    for (key, property, is_required) in sorted_keys(table) {
        let types = toml_types(property, definitions).join(", ");
        let default = match property.get("default") {
            _ if is_required => "required".to_owned(),
            Some(value) if value.is_object() => String::new(),
            Some(value) => format!("`{value}`"),
            None => String::new(),
        };
        let meaning = property["description"].as_str().unwrap().replace('|', "\\|");
        let _ = writeln!(page, "| `{key}` | {types} | {default} | {meaning} |");
        let inner = definition(property, definitions);
        if inner != property && inner["properties"].is_object() {
            let heading = format!("{}.{key}]", heading.trim_end_matches(']'));
            sections += &key_section(&heading, property, inner, definitions);
        }
    }
    page + &sections
}

#[test]
fn project_file_keys_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let schema = std::fs::read_to_string(root.join("docs/reference/schemas/gpubuild-toml.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let definitions = &schema["definitions"];
    let mut page = format!(
        "{}\n# Keys of gpubuild.toml\n\n[gpubuild.toml](project-file.md) explains the file with an example; \
         [the JSON schema](schemas/gpubuild-toml.json) lists the same keys for editors.\n\n\
         `schema = 1`, the version of the format, is required.\n",
        reference::GENERATED
    );
    for (name, property, _) in sorted_keys(&schema) {
        let (heading, table) = match property["type"].as_str() {
            Some("array") => (format!("[[{name}]]"), &property["items"]),
            Some("object") => (format!("[{name}.ID]"), &property["properties"]["cpu"]),
            Some(_) => continue,
            None => (format!("[{name}]"), property["anyOf"].get(0).unwrap_or(property)),
        };
        page += &key_section(&heading, property, definition(table, definitions), definitions);
    }
    check("project-file-keys.md", &page);
}

/// `findings/docs/known-failures.toml`.
#[derive(serde::Deserialize)]
struct KnownFailures {
    failure: Vec<KnownFailure>,
}

#[derive(serde::Deserialize)]
struct KnownFailure {
    id: String,
    symptom: String,
    gpubuild: String,
    limit: Option<String>,
}

#[test]
fn known_failures_page_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("findings/docs/known-failures.toml")).unwrap();
    let known: KnownFailures = toml::from_str(&text).unwrap();
    let mut page = format!(
        "{}\n# Known failures\n\nFailures that users of llama.cpp, whisper.cpp, ort, candle, PyTorch and their bindings report \
         again and again, and what gpubuild does about each.\n\n| id | symptom | what gpubuild does |\n|---|---|---|\n",
        reference::GENERATED
    );
    for one in &known.failure {
        let _ = writeln!(page, "| {} | {} | {} |", one.id, one.symptom, one.gpubuild);
    }
    page += "\nPartly covered, or not shown:\n\n";
    for one in &known.failure {
        if let Some(limit) = &one.limit {
            let _ = writeln!(page, "- {}: {limit}", one.id);
        }
    }
    check("known-failures.md", &page);
}

/// A console block: a command, and the output that the page shows.
struct ConsoleBlock {
    place: String,
    command: String,
    output: Vec<String>,
}

/// The blocks of a page that are marked with `console,tested`. A block has one command, which starts with `$ gpubuild `.
fn tested_blocks(page: &Path, blocks: &mut Vec<ConsoleBlock>) {
    let text = std::fs::read_to_string(page).unwrap();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line != "```console,tested" {
            continue;
        }
        let place = format!("{}:{}", page.display(), number + 1);
        let mut block = lines.by_ref().map(|(_, line)| line.to_owned()).take_while(|line| line != "```");
        let command = block.next().unwrap();
        let command = command.strip_prefix("$ gpubuild ").unwrap_or_else(|| panic!("{place}: no command"));
        blocks.push(ConsoleBlock { place, command: command.to_owned(), output: block.collect() });
    }
}

/// Whether lines match; `…` alone on a line is any number of lines, and within a line any text.
fn lines_match(shown: &[String], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line.trim() == "…" => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed.split_first().is_some_and(|(first, printed)| {
            star_matches(&line.replace('…', "*"), first) && lines_match(rest, printed)
        }),
    }
}

/// Every page that people read.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = walkdir::WalkDir::new(root.join("docs")).sort_by_file_name();
    let pages = files.into_iter().map(|entry| entry.unwrap().into_path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    std::iter::once(root.join("README.md")).chain(pages).collect()
}

#[test]
fn console_blocks_show_what_gpubuild_prints() {
    let mut blocks = Vec::new();
    for page in pages() {
        tested_blocks(&page, &mut blocks);
    }
    assert!(blocks.len() >= 4, "only {} blocks are marked with `console,tested`", blocks.len());
    let home = tempfile::tempdir().unwrap();
    for block in blocks {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_gpubuild"))
            .args(shlex::split(&block.command).unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("HOME", home.path())
            .env("GPUBUILD_CACHE", home.path().join("cache"))
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
        assert!(
            lines_match(&block.output, &printed),
            "{}: `gpubuild {}` prints\n{}",
            block.place,
            block.command,
            printed.join("\n")
        );
    }
}
