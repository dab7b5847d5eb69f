//! `--target`: builds for another platform.

use cfg_expr::{Expression, Predicate};
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{HostInfo, HostPath, Platform, ReadFiles};
use gpubuild_plan::plan::request::BackendRequest;
use gpubuild_plan::planning::cross;
use gpubuild_plan::project::Project;
use gpubuild_plan::target::{self, CompilerChoice, CrossBuild, Target};

use super::Failure;

/// `--target`, for the commands that plan, build, or use the outputs of a build.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct TargetArgument {
    /// Platform of the build: a Rust target, optionally with the oldest glibc, such as
    /// `x86_64-unknown-linux-gnu.2.28`, or `host` for this machine [default: gpubuild.toml, else host]
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
}

impl TargetArgument {
    /// The target of the flag, else of gpubuild.toml, else this machine.
    pub fn of(&self, project: &Project) -> Result<SelectedTarget, Failure> {
        SelectedTarget::named(self.target.as_deref().or(project.file.build.target.as_deref()))
    }

    /// The target of the flag, else this machine, without a project.
    pub fn named(&self) -> Result<SelectedTarget, Failure> {
        SelectedTarget::named(self.target.as_deref())
    }

    /// The target, after the build folder of the project was changed to that of the target.
    pub fn apply_to(&self, project: &mut Project) -> Result<SelectedTarget, Failure> {
        let target = self.of(project)?;
        target.apply_to(project);
        Ok(target)
    }
}

fn failure(reason: &Reason) -> Failure {
    Failure { hint: reason.hint.clone(), ..Failure::usage(reason.id, reason.text.clone()) }
}

/// The platform that a command builds for; `None` is this machine.
#[derive(Debug, Clone, Default)]
pub struct SelectedTarget(Option<Target>);

impl SelectedTarget {
    /// The target with a name, else this machine.
    pub fn named(name: Option<&str>) -> Result<Self, Failure> {
        name.map_or(Ok(None), Target::select).map(Self).map_err(|reason| failure(&reason))
    }

    /// Whether it is this machine.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.0.is_none()
    }

    /// The target; `None` for this machine.
    #[must_use]
    pub fn target(&self) -> Option<&Target> {
        self.0.as_ref()
    }

    /// Rust's name of the target; `None` for this machine.
    #[must_use]
    pub fn triple(&self) -> Option<&str> {
        self.0.as_ref().map(|target| target.triple.as_str())
    }

    /// The platform of releases that the target belongs to.
    pub fn platform(&self, host: &dyn HostInfo) -> Result<Platform, Failure> {
        let Some(target) = &self.0 else { return Ok(host.platform()) };
        if let Some(platform) = target.platform() {
            return Ok(platform);
        }
        let message = format!("releases have no variants for {}", target.triple);
        Err(Failure::usage(id!("pack.target"), message)
            .hint("releases are for Linux, macOS and Windows on x86_64 and aarch64"))
    }

    /// Changes the build folder of a project to that of the target. Folders of targets are beside that of this machine.
    pub fn apply_to(&self, project: &mut Project) {
        let Some(target) = &self.0 else { return };
        let name = project.build_root.file_name().unwrap_or_default().to_owned();
        if let Some(folder) = project.build_root.parent() {
            project.build_root = folder.join(&format!("{name}.{}", target.name()));
        }
    }

    /// The compilers of the target for the requested backends; `None` for this machine.
    pub fn compilers(
        &self,
        host: &dyn ReadFiles,
        project: &Project,
        catalogue: &Catalogue,
        request: &BackendRequest,
    ) -> Result<Option<CrossBuild>, Failure> {
        let Some(target) = &self.0 else { return Ok(None) };
        let gcc = cross::needs_gcc(catalogue, &project.profile, target, &request.selection);
        let choice = CompilerChoice { gcc, zig: true };
        target::cross_build(host, target, None, &project.file.project.options, choice)
            .map(Some)
            .map_err(|reason| failure(&reason))
    }

    /// Whether to compile for the processor of this machine only: `flag` is `--native`, and `wanted` the setting in gpubuild.toml.
    /// The setting does not apply to the programs of another platform.
    pub fn native(&self, host: &dyn HostInfo, flag: bool, wanted: bool) -> Result<bool, Failure> {
        let Some(target) = self.0.as_ref().filter(|target| !target.runs_on(host.platform())) else {
            return Ok(flag || wanted);
        };
        if flag {
            let message =
                format!("`--native` selects the processor of this machine, not one of {}", target.triple);
            return Err(Failure::usage(id!("cross.native"), message).hint(
                "leave out `--native`; select a processor with CMake options under `options` in gpubuild.toml",
            ));
        }
        Ok(false)
    }

    /// The command that starts programs of the target, without the program; empty if this machine runs them itself. `folder` is that of
    /// the project.
    pub fn runner(&self, host: &dyn ReadFiles, folder: &HostPath) -> Result<Vec<String>, Failure> {
        let Some(target) = &self.0 else { return Ok(Vec::new()) };
        target::runner(host, target, folder, &applies).map_err(|reason| failure(&reason))
    }
}

