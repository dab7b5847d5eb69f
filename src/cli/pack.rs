//! `gpubuild pack`: builds variants and makes a release of them, which `gpubuild install` reads.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::Severity;
use gpubuild_detect::id;
use gpubuild_exec::environment::VenvRecord;
use gpubuild_exec::exec::BuildOutcome;
use gpubuild_host::{Clock, HostPath, Os};
use gpubuild_plan::plan::archs::ArchSelection;
use gpubuild_plan::plan::bytes;
use gpubuild_plan::project::variant;
use gpubuild_release::ReleaseMachine;
use gpubuild_release::manifest::{self, ProgramStart, ReleaseVariant, RequiredLibc};
use gpubuild_release::pack::release::{self, Published, ReleaseEntry, ReleaseWork, Seal};
use gpubuild_release::pack::sign::Signer;
use gpubuild_release::pack::stage::{self, Staged};
use gpubuild_release::pack::{self, KnownRelease, PackError, describe, licences};

use super::build::{self, NetworkArguments, PlannedBuild};
use super::plan::SelectionArguments;
use super::{CommandContext, Exit, Failure, absolute, audit, look, run};
use crate::report::pack::{PackReport, Packed};

/// The variable with the secret key itself.
const KEY: &str = "GPUBUILD_SIGN_KEY";
/// The variable with its password.
const PASSWORD: &str = "GPUBUILD_SIGN_PASSWORD";
/// The variable that makes two runs alike.
const EPOCH: &str = "SOURCE_DATE_EPOCH";
/// Findings that keep a variant from those that it says it is for.
const INSTRUCTIONS: &str = "audit.isa.*";

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

/// Packs.
pub fn run(arguments: &PackArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let signer = signer(arguments, context)?;
    let folder = absolute(context, &arguments.out)?.normalized();
    // Whether anything may be put there is known before anything is built.
    release::refuse_links(context.host, &folder).map_err(|error| failure(&error))?;
    release::read(context.host, &folder).map_err(|error| failure(&error))?;
    let selections = if arguments.from.is_empty() { selections(arguments, context)? } else { Vec::new() };
    let now = now(context.host)?;
    let mut packing = Packing { context, arguments, entries: Vec::new(), packed: Vec::new() };
    let work = ReleaseWork::begin(context.host, &folder).map_err(|error| failure(&error))?;
    let default = match packing.fill(&selections, &folder, &work) {
        Ok(default) => default,
        Err(error) => {
            // A partial release does not affect later runs.
            let _ = work.clear();
            return Err(error);
        }
    };
    let seal = Seal {
        days: arguments.expires,
        serial: arguments.serial,
        default: default.as_deref(),
        signer: signer.as_ref(),
        now,
    };
    let published = work.publish(packing.entries, &seal).map_err(|error| failure(&error))?;
    tell(arguments, context, &folder, packing.packed, &published, signer.is_some())
}

/// What is built: the named variant, all variants of gpubuild.toml, or what this machine can build.
fn selections(
    arguments: &PackArguments,
    context: &CommandContext<'_>,
) -> Result<Vec<SelectionArguments>, Failure> {
    let project = look::project(context, arguments.selection.project.as_deref())?;
    if project.file.binary.is_none() {
        return Err(Failure::usage(id!("run.no-binary"), "this project names no program to pack")
            .hint(run::NO_BINARY));
    }
    let named = arguments.selection.variant.is_some() || arguments.selection.backends.is_some();
    if named || project.file.variants.is_empty() {
        return Ok(vec![arguments.selection.clone()]);
    }
    if arguments.label.is_some() {
        return Err(Failure::usage(
            id!("usage.conflict"),
            "`--label` names one variant, and gpubuild.toml has several",
        )
        .hint("choose one with `--variant`"));
    }
    let of = |table: &variant::VariantTable| SelectionArguments {
        variant: Some(table.name.clone()),
        ..arguments.selection.clone()
    };
    Ok(project.file.variants.iter().map(of).collect())
}

