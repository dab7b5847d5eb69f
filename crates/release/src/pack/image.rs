//! The manifest of a release with its signature, and the same release as an OCI image layout.

use std::collections::BTreeMap;

use gpubuild_exec::store::sha256;
use serde_json::{Value, json};

use super::PackError;
use super::release::{MANIFEST, PublishOptions, ReleaseWork, pretty};
use crate::manifest::{AttachedFile, ReleaseManifest};
use crate::{provenance, trust};

/// The media type of an image manifest.
const IMAGE_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of a list of manifests.
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
/// The annotation with the tag of a manifest.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// The media type of a layer.
const LAYER_TYPE: &str = "application/vnd.gpubuild.layer.v1.tar+zstd";
/// The media type of an in-toto statement.
const STATEMENT_TYPE: &str = "application/vnd.in-toto+json";
/// The media type of a software bill of materials.
const SBOM_TYPE: &str = "application/vnd.cyclonedx+json";

impl ReleaseWork<'_> {
    /// Writes the manifest, its signature, and the OCI image layout.
    pub(super) fn documents(
        &self,
        manifest: &ReleaseManifest,
        layers: &BTreeMap<String, u64>,
        options: &PublishOptions<'_>,
    ) -> Result<(), PackError> {
        let text = pretty(manifest)?;
        self.write(&self.temporary.join(MANIFEST), &text)?;
        let mut parts =
            vec![self.blob("application/vnd.gpubuild.manifest.v1+json", &text, Some(MANIFEST))?];
        if let Some(signer) = options.signer {
            let about = format!("{} {} serial {}", manifest.name, manifest.version, manifest.serial);
            let signature = signer.sign(&text, &about)?.into_bytes();
            let name = format!("{MANIFEST}{}", trust::SUFFIX);
            self.write(&self.temporary.join(&name), &signature)?;
            parts.push(self.blob(
                "application/vnd.gpubuild.signature.v1.minisign",
                &signature,
                Some(&name),
            )?);
        }
        let layers = layers.iter().map(|(name, size)| (name.as_str(), *size));
        parts.extend(layers.map(|(name, size)| descriptor(LAYER_TYPE, name, size)));
        // Also part of the image, because not every tool copies what refers to an image.
        let attached = attached(manifest);
        parts.extend(attached.iter().map(|(_, kind, file)| descriptor(kind, &file.sha256, file.size)));
        let empty = self.blob("application/vnd.oci.empty.v1+json", b"{}", None)?;
        let image = json!({
            "schemaVersion": 2,
            "mediaType": IMAGE_TYPE,
            "artifactType": "application/vnd.gpubuild.release.v1",
            "config": empty,
            "layers": parts,
            "annotations": {"org.opencontainers.image.title": manifest.name, "org.opencontainers.image.version": manifest.version},
        });
        let subject = self.blob(IMAGE_TYPE, &plain(&image)?, None)?;
        let mut image = subject.clone();
        image["artifactType"] = json!("application/vnd.gpubuild.release.v1");
        image["annotations"] = json!({REF_NAME: manifest.version});
        let mut manifests = vec![image];
        let referrers =
            attached.iter().map(|(name, kind, file)| self.referrer(name, kind, file, (&subject, &empty)));
        let referrers = referrers.collect::<Result<Vec<Value>, PackError>>()?;
        if !referrers.is_empty() {
            // Clients read the list under this tag from registries without the referrers API (distribution-spec, "Referrers tag schema").
            let mut list = self.blob(INDEX_TYPE, &plain(&index(&referrers))?, None)?;
            list["annotations"] = json!({REF_NAME: referrers_tag(&subject)});
            manifests.extend(referrers);
            manifests.push(list);
        }
        self.write(&self.temporary.join("index.json"), &plain(&index(&manifests))?)?;
        self.write(&self.temporary.join("oci-layout"), b"{\"imageLayoutVersion\":\"1.0.0\"}")
    }

    /// Writes the manifest of a document that refers to the image, as registries list it, and returns its OCI descriptor.
    fn referrer(
        &self,
        name: &str,
        kind: &str,
        file: &AttachedFile,
        (subject, empty): (&Value, &Value),
    ) -> Result<Value, PackError> {
        let mut document = descriptor(kind, &file.sha256, file.size);
        if kind == STATEMENT_TYPE {
            document["annotations"] = json!({"in-toto.io/predicate-type": provenance::PREDICATE});
        }
        let annotations = json!({"org.opencontainers.image.title": name});
        let referrer = json!({
            "schemaVersion": 2,
            "mediaType": IMAGE_TYPE,
            "artifactType": kind,
            "config": empty,
            "layers": [document],
            "subject": subject,
            "annotations": annotations,
        });
        let mut referrer = self.blob(IMAGE_TYPE, &plain(&referrer)?, None)?;
        referrer["artifactType"] = kind.into();
        referrer["annotations"] = annotations;
        Ok(referrer)
    }

    /// Writes a small blob and returns its OCI descriptor.
    fn blob(&self, kind: &str, bytes: &[u8], title: Option<&str>) -> Result<Value, PackError> {
        let name = sha256(bytes);
        self.write(&self.blobs().join(&name), bytes)?;
        let mut value = descriptor(kind, &name, bytes.len() as u64);
        if let Some(title) = title {
            value["annotations"] = json!({"org.opencontainers.image.title": title});
        }
        Ok(value)
    }
}

/// The documents about the variants, with a name and their media types.
fn attached(manifest: &ReleaseManifest) -> Vec<(String, &'static str, &AttachedFile)> {
    let mut found = Vec::new();
    for (id, platform) in &manifest.platforms {
        for variant in &platform.variants {
            let name = format!("{id}-{}", variant.label);
            let provenance = variant.provenance.iter().map(|file| (name.clone(), STATEMENT_TYPE, file));
            found.extend(provenance.chain(variant.sbom.iter().map(|file| (name.clone(), SBOM_TYPE, file))));
        }
    }
    found
}

/// An image index.
fn index(manifests: &[Value]) -> Value {
    json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests})
}

/// The tag of the list of what refers to an image: `sha256-…`.
fn referrers_tag(image: &Value) -> String {
    image["digest"].as_str().unwrap_or_default().replace(':', "-")
}

/// The OCI descriptor of a blob.
fn descriptor(kind: &str, sha256: &str, size: u64) -> Value {
    json!({"mediaType": kind, "digest": format!("sha256:{sha256}"), "size": size})
}

fn plain(value: &Value) -> Result<Vec<u8>, PackError> {
    serde_json::to_vec(value).map_err(|error| PackError::Other(error.to_string()))
}
