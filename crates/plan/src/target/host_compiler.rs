//! The host compiler of nvcc that a variable names, in builds for another platform.

use std::time::Duration;

use gpubuild_core::Os;
use gpubuild_host::{Command, InspectHost};

use super::Target;

/// The variables that name nvcc's host compiler, of CMake and of nvcc, in the order in which they are used.
pub const HOST_COMPILER_VARIABLES: [&str; 2] = ["CUDAHOSTCXX", "NVCC_CCBIN"];

/// The time limit for the query of a compiler's platform.
const DEADLINE: Duration = Duration::from_secs(60);

/// A host compiler of nvcc that a variable names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedHostCompiler {
    /// The variable: `CUDAHOSTCXX`.
    pub variable: &'static str,
    /// Its value: a program, or a folder with `g++`.
    pub value: String,
    /// The platform that it compiles for, as it prints it: `aarch64-linux-gnu`. `None` if it prints none.
    pub platform: Option<String>,
}

impl NamedHostCompiler {
    /// The compiler that a variable of a machine names, and the platform that it prints.
    #[must_use]
    pub fn query(host: &dyn InspectHost) -> Option<Self> {
        let (variable, value) = HOST_COMPILER_VARIABLES
            .into_iter()
            .find_map(|name| Some((name, host.env().get(name).filter(|value| !value.is_empty())?)))?;
        let folder = host.path(value);
        let program = if host.is_dir(&folder) { folder.join("g++").to_string() } else { value.to_owned() };
        let output = host.run(&Command::new(&program, DEADLINE).arg("-dumpmachine")).ok();
        let platform = output.filter(gpubuild_host::CommandOutput::success);
        let platform = platform.map(|output| output.stdout.trim().to_owned()).filter(|text| !text.is_empty());
        Some(Self { variable, value: value.to_owned(), platform })
    }

    /// Whether it compiles for a target. The vendor and what follows the operating system differ between distributions:
    /// `aarch64-none-linux-gnu`, `aarch64-redhat-linux`.
    #[must_use]
    pub fn is_for(&self, target: &Target) -> bool {
        let Some(platform) = &self.platform else { return false };
        let has_musl = |name: &str| name.ends_with("-musl");
        target.os == Some(Os::Linux)
            && platform.split('-').next() == Some(target.arch.as_str())
            && platform.split('-').any(|part| part == "linux")
            && has_musl(platform) == has_musl(&target.triple)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_of_compilers_are_compared_with_the_target() {
        let target = Target::of_triple("aarch64-unknown-linux-gnu");
        for (platform, expected) in [
            ("aarch64-linux-gnu", true),
            ("aarch64-none-linux-gnu", true),
            ("aarch64-redhat-linux", true),
            ("x86_64-linux-gnu", false),
            ("aarch64-linux-musl", false),
            ("aarch64-none-elf", false),
            ("", false),
        ] {
            let platform = Some(platform.to_owned());
            let named = NamedHostCompiler { variable: "CUDAHOSTCXX", value: "c++".to_owned(), platform };
            assert_eq!(named.is_for(&target), expected, "{named:?}");
        }
        let unknown = NamedHostCompiler { variable: "NVCC_CCBIN", value: "c++".to_owned(), platform: None };
        assert!(!unknown.is_for(&target));
    }
}
