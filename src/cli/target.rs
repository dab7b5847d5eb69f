//! `--target`: builds for another platform.

use gpubuild_detect::id;
use gpubuild_host::HostInfo;
use gpubuild_plan::plan::make::MissingBackend;
use gpubuild_plan::plan::request::BackendRequest;
use gpubuild_plan::plan::{Dropped, Plan};
use gpubuild_plan::planning::cross;
use gpubuild_plan::project::Project;
use gpubuild_plan::target::{self, Target};

use super::{Exit, Failure, plan};

/// `--target`, for the commands that plan, build, or use the outputs of a build.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct TargetArgument {
    /// Build for another platform: Rust's name of it, with the oldest glibc if that matters, such as
    /// `x86_64-unknown-linux-gnu.2.28` [default: this machine]
    #[arg(long, value_name = "TRIPLE")]
    pub target: Option<String>,
}

impl TargetArgument {
    /// The target.
    pub fn parsed(&self) -> Result<Option<Target>, Failure> {
        let parsed = self.target.as_deref().map(Target::parse).transpose();
        parsed.map_err(|reason| Failure {
            hint: reason.hint.clone(),
            ..Failure::usage(reason.id, reason.text.clone())
        })
    }

    /// Changes the build folder of a project to that of the target. Folders of targets are beside that of this machine.
    pub fn apply_to(&self, project: &mut Project) -> Result<(), Failure> {
        let Some(target) = self.parsed()? else { return Ok(()) };
        let name = project.build_root.file_name().unwrap_or_default().to_owned();
        if let Some(folder) = project.build_root.parent() {
            project.build_root = folder.join(&format!("{name}.{}", target.name()));
        }
        Ok(())
    }

    /// Reduces a request to the backends that can be built for the target. Returns the dropped ones.
    pub fn restrict(
        &self,
        request: &mut BackendRequest,
        missing: MissingBackend,
    ) -> Result<Vec<Dropped>, Failure> {
        let Some(target) = self.parsed()? else { return Ok(Vec::new()) };
        cross::restrict(request, &target, missing).map_err(|refusal| plan::refused(&refusal))
    }

    /// Sets the compilers of the target in a plan.
    pub fn plan(
        &self,
        host: &dyn HostInfo,
        project: &Project,
        plan: &mut Plan,
        dropped: Vec<Dropped>,
    ) -> Result<(), Failure> {
        let Some(target) = self.parsed()? else { return Ok(()) };
        let found = target::cross_build(host, &target, None, &project.file.project.options, true);
        let found = found.map_err(|reason| Failure {
            hint: reason.hint.clone(),
            ..Failure::usage(reason.id, reason.text.clone())
        })?;
        cross::apply(&found, plan);
        plan.dropped.extend(dropped);
        plan.dropped.sort_by_key(|dropped| dropped.id);
        Ok(())
    }

    /// Whether to compile for the processor of this machine only: `flag` is `--native`, and `wanted` the setting in gpubuild.toml.
    /// The setting does not apply to the programs of another platform.
    pub fn native(&self, host: &dyn HostInfo, flag: bool, wanted: bool) -> Result<bool, Failure> {
        let Some(target) = self.parsed()? else { return Ok(flag || wanted) };
        if target.runs_on(host.platform()) {
            return Ok(flag || wanted);
        }
        if flag {
            let message = format!("`--native` selects the processor of this machine, not one of {}", target.triple);
            return Err(Failure::usage(id!("cross.native"), message)
                .hint("leave out `--native`; select a processor with CMake options under `options` in gpubuild.toml"));
        }
        Ok(false)
    }

    /// The program that starts programs of the target, with its arguments; empty for this machine and for targets whose
    /// programs this machine runs.
    pub fn runner(&self, host: &dyn HostInfo) -> Result<Vec<String>, Failure> {
        let Some(target) = self.parsed()? else { return Ok(Vec::new()) };
        let variable = target.cargo_variable("RUNNER");
        if let Some(runner) = host.env().get(&variable) {
            return Ok(runner.split_ascii_whitespace().map(str::to_owned).collect());
        }
        if target.runs_on(host.platform()) {
            return Ok(Vec::new());
        }
        let message = format!("this machine cannot run programs for {}", target.triple);
        let failure = Failure { exit: Exit::Usage, ..Failure::usage(id!("cross.runner-missing"), message) };
        Err(failure.hint(format!("set `{variable}` to an emulator, or build without `--run`")))
    }
}
