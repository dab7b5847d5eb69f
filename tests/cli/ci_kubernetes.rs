//! The documents of `ci matrix --format kubernetes`, compared with the shape of Kubernetes' published schema.

use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value, json};

use crate::support::Sandbox;

const PROJECT: &str = r#"schema = 1
[project]
name = "demo"
source = "vendor"
[binary]
package = "app"
[backends.vulkan]
options = { X = "ON" }
[[variants]]
name = "cpu"
backends = ["cpu"]
images = ["ubuntu-24.04", "debian-12", "ubuntu-24.04-arm", "windows-2022"]
[[variants]]
name = "vulkan"
backends = ["cpu", "vulkan"]
images = ["debian-12"]
"#;

/// The fields of `batch/v1` Job that may appear, by object: the names and types of the API reference of Kubernetes 1.33. A type is
/// `string`, `integer`, `boolean`, `quantity`, `map`, another object, or a list of them.
const SCHEMA: &[(&str, &[(&str, &str)])] = &[
    ("Job", &[("apiVersion", "string"), ("kind", "string"), ("metadata", "ObjectMeta"), ("spec", "JobSpec")]),
    ("ObjectMeta", &[("name", "string"), ("labels", "map"), ("annotations", "map")]),
    (
        "JobSpec",
        &[
            ("activeDeadlineSeconds", "integer"),
            ("backoffLimit", "integer"),
            ("backoffLimitPerIndex", "integer"),
            ("completionMode", "string"),
            ("completions", "integer"),
            ("parallelism", "integer"),
            ("template", "PodTemplateSpec"),
        ],
    ),
    ("PodTemplateSpec", &[("metadata", "ObjectMeta"), ("spec", "PodSpec")]),
    (
        "PodSpec",
        &[
            ("activeDeadlineSeconds", "integer"),
            ("automountServiceAccountToken", "boolean"),
            ("containers", "[Container]"),
            ("initContainers", "[Container]"),
            ("nodeSelector", "map"),
            ("restartPolicy", "string"),
            ("volumes", "[Volume]"),
        ],
    ),
    (
        "Container",
        &[
            ("command", "[string]"),
            ("env", "[EnvVar]"),
            ("image", "string"),
            ("name", "string"),
            ("resources", "ResourceRequirements"),
            ("volumeMounts", "[VolumeMount]"),
        ],
    ),
    ("EnvVar", &[("name", "string"), ("value", "string"), ("valueFrom", "EnvVarSource")]),
    ("EnvVarSource", &[("secretKeyRef", "SecretKeySelector")]),
    ("SecretKeySelector", &[("key", "string"), ("name", "string"), ("optional", "boolean")]),
    ("ResourceRequirements", &[("limits", "map"), ("requests", "map")]),
    ("VolumeMount", &[("mountPath", "string"), ("name", "string")]),
    (
        "Volume",
        &[
            ("emptyDir", "map"),
            ("name", "string"),
            ("persistentVolumeClaim", "PersistentVolumeClaimVolumeSource"),
        ],
    ),
    ("PersistentVolumeClaimVolumeSource", &[("claimName", "string"), ("readOnly", "boolean")]),
];

/// The fields that the schema requires.
const REQUIRED: &[(&str, &[&str])] = &[
    ("Job", &["apiVersion", "kind", "metadata", "spec"]),
    ("JobSpec", &["template"]),
    ("PodTemplateSpec", &["spec"]),
    ("PodSpec", &["containers", "restartPolicy"]),
    ("Container", &["name", "image"]),
    ("EnvVar", &["name"]),
    ("SecretKeySelector", &["key"]),
    ("VolumeMount", &["mountPath", "name"]),
    ("Volume", &["name"]),
    ("PersistentVolumeClaimVolumeSource", &["claimName"]),
];

