//! Which release is meant, which keys are trusted and what is requested of it: shared by `resolve` and `install`.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_exec::python::Network;
use gpubuild_host::{Host, HostInfo, InspectHost, RecordedHost};
use gpubuild_release::fetch::{self, Client, PlainHttp};
use gpubuild_release::manifest::{self, ManifestProblem};
use gpubuild_release::resolve::Nothing;
use gpubuild_release::source::{Fetched, ReleaseSource, SourceError};
use gpubuild_release::trust::{self, Distrust, TrustKey};
use gpubuild_release::user::{self, UnreadableUserFile, User};
use gpubuild_release::{Devices, ReleaseMachine, ReleaseManifest, ResolveQuestion};

use super::look::{self, HostArguments, MachineState};
use super::{CommandContext, Exit, Failure, absolute};

/// The variable that names a variant.
const VARIANT: &str = "GPUBUILD_VARIANT";
/// The variable that names a backend.
const BACKEND: &str = "GPUBUILD_BACKEND";
/// The variable that names a key.
const KEY: &str = "GPUBUILD_KEY";

/// What is wanted of a release.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, clap::Args)]
pub struct ReleaseArguments {
    /// Minisign public key that must have signed the manifest, or a file with one; may be repeated [default:
    /// GPUBUILD_KEY]
    #[arg(long, value_name = "KEY")]
    pub key: Vec<String>,
    /// Name that the manifest must have
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Select this variant only [default: GPUBUILD_VARIANT]
    #[arg(long, value_name = "LABEL")]
    pub variant: Option<String>,
    /// Select a variant for this backend only [default: GPUBUILD_BACKEND]
    #[arg(long, value_name = "ID")]
    pub backend: Option<Backend>,
    /// Which devices the variant must support if there are several
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    pub devices: DevicesArgument,
    /// Fail if a better backend is not used although its hardware is present
    #[arg(long)]
    pub strict: bool,
    /// Print why each other variant was not selected
    #[arg(long)]
    pub explain: bool,
    /// Open no connection; use only what was downloaded before [default: GPUBUILD_OFFLINE, CARGO_NET_OFFLINE]
    #[arg(long)]
    pub offline: bool,
    /// Allow unencrypted URLs of other machines
    #[arg(long)]
    pub insecure_http: bool,
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

/// Whether a release from the network must be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signed {
    /// Yes: it will be started.
    Required,
    /// Only if a key is named.
    AsAsked,
}

/// A verified release, and the machine that it is for.
pub struct ReleaseInputs<'a> {
    /// How it is fetched.
    pub client: Client<'a>,
    /// Where it is.
    pub source: ReleaseSource,
    /// What there is.
    pub manifest: ReleaseManifest,
    /// The machine.
    pub machine: ReleaseMachine,
    devices: Devices,
    variant: AskedVariant,
    backend: AskedBackend,
}

