//! The metadata folder of a wheel, and the complete archive.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_exec::export::is_licence;
use gpubuild_exec::store::sha256;
use gpubuild_host::{HostPath, ReadFiles, search};
use gpubuild_plan::project::RuntimeWheels;
use gpubuild_plan::project::profile::WheelPackage;
use gpubuild_plan::project::source::lock::LockedSource;

use super::archive::{self, ArchivedFile};
use super::contents::{self, Origin, WheelContents, WheelInputs};
use super::interface::{self, UnpinnedInterface};
use super::module::ModuleAbi;
use super::project::{AddedMetadata, Distinction, PythonProject};
use super::variant::{self, LabelledVariant};
use super::{WheelError, WrittenWheel};
use crate::pack::origin::LibraryPackage;
use crate::pack::package::CargoPackage;
use crate::pack::sbom::{self, SbomFile, SbomSource};
use crate::pack::{PackError, check_link};

/// The extra with the libraries of NVIDIA.
pub const EXTRA: &str = "cuda";

/// A wheel to write.
pub struct WheelRequest<'a> {
    /// What it is made of.
    pub inputs: WheelInputs<'a>,
    /// The table `[project]` of pyproject.toml.
    pub project: &'a PythonProject,
    /// The variant, if its wheel is distinguished from others.
    pub variant: Option<Distinction>,
    /// The folder of the native sources.
    pub source: &'a HostPath,
    /// Packages that the project's profile knows.
    pub packages: &'a [WheelPackage],
    /// Where the sources were downloaded from, if gpubuild did that.
    pub locked: Option<&'a LockedSource>,
}

