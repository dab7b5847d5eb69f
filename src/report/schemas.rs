//! The published JSON schemas, `docs/reference/schemas/`: one file per document, and one for gpubuild.toml.

use std::collections::BTreeMap;
use std::path::Path;

use gpubuild_core::backend::Backend;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_detect::{facts, id};
use gpubuild_exec::exec::BuildEvent;
use gpubuild_host::{Arch, Os, RecordedHost};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::project::{self, ProjectFile};
use gpubuild_release::ReleaseManifest;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::bench::{BackendBench, BenchDocument};
use super::cache::{CacheReport, ExplainDocument, PruneDocument};
use super::ci::{CiReport, PreflightDocument};
use super::ci_files::{CiInitReport, CiRunReport, CiVerifyReport};
use super::ci_images::CiImagesReport;
use super::clean::CleanReport;
use super::detect::DetectReport;
use super::doctor::DoctorReport;
use super::estimate::EstimateReport;
use super::explain::{BackendDocument, ErrorDocument, FindingDocument};
use super::export::ExportReport;
use super::fetch::FetchReport;
use super::hostile::{self, HostileValues};
use super::install::{InstallReport, InstalledListReport};
use super::link::LinkDocument;
use super::man::ManReport;
use super::new::{NewReport, TemplateListReport};
use super::pack::PackReport;
use super::packages::PackagesReport;
use super::plan::PlanReport;
use super::recording::{RecordingReport, WrittenReport};
use super::remote::{RemotePruneReport, StatReport, TransferReport};
use super::resolve::ResolveReport;
use super::resolvers::ResolversReport;
use super::setup::SetupLine;
use super::test::{BackendTests, TestDocument};
use super::timings::TimingsReport;
use super::toolkit;
use super::toolkit_lock::LockReport;
use super::toolkit_packages::PackageDryRun;
use super::venv::VenvDocument;
use super::wheels::WheelsReport;
use crate::cli::build::ProgressLine;
use crate::cli::doctor::list::CheckListReport;
use crate::cli::doctor::self_check::SelfCheckReport;
use crate::cli::failure::{Failure, FailureLine, FailureReport};

