//! How a variant was built: an [in-toto statement](https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md) with a
//! [SLSA provenance](https://slsa.dev/spec/v1.1/provenance) predicate. `gpubuild pack` writes one for each variant, and the manifest
//! contains its hash, so that the manifest's signature covers it.

mod origin;

pub use origin::{BuildOrigin, CommitOrigin};

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_plan::artifacts::BuiltTree;
use gpubuild_plan::project::source::lock::LockedSource;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::manifest::ReleaseVariant;

/// The largest statement that is read, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// The type of an in-toto statement.
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// The type of its predicate.
pub const PREDICATE: &str = "https://slsa.dev/provenance/v1";
/// The page that describes the parameters.
const BUILD_TYPE: &str =
    concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/guide/releases.md#provenance");

/// What a variant was built from.
#[derive(Debug)]
pub struct BuildInputs<'a> {
    /// The name of the release.
    pub name: &'a str,
    /// The version of the release.
    pub version: &'a str,
    /// The platform: `linux-x86_64`.
    pub platform: &'a str,
    /// Where and from which commit it was built.
    pub origin: &'a BuildOrigin,
    /// The downloaded native sources.
    pub locked: Option<&'a LockedSource>,
    /// The name and the sha256 of gpubuild.toml, or of Cargo.toml without one.
    pub project_file: Option<(&'a str, String)>,
    /// The CMake trees.
    pub trees: &'a [BuiltTree],
    /// The paths and hashes of the files that the project built.
    pub built: &'a [(String, String)],
}

/// The text of the statement about a variant. The same inputs always give the same bytes.
#[must_use]
pub fn statement(inputs: &BuildInputs<'_>, variant: &ReleaseVariant) -> String {
    let built = inputs.built.iter().map(|(path, sha256)| (path.clone(), sha256));
    let layers = variant.layers.iter().map(|layer| (format!("blobs/sha256/{}", layer.sha256), &layer.sha256));
    let subject: Vec<Value> = built
        .chain(layers)
        .map(|(name, sha256)| json!({ "name": name, "digest": { "sha256": sha256 } }))
        .collect();
    let origin = inputs.origin;
    let mut run = json!({
        "builder": { "id": origin.builder, "version": { "gpubuild": env!("CARGO_PKG_VERSION") } },
    });
    if let Some(invocation) = &origin.invocation {
        run["metadata"] = json!({ "invocationId": invocation });
    }
    let document = json!({
        "_type": STATEMENT,
        "subject": subject,
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "name": inputs.name,
                    "version": inputs.version,
                    "platform": inputs.platform,
                    "variant": variant.label,
                    "backends": variant.backends.iter().map(|backend| backend.id()).collect::<Vec<_>>(),
                },
                "internalParameters": { "trees": inputs.trees.iter().map(of_tree).collect::<Vec<_>>() },
                "resolvedDependencies": dependencies(inputs),
            },
            "runDetails": run,
        },
    });
    format!("{document:#}\n")
}

/// The configuration of a tree, without paths of the build machine.
fn of_tree(tree: &BuiltTree) -> Value {
    let compilers: BTreeMap<&str, String> = tree
        .compilers
        .iter()
        .map(|(language, compiler)| (language.as_str(), format!("{} {}", compiler.id, compiler.version)))
        .collect_map();
    let backends: Vec<&str> = tree.backends.iter().copied().map(Backend::id).collect();
    json!({ "backends": backends, "cmake": tree.cmake, "generator": tree.generator, "compilers": compilers })
}

fn dependencies(inputs: &BuildInputs<'_>) -> Vec<Value> {
    let commit = inputs.origin.commit.as_ref().map(|commit| {
        let mut source = json!({ "digest": { "gitCommit": commit.hash } });
        if let Some(repository) = &commit.repository {
            source["uri"] = format!("git+{repository}").into();
        }
        if commit.modified {
            source["annotations"] = json!({ "modified": true });
        }
        source
    });
    let project = inputs
        .project_file
        .as_ref()
        .map(|(name, sha256)| json!({ "name": name, "digest": { "sha256": sha256 } }));
    let sources = inputs.locked.map(|locked| {
        let mut source = json!({ "name": locked.name() });
        if let Some(url) = locked.package_url() {
            source["uri"] = url.into();
        }
        if let Some(sha256) = &locked.sha256 {
            source["digest"] = json!({ "sha256": sha256 });
        }
        source
    });
    commit.into_iter().chain(project).chain(sources).collect()
}

/// The part of a statement that is read. Other fields are ignored, as the specification requires.
#[derive(Deserialize)]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Resource>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
}

/// A file or a source with its hashes.
#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    uri: Option<String>,
    #[serde(default)]
    digest: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Predicate {
    build_definition: Definition,
    run_details: Run,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    #[serde(default)]
    resolved_dependencies: Vec<Resource>,
}

#[derive(Deserialize)]
struct Run {
    builder: Builder,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Builder {
    id: String,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default, rename = "invocationId")]
    invocation: Option<String>,
}

/// Why the provenance of a variant is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvenanceError {
    /// The release has no statement about the variant.
    #[error("the release does not say how `{label}` was built")]
    Missing {
        /// The label of the variant.
        label: String,
    },
    /// The statement is not valid, or is about something else.
    #[error("the provenance of `{label}` is invalid: {what}")]
    Invalid {
        /// The label of the variant.
        label: String,
        /// The problem.
        what: String,
    },
    /// It was built from another repository than the required one.
    #[error("`{label}` was built from {found}, not from `{wanted}`")]
    OtherSource {
        /// The label of the variant.
        label: String,
        /// The repository in the statement.
        found: String,
        /// The required repository.
        wanted: String,
    },
}

