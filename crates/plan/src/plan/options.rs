//! Translates options of gpubuild.toml to the names that the project's version uses. Options that were removed are refused,
//! or dropped with a note.

use std::collections::BTreeMap;

use gpubuild_core::backend::edit_distance;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;

use crate::project::Project;
use crate::project::profile::Profile;

/// Returns the project with all options under their current names.
///
/// # Errors
/// A reason for each option that was removed or that contradicts the requested backends.
pub(super) fn normalized(project: &Project, notes: &mut Vec<String>) -> Result<Project, Vec<Reason>> {
    let mut normalized = project.clone();
    let mut reasons = Vec::new();
    let mut normalize = |entries: &BTreeMap<String, String>, of: Option<&str>| {
        let mut kept = BTreeMap::new();
        for (name, value) in entries {
            match translate(project, name, value, of) {
                Ok(Some((new, note))) => {
                    notes.extend(note);
                    // The entry with the current name has precedence.
                    if new == *name || !entries.contains_key(&new) {
                        kept.insert(new, value.clone());
                    }
                }
                Ok(None) => {
                    if let Some(gone) = project.profile.removed.get(name) {
                        notes.push(format!("option {name} is ignored: {}", gone.say));
                    }
                }
                Err(reason) => reasons.push(*reason),
            }
        }
        kept
    };
    normalized.file.project.options = normalize(&project.file.project.options, None);
    for (backend, table) in &project.file.backends {
        if let Some(normalized) = normalized.file.backends.get_mut(backend) {
            normalized.options = normalize(&table.options, Some(backend.id()));
        }
    }
    if reasons.is_empty() { Ok(normalized) } else { Err(reasons) }
}

type Translated = Option<(String, Option<String>)>;

/// The current name of an option, with a note if it differs; `None` if the option can be dropped.
fn translate(
    project: &Project,
    name: &str,
    value: &str,
    of: Option<&str>,
) -> Result<Translated, Box<Reason>> {
    let profile = &project.profile;
    // Keep the old name if this version of the project declares it.
    let is_known = project.known.contains(name);
    if let Some(gone) = profile.removed.get(name).filter(|_| !is_known) {
        if gone.harmless || is_off(value) {
            return Ok(None);
        }
        return Err(Box::new(
            Reason::new(
                id!("project.option-removed"),
                format!("{} no longer has the option `{name}`", profile.name),
            )
            .hint(gone.say.clone()),
        ));
    }
    let renamed = profile.renamed.get(name).filter(|_| !is_known);
    let current = renamed.map_or(name, String::as_str);
    if let Some(id) = profile.switched_by(current) {
        return switch(project, (name, current), value, id, of).map(|()| None);
    }
    let note = renamed.map(|new| format!("option {name} is named {new} in this version of {}", profile.name));
    Ok(Some((current.to_owned(), note)))
}

fn is_off(value: &str) -> bool {
    ["0", "off", "no", "false", "n", ""].contains(&value.to_ascii_lowercase().as_str())
}

/// Checks an option that switches a backend, which is up to the plan: accepts a redundant option, and refuses one that
/// contradicts the plan.
fn switch(
    project: &Project,
    (written, name): (&str, &str),
    value: &str,
    id: &str,
    of: Option<&str>,
) -> Result<(), Box<Reason>> {
    let wanted = !is_off(value);
    let is_extra = project.profile.extra.contains_key(id);
    let agrees = match of {
        Some(of) => of == id && wanted,
        None => is_extra && project.file.project.extra.iter().any(|extra| extra == id) == wanted,
    };
    if agrees {
        return Ok(());
    }
    let key = if is_extra { "extra" } else { "backends" };
    let alias = if written == name { String::new() } else { format!(" (now `{name}`)") };
    let hint = match (wanted, is_extra) {
        (true, true) => format!("write `extra = [\"{id}\"]` under `[project]` instead"),
        (true, false) => format!("write `backends = [\"cpu\", \"{id}\"]` under `[project]` instead"),
        (false, _) => format!("leave {id} out of `{key}` under `[project]` instead"),
    };
    Err(Box::new(
        Reason::new(
            id!("project.option-is-backend"),
            format!("the option `{written} = \"{value}\"`{alias} switches {id}, which `{key}` decides"),
        )
        .hint(hint),
    ))
}

/// The known name most similar to an unknown one, if any is similar enough.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // `LLAMA_FOO` and `GGML_FOO` differ only in the project's prefix.
    let without_prefix = |name: &str| name.split_once('_').map_or(name, |(_, rest)| rest).to_owned();
    let own = without_prefix(name);
    known
        .map(|other| {
            let distance = if without_prefix(other) == own { 1 } else { edit_distance(name, other) };
            (distance, other)
        })
        .filter(|(distance, _)| *distance <= (name.len() / 4).max(1))
        .min()
        .map(|(_, other)| other)
}

