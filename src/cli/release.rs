//! Which release is meant, whom to believe and what is wanted of it: shared by `resolve` and `install`.

use super::look::{self, HostArguments, Sight};
use super::{Context, Failure, absolute};
use crate::backend::Backend;
use crate::dist::manifest::{self, ManifestProblem};
use crate::dist::resolve::Nothing;
use crate::dist::source::{Source, SourceError};
use crate::dist::trust::{self, Distrust, Key};
use crate::dist::user::{self, Unreadable, User};
use crate::dist::{Devices, Machine, Manifest, Question};
use crate::host::{Host, RecordedHost};

/// The variable that names a variant.
const VARIANT: &str = "GPUBUILD_VARIANT";
/// The variable that names a backend.
const BACKEND: &str = "GPUBUILD_BACKEND";
/// The variable that names a key.
const KEY: &str = "GPUBUILD_KEY";

/// What is wanted of a release.
#[derive(Debug, clap::Args)]
pub struct ReleaseArguments {
    /// A key of minisign that has to have signed the manifest, or a file that holds one; may be given several times
    /// [default: GPUBUILD_KEY]
    #[arg(long, value_name = "KEY")]
    pub key: Vec<String>,
    /// The name that the manifest has to have
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Take this variant and no other [default: GPUBUILD_VARIANT]
    #[arg(long, value_name = "LABEL")]
    pub variant: Option<String>,
    /// Take a variant for this backend and no other [default: GPUBUILD_BACKEND]
    #[arg(long, value_name = "ID")]
    pub backend: Option<Backend>,
    /// What has to be covered where several devices are here
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    pub devices: DevicesArgument,
    /// Fail if a better backend whose hardware is here is not used
    #[arg(long)]
    pub strict: bool,
    /// Say of every variant why it was not taken
    #[arg(long)]
    pub explain: bool,
    /// For which machine
    #[command(flatten)]
    pub host: HostArguments,
}

/// Which devices have to be covered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DevicesArgument {
    /// Every device of the backend
    #[default]
    All,
    /// One of them is enough
    Any,
}

/// A variant that was asked for by name, and who did.
type AskedVariant = Option<(String, String)>;
/// A backend that was asked for by name, and who did.
type AskedBackend = Option<(Backend, String)>;

/// A release that is believed, and the machine that it is for.
pub struct Release {
    /// Where it is.
    pub source: Source,
    /// What there is.
    pub manifest: Manifest,
    /// The machine.
    pub machine: Machine,
    devices: Devices,
    variant: AskedVariant,
    backend: AskedBackend,
}

impl Release {
    /// The question which variant is for the machine.
    #[must_use]
    pub fn question(&self) -> Question<'_> {
        Question {
            manifest: &self.manifest,
            machine: &self.machine,
            devices: self.devices,
            backend: self.backend.as_ref().map(|(backend, who)| (*backend, who.as_str())),
            variant: self.variant.as_ref().map(|(label, who)| (label.as_str(), who.as_str())),
            without: &[],
        }
    }
}

impl ReleaseArguments {
    /// Reads the release, and looks at the machine.
    pub fn open(&self, manifest: &str, context: &Context<'_>) -> Result<Release, Failure> {
        let user = user::read(context.host).map_err(|error| {
            Failure::usage(Unreadable::ID, error.to_string())
                .hint("it has `variant`, `backend` and `[releases.NAME]` with `variant`, `backend`, `key`")
        })?;
        let source = Source::at(context.host, absolute(context, manifest)?);
        let manifest = self.read(&source, &user, context)?;
        let recorded = self.host.recorded(context)?;
        let host = looked_at(recorded.as_ref(), context);
        let sight = self.sight(context, host)?;
        let machine = Machine::of(&sight.facts, &sight.matrix, &sight.catalogue);
        let (variant, backend) = self.asked(host, &user, &manifest.name)?;
        let devices = if self.devices == DevicesArgument::Any { Devices::Any } else { Devices::All };
        Ok(Release { source, manifest, machine, devices, variant, backend })
    }

    /// What is seen of the machine.
    pub fn sight(&self, context: &Context<'_>, host: &dyn Host) -> Result<Sight, Failure> {
        look::check_overrides(host)?;
        Ok(look::look(host, self.host.catalogue(context)?))
    }

