//! Reads and verifies a release, and combines it with the machine and the requested variant. Shared by `resolve` and `install`.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::Diagnostic as _;
use gpubuild_detect::id;
use gpubuild_exec::python::Network;
use gpubuild_host::{Host, HostInfo, HostPath, InspectHost, ReadFiles, RecordedHost};
use gpubuild_release::fetch::{self, Client, PlainHttp};
use gpubuild_release::history::{self, ReleaseHistory};
use gpubuild_release::install::state;
use gpubuild_release::manifest::{self, ManifestProblem};
use gpubuild_release::resolve::NoVariant;
use gpubuild_release::source::{Fetched, ReleaseSource, SourceError};
use gpubuild_release::trust::{self, InstallationError, OlderPolicy, TrustError, TrustKey, TrustedManifest};
use gpubuild_release::user::{self, User};
use gpubuild_release::{Devices, ReleaseMachine, ReleaseManifest, ResolveRequest};

use super::machine::{self, HostArguments, MachineState};
use super::project::invalid_settings;
use super::{CommandContext, Exit, Failure, absolute};

/// Reads what is remembered about the releases of a name.
type ReadHistory<'a> = dyn Fn(&str) -> Result<ReleaseHistory, TrustError> + 'a;

/// The variable that names a variant.
const VARIANT: &str = "GPUBUILD_VARIANT";
/// The variable that names a backend.
const BACKEND: &str = "GPUBUILD_BACKEND";
/// The variable that names a key.
const KEY: &str = "GPUBUILD_KEY";

/// Options that select a variant of a release and the keys to trust.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, clap::Args)]
pub struct ReleaseArguments {
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
    /// Minisign public key that must have signed the manifest, or a file with one; may be repeated [default:
    /// GPUBUILD_KEY]
    #[arg(long, value_name = "KEY")]
    pub key: Vec<String>,
    /// Name that the manifest must have
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Accept a release that is older than one that was trusted or installed before
    #[arg(long)]
    pub allow_older: bool,
    /// Open no connection; use only what was downloaded before [default: GPUBUILD_OFFLINE, CARGO_NET_OFFLINE]
    #[arg(long)]
    pub offline: bool,
    /// Allow unencrypted URLs of other machines
    #[arg(long)]
    pub insecure_http: bool,
    /// The machine to select a variant for
    #[command(flatten)]
    pub host: HostArguments,
}

/// Which devices the variant must support.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DevicesArgument {
    /// Every device of the backend
    #[default]
    All,
    /// At least one device
    Any,
}

/// A requested variant and the origin of the request: an option, a variable or a file.
type RequestedVariant = Option<(String, String)>;
/// A requested backend and the origin of the request.
type RequestedBackend = Option<(Backend, String)>;

/// Returns the folder in which a release is installed or will be; `None` if it is unknown.
pub type InstallationFolder<'a> = &'a dyn Fn(&str) -> Option<HostPath>;

/// Whether a release from the network must be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignaturePolicy {
    /// Always, because its program will be started.
    Required,
    /// Only if a key is configured.
    Optional,
}

/// A verified release and the machine to select a variant for.
pub struct ReleaseInputs<'a> {
    /// Downloads layers.
    pub client: Client<'a>,
    /// The location of the release.
    pub source: ReleaseSource,
    /// The verified manifest.
    pub manifest: ReleaseManifest,
    /// The properties of the machine.
    pub machine: ReleaseMachine,
    devices: Devices,
    variant: RequestedVariant,
    backend: RequestedBackend,
}

impl ReleaseInputs<'_> {
    /// The request to select a variant for the machine.
    #[must_use]
    pub fn request(&self) -> ResolveRequest<'_> {
        ResolveRequest {
            manifest: &self.manifest,
            machine: &self.machine,
            devices: self.devices,
            backend: self.backend.as_ref().map(|(backend, origin)| (*backend, origin.as_str())),
            variant: self.variant.as_ref().map(|(label, origin)| (label.as_str(), origin.as_str())),
            excluded: &[],
        }
    }
}

