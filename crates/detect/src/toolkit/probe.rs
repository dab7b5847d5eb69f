//! Finds all copies of all described toolkits on a host.

use std::collections::BTreeMap;
use std::io::{self, Read as _};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_host::folders::target_toolkit_folder;
use gpubuild_host::{HostPath, InspectHost, Platform, RunPrograms};

use super::choose::choose;
use super::description::{Description, KnownFix, PartDescription, ToolkitKind};
use super::pattern::{extract, fill, fill_for};
use super::places::{expand, go_up, read_head};
use super::search::{CandidatePath, Rank, SearchResult, program_folders, search, search_own};
use super::versions::{QueryMode, VersionLocation, archs_of_program, from_files, from_program};
use super::{Catalogue, DeadEnd, Installation, Inventory, ToolkitPart, runtime};
use crate::facts::Fact;

/// A copy, with data for choosing among several copies.
pub(super) struct ProbedCopy {
    pub installation: Installation,
    pub rank: Rank,
    /// The strongest way in which it was found, for the explanation of the choice.
    pub way: String,
}

/// Finds the copies of all toolkits in the catalogue. Starts no process and loads no library.
#[must_use]
pub fn probe(host: &dyn InspectHost, catalogue: &Catalogue) -> Inventory {
    let path = program_folders(host);
    let mut inventory = Inventory::default();
    for description in catalogue.iter() {
        let mut found = search(host, description, &path);
        inventory.searched.insert(description.id.clone(), std::mem::take(&mut found.searched));
        let (copies, mut dead_ends) = collect(host, host.platform(), description, found, &[]);
        inventory.dead_ends.append(&mut dead_ends);
        if !copies.is_empty() {
            inventory.installations.insert(description.id.clone(), choose(copies));
        }
    }
    inventory.runtimes = runtime::probe(host, catalogue, &path);
    inventory
}

/// The copies of each toolkit that gpubuild installed for another platform, the chosen one first. `platform` is that of the target.
#[must_use]
pub fn probe_for_target(
    host: &dyn InspectHost,
    catalogue: &Catalogue,
    triple: &str,
    platform: Platform,
) -> BTreeMap<String, Vec<Installation>> {
    let mut installations = BTreeMap::new();
    let Some(folder) = target_toolkit_folder(host, triple) else { return installations };
    for description in catalogue.iter().filter(|one| one.builds_for(triple)) {
        let copies =
            choose(collect(host, platform, description, search_own(host, description, &folder), &[]).0);
        if !copies.is_empty() {
            installations.insert(description.id.clone(), copies);
        }
    }
    installations
}

/// Finds all copies of one toolkit in another environment of a host, the chosen one first. `known` are the copies that were found
/// before; they are not examined again.
#[must_use]
pub fn probe_again(
    host: &dyn InspectHost,
    description: &Description,
    known: &[Installation],
) -> Vec<Installation> {
    let path = program_folders(host);
    choose(collect(host, host.platform(), description, search(host, description, &path), known).0)
}

/// Runs programs to determine versions that no file contains. This is a separate step because it starts processes.
pub fn query_programs(host: &dyn RunPrograms, catalogue: &Catalogue, inventory: &mut Inventory) {
    for (id, installations) in &mut inventory.installations {
        let Some(description) = catalogue.get(id) else { continue };
        // Compiler versions affect the choice, so all compilers are queried. For other tools, only the chosen copy is.
        let limit = if description.kind == ToolkitKind::Tool && description.provides.is_none() {
            1
        } else {
            usize::MAX
        };
        for installation in installations.iter_mut().take(limit).filter(|one| one.version.is_none()) {
            let program = installation.part("program").or_else(|| installation.part("compiler")).cloned();
            installation.version = program.and_then(|program| from_program(host, description, &program));
        }
    }
}

/// Queries the compilers for their architectures. With [`QueryMode::Program`], this starts one process per copy.
pub fn query_archs(
    host: &dyn RunPrograms,
    catalogue: &Catalogue,
    inventory: &mut Inventory,
    mode: QueryMode,
) {
    for (id, installations) in &mut inventory.installations {
        let Some(query) = catalogue.get(id).and_then(|one| one.list_archs.as_ref()) else { continue };
        for installation in installations.iter_mut() {
            if let Some(compiler) = installation.part("compiler").cloned() {
                installation.compiler_archs = archs_of_program(host, query, &compiler, mode);
            }
        }
    }
}

