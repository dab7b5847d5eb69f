//! `gpubuild pack`: builds variants and packs them into a release for `gpubuild install`, or into Python wheels.

mod packing;
mod program;
mod requirements;
mod wheel;

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_exec::exec::BuildOutcome;
use gpubuild_host::{Clock, HostPath};
use gpubuild_plan::plan::bytes;
use gpubuild_plan::project::{PackTable, Project, variant};
use gpubuild_release::manifest::is_plain_name;
use gpubuild_release::pack::PackError;
use gpubuild_release::pack::release::{self, PublishOptions, Published, ReleaseWork};
use gpubuild_release::pack::sign::Signer;
use gpubuild_sources::LockPolicy;

use self::packing::Packing;
use super::build::{self, NetworkArguments, PlannedBuild};
use super::plan::SelectionArguments;
use super::project::load_project;
use super::sources;
use super::target::TargetArgument;
use super::{CommandContext, Exit, Failure, absolute, run};
use crate::report::pack::{PackReport, Packed};

/// The variable that contains the secret key.
const KEY: &str = "GPUBUILD_SIGN_KEY";
/// The variable that contains the password of the secret key.
const PASSWORD: &str = "GPUBUILD_SIGN_PASSWORD";
/// The variable that sets the time of the release, for reproducible output.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// What `pack` writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum PackFormat {
    /// A release for `gpubuild install`
    #[default]
    Release,
    /// A Python wheel for each variant
    Wheel,
    /// The source distribution of a Python package, without a build
    Sdist,
}

/// What is packed of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PackedOutput {
    /// The program of `[binary]`, or those of `--program`.
    Program,
    /// The libraries.
    Libraries,
    /// The modules of a Python package.
    Wheel,
}

impl PackedOutput {
    /// What a release of a project contains.
    fn of_release(arguments: &PackArguments, project: &Project) -> Self {
        if arguments.libraries || project.file.pack.libraries { Self::Libraries } else { Self::Program }
    }
}

/// Options of `--format wheel`.
#[derive(Debug, clap::Args)]
struct WheelArguments {
    /// With `--format wheel`: write one wheel with the name and version of pyproject.toml, as build frontends need it;
    /// without `--variant`, for the backends of `[project]`
    #[arg(long, conflicts_with_all = ["label", "from", "program"])]
    single: bool,
    /// With `--format wheel`: write variant wheels (PEP 825), of which installers select one, and the list of them for
    /// the package index, NAME-VERSION-variants.json; as `variants = "label"` in `[python]`
    #[arg(long, conflicts_with_all = ["single", "from", "program"])]
    wheel_variants: bool,
}

/// Arguments of `pack`.
#[derive(Debug, clap::Args)]
pub struct PackArguments {
    /// Folder of the release or of the wheels; a release keeps its other variants and is replaced atomically
    #[arg(long, value_name = "DIR")]
    out: String,
    /// What to write
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: PackFormat,
    #[command(flatten)]
    wheel: WheelArguments,
    /// Add the variants of another release folder instead of building; may be repeated
    #[arg(long, value_name = "DIR")]
    from: Vec<String>,
    /// Pack this program instead of building; may be repeated, the first one is smoke-tested by `install`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "variant", "backends", "project"])]
    program: Vec<String>,
    /// Pack the libraries with their headers, a CMake package and a file for pkg-config, instead of a program [default:
    /// `libraries` in [pack]]
    #[arg(long, conflicts_with_all = ["from", "program", "single", "wheel_variants"])]
    libraries: bool,
    /// Folder of the cargo package of `--program` [default: the current folder]
    #[arg(long, value_name = "DIR", requires = "program")]
    package: Option<String>,
    /// Name of the variant [default: that of `--variant`, else its backends]
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    label: Option<String>,
    /// Version of the release [default: that in [pack], else that of the cargo package]
    #[arg(long, value_name = "VERSION", conflicts_with = "from", value_parser = release_version)]
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
    target: TargetArgument,
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
    match arguments.format {
        PackFormat::Release => {}
        PackFormat::Wheel => return wheel::run(arguments, context),
        PackFormat::Sdist => return wheel::write_sdist(arguments, context),
    }
    let wheel_only =
        [("--single", arguments.wheel.single), ("--wheel-variants", arguments.wheel.wheel_variants)];
    if let Some((name, _)) = wheel_only.iter().find(|(_, is_given)| *is_given) {
        let message = format!("`{name}` applies to `--format wheel` only");
        return Err(Failure::usage(id!("usage.conflict"), message));
    }
    let signer = signer(arguments, context)?;
    let folder = absolute(context, &arguments.out)?.normalized();
    // Check the output folder before the build, which may take long.
    release::refuse_links(context.host, &folder).map_err(|error| failure(&error))?;
    release::read(context.host, &folder).map_err(|error| failure(&error))?;
    let builds = arguments.from.is_empty() && arguments.program.is_empty();
    let (selections, output) =
        if builds { selections(arguments, context)? } else { (Vec::new(), PackedOutput::Program) };
    let now = now(context.host)?;
    let mut packing = Packing { context, arguments, output, entries: Vec::new(), packed: Vec::new() };
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
    if let Some(remains) = &published.remains {
        context
            .printer
            .warning(&format!("the release was replaced, but the old one could not be removed: {remains}"));
    }
    warn_of_unpacked(context, &table.prefer, &published);
    print_result(arguments, context, &folder, packing.packed, &published, signer.is_some())
}

