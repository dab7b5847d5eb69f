//! The input of bindgen: headers, folders, and the definitions that affect structures.

use std::time::Duration;

use gpubuild_host::{Command, Host, HostInfo, HostPath, ReadFiles};
use gpubuild_plan::artifacts::{BuiltTree, Manifest};
use gpubuild_plan::project::abi::default_of;

use super::{Bindings, BuildFolders};
use crate::ScriptError;

/// How long a compiler may take to print where its headers are.
const DEADLINE: Duration = Duration::from_secs(20);

/// What a build script passes to `bindgen::Builder`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindgenCall {
    /// For `headers`: absolute paths.
    pub headers: Vec<String>,
    /// For `clang_args`: include folders, and the definitions that the libraries were built with.
    pub arguments: Vec<String>,
    /// For `depfile("bindings", …)`: where bindgen writes the list of files that it read.
    pub depfile: String,
}

impl Bindings {
    pub(super) fn call(&self, host: &dyn Host, place: &BuildFolders) -> Result<BindgenCall, ScriptError> {
        let own = self.includes.iter().map(|folder| place.krate.folder.join(folder).normalized().to_string());
        let sources = self.sources(host, place);
        let of_sources = sources.iter().flat_map(|source| {
            self.source_includes.iter().map(|folder| source.join(folder).normalized().to_string())
        });
        let mut folders: Vec<String> = own.chain(of_sources).collect();
        let interface = self.manifest.as_ref().map(Manifest::interface).unwrap_or_default();
        folders.extend(interface.includes.iter().cloned());
        let below = [sources.as_ref(), Some(&place.krate.folder)].into_iter().flatten();
        let roots: Vec<HostPath> =
            below.cloned().chain(folders.iter().map(|folder| host.path(folder))).collect();
        let mut headers = Vec::new();
        for name in &self.headers {
            let found = roots.iter().map(|root| root.join(name).normalized()).find(|path| host.is_file(path));
            headers.push(found.ok_or_else(|| self.no_header(name, &roots))?.to_string());
        }
        if headers.is_empty() {
            return Err(ScriptError::NoHeaders);
        }
        let mut arguments: Vec<String> = folders.iter().map(|folder| format!("-I{folder}")).collect();
        arguments.extend(interface.defines.iter().map(|define| format!("-D{define}")));
        let trees = self.manifest.iter().flat_map(|manifest| &manifest.trees);
        for tree in trees.clone() {
            arguments.extend(abi(host, tree, &interface.defines));
        }
        arguments.extend(trees.filter_map(|tree| compiler_headers(host, tree)).take(1).flatten());
        let mut seen = std::collections::BTreeSet::new();
        arguments.retain(|argument| argument.starts_with("-idirafter") || seen.insert(argument.clone()));
        let depfile = place.krate.out.join(&format!("{}.d", self.file)).to_string();
        Ok(BindgenCall { headers, arguments, depfile })
    }

    /// The sources that were compiled: with patches, a copy.
    pub(super) fn sources(&self, host: &dyn HostInfo, place: &BuildFolders) -> Option<HostPath> {
        let trees = self.manifest.iter().flat_map(|manifest| &manifest.trees);
        let compiled = trees.map(|tree| host.path(&tree.source)).next();
        compiled.or_else(|| place.source.clone())
    }

    fn no_header(&self, name: &str, roots: &[HostPath]) -> ScriptError {
        ScriptError::NoHeader {
            header: name.to_owned(),
            searched: roots.iter().map(ToString::to_string).collect(),
            unbuilt: self.missing.as_ref().map(|missing| missing.what.clone()),
        }
    }
}

/// Definitions that affect structures and differ from the header's default: those in effect when the libraries were compiled,
/// which their targets do not necessarily export.
fn abi(host: &dyn ReadFiles, tree: &BuiltTree, known: &[String]) -> Vec<String> {
    let is_macro = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit())
    };
    let headers = tree.abi.keys().filter(|name| name.contains('.'));
    let places = headers.flat_map(|name| tree.interface.includes.iter().map(move |folder| (folder, name)));
    let texts: Vec<String> =
        places.filter_map(|(folder, name)| host.read_text(&host.path(folder).join(name)).ok()).collect();
    let differs = |name: &str, value: &str| {
        !texts.iter().any(|text| default_of(text, name).is_some_and(|default| default == value))
    };
    let is_new = |name: &str| {
        known.iter().all(|define| define.split_once('=').map_or(define.as_str(), |(name, _)| name) != name)
    };
    tree.abi
        .iter()
        .filter(|(name, value)| is_macro(name) && is_new(name) && differs(name, value))
        .map(|(name, value)| format!("-D{name}={value}"))
        .collect()
}

/// GCC's folder with `stddef.h`, for a libclang that is installed without its headers.
fn compiler_headers(host: &dyn Host, tree: &BuiltTree) -> Option<[String; 2]> {
    let compiler = tree.compilers.get("C").or_else(|| tree.compilers.get("CXX"))?;
    if compiler.id != "GNU" {
        return None;
    }
    let command = Command::new(compiler.path.as_str(), DEADLINE).args(["-print-file-name=include"]);
    let output = host.run(&command).ok().filter(gpubuild_host::CommandOutput::success)?;
    let folder = host.path(output.stdout.trim());
    folder.is_absolute().then(|| ["-idirafter".to_owned(), folder.to_string()])
}