/// The copies at the candidate paths. `platform` is that of their libraries.
fn collect(
    host: &dyn InspectHost,
    platform: Platform,
    description: &Description,
    found: SearchResult,
    examined: &[Installation],
) -> (Vec<ProbedCopy>, Vec<DeadEnd>) {
    let mut dead_ends: Vec<DeadEnd> = found
        .absent
        .into_iter()
        .map(|(name, place)| DeadEnd {
            toolkit: description.id.clone(),
            found_via: format!("env:{name}"),
            place,
            why: "it does not exist".to_owned(),
        })
        .collect();
    let mut copies: BTreeMap<String, ProbedCopy> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let mut reached: Vec<(String, HostPath)> = Vec::new();
    let mut missed: Vec<CandidatePath> = Vec::new();
    for candidate in found.candidates {
        let Ok(real) = host.canonical(&candidate.path) else { continue };
        let key = real.key();
        let known = copies.contains_key(&key);
        if !known {
            let again = examined.iter().find(|copy| copy.root == real).map(Installation::before_choice);
            let Some(installation) =
                again.or_else(|| examine(host, platform, description, &candidate, &real))
            else {
                missed.push(candidate);
                continue;
            };
            // Ignore incomplete copies that gpubuild installed: `toolkit install` completes them.
            if candidate.rank == Rank::Own && !installation.is_complete() {
                continue;
            }
            order.push(key.clone());
            let copy = ProbedCopy { installation, rank: candidate.rank, way: candidate.via.clone() };
            copies.insert(key.clone(), copy);
        }
        reached.push((candidate.via.clone(), candidate.place.clone()));
        if let Some(copy) = copies.get_mut(&key)
            && !copy.installation.found_via.contains(&candidate.via)
        {
            copy.installation.found_via.push(candidate.via);
        }
    }
    for candidate in missed.into_iter().filter(|one| one.rank == Rank::Explicit) {
        let why = "it contains no file that identifies a copy".to_owned();
        let dead = DeadEnd {
            toolkit: description.id.clone(),
            found_via: candidate.via,
            place: candidate.place,
            why,
        };
        let is_reached = reached.iter().any(|(via, place)| *via == dead.found_via && *place == dead.place);
        if !is_reached && !dead_ends.contains(&dead) {
            dead_ends.push(dead);
        }
    }
    (order.iter().filter_map(|key| copies.remove(key)).collect(), dead_ends)
}

/// The recorded output of a compiler's architecture list, which takes precedence over tables. Starts no process.
fn recorded_archs(
    host: &dyn RunPrograms,
    description: &Description,
    parts: &BTreeMap<String, ToolkitPart>,
) -> Vec<String> {
    let compiler = parts.get("compiler").and_then(|part| part.path.as_ref());
    match (&description.list_archs, compiler) {
        (Some(query), Some(compiler)) => archs_of_program(host, query, compiler, QueryMode::Recorded),
        _ => Vec::new(),
    }
}

/// The copy at a candidate path, if it is one.
fn examine(
    host: &dyn InspectHost,
    platform: Platform,
    description: &Description,
    candidate: &CandidatePath,
    real: &HostPath,
) -> Option<Installation> {
    let tool = description.kind == ToolkitKind::Tool;
    let root = if tool { candidate.path.parent()? } else { real.clone() };
    if tool && !host.is_file(&candidate.path) {
        return None;
    }
    let suffix = if tool { suffix(description, &candidate.path) } else { String::new() };
    let mut parts: BTreeMap<String, ToolkitPart> = description
        .parts
        .iter()
        .map(|(id, part)| (id.clone(), find_part(host, platform, part, &root, &suffix)))
        .collect_map();
    if tool {
        let part = ToolkitPart {
            path: Some(candidate.path.clone()),
            required: true,
            looked_for: Vec::new(),
            missing: None,
        };
        parts.insert("program".to_owned(), part);
    } else if !description.parts.iter().any(|(id, part)| part.marker && parts[id].path.is_some()) {
        return None;
    }
    let place = VersionLocation { root: &root, real };
    let mut version = from_files(host, description, &place);
    if version.is_none() && tool {
        // The program can be a link into another folder, such as Homebrew's cellar.
        version = real
            .parent()
            .and_then(|folder| from_files(host, description, &VersionLocation { root: &folder, real }));
    }
    Some(Installation {
        toolkit: description.id.clone(),
        mended: fixes(host, description, &root, version.as_ref().map(|fact| &fact.value)),
        version,
        limits: limits(host, description, &root),
        device_archs: device_archs(host, description, &root),
        compiler_archs: recorded_archs(host, description, &parts),
        root,
        found_via: Vec::new(),
        parts,
        chosen: false,
        reason: String::new(),
    })
}

/// The suffix of a tool's file name after the plain name: `-12` for `gcc-12`.
fn suffix(description: &Description, program: &HostPath) -> String {
    let name = program.file_name().unwrap_or_default();
    let stem = name.strip_suffix(".exe").unwrap_or(name);
    description
        .roots
        .iter()
        .filter_map(|root| root.program.first())
        .find_map(|plain| stem.strip_prefix(plain.as_str()))
        .unwrap_or_default()
        .to_owned()
}

fn find_part(
    host: &dyn InspectHost,
    platform: Platform,
    part: &PartDescription,
    root: &HostPath,
    suffix: &str,
) -> ToolkitPart {
    let mut looked_for = Vec::new();
    let mut path = None;
    for candidate in &part.paths {
        let Some(filled) = candidate
            .on(platform)
            .and_then(|relative| fill_for(&relative.replace("{suffix}", suffix), host, platform))
        else {
            continue;
        };
        // If several versions match, use the newest.
        path = expand(host, root.join(&filled).normalized().as_str()).pop();
        looked_for.push(filled);
        if path.is_some() {
            break;
        }
    }
    let path = path.map(|path| go_up(&path, part.up));
    ToolkitPart { path, required: part.required, looked_for, missing: part.missing }
}