/// Whether a `cfg(…)` expression in cargo's configuration applies to a target. As in cargo, an invalid expression applies to none. Which
/// features a processor has (`target_feature`) is unknown here.
#[must_use]
pub fn applies(expression: &str, target: &Target) -> bool {
    let Ok(parsed) = Expression::parse(expression) else { return false };
    let Some(info) = cfg_expr::targets::get_builtin_target_by_triple(&target.triple) else { return false };
    parsed.eval(|predicate| match predicate {
        Predicate::Target(condition) => condition.matches(info),
        Predicate::DebugAssertions => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use gpubuild_samples::random::{cases, random};

    use super::*;

    #[test]
    fn expressions_are_evaluated_for_the_target() {
        let holds = |expression: &str, triple: &str| applies(expression, &Target::of_triple(triple));
        let (arm, windows) = ("aarch64-unknown-linux-gnu", "x86_64-pc-windows-gnu");
        for expression in [
            "cfg(unix)",
            "cfg(target_arch = \"aarch64\")",
            "cfg(all(target_os = \"linux\", target_env = \"gnu\", not(windows)))",
            "cfg(any(windows, target_pointer_width = \"64\"))",
            "cfg(target_family = \"unix\")",
        ] {
            assert!(holds(expression, arm), "{expression}");
        }
        assert!(holds("cfg(windows)", windows) && !holds("cfg(unix)", windows));
        for expression in [
            "cfg(",
            "cfg(nonsense)",
            "cfg(target_os = )",
            "cfg(feature = \"x\")",
            "cfg(target_feature = \"neon\")",
        ] {
            assert!(!holds(expression, arm), "{expression}");
        }
        assert!(!holds("cfg(unix)", "made-up-triple"));
    }

    /// Nested and damaged expressions, with a fixed seed. `GPUBUILD_CASES` sets their number.
    #[test]
    fn generated_expressions_are_evaluated() {
        let cases = cases(2000);
        let target = Target::of_triple("x86_64-pc-windows-gnu");
        let pieces = [
            "all(",
            "any(",
            "not(",
            ")",
            ",",
            "unix",
            "windows",
            "target_os = ",
            "\"windows\"",
            "\"",
            "feature = \"x\"",
            "é",
            "\0",
            "target_pointer_width = \"99999999999999999999\"",
            " ",
            "=",
        ];
        let mut random = random();
        for _ in 0..cases {
            let inner: String = (0..random(12)).map(|_| pieces[random(pieces.len())]).collect();
            let (holds, negated) = (applies(&format!("cfg({inner})"), &target), format!("cfg(not({inner}))"));
            assert!(!(holds && applies(&negated, &target)), "{inner}");
        }
        let deep = |count: usize| format!("cfg({}windows{})", "not(".repeat(count), ")".repeat(count));
        assert!(applies(&deep(10_000), &target) && !applies(&deep(10_001), &target));
    }
}