fn made(
    selection: &SelectionArguments,
    arguments: &PackArguments,
    context: &CommandContext<'_>,
) -> Result<(PlannedBuild, BuildOutcome), Failure> {
    if let Some(name) = &selection.variant {
        context.printer.say(&format!("variant {name}"));
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
    /// Builds and packs, or takes what others have packed; gives the default that the project names.
    fn fill(
        &mut self,
        selections: &[SelectionArguments],
        folder: &HostPath,
        work: &ReleaseWork<'_>,
    ) -> Result<Option<String>, Failure> {
        let mut known = KnownRelease::of(work, folder);
        for selection in selections {
            let (planned, outcome) = made(selection, self.arguments, self.context)?;
            self.pack(&planned, &outcome, work, &mut known)?;
        }
        self.merge(work)?;
        self.default()
    }

    /// Packs what was built.
    fn pack(
        &mut self,
        planned: &PlannedBuild,
        outcome: &BuildOutcome,
        work: &ReleaseWork<'_>,
        known: &mut KnownRelease,
    ) -> Result<(), Failure> {
        let host = self.context.host;
        let PlannedBuild { project, plan, .. } = planned;
        let (Some(program), Some(binary)) = (&outcome.program, &plan.binary) else {
            return Err(Failure::usage(id!("run.no-binary"), "this project names no program to pack")
                .hint(run::NO_BINARY));
        };
        let label = self.label(planned, outcome)?;
        if self.entries.iter().any(|entry| entry.variant.label == label) {
            return Err(Failure::usage(
                id!("pack.label-twice"),
                format!("two variants would be called `{label}`"),
            ));
        }
        self.refuse_instructions(planned, outcome)?;
        let network = self.arguments.network.network(host);
        let cargo = licences::ask(host, &binary.package, network).map_err(|error| failure(&error))?;
        let needs = self.needs(planned, outcome)?;
        let gfx = needs.rocm.as_ref().map(|rocm| rocm.gfx.clone()).unwrap_or_default();
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
        let done = stage::stage(host, &request, &copy).and_then(|staged| {
            let layers = pack::layers(host, work, &staged.pieces, known)?;
            Ok((staged, layers))
        });
        host.remove(&copy)?;
        let (staged, (layers, contents)) = done.map_err(|error| failure(&error))?;
        let variant = ReleaseVariant {
            label,
            libc: libc(planned, &staged),
            os: staged.system.clone(),
            start: Some(ProgramStart {
                program: staged.program.clone(),
                check: project.file.pack.check.clone(),
            }),
            ..needs
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
        let most = variant::MOST_CHARACTERS;
        Err(Failure::usage(id!("pack.label"), format!("`{label}` is not a valid variant name"))
            .hint(format!("name it with `--label`: up to {most} of a to z, digits, `_` and `.`")))
    }

    /// Code that processors run into which the variant is said to be for.
    fn refuse_instructions(&self, planned: &PlannedBuild, outcome: &BuildOutcome) -> Result<(), Failure> {
        let findings = audit::after_build(self.context, &planned.project, &planned.sight, outcome);
        let bad = findings.into_iter().find(|finding| {
            finding.severity == Severity::Error
                && gpubuild_detect::finding::catalogue::matches(INSTRUCTIONS, &finding.id)
        });
        let Some(bad) = bad else { return Ok(()) };
        let mut failure = Failure::negative(id!("pack.audit"), format!("{} [{}]", bad.summary, bad.id))
            .hint("`gpubuild audit` shows the evidence and what to do; `[audit] allow` accepts it");
        failure.findings = vec![bad];
        Err(failure)
    }

    /// What it needs of a machine, as far as that follows from the build.
    fn needs(&self, planned: &PlannedBuild, outcome: &BuildOutcome) -> Result<ReleaseVariant, Failure> {
        let host = self.context.host;
        let unclear = |error: describe::Unclear| failure(&PackError::Unclear(error));
        let built = &outcome.manifest;
        let os = host.platform().os;
        let cuda = planned.sight.catalogue.for_backend(Backend::Cuda);
        let floor = |release: &Version| cuda?.driver_floor(release, os).cloned();
        let toolkit = |compiler: &str| {
            let copies = planned.sight.inventory.of(Backend::Cuda.id());
            let path = host.path(compiler);
            let own = copies.iter().find(|copy| path.is_inside(&copy.root));
            own.and_then(|copy| copy.version()).cloned()
        };
        Ok(ReleaseVariant {
            backends: built.backends.clone(),
            portable: self.is_portable(planned, outcome),
            cuda: describe::cuda(built, toolkit, floor).map_err(unclear)?,
            rocm: describe::rocm(built).map_err(unclear)?,
            cpu: describe::cpu(built, host.platform().arch.id(), planned.project.file.audit.cpu.as_deref())
                .map_err(unclear)?,
            ..ReleaseVariant::default()
        })
    }

    /// Whether it is for every device: said so, or built for all that the toolkit knows and not for those of this machine.
    fn is_portable(&self, planned: &PlannedBuild, outcome: &BuildOutcome) -> bool {
        let file = &planned.project.file;
        let table =
            planned.variant.as_ref().and_then(|name| file.variants.iter().find(|table| table.name == *name));
        if let Some(said) = table.and_then(|table| table.portable) {
            return said;
        }
        let host = self.context.host;
        let machine =
            ReleaseMachine::of(&planned.sight.facts, &planned.sight.matrix, &planned.sight.catalogue);
        let for_all = |backend: Backend| {
            let archs = file.backends.get(&backend).and_then(|table| table.archs.as_ref());
            let flag = self.arguments.selection.cuda_archs.as_deref();
            let wish = match backend {
                Backend::Cuda => ArchSelection::cuda(flag, host.env(), archs),
                _ => ArchSelection::resolve(host.env(), &[], archs),
            };
            let devices = machine.backends.get(&backend).is_some_and(|seen| !seen.devices.is_empty());
            matches!(wish.text.as_str(), "all" | "all-major") || (wish.text == "auto" && !devices)
        };
        let with_code: Vec<Backend> = [Backend::Cuda, Backend::Rocm]
            .into_iter()
            .filter(|one| outcome.manifest.backends.contains(one))
            .collect();
        !with_code.is_empty() && with_code.into_iter().all(for_all)
    }

    /// Takes the variants of other folders.
    fn merge(&mut self, work: &ReleaseWork<'_>) -> Result<(), Failure> {
        let host = self.context.host;
        for from in &self.arguments.from {
            let from = absolute(self.context, from)?.normalized();
            let release = release::read(host, &from).map_err(|error| failure(&error))?;
            if release.entries.is_empty() {
                return Err(Failure::usage(
                    id!("pack.nothing-there"),
                    format!("`{from}` holds no packed variant"),
                )
                .hint("`gpubuild pack --out DIR` makes such folders"));
            }
            for entry in release.entries {
                for layer in &entry.variant.layers {
                    work.take(&from, &layer.sha256, layer.size).map_err(|error| failure(&error))?;
                }
                self.packed.push(Packed::taken(&entry));
                self.entries.push(entry);
            }
        }
        Ok(())
    }

    /// The default that the project names, if there is a project.
    fn default(&self) -> Result<Option<String>, Failure> {
        match look::project(self.context, self.arguments.selection.project.as_deref()) {
            Ok(project) => Ok(project.file.pack.default),
            Err(failure) if failure.id == "project.not-found" && !self.arguments.from.is_empty() => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// The C library that it needs, on Linux.
fn libc(planned: &PlannedBuild, staged: &Staged) -> Option<RequiredLibc> {
    let facts = &planned.sight.facts;
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
                    .hint("`minisign -G` makes a pair of keys; `--sign` takes the file of the secret one")
            })?)
        }
    };
    let password = env.get(PASSWORD).map(str::to_owned);
    text.map(|text| Signer::open(&text, password))
        .transpose()
        .map_err(|error| failure(&PackError::Sign(error)))
}

