//! Resolves the requested backends, in this order: flag, `GPUBUILD_BACKENDS`, `GGML_*` variables, gpubuild.toml, `auto`.

use gpubuild_core::backend::{Backend, UnknownBackend};
use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::Environment;

use crate::project::profile::Profile;
use crate::project::{BackendList as FileRequest, ProjectTable};

/// The requested backends with the origin of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendRequest {
    /// The backends to build.
    pub selection: BackendSelection,
    /// The origin for messages: `--backends`, `GPUBUILD_BACKENDS=cuda`, `GGML_CUDA=1`, `gpubuild.toml`, `auto`.
    pub origin: String,
    /// Backends that `auto` and `all` exclude, with the variable that disables them: `GGML_METAL=0`.
    pub without: Vec<(Backend, String)>,
}

/// How backends are requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendSelection {
    /// `cpu` and all backends that are ready to build.
    Auto,
    /// Exactly these, in the order of [`Backend::ALL`].
    Named(Vec<Backend>),
}

impl BackendSelection {
    /// Parses `auto`, `all`, or ids separated by commas, semicolons or white space.
    ///
    /// # Errors
    /// The first unknown name, with the most similar backend.
    pub fn parse(text: &str) -> Result<Self, UnknownBackend> {
        let names: Vec<&str> = text.split([',', ';', ' ', '\t']).filter(|name| !name.is_empty()).collect();
        match names.as_slice() {
            [] | ["auto"] => Ok(Self::Auto),
            ["all"] => Ok(Self::Named(Backend::ALL.to_vec())),
            names => {
                let mut list = names.iter().map(|name| name.parse()).collect::<Result<Vec<Backend>, _>>()?;
                list.sort_indirect();
                list.dedup();
                Ok(Self::Named(list))
            }
        }
    }
}

/// Resolves the request from the flag, the environment and gpubuild.toml.
///
/// # Errors
/// The first unknown name and its origin.
pub fn resolve(
    flag: Option<&str>,
    env: &Environment,
    file: Option<&ProjectTable>,
) -> Result<BackendRequest, (String, UnknownBackend)> {
    if let Some(text) = flag {
        return from_text(text, "--backends");
    }
    if let Some(text) = env.get("GPUBUILD_BACKENDS") {
        return from_text(text, &format!("GPUBUILD_BACKENDS={text}"));
    }
    let (wanted, without) = backend_variables(env);
    if !wanted.is_empty() {
        let origin = wanted.iter().map(|(_, variable)| variable.as_str()).collect::<Vec<_>>().join(" ");
        let mut list: Vec<Backend> = wanted.into_iter().map(|(backend, _)| backend).collect();
        // These variables add backends to a CPU build.
        if !without.iter().any(|(backend, _)| *backend == Backend::Cpu) {
            list.push(Backend::Cpu);
        }
        list.sort_indirect();
        list.dedup();
        return Ok(BackendRequest { selection: BackendSelection::Named(list), origin, without });
    }
    let mut request = match file.and_then(|table| table.backends.as_ref()) {
        Some(FileRequest::Keyword(text)) => from_text(text, "gpubuild.toml")?,
        Some(FileRequest::List(list)) => from_text(&list.join(","), "gpubuild.toml")?,
        None => BackendRequest {
            selection: BackendSelection::Auto,
            origin: "auto".to_owned(),
            without: Vec::new(),
        },
    };
    if let BackendSelection::Named(list) = &mut request.selection {
        list.retain(|backend| !without.iter().any(|(left_out, _)| left_out == backend));
    }
    request.without = without;
    Ok(request)
}

fn from_text(text: &str, origin: &str) -> Result<BackendRequest, (String, UnknownBackend)> {
    let selection = BackendSelection::parse(text).map_err(|error| (origin.to_owned(), error))?;
    Ok(BackendRequest { selection, origin: origin.to_owned(), without: Vec::new() })
}

type BackendVariables = Vec<(Backend, String)>;

/// Backends that variables such as `GGML_CUDA=1` and `GGML_METAL=0` enable and disable, each with the variable's text.
fn backend_variables(env: &Environment) -> (BackendVariables, BackendVariables) {
    let (mut wanted, mut without) = (Vec::new(), Vec::new());
    let Some(profile) = Profile::builtin("ggml") else { return (wanted, without) };
    for (backend, row) in &profile.backends {
        for name in std::iter::once(&row.option).chain(&row.environment) {
            let Some(value) = env.get(name) else { continue };
            let variable = (*backend, format!("{name}={value}"));
            match value.to_ascii_lowercase().as_str() {
                "1" | "on" | "yes" | "true" | "y" => wanted.push(variable),
                "0" | "off" | "no" | "false" | "n" => without.push(variable),
                _ => {}
            }
        }
    }
    (wanted, without)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::source::Source;
    use gpubuild_host::Os;

    fn request(flag: Option<&str>, env: &[(&str, &str)], file: Option<FileRequest>) -> BackendRequest {
        let environment = Environment::new(Os::Linux, env.iter().copied());
        let table = file.map(|backends| ProjectTable {
            name: "x".into(),
            source: Source::Folder(".".into()),
            vendor: None,
            profile: "gk".into(),
            backends: Some(backends),
            extra: Vec::new(),
            native: false,
            targets: Vec::new(),
            patches: Vec::new(),
            copy: false,
            options: std::collections::BTreeMap::default(),
            linkage: None,
            headers: Vec::new(),
        });
        resolve(flag, &environment, table.as_ref()).unwrap()
    }

    #[test]
    fn request_with_highest_precedence_is_used_with_its_origin() {
        let env = [("GPUBUILD_BACKENDS", "vulkan"), ("GGML_CUDA", "1")];
        let file = || Some(FileRequest::Keyword("all".into()));
        assert_eq!(request(Some("cpu"), &env, file()).origin, "--backends");
        assert_eq!(request(None, &env, file()).origin, "GPUBUILD_BACKENDS=vulkan");
        let ggml = request(None, &env[1..], file());
        assert_eq!(
            (ggml.origin.as_str(), ggml.selection),
            ("GGML_CUDA=1", BackendSelection::Named(vec![Backend::Cpu, Backend::Cuda]))
        );
        assert_eq!(request(None, &[], file()).selection, BackendSelection::Named(Backend::ALL.to_vec()));
        assert_eq!(request(None, &[], None).selection, BackendSelection::Auto);
    }

    #[test]
    fn variable_with_zero_excludes_a_backend() {
        let request = request(None, &[("GGML_METAL", "0"), ("GGML_HIPBLAS", "OFF")], None);
        assert_eq!(request.selection, BackendSelection::Auto);
        assert_eq!(
            request.without.iter().map(|(b, _)| *b).collect::<Vec<_>>(),
            [Backend::Rocm, Backend::Metal]
        );
    }

    #[test]
    fn list_separators_are_lenient_and_names_are_strict() {
        assert_eq!(
            BackendSelection::parse("vulkan, cpu;hip cpu"),
            Ok(BackendSelection::Named(vec![Backend::Cpu, Backend::Rocm, Backend::Vulkan]))
        );
        assert_eq!(BackendSelection::parse(""), Ok(BackendSelection::Auto));
        assert_eq!(BackendSelection::parse("cpu,vulcan").unwrap_err().nearest, Some(Backend::Vulkan));
    }
}
