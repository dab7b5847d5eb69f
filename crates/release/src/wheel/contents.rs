//! The files of a wheel: those of the Python package, the built libraries, and copies of third-party libraries. The libraries find each
//! other and NVIDIA's through relative search paths.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::facts::Libc;
use gpubuild_detect::toolkit::libraries;
use gpubuild_exec::exec::stage::needed;
use gpubuild_exec::store::sha256;
use gpubuild_host::{HostPath, LIBRARY_LIMIT, Os, ReadFiles};
use gpubuild_object::{ObjectFile, ObjectFormat};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::project::PythonTable;
use gpubuild_toolchain::venv::table::WheelTable;

use super::WheelError;
use super::archive::ArchivedFile;
use super::edit::{self, ElfEdit};
use super::module::{self, ModuleAbi};
use super::tag::{self, PlatformTags};
use super::vendor::{self, VendorLibrary, VendorWheels};
use super::walk::FolderWalk;
use crate::pack::closure::{self, Closure, ClosureRules};
use crate::pack::origin::LibraryPackage;
use crate::pack::stage::{check_platform, linked_folders};
use crate::pack::{PackError, check_link};
use crate::unpack::names::Names;

/// What a wheel is made of.
pub struct WheelInputs<'a> {
    /// The folder of gpubuild.toml.
    pub root: &'a HostPath,
    /// `[python]` of gpubuild.toml.
    pub python: &'a PythonTable,
    /// Name of the project in file names: `my_adder`.
    pub name: &'a str,
    /// The manifest of the build.
    pub manifest: &'a Manifest,
    /// The library folders of the project's environment from `gpubuild venv`.
    pub environment: &'a [String],
    /// Patterns for libraries that users' machines provide.
    pub leave: &'a [String],
    /// The CUDA release of the build.
    pub cuda: Option<gpubuild_core::version::Version>,
    /// The C library of the build machine.
    pub libc: Option<&'a Libc>,
}

/// The origin of a native file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The project built it.
    Built,
    /// It was copied from the build machine.
    Copied,
    /// It is part of the sources of the package.
    Source,
}

/// A library or extension module of a wheel.
#[derive(Debug, Clone)]
pub struct NativeFile {
    /// Path in the wheel.
    pub path: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The file on the build machine.
    pub from: HostPath,
    /// The name with which other libraries need it.
    pub name: String,
    /// What its headers contain.
    contents: ObjectFile,
}

/// The files of a wheel, without its metadata.
#[derive(Debug, Default)]
pub struct WheelContents {
    /// The folder of the package's sources.
    pub folder: String,
    /// The files, sorted by path.
    pub files: Vec<ArchivedFile>,
    /// The libraries and modules among them.
    pub natives: Vec<NativeFile>,
    /// The wheels that it needs.
    pub vendor: VendorWheels,
    /// The platform tags.
    pub platform: PlatformTags,
    /// The ABIs of its extension modules.
    pub abis: BTreeSet<ModuleAbi>,
    /// Libraries that users' machines provide.
    pub left: BTreeSet<String>,
    /// Libraries that are opened at run time and that were not found.
    pub not_found: BTreeSet<String>,
}

/// Collects the files of a wheel.
///
/// # Errors
/// See [`WheelError`].
pub fn collect(host: &dyn ReadFiles, inputs: &WheelInputs<'_>) -> Result<WheelContents, WheelError> {
    let (package, folder) = package(host, inputs)?;
    let skips = |_: &HostPath, name: &str| is_left_out(name);
    let mut walk = FolderWalk::new(host, &skips);
    walk.add(&folder, &package)?;
    let mut sources = walk.files;
    for from in sources.values() {
        check_link(host, inputs.root, from)?;
    }
    let built = built(host, inputs, &package)?;
    let closure = dependencies(host, inputs, &built)?;
    let table = WheelTable::embedded();
    let os = host.platform().os;
    let (vendor, copied): (BTreeMap<_, _>, BTreeMap<_, _>) =
        closure.packed.into_iter().partition(|(name, _)| vendor::is_known(table, os, name));
    let mut natives = Vec::new();
    for (path, from) in built {
        sources.remove(&path);
        let name = base(&path).to_owned();
        natives.push(native(host, (path, name), from, Origin::Built)?);
    }
    for (name, from) in copied {
        let path = copied_path(host, inputs, &natives, &name, &from)?;
        natives.push(native(host, (path, name), from, Origin::Copied)?);
    }
    let loaded: Vec<VendorLibrary<'_>> =
        vendor.iter().map(|(name, from)| VendorLibrary { name, version: version_of(host, from) }).collect();
    let vendor_wheels = vendor::wheels(table, host.platform(), &loaded, inputs.cuda.as_ref());
    let mut contents = WheelContents {
        folder: folder.to_string(),
        left: closure.left,
        not_found: closure.not_found,
        vendor: vendor_wheels,
        ..WheelContents::default()
    };
    let vendor_names: BTreeSet<String> = vendor.into_keys().collect_set();
    for file in &natives {
        let data = read(host, &file.from)?;
        let data = with_search_path(host, file, data, &natives, (&vendor_names, &contents.vendor.folders))?;
        contents.files.push(ArchivedFile { path: file.path.clone(), data, executable: true });
    }
    for (path, from) in sources {
        let data = read(host, &from)?;
        let is_native = is_native_name(&path);
        let names = (path.clone(), base(&path).to_owned());
        if is_native && let Ok(file) = native(host, names, from, Origin::Source) {
            natives.push(file);
        }
        contents.files.push(ArchivedFile { path, data, executable: is_native });
    }
    contents.files.sort_indirect_by(|one, other| one.path.cmp(&other.path));
    check_names(&contents.files)?;
    contents.abis = abis(&natives, &contents.files)?;
    let objects: Vec<ObjectFile> = natives.iter().map(|file| file.contents.clone()).collect();
    contents.platform = tag::platform(host.platform(), &objects, inputs.libc);
    contents.natives = natives;
    Ok(contents)
}

