//! What was asked for and by whom: flag > `GPUBUILD_BACKENDS` > `GGML_*` > gpubuild.toml > auto.

use gpubuild_core::backend::{Backend, UnknownBackend};
use gpubuild_host::Environment;

use crate::project::profile::Profile;
use crate::project::{BackendWord as FileRequest, ProjectTable};

/// Backends to build, and where that wish came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendRequest {
    /// What to build.
    pub selection: BackendSelection,
    /// Where it came from, for people: `--backends`, `GPUBUILD_BACKENDS=cuda`, `GGML_CUDA=1`, `gpubuild.toml`, `auto`.
    pub origin: String,
    /// Backends that `auto` and `all` leave out, with the variable that said so: `GGML_METAL=0`.
    pub without: Vec<(Backend, String)>,
}

/// Kinds of wishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendSelection {
    /// `cpu` and all whose build state is ready.
    Auto,
    /// Exactly these, in the order of [`Backend::ALL`].
    Named(Vec<Backend>),
}

impl BackendSelection {
    /// Reads `auto`, `all` or ids separated by commas, semicolons or white space.
    ///
    /// # Errors
    /// The first word that is no backend, with the nearest name.
    pub fn parse(text: &str) -> Result<Self, UnknownBackend> {
        let words: Vec<&str> = text.split([',', ';', ' ', '\t']).filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            [] | ["auto"] => Ok(Self::Auto),
            ["all"] => Ok(Self::Named(Backend::ALL.to_vec())),
            words => {
                let mut list = words.iter().map(|word| word.parse()).collect::<Result<Vec<Backend>, _>>()?;
                list.sort();
                list.dedup();
                Ok(Self::Named(list))
            }
        }
    }
}

/// Settles what was asked for.
///
/// # Errors
/// The first word, wherever it stands, that is no backend.
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
    let (wanted, without) = ecosystem_words(env);
    if !wanted.is_empty() {
        let origin = wanted.iter().map(|(_, word)| word.as_str()).collect::<Vec<_>>().join(" ");
        let mut list: Vec<Backend> = wanted.into_iter().map(|(backend, _)| backend).collect();
        // These variables add to a CPU build, they do not replace it.
        if !without.iter().any(|(backend, _)| *backend == Backend::Cpu) {
            list.push(Backend::Cpu);
        }
        list.sort();
        list.dedup();
        return Ok(BackendRequest { selection: BackendSelection::Named(list), origin, without });
    }
    let mut request = match file.and_then(|table| table.backends.as_ref()) {
        Some(FileRequest::Word(text)) => from_text(text, "gpubuild.toml")?,
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

type BackendWords = Vec<(Backend, String)>;

/// `GGML_CUDA=1`, `GGML_METAL=0` and their like, as wishes for and against.
fn ecosystem_words(env: &Environment) -> (BackendWords, BackendWords) {
    let (mut wanted, mut without) = (Vec::new(), Vec::new());
    let Some(profile) = Profile::builtin("ggml") else { return (wanted, without) };
    for (backend, row) in &profile.backends {
        for name in std::iter::once(&row.option).chain(&row.environment) {
            let Some(value) = env.get(name) else { continue };
            let word = (*backend, format!("{name}={value}"));
            match value.to_ascii_lowercase().as_str() {
                "1" | "on" | "yes" | "true" | "y" => wanted.push(word),
                "0" | "off" | "no" | "false" | "n" => without.push(word),
                _ => {}
            }
        }
    }
    (wanted, without)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::Os;

    fn ask(flag: Option<&str>, env: &[(&str, &str)], file: Option<FileRequest>) -> BackendRequest {
        let environment = Environment::new(Os::Linux, env.iter().copied());
        let table = file.map(|backends| ProjectTable {
            name: "x".into(),
            source: ".".into(),
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
    fn the_nearest_wish_wins_and_its_origin_is_kept() {
        let env = [("GPUBUILD_BACKENDS", "vulkan"), ("GGML_CUDA", "1")];
        let file = || Some(FileRequest::Word("all".into()));
        assert_eq!(ask(Some("cpu"), &env, file()).origin, "--backends");
        assert_eq!(ask(None, &env, file()).origin, "GPUBUILD_BACKENDS=vulkan");
        let ggml = ask(None, &env[1..], file());
        assert_eq!(
            (ggml.origin.as_str(), ggml.selection),
            ("GGML_CUDA=1", BackendSelection::Named(vec![Backend::Cpu, Backend::Cuda]))
        );
        assert_eq!(ask(None, &[], file()).selection, BackendSelection::Named(Backend::ALL.to_vec()));
        assert_eq!(ask(None, &[], None).selection, BackendSelection::Auto);
    }

    #[test]
    fn a_zero_takes_a_backend_out() {
        let request = ask(None, &[("GGML_METAL", "0"), ("GGML_HIPBLAS", "OFF")], None);
        assert_eq!(request.selection, BackendSelection::Auto);
        assert_eq!(
            request.without.iter().map(|(b, _)| *b).collect::<Vec<_>>(),
            [Backend::Rocm, Backend::Metal]
        );
    }

    #[test]
    fn lists_are_forgiving_and_names_are_not() {
        assert_eq!(
            BackendSelection::parse("vulkan, cpu;hip cpu"),
            Ok(BackendSelection::Named(vec![Backend::Cpu, Backend::Rocm, Backend::Vulkan]))
        );
        assert_eq!(BackendSelection::parse(""), Ok(BackendSelection::Auto));
        assert_eq!(BackendSelection::parse("cpu,vulcan").unwrap_err().nearest, Some(Backend::Vulkan));
    }
}
