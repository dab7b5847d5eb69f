//! `gpubuild pack`: builds variants and packs them into a release for `gpubuild install`.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::Severity;
use gpubuild_detect::id;
use gpubuild_exec::environment::VenvRecord;
use gpubuild_exec::exec::BuildOutcome;
use gpubuild_host::{Clock, HostPath, Os};
use gpubuild_plan::plan::archs::ArchSelection;
use gpubuild_plan::plan::bytes;
use gpubuild_plan::project::{PackTable, variant};
use gpubuild_release::ReleaseMachine;
use gpubuild_release::manifest::{self, ProgramStart, ReleaseVariant, RequiredLibc};
use gpubuild_release::pack::release::{self, PublishOptions, Published, ReleaseEntry, ReleaseWork};
use gpubuild_release::pack::sign::Signer;
use gpubuild_release::pack::stage::{self, Staged};
use gpubuild_release::pack::{self, KnownLayers, PackError, describe, licences};

use super::build::{self, NetworkArguments, PlannedBuild};
use super::plan::SelectionArguments;
use super::project::load_project;
use super::{CommandContext, Exit, Failure, absolute, audit, run};
use crate::report::pack::{PackReport, Packed};

/// The variable that contains the secret key.
const KEY: &str = "GPUBUILD_SIGN_KEY";
/// The variable that contains the password of the secret key.
const PASSWORD: &str = "GPUBUILD_SIGN_PASSWORD";
/// The variable that sets the time of the release, for reproducible output.
const EPOCH: &str = "SOURCE_DATE_EPOCH";
/// Findings about instructions that some of the processors of a variant lack.
const ISA_FINDINGS: &str = "audit.isa.*";

/// Arguments of `pack`.
#[derive(Debug, clap::Args)]
pub struct PackArguments {
    /// Folder of the release; existing variants are kept, and the folder is replaced atomically
    #[arg(long, value_name = "DIR")]
    out: String,
    /// Add the variants of another release folder instead of building; may be repeated
    #[arg(long, value_name = "DIR")]
    from: Vec<String>,
    /// Name of the variant [default: that of `--variant`, else its backends]
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    label: Option<String>,
    /// Version of the release [default: that of the cargo package]
    #[arg(long, value_name = "VERSION", conflicts_with = "from")]
    release_version: Option<String>,
    /// Serial number of the manifest [default: one more than in the folder]
    #[arg(long, value_name = "N")]
    serial: Option<u64>,
    /// Manifest lifetime in days [default: 365]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36500))]
    expires: Option<u64>,
    /// File with the minisign secret key that signs the manifest [default: the text in GPUBUILD_SIGN_KEY]
    #[arg(long, value_name = "FILE")]
    sign: Option<String>,
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    network: NetworkArguments,
    /// Folder with wheels of toolkits to install; may be repeated
    #[arg(long, value_name = "DIR")]
    find_links: Vec<String>,
    /// Folder with additional toolkit descriptions; a known id replaces the built-in one
    #[arg(long, value_name = "DIR")]
    toolkits: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Builds the variants and writes the release.
pub fn run(arguments: &PackArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let signer = signer(arguments, context)?;
    let folder = absolute(context, &arguments.out)?.normalized();
    // Check the output folder before the build, which may take long.
    release::refuse_links(context.host, &folder).map_err(|error| failure(&error))?;
    release::read(context.host, &folder).map_err(|error| failure(&error))?;
    let selections = if arguments.from.is_empty() { selections(arguments, context)? } else { Vec::new() };
    let now = now(context.host)?;
    let mut packing = Packing { context, arguments, entries: Vec::new(), packed: Vec::new() };
    let work = ReleaseWork::begin(context.host, &folder).map_err(|error| failure(&error))?;
    let table = match packing.fill(&selections, &folder, &work) {
        Ok(table) => table,
        Err(error) => {
            // A partial release does not affect later runs.
            let _ = work.clear();
            return Err(error);
        }
    };
    let options = PublishOptions {
        days: arguments.expires,
        serial: arguments.serial,
        default: table.default.as_deref(),
        prefer: &table.prefer,
        signer: signer.as_ref(),
        now,
    };
    let published = work.publish(packing.entries, &options).map_err(|error| failure(&error))?;
    warn_of_unpacked(context, &table.prefer, &published);
    print_result(arguments, context, &folder, packing.packed, &published, signer.is_some())
}

/// Warns of preferred backends that no variant of the release contains.
fn warn_of_unpacked(context: &CommandContext<'_>, prefer: &[Backend], published: &Published) {
    let Some(manifest) = &published.manifest else { return };
    let variants = || manifest.platforms.values().flat_map(|platform| &platform.variants);
    for backend in prefer.iter().filter(|one| !variants().any(|variant| variant.backends.contains(one))) {
        context.printer.warning(&format!("`prefer` in [pack] lists {backend}, but no variant contains it"));
    }
}

/// The builds to run: the named variant or backends, else all variants of gpubuild.toml, else the backends that this machine can build.
fn selections(
    arguments: &PackArguments,
    context: &CommandContext<'_>,
) -> Result<Vec<SelectionArguments>, Failure> {
    let project = load_project(context, arguments.selection.project.as_deref())?;
    if project.file.binary.is_none() {
        return Err(
            Failure::usage(id!("run.no-binary"), "this project has no program to pack").hint(run::NO_BINARY)
        );
    }
    let named = arguments.selection.variant.is_some() || arguments.selection.backends.is_some();
    if named || project.file.variants.is_empty() {
        return Ok(vec![arguments.selection.clone()]);
    }
    if arguments.label.is_some() {
        return Err(Failure::usage(
            id!("usage.conflict"),
            "`--label` applies to one variant, but gpubuild.toml has several",
        )
        .hint("select one with `--variant`"));
    }
    let of = |table: &variant::VariantTable| SelectionArguments {
        variant: Some(table.name.clone()),
        ..arguments.selection.clone()
    };
    Ok(project.file.variants.iter().map(of).collect())
}

fn build_variant(
    selection: &SelectionArguments,
    arguments: &PackArguments,
    context: &CommandContext<'_>,
) -> Result<(PlannedBuild, BuildOutcome), Failure> {
    if let Some(name) = &selection.variant {
        context.printer.status(&format!("variant {name}"));
    }
    let (network, toolkits) = (arguments.network, arguments.toolkits.clone());
    let build = build::BuildArguments::of(selection.clone(), network, arguments.find_links.clone(), toolkits);
    build::make(&build, context)
}

struct Packing<'a> {
    context: &'a CommandContext<'a>,
    arguments: &'a PackArguments,
    entries: Vec<ReleaseEntry>,
    packed: Vec<Packed>,
}

