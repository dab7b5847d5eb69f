//! Variants of a release for recorded hosts, and explicit requests.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{HostInfo, RecordedHost};
use gpubuild_plan::machine;
use gpubuild_release::{Devices, ReleaseMachine, ResolveRequest, manifest, resolve};
use serde_json::{Value, json};

use crate::support::{RunResult, Sandbox, recorded};

pub(crate) fn release() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/release")
}

pub(crate) fn manifest_text() -> String {
    read(&release().join("manifest.json"))
}

#[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every recorded host of the tests, by name.
pub(crate) fn hosts() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts");
    let files = walkdir::WalkDir::new(&root).sort_by_file_name();
    let files = files.into_iter().map(|entry| entry.unwrap().into_path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap().with_extension("");
            (name.to_str().unwrap().replace('\\', "/"), path)
        })
        .collect()
}

/// The expected variants in `tests/release/choices.txt` were reviewed line by line: each host gets the best variant
/// that runs. `GPUBUILD_UPDATE_HOSTS=1` rewrites the file.
#[test]
fn every_recorded_host_resolves_to_its_variant() {
    let manifest = manifest::read(manifest_text().as_bytes()).unwrap();
    let catalogue = Catalogue::embedded();
    let mut found = String::new();
    let hosts = hosts();
    assert!(hosts.len() >= 64);
    for (name, path) in &hosts {
        let host = RecordedHost::parse(name, &read(path)).unwrap();
        let state = machine::inspect(&host, catalogue.clone());
        let machine = ReleaseMachine::of(&state.facts, &state.matrix, &catalogue);
        let question = ResolveRequest {
            manifest: &manifest,
            machine: &machine,
            devices: Devices::All,
            backend: None,
            variant: None,
            excluded: &[],
        };
        let choice = resolve(&question).unwrap_or_else(|nothing| panic!("{name}: {nothing:?}"));
        assert_eq!(host.counts().processes, 0, "{name}: no process is started");
        let _ = write!(found, "{name} = {}", choice.label);
        for one in &choice.fallback {
            let id = one.reason.rsplit('[').next().unwrap_or_default().trim_end_matches(']');
            let _ = write!(found, ", not {} [{id}]", one.backend);
        }
        found.push('\n');
    }
    let file = release().join("choices.txt");
    #[expect(clippy::disallowed_methods, reason = "a test updates its own files on request")]
    if std::env::var_os("GPUBUILD_UPDATE_HOSTS").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    assert_eq!(found, read(&file).replace("\r\n", "\n"));
}

fn on(host: &str, more: &[&str]) -> RunResult {
    let (release, host) = (release(), recorded(host));
    let mut arguments = vec!["resolve", "--manifest", release.to_str().unwrap(), "--host", &host];
    arguments.extend(more);
    Sandbox::new().run(&arguments)
}

#[track_caller]
fn document(ran: &RunResult) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    let document = ran.json();
    assert_eq!(document["schema"], json!({"name": "resolve", "version": 1}));
    document
}

