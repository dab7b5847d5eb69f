//! Other platforms to build for: their names, and the CMake settings that select compilers for them.
//!
//! Compilers that the user names have precedence; otherwise Zig compiles, which is fetched like CMake.

mod host_compiler;
mod parts;
mod runner;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use gpubuild_core::Os;
use gpubuild_core::version::Version;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_detect::toolkit::description::WheelName;
use gpubuild_host::{Arch, HostInfo, HostPath, Platform, folders};
use gpubuild_toolkits::tables;
use serde::{Deserialize, Serialize};

pub use host_compiler::{HOST_COMPILER_VARIABLES, NamedHostCompiler};
pub use parts::{LinkedCode, StaticPart, static_parts};
pub use runner::{AppliesTo, runner};
pub use settings::{CompilerChoice, CrossBuild, cross_build};

/// The content of `toolkits/tables/targets.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetTable {
    /// Zig's path in the wheel, by operating system of the build machine.
    program: BTreeMap<String, String>,
    wheel: WheelName,
    target: Vec<TargetRow>,
    emulator: Vec<runner::EmulatorRow>,
    part: Vec<StaticPart>,
}

/// A target that Zig compiles for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetRow {
    triple: String,
    zig: String,
    #[serde(default)]
    glibc: bool,
    no_program: Option<String>,
    gcc: Option<String>,
}

fn table() -> &'static TargetTable {
    static TABLE: LazyLock<TargetTable> = LazyLock::new(|| {
        gpubuild_toml::from_static(tables::TARGETS).expect("a test reads the embedded table")
    });
    &TABLE
}

/// The name of this machine as a target.
pub const HOST: &str = "host";

/// The platform that a build is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Rust's name: `x86_64-unknown-linux-gnu`.
    pub triple: String,
    /// The oldest glibc that the result must run with: the `2.28` of `x86_64-unknown-linux-gnu.2.28`.
    pub glibc: Option<Version>,
    /// The operating system; `None` if gpubuild does not know it.
    pub os: Option<Os>,
    /// The architecture as Rust names it: `x86_64`.
    pub arch: String,
}

impl Target {
    /// A target by the name that `--target` takes.
    ///
    /// # Errors
    /// The name is not that of a platform, or has a version that this platform does not support.
    pub fn parse(name: &str) -> Result<Self, Reason> {
        let (triple, glibc) = match name.split_once("-gnu.") {
            Some((start, version)) => (format!("{start}-gnu"), Some(version)),
            None => (name.to_owned(), None),
        };
        let target = Self::of_triple(&triple);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if target.os.is_none() || !triple.chars().all(is_plain) {
            let known: Vec<&str> = table().target.iter().map(|row| row.triple.as_str()).collect();
            return Err(Reason::new(id!("cross.target-unknown"), format!("unknown target `{name}`"))
                .hint(format!("use one of {}", known.join(", "))));
        }
        let Some(version) = glibc else { return Ok(target) };
        // The version is part of a script, so nothing else may follow it.
        let is_version = version.starts_with("2.") && version.chars().all(|c| c.is_ascii_digit() || c == '.');
        let parsed: Option<Version> = version.parse().ok().filter(|_| is_version);
        match parsed.filter(|_| target.row().is_some_and(|row| row.glibc)) {
            Some(glibc) => Ok(Self { glibc: Some(glibc), ..target }),
            None => Err(Reason::new(
                id!("cross.target-unknown"),
                format!("`{version}` in `{name}` is not a version of the C library of this target"),
            )
            .hint("append the version of glibc to a target that uses it: `x86_64-unknown-linux-gnu.2.28`")),
        }
    }

    /// A target by the name that `--target` and gpubuild.toml take; `None` for [`HOST`].
    ///
    /// # Errors
    /// See [`Target::parse`].
    pub fn select(name: &str) -> Result<Option<Self>, Reason> {
        if name == HOST { Ok(None) } else { Self::parse(name).map(Some) }
    }

    /// A target by Rust's name.
    #[must_use]
    pub fn of_triple(triple: &str) -> Self {
        let os = match triple {
            linux if linux.contains("-linux-") => Some(Os::Linux),
            windows if windows.contains("-windows-") => Some(Os::Windows),
            macos if macos.ends_with("-apple-darwin") => Some(Os::Macos),
            _ => None,
        };
        let arch = triple.split('-').next().unwrap_or_default().to_owned();
        Self { triple: triple.to_owned(), glibc: None, os, arch }
    }

