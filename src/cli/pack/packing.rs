//! Makes the copies of variants and collects their entries.

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::Libc;
use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_detect::id;
use gpubuild_exec::environment::VenvRecord;
use gpubuild_exec::exec::BuildOutcome;
use gpubuild_host::{HostPath, Os};
use gpubuild_plan::project::source::{Source, locate};
use gpubuild_plan::project::{PackTable, variant};
use gpubuild_release::manifest::{self, ProgramStart, ReleaseVariant, RequiredLibc};
use gpubuild_release::pack::package::CargoPackage;
use gpubuild_release::pack::release::{self, ReleaseEntry, ReleaseWork};
use gpubuild_release::pack::stage::{self, StageContents, Staged};
use gpubuild_release::pack::{self, KnownLayers, package};

use super::super::build::PlannedBuild;
use super::super::plan::SelectionArguments;
use super::super::project::load_project;
use super::super::{CommandContext, Exit, Failure, absolute, audit};
use super::requirements::requirements;
use super::{PackArguments, PackedOutput, build_variant, failure, version};
use crate::report::pack::Packed;

/// Findings about instructions that some of the processors of a variant lack.
const ISA_FINDINGS: &str = "audit.isa.*";

/// A release that is being packed.
pub(super) struct Packing<'a> {
    pub(super) context: &'a CommandContext<'a>,
    pub(super) arguments: &'a PackArguments,
    pub(super) output: PackedOutput,
    pub(super) entries: Vec<ReleaseEntry>,
    pub(super) packed: Vec<Packed>,
}

impl Packing<'_> {
    /// Builds and packs the selections and adds the variants of `--from`. Returns `[pack]` of gpubuild.toml.
    pub(super) fn fill(
        &mut self,
        selections: &[SelectionArguments],
        folder: &HostPath,
        work: &ReleaseWork<'_>,
    ) -> Result<PackTable, Failure> {
        let mut known = KnownLayers::of(work, folder);
        if !self.arguments.program.is_empty() {
            self.pack_programs(work, &mut known)?;
            return Ok(PackTable::default());
        }
        for selection in selections {
            let (planned, outcome) = build_variant(selection, self.arguments, self.output, self.context)?;
            self.pack(&planned, &outcome, work, &mut known)?;
        }
        self.merge(work)?;
        self.table()
    }

    /// Packs the outputs of one build.
    fn pack(
        &mut self,
        planned: &PlannedBuild,
        outcome: &BuildOutcome,
        work: &ReleaseWork<'_>,
        known: &mut KnownLayers,
    ) -> Result<(), Failure> {
        let host = self.context.host;
        let project = &planned.project;
        let label = self.label(planned.selection.variant.as_deref(), &outcome.manifest.backends)?;
        let findings = audit::after_build(self.context, project, &planned.machine, outcome);
        check_instructions(findings)?;
        let target = &planned.selection.target;
        let platform = target.platform(host)?;
        let (package, cargo) = self.package(planned)?;
        let headers = project.headers();
        let programs: Vec<HostPath> =
            outcome.program.iter().map(|program| host.path(&program.path)).collect();
        let contents = match (self.output, programs.is_empty()) {
            (PackedOutput::Libraries, _) => StageContents::Libraries(&headers),
            (_, false) => StageContents::Programs(&programs),
            (_, true) => return Err(super::no_program()),
        };
        let requirements =
            ReleaseVariant { label, ..requirements(self.arguments, self.context, (planned, outcome))? };
        let gfx = requirements.rocm.as_ref().map(|rocm| rocm.gfx.clone()).unwrap_or_default();
        let environment =
            VenvRecord::read(host, &project.build_root).map(|record| record.folders).unwrap_or_default();
        let locked = match project.file.project.source {
            Source::Fetched(_) => {
                locate::read_lock(host, &project.root).map_err(|error| Failure::of(&error, Exit::Usage))?
            }
            Source::Folder(_) => None,
        };
        let request = stage::StageRequest {
            platform,
            name: &project.file.project.name,
            root: &project.root,
            source: Some(&project.source),
            locked: locked.as_ref(),
            package: &package,
            cargo: &cargo,
            manifest: Some(&outcome.manifest),
            contents,
            environment: &environment,
            table: &project.file.pack,
            gfx: &gfx,
        };
        let copy = host.temporary_dir(&project.build_root)?;
        let libc = planned.machine.facts.libc.as_ref().map(|libc| &libc.value);
        let libc = libc.filter(|_| target.is_host());
        self.add(&request, requirements, &copy, libc, (work, known))
    }

    /// The cargo package and its folder. Libraries with a version need none.
    fn package(&self, planned: &PlannedBuild) -> Result<(HostPath, CargoPackage), Failure> {
        let (host, project) = (self.context.host, &planned.project);
        let folder = planned.plan.binary.as_ref().map(|binary| binary.package.clone());
        let version = version(self.arguments, &project.file.pack);
        if let (PackedOutput::Libraries, Some(version)) = (self.output, version) {
            let package = CargoPackage::without_crates(&project.file.project.name, version);
            return Ok((folder.unwrap_or_else(|| project.root.clone()), package));
        }
        let folder = folder.ok_or_else(super::no_program)?;
        let (target, network) = (&planned.selection.target, self.arguments.network.network(host));
        let package =
            package::query(host, &folder, target.triple(), network).map_err(|error| failure(&error))?;
        Ok((folder, package))
    }

    /// Makes the copy of a variant in the empty folder `copy`, which is removed, and adds its layers to the release.
    pub(super) fn add(
        &mut self,
        request: &stage::StageRequest<'_>,
        requirements: ReleaseVariant,
        copy: &HostPath,
        libc: Option<&Libc>,
        (work, known): (&ReleaseWork<'_>, &mut KnownLayers),
    ) -> Result<(), Failure> {
        let host = self.context.host;
        let result = stage::stage(host, request, copy).and_then(|staged| {
            let layers = pack::layers(host, work, &staged.pieces, known)?;
            Ok((staged, layers))
        });
        host.remove(copy)?;
        let (staged, (layers, contents)) = result.map_err(|error| failure(&error))?;
        let variant = ReleaseVariant {
            libc: required_libc(request, libc, &staged),
            os: staged.system.clone(),
            start: match request.contents {
                StageContents::Programs(_) => {
                    Some(ProgramStart { program: staged.program.clone(), check: request.table.check.clone() })
                }
                StageContents::Libraries(_) => None,
            },
            ..requirements
        };
        let variant = pack::with_layers(variant, &layers);
        let platform = request.platform;
        let platform = format!("{}-{}", platform.os.id(), platform.arch.id());
        let version = version(self.arguments, request.table).unwrap_or(&request.cargo.version).clone();
        let attach = |text: &str| work.attach(text).map(Some).map_err(|error| failure(&error));
        let statement = pack::statement(host, request, &staged, (&version, &platform), &variant);
        let variant =
            ReleaseVariant { provenance: attach(&statement)?, sbom: attach(&staged.sbom)?, ..variant };
        self.packed.push(Packed::new(&platform, &variant, layers, &staged));
        self.entries.push(ReleaseEntry::new(request.name, &version, &platform, variant, contents));
        Ok(())
    }

    /// The label of a variant: of `--label`, else its name in gpubuild.toml, else its backends.
    pub(super) fn label(&self, name: Option<&str>, backends: &[Backend]) -> Result<String, Failure> {
        let named = self.arguments.label.clone().or_else(|| name.map(str::to_owned));
        let label = named.unwrap_or_else(|| label_of(backends));
        if !manifest::is_label(&label) {
            let max = variant::MAX_NAME_LENGTH;
            return Err(Failure::usage(id!("pack.label"), format!("`{label}` is not a valid variant name"))
                .hint(format!(
                    "set a name with `--label`: up to {max} characters of a to z, digits, `_` and `.`"
                )));
        }
        if self.entries.iter().any(|entry| entry.variant.label == label) {
            let message = format!("two variants have the name `{label}`");
            return Err(Failure::usage(id!("pack.label-twice"), message));
        }
        Ok(label)
    }

    /// Adds the variants of the `--from` folders.
    fn merge(&mut self, work: &ReleaseWork<'_>) -> Result<(), Failure> {
        let host = self.context.host;
        for from in &self.arguments.from {
            let from = absolute(self.context, from)?.normalized();
            let release = release::read(host, &from).map_err(|error| failure(&error))?;
            if release.entries.is_empty() {
                return Err(Failure::usage(
                    id!("pack.nothing-there"),
                    format!("`{from}` contains no packed variant"),
                )
                .hint("specify a folder that `gpubuild pack --out DIR` wrote"));
            }
            for entry in release.entries {
                work.add_blobs(&from, &entry.variant).map_err(|error| failure(&error))?;
                self.packed.push(Packed::taken(&entry));
                self.entries.push(entry);
            }
        }
        Ok(())
    }

    /// `[pack]` of gpubuild.toml. With `--from`, the project is optional.
    fn table(&self) -> Result<PackTable, Failure> {
        match load_project(self.context, self.arguments.selection.project.as_deref()) {
            Ok(project) => Ok(project.file.pack),
            Err(failure) if failure.id == "project.not-found" && !self.arguments.from.is_empty() => {
                Ok(PackTable::default())
            }
            Err(failure) => Err(failure),
        }
    }
}

