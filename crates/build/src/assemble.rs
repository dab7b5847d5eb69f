//! The project of a crate: the file, if there is one, and what the build script says on top; and what is asked for.

use std::collections::BTreeSet;

use gpubuild_core::backend::Backend;
use gpubuild_host::Host;
use gpubuild_plan::plan::request::{self, Request};
use gpubuild_plan::project::features::Features;
use gpubuild_plan::project::profile::{Profile, Wanted};
use gpubuild_plan::project::{self, Project, ProjectError, ProjectFile};

use super::cargo::Crate;
use super::script::Script;
use super::{Build, ScriptError};

/// Whether there has to be a CMake project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Needed,
    NotNeeded,
}

impl Build {
    /// The project: the file, if there is one, and what the script says on top.
    pub(super) fn assemble(
        &self,
        host: &dyn Host,
        krate: &Crate,
        script: &mut Script,
        source: Source,
    ) -> Result<Project, ScriptError> {
        let folder =
            self.project.as_ref().map_or_else(|| krate.folder.clone(), |folder| krate.folder.join(folder));
        let path = folder.normalized().join(project::FILE_NAME);
        let is_there = host.is_file(&path);
        let mut file = if is_there {
            script.watch(path.as_str());
            let text = host.read_text(&path).map_err(|error| ProjectError::Unreadable {
                path: path.to_string(),
                message: error.to_string(),
            })?;
            project::parse(path.as_str(), &text)?.0
        } else if self.project.is_none() && (self.source.is_some() || source == Source::NotNeeded) {
            bare(krate)?
        } else {
            return Err(ProjectError::NotFound { start: folder.to_string() }.into());
        };
        let table = &mut file.project;
        if let Some(folder) = &self.source {
            table.source = krate.folder.join(folder).normalized().to_string();
        }
        if let Some(folder) = self.source_variable.as_ref().and_then(|name| host.env().get(name)) {
            folder.clone_into(&mut table.source);
        }
        table.profile = self.profile.clone().unwrap_or_else(|| table.profile.clone());
        table.targets.extend(self.targets.iter().map(|target| Wanted::new(target)));
        table.options.extend(self.options.clone());
        for (name, value) in krate.options() {
            table.options.entry(name).or_insert(value);
        }
        let Some(profile) = Profile::builtin(&table.profile) else {
            return Err(ProjectError::UnknownProfile {
                path: path.to_string(),
                name: table.profile.clone(),
                known: Profile::names().map(str::to_owned).collect(),
            }
            .into());
        };
        if source == Source::NotNeeded && !is_there {
            // A crate that compiles its own sources names backends by its features alone.
            let mut known = self.named_here();
            known.extend(krate.enabled.iter().copied());
            if self.backends.is_none() && krate.declared.is_empty() {
                known.extend(Backend::ALL);
            }
            for backend in known {
                file.backends.entry(backend).or_default();
            }
            return Ok(Project {
                with: Vec::new(),
                source: krate.folder.clone(),
                root: krate.folder.clone(),
                build_root: krate.out.clone(),
                file,
                profile,
                known: BTreeSet::new(),
                without_kernels: BTreeSet::new(),
                features: Features::default(),
            });
        }
        Ok(project::assemble(host, &path, file, profile)?)
    }

    /// What `gpubuild.toml` calls the project, else the name of the crate.
    pub(super) fn project_name(&self, host: &dyn Host, krate: &Crate) -> String {
        let folder =
            self.project.as_ref().map_or_else(|| krate.folder.clone(), |folder| krate.folder.join(folder));
        let path = folder.normalized().join(project::FILE_NAME);
        let file = host.read_text(&path).ok().and_then(|text| project::parse(path.as_str(), &text).ok());
        file.map_or_else(|| krate.name.clone(), |(file, _)| file.project.name)
    }

    /// The backends that the script names, as far as they are any.
    fn named_here(&self) -> Vec<Backend> {
        self.backends.iter().flatten().filter_map(|name| name.parse().ok()).collect()
    }

    /// What to build: `GPUBUILD_BACKENDS` and its like, then the script, the features, the file.
    pub(super) fn request(
        &self,
        host: &dyn Host,
        krate: &Crate,
        project: &mut Project,
    ) -> Result<Request, ScriptError> {
        let table = &mut project.file.project;
        let mut origin = None;
        if let Some(list) = &self.backends {
            table.backends = Some(project::Request::Word(list.join(",")));
            origin = Some("the build script".to_owned());
        } else if let Some(list) = krate.backends() {
            table.backends =
                Some(project::Request::List(list.iter().map(|backend| backend.id().to_owned()).collect()));
            let ids: Vec<&str> = krate.enabled.iter().map(|backend| backend.id()).collect();
            origin = Some(match ids.as_slice() {
                [] => "Cargo.toml".to_owned(),
                ids => format!("`--features {}`", ids.join(",")),
            });
        }
        let mut request = request::resolve(None, host.env(), Some(&*table))
            .map_err(|(from, error)| ScriptError::Backend { origin: from, message: error.to_string() })?;
        if let (Some(origin), project::FILE_NAME) = (origin, request.origin.as_str()) {
            request.origin = origin;
        }
        Ok(request)
    }
}

/// What `gpubuild.toml` would say where there is none.
fn bare(krate: &Crate) -> Result<ProjectFile, ProjectError> {
    let plain: String =
        krate.name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect();
    let name = if plain.is_empty() { "native" } else { &plain };
    let text = format!("schema = 1\n[project]\nname = \"{name}\"\nsource = \".\"\n");
    project::parse("build.rs", &text).map(|(file, _)| file)
}