#[test]
fn resolve_prints_the_label_and_explain_lists_all_variants() {
    let ran = on("ubuntu-22.04-h200", &[]);
    assert_eq!((ran.stdout.as_str(), ran.exit), ("cuda12_sm90\n", Some(0)));
    assert_eq!(ran.stderr, "");
    let ran = on("ubuntu-22.04-h200", &["--explain"]);
    for line in [
        "  cuda: narrowest cuda variant that covers NVIDIA H200",
        "  not cuda12: `cuda12_sm90` matches this machine more closely [resolve.wider]",
        "  not musl: it needs musl, but this system has glibc [resolve.libc]",
        "but the variant has code only for sm_86, sm_89 [nv.no-kernel-image]",
        "[rocm.hardware.absent]",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
    let variants =
        manifest::read(manifest_text().as_bytes()).unwrap().platforms["linux-x86_64"].variants.len();
    assert_eq!(ran.stdout.lines().filter(|line| line.starts_with("  not ")).count(), variants - 1);
}

#[test]
fn fallback_warns_and_fails_with_strict() {
    let ran = on("ubuntu-24.04-nouveau", &[]);
    assert_eq!((ran.stdout.as_str(), ran.exit), ("vulkan\n", Some(0)));
    assert!(
        ran.stderr.contains("cuda is available but not used") && ran.stderr.contains("[nv.driver.nouveau]"),
        "{}",
        ran.stderr
    );
    let ran = on("ubuntu-24.04-nouveau", &["--strict"]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    let found = document(&on("ubuntu-24.04-nouveau", &["--json"]));
    assert_eq!(found["fallback"][0]["backend"], "cuda");
    // Without better hardware there is no warning, and `--strict` succeeds.
    let ran = on("debian-12-bare", &["--strict"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.exit), ("cpu\n", "", Some(0)));
}

#[test]
fn explicit_variant_is_used_or_rejected() {
    let found = document(&on("ubuntu-22.04-rtx4090", &["--json", "--variant", "cuda12"]));
    assert_eq!(found["label"], "cuda12");
    assert!(found["because"].as_str().unwrap().starts_with("--variant requests it"), "{found:#}");
    let found = document(&on("ubuntu-22.04-rtx4090", &["--json", "--backend", "vulkan"]));
    assert_eq!(found["label"], "vulkan");
    assert!(
        found["fallback"][0]["reason"].as_str().unwrap().contains("--backend requests vulkan"),
        "{found:#}"
    );
    for (arguments, id, text) in [
        (["--variant", "cuda13"], "resolve.asked-unfit", "[nv.driver.too-old]"),
        (["--variant", "musl"], "resolve.asked-unfit", "[resolve.libc]"),
        (["--variant", "gone"], "resolve.unknown-variant", "`gone`"),
        (["--backend", "rocm"], "resolve.asked-unfit", "[rocm.hardware.absent]"),
    ] {
        let ran = on("ubuntu-22.04-rtx4090", &arguments);
        assert_eq!((ran.stdout.as_str(), ran.exit), ("", Some(1)), "{arguments:?}");
        assert!(ran.stderr.contains(id) && ran.stderr.contains(text), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn flags_override_variables() {
    let (release, sandbox) = (release(), Sandbox::new());
    let run = |variables: &[(&str, &str)], more: &[&str]| {
        let mut command = sandbox.command();
        command.args(["resolve", "--json", "--manifest", release.to_str().unwrap()]);
        command.args(more).envs(variables.iter().copied());
        RunResult::from(command.output().unwrap())
    };
    let found = document(&run(&[("GPUBUILD_VARIANT", "cpu")], &[]));
    assert_eq!(found["label"], "cpu");
    assert!(found["because"].as_str().unwrap().starts_with("GPUBUILD_VARIANT requests it"), "{found:#}");
    let found = document(&run(&[("GPUBUILD_BACKEND", "cuda")], &["--backend", "cpu"]));
    assert_eq!(found["backend"], "cpu");
    let ran = run(&[("GPUBUILD_BACKEND", "gpu")], &[]);
    assert_eq!(ran.exit, Some(2));
    assert_eq!(ran.json()["error"]["id"], "backend.unknown");
}

#[test]
fn cpu_level_limits_the_variants() {
    let mut machine = ReleaseMachine { platform: "linux-x86_64".into(), ..ReleaseMachine::default() };
    let manifest = manifest::read(manifest_text().as_bytes()).unwrap();
    let label = |machine: &ReleaseMachine| {
        let question = ResolveRequest {
            manifest: &manifest,
            machine,
            devices: Devices::All,
            backend: None,
            variant: None,
            excluded: &[],
        };
        resolve(&question).unwrap().label
    };
    machine.libc = Some(("glibc".to_owned(), "2.35".parse().ok()));
    for (cpu, expected) in [
        (None, "cpu"),
        (Some("x86-64-v2"), "cpu"),
        (Some("x86-64-v3"), "cpu_v3"),
        (Some("x86-64-v4"), "cpu_v3"),
    ] {
        machine.cpu = cpu.map(str::to_owned);
        assert_eq!(label(&machine), expected, "{cpu:?}");
    }
    machine.libc = Some(("musl".to_owned(), "1.2.5".parse().ok()));
    assert_eq!(label(&machine), "musl");
    machine.libc = Some(("glibc".to_owned(), "2.17".parse().ok()));
    let question = ResolveRequest {
        manifest: &manifest,
        machine: &machine,
        devices: Devices::All,
        backend: None,
        variant: None,
        excluded: &[],
    };
    assert_eq!(resolve(&question).unwrap_err().id, "resolve.nothing");
    machine.platform = "linux-riscv64".to_owned();
    let question = ResolveRequest {
        manifest: &manifest,
        machine: &machine,
        devices: Devices::All,
        backend: None,
        variant: None,
        excluded: &[],
    };
    assert_eq!(resolve(&question).unwrap_err().id, "resolve.no-platform");
}

/// Changes of a manifest, and the location in the error.
#[test]
fn inconsistent_manifests_are_rejected_with_the_location() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 16] = [
        ("/schema", |m| m["schema"] = json!("gpubuild.manifest/2")),
        ("unknown field `extra`", |m| m["extra"] = json!(1)),
        ("missing field `serial`", |m| drop(m.as_object_mut().unwrap().remove("serial"))),
        ("/name", |m| m["name"] = json!("../up")),
        ("/version", |m| m["version"] = json!("1.0\n")),
        ("/platforms/..", |m| m["platforms"][".."] = m["platforms"]["linux-x86_64"].clone()),
        ("/platforms/linux-x86_64/default", |m| m["platforms"]["linux-x86_64"]["default"] = json!("gone")),
        ("/platforms/linux-x86_64/variants/1/label", |m| {
            m["platforms"]["linux-x86_64"]["variants"][1]["label"] = json!("cpu");
        }),
        ("/variants/1/label", |m| m["platforms"]["linux-x86_64"]["variants"][1]["label"] = json!("a/b")),
        ("/variants/0/backends", |m| m["platforms"]["linux-x86_64"]["variants"][0]["backends"] = json!([])),
        ("unknown variant `gpu`", |m| {
            m["platforms"]["linux-x86_64"]["variants"][0]["backends"] = json!(["gpu"]);
        }),
        ("/variants/4/cuda", |m| {
            drop(m["platforms"]["linux-x86_64"]["variants"][4].as_object_mut().unwrap().remove("cuda"));
        }),
        ("/variants/0/layers", |m| m["platforms"]["linux-x86_64"]["variants"][0]["layers"] = json!([])),
        ("/variants/0/layers/0/sha256", |m| {
            m["platforms"]["linux-x86_64"]["variants"][0]["layers"][0]["sha256"] = json!("AB");
        }),
        ("/variants/1/cpu", |m| m["platforms"]["linux-x86_64"]["variants"][1]["cpu"] = json!("x86-64-v9")),
        ("not a CUDA architecture", |m| {
            m["platforms"]["linux-x86_64"]["variants"][4]["cuda"]["real"] = json!(["x"]);
        }),
    ];
    for (location, change) in changes {
        let mut text: Value = serde_json::from_str(&manifest_text()).unwrap();
        change(&mut text);
        let problem = manifest::read(text.to_string().as_bytes()).unwrap_err().to_string();
        assert!(problem.contains(location), "{location}: {problem}");
    }
    assert!(manifest::read(b"").is_err() && manifest::read(b"[").is_err());
    let long = vec![b' '; manifest::MAX_BYTES + 1];
    assert!(manifest::read(&long).unwrap_err().to_string().contains("the limit is"));
}

#[test]
fn missing_or_invalid_manifest_is_reported() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["resolve", "--manifest", "gone", "--json"]);
    assert_eq!((ran.exit, ran.json()["error"]["id"].as_str()), (Some(2), Some("manifest.unreadable")));
    sandbox.write("release/manifest.json", "{}");
    let ran = sandbox.run(&["resolve", "--manifest", "release", "--json"]);
    assert_eq!((ran.exit, ran.json()["error"]["id"].as_str()), (Some(2), Some("manifest.invalid")));
}

#[test]
fn python_packages_and_variant_properties_are_listed() {
    let python = |host: &str| {
        let host = recorded(host);
        let ran = Sandbox::new().run(&["resolve", "--python", "--properties", "--json", "--host", &host]);
        assert_eq!(ran.exit, Some(0), "{ran:#?}");
        ran.json()
    };
    let found = python("ubuntu-22.04-h200");
    assert_eq!(found["schema"], json!({"name": "packages", "version": 1}));
    let gpu = &found["gpus"][0];
    assert_eq!(gpu["cupy"]["package"], "cupy-cuda13x[ctk]");
    assert!(gpu["torch"]["index"].as_str().unwrap().contains("/cu1"), "{gpu}");
    assert_eq!(gpu["onnxruntime"]["package"], "onnxruntime-gpu>=1.27");
    let properties: Vec<&str> =
        found["variant_properties"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(properties[0], "nvidia :: cuda_version_lower_bound :: 13.0");
    for has in [
        "nvidia :: cuda_version_lower_bound :: 12.4",
        "nvidia :: sm_arch :: 90_real",
        "nvidia :: sm_arch :: 75_virtual",
    ] {
        assert!(properties.contains(&has), "{has} in {properties:#?}");
    }
    for lacks in [
        "nvidia :: sm_arch :: 80_real",
        "nvidia :: sm_arch :: 100_virtual",
        "nvidia :: cuda_version_lower_bound :: 13.2",
    ] {
        assert!(!properties.contains(&lacks), "{lacks} in {properties:#?}");
    }
    // An older driver gets the packages of CUDA 12; two GPUs get only what supports both.
    let older = python("ubuntu-22.04-rtx4090");
    assert_eq!(older["gpus"][0]["onnxruntime"]["package"], "onnxruntime-gpu[cuda,cudnn]>=1.20,<1.27");
    let two = python("doctor/healthy-ubuntu-24.04-old-second-card");
    let text = two["variant_properties"].to_string();
    assert!(!text.contains("_real") && text.contains("52_virtual") && !text.contains("86_virtual"), "{text}");
    let none = python("debian-12-bare");
    assert_eq!(none["gpus"][0]["onnxruntime"]["package"], "onnxruntime");
    // `--python` and `--manifest` exclude each other.
    let ran = Sandbox::new().run(&["resolve", "--python", "--manifest", "x"]);
    assert_eq!(ran.exit, Some(2));
    assert_eq!(Sandbox::new().run(&["resolve"]).exit, Some(2));
}

/// Signs a manifest as a publisher does.
pub(crate) fn signed(pair: &minisign::KeyPair, text: &str) -> String {
    minisign::sign(None, &pair.sk, text.as_bytes(), None, None).unwrap().into_string()
}

#[test]
fn signed_manifest_is_trusted_and_older_serial_is_rejected() {
    let (pair, other_pair) = (
        minisign::KeyPair::generate_unencrypted_keypair().unwrap(),
        minisign::KeyPair::generate_unencrypted_keypair().unwrap(),
    );
    let (key, sandbox) = (pair.pk.to_base64(), Sandbox::new());
    let publish = |pair: &minisign::KeyPair, text: &str| {
        sandbox.write("release/manifest.json", text);
        sandbox.write("release/manifest.json.minisig", &signed(pair, text));
    };
    let host = recorded("ubuntu-22.04-h200");
    let run = |key: &str, more: &[&str]| {
        let mut arguments = vec!["resolve", "--manifest", "release", "--json", "--host", &host, "--key", key];
        arguments.extend(more);
        sandbox.run(&arguments)
    };
    let refused = |ran: &RunResult, id: &str, exit: i32| {
        assert_eq!((ran.exit, ran.json()["error"]["id"].as_str()), (Some(exit), Some(id)), "{ran:#?}");
    };
    let text = manifest_text();
    sandbox.write("release/manifest.json", &text);
    refused(&run(&key, &[]), "manifest.unsigned", 1);
    publish(&other_pair, &text);
    refused(&run(&key, &[]), "manifest.other-key", 1);
    publish(&pair, &text);
    assert_eq!(document(&run(&key, &["--name", "infer"]))["label"], "cuda12_sm90");
    refused(&run(&key, &["--name", "whisper"]), "manifest.other-name", 1);
    refused(&run("no key", &[]), "manifest.key-invalid", 2);
    // The key in a file, and a new key beside the old one.
    sandbox.write("old.pub", &format!("untrusted comment: key\n{}\n", other_pair.pk.to_base64()));
    sandbox.write("new.pub", &format!("untrusted comment: key\n{key}\n"));
    assert_eq!(document(&run("old.pub", &["--key", "new.pub"]))["label"], "cuda12_sm90");
    // A truncated manifest, and serials lower than or equal to a trusted one.
    sandbox.write("release/manifest.json", text.trim_end());
    refused(&run(&key, &[]), "manifest.changed", 1);
    publish(&pair, &text.replace("\"serial\": 7", "\"serial\": 6"));
    refused(&run(&key, &[]), "manifest.older", 1);
    publish(&pair, &text.replace("1.2.0", "1.2.1"));
    refused(&run(&key, &[]), "manifest.replaced", 1);
    publish(&pair, &text.replace("4102444800", "1600000000"));
    refused(&run(&key, &[]), "manifest.expired", 1);
    publish(&pair, &text.replace("\"serial\": 7", "\"serial\": 8"));
    assert_eq!(document(&run(&key, &[]))["label"], "cuda12_sm90");
    publish(&pair, &text);
    refused(&run(&key, &[]), "manifest.older", 1);
}

#[test]
fn cuda_is_not_selected_if_a_variable_hides_all_gpus() {
    let text = read(Path::new(&recorded("ubuntu-22.04-h200")));
    let with = |value: &str| text.replace("[env]\n", &format!("[env]\nCUDA_VISIBLE_DEVICES = '{value}'\n"));
    let (sandbox, release) = (Sandbox::new(), release());
    let release = release.to_str().unwrap();
    for (value, is_hidden) in [("", true), ("-1", true), ("none", true), ("0", false), ("1", false)] {
        sandbox.write("host.toml", &with(value));
        let ran = sandbox.run(&["resolve", "--manifest", release, "--host", "host.toml", "--explain"]);
        assert_eq!(ran.succeeds().stdout.starts_with("cuda"), !is_hidden, "`{value}`: {ran:#?}");
        let reason = "CUDA programs see no GPU [nv.device-hidden]";
        assert_eq!(ran.stderr.contains(reason), is_hidden, "`{value}`: {ran:#?}");
        let properties =
            sandbox.run(&["resolve", "--python", "--properties", "--json", "--host", "host.toml"]);
        assert_eq!(properties.succeeds().stdout.contains("nvidia :: "), !is_hidden, "`{value}`");
    }
}