impl ReleaseInputs<'_> {
    /// The question which variant is for the machine.
    #[must_use]
    pub fn question(&self) -> ResolveQuestion<'_> {
        ResolveQuestion {
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
    pub fn open<'a>(
        &self,
        manifest: &str,
        signed: Signed,
        context: &CommandContext<'a>,
    ) -> Result<ReleaseInputs<'a>, Failure> {
        let user = user::read(context.host).map_err(|error| {
            Failure::usage(UnreadableUserFile::ID, error.to_string())
                .hint("it has `variant`, `backend` and `[releases.NAME]` with `variant`, `backend`, `key`")
        })?;
        if let Some((name, wanted)) = fetch::bad_setting(context.host) {
            return Err(Failure::usage(id!("net.setting-invalid"), format!("{name} has to be {wanted}")));
        }
        let client = self.client(context);
        let source = match ReleaseSource::address(&client, manifest).map_err(|error| of_source(&error))? {
            Some(source) => source,
            None => ReleaseSource::at(context.host, absolute(context, manifest)?),
        };
        let keys = self.keys(&user, context)?;
        if keys.is_empty() && source.is_remote() && signed == Signed::Required {
            let message = format!("no key is configured for `{}`", source.name());
            return Err(Failure::usage(id!("manifest.no-key"), message)
                .hint("name the publisher's key with `--key`, or trust the server with `--unsigned`"));
        }
        let manifest = self.read(&source, &keys, &client)?;
        let recorded = self.host.recorded(context)?;
        let host = looked_at(recorded.as_ref(), context);
        let sight = self.sight(context, host)?;
        let machine = ReleaseMachine::of(&sight.facts, &sight.matrix, &sight.catalogue);
        let (variant, backend) = self.asked(context.host, &user, &manifest.name)?;
        let devices = if self.devices == DevicesArgument::Any { Devices::Any } else { Devices::All };
        Ok(ReleaseInputs { client, source, manifest, machine, devices, variant, backend })
    }

    /// What is seen of the machine.
    pub fn sight(
        &self,
        context: &CommandContext<'_>,
        host: &dyn InspectHost,
    ) -> Result<MachineState, Failure> {
        look::check_overrides(host)?;
        Ok(look::look(host, self.host.catalogue(context)?))
    }

    fn client<'a>(&self, context: &CommandContext<'a>) -> Client<'a> {
        let network = if self.offline { Network::Offline } else { Network::from_env(context.host.env()) };
        let plain = if self.insecure_http { PlainHttp::Anywhere } else { PlainHttp::Loopback };
        let printer = context.printer;
        Client::new(context.host, network, plain, Box::new(|text| printer.warning(text)))
    }

    fn read(
        &self,
        source: &ReleaseSource,
        keys: &[TrustKey],
        client: &Client<'_>,
    ) -> Result<ReleaseManifest, Failure> {
        let host = client.host;
        let fetched = source.manifest(client).map_err(|error| of_source(&error))?;
        let at = source.name();
        let manifest = if keys.is_empty() {
            self.unsigned(&at, &fetched)?
        } else {
            self.believed(&at, keys, &fetched, host)?
        };
        let remembered =
            if keys.is_empty() { Ok(()) } else { trust::remember(host, &fetched.bytes, &manifest) };
        remembered.and_then(|()| source.keep(host, &fetched)).map_err(|error| {
            Failure::negative(id!("cache.unwritable"), format!("failed to remember the manifest: {error}"))
                .hint("set GPUBUILD_CACHE to a folder that can be written")
        })?;
        Ok(manifest)
    }

    /// Without a key the manifest must be consistent and have the expected name.
    fn unsigned(&self, at: &str, fetched: &Fetched) -> Result<ReleaseManifest, Failure> {
        let manifest = manifest::read(&fetched.bytes).map_err(|problem| {
            Failure::usage(ManifestProblem::ID, format!("`{at}` is not a manifest: {problem}"))
                .hint("take one that `gpubuild` of this version has written")
        })?;
        match self.name.as_ref().filter(|wanted| **wanted != manifest.name) {
            None => Ok(manifest),
            Some(wanted) => {
                let other = Distrust::OtherName { found: manifest.name, wanted: wanted.clone() };
                Err(distrusted(at, &other))
            }
        }
    }

    fn believed(
        &self,
        at: &str,
        keys: &[TrustKey],
        fetched: &Fetched,
        host: &dyn InspectHost,
    ) -> Result<ReleaseManifest, Failure> {
        let question = trust::TrustQuestion {
            bytes: &fetched.bytes,
            signature: fetched.signature.as_deref(),
            keys,
            name: self.name.as_deref(),
            now: host.now(),
        };
        trust::believe(&question, |name| trust::remembered(host, name))
            .map_err(|distrust| distrusted(at, &distrust))
    }

    /// The keys that are trusted, text or files that hold it: of the flag, else of the variable, else of the release's settings.
    fn keys(&self, user: &User, context: &CommandContext<'_>) -> Result<Vec<TrustKey>, Failure> {
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
                TrustKey::read(
                    &String::from_utf8(context.host.read_start(&file, trust::MOST_BYTES).ok()?).ok()?,
                )
            };
            TrustKey::read(text).or_else(of_file).ok_or_else(|| {
                Failure::usage(
                    id!("manifest.key-invalid"),
                    format!("`{text}` is neither a minisign key nor a file with one"),
                )
                .hint("a public key is a line that begins with `RW`, in minisign's `.pub` file")
            })
        };
        named.iter().map(key).collect()
    }

    /// What was asked for by name, and who did: a flag before a variable before the user's configuration.
    fn asked(
        &self,
        host: &dyn HostInfo,
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
                    Failure::usage(id!("backend.unknown"), format!("{error} (from {BACKEND})"))
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
pub fn looked_at<'a>(recorded: Option<&'a RecordedHost>, context: &CommandContext<'a>) -> &'a dyn Host {
    match recorded {
        Some(recorded) => recorded,
        None => context.host,
    }
}

fn distrusted(at: &str, distrust: &Distrust) -> Failure {
    let message = format!("`{at}` is not trusted: {distrust}");
    Failure { message, ..Failure::of(distrust, Exit::Negative) }
}

/// A folder that is not there is a typing error; everything else is an outcome.
#[must_use]
pub fn of_source(error: &SourceError) -> Failure {
    let exit = match error {
        SourceError::Manifest { .. }
        | SourceError::NoManifest(_)
        | SourceError::Url(_)
        | SourceError::Reference(_) => Exit::Usage,
        _ => Exit::Negative,
    };
    Failure::of(error, exit)
}

/// That no variant is taken, with the reason of each.
#[must_use]
pub fn of_nothing(nothing: &Nothing) -> Failure {
    // Where one was asked for by name, the others are not to the point.
    let told = nothing.rejected.iter().filter(|one| !one.reason.ends_with("[resolve.asked]"));
    let lines: Vec<String> = told.map(|one| format!("  {}: {}", one.label, one.reason)).collect();
    let message = [vec![nothing.text.clone()], lines].concat().join("\n");
    Failure::negative(nothing.id, message)
}
