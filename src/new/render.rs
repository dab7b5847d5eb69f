//! Fills in the placeholders of templates. No I/O.
//!
//! | placeholder | for `my-lib` |
//! |---|---|
//! | `@name@` | `my-lib` |
//! | `@ident@` | `my_lib` |
//! | `@NAME@` | `MY_LIB` |
//! | `@backends@` | `"auto"`, or `["cpu", "vulkan"]` |
//! | `@variants@` | a `[[variants]]` table for each backend |
//! | `@variant@` | empty, or one `[[variants]]` table with all backends, for crates whose features select them |
//! | `@features@` | empty, or `"vulkan"`: the backends except `cpu` |
//! | `@gpubuild-build@` | the dependency on `gpubuild-build` |
//! | `@gpubuild-link@` | the dependency on `gpubuild-link` |
//! | `@commands@` | the commands of the template with descriptions |

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_plan::plan::request::BackendSelection;

use super::NewError;
use super::template::Template;

/// The values for the placeholders of a template.
#[derive(Debug, Clone)]
pub struct RenderRequest<'a> {
    /// The template.
    pub template: &'a Template,
    /// The name of the crate, already validated with [`super::name::check`].
    pub name: &'a str,
    /// The backends of the project.
    pub backends: BackendSelection,
    /// The source of the gpubuild crates.
    pub gpubuild: CrateDependency,
}

/// The source of the gpubuild crates that a project depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CrateDependency {
    /// The crates registry, in the version of this program.
    Published,
    /// The folder of a gpubuild checkout.
    Folder(String),
}

/// A file of the new project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// The path in the project, separated by `/`.
    pub path: String,
    /// The content of the file.
    pub text: String,
}

impl RenderRequest<'_> {
    /// Checks that the template supports the backends.
    ///
    /// # Errors
    /// [`NewError::Backend`].
    pub fn check(&self) -> Result<(), NewError> {
        let BackendSelection::Named(list) = &self.backends else { return Ok(()) };
        let known = &self.template.about.backends;
        match list.iter().find(|backend| !known.contains(backend)) {
            None => Ok(()),
            Some(backend) => Err(NewError::Backend {
                template: self.template.id.to_owned(),
                backend: *backend,
                known: known.clone(),
            }),
        }
    }

    /// Fills in all placeholders of a text.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let ident = self.name.replace('-', "_");
        text.replace("@name@", self.name)
            .replace("@NAME@", &ident.to_ascii_uppercase())
            .replace("@ident@", &ident)
            .replace("@backends@", &self.backends_value())
            .replace("@variants@\n", &self.variants())
            .replace("@variant@\n", &self.variant())
            .replace("@features@", &self.features())
            .replace("@gpubuild-build@", &self.gpubuild.dependency("build"))
            .replace("@gpubuild-link@", &self.gpubuild.dependency("link"))
            .replace("@commands@", &self.commands())
    }

    fn backends_value(&self) -> String {
        match &self.backends {
            BackendSelection::Auto => "\"auto\"".to_owned(),
            BackendSelection::Named(list) => format!("[{}]", strings(list.iter())),
        }
    }

    /// The variants that CI builds: one per backend, each with `cpu`.
    fn variants(&self) -> String {
        let is_wanted = |backend: &&Backend| match &self.backends {
            BackendSelection::Auto => true,
            BackendSelection::Named(list) => list.contains(backend),
        };
        let table = |backend: &Backend| {
            let gpu = if *backend == Backend::Cpu { vec![] } else { vec![*backend] };
            let list = strings([Backend::Cpu].iter().chain(&gpu));
            format!("\n[[variants]]\nname = \"{}\"\nbackends = [{list}]\n", backend.id())
        };
        self.template.about.backends.iter().filter(is_wanted).map(table).collect()
    }

    /// The single variant that CI builds if the default features of the crate select the backends.
    fn variant(&self) -> String {
        match &self.backends {
            BackendSelection::Auto => String::new(),
            BackendSelection::Named(list) => {
                let gpus = list.iter().filter(|backend| **backend != Backend::Cpu);
                let list = strings([Backend::Cpu].iter().chain(gpus));
                format!("\n[[variants]]\nname = \"default\"\nbackends = [{list}]\n")
            }
        }
    }

    fn features(&self) -> String {
        match &self.backends {
            BackendSelection::Auto => String::new(),
            BackendSelection::Named(list) => strings(list.iter().filter(|backend| **backend != Backend::Cpu)),
        }
    }

    fn commands(&self) -> String {
        let commands = &self.template.about.command;
        let width = commands.iter().map(|command| command.run.len()).max().unwrap_or_default();
        let line = |command: &super::template::TemplateCommand| {
            format!("{:width$}    # {}", command.run, command.what)
        };
        commands.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

fn strings<'a>(list: impl Iterator<Item = &'a Backend>) -> String {
    list.map(|backend| format!("\"{}\"", backend.id())).collect::<Vec<_>>().join(", ")
}

impl CrateDependency {
    /// The value of `gpubuild-build =` or `gpubuild-link =` in a Cargo.toml.
    #[must_use]
    pub fn dependency(&self, part: &str) -> String {
        let version = release();
        match self {
            Self::Published => format!("\"{version}\""),
            Self::Folder(path) => {
                let path = toml_edit::Value::from(format!("{path}/crates/{part}"));
                format!("{{ path = {path}, version = \"{version}\" }}")
            }
        }
    }
}

/// The semver-compatible part of gpubuild's version: `0.1` of `0.1.0`, `1` of `1.2.3`.
fn release() -> &'static str {
    let version = env!("CARGO_PKG_VERSION");
    let mut dots = version.match_indices('.').map(|(at, _)| at);
    let end = if version.starts_with("0.") { dots.nth(1) } else { dots.next() };
    &version[..end.unwrap_or(version.len())]
}

/// Renders all files of the template, sorted by path.
#[must_use]
pub fn files(request: &RenderRequest<'_>) -> Vec<RenderedFile> {
    let names = &request.template.about.names;
    let file = |(name, text): &(&str, &str)| RenderedFile {
        path: request.fill(names.get(*name).map_or(*name, String::as_str)),
        text: request.fill(text),
    };
    let mut files: Vec<RenderedFile> = request.template.files.iter().map(file).collect();
    files.sort_indirect_by(|one, other| one.path.cmp(&other.path));
    files
}
