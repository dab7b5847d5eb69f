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
    assert_eq!(variable(&jobs[0], "JOBS"), "cpu-ubuntu-24.04");
    assert_eq!(variable(&jobs[1], "JOBS"), "cpu-debian-12\nvulkan-debian-12");
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
    assert!(!has_placeholder(&text), "{text}");
    // The doctor has no complaint about the documents.
    sandbox.write("farm.yaml", &text);
    sandbox.run(&["doctor", "--file", "farm.yaml"]).succeeds();
}

/// Whether `@name@` was left in a text.
fn has_placeholder(text: &str) -> bool {
    let mut parts = text.split('@').skip(1);
    parts.any(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase()))
}

const GPU_IMAGES: &str = r#"
[ci.images.gpu]
host = "gpu.toml"
container = "cuda:13"
[ci.images.large]
host = "gpu.toml"
container = "cuda:13"
kubernetes = { limits = { "nvidia.com/gpu" = "2", memory = "32Gi" }, node_selector = { "gpu.type" = "h100" } }
[ci.images.machine]
host = "gpu.toml"
"#;

#[test]
fn kubernetes_tests_request_a_gpu_and_the_merge_waits_for_them() {
    let sandbox = project(GPU_IMAGES);
    let host = include_str!("../hosts/ubuntu-22.04-rtx4090.toml");
    sandbox.write("it's sub: #1/gpu.toml", host);
    let file = sandbox.read("it's sub: #1/gpubuild.toml");
    let tested = "images = [\"debian-12\"]\ntest_images = [\"gpu\", \"large\", \"machine\"]\n";
    sandbox.write("it's sub: #1/gpubuild.toml", &file.replace("images = [\"debian-12\"]\n", tested));
    let selection = ["--platform", "linux-x86_64", "--run", "17", "--variant", "vulkan"];
    let all = ["ci", "matrix", "--project", "it's sub: #1", "--format", "kubernetes"];
    let built = sandbox.run(&[&all[..], &selection].concat());
    built.succeeds();
    let omitted = "omitted vulkan-debian-12-on-machine: no container";
    assert!(built.stderr.contains(omitted), "{built:#?}");
    let builds = documents(&built.stdout);
    let wait = &builds[1]["spec"]["template"]["spec"]["initContainers"][0]["env"][0];
    let awaited =
        ["packed/vulkan-debian-12", "tested/vulkan-debian-12-on-gpu", "tested/vulkan-debian-12-on-large"];
    assert_eq!(*wait, json!({"name": "AWAITED", "value": awaited.join("\n")}));
    let limits =
        |job: &Value| job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"].clone();
    assert_eq!(limits(&builds[0]), json!({"memory": "4096Mi"}));

    let ran = sandbox.run(&[&all[..], &selection, &["--tests"]].concat());
    ran.succeeds();
    assert!(ran.stderr.contains(omitted), "{ran:#?}");
    let tests = documents(&ran.stdout);
    for job in &tests {
        check(job, "Job", "Job").unwrap_or_else(|problem| panic!("{problem}\n{}", ran.stdout));
        assert_eq!(job["metadata"]["labels"], json!({"gpubuild-run": "17", "gpubuild-jobs": "tests"}));
    }
    assert!(!has_placeholder(&ran.stdout), "{}", ran.stdout);
    assert_eq!(variable(&tests[0], "JOBS"), "vulkan-debian-12-on-gpu");
    assert_eq!(variable(&tests[0], "PACKING"), "vulkan-debian-12");
    assert_eq!(limits(&tests[0]), json!({"memory": "4096Mi", "nvidia.com/gpu": "1"}));
    assert_eq!(limits(&tests[1]), json!({"memory": "32Gi", "nvidia.com/gpu": "2"}));
    let selector = &tests[1]["spec"]["template"]["spec"]["nodeSelector"];
    assert_eq!(selector["gpu.type"], "h100");
}

/// Runs the scripts of a row, of a test and of the merge, with a folder in the place of the volume and a program in the place of gpubuild.
#[test]
fn kubernetes_scripts_pass_packages_on() {
    let sandbox = project(&format!("{GPU_IMAGES}[ci]\ninstall = \"true\"\ncommand = \"fake\"\n"));
    sandbox.write("it's sub: #1/gpu.toml", include_str!("../hosts/ubuntu-22.04-rtx4090.toml"));
    let file = sandbox.read("it's sub: #1/gpubuild.toml");
    let tested = "images = [\"debian-12\"]\ntest_images = [\"gpu\"]\n";
    sandbox.write("it's sub: #1/gpubuild.toml", &file.replace("images = [\"debian-12\"]\n", tested));
    let selection = ["--platform", "linux-x86_64", "--variant", "vulkan"];
    let builds = documents(&manifest(&sandbox, &selection));
    let tests = documents(&manifest(&sandbox, &[&selection[..], &["--tests"]].concat()));
    sandbox.write("farm/source/it's sub: #1/release", "a file that the repository has in this place");
    let fake = "fake() { echo \"$*\" >> \"$LOG\"; case \"$*\" in *--pack) rm -rf release; mkdir release; echo $3 > release/row;; \
                *-on-*) cat release/row >> \"$LOG\";; esac; }\n";
    let run = |job: &Value| {
        let script = job["spec"]["template"]["spec"]["containers"][0]["command"][2].as_str().unwrap();
        let root = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
        let script = script.replace("/farm", &root("farm")).replace("/work", &root("work"));
        let values = ["JOBS", "PACKING", "FOLDER", "RUN"].map(|name| {
            let env = job["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
            let value = env.iter().find(|one| one["name"] == name).and_then(|one| one["value"].as_str());
            format!("{name}='{}'\n", value.unwrap_or_default().replace('\'', r"'\''"))
        });
        let prepared = script.lines().filter(|line| !line.contains("apt-get") && !line.contains("rustup"));
        let script = prepared.collect::<Vec<_>>().join("\n");
        // Every pod has an empty `/work`.
        let empty = format!("rm -rf '{0}'\nmkdir '{0}'\n", root("work"));
        let log = format!("{empty}LOG='{}'\nJOB_COMPLETION_INDEX=0\n", root("log"));
        sandbox.start(&["sh", "-ec", &format!("{}{log}{fake}{script}", values.concat())])
    };
    // Before its row is complete, a test says so.
    let early = run(&tests[0]);
    assert!(
        early.exit == Some(1) && early.stderr.contains("vulkan-debian-12 has packed nothing yet"),
        "{early:#?}"
    );
    run(&builds[0]).succeeds();
    run(&tests[0]).succeeds();
    assert!(sandbox.exists("farm/runs/1/tested/vulkan-debian-12-on-gpu"));
    // A second attempt has nothing to do.
    run(&tests[0]).succeeds();
    run(&builds[1]).succeeds();
    let log = sandbox.read("log");
    let farm = sandbox.path("farm").display().to_string();
    let expected = format!(
        "ci run vulkan-debian-12 --setup --cache-dir {farm}/cache --pack\nci run vulkan-debian-12-on-gpu --cache-dir {farm}/cache\n\
         vulkan-debian-12\npack --out {farm}/runs/1/release --from {farm}/runs/1/packed/vulkan-debian-12\n"
    );
    assert_eq!(log, expected);
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
    let rows = variable(&jobs[1], "JOBS");
    let program = format!("export JOBS='{rows}' JOB_COMPLETION_INDEX=1\n{first}\necho \"$row\"");
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
