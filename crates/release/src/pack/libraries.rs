//! A copy of a project's libraries for other build systems: what `gpubuild export` writes, with the third-party libraries that it links.

use std::collections::BTreeSet;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_exec::export::{Export, LinkedLibraries, is_archive};
use gpubuild_host::{Host, HostPath, ReadFiles};

use super::PackError;
use super::closure::{self, Closure, ClosureRules};
use super::layer::LayerKind;
use super::stage::{StageRequest, Staged, Staging, check_platform, linked_folders};

/// Stages the libraries, headers and packages for build systems into an empty folder.
///
/// # Errors
/// See [`PackError`].
pub(super) fn stage(
    host: &dyn Host,
    request: &StageRequest<'_>,
    headers: &[HostPath],
    into: &HostPath,
) -> Result<Staged, PackError> {
    let Some(manifest) = request.manifest else { return Ok(Staged::default()) };
    let (os, leave) = (request.platform.os, &request.table.leave);
    let is_provided = |name: &str| closure::is_left(os, name, leave);
    let version = request.cargo.version.as_str();
    let linked = LinkedLibraries::Copied { is_provided: &is_provided, version };
    let export = Export::of(host, manifest, headers, linked)
        .map_err(|error| PackError::io("read the headers of", request.root, &error))?;
    let closure = dependencies(host, request, &export)?;
    check_platform(request.platform, &closure)?;
    let mut staging = Staging::new(host, into, request.platform);
    for file in &export.libraries {
        let name = file.to.as_str();
        staging.add(name, &real(host, &file.from), !is_archive(name), LayerKind::Built(name.to_owned()))?;
    }
    for file in &export.linked {
        let part = LayerKind::Library(file_name(&file.to).to_owned());
        staging.add(&file.to, &real(host, &file.from), false, part)?;
    }
    staging.libraries(&closure, request.gfx)?;
    for file in &export.headers {
        staging.add(&file.to, &file.from, false, LayerKind::Files)?;
    }
    for (path, text) in [&export.pkg_config, &export.cmake] {
        staging.add_text(path, text, LayerKind::Files)?;
    }
    staging.files(request)?;
    let mut third_party = closure.clone();
    let linked = export.linked.iter().map(|file| (file_name(&file.to).to_owned(), real(host, &file.from)));
    third_party.packed.extend(linked);
    staging.licences(&third_party, request)?;
    staging.set_search_paths()?;
    staging.verify(&closure, leave)?;
    staging.sbom(request)?;
    staging.staged.left = closure.left.into_iter().chain(export.left).collect_set();
    staging.staged.not_found.extend(closure.not_found);
    staging.staged.includes = export.external;
    Ok(staging.staged)
}

/// The libraries that the shared libraries of an export need and that are not part of it.
fn dependencies(
    host: &dyn ReadFiles,
    request: &StageRequest<'_>,
    export: &Export,
) -> Result<Closure, PackError> {
    let all = || export.libraries.iter().chain(&export.linked);
    let own: BTreeSet<String> = all().map(|file| real(host, &file.from).key()).collect_set();
    let roots: Vec<HostPath> =
        all().filter(|file| !is_archive(&file.to)).map(|file| real(host, &file.from)).collect();
    let folders = linked_folders(host, request.environment, request.manifest);
    let rules = ClosureRules { platform: request.platform, own, leave: &request.table.leave, folders };
    let mut closure = closure::follow(host, &roots, &rules)?;
    // The loader may find another copy of a library that the export contains.
    closure.packed.retain(|name, _| export.linked.iter().all(|file| file_name(&file.to) != name));
    Ok(closure)
}

/// A path without symbolic links, such as those of versions.
fn real(host: &dyn ReadFiles, path: &HostPath) -> HostPath {
    host.canonical(path).unwrap_or_else(|_| path.clone())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
