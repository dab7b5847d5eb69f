//! Crates that use each other's libraries. One with a `links` key tells where its manifest lies; one that depends on it finds
//! the libraries as a CMake package, in place of an own copy with the same symbols.

use std::fmt::Write as _;

use super::ScriptError;
use super::missing::Missing;
use super::script::Script;
use crate::artifacts::{LinkItem, Manifest};
use crate::backend::Backend;
use crate::cmake::initial_cache::bracket;
use crate::host::{Host, HostPath};
use crate::link;
use crate::plan::Plan;
use crate::plan::profile::{Profile, Wanted};
use crate::plan::request::{Request, Selection};
use crate::project::Project;

/// The name under which the manifest is handed on: `DEP_<LINKS>_GPUBUILD_MANIFEST`.
pub const MANIFEST: &str = "GPUBUILD_MANIFEST";

/// The name under which a crate hands on that it was not built.
const MISSING: &str = "GPUBUILD_MISSING";

/// Folder of the packages in a build folder.
const PACKAGES: &str = "packages";

/// Libraries that another crate has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// Its `links` key, and the name of the package.
    pub links: String,
    /// What it has built.
    pub manifest: Manifest,
    /// Where that stands.
    pub path: HostPath,
}

/// Hands on where the manifest lies and what is in it.
pub(super) fn export(script: &mut Script, manifest: &Manifest, path: &HostPath) {
    script.metadata(MANIFEST, path.as_str());
    let backends: Vec<&str> = manifest.backends.iter().map(|backend| backend.id()).collect();
    script.metadata("GPUBUILD_BACKENDS", &backends.join(","));
    let separator = match path.rules() {
        crate::host::PathRules::Windows => ";",
        crate::host::PathRules::Unix => ":",
    };
    script.metadata("INCLUDE", &manifest.interface().includes.join(separator));
}

/// Hands on that there is none, because something is missing here.
pub(super) fn export_missing(script: &mut Script) {
    script.metadata(MISSING, "1");
}

/// The variable in which cargo hands something to those that depend on a crate.
fn variable(links: &str, name: &str) -> String {
    format!("DEP_{}_{name}", links.to_uppercase().replace('-', "_"))
}

/// What the crates with these `links` keys have built.
pub(super) fn find(host: &dyn Host, names: &[String]) -> Result<Vec<Shared>, ScriptError> {
    let one = |links: &String| {
        let name = variable(links, MANIFEST);
        let Some(path) = host.env().get(&name).map(|path| host.path(path)) else {
            if host.env().get(&variable(links, MISSING)).is_some() {
                let what = format!("uses `{links}`, which was not built");
                let text = format!("the crate with `links = \"{links}\"` misses something");
                return Err(ScriptError::Missing(Missing::one(what, "script.shared-missing", text, None)));
            }
            return Err(ScriptError::NotShared { links: links.clone(), variable: name });
        };
        Ok(Shared { links: links.clone(), manifest: Manifest::read(host, &path)?, path })
    };
    names.iter().map(one).collect()
}

/// Has the project look for the packages. Backends come with the shared libraries, so the rest is built for `cpu`.
pub(super) fn apply(shared: &[Shared], project: &mut Project, request: &mut Request) {
    if shared.is_empty() {
        return;
    }
    for one in shared {
        let rule = project.profile.share.get(&one.links).cloned().unwrap_or_default();
        for (name, value) in rule.options {
            project.file.project.options.entry(name).or_insert(value);
        }
    }
    request.selection = Selection::Named(vec![Backend::Cpu]);
    "the crate whose libraries are shared".clone_into(&mut request.origin);
}

impl Shared {
    /// The folder of its package below a build folder.
    fn folder(&self, root: &HostPath) -> HostPath {
        root.join(PACKAGES).join(&self.links)
    }

    /// Names the package's folder to CMake.
    pub(super) fn point(&self, project: &mut Project) {
        let folder = self.folder(&project.build_root).forward_slashes();
        project.file.project.options.insert(format!("{}_DIR", self.links), folder);
    }

    /// Takes out of a plan what the shared libraries bring: their options would mean nothing, their targets are not there.
    pub(super) fn strip(&self, project: &Project, plan: &mut Plan) {
        let base = project.profile.share.get(&self.links).and_then(|rule| rule.profile.as_deref());
        let base = base.and_then(Profile::builtin);
        let said = &project.file.project.options;
        for tree in &mut plan.trees {
            if let Some(profile) = &base {
                let rows = profile.backends.values();
                let of_rows = rows.clone().flat_map(|row| row.options.keys().chain([&row.option]));
                for name in profile.options.keys().chain(of_rows).filter(|name| !said.contains_key(*name)) {
                    tree.cache.remove(name);
                }
                let targets: Vec<&Wanted> =
                    profile.targets.iter().chain(rows.flat_map(|row| &row.targets)).collect();
                tree.choices.retain(|choice| !targets.iter().any(|wanted| wanted.any == choice.any));
                tree.targets
                    .retain(|target| !targets.iter().any(|wanted| wanted.any == Wanted::new(target).any));
            }
        }
    }

