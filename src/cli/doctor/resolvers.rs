//! `doctor --resolvers`: which copy of a toolkit each build system selects.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_doctor::resolvers::resolve_all;
use gpubuild_host::Host;
use gpubuild_plan::plan::request::BackendSelection;

use super::{DoctorArguments, FailOn};
use crate::cli::detect::role;
use crate::cli::project::backend_request;
use crate::cli::{CommandContext, Exit, Failure, machine};
use crate::report::resolvers::ResolversReport;
use crate::report::resolvers_text;

/// Prints the copies and whether all build systems select the same one.
pub(super) fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    machine::check_overrides(host)?;
    let request = backend_request(arguments.backends.as_deref(), host, None)?;
    let machine = machine::inspect(host, arguments.host.catalogue(context)?);
    let resolutions = resolve_all(host, &machine.inventory, &machine.catalogue);
    let backends = match request.selection {
        BackendSelection::Named(list) => list,
        // Toolkits that are not installed are shown only on request.
        BackendSelection::Auto => {
            let is_found = |backend: &Backend| {
                let mut of_backend = resolutions.list.iter().filter(|one| one.backend == *backend);
                of_backend.any(|one| one.takes.is_some())
            };
            Backend::ALL.into_iter().filter(is_found).collect()
        }
    };
    let os = host.platform().os;
    let document = ResolversReport::new(&resolutions, &backends, os);
    if arguments.is_json() {
        context.printer.json(&document)?;
    } else {
        let names: BTreeMap<String, String> =
            machine.catalogue.iter().map(|one| (one.id.clone(), one.name.clone())).collect_map();
        let paint = |tone, text: &str| context.printer.paint(role(tone), text);
        let mut text = resolvers_text::text(&document, &names, os, &paint);
        if text.is_empty() {
            "no toolkit found that build systems search for\n".clone_into(&mut text);
        }
        context.printer.print(&text)?;
    }
    let disagree = arguments.fail_on == FailOn::Warning && !document.agree;
    Ok(if disagree { Exit::Negative } else { Exit::Done })
}
