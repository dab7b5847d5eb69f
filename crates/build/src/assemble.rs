//! Combines a crate's `gpubuild.toml`, if it has one, with the settings of the build script, and determines the requested backends.

use std::collections::BTreeSet;

use gpubuild_core::backend::Backend;
use gpubuild_host::{HostInfo, ReadFiles};
use gpubuild_plan::plan::request::{self, BackendRequest};
use gpubuild_plan::project::features::Features;
use gpubuild_plan::project::profile::{Profile, WantedOption};
use gpubuild_plan::project::source::Source;
use gpubuild_plan::project::source::lock::LOCK_NAME;
use gpubuild_plan::project::{self, Project, ProjectError, ProjectFile};

use super::cargo::BuildingCrate;
use super::script::ScriptEnvironment;
use super::{Build, ScriptError};

/// Whether the sources must contain a CMake project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderSource {
    Needed,
    NotNeeded,
}

impl Build {
    /// The project file, if there is one, with the script's settings on top.
    pub(super) fn assemble(
        &self,
        host: &dyn ReadFiles,
        krate: &BuildingCrate,
        script: &mut ScriptEnvironment,
        source: HeaderSource,
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
        } else if self.project.is_none() && (self.source.is_some() || source == HeaderSource::NotNeeded) {
            bare(krate)?
        } else {
            return Err(ProjectError::NotFound { start: folder.to_string() }.into());
        };
        let table = &mut file.project;
        if let Some(folder) = &self.source {
            table.source = Source::Folder(krate.folder.join(folder).normalized().to_string());
        }
        if let Some(folder) = self.source_variable.as_ref().and_then(|name| host.env().get(name)) {
            table.source = Source::Folder(folder.to_owned());
        }
        table.profile = self.profile.clone().unwrap_or_else(|| table.profile.clone());
        table.targets.extend(self.targets.iter().map(|target| WantedOption::new(target)));
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
        if source == HeaderSource::NotNeeded && !is_there {
            // The build script or the features name the backends of a crate that compiles its sources itself.
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
                packages: std::collections::BTreeMap::new(),
                built_with: Vec::new(),
                features: Features::default(),
            });
        }
        if matches!(file.project.source, Source::Fetched(_)) {
            script.watch(folder.normalized().join(LOCK_NAME).as_str());
        }
        Ok(project::assemble(host, &path, file, profile)?)
    }

    /// The project's name in `gpubuild.toml`, or else the crate's name.
    pub(super) fn project_name(&self, host: &dyn ReadFiles, krate: &BuildingCrate) -> String {
        let folder =
            self.project.as_ref().map_or_else(|| krate.folder.clone(), |folder| krate.folder.join(folder));
        let path = folder.normalized().join(project::FILE_NAME);
        let file = host.read_text(&path).ok().and_then(|text| project::parse(path.as_str(), &text).ok());
        file.map_or_else(|| krate.name.clone(), |(file, _)| file.project.name)
    }

    /// The backends that the script names; `auto` and unknown words are skipped.
    fn named_here(&self) -> Vec<Backend> {
        self.backends.iter().flatten().filter_map(|name| name.parse().ok()).collect()
    }

    /// The backends to build, in the order `GPUBUILD_BACKENDS` and similar variables, the script, the features, `gpubuild.toml`.
    pub(super) fn request(
        &self,
        host: &dyn HostInfo,
        krate: &BuildingCrate,
        project: &mut Project,
    ) -> Result<BackendRequest, ScriptError> {
        let table = &mut project.file.project;
        let mut origin = None;
        if let Some(list) = &self.backends {
            table.backends = Some(project::BackendList::Keyword(list.join(",")));
            origin = Some("the build script".to_owned());
        } else if let Some(list) = krate.backends() {
            table.backends = Some(project::BackendList::List(
                list.iter().map(|backend| backend.id().to_owned()).collect(),
            ));
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

/// The project of a crate without a `gpubuild.toml`.
fn bare(krate: &BuildingCrate) -> Result<ProjectFile, ProjectError> {
    let plain: String =
        krate.name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect();
    let name = if plain.is_empty() { "native" } else { &plain };
    let text = format!("schema = 1\n[project]\nname = \"{name}\"\nsource = \".\"\n");
    project::parse("build.rs", &text).map(|(file, _)| file)
}
