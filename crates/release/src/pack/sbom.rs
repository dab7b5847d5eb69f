//! The software bill of materials of a variant, in [CycloneDX](https://cyclonedx.org/docs/1.6/json/) 1.6: the program's crates, its native
//! sources, and the third-party libraries that are packed with it. The same inputs always give the same bytes.

use std::collections::BTreeMap;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_plan::project::source::lock::LockedSource;
use serde_json::{Value, json};

use super::origin::LibraryPackage;
use super::package::{CargoPackage, LinkedCrate};
use super::zig::LinkedPart;

/// Name of the file in `share/`.
pub const NAME: &str = "sbom.cdx.json";

/// A program or library of the variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SbomFile<'a> {
    /// Its path in the variant.
    pub path: &'a str,
    /// Its sha256.
    pub sha256: String,
    /// Whether the project built it.
    pub is_built: bool,
    /// The package that a third-party library comes from, if it is known.
    pub package: Option<&'a LibraryPackage>,
}

/// The native sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SbomSource<'a> {
    /// The name of their folder.
    pub name: &'a str,
    /// Where gpubuild downloaded them from.
    pub locked: Option<&'a LockedSource>,
}

/// The text of the document. `kind` is what the project is, in the terms of CycloneDX: `application`, `library`.
#[must_use]
pub fn text(
    cargo: &CargoPackage,
    kind: &str,
    source: Option<SbomSource<'_>>,
    files: &[SbomFile<'_>],
    parts: &[LinkedPart],
) -> String {
    let root = format!("{}@{}", cargo.name, cargo.version);
    let references: BTreeMap<&str, String> =
        cargo.crates.iter().map(|one| (one.id.as_str(), reference(one))).collect_map();
    let named = |ids: &[String]| -> Vec<String> {
        ids.iter().filter_map(|id| references.get(id.as_str()).cloned()).collect()
    };
    let (built, libraries): (Vec<&SbomFile<'_>>, Vec<_>) = files.iter().partition(|file| file.is_built);
    let source = source.map(of_source);

    let mut of_root = named(&cargo.depends);
    let mut components: Vec<Value> = cargo.crates.iter().map(of_crate).collect();
    let others = libraries.iter().map(|file| of_library(file)).chain(parts.iter().map(of_part));
    for component in source.into_iter().chain(others) {
        of_root.extend(component["bom-ref"].as_str().map(str::to_owned));
        components.push(component);
    }
    let mut depends = vec![json!({ "ref": root, "dependsOn": of_root })];
    depends.extend(
        cargo.crates.iter().map(|one| json!({ "ref": reference(one), "dependsOn": named(&one.depends) })),
    );
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": { "components": [{ "type": "application", "name": "gpubuild", "version": env!("CARGO_PKG_VERSION") }] },
            "component": {
                "type": kind,
                "bom-ref": root,
                "name": cargo.name,
                "version": cargo.version,
                "components": built.iter().map(|file| of_file(file)).collect::<Vec<_>>(),
            },
        },
        "components": components,
        "dependencies": depends,
    });
    format!("{document:#}\n")
}

/// The reference to a crate: its package URL if it is from crates.io, else its name and version.
fn reference(one: &LinkedCrate) -> String {
    let kind = if one.is_published { "pkg:cargo/" } else { "crate:" };
    format!("{kind}{}@{}", one.name, one.version)
}