/// Fails if a finding is about instructions that some of the processors of the variant lack.
pub(super) fn check_instructions(findings: Vec<Finding>) -> Result<(), Failure> {
    let error = findings.into_iter().find(|finding| {
        finding.severity == Severity::Error
            && gpubuild_detect::finding::catalogue::matches(ISA_FINDINGS, &finding.id)
    });
    let Some(error) = error else { return Ok(()) };
    let mut failure = Failure::negative(id!("pack.audit"), format!("{} [{}]", error.summary, error.id))
        .hint("`gpubuild audit` shows the evidence and the fixes; `[audit] allow` accepts the finding");
    failure.findings = vec![error];
    Err(failure)
}

/// The required C library; `None` if it is unknown or the system is not Linux. `known` is the one of this machine.
fn required_libc(
    request: &stage::StageRequest<'_>,
    known: Option<&Libc>,
    staged: &Staged,
) -> Option<RequiredLibc> {
    if request.platform.os != Os::Linux {
        return None;
    }
    if matches!(request.contents, StageContents::Libraries(_)) {
        // A static library does not name the version of its functions, so that of its headers is required.
        let known = known?;
        return Some(RequiredLibc { family: known.family.clone(), version: known.version.clone()? });
    }
    let musl = staged.interpreter.as_ref().is_some_and(|loader| loader.contains("ld-musl"));
    if musl {
        let version = known.filter(|libc| libc.family == "musl")?.version.clone()?;
        return Some(RequiredLibc { family: "musl".to_owned(), version });
    }
    Some(RequiredLibc { family: "glibc".to_owned(), version: staged.glibc.clone()? })
}

/// The label of a variant without a name.
pub(super) fn label_of(backends: &[Backend]) -> String {
    let gpus: Vec<&str> =
        backends.iter().filter(|backend| **backend != Backend::Cpu).map(|one| one.id()).collect();
    if gpus.is_empty() { Backend::Cpu.id().to_owned() } else { gpus.join("_") }
}