impl ReleaseArguments {
    /// Reads and verifies the release, and inspects the machine. `folder` returns the folder of an installation of the release.
    pub fn open<'a>(
        &self,
        manifest: &str,
        signature: SignaturePolicy,
        folder: InstallationFolder<'_>,
        context: &CommandContext<'a>,
    ) -> Result<ReleaseInputs<'a>, Failure> {
        let user = user::read(context.host).map_err(|error| invalid_settings(&error))?;
        if let Some((name, expected)) = fetch::bad_setting(context.host) {
            return Err(Failure::usage(id!("net.setting-invalid"), format!("{name} must be {expected}")));
        }
        let client = self.client(context);
        let source =
            match ReleaseSource::address(&client, manifest).map_err(|error| source_failure(&error))? {
                Some(source) => source,
                None => ReleaseSource::at(context.host, absolute(context, manifest)?),
            };
        let keys = self.keys(&user, context)?;
        if keys.is_empty() && source.is_remote() && signature == SignaturePolicy::Required {
            let message = format!("no key is configured for `{}`", source.name());
            return Err(Failure::usage(id!("manifest.no-key"), message)
                .hint("specify the publisher's key with `--key`, or trust the server with `--unsigned`"));
        }
        let manifest = self.read(&source, &keys, (folder, context), &client)?;
        let recorded = self.host.recorded(context)?;
        let host = examined_host(recorded.as_ref(), context);
        let state = self.inspect(context, host)?;
        let machine = ReleaseMachine::of(&state.facts, &state.matrix, &state.catalogue);
        let (variant, backend) = self.requested(context.host, &user, &manifest.name)?;
        let devices = if self.devices == DevicesArgument::Any { Devices::Any } else { Devices::All };
        Ok(ReleaseInputs { client, source, manifest, machine, devices, variant, backend })
    }

    /// Inspects the machine.
    pub fn inspect(
        &self,
        context: &CommandContext<'_>,
        host: &dyn InspectHost,
    ) -> Result<MachineState, Failure> {
        machine::check_overrides(host)?;
        Ok(machine::inspect(host, self.host.catalogue(context)?))
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
        (folder, context): (InstallationFolder<'_>, &CommandContext<'_>),
        client: &Client<'_>,
    ) -> Result<ReleaseManifest, Failure> {
        let host = client.host;
        let history = |release: &str| history(host, folder(release).as_ref(), release);
        let fetched = source.manifest(client).map_err(|error| source_failure(&error))?;
        let name = source.name();
        let trusted = if keys.is_empty() {
            let manifest = self.read_unsigned(&name, &fetched)?;
            let known = history(&manifest.name);
            trust::check_age(manifest, known, self.older()).map_err(|error| untrusted(&name, &error))?
        } else {
            self.verify(&name, keys, &fetched, (host, &history))?
        };
        if let Some(error) = &trusted.allowed {
            context
                .printer
                .warning(&format!("`{name}`: {error} [{}]; accepted because of --allow-older", error.id()));
        }
        let manifest = trusted.manifest;
        let recorded =
            if keys.is_empty() { Ok(()) } else { history::record(host, &fetched.bytes, &manifest) };
        recorded.and_then(|()| source.keep(host, &fetched)).map_err(|error| {
            Failure::negative(id!("cache.unwritable"), format!("failed to store the manifest: {error}"))
                .hint("set GPUBUILD_CACHE to a writable folder")
        })?;
        Ok(manifest)
    }

    /// Reads a manifest without a signature. It must be valid and have the name of `--name`.
    fn read_unsigned(&self, source: &str, fetched: &Fetched) -> Result<ReleaseManifest, Failure> {
        let manifest = manifest::read(&fetched.bytes).map_err(|problem| {
            Failure::usage(ManifestProblem::ID, format!("`{source}` is not a manifest: {problem}"))
                .hint("use a manifest that this version of gpubuild wrote")
        })?;
        match self.name.as_ref().filter(|expected| **expected != manifest.name) {
            None => Ok(manifest),
            Some(expected) => {
                let error = TrustError::OtherName { found: manifest.name, wanted: expected.clone() };
                Err(untrusted(source, &error))
            }
        }
    }

    fn verify(
        &self,
        source: &str,
        keys: &[TrustKey],
        fetched: &Fetched,
        (host, history): (&dyn InspectHost, &ReadHistory<'_>),
    ) -> Result<TrustedManifest, Failure> {
        let request = trust::TrustRequest {
            bytes: &fetched.bytes,
            signature: fetched.signature.as_deref(),
            keys,
            name: self.name.as_deref(),
            now: host.now(),
            older: self.older(),
        };
        trust::verify(&request, history).map_err(|error| untrusted(source, &error))
    }

    fn older(&self) -> OlderPolicy {
        if self.allow_older { OlderPolicy::Allow } else { OlderPolicy::Deny }
    }

    /// The trusted keys: of `--key`, else of `GPUBUILD_KEY`, else of the user's configuration. Each is a key or a file with one.
    fn keys(&self, user: &User, context: &CommandContext<'_>) -> Result<Vec<TrustKey>, Failure> {
        let from_env = context.host.env().get(KEY).map(str::to_owned);
        let configured = || user.key(self.name.as_ref()?);
        let texts = if self.key.is_empty() {
            from_env.or_else(configured).into_iter().collect()
        } else {
            self.key.clone()
        };
        let key = |text: &String| {
            let from_file = || {
                let file = absolute(context, text).ok()?;
                let bytes = context.host.read_input(&file, trust::MAX_BYTES as u64).ok()?;
                TrustKey::read(&String::from_utf8(bytes).ok()?)
            };
            TrustKey::read(text).or_else(from_file).ok_or_else(|| {
                Failure::usage(
                    id!("manifest.key-invalid"),
                    format!("`{text}` is neither a minisign key nor a file with one"),
                )
                .hint("a public key is a line in minisign's `.pub` file that begins with `RW`")
            })
        };
        texts.iter().map(key).collect()
    }

    /// The requested variant and backend: of the options, else of the variables, else of the user's configuration.
    fn requested(
        &self,
        host: &dyn HostInfo,
        user: &User,
        release: &str,
    ) -> Result<(RequestedVariant, RequestedBackend), Failure> {
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

/// What is known of earlier manifests of a release, from gpubuild's cache and the folder of the installation.
fn history(
    host: &dyn ReadFiles,
    folder: Option<&HostPath>,
    release: &str,
) -> Result<ReleaseHistory, TrustError> {
    let newest = |folder: &HostPath| state::newest_serial(host, folder, Some(release));
    let installed = folder.map(newest).transpose().map_err(|error| InstallationError {
        id: error.id(),
        message: error.to_string(),
        hint: error.hint(),
    })?;
    Ok(ReleaseHistory { recorded: history::last_trusted(host, release)?, installed: installed.flatten() })
}

/// The recorded host if there is one, else the real host.
#[must_use]
pub fn examined_host<'a>(recorded: Option<&'a RecordedHost>, context: &CommandContext<'a>) -> &'a dyn Host {
    match recorded {
        Some(recorded) => recorded,
        None => context.host,
    }
}

fn untrusted(source: &str, error: &TrustError) -> Failure {
    // A damaged record or installation is not a property of the manifest.
    if matches!(error, TrustError::Record(_) | TrustError::Installed(_)) {
        return Failure::of(error, Exit::Usage);
    }
    let message = format!("`{source}` is not trusted: {error}");
    Failure { message, ..Failure::of(error, Exit::Negative) }
}

/// The failure for a release that cannot be read. A wrong path or URL is a usage error.
#[must_use]
pub fn source_failure(error: &SourceError) -> Failure {
    let exit = match error {
        SourceError::Manifest { .. }
        | SourceError::NoManifest(_)
        | SourceError::Url(_)
        | SourceError::Reference(_) => Exit::Usage,
        _ => Exit::Negative,
    };
    Failure::of(error, exit)
}

/// The failure if no variant matches, with one reason per variant.
#[must_use]
pub fn no_variant_failure(error: &NoVariant) -> Failure {
    // If one variant was requested by name, the others are irrelevant.
    let relevant = error.rejected.iter().filter(|one| !one.reason.ends_with("[resolve.asked]"));
    let lines: Vec<String> = relevant.map(|one| format!("  {}: {}", one.label, one.reason)).collect();
    let message = [vec![error.text.clone()], lines].concat().join("\n");
    Failure::negative(error.id, message)
}
