//! Determines whether this machine can build for a backend.

use gpubuild_core::version::Version;

use super::Reason;
use super::words::WordCase;
use crate::facts::Gpu;
use crate::id;
use crate::toolkit::description::{Description, ToolNeed, is_on};
use crate::toolkit::rules::{VersionWindow, window_number};
use crate::toolkit::{DeadEnd, Installation};

/// The role of compilers for the CPU.
const HOST_COMPILER: &str = "host-compiler";

/// What blocks building the CPU backend.
pub(super) fn cpu(case: &WordCase<'_>) -> Vec<Reason> {
    if case.inventory.for_role(case.catalogue, HOST_COMPILER).is_some() {
        return Vec::new();
    }
    let incomplete = case
        .catalogue
        .with_role(HOST_COMPILER)
        .find_map(|tool| Some((tool, case.inventory.of(&tool.id).first()?)))
        .and_then(|(tool, copy)| missing_parts(case, tool, copy).into_iter().next());
    vec![incomplete.unwrap_or_else(|| {
        let tool = case.catalogue.get("gcc").or_else(|| case.catalogue.iter().next());
        match tool {
            Some(tool) => case.say(id!("cpu.compiler-missing"), tool, &[]),
            None => Reason::new(id!("cpu.compiler-missing"), "no C and C++ compiler was found"),
        }
    })]
}

/// What blocks building a described backend, the root cause first.
pub(super) fn evaluate(case: &WordCase<'_>, description: &Description, devices: &[&Gpu]) -> Vec<Reason> {
    if !is_on(&description.build.on, case.os()) {
        let id = WordCase::id(description, "platform", id!("toolkit.platform"));
        return vec![case.say(id, description, &[])];
    }
    let copies = case.inventory.of(&description.id);
    let mut reasons = match copies.iter().find(|copy| copy.chosen) {
        Some(copy) => conflicts(case, description, copy, devices),
        None => match copies.first() {
            Some(copy) => missing_parts(case, description, copy),
            None => vec![absent(case, description)],
        },
    };
    let needs = description.build.tools.iter().filter(|need| is_on(&need.on, case.os()));
    reasons.extend(needs.filter_map(|need| missing_tool(case, need)));
    reasons
}

fn absent(case: &WordCase<'_>, description: &Description) -> Reason {
    let dead: Option<&DeadEnd> = case.inventory.dead_ends.iter().find(|dead| dead.toolkit == description.id);
    if let (Some(dead), Some(id)) = (dead, description.root_invalid) {
        let values = [
            ("variable", dead.found_via.trim_start_matches("env:").to_owned()),
            ("place", dead.place.to_string()),
            ("why", dead.why.clone()),
        ];
        return case.say(id, description, &values);
    }
    let general = || WordCase::id(description, "toolkit.missing", id!("toolkit.missing"));
    let id = description.missing.unwrap_or_else(general);
    case.say(id, description, &[])
}

fn missing_parts(case: &WordCase<'_>, description: &Description, copy: &Installation) -> Vec<Reason> {
    copy.parts
        .iter()
        .filter(|(_, part)| part.required && part.path.is_none())
        .map(|(name, part)| {
            let general = id!("toolkit.part-missing");
            let id = part
                .missing
                .unwrap_or_else(|| WordCase::id(description, &format!("{name}-missing"), general));
            let looked_for = part.looked_for.first().cloned().unwrap_or_default();
            case.say(id, description, &[("root", copy.root.to_string()), ("looked_for", looked_for)])
        })
        .collect()
}

fn missing_tool(case: &WordCase<'_>, need: &ToolNeed) -> Option<Reason> {
    if case.inventory.for_role(case.catalogue, &need.role).is_some() {
        return None;
    }
    let tool = case.catalogue.with_role(&need.role).min_by_key(|tool| (tool.id != "gcc", tool.preference))?;
    let command = case.for_distribution(&tool.install).unwrap_or_else(|| format!("install {}", tool.name));
    Some(case.say(need.missing, tool, &[("install_tool", command)]))
}

/// What prevents a build with a complete copy: its host compiler, the C library, devices it no longer supports.
fn conflicts(
    case: &WordCase<'_>,
    description: &Description,
    copy: &Installation,
    devices: &[&Gpu],
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    reasons.extend(compiler_conflict(case, description, copy));
    let libc = case.facts.libc.as_ref().map(|fact| &fact.value);
    if let (Some(release), Some(libc)) = (copy.version(), libc)
        && let Some(version) = &libc.version
        && let Some(row) = description.libc_conflict(copy, &libc.family, version)
    {
        let values =
            [("version", release.release()), ("libc", libc.label()), ("fixed", row.fixed.to_string())];
        reasons.push(case.say(row.id, description, &values));
    }
    reasons.extend(dropped(case, description, copy, devices));
    reasons
}

/// Set if no host compiler on this machine has a version that this copy supports.
fn compiler_conflict(case: &WordCase<'_>, description: &Description, copy: &Installation) -> Option<Reason> {
    let mut first: Option<(String, VersionWindow, &Installation)> = None;
    let needs = description.build.tools.iter().filter(|need| is_on(&need.on, case.os()));
    let mut tools: Vec<&Description> = needs
        .flat_map(|need| case.catalogue.with_role(&need.role))
        .filter(|tool| description.compiler_outside.contains_key(&tool.id))
        .collect();
    tools.sort_by_key(|tool| tool.preference);
    for tool in tools {
        let Some(window) = description.host_compiler_window(copy, &tool.id) else { continue };
        for compiler in case.inventory.of(&tool.id).iter().filter(|compiler| compiler.is_complete()) {
            if window.holds(compiler.version(), &tool.id) {
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
        ("window", window.words(found)),
        ("found", number(found)),
        ("source", format!("`{}`", window.source)),
    ];
    Some(case.say(id, description, &values))
}

/// Set if every device is older than the architectures that this copy can build for.
fn dropped(
    case: &WordCase<'_>,
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
        case.say(id, description, &values)
    })
}
