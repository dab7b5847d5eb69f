//! Backends of a project beside those that gpubuild knows toolkits for: `[project] extra = ["rpc"]`.

use gpubuild_core::backend::{Backend, edit_distance};
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use serde::Serialize;

use super::make::PlanInputs;
use super::options::declares;

/// Such a backend in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedExtra {
    /// Its id in the profile.
    pub id: String,
    /// What has to be on the machine, one line each; nobody checked whether it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What a program then links beside the project's own libraries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<String>,
    /// What it downloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// A remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The extra backends of the project.
///
/// # Errors
/// Those that are unknown, gone, for other machines, in conflict with a backend of the plan, or not told where what they need
/// lies.
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
        let text = format!("{} has no backend `{id}` any more", profile.name);
        return Err(refused(id!("project.backend-missing"), text, Some(removed.clone())));
    }
    if declared == Some(false) {
        let text = format!("this version of {} has no option `{}`", profile.name, row.option);
        let hint = Some(format!("take a version that has the backend `{id}`, or leave it out of `extra`"));
        return Err(refused(id!("project.backend-missing"), text, hint));
    }
    let platform = inputs.facts.platform;
    let (os, processor) = (platform.os.id(), platform.arch.id());
    let wrong = |list: &[String], here: &str| !list.is_empty() && !list.iter().any(|name| name == here);
    if wrong(&row.os, os) || wrong(&row.processors, processor) {
        let text = format!(
            "the backend `{id}` of {} is for {}, and this is {os} on {}",
            profile.name,
            [row.os.join(", "), row.processors.join(", ")].join(" ").trim(),
            processor
        );
        return Err(refused(
            id!("project.backend-elsewhere"),
            text,
            Some("leave it out of `extra`".to_owned()),
        ));
    }
    let clash = backends
        .iter()
        .map(|backend| backend.id())
        .find(|backend| row.conflicts.iter().any(|other| other == backend));
    if let Some(backend) = clash {
        let text = format!(
            "{id} and {backend} do not go into one binary: both compile {}'s sources anew",
            profile.name
        );
        return Err(refused(
            id!("plan.backends-conflict"),
            text,
            Some("build them one after the other".to_owned()),
        ));
    }
    let options = &inputs.project.file.project.options;
    let told = |name: &String| inputs.env.get(name).is_some() || options.contains_key(name);
    let untold = row.needs.iter().find(|need| !need.set.is_empty() && !need.set.iter().any(told));
    if let Some(need) = untold {
        let names = need.set.join(" or ");
        let text = format!("the backend `{id}` needs {}, and neither {names} is set", need.what);
        let hint = Some(format!("set {names} in the environment or under `options`"));
        return Err(refused(id!("project.backend-untold"), text, hint));
    }
    Ok(PlannedExtra {
        id: id.to_owned(),
        needs: row.needs.iter().map(crate::project::profile::ExtraNeed::line).collect(),
        link: row.link.clone(),
        network: row.network.clone().filter(|_| !row.network_unless.iter().any(told)),
        note: row.note.clone(),
    })
}

fn unknown(inputs: &PlanInputs<'_>, id: &str) -> Reason {
    let profile = &inputs.project.profile;
    let hint = if Backend::ALL.iter().any(|backend| backend.id() == id) {
        format!("`{id}` is a backend of gpubuild: name it in `backends`")
    } else {
        let known: Vec<&str> = profile.extra.keys().map(String::as_str).collect();
        match known
            .iter()
            .min_by_key(|other| edit_distance(other, id))
            .filter(|other| edit_distance(other, id) < 3)
        {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "this profile has none; switch it on under `options`".to_owned(),
            None => format!("known are {}", known.join(", ")),
        }
    };
    Reason::new(id!("project.backend-unknown"), format!("{} has no backend `{id}`", profile.name)).hint(hint)
}