    /// Writes the package, unless it is there as it should be.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn write_package(&self, host: &dyn Host, root: &HostPath) -> std::io::Result<()> {
        let path = self.folder(root).join(&format!("{}-config.cmake", self.links));
        let text = self.package(host);
        if host.read_text(&path).is_ok_and(|before| before == text) {
            return Ok(());
        }
        host.write(&path, text.as_bytes())
    }

    /// A package with the target `<links>::<name>` for each library. Every one of them brings the whole link line.
    fn package(&self, host: &dyn Host) -> String {
        let whole = format!("gpubuild::{}", self.manifest.project);
        let mut text = link::cmake(&link::directives(&self.manifest, host.platform().os), &self.manifest);
        let interface = self.manifest.interface();
        let lists = [
            ("target_include_directories", &interface.includes),
            ("target_compile_definitions", &interface.defines),
        ];
        for (command, entries) in lists.iter().filter(|(_, entries)| !entries.is_empty()) {
            let entries: Vec<String> =
                entries.iter().map(|entry| format!("\n  {}", bracket(&entry.replace('\\', "/")))).collect();
            writeln!(text, "{command}({whole} INTERFACE{})", entries.concat()).expect("writing to a string");
        }
        let files = self.manifest.trees.iter().flat_map(|tree| &tree.files);
        let mut names: Vec<&str> =
            files.map(|file| file.target.as_str()).chain([self.links.as_str()]).collect();
        names.sort_unstable();
        names.dedup();
        let links = &self.links;
        for name in names {
            writeln!(
                text,
                "if(NOT TARGET {links}::{name})\n  add_library({links}::{name} INTERFACE IMPORTED)\n  target_link_libraries({links}::{name} INTERFACE {whole})\nendif()"
            )
            .expect("writing to a string");
        }
        writeln!(text, "set({links}_FOUND TRUE)").expect("writing to a string");
        text
    }

    /// A manifest without what the other crate links.
    pub(super) fn without(&self, mut manifest: Manifest) -> Manifest {
        let theirs: Vec<&str> =
            self.manifest.trees.iter().flat_map(|tree| &tree.link).filter_map(path_of).collect();
        for tree in &mut manifest.trees {
            tree.link.retain(|item| path_of(item).is_none_or(|path| !theirs.contains(&path)));
        }
        manifest
    }
}

fn path_of(item: &LinkItem) -> Option<&str> {
    match item {
        LinkItem::Static { path } | LinkItem::Shared { path } => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Arch, Os, RecordedHost};

    const GGML: &str = r#"{"schema":1,"gpubuild":"0.1.0","project":"g","backends":["cpu"],"trees":[{"id":"cpu","backends":["cpu"],"key":"k","source":"/s","build":"/b","generator":"Ninja","cmake":"4","cache":{},"files":[{"target":"ggml-base","kind":"static","path":"/b/libggml-base.a","bytes":1,"sha256":"0"}],"link":[{"kind":"static","path":"/b/libggml-base.a"},{"kind":"system","name":"m"}],"compilers":{},"interface":{"includes":["/s/include"],"defines":["GGML_X=1"]}}]}"#;

    fn shared() -> (RecordedHost, Shared) {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("DEP_GGML_GPUBUILD_MANIFEST", "/m.json")
            .file("/m.json", GGML)
            .build();
        let shared = find(&host, &["ggml".to_owned()]).unwrap().remove(0);
        (host, shared)
    }

    #[test]
    fn a_package_has_a_target_for_each_library_and_all_that_its_users_need() {
        let (host, shared) = shared();
        let text = shared.package(&host);
        for part in [
            "add_library(ggml::ggml INTERFACE IMPORTED)",
            "add_library(ggml::ggml-base INTERFACE IMPORTED)",
            "target_include_directories(gpubuild::g INTERFACE\n  [=[/s/include]=])",
            "GGML_X=1",
            "/b/libggml-base.a",
            "set(ggml_FOUND TRUE)",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_the_other_crate_links_is_linked_once() {
        let (_, shared) = shared();
        let own = shared.without(shared.manifest.clone());
        assert_eq!(own.trees[0].link, [LinkItem::System { name: "m".into() }]);
    }

    #[test]
    fn without_that_crate_the_variable_is_named() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).build();
        let error = find(&host, &["stable-x".to_owned()]).unwrap_err();
        assert_eq!(error.id(), "script.not-shared");
        assert!(error.to_string().contains("`DEP_STABLE_X_GPUBUILD_MANIFEST` is not set"), "{error}");
    }
}
