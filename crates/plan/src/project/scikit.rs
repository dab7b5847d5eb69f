//! Variables that scikit-build-core gives to CMake, for projects whose CMakeLists.txt reads them.

use std::collections::BTreeMap;

use gpubuild_host::{HostPath, ReadFiles};
use serde::Deserialize;

use super::python_version;

#[derive(Deserialize)]
struct PyProject {
    project: Option<NameAndVersion>,
}

#[derive(Deserialize)]
struct NameAndVersion {
    name: Option<String>,
    version: Option<String>,
}

/// The cache entries for the variables that the CMakeLists.txt in `source` mentions. Values are those of pyproject.toml in `root`, for the
/// Python package in the folder `package`; a file that cannot be read gives none, because `gpubuild pack` reports it.
pub(super) fn entries(
    host: &dyn ReadFiles,
    (root, package): (&HostPath, &str),
    source: &HostPath,
) -> BTreeMap<String, String> {
    let Ok(script) = host.read_text(&source.join("CMakeLists.txt")) else { return BTreeMap::new() };
    let text = host.read_text(&root.join("pyproject.toml")).unwrap_or_default();
    let metadata = gpubuild_toml::from_str::<PyProject>(&text).ok().and_then(|file| file.project);
    let (name, version) = metadata.map(|project| (project.name, project.version)).unwrap_or_default();
    let version = version.or_else(|| python_version::read(host, root, Some(package), &text).ok()?);
    let values = [
        ("SKBUILD", Some("2".to_owned())),
        ("SKBUILD_PROJECT_NAME", name),
        ("SKBUILD_PROJECT_VERSION", version.as_deref().map(numbers)),
        ("SKBUILD_PROJECT_VERSION_FULL", version),
    ];
    values
        .into_iter()
        .filter(|(variable, _)| mentions(&script, variable))
        .filter_map(|(variable, value)| Some((variable.to_owned(), value?)))
        .collect()
}

/// The release numbers of a version, as CMake requires them: `1.2.0` of `1.2.0rc1`.
fn numbers(version: &str) -> String {
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts: Vec<&str> = Vec::new();
    for part in version.split('.') {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        parts.extend(Some(&part[..digits]).filter(is_number));
        if digits < part.len() {
            break;
        }
    }
    parts.join(".")
}

/// Whether the script contains the variable as a complete name.
fn mentions(script: &str, variable: &str) -> bool {
    script.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == variable)
}

#[cfg(test)]
mod tests {
    use gpubuild_host::{Arch, HostInfo as _, Os, RecordedHost};

    use super::*;

    fn found(script: &str, metadata: &str) -> Vec<String> {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/p/native/CMakeLists.txt", script)
            .file("/p/pyproject.toml", metadata)
            .file("/p/rdp/__init__.py", "__version__ = \"0.2.0.dev1\"\n")
            .build();
        let entries = entries(&host, (&host.path("/p"), "rdp"), &host.path("/p/native"));
        entries.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn variables_that_the_script_reads_get_the_values_of_pyproject() {
        let script =
            "project(${SKBUILD_PROJECT_NAME} VERSION ${SKBUILD_PROJECT_VERSION})\nif(SKBUILD)\nendif()";
        let metadata = "[project]\nname = \"rdp\"\nversion = \"0.1.6rc2\"\n";
        assert_eq!(
            found(script, metadata),
            ["SKBUILD=2", "SKBUILD_PROJECT_NAME=rdp", "SKBUILD_PROJECT_VERSION=0.1.6"]
        );
        assert_eq!(
            found("set(V ${SKBUILD_PROJECT_VERSION_FULL})", metadata),
            ["SKBUILD_PROJECT_VERSION_FULL=0.1.6rc2"]
        );
        let dynamic = "[project]\nname = \"rdp\"\ndynamic = [\"version\"]\n";
        assert_eq!(
            found("project(rdp VERSION ${SKBUILD_PROJECT_VERSION})", dynamic),
            ["SKBUILD_PROJECT_VERSION=0.2.0"]
        );
        assert!(found("project(rdp)\nset(SKBUILD_PLATLIB_DIR x)", metadata).is_empty());
        assert!(found("project(${SKBUILD_PROJECT_NAME})", "[project").is_empty());
    }

    #[test]
    fn versions_are_reduced_to_their_numbers() {
        for (version, expected) in [
            ("1.2", "1.2"),
            ("1.2.0.post1", "1.2.0"),
            ("2.0rc1.5", "2.0"),
            ("1.0+cuda.12", "1.0"),
            ("dev", ""),
        ] {
            assert_eq!(numbers(version), expected, "{version}");
        }
    }
}
