//! `doctor --resolvers`: which copy of a toolkit each build system will take.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_doctor::resolvers::resolve_all;
use gpubuild_host::Host;
use gpubuild_plan::plan::request::BackendSelection;

use super::{DoctorArguments, FailOn};
use crate::cli::detect::role;
use crate::cli::{CommandContext, Exit, Failure, look};
use crate::report::resolvers::ResolversReport;
use crate::report::resolvers_text;

/// Looks and tells.
pub(super) fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    look::check_overrides(host)?;
    let request = look::request(arguments.backends.as_deref(), host, None)?;
    let sight = look::look(host, arguments.host.catalogue(context)?);
    let resolutions = resolve_all(host, &sight.inventory, &sight.catalogue);
    let backends = match request.selection {
        BackendSelection::Named(list) => list,
        // Toolkits that are not installed are shown only on request.
        BackendSelection::Auto => {
            let is_here = |backend: &Backend| {
                let mut of = resolutions.list.iter().filter(|one| one.backend == *backend);
                of.any(|one| one.takes.is_some())
            };
            Backend::ALL.into_iter().filter(is_here).collect()
        }
    };
    let os = host.platform().os;
    let document = ResolversReport::new(&resolutions, &backends, os);
    if arguments.is_json() {
        context.printer.json(&document)?;
    } else {
        let names: BTreeMap<String, String> =
            sight.catalogue.iter().map(|one| (one.id.clone(), one.name.clone())).collect();
        let paint = |tone, text: &str| context.printer.paint(role(tone), text);
        let mut text = resolvers_text::text(&document, &names, os, &paint);
        if text.is_empty() {
            "no toolkit that build systems look for was found\n".clone_into(&mut text);
        }
        context.printer.answer(&text)?;
    }
    let disagree = arguments.fail_on == FailOn::Warning && !document.agree;
    Ok(if disagree { Exit::Negative } else { Exit::Done })
}
