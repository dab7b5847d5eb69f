//! Uses libraries that another project has built in place of this project's copy, which has the same symbols. CMake finds
//! them as a package.

use std::fmt::Write as _;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::shell::{cmake_bracket, word};
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::{HostInfo, HostPath, ReadFiles};

use crate::artifacts::{Manifest, ManifestError};
use crate::link;
use crate::plan::make::PlanRefusal;
use crate::plan::request::{BackendRequest, BackendSelection};
use crate::plan::{CmakePackage, Plan};
use crate::project::Project;
use crate::project::profile::{Profile, WantedOption};
use crate::project::together::{SameSymbols, VERSION, With};

/// Folder of the generated packages in a build folder.
const PACKAGES: &str = "packages";

/// Libraries that another project has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// Name of the library and of its CMake package: `ggml`.
    pub library: String,
    /// The manifest of the other project's build.
    pub manifest: Manifest,
    /// Path of that manifest.
    pub path: HostPath,
}

/// The libraries that a project uses from other projects of the same program: those with `same_symbols = "shared"` in
/// gpubuild.toml.
pub(super) fn wanted(
    host: &dyn ReadFiles,
    project: &Project,
    request: &BackendRequest,
) -> Result<Vec<Shared>, PlanRefusal> {
    let mut found = Vec::new();
    for with in project.with.iter().filter(|with| with.same_symbols == SameSymbols::Shared) {
        let one = from(host, project, with).map_err(|reason| PlanRefusal {
            origin: request.origin.clone(),
            blocked: Vec::new(),
            project: vec![reason],
        })?;
        refuse_missing(&one, with, request)?;
        found.push(one);
    }
    Ok(found)
}

fn from(host: &dyn ReadFiles, project: &Project, with: &With) -> Result<Shared, Reason> {
    let name = &with.name;
    let manifest = Manifest::read(host, &with.manifest).map_err(|error| {
        let why = match error {
            ManifestError::Missing { .. } => "it was not built yet".to_owned(),
            error => error.to_string(),
        };
        let hint =
            format!("build it first: `gpubuild build --project {}`", word(with.folder.as_str(), "DIR"));
        reason(
            id!("symbols.other-not-built"),
            format!("the libraries of `{name}` are required, but {why}"),
            hint,
        )
    })?;
    let provides = |library: &&String| {
        manifest.trees.iter().flat_map(|tree| &tree.files).any(|file| file.target == **library)
    };
    let library = with.library.as_ref().or_else(|| project.profile.share.keys().find(provides)).cloned();
    let library = library.ok_or_else(|| {
        let text = format!("the library of `{name}` that replaces this project's copy is not known");
        let hint = "set `library = \"NAME\"` under `[[with]]` in gpubuild.toml and the options that make the project find it \
                    as a CMake package, or use `same_symbols = \"prefix\"`";
        reason(id!("symbols.not-shareable"), text, hint)
    })?;
    // A different version may be compatible; the compiler reports it if not. Structures of different sizes never are.
    let differences: Vec<String> =
        with.differences.iter().filter(|one| one.name != VERSION).map(ToString::to_string).collect();
    if !differences.is_empty() {
        let text = format!("`{library}` of `{name}` cannot be used here: {}", differences.join(", "));
        return Err(reason(
            id!("symbols.not-shareable"),
            text,
            "use `same_symbols = \"prefix\"` or `\"dynamic\"`",
        ));
    }
    Ok(Shared { library, manifest, path: with.manifest.clone() })
}

fn reason(id: DiagnosticId, text: impl Into<String>, hint: impl Into<String>) -> Reason {
    Reason::new(id, text.into()).hint(hint.into())
}

