//! Builds for another platform: the programs that start Zig, what cargo needs to link a program, and the check of its C library.

#[cfg(test)]
mod tests;

use std::time::Duration;

use gpubuild_core::Os;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::{Arch, Command, Host, HostInfo, HostPath, ReadFiles};
use gpubuild_plan::artifacts::Artifact;
use gpubuild_plan::plan::Plan;
use gpubuild_plan::target::{self, PlannedTarget, Target, TargetCompilers};

use super::BuildJob;
use super::error::BuildError;

/// A program for another platform that cannot be built as planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CrossError {
    /// Rust's standard library for the target is not installed.
    #[error("Rust's standard library for {triple} is not installed")]
    NoStandardLibrary {
        /// Rust's name of the target.
        triple: String,
    },
    /// Zig cannot link Rust programs for the target.
    #[error("a program for {triple} cannot be linked: {why}")]
    NoLinker {
        /// Rust's name of the target.
        triple: String,
        /// Why.
        why: String,
        /// The variable that names a linker.
        variable: String,
    },
    /// The program needs a newer C library than the target has.
    #[error("`{path}` needs glibc {found}, but the target has glibc {floor}")]
    NewerGlibc {
        /// The program.
        path: String,
        /// The newest version that it needs.
        found: String,
        /// The version of the target.
        floor: String,
    },
}

impl Diagnostic for CrossError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::NoStandardLibrary { .. } => id!("cross.rust-target-missing"),
            Self::NoLinker { .. } => id!("cross.program-unlinkable"),
            Self::NewerGlibc { .. } => id!("cross.glibc-newer"),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoStandardLibrary { triple } => format!("run `rustup target add {triple}`"),
            Self::NoLinker { variable, .. } => format!(
                "build the libraries only, with `--no-binary`, or set `{variable}` to a linker with that SDK"
            ),
            Self::NewerGlibc { floor, .. } => format!(
                "a library that the program links was not compiled for glibc {floor}: compile it as well, or require a newer glibc"
            ),
        })
    }
}

/// The programs that start Zig, and Zig's name for each.
const PROGRAMS: [(&str, &str); 5] =
    [("cc", "cc"), ("c++", "c++"), ("ar", "ar"), ("ranlib", "ranlib"), ("rc", "rc")];

/// Checks that the program of the plan can be built, before anything is compiled.
pub(super) fn check(job: &BuildJob<'_>, plan: &Plan) -> Result<(), BuildError> {
    let (Some(planned), Some(_)) = (&plan.target, &plan.binary) else { return Ok(()) };
    if job.binary == super::BuildBinary::No {
        return Ok(());
    }
    let Some(target) = parsed(planned) else { return Ok(()) };
    let variable = target.cargo_variable("LINKER");
    if planned.compilers == TargetCompilers::Zig
        && job.host.env().get(&variable).is_none()
        && let Some(why) = target.no_program()
    {
        let (triple, why) = (target.triple, why.to_owned());
        return Err(CrossError::NoLinker { triple, why, variable }.into());
    }
    if has_standard_library(job.host, &target.triple) == Some(false) {
        return Err(CrossError::NoStandardLibrary { triple: target.triple }.into());
    }
    Ok(())
}

/// The target of a plan. Its name was parsed before, so this is never `None`.
fn parsed(planned: &PlannedTarget) -> Option<Target> {
    Target::parse(&planned.name).ok()
}

/// Whether rustc has a standard library for a target; `None` if that cannot be determined.
fn has_standard_library(host: &dyn Host, triple: &str) -> Option<bool> {
    let rustc = host.env().get("RUSTC").unwrap_or("rustc");
    let ask =
        Command::new(rustc, Duration::from_secs(60)).args(["--print", "target-libdir", "--target", triple]);
    let output = host.run(&ask).ok().filter(gpubuild_host::CommandOutput::success)?;
    Some(host.is_dir(&host.path(output.stdout.trim())))
}