impl Packing<'_> {
    /// Builds and packs the selections and adds the variants of `--from`. Returns `[pack]` of gpubuild.toml.
    fn fill(
        &mut self,
        selections: &[SelectionArguments],
        folder: &HostPath,
        work: &ReleaseWork<'_>,
    ) -> Result<PackTable, Failure> {
        let mut known = KnownLayers::of(work, folder);
        for selection in selections {
            let (planned, outcome) = build_variant(selection, self.arguments, self.context)?;
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
        let PlannedBuild { project, plan, .. } = planned;
        let (Some(program), Some(binary)) = (&outcome.program, &plan.binary) else {
            return Err(Failure::usage(id!("run.no-binary"), "this project has no program to pack")
                .hint(run::NO_BINARY));
        };
        let label = self.label(planned, outcome)?;
        if self.entries.iter().any(|entry| entry.variant.label == label) {
            return Err(Failure::usage(
                id!("pack.label-twice"),
                format!("two variants have the name `{label}`"),
            ));
        }
        self.check_instructions(planned, outcome)?;
        let network = self.arguments.network.network(host);
        let cargo = licences::query(host, &binary.package, network).map_err(|error| failure(&error))?;
        let requirements = self.requirements(planned, outcome)?;
        let gfx = requirements.rocm.as_ref().map(|rocm| rocm.gfx.clone()).unwrap_or_default();
        let environment =
            VenvRecord::read(host, &project.build_root).map(|record| record.folders).unwrap_or_default();
        let request = stage::StageRequest {
            name: &project.file.project.name,
            root: &project.root,
            source: &project.source,
            package: &binary.package,
            cargo: &cargo,
            manifest: &outcome.manifest,
            program,
            environment: &environment,
            table: &project.file.pack,
            gfx: &gfx,
        };
        let copy = host.temporary_dir(&project.build_root)?;
        let result = stage::stage(host, &request, &copy).and_then(|staged| {
            let layers = pack::layers(host, work, &staged.pieces, known)?;
            Ok((staged, layers))
        });
        host.remove(&copy)?;
        let (staged, (layers, contents)) = result.map_err(|error| failure(&error))?;
        let variant = ReleaseVariant {
            label,
            libc: libc(planned, &staged),
            os: staged.system.clone(),
            start: Some(ProgramStart {
                program: staged.program.clone(),
                check: project.file.pack.check.clone(),
            }),
            ..requirements
        };
        let variant = pack::with_layers(variant, &layers);
        let platform = host.platform();
        let platform = format!("{}-{}", platform.os.id(), platform.arch.id());
        let version = self.arguments.release_version.clone().unwrap_or(cargo.version);
        self.packed.push(Packed::new(&platform, &variant, layers, &staged));
        self.entries.push(ReleaseEntry::new(
            &project.file.project.name,
            &version,
            &platform,
            variant,
            contents,
        ));
        Ok(())
    }

    fn label(&self, planned: &PlannedBuild, outcome: &BuildOutcome) -> Result<String, Failure> {
        let named = self.arguments.label.clone().or_else(|| planned.variant.clone());
        let label = named.unwrap_or_else(|| {
            let backends = &outcome.manifest.backends;
            let gpus: Vec<&str> =
                backends.iter().filter(|backend| **backend != Backend::Cpu).map(|one| one.id()).collect();
            if gpus.is_empty() { Backend::Cpu.id().to_owned() } else { gpus.join("_") }
        });
        if manifest::is_label(&label) {
            return Ok(label);
        }
        let max = variant::MAX_NAME_LENGTH;
        Err(Failure::usage(id!("pack.label"), format!("`{label}` is not a valid variant name")).hint(
            format!("set a name with `--label`: up to {max} characters of a to z, digits, `_` and `.`"),
        ))
    }

    /// Fails if the program contains instructions that some of the processors of the variant lack.
    fn check_instructions(&self, planned: &PlannedBuild, outcome: &BuildOutcome) -> Result<(), Failure> {
        let findings = audit::after_build(self.context, &planned.project, &planned.machine, outcome);
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

    /// The requirements of the variant that can be derived from the build.
    fn requirements(
        &self,
        planned: &PlannedBuild,
        outcome: &BuildOutcome,
    ) -> Result<ReleaseVariant, Failure> {
        let host = self.context.host;
        let unknown = |error: describe::UnknownRequirement| failure(&PackError::Requirement(error));
        let built = &outcome.manifest;
        let os = host.platform().os;
        let cuda = planned.machine.catalogue.for_backend(Backend::Cuda);
        let floor = |release: &Version| cuda?.driver_floor(release, os).cloned();
        let toolkit = |compiler: &str| {
            let copies = planned.machine.inventory.of(Backend::Cuda.id());
            let path = host.path(compiler);
            let own = copies.iter().find(|copy| path.is_inside(&copy.root));
            own.and_then(|copy| copy.version()).cloned()
        };
        Ok(ReleaseVariant {
            backends: built.backends.clone(),
            portable: self.is_portable(planned, outcome),
            cuda: describe::cuda(built, toolkit, floor).map_err(unknown)?,
            rocm: describe::rocm(built).map_err(unknown)?,
            cpu: describe::cpu(built, host.platform().arch.id(), planned.project.file.audit.cpu.as_deref())
                .map_err(unknown)?,
            ..ReleaseVariant::default()
        })
    }

    /// Whether the variant supports all devices: `portable` in gpubuild.toml, else whether its device code covers all architectures of the
    /// toolkit instead of the GPUs of this machine.
    fn is_portable(&self, planned: &PlannedBuild, outcome: &BuildOutcome) -> bool {
        let file = &planned.project.file;
        let table =
            planned.variant.as_ref().and_then(|name| file.variants.iter().find(|table| table.name == *name));
        if let Some(portable) = table.and_then(|table| table.portable) {
            return portable;
        }
        let host = self.context.host;
        let machine =
            ReleaseMachine::of(&planned.machine.facts, &planned.machine.matrix, &planned.machine.catalogue);
        let covers_all = |backend: Backend| {
            let archs = file.backends.get(&backend).and_then(|table| table.archs.as_ref());
            let flag = self.arguments.selection.cuda_archs.as_deref();
            let selection = match backend {
                Backend::Cuda => ArchSelection::cuda(flag, host.env(), archs),
                _ => ArchSelection::resolve(host.env(), &[], archs),
            };
            let has_devices =
                machine.backends.get(&backend).is_some_and(|backend| !backend.devices.is_empty());
            matches!(selection.text.as_str(), "all" | "all-major")
                || (selection.text == "auto" && !has_devices)
        };
        let with_device_code: Vec<Backend> = [Backend::Cuda, Backend::Rocm]
            .into_iter()
            .filter(|one| outcome.manifest.backends.contains(one))
            .collect();
        !with_device_code.is_empty() && with_device_code.into_iter().all(covers_all)
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
                for layer in &entry.variant.layers {
                    work.add_blob(&from, &layer.sha256, layer.size).map_err(|error| failure(&error))?;
                }
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

/// The required C library; `None` if it is unknown or the system is not Linux.
fn libc(planned: &PlannedBuild, staged: &Staged) -> Option<RequiredLibc> {
    let facts = &planned.machine.facts;
    if facts.platform.os != Os::Linux {
        return None;
    }
    let musl = staged.interpreter.as_ref().is_some_and(|loader| loader.contains("ld-musl"));
    if musl {
        let version =
            facts.libc.as_ref().filter(|libc| libc.value.family == "musl")?.value.version.clone()?;
        return Some(RequiredLibc { family: "musl".to_owned(), version });
    }
    Some(RequiredLibc { family: "glibc".to_owned(), version: staged.glibc.clone()? })
}

fn signer(arguments: &PackArguments, context: &CommandContext<'_>) -> Result<Option<Signer>, Failure> {
    let env = context.host.env();
    let text = match &arguments.sign {
        None => env.get(KEY).filter(|text| !text.is_empty()).map(str::to_owned),
        Some(file) => {
            let path = absolute(context, file)?;
            Some(context.host.read_text(&path).map_err(|error| {
                Failure::usage(id!("pack.key-invalid"), format!("failed to read `{path}`: {error}"))
                    .hint("create a key pair with `minisign -G`, and pass the secret key's file to `--sign`")
            })?)
        }
    };
    let password = env.get(PASSWORD).map(str::to_owned);
    text.map(|text| Signer::open(&text, password))
        .transpose()
        .map_err(|error| failure(&PackError::Sign(error)))
}

/// The time of the release in seconds since the Unix epoch: `SOURCE_DATE_EPOCH`, else the current time.
fn now(host: &dyn Clock) -> Result<u64, Failure> {
    match host.env().get(EPOCH).filter(|text| !text.is_empty()) {
        None => Ok(host.now()),
        Some(text) => text.parse().map_err(|_| {
            Failure::usage(id!("pack.epoch"), format!("`{text}` in {EPOCH} is not a number of seconds"))
                .hint("`git log -1 --format=%ct` prints one")
        }),
    }
}

fn failure(error: &PackError) -> Failure {
    Failure::of(error, Exit::Negative)
}

fn print_result(
    arguments: &PackArguments,
    context: &CommandContext<'_>,
    folder: &HostPath,
    packed: Vec<Packed>,
    published: &Published,
    signed: bool,
) -> Result<Exit, Failure> {
    let printer = context.printer;
    for dropped in &published.dropped {
        printer.warning(&format!("{dropped} was in the folder and is not part of this release"));
    }
    for one in &packed {
        for name in &one.not_found {
            printer.warning(&format!(
                "`{name}`, which a library may load at run time, was not found and is not packed"
            ));
        }
        for name in &one.without_licence {
            printer.warning(&format!("no licence of `{name}` was found; add it to `licences` in [pack]"));
        }
    }
    for platform in &published.incomplete {
        printer.warning(&format!(
            "{platform} has no variant that runs without a GPU, so no manifest was written: \
             pack one with the backend `cpu` into the same folder"
        ));
    }
    let document = PackReport::new(folder.as_str(), packed, published, signed);
    if arguments.json {
        printer.json(&document)?;
    } else {
        printer.print(&document.text())?;
        if published.manifest.is_some() && !signed {
            printer.hint("the manifest is not signed; sign it with `--sign FILE` or GPUBUILD_SIGN_KEY");
        }
    }
    log::debug!("{} in all layers", bytes::show(published.bytes));
    Ok(Exit::Done)
}
