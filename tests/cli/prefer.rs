//! The publisher's preference between backends: `prefer` of a platform in the manifest, `[pack] prefer` in gpubuild.toml.

use serde_json::{Value, json};

use crate::resolve::{manifest_text, signed};
use crate::support::{RunResult, Sandbox, recorded};

const RTX: &str = "ubuntu-22.04-rtx4090";

/// The text of the test release's manifest with a preference for each platform.
fn preferring(prefer: &Value) -> String {
    let mut manifest: Value = serde_json::from_str(&manifest_text()).unwrap();
    for platform in manifest["platforms"].as_object_mut().unwrap().values_mut() {
        platform["prefer"] = prefer.clone();
    }
    manifest.to_string()
}

fn resolve(sandbox: &Sandbox, host: &str, env: &[(&str, &str)], more: &[&str]) -> RunResult {
    let host = recorded(host);
    let mut command = sandbox.command();
    command.args(["resolve", "--manifest", "release", "--host", &host]).args(more).envs(env.iter().copied());
    RunResult::from(command.output().unwrap())
}

fn choice(sandbox: &Sandbox, host: &str, env: &[(&str, &str)], more: &[&str]) -> Value {
    let ran = resolve(sandbox, host, env, &[more, &["--json"]].concat());
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    ran.json()
}

fn release(prefer: &Value) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("release/manifest.json", &preferring(prefer));
    sandbox
}

#[test]
fn preferred_backend_is_selected_and_the_reason_names_the_publisher() {
    let sandbox = release(&json!(["vulkan"]));
    let found = choice(&sandbox, RTX, &[], &[]);
    assert_eq!((found["label"].as_str(), found["backend"].as_str()), (Some("vulkan"), Some("vulkan")));
    let because = found["because"].as_str().unwrap();
    assert!(because.starts_with("the publisher prefers vulkan to cuda; "), "{because}");
    // CUDA is not a fallback that failed: the publisher does not prefer it.
    assert_eq!(found["fallback"], Value::Null);
    assert_eq!(resolve(&sandbox, RTX, &[], &["--strict"]).exit, Some(0));
    let ran = resolve(&sandbox, RTX, &[], &["--explain"]);
    for line in [
        "  not cuda12: it is for cpu, cuda, but the publisher prefers vulkan [resolve.preference]\n",
        "  not cpu: it is for cpu, but vulkan is preferred [resolve.preference]\n",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
    // Without the key, the manifest is valid and the usual order applies.
    let usual = release(&json!([]));
    let found = choice(&usual, RTX, &[], &[]);
    assert_eq!(found["label"], "cuda12_sm89");
    assert!(!found["because"].as_str().unwrap().contains("publisher"), "{found:#}");
}

#[test]
fn user_overrides_the_publisher() {
    let sandbox = release(&json!(["vulkan"]));
    let is_cuda = |found: &Value| {
        assert_eq!(found["backend"], "cuda", "{found:#}");
        assert!(!found["because"].as_str().unwrap().contains("publisher"), "{found:#}");
        assert_eq!(found["fallback"][0]["backend"], "vulkan", "{found:#}");
    };
    is_cuda(&choice(&sandbox, RTX, &[], &["--backend", "cuda"]));
    is_cuda(&choice(&sandbox, RTX, &[("GPUBUILD_BACKEND", "cuda")], &[]));
    let found = choice(&sandbox, RTX, &[], &["--variant", "cuda12"]);
    assert_eq!(found["label"], "cuda12");
    sandbox.write("user.toml", "backend = \"cuda\"\n");
    let config = sandbox.path("user.toml").to_str().unwrap().to_owned();
    is_cuda(&choice(&sandbox, RTX, &[("GPUBUILD_CONFIG", &config)], &[]));
}

#[test]
fn preferred_backend_that_cannot_run_is_a_fallback() {
    // Vulkan has no loader in this container, and CUDA runs.
    let sandbox = release(&json!(["rocm", "vulkan"]));
    let found = choice(&sandbox, "docker-no-gpus", &[], &[]);
    assert_eq!((found["label"].as_str(), &found["fallback"][0]["backend"]), (Some("cpu"), &json!("vulkan")));
    assert_eq!(resolve(&sandbox, "docker-no-gpus", &[], &["--strict"]).exit, Some(1));
    let found = choice(&sandbox, "debian-12-bare", &[], &[]);
    assert_eq!((found["label"].as_str(), &found["fallback"]), (Some("cpu"), &Value::Null));
}

#[test]
fn invalid_preferences_are_rejected_with_the_location() {
    for (prefer, expected) in [
        (json!(["cpu"]), "/prefer: `cpu` cannot be preferred"),
        (json!(["vulkan", "cuda", "vulkan"]), "/prefer: `vulkan` is listed twice"),
        (json!(["gpu"]), "unknown variant `gpu`"),
        (json!("vulkan"), "invalid type"),
    ] {
        let ran = resolve(&release(&prefer), RTX, &[], &[]);
        assert_eq!(ran.exit, Some(2), "{ran:#?}");
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
}

#[test]
fn signature_covers_the_preference() {
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let text = preferring(&json!(["vulkan"]));
    let sandbox = Sandbox::new();
    sandbox.write("release/manifest.json", &text);
    sandbox.write("release/manifest.json.minisig", &signed(&pair, &text));
    let key = pair.pk.to_base64();
    assert_eq!(choice(&sandbox, RTX, &[], &["--key", &key])["label"], "vulkan");
    let changed = text.replace("\"prefer\":[\"vulkan\"]", "\"prefer\":[\"opencl\"]");
    assert_ne!(changed, text);
    for changed in [changed, text.replace("\"prefer\":[\"vulkan\"],", "")] {
        sandbox.write("release/manifest.json", &changed);
        let ran = resolve(&sandbox, RTX, &[], &["--key", &key, "--json"]);
        assert_eq!((ran.exit, ran.json()["error"]["id"].as_str()), (Some(1), Some("manifest.changed")));
    }
}