fn release_version(text: &str) -> Result<String, String> {
    let expected = "a version has letters, digits, `-`, `_`, `+` and `.`, and does not begin with `.`";
    if is_plain_name(text) { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
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
/// With what is packed of them.
fn selections(
    arguments: &PackArguments,
    context: &CommandContext<'_>,
) -> Result<(Vec<SelectionArguments>, PackedOutput), Failure> {
    let folder = arguments.selection.project.as_deref();
    sources::ensure(context, folder, arguments.network.network(context.host), LockPolicy::Keep)?;
    let project = load_project(context, folder)?;
    let output = PackedOutput::of_release(arguments, &project);
    if project.file.binary.is_none() && output == PackedOutput::Program {
        return Err(no_program());
    }
    if project.file.binary.is_none() && version(arguments, &project.file.pack).is_none() {
        return Err(no_version());
    }
    Ok((of_variants(arguments, &project)?, output))
}

/// The version of the release, if it is not that of the cargo package.
fn version<'a>(arguments: &'a PackArguments, table: &'a PackTable) -> Option<&'a String> {
    arguments.release_version.as_ref().or(table.version.as_ref())
}

/// The failure of `--libraries` for a project without a cargo package.
fn no_version() -> Failure {
    Failure::usage(
        id!("pack.version-missing"),
        "this project has no version, because it has no cargo package",
    )
    .hint("set one with `--release-version`, or with `version` in [pack] of gpubuild.toml")
}

fn no_program() -> Failure {
    Failure::usage(id!("run.no-binary"), "this project has no program to pack").hint(format!(
        "{}; `--libraries`, or `libraries = true` in [pack], packs its libraries",
        run::NO_BINARY
    ))
}

/// The selections of a project: the named variant or backends, else all variants.
fn of_variants(arguments: &PackArguments, project: &Project) -> Result<Vec<SelectionArguments>, Failure> {
    let named = arguments.selection.variant.is_some() || arguments.selection.backends.is_some();
    if named || arguments.wheel.single || project.file.variants.is_empty() {
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
    output: PackedOutput,
    context: &CommandContext<'_>,
) -> Result<(PlannedBuild, BuildOutcome), Failure> {
    if let Some(name) = &selection.variant {
        context.printer.status(&format!("variant {name}"));
    }
    let (network, toolkits) = (arguments.network, arguments.toolkits.clone());
    let build = build::BuildArguments::of(
        (selection.clone(), arguments.target.clone()),
        network,
        arguments.find_links.clone(),
        toolkits,
    );
    let build = if output == PackedOutput::Program { build } else { build.without_program() };
    build::make(&build, context)
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
        for folder in &one.includes {
            printer.warning(&format!(
                "headers of `{folder}` are not packed: programs that use those of the project need them"
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
