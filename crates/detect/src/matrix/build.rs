//! Determines whether this machine can build for a backend.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;

use super::Reason;
use super::reasons::RuleInput;
use crate::facts::Gpu;
use crate::id;
use crate::toolkit::description::{Description, ToolNeed, is_on};
use crate::toolkit::rules::{VersionWindow, window_number};
use crate::toolkit::{DeadEnd, Installation};

/// The role of CPU compilers.
const HOST_COMPILER: &str = "host-compiler";

/// Reasons that block a build of the CPU backend.
pub(super) fn cpu(input: &RuleInput<'_>) -> Vec<Reason> {
    if input.inventory.for_role(input.catalogue, HOST_COMPILER).is_some() {
        return Vec::new();
    }
    let incomplete = input
        .catalogue
        .with_role(HOST_COMPILER)
        .find_map(|tool| Some((tool, input.inventory.of(&tool.id).first()?)))
        .and_then(|(tool, copy)| missing_parts(input, tool, copy).into_iter().next());
    vec![incomplete.unwrap_or_else(|| {
        let tool = input.catalogue.get("gcc").or_else(|| input.catalogue.iter().next());
        match tool {
            Some(tool) => input.reason(id!("cpu.compiler-missing"), tool, &[]),
            None => Reason::new(id!("cpu.compiler-missing"), "no C and C++ compiler was found"),
        }
    })]
}

/// Reasons that block a build of a described backend, the root cause first.
pub(super) fn evaluate(input: &RuleInput<'_>, description: &Description, devices: &[&Gpu]) -> Vec<Reason> {
    if !is_on(&description.build.on, input.os()) {
        let id = RuleInput::id(description, "platform", id!("toolkit.platform"));
        return vec![input.reason(id, description, &[])];
    }
    let copies = input.inventory.of(&description.id);
    let mut reasons = match copies.iter().find(|copy| copy.chosen) {
        Some(copy) => conflicts(input, description, copy, devices),
        None => match copies.first() {
            Some(copy) => missing_parts(input, description, copy),
            None => vec![absent(input, description)],
        },
    };
    let needs = description.build.tools.iter().filter(|need| is_on(&need.on, input.os()));
    reasons.extend(needs.filter_map(|need| missing_tool(input, need)));
    reasons
}

fn absent(input: &RuleInput<'_>, description: &Description) -> Reason {
    let dead: Option<&DeadEnd> = input.inventory.dead_ends.iter().find(|dead| dead.toolkit == description.id);
    if let (Some(dead), Some(id)) = (dead, description.root_invalid) {
        let values = [
            ("variable", dead.found_via.trim_start_matches("env:").to_owned()),
            ("place", dead.place.to_string()),
            ("why", dead.why.clone()),
        ];
        return input.reason(id, description, &values);
    }
    let general = || RuleInput::id(description, "toolkit.missing", id!("toolkit.missing"));
    let id = description.missing.unwrap_or_else(general);
    input.reason(id, description, &[])
}

fn missing_parts(input: &RuleInput<'_>, description: &Description, copy: &Installation) -> Vec<Reason> {
    copy.parts
        .iter()
        .filter(|(_, part)| part.required && part.path.is_none())
        .map(|(name, part)| {
            let general = id!("toolkit.part-missing");
            let id = part
                .missing
                .unwrap_or_else(|| RuleInput::id(description, &format!("{name}-missing"), general));
            let looked_for = part.looked_for.first().cloned().unwrap_or_default();
            input.reason(id, description, &[("root", copy.root.to_string()), ("looked_for", looked_for)])
        })
        .collect()
}

fn missing_tool(input: &RuleInput<'_>, need: &ToolNeed) -> Option<Reason> {
    if input.inventory.for_role(input.catalogue, &need.role).is_some() {
        return None;
    }
    let tool =
        input.catalogue.with_role(&need.role).min_by_key(|tool| (tool.id != "gcc", tool.preference))?;
    let command = input.for_distribution(&tool.install).map(|command| input.on_system(command, true));
    let command = command.unwrap_or_else(|| format!("install {}", tool.name));
    Some(input.reason(need.missing, tool, &[("install_tool", command)]))
}