/// A line of `build --message-format json`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum BuildLine<'a> {
    Event(BuildEvent),
    Progress(ProgressLine<'a>),
    Failure(FailureLine<'a>),
}

/// A line of `setup --json`.
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum SetupEvent<'a> {
    Line(SetupLine<'a>),
    Failure(FailureLine<'a>),
}

/// Descriptions come from doc comments: joins their lines, and removes the brackets of links to Rust items.
fn tidy_description(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
        *text = paragraphs.collect::<Vec<_>>().join("\n\n").replace("[`", "`").replace("`]", "`");
    }
}

/// TOML has no null, and an empty default says nothing.
fn without_null(schema: &mut Schema) {
    let is_null = |value: &Value| *value == "null" || value["type"] == "null";
    for key in ["type", "anyOf"] {
        if let Some(Value::Array(choices)) = schema.get_mut(key) {
            choices.retain(|choice| !is_null(choice));
            if let (true, [Value::String(kind)]) = (key == "type", choices.as_slice()) {
                let kind = kind.clone();
                schema.insert(key.to_owned(), kind.into());
            }
        }
    }
    if schema.get("default").is_some_and(|value| *value == json!([]) || *value == json!({})) {
        schema.remove("default");
    }
    transform_subschemas(&mut without_null, schema);
}

/// The schema of a type as it is written: keys that may be left out are not required.
fn written<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let generator = settings.with_transform(RecursiveTransform(tidy_description)).into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

/// The schema of a document whose key `schema` has one of these names.
fn document<T: JsonSchema>(names: &[&str]) -> Value {
    let mut schema = written::<T>(names[0]);
    let name = if let [name] = names { json!({ "const": name }) } else { json!({ "enum": names }) };
    schema["properties"]["schema"] = json!({
        "description": "Name and version of the document's format.",
        "type": "object",
        "properties": {
            "name": name,
            "version": {
                "description": "Increases when a key is removed or changes its meaning, but not when a key is added.",
                "const": 1,
            },
        },
        "required": ["name", "version"],
    });
    if let Some(definitions) = schema["$defs"].as_object_mut() {
        definitions.remove("Schema");
    }
    schema
}

/// The address at which editors find the schema of gpubuild.toml.
pub(super) fn project_file_address() -> String {
    let repository =
        env!("CARGO_PKG_REPOSITORY").replace("https://github.com/", "https://raw.githubusercontent.com/");
    format!("{repository}/main/docs/reference/schemas/gpubuild-toml.json")
}

/// The schema of gpubuild.toml, in a draft that every TOML editor supports.
pub(super) fn project_file() -> Value {
    let settings = SchemaSettings::draft07().with_transform(RecursiveTransform(tidy_description));
    let generator = settings.with_transform(without_null).into_generator();
    let mut schema = generator.into_root_schema_for::<ProjectFile>();
    schema.insert("title".to_owned(), project::FILE_NAME.into());
    schema.insert("$id".to_owned(), project_file_address().into());
    schema.to_value()
}

/// The schemas by file name.
fn schemas() -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        ("artifact-manifest", written::<Manifest>("artifact-manifest")),
        ("bench", document::<BenchDocument>(&["bench"])),
        ("build-events", written::<BuildLine<'_>>("build-events")),
        ("cache", document::<CacheReport>(&["cache"])),
        ("cache-explain", document::<ExplainDocument>(&["cache-explain"])),
        ("cache-prune-remote", document::<RemotePruneReport>(&["cache-prune-remote"])),
        ("cache-stat", document::<StatReport>(&["cache-stat"])),
        ("cache-transfer", document::<TransferReport>(&["cache-push", "cache-pull"])),
        ("cache-prune", document::<PruneDocument>(&["cache-prune"])),
        ("checks", document::<CheckListReport<'_>>(&["checks"])),
        ("ci", document::<CiReport<'_>>(&["ci"])),
        ("ci-images", document::<CiImagesReport<'_>>(&["ci-images"])),
        ("ci-init", document::<CiInitReport>(&["ci-init"])),
        ("ci-run", document::<CiRunReport<'_>>(&["ci-run"])),
        ("ci-verify", document::<CiVerifyReport>(&["ci-verify"])),
        ("clean", document::<CleanReport>(&["clean"])),
        ("detect", document::<DetectReport>(&["detect"])),
        ("doctor", document::<DoctorReport>(&["doctor", "audit"])),
        ("error", document::<FailureReport<'_>>(&["error"])),
        ("estimate", document::<EstimateReport>(&["estimate"])),
        ("explain-backend", document::<BackendDocument>(&["explain"])),
        ("explain-error", document::<ErrorDocument>(&["explain"])),
        ("explain-finding", document::<FindingDocument>(&["explain"])),
        ("export", document::<ExportReport<'_>>(&["export"])),
        ("fetch", document::<FetchReport>(&["fetch", "update"])),
        ("gpubuild-toml", project_file()),
        ("host-record", document::<RecordingReport>(&["host-record"])),
        ("install", document::<InstallReport<'_>>(&["install"])),
        ("installed", document::<InstalledListReport>(&["installed"])),
        ("link", document::<LinkDocument<'_>>(&["link"])),
        ("man", document::<ManReport>(&["man"])),
        ("new", document::<NewReport<'_>>(&["new"])),
        ("pack", document::<PackReport<'_>>(&["pack"])),
        ("packages", document::<PackagesReport>(&["packages"])),
        ("plan", document::<PlanReport<'_>>(&["plan"])),
        ("preflight", document::<PreflightDocument<'_>>(&["preflight"])),
        ("release-manifest", written::<ReleaseManifest>("release-manifest")),
        ("report", document::<WrittenReport>(&["report"])),
        ("resolve", document::<ResolveReport<'_>>(&["resolve"])),
        ("resolvers", document::<ResolversReport>(&["resolvers"])),
        ("self-check", document::<SelfCheckReport>(&["self-check"])),
        ("setup-events", written::<SetupEvent<'_>>("setup-events")),
        ("templates", document::<TemplateListReport<'_>>(&["templates"])),
        ("test", document::<TestDocument>(&["test"])),
        ("timings", document::<TimingsReport<'_>>(&["timings"])),
        ("toolkit-env", document::<toolkit::Env<'_>>(&["toolkit-env"])),
        ("toolkit-install", document::<toolkit::Install>(&["toolkit-install"])),
        ("toolkit-install-plan", document::<toolkit::DryRun>(&["toolkit-install-plan"])),
        ("toolkit-list", document::<toolkit::ToolkitListReport>(&["toolkit-list"])),
        ("toolkit-packages-plan", document::<PackageDryRun>(&["toolkit-packages-plan"])),
        ("toolkit-lock", document::<LockReport>(&["toolkit-lock"])),
        ("toolkit-remove", document::<toolkit::Remove>(&["toolkit-remove"])),
        ("toolkit-verify", document::<toolkit::Verify>(&["toolkit-verify"])),
        ("venv", document::<VenvDocument>(&["venv"])),
        ("wheels", document::<WheelsReport<'_>>(&["wheels"])),
    ])
}

/// The first place where a value does not match a schema, for the keywords that the published schemas use. Stricter than JSON Schema:
/// a key that the schema does not list is a mismatch.
pub(super) fn mismatch(value: &Value, schema: &Value, root: &Value, at: &str) -> Option<String> {
    let nested = |schema: &Value| mismatch(value, schema, root, at);
    let list = |key: &str| schema[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let target =
        schema["$ref"].as_str().and_then(|reference| root.pointer(reference.trim_start_matches('#')));
    if let Some(problem) = target.into_iter().chain(list("allOf")).find_map(nested) {
        return Some(problem);
    }
    for key in ["anyOf", "oneOf"] {
        if !list(key).is_empty() && list(key).iter().all(|choice| nested(choice).is_some()) {
            return Some(format!("{at}: {value} matches none of {key}"));
        }
    }
    if schema.get("const").is_some_and(|only| only != value)
        || schema.get("enum").is_some_and(|_| !list("enum").contains(value))
    {
        return Some(format!("{at}: {value} is not an allowed value"));
    }
    let kinds: &[&str] = match value {
        Value::Null => &["null"],
        Value::Bool(_) => &["boolean"],
        Value::Number(number) if number.is_f64() => &["number"],
        Value::Number(_) => &["integer", "number"],
        Value::String(_) => &["string"],
        Value::Array(_) => &["array"],
        Value::Object(_) => &["object"],
    };
    let is_kind = |kind: &Value| kinds.iter().any(|one| kind == one);
    if schema.get("type").is_some_and(|kind| !is_kind(kind) && !list("type").iter().any(is_kind)) {
        return Some(format!("{at}: {value} is not {}", schema["type"]));
    }
    match value {
        Value::Array(items) => items.iter().find_map(|item| mismatch(item, &schema["items"], root, at)),
        Value::Object(map) => {
            let is_missing = |key: &&Value| key.as_str().is_some_and(|key| !map.contains_key(key));
            if let Some(key) = list("required").iter().find(is_missing) {
                return Some(format!("{at}: {key} is missing"));
            }
            map.iter().find_map(|(key, value)| {
                let at = format!("{at}/{key}");
                match schema["properties"].get(key).or(schema.get("additionalProperties")) {
                    Some(Value::Bool(false)) => Some(format!("{at}: unknown key")),
                    None if schema.get("properties").is_some() => Some(format!("{at}: unknown key")),
                    None => None,
                    Some(schema) => mismatch(value, schema, root, &at),
                }
            })
        }
        _ => None,
    }
}

/// Lists the properties without a description. The only key of an enum variant has that of the variant.
fn undescribed(schema: &Value, at: &str, found: &mut Vec<String>) {
    let properties = schema["properties"].as_object().filter(|map| map.len() > 1 || !at.ends_with(".oneOf"));
    for (name, property) in properties.into_iter().flatten() {
        let is_constant = property.get("const").or(property.get("enum")).is_some();
        if property.get("description").is_none() && !is_constant && property.get("$ref").is_none() {
            found.push(format!("{at}.{name}"));
        }
    }
    match schema {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| undescribed(value, &format!("{at}.{key}"), found));
        }
        Value::Array(items) => items.iter().for_each(|item| undescribed(item, at, found)),
        _ => {}
    }
}

#[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
pub(super) fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_default()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test compares its own files")]
fn published_schemas_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/schemas");
    let is_update = std::env::var_os("GPUBUILD_UPDATE_DOCS").is_some();
    std::fs::create_dir_all(&folder).unwrap();
    let schemas = schemas();
    for (name, schema) in &schemas {
        let path = folder.join(format!("{name}.json"));
        let text = format!("{}\n", serde_json::to_string_pretty(schema).unwrap());
        if is_update {
            std::fs::write(&path, &text).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(published == text, "{} is out of date: run with GPUBUILD_UPDATE_DOCS=1", path.display());
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(schemas.contains_key(name.as_str()), "{} belongs to no document", path.display());
    }
}

#[test]
fn schemas_are_linked_and_describe_every_key() {
    let pages = read("docs/reference/json.md") + &read("docs/reference/project-file.md");
    let mut found = Vec::new();
    for (name, schema) in &schemas() {
        assert!(pages.contains(&format!("](schemas/{name}.json)")), "no page links schemas/{name}.json");
        undescribed(schema, name, &mut found);
    }
    assert!(found.is_empty(), "keys without a doc comment: {found:#?}");
}

#[test]
fn documents_match_their_schemas() {
    let schemas = schemas();
    let check = |name: &str, document: Value| {
        let problem = mismatch(&document, &schemas[name], &schemas[name], name);
        assert!(problem.is_none(), "{}\n{document:#}", problem.unwrap());
    };
    let failure = Failure::usage(id!("usage.conflict"), "two options").hint("omit one");
    check("error", json!(failure.document()));
    check("build-events", json!(failure.line()));
    check("build-events", json!(BuildEvent::Compiled { tree: "cpu".to_owned(), success: true }));
    check("doctor", json!(hostile::machine(&HostileValues::all("value"))));
    check("templates", json!(TemplateListReport::new(crate::new::templates())));
    let facts = facts::gather(&RecordedHost::builder(Os::Linux, Arch::X86_64).build());
    check("toolkit-list", json!(toolkit::ToolkitListReport::new(&[], &Catalogue::embedded(), &facts)));
    let reason = "no device";
    check("bench", json!(BenchDocument::new(vec![BackendBench::without(Backend::Cuda, reason.to_owned())])));
    check("test", json!(TestDocument::new(vec![BackendTests::broken(Backend::Cuda, reason)])));
}