    /// Whether a machine of this platform has the operating system and the kind of processor that the target has.
    #[must_use]
    pub fn runs_on(&self, platform: Platform) -> bool {
        self.os == Some(platform.os) && self.arch == platform.arch.id()
    }

    /// The name that `--target` takes: the triple with the version of glibc.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.glibc {
            Some(version) => format!("{}.{version}", self.triple),
            None => self.triple.clone(),
        }
    }

    /// The triple as it is part of variables of crates: `CC_x86_64_unknown_linux_gnu`.
    #[must_use]
    pub fn under(&self) -> String {
        self.triple.replace('-', "_")
    }

    /// The triple as it is part of cargo's variables: `CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER`.
    #[must_use]
    pub fn cargo_variable(&self, name: &str) -> String {
        format!("CARGO_TARGET_{}_{name}", self.under().to_ascii_uppercase())
    }

    /// The platform, if gpubuild has releases and wheels for it.
    #[must_use]
    pub fn platform(&self) -> Option<Platform> {
        let arch = [Arch::X86_64, Arch::Aarch64].into_iter().find(|arch| arch.id() == self.arch)?;
        Some(Platform { os: self.os?, arch })
    }

    /// The name without the vendor, as in the names of GCC's programs: `aarch64-linux-gnu`.
    #[must_use]
    pub fn system(&self) -> String {
        self.triple.replace("-unknown-", "-")
    }

    /// The name of one of GCC's programs for the target: `aarch64-linux-gnu-g++`.
    #[must_use]
    pub fn gcc_program(&self, name: &str) -> String {
        format!("{}-{name}", self.system())
    }

    /// Debian's package with GCC for the target.
    #[must_use]
    pub fn gcc_package(&self) -> Option<&'static str> {
        self.row()?.gcc.as_deref()
    }

    fn row(&self) -> Option<&'static TargetRow> {
        table().target.iter().find(|row| row.triple == self.triple)
    }

    /// Zig's name of the target; `None` if gpubuild does not use Zig for it.
    #[must_use]
    pub fn zig(&self) -> Option<String> {
        let name = &self.row()?.zig;
        Some(self.glibc.as_ref().map_or_else(|| name.clone(), |version| format!("{name}.{version}")))
    }

    /// Why a Rust program for the target cannot be linked with Zig.
    #[must_use]
    pub fn no_program(&self) -> Option<&'static str> {
        self.row()?.no_program.as_deref()
    }
}

/// The platform of a plan and its compilers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedTarget {
    /// Rust's name of the platform, with the version of glibc that the result must run with:
    /// `x86_64-unknown-linux-gnu.2.28`.
    pub name: String,
    /// Operating system: `linux`, `windows` or `macos`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub os: Os,
    /// Where the compilers come from.
    pub compilers: TargetCompilers,
}

/// Where the compilers of a target come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TargetCompilers {
    /// The pinned Zig.
    Zig,
    /// GCC for the target, on PATH.
    Gcc,
    /// The variables `CC_<target>` and `CXX_<target>`.
    Variables,
    /// A CMake toolchain file.
    ToolchainFile,
    /// The compilers of the build machine, which generate code for the target too.
    Apple,
}

impl TargetCompilers {
    /// The id in JSON.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Zig => "zig",
            Self::Gcc => "gcc",
            Self::Variables => "variables",
            Self::ToolchainFile => "toolchain-file",
            Self::Apple => "apple",
        }
    }
}

/// The tool id of Zig in plans.
pub const ZIG: &str = "zig";

/// The pinned wheel of Zig.
#[must_use]
pub fn zig_wheel() -> &'static WheelName {
    &table().wheel
}

/// The path of Zig in its wheel, by operating system.
#[must_use]
pub fn zig_in_wheels() -> &'static BTreeMap<String, String> {
    &table().program
}

/// The path of Zig in its wheel.
#[must_use]
pub fn zig_in_wheel(os: Os) -> &'static str {
    table().program.get(os.id()).map_or("ziglang/zig", String::as_str)
}

/// The folder with the programs that start Zig for a target, in gpubuild's cache.
#[must_use]
pub fn zig_programs(host: &dyn HostInfo, zig: &str) -> Option<HostPath> {
    let folder = folders::cache_folder(host)?.join("tools");
    Some(folder.join(&format!("zig-{}-for", table().wheel.version)).join(zig))
}

/// The file name of a program that starts Zig.
#[must_use]
pub fn program_name(os: Os, name: &str) -> String {
    if os == Os::Windows { format!("{name}.cmd") } else { name.to_owned() }
}
