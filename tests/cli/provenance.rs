//! `gpubuild pack` writes how each variant was built, and `gpubuild install --require-provenance` checks it.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};

use crate::pack::{pack, project, sha256};
use crate::support::{RunResult, Sandbox, is_on_path, skip};

/// A release that is packed from a commit, and the key that signed it.
struct SignedRelease {
    project: Sandbox,
    pair: minisign::KeyPair,
    commit: String,
}

impl SignedRelease {
    fn new() -> Option<Self> {
        if !is_on_path("git") {
            skip("git", "no git");
            return None;
        }
        let project = project()?;
        let git = |arguments: &[&str]| {
            let settings = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org"];
            project.start(&[&settings[..], arguments].concat()).succeeds().stdout.clone()
        };
        git(&["init", "-q"]);
        git(&["add", "gpubuild.toml", "app/src", "LICENSE"]);
        git(&["commit", "-q", "-m", "Add the program"]);
        git(&["remote", "add", "origin", "https://me:pa55@example.org/me/adder.git"]);
        let commit = git(&["rev-parse", "HEAD"]).trim().to_owned();
        let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
        project.write("secret.key", &pair.sk.to_box(None).unwrap().into_string());
        let release = Self { project, pair, commit };
        release.pack("release");
        Some(release)
    }

    fn pack(&self, out: &str) {
        pack(&self.project, &["--out", out, "--sign", "secret.key"]).succeeds();
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.project.read(path)).unwrap()
    }

    fn blob(&self, release: &str, sha256: &str) -> Value {
        self.json(&format!("{release}/blobs/sha256/{sha256}"))
    }

    /// The hash of the statement about the only variant.
    fn statement_name(&self, release: &str) -> String {
        let manifest = self.json(&format!("{release}/manifest.json"));
        let platform = manifest["platforms"].as_object().unwrap().values().next().unwrap();
        platform["variants"][0]["provenance"]["sha256"].as_str().unwrap().to_owned()
    }

    fn install(&self, to: &str, more: &[&str]) -> RunResult {
        let key = self.pair.pk.to_base64();
        let arguments = ["install", "--manifest", "release", "--no-start", "--key", &key, "--to", to];
        self.project.run(&[&arguments[..], more].concat())
    }

    /// Signs the manifest after a change.
    fn change_manifest(&self, change: impl Fn(&mut Value)) {
        let mut manifest = self.json("release/manifest.json");
        manifest["serial"] = (manifest["serial"].as_u64().unwrap() + 1).into();
        let platform = manifest["platforms"].as_object_mut().unwrap().values_mut().next().unwrap();
        change(&mut platform["variants"][0]);
        let text = serde_json::to_string(&manifest).unwrap();
        let signature = minisign::sign(None, &self.pair.sk, text.as_bytes(), None, None).unwrap();
        self.project.write("release/manifest.json", &text);
        self.project.write("release/manifest.json.minisig", &signature.into_string());
    }
}

#[test]
fn installed_variant_says_from_which_commit_it_was_built() {
    let Some(release) = SignedRelease::new() else { return };
    let text = release.project.read(&format!("release/blobs/sha256/{}", release.statement_name("release")));
    assert!(!text.contains("pa55"), "{text}");
    let statement: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    assert_eq!(statement["subject"][0]["name"], "bin/app");
    let definition = &statement["predicate"]["buildDefinition"];
    assert_eq!(definition["externalParameters"]["variant"], "cpu");
    assert!(definition["internalParameters"]["trees"][0]["compilers"]["C"].is_string(), "{definition}");

    let ran = release.install("to", &["--source-uri", "example.org/me/adder", "--json"]);
    let document = ran.succeeds().json();
    let commit = &document["provenance"]["commit"];
    assert_eq!(commit["hash"], release.commit.as_str());
    assert_eq!(commit["repository"], "https://example.org/me/adder");
    assert!(commit.get("modified").is_none(), "{commit}");
    ran.says(&[&format!("built from commit {} of https://example.org/me/adder by", release.commit)]);

    release.project.write("LICENSE", "changed\n");
    release.pack("changed");
    let statement = release.blob("changed", &release.statement_name("changed"));
    let source = &statement["predicate"]["buildDefinition"]["resolvedDependencies"][0];
    assert_eq!(source["annotations"]["modified"], true);
}

#[test]
fn variant_of_unknown_or_other_origin_is_not_installed() {
    let Some(release) = SignedRelease::new() else { return };
    let refused = |more: &[&str], code: i32, id: &str| {
        release.install("to", more).fails(code, id);
        assert!(!release.project.path("to/current").exists(), "{id}");
    };
    refused(&["--source-uri", "https://example.org/you/adder"], 1, "install.other-source");
    release
        .project
        .run(&["install", "--manifest", "release", "--to", "to", "--require-provenance"])
        .fails(2, "manifest.no-key");
    // A statement about other files, which the publisher has signed.
    let name = release.statement_name("release");
    let path = format!("release/blobs/sha256/{name}");
    let before = release.project.read(&path);
    let mut statement: Value = serde_json::from_str(&before).unwrap();
    statement["subject"].as_array_mut().unwrap().pop();
    let text = statement.to_string();
    let other = sha256(text.as_bytes());
    release.project.write(&format!("release/blobs/sha256/{other}"), &text);
    release.change_manifest(|variant| {
        variant["provenance"] = serde_json::json!({"sha256": other, "size": text.len()});
    });
    refused(&["--require-provenance"], 1, "install.provenance-invalid");
    release.change_manifest(|variant| variant["provenance"]["size"] = (2 << 20).into());
    refused(&["--require-provenance"], 1, "install.provenance-invalid");
    // A statement that differs from the manifest.
    release.change_manifest(|variant| {
        variant["provenance"] = serde_json::json!({"sha256": name, "size": before.len()});
    });
    release.project.write(&path, &before.replace("cpu", "gpu"));
    refused(&["--require-provenance"], 1, "layer.changed");
    release.change_manifest(|variant| {
        variant.as_object_mut().unwrap().remove("provenance");
    });
    refused(&["--require-provenance"], 1, "install.no-provenance");
    release.install("to", &[]).succeeds();
}

#[test]
fn registries_find_statement_and_bill_of_materials_by_the_image() {
    let Some(release) = SignedRelease::new() else { return };
    let index = release.json("release/index.json");
    let manifests = index["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), 4);
    let kinds: Vec<&str> = manifests.iter().filter_map(|one| one["artifactType"].as_str()).collect();
    assert_eq!(
        kinds,
        [
            "application/vnd.gpubuild.release.v1",
            "application/vnd.in-toto+json",
            "application/vnd.cyclonedx+json"
        ]
    );
    let digest =
        |value: &Value| value["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
    let image = release.blob("release", &digest(&manifests[0]));
    for referrer in &manifests[1..3] {
        let document = release.blob("release", &digest(referrer));
        assert_eq!(document["subject"]["digest"], manifests[0]["digest"]);
        let layer = &document["layers"][0];
        assert_eq!(layer["mediaType"], document["artifactType"]);
        assert!(release.blob("release", &digest(layer)).is_object());
        // Tools that copy the image only copy the document too.
        assert!(image["layers"].as_array().unwrap().iter().any(|one| one["digest"] == layer["digest"]));
    }
    // The list for registries without the referrers API, under the tag that clients ask for.
    let tag = &manifests[3]["annotations"]["org.opencontainers.image.ref.name"];
    assert_eq!(tag.as_str().unwrap(), format!("sha256-{}", digest(&manifests[0])));
    assert_eq!(release.blob("release", &digest(&manifests[3]))["manifests"], json!(manifests[1..3]));
}