/// Refuses a requested backend that the other project was built without.
fn refuse_missing(shared: &Shared, with: &With, request: &BackendRequest) -> Result<(), PlanRefusal> {
    let BackendSelection::Named(named) = &request.selection else { return Ok(()) };
    let blocked = |backend: &Backend| {
        let text =
            format!("`{}` comes from `{}`, which was built without {backend}", shared.library, with.name);
        let backends: Vec<&str> =
            shared.manifest.backends.iter().chain([backend]).map(|one| one.id()).collect();
        let hint = format!("gpubuild build --project {} --backends {}", with.folder, backends.join(","));
        (*backend, vec![reason(id!("symbols.shared-without-backend"), text, hint)])
    };
    let blocked: Vec<_> =
        named.iter().filter(|one| !shared.manifest.backends.contains(one)).map(blocked).collect();
    if blocked.is_empty() {
        return Ok(());
    }
    Err(PlanRefusal { origin: request.origin.clone(), blocked, project: Vec::new() })
}

/// Sets the options that make the project find the packages. The shared libraries provide the backends, so the project
/// itself is built for `cpu`.
pub fn apply(shared: &[Shared], project: &mut Project, request: &mut BackendRequest) {
    if shared.is_empty() {
        return;
    }
    for one in shared {
        let rule = project.profile.share.get(&one.library).cloned().unwrap_or_default();
        for (name, value) in rule.options {
            project.file.project.options.entry(name).or_insert(value);
        }
    }
    request.selection = BackendSelection::Named(vec![Backend::Cpu]);
}

impl Shared {
    /// The folder of its package below a build folder.
    fn folder(&self, root: &HostPath) -> HostPath {
        root.join(PACKAGES).join(&self.library)
    }

    /// Sets `<library>_DIR` to the package's folder.
    pub fn point(&self, project: &mut Project) {
        let folder = self.folder(&project.build_root).forward_slashes();
        project.file.project.options.insert(format!("{}_DIR", self.library), folder);
    }

    /// Removes the options and targets of the shared libraries from a plan: this project does not build them.
    pub fn strip(&self, project: &Project, plan: &mut Plan) {
        let base = project.profile.share.get(&self.library).and_then(|rule| rule.profile.as_deref());
        let base = base.and_then(Profile::builtin);
        let user_options = &project.file.project.options;
        for tree in &mut plan.trees {
            if let Some(profile) = &base {
                let rows = profile.backends.values();
                let of_rows = rows.clone().flat_map(|row| row.options.keys().chain([&row.option]));
                for name in
                    profile.options.keys().chain(of_rows).filter(|name| !user_options.contains_key(*name))
                {
                    tree.cache.remove(name);
                }
                let targets: Vec<&WantedOption> =
                    profile.targets.iter().chain(rows.flat_map(|row| &row.targets)).collect();
                tree.choices.retain(|choice| !targets.iter().any(|wanted| wanted.any == choice.any));
                tree.targets.retain(|target| {
                    !targets.iter().any(|wanted| wanted.any == WantedOption::new(target).any)
                });
            }
        }
    }

    /// The package file in the build folder `root`.
    pub fn package(&self, host: &dyn HostInfo, root: &HostPath) -> CmakePackage {
        let file = self.folder(root).join(&format!("{}-config.cmake", self.library));
        CmakePackage { file, text: self.text(host) }
    }

    /// The text of the package: a target `<library>::<name>` for each library, each with the complete link line.
    fn text(&self, host: &dyn HostInfo) -> String {
        let target = format!("gpubuild::{}", self.manifest.project);
        let mut text = link::cmake(&link::directives(&self.manifest, host.platform().os), &self.manifest);
        let interface = self.manifest.interface();
        let lists = [
            ("target_include_directories", &interface.includes),
            ("target_compile_definitions", &interface.defines),
        ];
        for (command, entries) in lists.iter().filter(|(_, entries)| !entries.is_empty()) {
            let entries: Vec<String> = entries
                .iter()
                .map(|entry| format!("\n  {}", cmake_bracket(&entry.replace('\\', "/"))))
                .collect();
            writeln!(text, "{command}({target} INTERFACE{})", entries.concat()).expect("writing to a string");
        }
        let files = self.manifest.trees.iter().flat_map(|tree| &tree.files);
        let mut names: Vec<&str> =
            files.map(|file| file.target.as_str()).chain([self.library.as_str()]).collect();
        names.sort_indirect();
        names.dedup();
        let library = &self.library;
        for name in names {
            writeln!(
                text,
                "if(NOT TARGET {library}::{name})\n  add_library({library}::{name} INTERFACE IMPORTED)\n  target_link_libraries({library}::{name} INTERFACE {target})\nendif()"
            )
            .expect("writing to a string");
        }
        writeln!(text, "set({library}_FOUND TRUE)").expect("writing to a string");
        text
    }

