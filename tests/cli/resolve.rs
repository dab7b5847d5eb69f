//! Variants of a release for machines: the recorded ones, and what was asked for by name.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{HostInfo, RecordedHost};
use gpubuild_plan::look;
use gpubuild_release::{Devices, ReleaseMachine, ResolveQuestion, manifest, resolve};
use serde_json::{Value, json};

use crate::support::{Ran, Sandbox, recorded};

fn release() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/release")
}

fn manifest_text() -> String {
    read(&release().join("manifest.json"))
}

#[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every recorded machine of the tests, by its name.
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

/// `tests/release/choices.txt` was looked through line by line: each machine gets what runs there and is nearest to it.
/// `GPUBUILD_UPDATE_HOSTS=1` writes it anew.
#[test]
fn every_recorded_machine_gets_its_variant() {
    let manifest = manifest::read(manifest_text().as_bytes()).unwrap();
    let catalogue = Catalogue::embedded();
    let mut found = String::new();
    let hosts = hosts();
    assert!(hosts.len() >= 64);
    for (name, path) in &hosts {
        let host = RecordedHost::parse(name, &read(path)).unwrap();
        let sight = look::look(&host, catalogue.clone());
        let machine = ReleaseMachine::of(&sight.facts, &sight.matrix, &catalogue);
        let question = ResolveQuestion {
            manifest: &manifest,
            machine: &machine,
            devices: Devices::All,
            backend: None,
            variant: None,
            without: &[],
        };
        let choice = resolve(&question).unwrap_or_else(|nothing| panic!("{name}: {nothing:?}"));
        assert_eq!(host.counts().processes, 0, "{name}: no program is started");
        let _ = write!(found, "{name} = {}", choice.label);
        for one in &choice.fallback {
            let id = one.reason.rsplit('[').next().unwrap_or_default().trim_end_matches(']');
            let _ = write!(found, ", not {} [{id}]", one.backend);
        }
        found.push('\n');
    }
    let file = release().join("choices.txt");
    #[expect(clippy::disallowed_methods, reason = "a test writes its own files when it is told to")]
    if std::env::var_os("GPUBUILD_UPDATE_HOSTS").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    assert_eq!(found, read(&file).replace("\r\n", "\n"));
}

fn on(host: &str, more: &[&str]) -> Ran {
    let (release, host) = (release(), recorded(host));
    let mut arguments = vec!["resolve", "--manifest", release.to_str().unwrap(), "--host", &host];
    arguments.extend(more);
    Sandbox::new().run(&arguments)
}

#[track_caller]
fn document(ran: &Ran) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    let document = ran.json();
    assert_eq!(document["schema"], json!({"name": "resolve", "version": 1}));
    document
}

