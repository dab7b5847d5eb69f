//! `gpubuild resolve`: which variant of a release is for this machine, and why not the others.

use super::detect::role;
use super::look::{self, HostArguments, Sight};
use super::{Context, Exit, Failure, absolute};
use crate::backend::Backend;
use crate::dist::manifest::{self, ManifestProblem};
use crate::dist::properties::properties;
use crate::dist::resolve::Nothing;
use crate::dist::trust::{self, Distrust, Key};
use crate::dist::{Devices, Machine, Manifest, Question, resolve};
use crate::doctor::packages::choose;
use crate::host::{Host, HostPath};
use crate::matrix::Probes;
use crate::report::{self, packages};

/// The variable that names a variant.
const VARIANT: &str = "GPUBUILD_VARIANT";
/// The variable that names a backend.
const BACKEND: &str = "GPUBUILD_BACKEND";
/// The variable that names a key.
const KEY: &str = "GPUBUILD_KEY";
/// Name of the manifest in a folder.
const FILE: &str = "manifest.json";

/// Arguments of `resolve`.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The manifest, or the folder that holds it
    #[arg(long, value_name = "PATH", required_unless_present = "python", conflicts_with = "python")]
    manifest: Option<String>,
    /// Name the Python packages for this machine instead: PyTorch, CuPy, ONNX Runtime, and their indexes
    #[arg(long)]
    python: bool,
    /// With `--python`: the properties of wheel variants (PEP 817, 825) that suit this machine as well
    #[arg(long, requires = "python")]
    properties: bool,
    /// A key of minisign that has to have signed the manifest, or a file that holds one; may be given several times
    /// [default: GPUBUILD_KEY]
    #[arg(long, value_name = "KEY", conflicts_with = "python")]
    key: Vec<String>,
    /// The name that the manifest has to have
    #[arg(long, value_name = "NAME", conflicts_with = "python")]
    name: Option<String>,
    /// Take this variant and no other [default: GPUBUILD_VARIANT]
    #[arg(long, value_name = "LABEL")]
    variant: Option<String>,
    /// Take a variant for this backend and no other [default: GPUBUILD_BACKEND]
    #[arg(long, value_name = "ID")]
    backend: Option<Backend>,
    /// What has to be covered where several devices are here
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    devices: DevicesArgument,
    /// Fail if a better backend whose hardware is here is not used
    #[arg(long)]
    strict: bool,
    /// Say of every variant why it was not taken
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    host: HostArguments,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum DevicesArgument {
    /// Every device of the backend
    #[default]
    All,
    /// One of them is enough
    Any,
}

/// Resolves.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let Some(manifest) = &arguments.manifest else { return python(arguments, context) };
    let manifest = read(manifest, arguments, context)?;
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    let sight = seen(arguments, context, host)?;
    let machine = Machine::of(&sight.facts, &sight.matrix, &sight.catalogue);
    let (variant, backend) = asked(arguments, host)?;
    let question = Question {
        manifest: &manifest,
        machine: &machine,
        devices: if arguments.devices == DevicesArgument::Any { Devices::Any } else { Devices::All },
        backend: backend.as_ref().map(|(backend, who)| (*backend, who.as_str())),
        variant: variant.as_ref().map(|(label, who)| (label.as_str(), who.as_str())),
    };
    let choice = resolve(&question).map_err(|nothing| failure(&nothing))?;
    if arguments.json {
        context.printer.json(&report::resolve::Document::new(&manifest, &machine, &choice))?;
    } else {
        context.printer.answer(&report::resolve::text(&choice, arguments.explain))?;
    }
    for one in &choice.fallback {
        context.printer.warning(&format!("{} is here and not used: {}", one.backend, one.reason));
    }
    if arguments.strict && !choice.fallback.is_empty() {
        let better: Vec<&str> = choice.fallback.iter().map(|one| one.backend.id()).collect();
        context.printer.warning(&format!("--strict: `{}` does not use {}", choice.label, better.join(", ")));
        return Ok(Exit::Negative);
    }
    Ok(Exit::Done)
}

/// The machine that is looked at.
fn seen(arguments: &Arguments, context: &Context<'_>, host: &dyn Host) -> Result<Sight, Failure> {
    look::check_overrides(host)?;
    Ok(look::look(host, arguments.host.catalogue(context)?))
}

/// The same question for wheels. No driver is asked.
fn python(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    let sight = seen(arguments, context, host)?;
    let choices = choose(&sight.facts, &sight.inventory, &sight.catalogue, &sight.matrix, &Probes::new());
    let mut document = packages::Document::new(choices);
    if arguments.properties {
        let machine = Machine::of(&sight.facts, &sight.matrix, &sight.catalogue);
        document.variant_properties = properties(&machine, &sight.catalogue);
    }
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        let paint = |tone, text: &str| context.printer.paint(role(tone), text);
        context.printer.answer(&packages::text(&document, &paint))?;
    }
    Ok(Exit::Done)
}

