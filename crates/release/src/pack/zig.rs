//! The parts of Zig that are linked statically into the files of a variant for another platform.

use gpubuild_exec::export::is_archive;
use gpubuild_exec::python::fetch::fetched;
use gpubuild_host::ReadFiles;
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::planning::cross::zig_wheel;
use gpubuild_plan::target::{LinkedCode, Target, TargetCompilers, static_parts};

use super::layer::LayerKind;
use super::origin::LibraryPackage;
use super::stage::{StageContents, StageRequest, Staged};

/// A part of Zig in the files of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedPart {
    /// Its package: the wheel, with the folder in it.
    pub package: LibraryPackage,
    /// Its licence as an SPDX expression.
    pub licence: Option<String>,
}

/// The parts of Zig that are linked into the staged files; none if Zig did not link them.
pub(super) fn linked_parts(
    host: &dyn ReadFiles,
    request: &StageRequest<'_>,
    staged: &Staged,
) -> Vec<LinkedPart> {
    let Some(target) = request.manifest.and_then(of_zig) else { return Vec::new() };
    let is_linked = |path: &str| match request.contents {
        StageContents::Programs(_) => true,
        StageContents::Libraries(_) => !is_archive(path),
    };
    let mut built =
        staged.pieces.iter().filter(|piece| matches!(piece.part, LayerKind::Program | LayerKind::Built(_)));
    if !built.any(|piece| is_linked(&piece.path)) {
        return Vec::new();
    }
    let wheel = zig_wheel();
    let folder = fetched(host, &wheel).and_then(|program| program.parent());
    let (package, version) = (&wheel.package, &wheel.version);
    static_parts(&target, linked_code(request))
        .map(|part| {
            let file = folder.as_ref().map(|folder| folder.join(&part.file));
            LinkedPart {
                package: LibraryPackage {
                    name: part.name.clone(),
                    version: None,
                    url: format!("pkg:pypi/{package}@{version}#{}", part.folder),
                    licences: file.into_iter().filter(|file| host.is_file(file)).collect(),
                    folder: format!("{package}-{version}/{}", part.name),
                },
                licence: part.licence.clone(),
            }
        })
        .collect()
}

/// The target of a build, if Zig compiled it.
fn of_zig(manifest: &Manifest) -> Option<Target> {
    let planned = manifest.target.as_ref().filter(|target| target.compilers == TargetCompilers::Zig)?;
    Target::parse(&planned.name).ok()
}

fn linked_code(request: &StageRequest<'_>) -> LinkedCode {
    let mut trees = request.manifest.iter().flat_map(|manifest| &manifest.trees);
    match request.contents {
        _ if trees.any(|tree| tree.compilers.contains_key("CXX")) => LinkedCode::Cxx,
        StageContents::Programs(_) => LinkedCode::Rust,
        StageContents::Libraries(_) => LinkedCode::C,
    }
}
