//! Builds releases for tests.

use std::path::Path;

use gpubuild_exec::store::sha256;
use serde_json::{Value, json};

use crate::support::Sandbox;

/// A release and its variants.
pub(crate) struct Release {
    pub(crate) version: String,
    pub(crate) serial: u64,
    pub(crate) variants: Vec<Variant>,
}

/// A variant of a release.
#[derive(Clone)]
pub(crate) struct Variant {
    pub(crate) label: &'static str,
    pub(crate) needs: Value,
    pub(crate) start: Value,
    /// The layers, each with its files.
    pub(crate) layers: Vec<Vec<(String, Vec<u8>)>>,
}

/// A program that prints `output` and whose check succeeds for these backends.
pub(crate) fn tool(output: &str, works_with: &str) -> Vec<u8> {
    format!(
        "#!/bin/sh\nif [ \"$1\" = check ]; then\n  case \" {works_with} \" in *\" $3 \"*) exit 0;; esac\n  \
         echo \"no device for $3\" >&2; exit 3\nfi\necho {output}\n"
    )
    .into_bytes()
}

/// The `start` entry of such a program.
pub(crate) fn check() -> Value {
    json!({"program": "bin/tool", "check": ["check", "--backend", "{backend}"]})
}

impl Variant {
    /// A CPU variant that prints `output`.
    pub(crate) fn cpu(output: &str) -> Self {
        Self::of("cpu", json!({"backends": ["cpu"]}), tool(output, "cpu"))
    }

    /// A CUDA variant for these architectures.
    pub(crate) fn cuda(label: &'static str, archs: &[&str], portable: bool, works_with: &str) -> Self {
        let cuda = json!({"release": "12.4", "driver": "525.60", "real": archs, "ptx": []});
        let needs = json!({"backends": ["cpu", "cuda"], "cuda": cuda, "portable": portable});
        Self::of(label, needs, tool(label, works_with))
    }

    pub(crate) fn vulkan(works_with: &str) -> Self {
        Self::of("vulkan", json!({"backends": ["cpu", "vulkan"]}), tool("vulkan", works_with))
    }

    fn of(label: &'static str, needs: Value, tool: Vec<u8>) -> Self {
        let shared =
            vec![("share/data".to_owned(), vec![7; 5000]), ("share/notes.txt".to_owned(), b"hello".to_vec())];
        Self { label, needs, start: check(), layers: vec![shared, vec![("bin/tool".to_owned(), tool)]] }
    }
}

/// A layer with these files.
pub(crate) fn layer(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut files = files.to_vec();
    files.sort();
    for (path, content) in &files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(if path.starts_with("bin/") { 0o755 } else { 0o644 });
        builder.append_data(&mut header, path, content.as_slice()).unwrap();
    }
    zstd::encode_all(builder.into_inner().unwrap().as_slice(), 3).unwrap()
}

impl Release {
    /// A release with only a CPU variant.
    pub(crate) fn plain(version: &str, serial: u64) -> Self {
        Self::new(version, serial, vec![Variant::cpu(version)])
    }

    pub(crate) fn new(version: &str, serial: u64, variants: Vec<Variant>) -> Self {
        Self { version: version.to_owned(), serial, variants }
    }

    /// A release for an RTX 4090: two CUDA variants, one Vulkan and one CPU variant.
    pub(crate) fn wide(narrow: &str, portable: &str, vulkan: &str) -> Self {
        Self::new(
            "1.0.0",
            1,
            vec![
                Variant::cpu("cpu"),
                Variant::vulkan(vulkan),
                Variant::cuda("cuda_sm89", &["89"], false, narrow),
                Variant::cuda("cuda", &["75", "80", "86", "89"], true, portable),
            ],
        )
    }

    /// The layers without duplicates, and the manifest.
    pub(crate) fn parts(&self) -> (Vec<(String, Vec<u8>)>, Value) {
        let mut blobs = Vec::new();
        let mut rows = Vec::new();
        for variant in &self.variants {
            let mut layers = Vec::new();
            for files in &variant.layers {
                let bytes = layer(files);
                let unpacked: usize = files.iter().map(|(_, content)| content.len()).sum();
                layers.push(json!({"sha256": sha256(&bytes), "size": bytes.len(), "unpacked": unpacked}));
                blobs.push((sha256(&bytes), bytes));
            }
            let mut row = variant.needs.clone();
            row["label"] = json!(variant.label);
            row["layers"] = json!(layers);
            if !variant.start.is_null() {
                row["start"] = variant.start.clone();
            }
            rows.push(row);
        }
        blobs.sort();
        blobs.dedup();
        let manifest = json!({
            "schema": "gpubuild.manifest/1", "name": "tool", "version": self.version, "serial": self.serial,
            "expires": 4_102_444_800_u64, "platforms": {"linux-x86_64": {"default": "cpu", "variants": rows}},
        });
        (blobs, manifest)
    }

    /// Writes the release into a folder.
    pub(crate) fn write(&self, sandbox: &Sandbox, folder: &str) {
        self.write_changed(sandbox, folder, |_| {});
    }

    /// Writes the release with a changed manifest.
    pub(crate) fn write_changed(&self, sandbox: &Sandbox, folder: &str, change: impl FnOnce(&mut Value)) {
        let (blobs, mut manifest) = self.parts();
        change(&mut manifest);
        for (hash, bytes) in blobs {
            sandbox.write(&format!("{folder}/blobs/sha256/{hash}"), bytes);
        }
        sandbox.write(&format!("{folder}/manifest.json"), manifest.to_string());
    }

    /// Writes the release with a signature.
    pub(crate) fn write_signed(&self, sandbox: &Sandbox, folder: &str, pair: &minisign::KeyPair) {
        self.write(sandbox, folder);
        let text = sandbox.read(&format!("{folder}/manifest.json"));
        sandbox.write(&format!("{folder}/manifest.json.minisig"), signed(pair, &text));
    }
}

pub(crate) fn signed(pair: &minisign::KeyPair, text: &str) -> String {
    minisign::sign(None, &pair.sk, text.as_bytes(), None, None).unwrap().into_string()
}

pub(crate) fn key_pair() -> minisign::KeyPair {
    minisign::KeyPair::generate_unencrypted_keypair().unwrap()
}

/// The blob of a layer in a release folder, by index.
pub(crate) fn blob(sandbox: &Sandbox, folder: &str, index: usize) -> std::path::PathBuf {
    let manifest: Value = serde_json::from_str(&sandbox.read(&format!("{folder}/manifest.json"))).unwrap();
    let hash = manifest["platforms"]["linux-x86_64"]["variants"][0]["layers"][index]["sha256"].clone();
    Path::new(&sandbox.at(folder)).join("blobs/sha256").join(hash.as_str().unwrap())
}
