//! Reads and verifies a release, and combines it with the machine and the requested variant. Shared by `resolve` and `install`.

mod manifest;

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_exec::python::Network;
use gpubuild_host::{Host, HostInfo, HostPath, InspectHost, RecordedHost};
use gpubuild_release::fetch::{self, Client, PlainHttp};
use gpubuild_release::resolve::NoVariant;
use gpubuild_release::source::{ReleaseSource, SourceError};
use gpubuild_release::trust::TrustedManifest;
use gpubuild_release::user::{self, User};
use gpubuild_release::{Devices, ReleaseMachine, ReleaseManifest, ResolveRequest};

use super::machine::{self, HostArguments, MachineState};
use super::project::invalid_settings;
use super::{CommandContext, Exit, Failure, absolute};

/// The variable that names a variant.
const VARIANT: &str = "GPUBUILD_VARIANT";
/// The variable that names a backend.
const BACKEND: &str = "GPUBUILD_BACKEND";

/// Options that select a variant of a release and the keys to trust.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, Default, clap::Args)]
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
    /// Always, also in a local folder.
    Always,
    /// Yes, because its program will be started.
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
    /// The newest serial of the release that is known.
    pub newest: u64,
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
        let needs_key = match signature {
            SignaturePolicy::Always => true,
            SignaturePolicy::Required => source.is_remote(),
            SignaturePolicy::Optional => false,
        };
        if keys.is_empty() && needs_key {
            let message = format!("no key is configured for `{}`", source.name());
            let hint = match signature {
                SignaturePolicy::Always => "specify the publisher's key with `--key`",
                _ => "specify the publisher's key with `--key`, or trust the server with `--unsigned`",
            };
            return Err(Failure::usage(id!("manifest.no-key"), message).hint(hint));
        }
        let TrustedManifest { manifest, newest, .. } =
            self.read(&source, &keys, (folder, context), &client)?;
        let recorded = self.host.recorded(context)?;
        let host = examined_host(recorded.as_ref(), context);
        let state = self.inspect(context, host)?;
        let machine = ReleaseMachine::of(&state.facts, &state.matrix, &state.catalogue)
            .with_hidden_devices(host.env(), state.facts.platform.os);
        let (variant, backend) = self.requested(context.host, &user, &manifest.name)?;
        let devices = if self.devices == DevicesArgument::Any { Devices::Any } else { Devices::All };
        Ok(ReleaseInputs { client, source, manifest, newest, machine, devices, variant, backend })
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

/// The recorded host if there is one, else the real host.
#[must_use]
pub fn examined_host<'a>(recorded: Option<&'a RecordedHost>, context: &CommandContext<'a>) -> &'a dyn Host {
    match recorded {
        Some(recorded) => recorded,
        None => context.host,
    }
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