fn limits(
    host: &dyn InspectHost,
    description: &Description,
    root: &HostPath,
) -> BTreeMap<String, Fact<Version>> {
    let mut limits = BTreeMap::new();
    let mut texts: BTreeMap<String, (HostPath, String)> = BTreeMap::new();
    for source in description.limits.iter() {
        let text = source.file.iter().filter_map(|file| fill(file, host)).find_map(|file| {
            if let Some(known) = texts.get(&file) {
                return Some(known.clone());
            }
            let path = expand(host, root.join(&file).as_str()).into_iter().next()?;
            let text = read_head(host, &path).ok()?;
            texts.insert(file, (path.clone(), text.clone()));
            Some((path, text))
        });
        if let Some((path, text)) = text
            && let Some(value) = extract(&source.text, &text)
        {
            let evidence = crate::finding::Evidence::file(path.as_str(), value.as_str());
            limits.insert(
                source.id.clone(),
                Fact { value, found_via: "file".to_owned(), evidence: vec![evidence] },
            );
        }
    }
    limits
}

/// The ids of the known fixes that a copy contains, of those that matter for its release.
fn fixes(
    host: &dyn InspectHost,
    description: &Description,
    root: &HostPath,
    version: Option<&Version>,
) -> Vec<String> {
    let matters = |fix: &&KnownFix| {
        let mut rows = description.compatibility.libc.iter();
        rows.any(|row| {
            row.unless.as_ref() == Some(&fix.id) && version.is_none_or(|version| *version < row.fixed)
        })
    };
    let is_present = |fix: &&KnownFix| {
        let mut files = fix.file.iter().filter_map(|file| fill(file, host));
        let path = files.find_map(|file| expand(host, root.join(&file).as_str()).into_iter().next());
        path.is_some_and(|path| has_any(host, &path, &fix.has).unwrap_or_default())
    };
    let fixes = description.mended.iter().filter(matters).filter(is_present);
    fixes.map(|fix| fix.id.clone()).collect()
}

/// Whether the first MiB of a file, which is more than any header, contains one of the texts.
fn has_any(host: &dyn InspectHost, path: &HostPath, texts: &[String]) -> io::Result<bool> {
    const LIMIT: u64 = 1 << 20;
    const PIECE: usize = 16 << 10;
    let mut file = host.open(path)?.take(LIMIT);
    let longest = texts.iter().map(String::len).max().unwrap_or_default();
    let mut window = Vec::with_capacity(2 * PIECE);
    loop {
        // A text can begin in one piece and end in the next one.
        let kept = window.len().min(longest);
        window.drain(..window.len() - kept);
        if file.by_ref().take(PIECE as u64).read_to_end(&mut window)? == 0 {
            return Ok(false);
        }
        if texts.iter().any(|text| memchr::memmem::find(&window, text.as_bytes()).is_some()) {
            return Ok(true);
        }
    }
}

/// The device architectures in file names, which `*` matches.
fn device_archs(host: &dyn InspectHost, description: &Description, root: &HostPath) -> Vec<String> {
    let mut archs = Vec::new();
    for candidate in description.device_archs.iter() {
        let Some(pattern) = candidate
            .on(host.platform())
            .and_then(|relative| fill(relative, host))
            .map(|path| root.join(&path))
        else {
            continue;
        };
        let Some((head, tail)) = pattern.file_name().and_then(|name| name.split_once('*')) else { continue };
        for path in expand(host, pattern.as_str()) {
            let arch = path.file_name().and_then(|name| name.strip_prefix(head)?.strip_suffix(tail));
            // Remove feature suffixes (`gfx90a-xnack+`). Names with other characters are not architectures.
            let arch = arch.and_then(|arch| arch.split(['-', ':']).next());
            let plain =
                |arch: &&str| !arch.is_empty() && arch.bytes().all(|byte| byte.is_ascii_alphanumeric());
            archs.extend(arch.filter(plain).map(str::to_owned));
        }
        if !archs.is_empty() {
            break;
        }
    }
    archs.sort_indirect();
    archs.dedup();
    archs
}

#[cfg(test)]
mod tests {
    use gpubuild_host::{Arch, HostInfo as _, Os, RecordedHost};

    use super::*;

    #[test]
    fn texts_are_found_across_pieces_and_within_the_limit() {
        let found = |before: usize| {
            let header = format!("{}rsqrt(double x) noexcept\n", "x".repeat(before));
            let host = RecordedHost::builder(Os::Linux, Arch::X86_64).file("/math.h", &header).build();
            let texts = ["_NV_RSQRT_SPECIFIER".to_owned(), "rsqrt(double x) noexcept".to_owned()];
            has_any(&host, &host.path("/math.h"), &texts).unwrap()
        };
        for before in [0, 100, (16 << 10) - 1, (16 << 10) - 23, 3 * (16 << 10) - 12, (1 << 20) - 24] {
            assert!(found(before), "{before}");
        }
        assert!(!found((1 << 20) - 23));
    }
}
