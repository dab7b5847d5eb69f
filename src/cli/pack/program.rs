//! `gpubuild pack --program`: packs finished programs of a cargo package, without a build and without gpubuild.toml.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{HostPath, Platform};
use gpubuild_object::ObjectKind;
use gpubuild_plan::project::PackTable;
use gpubuild_release::manifest::ReleaseVariant;
use gpubuild_release::pack::release::ReleaseWork;
use gpubuild_release::pack::stage::{StageContents, StageRequest};
use gpubuild_release::pack::{KnownLayers, package};

use super::super::{CommandContext, Failure, absolute, audit, machine};
use super::failure;
use super::packing::{Packing, check_instructions};

/// The backends of a program without native libraries.
const BACKENDS: [Backend; 1] = [Backend::Cpu];

impl Packing<'_> {
    /// Packs the files of `--program` as one variant for the platform of `--target`.
    pub(super) fn pack_programs(
        &mut self,
        work: &ReleaseWork<'_>,
        known: &mut KnownLayers,
    ) -> Result<(), Failure> {
        let host = self.context.host;
        let package = absolute(self.context, self.arguments.package.as_deref().unwrap_or("."))?.normalized();
        let target = self.arguments.target.named()?;
        let platform = target.platform(host)?;
        let programs = self.arguments.program.iter().map(|file| executable(self.context, platform, file));
        let programs = programs.collect::<Result<Vec<HostPath>, Failure>>()?;
        let label = self.label(None, &BACKENDS)?;
        let machine = machine::inspect(host, Catalogue::embedded());
        check_instructions(audit::of_programs(self.context, &machine, &programs))?;
        let network = self.arguments.network.network(host);
        let cargo =
            package::query(host, &package, target.triple(), network).map_err(|error| failure(&error))?;
        let request = StageRequest {
            platform,
            name: &cargo.name,
            root: &package,
            source: None,
            locked: None,
            package: &package,
            cargo: &cargo,
            manifest: None,
            contents: StageContents::Programs(&programs),
            environment: &[],
            table: &PackTable::default(),
            gfx: &[],
        };
        let variant = ReleaseVariant { label, backends: BACKENDS.to_vec(), ..ReleaseVariant::default() };
        let folder = absolute(self.context, &self.arguments.out)?.normalized();
        let copy = host.temporary_dir(&folder.parent().unwrap_or(folder))?;
        let libc = machine.facts.libc.as_ref().map(|libc| &libc.value).filter(|_| target.is_host());
        self.add(&request, variant, &copy, libc, (work, known))
    }
}

/// The path of an executable for a platform.
fn executable(context: &CommandContext<'_>, platform: Platform, file: &str) -> Result<HostPath, Failure> {
    let path = absolute(context, file)?.normalized();
    let invalid = |what: &str| {
        Failure::usage(id!("pack.program-invalid"), format!("`{path}` {what}")).hint(
            "name its platform with `--target`, or pack on each platform and merge the folders with `--from`",
        )
    };
    let object = gpubuild_object::read(context.host, &path, platform.arch)
        .map_err(|error| invalid(&format!("is not an executable: {error}")))?;
    if object.format.os() != platform.os || !object.machine.is(platform.arch) {
        let wanted = format!("{}-{}", platform.os.id(), platform.arch.id());
        return Err(invalid(&format!(
            "is {} for {}, not for {wanted}",
            object.format.label(),
            object.machine.name
        )));
    }
    if object.kind != ObjectKind::Program {
        return Err(invalid(&format!("is a {}, not a program", object.kind.label())));
    }
    Ok(path)
}