#[test]
fn the_label_stands_alone_and_explain_tells_of_all() {
    let ran = on("ubuntu-22.04-h200", &[]);
    assert_eq!((ran.stdout.as_str(), ran.exit), ("cuda12_sm90\n", Some(0)));
    assert_eq!(ran.stderr, "");
    let ran = on("ubuntu-22.04-h200", &["--explain"]);
    for line in [
        "  cuda: narrowest for cuda that covers NVIDIA H200",
        "  not cuda12: `cuda12_sm90` is nearer to this machine [resolve.wider]",
        "  not musl: it needs musl, and this system has glibc [resolve.libc]",
        "and it holds code for sm_86, sm_89 [nv.no-kernel-image]",
        "[rocm.hardware.absent]",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
    let variants =
        manifest::read(manifest_text().as_bytes()).unwrap().platforms["linux-x86_64"].variants.len();
    assert_eq!(ran.stdout.lines().filter(|line| line.starts_with("  not ")).count(), variants - 1);
}

#[test]
fn a_fallback_is_loud_and_fails_where_it_may_not_be() {
    let ran = on("ubuntu-24.04-nouveau", &[]);
    assert_eq!((ran.stdout.as_str(), ran.exit), ("vulkan\n", Some(0)));
    assert!(
        ran.stderr.contains("cuda is here and not used") && ran.stderr.contains("[nv.driver.nouveau]"),
        "{}",
        ran.stderr
    );
    let ran = on("ubuntu-24.04-nouveau", &["--strict"]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    let found = document(&on("ubuntu-24.04-nouveau", &["--json"]));
    assert_eq!(found["fallback"][0]["backend"], "cuda");
    // Nothing better is here: nothing is told, and strict is content.
    let ran = on("debian-12-bare", &["--strict"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.exit), ("cpu\n", "", Some(0)));
}

#[test]
fn what_is_asked_for_by_name_is_taken_or_refused_and_shown() {
    let found = document(&on("ubuntu-22.04-rtx4090", &["--json", "--variant", "cuda12"]));
    assert_eq!(found["label"], "cuda12");
    assert!(found["because"].as_str().unwrap().starts_with("--variant asks for it"), "{found:#}");
    let found = document(&on("ubuntu-22.04-rtx4090", &["--json", "--backend", "vulkan"]));
    assert_eq!(found["label"], "vulkan");
    assert!(
        found["fallback"][0]["reason"].as_str().unwrap().contains("--backend asks for vulkan"),
        "{found:#}"
    );
    for (arguments, id, words) in [
        (["--variant", "cuda13"], "resolve.asked-unfit", "[nv.driver.too-old]"),
        (["--variant", "musl"], "resolve.asked-unfit", "[resolve.libc]"),
        (["--variant", "gone"], "resolve.unknown-variant", "`gone`"),
        (["--backend", "rocm"], "resolve.asked-unfit", "[rocm.hardware.absent]"),
    ] {
        let ran = on("ubuntu-22.04-rtx4090", &arguments);
        assert_eq!((ran.stdout.as_str(), ran.exit), ("", Some(1)), "{arguments:?}");
        assert!(ran.stderr.contains(id) && ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn variables_ask_too_and_flags_win() {
    let (release, sandbox) = (release(), Sandbox::new());
    let run = |variables: &[(&str, &str)], more: &[&str]| {
        let mut command = sandbox.command();
        command.args(["resolve", "--json", "--manifest", release.to_str().unwrap()]);
        command.args(more).envs(variables.iter().copied());
        Ran::from(command.output().unwrap())
    };
    let found = document(&run(&[("GPUBUILD_VARIANT", "cpu")], &[]));
    assert_eq!(found["label"], "cpu");
    assert!(found["because"].as_str().unwrap().starts_with("GPUBUILD_VARIANT asks for it"), "{found:#}");
    let found = document(&run(&[("GPUBUILD_BACKEND", "cuda")], &["--backend", "cpu"]));
    assert_eq!(found["backend"], "cpu");
    let ran = run(&[("GPUBUILD_BACKEND", "gpu")], &[]);
    assert_eq!(ran.exit, Some(2));
    assert_eq!(ran.json()["error"]["id"], "backend.unknown");
}

#[test]
fn the_level_of_the_processor_counts() {
    let mut machine = ReleaseMachine { platform: "linux-x86_64".into(), ..ReleaseMachine::default() };
    let manifest = manifest::read(manifest_text().as_bytes()).unwrap();
    let label = |machine: &ReleaseMachine| {
        let question = ResolveQuestion {
            manifest: &manifest,
            machine,
            devices: Devices::All,
            backend: None,
            variant: None,
            without: &[],
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
    let question = ResolveQuestion {
        manifest: &manifest,
        machine: &machine,
        devices: Devices::All,
        backend: None,
        variant: None,
        without: &[],
    };
    assert_eq!(resolve(&question).unwrap_err().id, "resolve.nothing");
    machine.platform = "linux-riscv64".to_owned();
    let question = ResolveQuestion {
        manifest: &manifest,
        machine: &machine,
        devices: Devices::All,
        backend: None,
        variant: None,
        without: &[],
    };
    assert_eq!(resolve(&question).unwrap_err().id, "resolve.no-platform");
}

/// A change of a manifest, and the place that is told.
#[test]
fn manifests_that_do_not_hold_together_are_refused_with_the_place() {
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
    for (place, change) in changes {
        let mut text: Value = serde_json::from_str(&manifest_text()).unwrap();
        change(&mut text);
        let problem = manifest::read(text.to_string().as_bytes()).unwrap_err().to_string();
        assert!(problem.contains(place), "{place}: {problem}");
    }
    assert!(manifest::read(b"").is_err() && manifest::read(b"[").is_err());
    let long = vec![b' '; manifest::MOST_BYTES + 1];
    assert!(manifest::read(&long).unwrap_err().to_string().contains("at most"));
}

#[test]
fn a_manifest_that_is_not_there_or_none_is_told() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["resolve", "--manifest", "gone", "--json"]);
    assert_eq!((ran.exit, ran.json()["error"]["id"].as_str()), (Some(2), Some("manifest.unreadable")));
    sandbox.write("release/manifest.json", "{}");
    let ran = sandbox.run(&["resolve", "--manifest", "release", "--json"]);
    assert_eq!((ran.exit, ran.json()["error"]["id"].as_str()), (Some(2), Some("manifest.invalid")));
}

#[test]
fn python_packages_and_their_properties_are_named() {
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
    // An older driver gets the packages of CUDA 12; two cards only what serves both.
    let older = python("ubuntu-22.04-rtx4090");
    assert_eq!(older["gpus"][0]["onnxruntime"]["package"], "onnxruntime-gpu[cuda,cudnn]>=1.20,<1.27");
    let two = python("doctor/healthy-ubuntu-24.04-old-second-card");
    let text = two["variant_properties"].to_string();
    assert!(!text.contains("_real") && text.contains("52_virtual") && !text.contains("86_virtual"), "{text}");
    let none = python("debian-12-bare");
    assert_eq!(none["gpus"][0]["onnxruntime"]["package"], "onnxruntime");
    // A manifest and this are two questions.
    let ran = Sandbox::new().run(&["resolve", "--python", "--manifest", "x"]);
    assert_eq!(ran.exit, Some(2));
    assert_eq!(Sandbox::new().run(&["resolve"]).exit, Some(2));
}

/// Signs a manifest as its publisher does.
fn signed(pair: &minisign::KeyPair, text: &str) -> String {
    minisign::sign(None, &pair.sk, text.as_bytes(), None, None).unwrap().into_string()
}

#[test]
fn a_signed_manifest_is_believed_and_an_older_one_not_after_it() {
    let (pair, thief) = (
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
    let refused = |ran: &Ran, id: &str, exit: i32| {
        assert_eq!((ran.exit, ran.json()["error"]["id"].as_str()), (Some(exit), Some(id)), "{ran:#?}");
    };
    let text = manifest_text();
    sandbox.write("release/manifest.json", &text);
    refused(&run(&key, &[]), "manifest.unsigned", 1);
    publish(&thief, &text);
    refused(&run(&key, &[]), "manifest.other-key", 1);
    publish(&pair, &text);
    assert_eq!(document(&run(&key, &["--name", "infer"]))["label"], "cuda12_sm90");
    refused(&run(&key, &["--name", "whisper"]), "manifest.other-name", 1);
    refused(&run("no key", &[]), "manifest.key-invalid", 2);
    // The key in its file, and a new one beside the old one.
    sandbox.write("old.pub", &format!("untrusted comment: key\n{}\n", thief.pk.to_base64()));
    sandbox.write("new.pub", &format!("untrusted comment: key\n{key}\n"));
    assert_eq!(document(&run("old.pub", &["--key", "new.pub"]))["label"], "cuda12_sm90");
    // One byte less, and what was seen before.
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
