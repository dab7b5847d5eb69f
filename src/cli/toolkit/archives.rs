//! Downloads of a vendor's archives and manifests.

use gpubuild_detect::diagnostic::Diagnostic as _;
use gpubuild_detect::id;
use gpubuild_exec::python::Network;
use gpubuild_host::HostPath;
use gpubuild_release::auth::CredentialScope;
use gpubuild_release::fetch::{self, Client, FetchTarget, PlainHttp};
use gpubuild_release::url::Url;
use gpubuild_sources::SourceError;
use gpubuild_sources::toolkit::ToolkitArchive;
use gpubuild_toolchain::provision::{ArchiveAccess, ArchiveRequest, ProvisionError};

use crate::cli::{CommandContext, Exit, Failure, absolute};

/// The largest accepted manifest in bytes.
const LARGEST_MANIFEST: usize = 4 << 20;

/// Where the archives of toolkits are.
pub(in crate::cli) struct ArchiveClient<'a> {
    client: Client<'a>,
    /// The URL of a mirror, with a final `/`.
    mirror: Option<String>,
}

/// Where `--from` looks for archives: in a folder with the layout of the vendor's server, or on a mirror, whose URL has a final `/`.
pub(in crate::cli) fn archive_place(
    from: Option<&str>,
    context: &CommandContext<'_>,
) -> Result<(Option<HostPath>, Option<String>), Failure> {
    let Some(text) = from else { return Ok((None, None)) };
    if text.contains("://") {
        let url = format!("{}/", text.trim_end_matches('/'));
        Url::parse(&url).map_err(|error| Failure::usage(id!("net.address-invalid"), error.to_string()))?;
        return Ok((None, Some(url)));
    }
    let path = absolute(context, text)?;
    if context.host.is_dir(&path) {
        return Ok((Some(path), None));
    }
    Err(Failure::usage(id!("usage.no-folder"), format!("`{path}` is not a folder"))
        .hint("`--from` accepts a URL, or a folder with archives"))
}

impl<'a> ArchiveClient<'a> {
    /// A client for the vendor's server, or for a mirror of it.
    pub(in crate::cli) fn new(
        context: &CommandContext<'a>,
        network: Network,
        mirror: Option<String>,
    ) -> Self {
        let printer = context.printer;
        let warn = move |text: &str| printer.warning(text);
        Self { client: Client::new(context.host, network, PlainHttp::Loopback, Box::new(warn)), mirror }
    }
}

impl ArchiveAccess for ArchiveClient<'_> {
    fn fetch(&self, request: &ArchiveRequest<'_>) -> Result<(), ProvisionError> {
        if let Some((name, expected)) = fetch::bad_setting(self.client.host) {
            let message = format!("{name} must be {expected}");
            return Err(ProvisionError::Archive { id: id!("net.setting-invalid"), message, hint: None });
        }
        let archive = ToolkitArchive {
            path: &request.file.name,
            sha256: &request.file.sha256,
            url: self.mirror.as_deref().unwrap_or(request.url),
            size: request.file.size,
            folders: request.find_links,
            downloads: request.downloads,
        };
        archive.unpack(&self.client, request.into).map_err(archive_error)
    }

    fn unpack(&self, archive: &HostPath, into: &HostPath) -> Result<(), ProvisionError> {
        gpubuild_sources::toolkit::unpack_inner(self.client.host, archive, into).map_err(archive_error)
    }
}

fn archive_error(error: SourceError) -> ProvisionError {
    match error {
        SourceError::Interrupted => ProvisionError::Interrupted,
        error => ProvisionError::Archive { id: error.id(), message: error.to_string(), hint: error.hint() },
    }
}

/// The text of a manifest at a path or URL.
pub(super) fn manifest(
    context: &CommandContext<'_>,
    place: &str,
    network: Network,
) -> Result<String, Failure> {
    if !place.contains("://") {
        let path = absolute(context, place)?;
        let unreadable = |why: String| {
            Failure::usage(id!("toolkit.lock-unreadable"), format!("failed to read `{path}`: {why}"))
        };
        let bytes = context.host.read_up_to(&path, LARGEST_MANIFEST as u64);
        let bytes = bytes.map_err(|error| unreadable(error.to_string()))?;
        return String::from_utf8(bytes).map_err(|_| unreadable("it is not text".to_owned()));
    }
    let url =
        Url::parse(place).map_err(|error| Failure::usage(id!("net.address-invalid"), error.to_string()))?;
    if let Some((name, expected)) = fetch::bad_setting(context.host) {
        return Err(Failure::usage(id!("net.setting-invalid"), format!("{name} must be {expected}")));
    }
    let client = ArchiveClient::new(context, network, None).client;
    let target = FetchTarget { url: &url, scope: CredentialScope::Server };
    let bytes = client
        .document(target, None, LARGEST_MANIFEST)
        .map_err(|error| Failure::of(&error, Exit::Negative))?
        .ok_or_else(|| Failure::of(&SourceError::Missing { url: url.shown() }, Exit::Negative))?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::negative(id!("toolkit.lock-unreadable"), format!("`{place}` is not text")))
}