impl Diagnostic for ProvenanceError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Missing { .. } => id!("install.no-provenance"),
            Self::Invalid { .. } => id!("install.provenance-invalid"),
            Self::OtherSource { .. } => id!("install.other-source"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Missing { .. } => {
                "ask the publisher to pack it again with a newer gpubuild, or omit `--require-provenance`"
            }
            Self::Invalid { .. } => "nothing was installed; report this to the publisher",
            Self::OtherSource { .. } => {
                "check that the key belongs to the publisher of this program, or correct `--source-uri`"
            }
        };
        Some(hint.to_owned())
    }
}

/// Reads the statement about a variant, and checks that it covers all of its layers and names the repository `source`.
///
/// # Errors
/// The statement is invalid, about other files, or names another repository.
pub fn check(
    bytes: &[u8],
    variant: &ReleaseVariant,
    source: Option<&str>,
) -> Result<BuildOrigin, ProvenanceError> {
    let label = variant.label.clone();
    let invalid = |what: String| ProvenanceError::Invalid { label: label.clone(), what };
    let statement: Statement = serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
    for (name, found, expected) in
        [("_type", &statement.kind, STATEMENT), ("predicateType", &statement.predicate_type, PREDICATE)]
    {
        if found != expected {
            return Err(invalid(format!("`{name}` is `{found}`, not `{expected}`")));
        }
    }
    let covers =
        |sha256: &String| statement.subject.iter().any(|one| one.digest.get("sha256") == Some(sha256));
    if let Some(layer) = variant.layers.iter().find(|layer| !covers(&layer.sha256)) {
        return Err(invalid(format!("layer `{}` is not one of its subjects", layer.sha256)));
    }
    let origin = origin_of(statement.predicate);
    let Some(wanted) = source else { return Ok(origin) };
    let found = origin.commit.as_ref().and_then(|commit| commit.repository.as_deref());
    match found {
        Some(found) if origin::is_same_repository(found, wanted) => Ok(origin),
        _ => {
            let found =
                found.map_or_else(|| "an unknown repository".to_owned(), |found| format!("`{found}`"));
            Err(ProvenanceError::OtherSource { label, found, wanted: wanted.to_owned() })
        }
    }
}

/// The commit is the first dependency with the hash of one.
fn origin_of(predicate: Predicate) -> BuildOrigin {
    let sources = predicate.build_definition.resolved_dependencies;
    let commit = sources.into_iter().find_map(|mut one| {
        Some(CommitOrigin {
            hash: one.digest.remove("gitCommit")?,
            repository: one.uri.map(|uri| uri.strip_prefix("git+").unwrap_or(&uri).to_owned()),
            modified: one.annotations.get("modified") == Some(&Value::Bool(true)),
        })
    });
    let run = predicate.run_details;
    BuildOrigin { builder: run.builder.id, invocation: run.metadata.invocation, commit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Layer;

    fn variant() -> ReleaseVariant {
        let layer = |digit: &str| Layer { sha256: digit.repeat(64), size: 1, unpacked: 1 };
        ReleaseVariant {
            label: "cpu".to_owned(),
            backends: vec![Backend::Cpu],
            layers: vec![layer("1"), layer("2")],
            ..ReleaseVariant::default()
        }
    }

    fn origin() -> BuildOrigin {
        BuildOrigin {
            builder: "https://example.org/builder".to_owned(),
            invocation: Some("https://example.org/runs/7".to_owned()),
            commit: Some(CommitOrigin {
                hash: "a".repeat(40),
                repository: Some("https://example.org/me/adder".to_owned()),
                modified: true,
            }),
        }
    }

    fn text(origin: &BuildOrigin) -> String {
        let built = [("bin/app".to_owned(), "3".repeat(64))];
        let inputs = BuildInputs {
            name: "adder",
            version: "1.0.0",
            platform: "linux-x86_64",
            origin,
            locked: None,
            project_file: Some(("gpubuild.toml", "4".repeat(64))),
            trees: &[],
            built: &built,
        };
        statement(&inputs, &variant())
    }

    #[test]
    fn statements_are_read_as_they_were_written() {
        let text = text(&origin());
        let document: Value = serde_json::from_str(&text).unwrap();
        let names: Vec<&str> =
            document["subject"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        let layers = ["1", "2"].map(|digit| format!("blobs/sha256/{}", digit.repeat(64)));
        assert_eq!(names, ["bin/app", &layers[0], &layers[1]]);
        assert_eq!(
            check(text.as_bytes(), &variant(), Some("https://example.org/me/adder.git")),
            Ok(origin())
        );
    }

    #[test]
    fn statements_about_other_files_or_repositories_are_rejected() {
        let good = text(&origin());
        let other_layer = good.replace(&"2".repeat(64), &"5".repeat(64));
        let other_type = good.replace("/Statement/v1", "/Statement/v2");
        let no_builder = good.replace("\"builder\"", "\"other\"");
        for bad in [other_layer.as_str(), &other_type, &no_builder, "", "[]", "{}"] {
            let error = check(bad.as_bytes(), &variant(), None).unwrap_err();
            assert_eq!(error.id(), id!("install.provenance-invalid"), "{bad}");
        }
        let error = check(good.as_bytes(), &variant(), Some("https://example.org/me/other")).unwrap_err();
        assert_eq!(error.id(), id!("install.other-source"));
        let unknown = text(&BuildOrigin { commit: None, ..origin() });
        let error = check(unknown.as_bytes(), &variant(), Some("https://example.org/me/adder")).unwrap_err();
        assert!(error.to_string().contains("an unknown repository"), "{error}");
    }
}
