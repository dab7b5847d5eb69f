//! Plans extra backends, those of a project that gpubuild has no toolkit for: `[project] extra = ["rpc"]`.

use gpubuild_core::backend::{Backend, edit_distance};
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use serde::Serialize;

use super::make::PlanInputs;
use super::options::declares;

/// An extra backend in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedExtra {
    /// Its id in the profile.
    pub id: String,
    /// What must be installed, one line each. gpubuild does not check it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What a program links in addition to the project's libraries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<String>,
    /// What the build downloads for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// A note for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Plans the extra backends of the project.
///
/// # Errors
/// A reason for each extra backend that is unknown, was removed, does not support this platform, conflicts with a planned
/// backend, or needs a path that is not set.
pub(super) fn planned(
    inputs: &PlanInputs<'_>,
    backends: &[Backend],
) -> Result<Vec<PlannedExtra>, Vec<Reason>> {
    let mut planned: Vec<PlannedExtra> = Vec::new();
    let mut reasons = Vec::new();
    for id in &inputs.project.file.project.extra {
        if planned.iter().any(|known| known.id == *id) {
            continue;
        }
        match one(inputs, id, backends) {
            Ok(extra) => planned.push(extra),
            Err(reason) => reasons.push(*reason),
        }
    }
    if reasons.is_empty() { Ok(planned) } else { Err(reasons) }
}

fn one(inputs: &PlanInputs<'_>, id: &str, backends: &[Backend]) -> Result<PlannedExtra, Box<Reason>> {
    let profile = &inputs.project.profile;
    let refused = |reason: DiagnosticId, text: String, hint: Option<String>| {
        Box::new(Reason { hint, ..Reason::new(reason, text) })
    };
    let Some(row) = profile.extra.get(id) else { return Err(Box::new(unknown(inputs, id))) };
    let declared = declares(profile, inputs.project, &row.option);
    if let Some(removed) = row.removed.as_ref().filter(|_| declared != Some(true)) {
        let text = format!("{} no longer has the backend `{id}`", profile.name);
        return Err(refused(id!("project.backend-missing"), text, Some(removed.clone())));
    }
    if declared == Some(false) {
        let text = format!("this version of {} has no option `{}`", profile.name, row.option);
        let hint = Some(format!("use a version that has the backend `{id}`, or remove it from `extra`"));
        return Err(refused(id!("project.backend-missing"), text, hint));
    }
    let platform = inputs.facts.platform;
    let (os, processor) = (platform.os.id(), platform.arch.id());
    let wrong = |list: &[String], here: &str| !list.is_empty() && !list.iter().any(|name| name == here);
    if wrong(&row.os, os) || wrong(&row.processors, processor) {
        let text = format!(
            "the backend `{id}` of {} supports {}, but this is {os} on {}",
            profile.name,
            [row.os.join(", "), row.processors.join(", ")].join(" ").trim(),
            processor
        );
        return Err(refused(
            id!("project.backend-elsewhere"),
            text,
            Some("remove it from `extra`".to_owned()),
        ));
    }
    let clash = backends
        .iter()
        .map(|backend| backend.id())
        .find(|backend| row.conflicts.iter().any(|other| other == backend));
    if let Some(backend) = clash {
        let text = format!(
            "{id} and {backend} cannot be linked into one program: both compile {}'s sources",
            profile.name
        );
        return Err(refused(id!("plan.backends-conflict"), text, Some("build them separately".to_owned())));
    }
    let options = &inputs.project.file.project.options;
    let is_set = |name: &String| inputs.env.get(name).is_some() || options.contains_key(name);
    let unset = row.needs.iter().find(|need| !need.set.is_empty() && !need.set.iter().any(is_set));
    if let Some(need) = unset {
        let names = need.set.join(" or ");
        let missing = match need.set.as_slice() {
            [name] => format!("{name} is not set"),
            names => format!("none of {} is set", names.join(", ")),
        };
        let text = format!("the backend `{id}` needs {}, but {missing}", need.what);
        let hint = Some(format!("set {names} in the environment or under `options`"));
        return Err(refused(id!("project.backend-untold"), text, hint));
    }
    Ok(PlannedExtra {
        id: id.to_owned(),
        needs: row.needs.iter().map(crate::project::profile::ExtraNeed::line).collect(),
        link: row.link.clone(),
        network: row.network.clone().filter(|_| !row.network_unless.iter().any(is_set)),
        note: row.note.clone(),
    })
}

fn unknown(inputs: &PlanInputs<'_>, id: &str) -> Reason {
    let profile = &inputs.project.profile;
    let hint = if Backend::ALL.iter().any(|backend| backend.id() == id) {
        format!("`{id}` is a built-in backend: add it to `backends`")
    } else {
        let known: Vec<&str> = profile.extra.keys().map(String::as_str).collect();
        match known
            .iter()
            .min_by_key(|other| edit_distance(other, id))
            .filter(|other| edit_distance(other, id) < 3)
        {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => {
                "this profile defines no extra backends; enable it under `options`".to_owned()
            }
            None => format!("known backends: {}", known.join(", ")),
        }
    };
    Reason::new(id!("project.backend-unknown"), format!("{} has no backend `{id}`", profile.name)).hint(hint)
}