/// Whether the project's CMake scripts declare a backend's option; `None` if they declare none of the profile's options,
/// so that the scripts give no answer.
pub(super) fn declares(profile: &Profile, project: &Project, option: &str) -> Option<bool> {
    let rows = profile.backends.values().map(|row| &row.option);
    let any = rows.chain(profile.extra.values().map(|extra| &extra.option));
    any.into_iter().any(|name| project.known.contains(name)).then(|| project.known.contains(option))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project;
    use gpubuild_host::{HostPath, PathRules};

    fn project(profile: &str, options: &str, known: &[&str]) -> Project {
        let text = format!(
            "schema = 1\n[project]\nname = \"x\"\nsource = \".\"\nprofile = \"{profile}\"\n{options}"
        );
        let (file, profile) = project::parse("gpubuild.toml", &text).unwrap();
        let path = |text: &str| HostPath::new(PathRules::Unix, text);
        Project {
            with: Vec::new(),
            root: path("/p"),
            file,
            profile,
            source: path("/p"),
            known: known.iter().map(|name| (*name).to_owned()).collect(),
            without_kernels: std::collections::BTreeSet::new(),
            packages: BTreeMap::new(),
            built_with: Vec::new(),
            build_root: path("/p/target"),
            features: crate::project::features::Features::default(),
        }
    }

    type Normalized = Result<BTreeMap<String, String>, Vec<String>>;

    fn normalize(project: &Project) -> (Normalized, Vec<String>) {
        let mut notes = Vec::new();
        let normalized = normalized(project, &mut notes);
        let lines = |reasons: Vec<Reason>| {
            reasons.iter().map(|r| format!("{} {}", r.id, r.hint.clone().unwrap_or_default())).collect()
        };
        (normalized.map(|project| project.file.project.options).map_err(lines), notes)
    }

    #[test]
    fn former_names_are_translated_unless_the_project_declares_them() {
        let text = "options = { LLAMA_AVX2 = \"OFF\", LLAMA_CUDA_F16 = \"ON\" }\n";
        let (options, notes) = normalize(&project("llama", text, &["GGML_AVX2"]));
        assert_eq!(options.unwrap()["GGML_AVX2"], "OFF");
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("LLAMA_AVX2 is named GGML_AVX2"), "{notes:?}");
        let (options, notes) = normalize(&project("llama", text, &["LLAMA_AVX2", "LLAMA_CUDA_F16"]));
        assert_eq!(options.unwrap().len(), 2);
        assert_eq!(notes, Vec::<String>::new());
    }

    #[test]
    fn removed_options_are_refused_with_their_replacement() {
        let (options, _) = normalize(&project("whisper", "options = { WHISPER_CLBLAST = \"ON\" }\n", &[]));
        let reasons = options.unwrap_err();
        assert!(
            reasons[0].starts_with("project.option-removed") && reasons[0].contains("`vulkan`"),
            "{reasons:?}"
        );
        let (options, _) = normalize(&project("whisper", "options = { WHISPER_CLBLAST = \"OFF\" }\n", &[]));
        assert!(options.unwrap().is_empty());
    }

    #[test]
    fn options_that_contradict_the_plan_are_refused() {
        for (text, hint) in [
            ("options = { LLAMA_CUBLAS = \"ON\" }\n", "`backends = [\"cpu\", \"cuda\"]`"),
            ("options = { GGML_METAL = \"OFF\" }\n", "leave metal out"),
            ("options = { GGML_RPC = \"ON\" }\n", "`extra = [\"rpc\"]`"),
            ("[backends.cuda]\noptions = { GGML_VULKAN = \"ON\" }\n", "vulkan"),
        ] {
            let (options, _) = normalize(&project("llama", text, &[]));
            let reasons = options.unwrap_err();
            assert!(
                reasons[0].starts_with("project.option-is-backend") && reasons[0].contains(hint),
                "{reasons:?}"
            );
        }
        let agreed = "extra = [\"rpc\"]\noptions = { LLAMA_RPC = \"1\" }\n[backends.cuda]\noptions = { GGML_CUDA = \"ON\" }\n";
        let (options, _) = normalize(&project("llama", agreed, &[]));
        assert_eq!(options.unwrap(), BTreeMap::new());
    }

    #[test]
    fn similar_names_are_found() {
        let known = ["GGML_VULKAN", "GGML_AVX2", "LLAMA_BUILD_TESTS"];
        assert_eq!(nearest("LLAMA_VULKAN", known.into_iter()), Some("GGML_VULKAN"));
        assert_eq!(nearest("GGML_VULCAN", known.into_iter()), Some("GGML_VULKAN"));
        assert_eq!(nearest("SOMETHING_ELSE", known.into_iter()), None);
    }
}