fn of_crate(one: &LinkedCrate) -> Value {
    let mut component =
        json!({ "type": "library", "bom-ref": reference(one), "name": one.name, "version": one.version });
    if let Some(licence) = &one.licence {
        // Old crates separate alternatives by `/`.
        component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    if one.is_published {
        component["purl"] = reference(one).into();
    }
    component
}

fn of_source(source: SbomSource<'_>) -> Value {
    let name = source.locked.map_or_else(|| source.name.to_owned(), LockedSource::name);
    let mut component = json!({ "type": "library", "bom-ref": format!("source:{name}"), "name": name });
    if let Some(url) = source.locked.and_then(LockedSource::package_url) {
        component["purl"] = url.into();
    }
    if let Some(sha256) = source.locked.and_then(|locked| locked.sha256.as_deref()) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    component
}

fn of_library(file: &SbomFile<'_>) -> Value {
    let mut component = of_file(file);
    component["type"] = "library".into();
    component["bom-ref"] = file.path.into();
    if let Some(package) = file.package {
        component["purl"] = package.url.as_str().into();
        if let Some(version) = &package.version {
            component["version"] = version.as_str().into();
        }
    }
    component
}

/// A part of the compiler that is linked statically. The wheel does not name its version.
fn of_part(part: &LinkedPart) -> Value {
    let url = part.package.url.as_str();
    let mut component = json!({ "type": "library", "bom-ref": url, "name": part.package.name, "purl": url });
    if let Some(licence) = &part.licence {
        component["licenses"] = json!([{ "expression": licence }]);
    }
    component
}

fn of_file(file: &SbomFile<'_>) -> Value {
    json!({
        "type": "file",
        "bom-ref": file.path,
        "name": file.path,
        "hashes": [{ "alg": "SHA-256", "content": file.sha256 }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{HostPath, PathRules};
    use gpubuild_plan::project::source::SourceOrigin;

    fn linked(id: &str, licence: Option<&str>, is_published: bool, depends: &[&str]) -> LinkedCrate {
        LinkedCrate {
            id: id.to_owned(),
            name: id.to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.map(str::to_owned),
            is_published,
            depends: depends.iter().map(|&id| id.to_owned()).collect(),
            folder: HostPath::new(PathRules::Unix, "/"),
        }
    }

    #[test]
    fn every_part_has_a_component_and_every_reference_exists() {
        let cargo = CargoPackage {
            name: "app".to_owned(),
            version: "2.0.0".to_owned(),
            crates: vec![linked("a", Some("MIT/Apache-2.0"), true, &["b"]), linked("b", None, false, &[])],
            depends: vec!["a".to_owned()],
        };
        let package = LibraryPackage {
            name: "nvidia-cuda-runtime".to_owned(),
            version: Some("13.0.96".to_owned()),
            url: "pkg:pypi/nvidia-cuda-runtime@13.0.96".to_owned(),
            licences: Vec::new(),
            folder: String::new(),
        };
        let sha256 = "0".repeat(64);
        let file = |path, package| SbomFile { path, sha256: sha256.clone(), is_built: false, package };
        let files = [
            SbomFile { is_built: true, ..file("bin/app", None) },
            file("lib/libcudart.so.13", Some(&package)),
            file("lib/libother.so.1", None),
        ];
        let gk = SbomSource { name: "gk", locked: None };
        let part = LinkedPart {
            package: LibraryPackage {
                name: "musl".to_owned(),
                version: None,
                url: "pkg:pypi/ziglang@0.17.1#lib/libc/musl".to_owned(),
                licences: Vec::new(),
                folder: String::new(),
            },
            licence: Some("MIT".to_owned()),
        };
        let document = text(&cargo, "application", Some(gk), &files, std::slice::from_ref(&part));
        let document: Value = serde_json::from_str(&document).unwrap();
        let components = document["components"].as_array().unwrap();
        let names: Vec<&str> = components.iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names, ["a", "b", "gk", "lib/libcudart.so.13", "lib/libother.so.1", "musl"]);
        assert_eq!(components[5]["licenses"][0]["expression"], "MIT");
        assert_eq!(components[5]["purl"], part.package.url);
        assert_eq!(components[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(components[0]["purl"], "pkg:cargo/a@1.0.0");
        assert!(components[1].get("purl").is_none() && components[1].get("licenses").is_none());
        assert_eq!(components[3]["purl"], package.url);
        let built = &document["metadata"]["component"]["components"];
        assert_eq!(built[0]["hashes"][0]["content"], sha256);
        let known: Vec<&Value> = components.iter().map(|one| &one["bom-ref"]).collect();
        for dependency in document["dependencies"].as_array().unwrap() {
            for reference in dependency["dependsOn"].as_array().unwrap() {
                assert!(known.contains(&reference), "{reference}");
            }
        }
        assert_eq!(document["dependencies"][0]["dependsOn"].as_array().unwrap().len(), 5);
    }

    #[test]
    fn downloaded_sources_have_their_package_and_hash() {
        let origin = SourceOrigin::Crate { name: "x-sys".to_owned(), requirement: "=1.2.3".to_owned() };
        let sha256 = Some("1".repeat(64));
        let mut locked = LockedSource { origin, version: Some("1.2.3".to_owned()), file: None, sha256 };
        let of = |locked: &LockedSource| of_source(SbomSource { name: "native", locked: Some(locked) });
        let component = of(&locked);
        assert_eq!(component["name"], "x-sys-1.2.3");
        assert_eq!(component["purl"], "pkg:cargo/x-sys@1.2.3");
        assert_eq!(component["hashes"][0]["content"], "1".repeat(64));
        let rev = "a".repeat(40);
        let url = "https://github.com/Org/Name.git".to_owned();
        locked =
            LockedSource::exact(&SourceOrigin::Git { url, rev: rev.clone(), submodules: false }).unwrap();
        assert_eq!(of(&locked)["purl"], format!("pkg:github/org/name@{rev}"));
        assert!(of(&locked).get("hashes").is_none());
    }
}
