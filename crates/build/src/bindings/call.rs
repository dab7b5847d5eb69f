//! What bindgen is told: headers, folders, and the definitions that structures depend on.

use std::time::Duration;

use gpubuild_host::{Command, Host, HostPath};
use gpubuild_plan::artifacts::{BuiltTree, Manifest};
use gpubuild_plan::project::abi::default_of;

use super::{Bindings, Place};
use crate::ScriptError;

/// How long a compiler may take to say where its headers are.
const DEADLINE: Duration = Duration::from_secs(20);

/// What a build script hands to `bindgen::Builder`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// For `headers`: absolute paths.
    pub headers: Vec<String>,
    /// For `clang_args`: folders with headers, and the definitions that the libraries were built with.
    pub arguments: Vec<String>,
    /// For `depfile("bindings", …)`: where bindgen says which files it read.
    pub depfile: String,
}

impl Bindings {
    pub(super) fn call(&self, host: &dyn Host, place: &Place) -> Result<Call, ScriptError> {
        let own = self.includes.iter().map(|folder| place.krate.folder.join(folder).normalized().to_string());
        let mut folders: Vec<String> = own.collect();
        let interface = self.manifest.as_ref().map(Manifest::interface).unwrap_or_default();
        folders.extend(interface.includes.iter().cloned());
        let below = [place.source.as_ref(), Some(&place.krate.folder)].into_iter().flatten();
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
        Ok(Call { headers, arguments, depfile })
    }

    fn no_header(&self, name: &str, roots: &[HostPath]) -> ScriptError {
        ScriptError::NoHeader {
            header: name.to_owned(),
            searched: roots.iter().map(ToString::to_string).collect(),
            unbuilt: self.missing.as_ref().map(|missing| missing.what.clone()),
        }
    }
}

/// Definitions that structures depend on and that differ from the header's own default: those in effect while the libraries
/// were compiled, which their targets need not hand on.
fn abi(host: &dyn Host, tree: &BuiltTree, known: &[String]) -> Vec<String> {
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

/// Where GCC keeps `stddef.h`: a libclang that came without its own headers needs a loan.
fn compiler_headers(host: &dyn Host, tree: &BuiltTree) -> Option<[String; 2]> {
    let compiler = tree.compilers.get("C").or_else(|| tree.compilers.get("CXX"))?;
    if compiler.id != "GNU" {
        return None;
    }
    let command = Command::new(compiler.path.as_str(), DEADLINE).args(["-print-file-name=include"]);
    let output = host.run(&command).ok().filter(gpubuild_host::Output::success)?;
    let folder = host.path(output.stdout.trim());
    folder.is_absolute().then(|| ["-idirafter".to_owned(), folder.to_string()])
}