fn read(path: &str, arguments: &Arguments, context: &Context<'_>) -> Result<Manifest, Failure> {
    let host = context.host;
    let mut path = absolute(context, path)?;
    if host.is_dir(&path) {
        path = path.join(FILE);
    }
    let bytes = host.read_start(&path, manifest::MOST_BYTES + 1).map_err(|error| {
        Failure::usage("manifest.unreadable", format!("failed to read `{path}`: {error}"))
            .hint("`--manifest` takes the folder of a release, or its manifest.json")
    })?;
    let keys = keys(arguments, context)?;
    if keys.is_empty() {
        let manifest = manifest::read(&bytes).map_err(|problem| {
            Failure::usage(ManifestProblem::ID, format!("`{path}` is no manifest: {problem}"))
                .hint("take one that `gpubuild` of this version has written")
        })?;
        let wanted = arguments.name.as_ref().filter(|wanted| **wanted != manifest.name);
        return match wanted {
            None => Ok(manifest),
            Some(wanted) => {
                let other = Distrust::OtherName { found: manifest.name, wanted: wanted.clone() };
                Err(distrusted(&path, &other))
            }
        };
    }
    let beside = host.path(&format!("{path}{}", trust::SUFFIX));
    let signature = host.read_start(&beside, trust::MOST_BYTES + 1).ok();
    let question = trust::Question {
        bytes: &bytes,
        signature: signature.as_deref(),
        keys: &keys,
        name: arguments.name.as_deref(),
        now: host.now(),
    };
    let manifest = trust::believe(&question, |name| trust::remembered(host, name))
        .map_err(|distrust| distrusted(&path, &distrust))?;
    trust::remember(host, &bytes, &manifest).map_err(|error| {
        Failure::negative("cache.unwritable", format!("failed to remember the manifest: {error}"))
            .hint("set GPUBUILD_CACHE to a folder that can be written")
    })?;
    Ok(manifest)
}

fn distrusted(path: &HostPath, distrust: &Distrust) -> Failure {
    Failure::negative(distrust.id(), format!("`{path}` is not believed: {distrust}")).hint(distrust.hint())
}

/// The keys that are trusted: text, or files that hold it.
fn keys(arguments: &Arguments, context: &Context<'_>) -> Result<Vec<Key>, Failure> {
    let set = context.host.env().get(KEY).filter(|value| !value.is_empty()).map(str::to_owned);
    let named = if arguments.key.is_empty() { set.into_iter().collect() } else { arguments.key.clone() };
    let key = |text: &String| {
        let of_file = || {
            let file = absolute(context, text).ok()?;
            Key::read(&String::from_utf8(context.host.read_start(&file, trust::MOST_BYTES).ok()?).ok()?)
        };
        Key::read(text).or_else(of_file).ok_or_else(|| {
            Failure::usage(
                "manifest.key-invalid",
                format!("`{text}` is no key of minisign, and no file with one"),
            )
            .hint("a public key is a line that begins with `RW`, in minisign's `.pub` file")
        })
    };
    named.iter().map(key).collect()
}

/// What was asked for by name, and who did: a flag before a variable.
type Asked = (Option<(String, String)>, Option<(Backend, String)>);

fn asked(arguments: &Arguments, host: &dyn Host) -> Result<Asked, Failure> {
    let set = |name: &str| host.env().get(name).filter(|value| !value.is_empty()).map(str::to_owned);
    let flag = arguments.variant.clone().map(|label| (label, "--variant".to_owned()));
    let variant = flag.or_else(|| set(VARIANT).map(|label| (label, VARIANT.to_owned())));
    let backend = match (arguments.backend, set(BACKEND)) {
        (Some(backend), _) => Some((backend, "--backend".to_owned())),
        (None, Some(text)) => {
            let backend = text
                .parse::<Backend>()
                .map_err(|error| Failure::usage("backend.unknown", format!("{error} (from {BACKEND})")))?;
            Some((backend, BACKEND.to_owned()))
        }
        (None, None) => None,
    };
    Ok((variant, backend))
}

fn failure(nothing: &Nothing) -> Failure {
    // Where one was asked for by name, the others are not to the point.
    let told = nothing.rejected.iter().filter(|one| !one.reason.ends_with("[resolve.asked]"));
    let lines: Vec<String> = told.map(|one| format!("  {}: {}", one.label, one.reason)).collect();
    let message = [vec![nothing.text.clone()], lines].concat().join("\n");
    Failure::negative(&nothing.id, message)
}