/// Writes the programs that start Zig for the target of a plan, unless they exist.
pub(super) fn write_programs(job: &BuildJob<'_>, plan: &Plan) -> Result<(), BuildError> {
    let Some(planned) = plan.target.as_ref().filter(|target| target.compilers == TargetCompilers::Zig) else {
        return Ok(());
    };
    let host = job.host;
    let Some((zig, folder)) = zig_folder(host, planned) else { return Ok(()) };
    for (name, command) in PROGRAMS {
        let path = folder.join(&target::program_name(host.platform().os, name));
        let text = program(host.platform().os, command, &zig);
        if host.read_text(&path).is_ok_and(|before| before == text) {
            continue;
        }
        host.write(&path, text.as_bytes())
            .and_then(|()| host.set_executable(&path))
            .map_err(|error| BuildError::io("write", &path, &error))?;
    }
    Ok(())
}

/// Zig's name of the target, and the folder of the programs that start Zig for it.
fn zig_folder(host: &dyn HostInfo, planned: &PlannedTarget) -> Option<(String, HostPath)> {
    let zig = parsed(planned)?.zig()?;
    let folder = target::zig_programs(host, &zig)?;
    Some((zig, folder))
}

/// The text of a program that starts Zig.
fn program(os: Os, command: &str, zig: &str) -> String {
    let compiles = matches!(command, "cc" | "c++");
    let template = match os {
        Os::Windows => include_str!("zig.cmd.in"),
        Os::Linux | Os::Macos if compiles => include_str!("zig.sh.in"),
        Os::Linux | Os::Macos => include_str!("tool.sh.in"),
    };
    let wheel = gpubuild_plan::planning::cross::zig_wheel();
    let arguments = if compiles { format!("-target {zig} -fno-sanitize=undefined ") } else { String::new() };
    let program = target::zig_in_wheel(os);
    let program = if os == Os::Windows { program.replace('/', "\\") } else { program.to_owned() };
    template
        .replace("@command@", command)
        .replace("@target@", zig)
        .replace("@arguments@", &arguments)
        .replace("@folder@", &format!("{}-{}", wheel.tool, wheel.version))
        .replace("@program@", &program)
}

/// Adds what cargo needs to compile and link a program for the target of a build. Variables of the user have precedence.
pub(super) fn with_target(host: &dyn HostInfo, mut command: Command, planned: &PlannedTarget) -> Command {
    let Some(target) = parsed(planned) else { return command };
    command = command.args(["--target", target.triple.as_str()]);
    let [cc, cxx, ar, ranlib] = match planned.compilers {
        TargetCompilers::Zig => {
            let Some((_, folder)) = zig_folder(host, planned) else { return command };
            let os = host.platform().os;
            ["cc", "c++", "ar", "ranlib"].map(|name| folder.join(&target::program_name(os, name)).to_string())
        }
        TargetCompilers::Gcc => ["gcc", "g++", "ar", "ranlib"].map(|name| target.gcc_program(name)),
        TargetCompilers::Variables | TargetCompilers::ToolchainFile | TargetCompilers::Apple => {
            return command;
        }
    };
    let under = target.under();
    let variables = [
        (target.cargo_variable("LINKER"), cc.clone()),
        (format!("CC_{under}"), cc),
        (format!("CXX_{under}"), cxx),
        (format!("AR_{under}"), ar),
        (format!("RANLIB_{under}"), ranlib),
    ];
    for (name, value) in variables {
        if host.env().get(&name).is_none() {
            command = command.env(&name, value.as_str());
        }
    }
    command
}

/// Rejects a program that needs a newer glibc than the target has.
pub(super) fn refuse_newer_glibc(
    host: &dyn ReadFiles,
    planned: &PlannedTarget,
    program: &Artifact,
) -> Result<(), BuildError> {
    let Some(floor) = parsed(planned).and_then(|target| target.glibc) else { return Ok(()) };
    let read = gpubuild_object::read(host, &host.path(&program.path), Arch::X86_64);
    // A program that cannot be read is not an ELF file, and needs no glibc.
    let Ok(object) = read else { return Ok(()) };
    let Some(found) = object.needed_glibc() else { return Ok(()) };
    if found <= floor {
        return Ok(());
    }
    let (found, floor) = (found.to_string(), floor.to_string());
    Err(CrossError::NewerGlibc { path: program.path.clone(), found, floor }.into())
}
