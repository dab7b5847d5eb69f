//! Reads the manifest of a release, and decides whether to trust it.

use gpubuild_detect::diagnostic::Diagnostic as _;
use gpubuild_detect::id;
use gpubuild_host::{HostPath, InspectHost, ReadFiles};
use gpubuild_release::ReleaseManifest;
use gpubuild_release::fetch::Client;
use gpubuild_release::history::{self, ReleaseHistory};
use gpubuild_release::install::state;
use gpubuild_release::manifest::{self, ManifestProblem};
use gpubuild_release::source::{Fetched, ReleaseSource};
use gpubuild_release::trust::{self, InstallationError, OlderPolicy, TrustError, TrustKey, TrustedManifest};
use gpubuild_release::user::User;

use super::super::{CommandContext, CommandMemory, Exit, Failure, absolute};
use super::{InstallationFolder, ReleaseArguments, source_failure};

/// Reads what is remembered about the releases of a name.
type ReadHistory<'a> = dyn Fn(&str) -> Result<ReleaseHistory, TrustError> + 'a;

/// The variable that names a key.
const KEY: &str = "GPUBUILD_KEY";

impl ReleaseArguments {
    /// Reads and verifies a manifest, and remembers that it was trusted.
    pub(super) fn read(
        &self,
        source: &ReleaseSource,
        keys: &[TrustKey],
        (folder, context): (InstallationFolder<'_>, &CommandContext<'_>),
        client: &Client<'_>,
    ) -> Result<TrustedManifest, Failure> {
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
        if context.memory == CommandMemory::Discard {
            return Ok(trusted);
        }
        let recorded = if keys.is_empty() {
            Ok(())
        } else {
            history::record(host, &fetched.bytes, &trusted.manifest, trusted.newest)
        };
        recorded.and_then(|()| source.keep(host, &fetched)).map_err(|error| {
            Failure::negative(id!("cache.unwritable"), format!("failed to store the manifest: {error}"))
                .hint("set GPUBUILD_CACHE to a writable folder")
        })?;
        Ok(trusted)
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
    pub(super) fn keys(&self, user: &User, context: &CommandContext<'_>) -> Result<Vec<TrustKey>, Failure> {
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

fn untrusted(source: &str, error: &TrustError) -> Failure {
    // A damaged record or installation is not a property of the manifest.
    if matches!(error, TrustError::Record(_) | TrustError::Installed(_)) {
        return Failure::of(error, Exit::Usage);
    }
    let message = format!("`{source}` is not trusted: {error}");
    Failure { message, ..Failure::of(error, Exit::Negative) }
}