/// Checks a value against a type of [`SCHEMA`].
fn check(value: &Value, kind: &str, at: &str) -> Result<(), String> {
    let wrong = || Err(format!("{at}: {value} is not a {kind}"));
    if let Some(item) = kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) {
        let Value::Array(items) = value else { return wrong() };
        return items
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| check(value, item, &format!("{at}[{index}]")));
    }
    match (kind, value) {
        ("string", Value::String(_)) | ("integer", Value::Number(_)) | ("boolean", Value::Bool(_)) => Ok(()),
        ("map", Value::Object(map)) => {
            map.iter().try_for_each(|(key, value)| check(value, "string", &format!("{at}.{key}")))
        }
        (_, Value::Object(map)) => {
            let Some((_, fields)) = SCHEMA.iter().find(|(name, _)| *name == kind) else { return wrong() };
            for (key, value) in map {
                let Some((_, kind)) = fields.iter().find(|(name, _)| name == key) else {
                    return Err(format!("{at}: {kind} has no field {key}"));
                };
                check(value, kind, &format!("{at}.{key}"))?;
            }
            let required = REQUIRED.iter().filter(|(name, _)| *name == kind).flat_map(|(_, keys)| *keys);
            match required.into_iter().find(|key| !map.contains_key(**key)) {
                Some(missing) => Err(format!("{at}: {kind} lacks {missing}")),
                None => Ok(()),
            }
        }
        _ => wrong(),
    }
}

/// The documents of a YAML stream.
fn documents(text: &str) -> Vec<Value> {
    let mut events = Parser::new_from_str(text).map(|event| event.unwrap().0).peekable();
    let mut all = Vec::new();
    while let Some(event) = events.next() {
        if matches!(event, Event::DocumentStart(_)) {
            let first = events.next().unwrap();
            all.push(node(first, &mut events));
        }
    }
    all
}

fn node<'a>(event: Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Value {
    match event {
        Event::Scalar(text, style, ..) => {
            let plain = matches!(style, saphyr_parser::ScalarStyle::Plain);
            let typed = if plain { serde_json::from_str(&text).ok() } else { None };
            typed.unwrap_or_else(|| Value::String(text.into_owned()))
        }
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match events.next().unwrap() {
                    Event::SequenceEnd => return Value::Array(items),
                    event => items.push(node(event, events)),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut map = Map::new();
            loop {
                match events.next().unwrap() {
                    Event::MappingEnd => return Value::Object(map),
                    event => {
                        let Value::String(key) = node(event, events) else { panic!("a key is not a string") };
                        let first = events.next().unwrap();
                        assert!(map.insert(key, node(first, events)).is_none(), "a key is repeated");
                    }
                }
            }
        }
        other => panic!("{other:?}"),
    }
}

fn project(lines: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("it's sub: #1/gpubuild.toml", &format!("{PROJECT}{lines}"));
    sandbox.write("it's sub: #1/vendor/CMakeLists.txt", "project(x C)\n");
    sandbox.write(".git/HEAD", "ref: refs/heads/main\n");
    sandbox
}

fn manifest(sandbox: &Sandbox, more: &[&str]) -> String {
    let all = ["ci", "matrix", "--project", "it's sub: #1", "--format", "kubernetes"];
    let ran = sandbox.run(&[&all[..], more].concat());
    ran.succeeds();
    ran.stdout.clone()
}

/// The value of a variable of the only container.
fn variable<'a>(job: &'a Value, name: &str) -> &'a str {
    let env = job["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    env.iter().find(|one| one["name"] == name).unwrap()["value"].as_str().unwrap()
}