    fn read(&self, source: &Source, user: &User, context: &Context<'_>) -> Result<Manifest, Failure> {
        let host = context.host;
        let keys = self.keys(user, context)?;
        let fetched = source.manifest(host).map_err(|error| of_source(&error))?;
        let at = source.name();
        if keys.is_empty() {
            let manifest = manifest::read(&fetched.bytes).map_err(|problem| {
                Failure::usage(ManifestProblem::ID, format!("`{at}` is no manifest: {problem}"))
                    .hint("take one that `gpubuild` of this version has written")
            })?;
            let wanted = self.name.as_ref().filter(|wanted| **wanted != manifest.name);
            return match wanted {
                None => Ok(manifest),
                Some(wanted) => {
                    let other = Distrust::OtherName { found: manifest.name, wanted: wanted.clone() };
                    Err(distrusted(&at, &other))
                }
            };
        }
        let question = trust::Question {
            bytes: &fetched.bytes,
            signature: fetched.signature.as_deref(),
            keys: &keys,
            name: self.name.as_deref(),
            now: host.now(),
        };
        let manifest = trust::believe(&question, |name| trust::remembered(host, name))
            .map_err(|distrust| distrusted(&at, &distrust))?;
        trust::remember(host, &fetched.bytes, &manifest).map_err(|error| {
            Failure::negative("cache.unwritable", format!("failed to remember the manifest: {error}"))
                .hint("set GPUBUILD_CACHE to a folder that can be written")
        })?;
        Ok(manifest)
    }

    /// The keys that are trusted, text or files that hold it: of the flag, else of the variable, else of the release's settings.
    fn keys(&self, user: &User, context: &Context<'_>) -> Result<Vec<Key>, Failure> {
        let set = context.host.env().get(KEY).map(str::to_owned);
        let configured = || user.key(self.name.as_ref()?);
        let named = if self.key.is_empty() {
            set.or_else(configured).into_iter().collect()
        } else {
            self.key.clone()
        };
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

    /// What was asked for by name, and who did: a flag before a variable before the user's configuration.
    fn asked(
        &self,
        host: &dyn Host,
        user: &User,
        release: &str,
    ) -> Result<(AskedVariant, AskedBackend), Failure> {
        let set = |name: &str| host.env().get(name).map(str::to_owned);
        let flag = self.variant.clone().map(|label| (label, "--variant".to_owned()));
        let variant = flag
            .or_else(|| set(VARIANT).map(|label| (label, VARIANT.to_owned())))
            .or_else(|| user.variant(release));
        let backend = match (self.backend, set(BACKEND)) {
            (Some(backend), _) => Some((backend, "--backend".to_owned())),
            (None, Some(text)) => {
                let backend = text.parse::<Backend>().map_err(|error| {
                    Failure::usage("backend.unknown", format!("{error} (from {BACKEND})"))
                })?;
                Some((backend, BACKEND.to_owned()))
            }
            (None, None) => user.backend(release),
        };
        Ok((variant, backend))
    }
}

/// The recorded machine, where one is looked at.
#[must_use]
pub fn looked_at<'a>(recorded: Option<&'a RecordedHost>, context: &Context<'a>) -> &'a dyn Host {
    match recorded {
        Some(recorded) => recorded,
        None => context.host,
    }
}

fn distrusted(at: &str, distrust: &Distrust) -> Failure {
    Failure::negative(distrust.id(), format!("`{at}` is not believed: {distrust}")).hint(distrust.hint())
}

/// A folder that is not there is a typing error; everything else is an outcome.
#[must_use]
pub fn of_source(error: &SourceError) -> Failure {
    let failure = match error {
        SourceError::Manifest { .. } => Failure::usage(error.id(), error.to_string()),
        _ => Failure::negative(error.id(), error.to_string()),
    };
    failure.hint(error.hint())
}

/// That no variant is taken, with the reason of each.
#[must_use]
pub fn of_nothing(nothing: &Nothing) -> Failure {
    // Where one was asked for by name, the others are not to the point.
    let told = nothing.rejected.iter().filter(|one| !one.reason.ends_with("[resolve.asked]"));
    let lines: Vec<String> = told.map(|one| format!("  {}: {}", one.label, one.reason)).collect();
    let message = [vec![nothing.text.clone()], lines].concat().join("\n");
    Failure::negative(&nothing.id, message)
}
