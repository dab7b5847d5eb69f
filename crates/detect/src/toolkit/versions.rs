//! Determines the version of a copy from files or from the output of a program.

use std::time::Duration;

use gpubuild_core::version::Version;
use gpubuild_host::{Command, CommandOutput, HostPath, InspectHost, RunPrograms};

use super::description::{ArchQuery, Description, Scale, VersionSource};
use super::pattern::{extract, extract_all, fill};
use super::places::{expand, read_head};
use crate::facts::Fact;
use crate::finding::{Evidence, EvidenceKind};

/// The paths to which the version sources of a copy refer.
pub struct VersionLocation<'a> {
    /// The base folder of relative paths.
    pub root: &'a HostPath,
    /// The real path of the root; for a tool, of the program.
    pub real: &'a HostPath,
}

/// Determines the version from the first source that yields one without running a program.
pub fn from_files(
    host: &dyn InspectHost,
    description: &Description,
    place: &VersionLocation<'_>,
) -> Option<Fact<Version>> {
    description.version.iter().find_map(|source| from_source(host, source, place))
}

fn from_source(
    host: &dyn InspectHost,
    source: &VersionSource,
    place: &VersionLocation<'_>,
) -> Option<Fact<Version>> {
    if let Some(pattern) = &source.path {
        let versions = extract_all(&fill(pattern, host)?, &place.real.forward_slashes());
        let version =
            versions.into_iter().find(|version| !source.dotted || version.as_str().contains('.'))?;
        return Some(fact(version, "path", Evidence::file(place.real.as_str(), "name")));
    }
    if let Some(pattern) = &source.entry {
        let pattern = place.root.join(&fill(pattern, host)?).normalized();
        let name = pattern.file_name()?.to_owned();
        let stars = pattern.as_str().replace("{version}", "*");
        return expand(host, &stars)
            .into_iter()
            .filter_map(|path| {
                // Match complete names: `share/cmake-3.25`, but not `share/cmake-3.25.old`.
                let version = extract(&format!("/{name}/"), &format!("/{}/", path.file_name()?))?;
                Some(fact(version, "path", Evidence::file(path.as_str(), "name")))
            })
            .max_by(|left, right| left.value.cmp(&right.value));
    }
    let file = place.root.join(&fill(source.file.as_ref()?, host)?);
    expand(host, file.as_str()).iter().find_map(|path| {
        let text = read_head(host, path).ok()?;
        let version = match &source.json {
            Some(key) => json_version(&text, key)?,
            None => text_version(&text, source)?,
        };
        let evidence = Evidence::file(path.as_str(), version.as_str());
        Some(fact(version, "file", evidence))
    })
}

fn fact(value: Version, found_via: &str, evidence: Evidence) -> Fact<Version> {
    Fact { value, found_via: found_via.to_owned(), evidence: vec![evidence] }
}

fn json_version(text: &str, key: &str) -> Option<Version> {
    let document = crate::json::parse(text)?;
    let value = key.split('.').try_fold(&document, |value, name| value.get(name))?;
    value.as_str()?.parse().ok()
}

fn text_version(text: &str, source: &VersionSource) -> Option<Version> {
    let pieces: Vec<Version> =
        source.text.iter().map(|pattern| extract(pattern, text)).collect::<Option<_>>()?;
    match source.scale {
        Scale::Plain => pieces.iter().map(Version::as_str).collect::<Vec<_>>().join(".").parse().ok(),
        Scale::Thousands => Some(Version::of_cuda_number(pieces.first()?.major())),
    }
}

/// Time limit for a program that prints its version.
const DEADLINE: Duration = Duration::from_secs(3);

/// Determines the version from a program's output. Runs the program once, with the first arguments in the description. For other
/// arguments, only recorded output is used.
pub fn from_program(
    host: &dyn RunPrograms,
    description: &Description,
    program: &HostPath,
) -> Option<Fact<Version>> {
    let mut sources = description.version.iter().filter(|source| !source.args.is_empty());
    let command =
        |source: &VersionSource| Command::new(program.as_str(), DEADLINE).args(source.args.iter().cloned());
    let first = sources.next()?;
    let version = host.run(&command(first)).ok().and_then(|output| version_in(first, program, &output));
    version.or_else(|| {
        sources.find_map(|source| version_in(source, program, &host.recorded_output(&command(source))?))
    })
}

/// The version in a program's output.
fn version_in(source: &VersionSource, program: &HostPath, output: &CommandOutput) -> Option<Fact<Version>> {
    if !output.success() {
        return None;
    }
    let mut lines = output.stdout.lines().map(str::trim).filter(|line| !line.is_empty());
    let (line, version) = if let Some(pattern) = source.text.first() {
        lines.find_map(|line| Some((line, extract(pattern, line)?)))?
    } else {
        // `gcc -dumpfullversion` prints only the version; other programs print it in a sentence.
        let line = lines.next()?;
        (line, Version::find_in(line).or_else(|| line.parse().ok())?)
    };
    let place = format!("{program} {}", source.args.join(" "));
    Some(fact(version, "program", Evidence::new(EvidenceKind::Exec, place, line)))
}

/// Determines the architectures from the output of a compiler.
pub fn archs_of_program(
    host: &dyn RunPrograms,
    query: &ArchQuery,
    program: &HostPath,
    mode: QueryMode,
) -> Vec<String> {
    let command = Command::new(program.as_str(), DEADLINE).args(query.args.iter().cloned());
    let output = match mode {
        QueryMode::Recorded => host.recorded_output(&command),
        QueryMode::Program => host.run(&command).ok(),
    };
    let Some(output) = output.filter(CommandOutput::success) else { return Vec::new() };
    let words = output.stdout.split_whitespace();
    words.filter_map(|word| word.strip_prefix(query.prefix.as_str())).map(str::to_owned).collect()
}

/// Whether a query may start a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryMode {
    /// Only use recorded output.
    Recorded,
    /// Start the program.
    Program,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_a_json_key() {
        let text = r#"{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}"#;
        assert_eq!(json_version(text, "cuda.version").unwrap().as_str(), "12.4.1");
        assert!(json_version(text, "cuda.nothing").is_none());
        assert!(json_version("{", "cuda").is_none());
    }

    #[test]
    fn version_macros_are_scaled_and_joined() {
        let cuda = VersionSource {
            text: vec!["define CUDART_VERSION {version}".into()],
            scale: Scale::Thousands,
            ..VersionSource::default()
        };
        assert_eq!(text_version("#define CUDART_VERSION  11080", &cuda).unwrap().as_str(), "11.8");
        let hip = VersionSource {
            text: vec![
                "define HIP_VERSION_MAJOR {version}".into(),
                "define HIP_VERSION_MINOR {version}".into(),
            ],
            ..VersionSource::default()
        };
        let header = "#define HIP_VERSION_MAJOR 6\n#define HIP_VERSION_MINOR 2\n";
        assert_eq!(text_version(header, &hip).unwrap().as_str(), "6.2");
        assert!(text_version("#define HIP_VERSION_MAJOR 6\n", &hip).is_none());
    }
}