#[test]
fn kubernetes_jobs_match_the_published_schema() {
    let sandbox =
        project("[ci]\ninstall = \"cargo install gpubuild\\ntrue\"\ncommand = \"gpubuild --quiet\"\n");
    let text = manifest(&sandbox, &["--platform", "linux-x86_64", "--run", "ci-17"]);
    let jobs = documents(&text);
    for job in &jobs {
        check(job, "Job", "Job").unwrap_or_else(|problem| panic!("{problem}\n{text}"));
        assert_eq!((&job["apiVersion"], &job["kind"]), (&json!("batch/v1"), &json!("Job")));
    }
    let names: Vec<&str> = jobs.iter().map(|job| job["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["gpubuild-ci-17-rows-0", "gpubuild-ci-17-rows-1", "gpubuild-ci-17-merge"]);
    // One Job for each container.
    let pod = |index: usize| &jobs[index]["spec"]["template"]["spec"];
    assert_eq!(pod(0)["containers"][0]["image"], "ubuntu:24.04");
    assert_eq!(pod(1)["containers"][0]["image"], "debian:12");
    assert_eq!(variable(&jobs[0], "ROWS"), "cpu-ubuntu-24.04");
    assert_eq!(variable(&jobs[1], "ROWS"), "cpu-debian-12\nvulkan-debian-12");
    assert_eq!(jobs[1]["spec"]["completions"], 2);
    assert_eq!(jobs[1]["spec"]["completionMode"], "Indexed");
    assert_eq!(variable(&jobs[2], "PACKING"), "cpu-ubuntu-24.04\nvulkan-debian-12");
    assert_eq!(variable(&jobs[0], "FOLDER"), "it's sub: #1");
    assert_eq!(pod(2)["initContainers"][0]["name"], "wait");
    let limits = &pod(1)["containers"][0]["resources"];
    assert_eq!(limits["requests"], json!({"cpu": "4", "memory": "4096Mi"}));
    assert_eq!(pod(1)["activeDeadlineSeconds"], 360 * 60);
    let script = pod(1)["containers"][0]["command"][2].as_str().unwrap();
    assert!(script.contains("\ncargo install gpubuild\ntrue\n"), "{script}");
    assert!(
        script.contains("  gpubuild --quiet ci run \"$row\" --setup --cache-dir /farm/cache --pack\n"),
        "{script}"
    );
    for placeholder in ["@run@", "@rows@", "@image@", "@prepare@", "@install@", "@gpubuild@", "@packing@"] {
        assert!(!text.contains(placeholder), "{placeholder}");
    }
    // The doctor has no complaint about the documents.
    sandbox.write("farm.yaml", &text);
    sandbox.run(&["doctor", "--file", "farm.yaml"]).succeeds();
}

#[test]
fn kubernetes_scripts_are_valid_and_use_the_row_of_their_index() {
    let sandbox = project("[ci]\ninstall = \"true\"\ncommand = \"fake\"\n");
    let jobs = documents(&manifest(&sandbox, &["--platform", "linux-x86_64"]));
    for job in &jobs {
        let pod = &job["spec"]["template"]["spec"];
        let lists = [&pod["containers"], &pod["initContainers"]];
        for container in lists.iter().filter_map(|list| list.as_array()).flatten() {
            let script = container["command"][2].as_str().unwrap();
            sandbox.start(&["sh", "-n", "-c", script]).succeeds();
        }
    }
    let script = jobs[1]["spec"]["template"]["spec"]["containers"][0]["command"][2].as_str().unwrap();
    let first = script.lines().next().unwrap();
    let rows = variable(&jobs[1], "ROWS");
    let program = format!("export ROWS='{rows}' JOB_COMPLETION_INDEX=1\n{first}\necho \"$row\"");
    assert_eq!(sandbox.start(&["sh", "-ec", &program]).stdout, "vulkan-debian-12\n");
}

#[test]
fn kubernetes_jobs_are_for_one_platform() {
    let sandbox = project("");
    let jobs = documents(&manifest(&sandbox, &["--platform", "linux-aarch64"]));
    assert_eq!(jobs.len(), 2);
    assert_eq!(jobs[0]["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/arch"], "arm64");
    let all = ["ci", "matrix", "--project", "it's sub: #1", "--format", "kubernetes"];
    for run in ["Big", "", "a b", "-a", "a-", "0123456789012345678901234567890"] {
        let ran = sandbox.run(&[&all[..], &["--run", run]].concat());
        assert_eq!(ran.exit, Some(2), "{run}: {ran:#?}");
    }
    let ran = sandbox.run(&[&all[..], &["--variant", "vulkan", "--platform", "windows-x86_64"]].concat());
    ran.fails(2, "ci.no-jobs");
}