/// The name of the Python package and its folder.
fn package(host: &dyn ReadFiles, inputs: &WheelInputs<'_>) -> Result<(String, HostPath), WheelError> {
    let package = inputs.python.package.as_deref().ok_or(WheelError::NoPackage)?;
    let folder = inputs.root.join(package).normalized();
    let invalid = |what: &str| WheelError::Package { path: folder.to_string(), what: what.to_owned() };
    if !host.is_dir(&folder) {
        return Err(invalid("is not a folder"));
    }
    let name = folder.file_name().unwrap_or_default().to_owned();
    let is_identifier = !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !is_identifier {
        return Err(invalid("has a name that Python cannot import"));
    }
    Ok((name, folder))
}

/// Whether a file is hidden, or in a cache of Python.
fn is_left_out(name: &str) -> bool {
    name.starts_with('.') || name == "__pycache__" || name.rsplit('.').next() == Some("pyc")
}

/// The built libraries and modules, by path in the wheel.
fn built(
    host: &dyn ReadFiles,
    inputs: &WheelInputs<'_>,
    package: &str,
) -> Result<Vec<(String, HostPath)>, WheelError> {
    let inner = inputs.python.libraries.as_deref().unwrap_or_default().trim_matches('/');
    let folder = if matches!(inner, "" | ".") { package.to_owned() } else { format!("{package}/{inner}") };
    let placed = needed(host, inputs.manifest);
    if placed.is_empty() {
        return Err(WheelError::NoLibrary);
    }
    let real = |path: &str| {
        let from = host.path(path);
        host.canonical(&from).unwrap_or(from)
    };
    let at = |name: &str| format!("{folder}/{}", name.replace('\\', "/"));
    Ok(placed.iter().map(|file| (at(&file.name), real(&file.from))).collect())
}

/// The third-party libraries that the built files need.
fn dependencies(
    host: &dyn ReadFiles,
    inputs: &WheelInputs<'_>,
    built: &[(String, HostPath)],
) -> Result<Closure, WheelError> {
    let roots: Vec<HostPath> = built.iter().map(|(_, from)| from.clone()).collect();
    let own = roots.iter().map(HostPath::key).collect();
    let folders = linked_folders(host, inputs.environment, Some(inputs.manifest));
    let platform = host.platform();
    let closure =
        closure::follow(host, &roots, &ClosureRules { platform, own, leave: inputs.leave, folders })
            .map_err(PackError::from)?;
    check_platform(platform, &closure)?;
    Ok(closure)
}

/// A native file by its path in the wheel and the name with which other libraries need it.
fn native(
    host: &dyn ReadFiles,
    (path, name): (String, String),
    from: HostPath,
    origin: Origin,
) -> Result<NativeFile, WheelError> {
    let contents = gpubuild_object::read(host, &from, host.platform().arch)
        .map_err(|error| WheelError::Library { name: from.to_string(), what: error.to_string() })?;
    Ok(NativeFile { path, origin, from, name, contents })
}

/// The path of a copied library: `adder.libs/libgomp-1a2b3c4d.so.1`. Its hash prevents that another wheel's library of the same name is
/// used instead of it. On Windows, libraries are found beside the one that needs them.
fn copied_path(
    host: &dyn ReadFiles,
    inputs: &WheelInputs<'_>,
    built: &[NativeFile],
    name: &str,
    from: &HostPath,
) -> Result<String, WheelError> {
    if libraries::find(name).is_some_and(|library| !library.data.is_empty()) {
        let what = "it needs data files beside it".to_owned();
        return Err(WheelError::Library { name: name.to_owned(), what });
    }
    if host.platform().os == Os::Windows {
        let folder =
            built.first().and_then(|file| file.path.rsplit_once('/')).map_or("", |(folder, _)| folder);
        return Ok(format!("{folder}/{name}"));
    }
    let hash = sha256(&read(host, from)?);
    let (stem, end) = name.split_once('.').unwrap_or((name, "so"));
    Ok(format!("{}.libs/{stem}-{}.{end}", inputs.name, &hash[..8]))
}