/// Reasons that block a build with a complete copy: host compiler, C library, devices that it no longer supports.
fn conflicts(
    input: &RuleInput<'_>,
    description: &Description,
    copy: &Installation,
    devices: &[&Gpu],
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    reasons.extend(compiler_conflict(input, description, copy));
    let libc = input.facts.libc.as_ref().map(|fact| &fact.value);
    if let (Some(release), Some(libc)) = (copy.version(), libc)
        && let Some(version) = &libc.version
        && let Some(row) = description.libc_conflict(copy, &libc.family, version)
    {
        let values =
            [("version", release.release()), ("libc", libc.label()), ("fixed", row.fixed.to_string())];
        let reason = input.reason(row.id, description, &values);
        // A release that drops these GPUs is no way out.
        let builds = description.archs(&row.fixed).is_none_or(|fixed| builds_for(&fixed.archs, devices));
        reasons.push(if builds {
            reason
        } else {
            let hint = "build in a container with an older distribution: CUDA {fixed} and newer do not build for this GPU";
            reason.hint(hint.replace("{fixed}", &row.fixed.to_string()))
        });
    }
    reasons.extend(dropped(input, description, copy, devices));
    reasons
}

/// Whether a list of architectures contains those of all devices. Unknown ones count as contained.
fn builds_for(archs: &[String], devices: &[&Gpu]) -> bool {
    devices.iter().filter_map(|gpu| gpu.arch.as_ref()).all(|arch| archs.contains(arch))
}

/// The reason if no installed host compiler has a version that this copy supports.
fn compiler_conflict(
    input: &RuleInput<'_>,
    description: &Description,
    copy: &Installation,
) -> Option<Reason> {
    let mut first: Option<(String, VersionWindow, &Installation)> = None;
    let needs = description.build.tools.iter().filter(|need| is_on(&need.on, input.os()));
    let mut tools: Vec<&Description> = needs
        .flat_map(|need| input.catalogue.with_role(&need.role))
        .filter(|tool| description.compiler_outside.contains_key(&tool.id))
        .collect();
    tools.sort_indirect_by_key(|tool| tool.preference);
    for tool in tools {
        let Some(window) = description.host_compiler_window(copy, &tool.id) else { continue };
        for compiler in input.inventory.of(&tool.id).iter().filter(|compiler| compiler.is_complete()) {
            if window.supports(compiler.version(), &tool.id) {
                return None;
            }
            first.get_or_insert_with(|| (tool.id.clone(), window.clone(), compiler));
        }
    }
    let (tool, window, compiler) = first?;
    let id = *description.compiler_outside.get(&tool)?;
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let found = compiler.version().map(|version| window_number(version, &tool));
    let values = [
        ("version", copy.version().map(Version::release).unwrap_or_default()),
        ("min", number(window.min)),
        ("max", number(window.max)),
        ("window", window.describe(found)),
        ("found", number(found)),
        ("source", format!("`{}`", window.source)),
    ];
    Some(input.reason(id, description, &values))
}

/// The reason if all devices are older than the architectures that this copy can build for.
fn dropped(
    input: &RuleInput<'_>,
    description: &Description,
    copy: &Installation,
    devices: &[&Gpu],
) -> Option<Reason> {
    let id = description.devices_dropped?;
    let release = copy.version()?;
    let number = |arch: &str| {
        arch.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<u32>().ok()
    };
    let oldest = description.archs_of(copy)?.iter().filter_map(|arch| number(arch)).min()?;
    let known: Vec<&str> = devices.iter().filter_map(|gpu| gpu.arch.as_deref()).collect();
    let all_older = !known.is_empty()
        && known.len() == devices.len()
        && known.iter().all(|arch| number(arch).is_some_and(|arch| arch < oldest));
    all_older.then(|| {
        let values =
            [("version", release.release()), ("arch", known.join(", ")), ("oldest", format!("sm_{oldest}"))];
        input.reason(id, description, &values)
    })
}