/// A wheel in memory.
#[derive(Debug)]
pub struct PackedWheel {
    /// What it contains.
    pub wheel: WrittenWheel,
    /// The variant, if it is a variant wheel.
    pub variant: Option<LabelledVariant>,
    /// Libraries for one release of a package that the wheel does not require.
    pub unpinned: Vec<UnpinnedInterface>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Licence files by path in the folder of licences.
type LicenceFiles = BTreeMap<String, HostPath>;

/// Packs a wheel.
///
/// # Errors
/// See [`WheelError`].
pub fn pack(host: &dyn ReadFiles, request: &WheelRequest<'_>) -> Result<PackedWheel, WheelError> {
    let contents = contents::collect(host, &request.inputs)?;
    let (python, abi) = tags(&contents, request.project)?;
    let stem = request.project.file_stem(request.variant.as_ref());
    let labelled = match &request.variant {
        Some(Distinction::Label(variant)) => Some(variant),
        _ => None,
    };
    let label = labelled.map(|variant| format!("-{}", variant.label)).unwrap_or_default();
    let file = format!("{stem}-{python}-{abi}-{}{label}.whl", contents.platform.tags.join("."));
    let wheel = written(request, &contents, file);
    let mut files = contents.files.clone();
    files.extend(information(host, request, &contents, (&stem, &format!("{python}-{abi}")))?);
    let own = format!("{stem}.dist-info/RECORD");
    let record = archive::record(&files, &own);
    files.push(ArchivedFile::new(own, record));
    let bytes = archive::zip(&files)?;
    Ok(PackedWheel {
        wheel: WrittenWheel { bytes: bytes.len() as u64, sha256: sha256(&bytes), ..wheel },
        variant: labelled.cloned(),
        unpinned: unpinned(request, &contents),
        bytes,
    })
}

/// The built libraries that work with one release of a package only, without a requirement on it.
fn unpinned(request: &WheelRequest<'_>, contents: &WheelContents) -> Vec<UnpinnedInterface> {
    let is_built =
        |path: &str| contents.natives.iter().any(|one| one.origin == Origin::Built && one.path == path);
    let files = contents.files.iter().filter(|file| is_built(&file.path));
    let libraries: Vec<(&str, &[u8])> =
        files.map(|file| (file.path.as_str(), file.data.as_slice())).collect();
    interface::unpinned(request.packages, request.project, &libraries)
}

fn written(request: &WheelRequest<'_>, contents: &WheelContents, file: String) -> WrittenWheel {
    let of = |origin: Origin| -> Vec<String> {
        let files = contents.natives.iter().filter(|file| file.origin == origin);
        files.map(|file| file.path.clone()).collect()
    };
    WrittenWheel {
        file,
        variant: request.variant.as_ref().map(|variant| match variant {
            Distinction::Version(label) | Distinction::Name(label) => label.clone(),
            Distinction::Label(variant) => variant.label.clone(),
        }),
        variant_properties: match &request.variant {
            Some(Distinction::Label(variant)) => variant.properties.lines(),
            _ => Vec::new(),
        },
        package: contents.folder.clone(),
        bytes: 0,
        sha256: String::new(),
        libraries: of(Origin::Built),
        copied: of(Origin::Copied),
        requires: contents.vendor.requires.clone(),
        extra: (request.inputs.python.runtime == RuntimeWheels::Extra).then(|| EXTRA.to_owned()),
        left: contents.left.iter().cloned().collect(),
        not_found: contents.not_found.iter().cloned().collect(),
        untagged: contents.platform.untagged.clone(),
    }
}

/// The Python tag and the ABI tag.
fn tags(contents: &WheelContents, project: &PythonProject) -> Result<(String, String), WheelError> {
    let exact: Vec<(&String, &String)> = contents
        .abis
        .iter()
        .filter_map(|abi| match abi {
            ModuleAbi::Exact(python, abi) => Some((python, abi)),
            ModuleAbi::Stable => None,
        })
        .collect();
    match exact.as_slice() {
        [] if contents.abis.is_empty() => Ok(("py3".to_owned(), "none".to_owned())),
        [] => {
            let oldest = project.oldest_python().ok_or_else(|| {
                let message = "pyproject.toml has no `requires-python`, such as `>=3.9`, for the module with the stable ABI";
                WheelError::Abi(message.to_owned())
            })?;
            Ok((format!("cp3{oldest}"), "abi3".to_owned()))
        }
        [(python, abi)] => Ok(((*python).clone(), (*abi).clone())),
        [(_, one), (_, other), ..] => Err(WheelError::Abi(format!(
            "the extension modules are for different versions of Python: {one} and {other}"
        ))),
    }
}

/// The files of the metadata folder, sorted by path, without `RECORD`.
fn information(
    host: &dyn ReadFiles,
    request: &WheelRequest<'_>,
    contents: &WheelContents,
    (stem, tag): (&str, &str),
) -> Result<Vec<ArchivedFile>, WheelError> {
    let folder = format!("{stem}.dist-info");
    let licences = licences(host, request, contents)?;
    let requires = contents.vendor.requires.clone();
    let (requires, extra) = match request.inputs.python.runtime {
        RuntimeWheels::Require => (requires, None),
        RuntimeWheels::Extra => (Vec::new(), Some((EXTRA, requires))),
    };
    let added = AddedMetadata {
        variant: request.variant.clone(),
        requires,
        extra,
        dynamic: &[],
        licences: licences.keys().cloned().collect(),
        readme: readme(host, request.inputs.root, request.project)?,
    };
    let mut files = vec![
        ArchivedFile::new(format!("{folder}/METADATA"), request.project.metadata(&added).into_bytes()),
        ArchivedFile::new(format!("{folder}/WHEEL"), wheel_file(tag, &contents.platform.tags).into_bytes()),
        ArchivedFile::new(
            format!("{folder}/sboms/{}", sbom::NAME),
            bill(host, request, contents).into_bytes(),
        ),
    ];
    if let Some(Distinction::Label(variant)) = &request.variant {
        let text = variant::text(&variant.document());
        files.push(ArchivedFile::new(format!("{folder}/variant.json"), text.into_bytes()));
    }
    if let Some(text) = request.project.entry_points_text() {
        files.push(ArchivedFile::new(format!("{folder}/entry_points.txt"), text.into_bytes()));
    }
    for (path, from) in licences {
        let data = host.read(&from).map_err(|error| PackError::io("read", &from, &error))?;
        files.push(ArchivedFile::new(format!("{folder}/licenses/{path}"), data));
    }
    files.sort_indirect_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

fn wheel_file(tag: &str, platforms: &[String]) -> String {
    let mut text = format!(
        "Wheel-Version: 1.0\nGenerator: gpubuild {}\nRoot-Is-Purelib: false\n",
        env!("CARGO_PKG_VERSION")
    );
    for platform in platforms {
        let _ = writeln!(text, "Tag: {tag}-{platform}");
    }
    text
}

/// The text of the description's file.
///
/// # Errors
/// The file cannot be read, or is outside the project's folder.
pub fn readme(
    host: &dyn ReadFiles,
    root: &HostPath,
    project: &PythonProject,
) -> Result<Option<String>, WheelError> {
    let Some(file) = project.readme_file() else { return Ok(None) };
    let path = root.join(file);
    if leaves_folder(file) || !path.is_inside(root) {
        return Err(invalid(format!("`{file}` of `readme` is outside the folder of the project")));
    }
    let text = host.read_text(&path).map_err(|error| PackError::io("read", &path, &error))?;
    Ok(Some(text))
}

/// The licence files of the project: those that `license-files` lists, else those in its folder by name.
///
/// # Errors
/// A pattern matches no file, or leaves the folder.
pub fn own_licences(
    host: &dyn ReadFiles,
    root: &HostPath,
    project: &PythonProject,
) -> Result<LicenceFiles, WheelError> {
    let Some(patterns) = &project.license_files else {
        let mut names = host.list(root).unwrap_or_default();
        names.retain(|name| is_licence(name) && host.is_file(&root.join(name)));
        let files: LicenceFiles = names.into_iter().map(|name| (name.clone(), root.join(&name))).collect();
        files.values().try_for_each(|path| check_link(host, root, path))?;
        return Ok(files);
    };
    let mut files = LicenceFiles::new();
    for pattern in patterns {
        if leaves_folder(pattern) {
            return Err(invalid(format!("`{pattern}` of `license-files` leaves the folder of the project")));
        }
        let found = search::glob(host, root.join(pattern).as_str());
        let before = files.len();
        for path in found.into_iter().filter(|path| host.is_file(path) && path.is_inside(root)) {
            check_link(host, root, &path)?;
            let inner =
                path.as_str()[root.as_str().len()..].trim_start_matches(['/', '\\']).replace('\\', "/");
            files.insert(inner, path);
        }
        if files.len() == before {
            return Err(invalid(format!("`{pattern}` of `license-files` matches no file")));
        }
    }
    Ok(files)
}

fn leaves_folder(path: &str) -> bool {
    path.split(['/', '\\']).any(|part| part == "..")
}

fn invalid(what: String) -> WheelError {
    WheelError::Metadata { path: super::project::FILE_NAME.to_owned(), what }
}

/// The licence files of the project and of copied libraries.
fn licences(
    host: &dyn ReadFiles,
    request: &WheelRequest<'_>,
    contents: &WheelContents,
) -> Result<LicenceFiles, WheelError> {
    let mut files = own_licences(host, request.inputs.root, request.project)?;
    for file in contents.natives.iter().filter(|file| file.origin == Origin::Copied) {
        let Some(package) = LibraryPackage::of(host, &file.from) else { continue };
        for licence in &package.licences {
            let Some(name) = licence.file_name() else { continue };
            files.insert(format!("{}/{name}", package.folder), licence.clone());
        }
    }
    Ok(files)
}

/// The bill of materials.
fn bill(host: &dyn ReadFiles, request: &WheelRequest<'_>, contents: &WheelContents) -> String {
    let packages: Vec<Option<LibraryPackage>> = contents
        .natives
        .iter()
        .map(|file| if file.origin == Origin::Copied { LibraryPackage::of(host, &file.from) } else { None })
        .collect();
    let files: Vec<SbomFile<'_>> = contents
        .natives
        .iter()
        .zip(&packages)
        .map(|(file, package)| {
            let data = contents.files.iter().find(|other| other.path == file.path);
            SbomFile {
                path: &file.path,
                sha256: data.map(|file| sha256(&file.data)).unwrap_or_default(),
                is_built: file.origin != Origin::Copied,
                package: package.as_ref(),
            }
        })
        .collect();
    let variant = request.variant.as_ref();
    let package =
        CargoPackage::without_crates(&request.project.name_of(variant), &request.project.version_of(variant));
    let source = SbomSource { name: request.source.file_name().unwrap_or("source"), locked: request.locked };
    sbom::text(&package, "library", Some(source), &files, &[])
}

#[cfg(test)]
mod tests {
    use gpubuild_host::{Arch, HostPath, Os, PathRules, RecordedHost};

    use super::{own_licences, readme};
    use crate::wheel::project::{self, FILE_NAME, PythonProject};

    /// A pyproject.toml with one more line.
    fn project_with(line: &str) -> PythonProject {
        let text = format!("[project]\nname = \"a\"\nversion = \"1\"\n{line}\n");
        project::parse(&text, FILE_NAME, None).unwrap()
    }

    #[test]
    fn licence_files_are_inside_the_project() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/home/secret", "")
            .file("/home/demo/LICENSE", "")
            .file("/home/demo/third/MIT.txt", "")
            .build();
        let root = HostPath::new(PathRules::Unix, "/home/demo");
        let of = |patterns: &str| {
            own_licences(&host, &root, &project_with(&format!("license-files = {patterns}")))
                .map(|files| files.into_keys().collect())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of("['LIC*', 'third/*']"), Ok(vec!["LICENSE".to_owned(), "third/MIT.txt".to_owned()]));
        for (pattern, message) in [
            ("['../secret']", "leaves the folder"),
            ("['third/../../secret']", "leaves the folder"),
            ("['/home/secret']", "matches no file"),
            ("['none']", "matches no file"),
        ] {
            assert!(of(pattern).unwrap_err().contains(message), "{pattern}");
        }
    }

    #[test]
    fn the_description_is_inside_the_project() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/home/README.md", "secret")
            .file("/home/demo/docs/README.md", "# Demo")
            .build();
        let root = HostPath::new(PathRules::Unix, "/home/demo");
        let of = |file: &str| {
            readme(&host, &root, &project_with(&format!("readme = '{file}'")))
                .map_err(|error| error.to_string())
        };
        assert_eq!(of("docs/README.md"), Ok(Some("# Demo".to_owned())));
        for file in ["../README.md", "docs/../../README.md", "/home/README.md"] {
            assert!(of(file).unwrap_err().contains("is outside the folder"), "{file}");
        }
    }
}