/// The present, unless the environment names another one.
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

fn tell(
    arguments: &PackArguments,
    context: &CommandContext<'_>,
    folder: &HostPath,
    packed: Vec<Packed>,
    published: &Published,
    signed: bool,
) -> Result<Exit, Failure> {
    let printer = context.printer;
    for left in &published.dropped {
        printer.warning(&format!("{left} was in the folder and is not in this release"));
    }
    for one in &packed {
        for name in &one.not_found {
            printer.warning(&format!(
                "`{name}`, which a library may read or open while it runs, is not here and not packed"
            ));
        }
        for name in &one.without_licence {
            printer.warning(&format!("no licence of `{name}` was found; name it in `licences` of [pack]"));
        }
    }
    for platform in &published.incomplete {
        printer.warning(&format!(
            "{platform} has no variant that runs without a GPU, so there is no manifest yet: pack one with the backend `cpu` into the same folder"
        ));
    }
    let document = PackReport::new(folder.as_str(), packed, published, signed);
    if arguments.json {
        printer.json(&document)?;
    } else {
        printer.answer(&document.text())?;
        if published.manifest.is_some() && !signed {
            printer.hint("the manifest is not signed: `--sign FILE`, or GPUBUILD_SIGN_KEY");
        }
    }
    log::debug!("{} in all layers", bytes::show(published.bytes));
    Ok(Exit::Done)
}