    /// A manifest without the libraries that the other project links.
    #[must_use]
    pub fn without(&self, mut manifest: Manifest) -> Manifest {
        manifest.remove_linked_by(&self.manifest.trees);
        manifest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifacts::LinkItem;
    use gpubuild_host::{Arch, Os, RecordedHost};

    const GGML: &str = r#"{"schema":1,"gpubuild":"0.1.0","project":"g","backends":["cpu"],"trees":[{"id":"cpu","backends":["cpu"],"key":"k","source":"/s","build":"/b","generator":"Ninja","cmake":"4","cache":{},"files":[{"target":"ggml","kind":"static","path":"/b/libggml.a","bytes":1,"sha256":"0"},{"target":"ggml-base","kind":"static","path":"/b/libggml-base.a","bytes":1,"sha256":"0"}],"link":[{"kind":"static","path":"/b/libggml-base.a"},{"kind":"system","name":"m"}],"compilers":{},"interface":{"includes":["/s/include"],"defines":["GGML_X=1"]}}]}"#;

    fn shared() -> (RecordedHost, Shared) {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).file("/m.json", GGML).build();
        let path = host.path("/m.json");
        let manifest = Manifest::read(&host, &path).unwrap();
        let shared = Shared { library: "ggml".into(), manifest, path };
        (host, shared)
    }

    #[test]
    fn package_has_a_target_for_each_library_and_its_usage_requirements() {
        let (host, shared) = shared();
        let text = shared.text(&host);
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
    fn libraries_that_another_crate_links_are_linked_once() {
        let (_, shared) = shared();
        let own = shared.without(shared.manifest.clone());
        assert_eq!(own.trees[0].link, [LinkItem::System { name: "m".into() }]);
    }

    #[test]
    fn libraries_with_structures_of_different_sizes_are_not_shared() {
        let project = |name: &str, defines: &str| {
            let folder = format!("/{name}");
            [
                (
                    format!("{folder}/gpubuild.toml"),
                    format!(
                        "schema = 1\n[project]\nname = \"{name}\"\nsource = \".\"\nprofile = \"{name}\"\n"
                    ),
                ),
                (format!("{folder}/CMakeLists.txt"), format!("project({name})\n{defines}")),
                (format!("{folder}/ggml/include/ggml.h"), "#define GGML_MAX_NAME 64\n".to_owned()),
            ]
        };
        let shared_library = |defines: &str| {
            let mut host = RecordedHost::builder(Os::Linux, Arch::X86_64);
            for (path, text) in project("llama", "").into_iter().chain(project("whisper", defines)) {
                let more = if path == "/whisper/gpubuild.toml" {
                    "[[with]]\nproject = \"../llama\"\nsame_symbols = \"shared\"\n"
                } else {
                    ""
                };
                host = host.file(&path, &(text + more));
            }
            let host = host.file("/llama/.gpubuild/llama/manifest.json", GGML).build();
            let project = crate::project::load(&host, &host.path("/whisper/gpubuild.toml")).unwrap();
            let request = BackendRequest {
                selection: BackendSelection::Auto,
                origin: "auto".into(),
                without: Vec::new(),
            };
            wanted(&host, &project, &request).map(|found| found[0].library.clone())
        };
        assert_eq!(shared_library("").unwrap(), "ggml");
        let reasons = shared_library("add_compile_definitions(GGML_MAX_NAME=128)\n").unwrap_err().project;
        assert_eq!(reasons[0].id, "symbols.not-shareable");
        assert!(reasons[0].text.contains("GGML_MAX_NAME is 128 and 64"), "{reasons:?}");
    }
}