/// The version of a linked library: that of its wheel, else the one in the name of its file.
fn version_of(host: &dyn ReadFiles, from: &HostPath) -> Option<gpubuild_core::version::Version> {
    let package = LibraryPackage::of(host, from).filter(|package| package.url.starts_with("pkg:pypi/"));
    let of_wheel = package.and_then(|package| package.version?.parse().ok());
    of_wheel.or_else(|| vendor::version_in_name(from.file_name().unwrap_or_default()))
}

/// The file with relative folders in its search path, and the new names of copied libraries.
fn with_search_path(
    host: &dyn ReadFiles,
    file: &NativeFile,
    data: Vec<u8>,
    natives: &[NativeFile],
    (vendor, folders): (&BTreeSet<String>, &[String]),
) -> Result<Vec<u8>, WheelError> {
    let of_wheel: Vec<&NativeFile> = file
        .contents
        .needed
        .iter()
        .filter_map(|needed| {
            natives.iter().find(|other| other.name == base(&needed.name) && other.path != file.path)
        })
        .collect();
    if file.contents.format != ObjectFormat::Elf {
        if host.platform().os == Os::Macos && !of_wheel.is_empty() {
            let what = "it needs another library of the wheel, which is not supported on macOS".to_owned();
            return Err(WheelError::Library { name: file.path.clone(), what });
        }
        return Ok(data);
    }
    let mut changes = ElfEdit::default();
    for other in &of_wheel {
        let folder = relative(&file.path, other.path.rsplit_once('/').map_or("", |(folder, _)| folder));
        if !changes.folders.contains(&folder) {
            changes.folders.push(folder);
        }
        if other.origin == Origin::Copied {
            changes.needed.insert(other.name.clone(), base(&other.path).to_owned());
        }
    }
    if file.contents.needed.iter().any(|needed| vendor.contains(&needed.name)) {
        changes.folders.extend(folders.iter().map(|folder| relative(&file.path, folder)));
    }
    if file.origin == Origin::Copied {
        changes.name = Some(base(&file.path).to_owned());
    }
    let has_path = !file.contents.rpath.is_empty() || !file.contents.runpath.is_empty();
    if changes == ElfEdit::default() && !has_path {
        return Ok(data);
    }
    edit::edit(&data, &changes).map_err(|what| PackError::Rpath { path: file.from.to_string(), what }.into())
}

/// A folder of `site-packages` relative to the folder of a file.
fn relative(path: &str, folder: &str) -> String {
    let own = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    if own == folder {
        return "$ORIGIN".to_owned();
    }
    let depth = own.split('/').filter(|part| !part.is_empty()).count();
    format!("$ORIGIN/{}{folder}", "../".repeat(depth))
}

fn base(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Whether a file of the package is a library or an extension module by its name.
fn is_native_name(path: &str) -> bool {
    let name = base(path).to_ascii_lowercase();
    [".so", ".pyd", ".dll", ".dylib"].iter().any(|end| name.ends_with(end)) || name.contains(".so.")
}

fn check_names(files: &[ArchivedFile]) -> Result<(), WheelError> {
    let mut names = Names::default();
    for file in files {
        names.add(&file.path).map_err(|unfit| PackError::Name {
            path: file.path.clone(),
            from: "the package".to_owned(),
            unfit,
        })?;
    }
    Ok(())
}

/// The ABIs of the extension modules. A module without one in its name would be installed for every version of Python.
fn abis(natives: &[NativeFile], files: &[ArchivedFile]) -> Result<BTreeSet<ModuleAbi>, WheelError> {
    let mut abis = BTreeSet::new();
    for file in natives {
        let abi = module::abi_of(base(&file.path));
        let data = files.iter().find(|other| other.path == file.path).map(|file| file.data.as_slice());
        if abi.is_none() && data.is_some_and(module::is_module) {
            let message = format!(
                "`{}` is an extension module, but its name does not contain the version of Python, as in `{}`",
                file.path, "_core.cpython-313-x86_64-linux-gnu.so"
            );
            return Err(WheelError::Abi(message));
        }
        abis.extend(abi);
    }
    Ok(abis)
}

fn read(host: &dyn ReadFiles, path: &HostPath) -> Result<Vec<u8>, WheelError> {
    Ok(host.read_up_to(path, LIBRARY_LIMIT).map_err(|error| PackError::io("read", path, &error))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_paths_are_relative_to_the_file() {
        assert_eq!(relative("adder/libadder.so", "adder"), "$ORIGIN");
        assert_eq!(relative("adder/libadder.so", "adder.libs"), "$ORIGIN/../adder.libs");
        assert_eq!(relative("adder/lib/libadder.so", "nvidia/cu13/lib"), "$ORIGIN/../../nvidia/cu13/lib");
    }
}
