//! `gpubuild self update`: installs the newest release of gpubuild over an older one.

mod origin;

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_release::user;

use self::origin::Origin;
use super::install::{self, ProvenanceArguments};
use super::project::invalid_settings;
use super::release::ReleaseArguments;
use super::{CommandContext, Exit, Failure};

/// The name of gpubuild's releases and of its program.
const NAME: &str = "gpubuild";
/// The release that `.github/workflows/release.yml` publishes.
const MANIFEST: &str = "oci://ghcr.io/gpubuild/gpubuild:latest";
/// The key that signs releases, if this program was built for one.
const RELEASE_KEY: Option<&str> = option_env!("GPUBUILD_RELEASE_KEY");

/// Update gpubuild itself
#[derive(Debug, clap::Args)]
pub struct SelfArguments {
    #[command(subcommand)]
    command: SelfCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SelfCommand {
    /// Install the newest release of gpubuild, and keep the previous one
    Update(SelfUpdateArguments),
}

/// Arguments of `self update`.
#[derive(Debug, clap::Args)]
pub struct SelfUpdateArguments {
    /// Folder of a release, its manifest.json, the URL of either, or `oci://HOST/NAME:TAG`
    #[arg(long, value_name = "PLACE", default_value = MANIFEST)]
    manifest: String,
    /// Minisign public key that must have signed the manifest, or a file with one; may be repeated [default: that of
    /// gpubuild's releases, else `key` of `[releases.gpubuild]` in the user's settings]
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
    /// Accept a release that is older than the installed one
    #[arg(long)]
    allow_older: bool,
    #[command(flatten)]
    provenance: ProvenanceArguments,
    /// Open no connection; use only what was downloaded before [default: GPUBUILD_OFFLINE, CARGO_NET_OFFLINE]
    #[arg(long)]
    offline: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl SelfArguments {
    /// Whether the command prints a JSON document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        let SelfCommand::Update(arguments) = &self.command;
        arguments.json
    }
}

/// Updates this installation.
pub fn run(arguments: &SelfArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let SelfCommand::Update(arguments) = &arguments.command;
    let to = match origin::of(context.host) {
        Origin::Installation(folder) => folder,
        Origin::Other { installer, command } => {
            let message = format!("{installer} installed this copy of gpubuild");
            return Err(Failure::usage(id!("self.other-installer"), message)
                .hint(format!("update it with `{command}`")));
        }
        Origin::Unknown(program) => {
            let message = format!("`{program}` is not part of an installation by `gpubuild install`");
            return Err(Failure::usage(id!("self.not-installed"), message)
                .hint("update it with the tool that installed it"));
        }
    };
    let release = ReleaseArguments {
        // gpubuild has one variant, for all machines. What the user has set for other releases does not apply.
        variant: Some(Backend::Cpu.id().to_owned()),
        backend: Some(Backend::Cpu),
        key: keys(arguments, context)?,
        name: Some(NAME.to_owned()),
        allow_older: arguments.allow_older,
        offline: arguments.offline,
        ..ReleaseArguments::default()
    };
    let request = install::UpdateRequest {
        manifest: &arguments.manifest,
        to: &to,
        release,
        provenance: arguments.provenance.clone(),
        json: arguments.json,
    };
    install::update(request, context)
}

/// The keys to trust: of `--key`, else the built-in one, else of the user's settings for gpubuild. `GPUBUILD_KEY` is for other releases,
/// and the key that replaces gpubuild itself is not chosen by a variable that a CI job inherits.
fn keys(arguments: &SelfUpdateArguments, context: &CommandContext<'_>) -> Result<Vec<String>, Failure> {
    if !arguments.key.is_empty() {
        return Ok(arguments.key.clone());
    }
    let user = user::read(context.host).map_err(|error| invalid_settings(&error))?;
    let key = RELEASE_KEY.map(str::to_owned).or_else(|| user.key(NAME));
    key.map(|key| vec![key]).ok_or_else(|| {
        let message = "this copy of gpubuild has no key for its releases";
        Failure::usage(id!("manifest.no-key"), message)
            .hint("specify the publisher's key with `--key`; GPUBUILD_KEY is for other releases")
    })
}
