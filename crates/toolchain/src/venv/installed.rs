//! Determines the state of wheels in an environment: complete, damaged, another version, or absent.

use std::collections::BTreeMap;

use gpubuild_core::text::python_package;
use gpubuild_host::{HostPath, ReadFiles};

use super::environment::VirtualEnvironment;
use super::problem::VenvProblem;

/// A package with metadata in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// Its version.
    pub version: String,
    /// Its `.dist-info` folder.
    pub info: HostPath,
}

/// The state of one wheel in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WheelState {
    /// The package is not installed.
    Absent,
    /// All files in its RECORD exist and have the recorded sizes.
    Complete,
    /// Its metadata exists, but files are missing or changed, for example after a killed installation.
    Damaged {
        /// Its `.dist-info` folder.
        info: HostPath,
        /// The first problem.
        why: String,
    },
    /// Another version is installed.
    Other {
        /// The installed version.
        version: String,
    },
}

/// The packages of an environment by normalized name, from their `.dist-info` folders.
///
/// # Errors
/// `site-packages` cannot be read.
pub fn distributions(
    host: &dyn ReadFiles,
    environment: &VirtualEnvironment,
) -> Result<BTreeMap<String, Distribution>, VenvProblem> {
    let site = &environment.site;
    let names = host.list(site).map_err(|error| VenvProblem::io("read", site, &error))?;
    let distribution = |name: String| {
        let (package, version) = name.strip_suffix(".dist-info")?.rsplit_once('-')?;
        let info = site.join(&name);
        Some((python_package(package), Distribution { version: version.to_owned(), info }))
    };
    Ok(names.into_iter().filter_map(distribution).collect())
}

/// Determines the state of a wheel.
#[must_use]
pub fn state(
    host: &dyn ReadFiles,
    environment: &VirtualEnvironment,
    distributions: &BTreeMap<String, Distribution>,
    package: &str,
    version: &str,
) -> WheelState {
    let Some(found) = distributions.get(&python_package(package)) else { return WheelState::Absent };
    match first_problem(host, environment, found) {
        // A damaged package can be replaced, whatever its version.
        Some(why) => WheelState::Damaged { info: found.info.clone(), why },
        None if found.version == version => WheelState::Complete,
        None => WheelState::Other { version: found.version.clone() },
    }
}

/// The first file that differs from a package's RECORD. Compares sizes only.
fn first_problem(
    host: &dyn ReadFiles,
    environment: &VirtualEnvironment,
    found: &Distribution,
) -> Option<String> {
    let record = found.info.join("RECORD");
    // Installers write RECORD last.
    let Ok(text) = host.read_text(&record) else {
        return Some("its RECORD is missing".to_owned());
    };
    text.lines().find_map(|line| {
        let mut fields = line.rsplitn(3, ',');
        let size = fields.next()?.trim().parse::<u64>().ok()?;
        let name = fields.nth(1)?.trim_matches('"');
        let path = environment.site.join(name).normalized();
        match host.stat(&path) {
            Ok(stat) if stat.size == size => None,
            Ok(stat) => Some(format!("`{name}` has {} bytes instead of {size}", stat.size)),
            Err(_) => Some(format!("`{name}` is missing")),
        }
    })
}

/// Packages of an environment that require a package, with their requirement: `torch 2.7.0 (==12.6.4.1)`.
#[must_use]
pub fn wanted_by(
    host: &dyn ReadFiles,
    distributions: &BTreeMap<String, Distribution>,
    package: &str,
) -> Vec<String> {
    let wanted = python_package(package);
    let requires_package = |(name, distribution): (&String, &Distribution)| {
        let text = host.read_text(&distribution.info.join("METADATA")).ok()?;
        text.lines().take_while(|line| !line.is_empty()).find_map(|line| {
            let requirement = line.strip_prefix("Requires-Dist:")?.trim();
            let end = requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
            let (asked, rest) = requirement.split_at(end.unwrap_or(requirement.len()));
            let rest = rest.split(';').next().unwrap_or_default().trim().trim_matches(['(', ')']);
            let how = if rest.is_empty() { String::new() } else { format!(" ({rest})") };
            (python_package(asked) == wanted).then(|| format!("{name} {}{how}", distribution.version))
        })
    };
    distributions.iter().filter_map(requires_package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, HostInfo, Os, RecordedHost};

    const SITE: &str = "/v/lib/python3.11/site-packages";

    fn inspect(files: &[(&str, &str)], package: &str, version: &str) -> (WheelState, Vec<String>) {
        let mut builder = RecordedHost::builder(Os::Linux, Arch::X86_64).directory(SITE);
        for (name, text) in files {
            builder = builder.file(&format!("{SITE}/{name}"), text);
        }
        let host = builder.build();
        let environment = VirtualEnvironment {
            folder: host.path("/v"),
            python: host.path("/v/bin/python"),
            version: "3.11".parse().unwrap(),
            site: host.path(SITE),
        };
        let there = distributions(&host, &environment).unwrap();
        (state(&host, &environment, &there, package, version), wanted_by(&host, &there, package))
    }

    #[test]
    fn wheel_states_are_distinguished() {
        let record = "nvidia/lib/a.so,sha256=x,3\nx-1.0.dist-info/RECORD,,\n\"odd,name\",sha256=y,1\n";
        let complete = [("x-1.0.dist-info/RECORD", record), ("nvidia/lib/a.so", "abc"), ("odd,name", "1")];
        assert_eq!(inspect(&complete, "X", "1.0").0, WheelState::Complete);
        assert_eq!(inspect(&complete, "x", "1.1").0, WheelState::Other { version: "1.0".into() });
        assert_eq!(inspect(&[], "x", "1.0").0, WheelState::Absent);
        let why = |files: &[(&str, &str)]| match inspect(files, "x", "1.0").0 {
            WheelState::Damaged { why, .. } => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(&complete[..1]), "`nvidia/lib/a.so` is missing");
        assert_eq!(
            why(&[complete[0], ("nvidia/lib/a.so", "ab"), complete[2]]),
            "`nvidia/lib/a.so` has 2 bytes instead of 3"
        );
        assert_eq!(why(&[("x-1.0.dist-info/METADATA", "")]), "its RECORD is missing");
    }

    #[test]
    fn packages_that_require_a_package_are_listed() {
        let torch = "Metadata-Version: 2.1\nRequires-Dist: nvidia_cublas.cu12 (==12.6.4.1) ; platform_system == \"Linux\"\n\nRequires-Dist: nvidia-cublas-cu12\n";
        let files = [
            ("torch-2.7.0.dist-info/METADATA", torch),
            ("y-1.dist-info/METADATA", "Requires-Dist: nvidia-cublas-cu12-x\n"),
        ];
        assert_eq!(inspect(&files, "nvidia-cublas-cu12", "1").1, ["torch 2.7.0 (==12.6.4.1)"]);
    }
}
