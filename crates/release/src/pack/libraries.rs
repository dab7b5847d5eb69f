//! A copy of a project's libraries for other build systems: what `gpubuild export` writes, with the third-party libraries that it links.

use std::collections::BTreeSet;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_exec::export::{Export, LinkedLibraries, is_archive};
use gpubuild_host::{Host, HostPath, Os, ReadFiles};

use super::PackError;
use super::closure::{self, Closure, ClosureError, ClosureRules};
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
    if let Some((name, by)) = export.missing.first_key_value() {
        return Err(ClosureError::Missing { name: name.clone(), by: by.to_string() }.into());
    }
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
    let mut folders = linked_folders(host, request.environment, request.manifest);
    // A DLL is in another folder than its import library, beside those that it needs.
    folders.extend(roots.iter().filter(|_| request.platform.os == Os::Windows).filter_map(HostPath::parent));
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

#[cfg(test)]
mod tests {
    use gpubuild_core::backend::Backend;
    use gpubuild_host::{Arch, HostInfo as _, Platform, RealHost, WriteFiles};
    use gpubuild_plan::artifacts::Manifest;
    use gpubuild_plan::project::PackTable;
    use serde_json::json;

    use super::super::package::CargoPackage;
    use super::super::stage::{self, StageContents};
    use super::*;

    /// An import library in Microsoft's format with one function.
    fn import_library(dll: &str) -> Vec<u8> {
        let names = format!("call\0{dll}\0");
        let size = u32::try_from(names.len()).unwrap();
        let mut member = vec![0, 0, 0xff, 0xff, 0, 0, 0x64, 0x86, 0, 0, 0, 0];
        member.extend(size.to_le_bytes());
        // The hint, and a function that is imported by name.
        member.extend([0, 0, 4, 0]);
        member.extend(names.as_bytes());
        let header = format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "a/", 0, 0, 0, 644, member.len());
        let padding = if member.len() % 2 == 1 { "\n" } else { "" };
        [b"!<arch>\n", header.as_bytes(), &member, padding.as_bytes()].concat()
    }

    /// Packs a library for Windows that links import libraries of a toolkit in `kit/lib/x64`.
    fn pack(dlls: &[(&str, Vec<u8>)], leave: &[&str]) -> Result<Staged, PackError> {
        let folder = tempfile::tempdir().unwrap();
        let host = RealHost::new();
        let root = host.path(folder.path().to_str().unwrap());
        let write = |name: &str, bytes: &[u8]| host.write(&root.join(name), bytes).unwrap();
        write("build/libown.a", b"!<arch>\n");
        write("kit/lib/x64/cublas.lib", &import_library("cublas64_13.dll"));
        write("kit/lib/x64/cuda.lib", &import_library("nvcuda.dll"));
        write("kit/lib/x64/plain.lib", b"!<arch>\n");
        for (name, bytes) in dlls {
            write(&format!("kit/bin/x64/{name}"), bytes);
        }
        let link = |name: &str| json!({ "kind": "static", "path": root.join(name).as_str() });
        let manifest: Manifest = serde_json::from_value(json!({
            "schema": gpubuild_plan::artifacts::SCHEMA,
            "gpubuild": "0.1.0",
            "project": "own",
            "backends": [Backend::Cpu],
            "target": { "name": "x86_64-pc-windows-gnu", "os": "windows", "compilers": "variables" },
            "trees": [{
                "id": "cpu", "backends": [Backend::Cpu], "key": "", "source": root.join("source").as_str(),
                "build": root.join("build").as_str(), "generator": "Ninja", "cmake": "3.30", "cache": {},
                "files": [{ "target": "own", "kind": "static", "path": root.join("build/libown.a").as_str(), "bytes": 8, "sha256": "" }],
                "link": [link("build/libown.a"), link("kit/lib/x64/cublas.lib"), link("kit/lib/x64/cuda.lib"),
                    link("kit/lib/x64/plain.lib")],
                "compilers": {},
            }],
        }))
        .unwrap();
        let (cargo, table) = (
            CargoPackage::without_crates("own", "1.0"),
            PackTable { leave: leave.iter().map(|&name| name.to_owned()).collect(), ..PackTable::default() },
        );
        let request = StageRequest {
            platform: Platform { os: Os::Windows, arch: Arch::X86_64 },
            name: "own",
            root: &root,
            source: None,
            locked: None,
            package: &root,
            cargo: &cargo,
            manifest: Some(&manifest),
            contents: StageContents::Libraries(&[]),
            environment: &[],
            table: &table,
            gfx: &[],
        };
        stage::stage(&host, &request, &root.join("copy"))
    }

    #[test]
    fn dlls_are_packed_beside_their_import_libraries() {
        let dll = |needed: &[&str]| {
            let imports: Vec<(&str, &[&str])> = needed.iter().map(|&name| (name, &["call"][..])).collect();
            gpubuild_samples::pe(0x8664, true, &imports, &[], &[])
        };
        let needs = dll(&["cublasLt64_13.dll", "KERNEL32.dll"]);
        let both = [("cublas64_13.dll", needs), ("cublasLt64_13.dll", dll(&["KERNEL32.dll"]))];
        let staged = pack(&both, &[]).unwrap();
        let mut paths: Vec<&str> = staged.pieces.iter().map(|piece| piece.path.as_str()).collect();
        paths.retain(|path| path.starts_with("bin/") || is_archive(path));
        paths.sort_unstable();
        assert_eq!(
            paths,
            [
                "bin/cublas64_13.dll",
                "bin/cublasLt64_13.dll",
                "lib/cublas.lib",
                "lib/cuda.lib",
                "lib/libown.a",
                "lib/plain.lib"
            ]
        );
        // The driver has it.
        assert!(staged.left.contains("nvcuda.dll"), "{:?}", staged.left);
    }

    #[test]
    fn missing_dlls_are_refused_unless_the_machine_has_them() {
        use gpubuild_detect::diagnostic::Diagnostic as _;
        let error = pack(&[], &[]).unwrap_err();
        assert_eq!(error.id(), "pack.library-missing");
        let text = error.to_string();
        assert!(text.contains("cublas.lib` needs `cublas64_13.dll`"), "{text}");
        let staged = pack(&[], &["cublas64_*.dll"]).unwrap();
        assert!(staged.left.contains("cublas64_13.dll"), "{:?}", staged.left);
    }
}
