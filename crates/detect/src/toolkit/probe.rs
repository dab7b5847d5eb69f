//! Every copy of every toolkit on a host: description x host -> [`Inventory`]. Runs nothing.

use std::collections::BTreeMap;

use gpubuild_core::version::Version;
use gpubuild_host::{Host, HostPath};

use super::choose::choose;
use super::description::{Description, Kind, Mended, PartDescription};
use super::pattern::{extract, fill};
use super::places::{expand, go_up, read_head};
use super::search::{Candidate, Found, Rank, program_folders, search};
use super::versions::{Ask, Place, archs_of_program, from_files, from_program};
use super::{Catalogue, DeadEnd, Installation, Inventory, Part, runtime};
use crate::facts::Fact;

/// A copy with what is needed to choose among several.
pub(super) struct Copy {
    pub installation: Installation,
    pub rank: Rank,
    /// The strongest way in its own words, for the reason.
    pub way: String,
}

/// Looks for everything in the catalogue. Starts no process and loads no library.
#[must_use]
pub fn probe(host: &dyn Host, catalogue: &Catalogue) -> Inventory {
    let path = program_folders(host);
    let mut inventory = Inventory::default();
    for description in catalogue.iter() {
        let found = search(host, description, &path);
        let (copies, mut dead_ends) = collect(host, description, found);
        inventory.dead_ends.append(&mut dead_ends);
        if !copies.is_empty() {
            inventory.installations.insert(description.id.clone(), choose(copies));
        }
    }
    inventory.runtimes = runtime::probe(host, catalogue, &path);
    inventory
}

/// Every copy of one toolkit, the chosen one first.
#[must_use]
pub fn probe_one(host: &dyn Host, description: &Description) -> Vec<Installation> {
    let path = program_folders(host);
    choose(collect(host, description, search(host, description, &path)).0)
}

/// Asks the programs themselves for the versions that no file told. Only on request: this starts processes.
pub fn ask_programs(host: &dyn Host, catalogue: &Catalogue, inventory: &mut Inventory) {
    for (id, installations) in &mut inventory.installations {
        let Some(description) = catalogue.get(id) else { continue };
        // Among compilers the version decides which copy is taken; of other tools only the chosen one matters.
        let asked =
            if description.kind == Kind::Tool && description.provides.is_none() { 1 } else { usize::MAX };
        for installation in installations.iter_mut().take(asked).filter(|one| one.version.is_none()) {
            let program = installation.part("program").or_else(|| installation.part("compiler")).cloned();
            installation.version = program.and_then(|program| from_program(host, description, &program));
        }
    }
}

/// Asks the compilers which architectures they build for. With [`Ask::Program`] this starts a process per copy.
pub fn ask_archs(host: &dyn Host, catalogue: &Catalogue, inventory: &mut Inventory, ask: Ask) {
    for (id, installations) in &mut inventory.installations {
        let Some(question) = catalogue.get(id).and_then(|one| one.list_archs.as_ref()) else { continue };
        for installation in installations.iter_mut() {
            if let Some(compiler) = installation.part("compiler").cloned() {
                installation.compiler_archs = archs_of_program(host, question, &compiler, ask);
            }
        }
    }
}

fn collect(host: &dyn Host, description: &Description, found: Found) -> (Vec<Copy>, Vec<DeadEnd>) {
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
    let mut copies: BTreeMap<String, Copy> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let mut reached: Vec<(String, HostPath)> = Vec::new();
    let mut missed: Vec<Candidate> = Vec::new();
    for candidate in found.candidates {
        let Ok(real) = host.canonical(&candidate.path) else { continue };
        let key = real.key();
        let known = copies.contains_key(&key);
        if !known {
            let Some(installation) = examine(host, description, &candidate, &real) else {
                missed.push(candidate);
                continue;
            };
            // What is left of a copy of our own is no copy: `toolkit install` makes it whole.
            if candidate.rank == Rank::Own && !installation.is_complete() {
                continue;
            }
            order.push(key.clone());
            let copy = Copy { installation, rank: candidate.rank, way: candidate.via.clone() };
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
        let why = "it has none of the files that tell a copy".to_owned();
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

/// What a recording knows of a compiler's own list, which counts more than any table: nothing is started for it.
fn recorded_archs(host: &dyn Host, description: &Description, parts: &BTreeMap<String, Part>) -> Vec<String> {
    let compiler = parts.get("compiler").and_then(|part| part.path.as_ref());
    match (&description.list_archs, compiler) {
        (Some(question), Some(compiler)) => archs_of_program(host, question, compiler, Ask::Recorded),
        _ => Vec::new(),
    }
}

/// The copy at a candidate, if it is one.
fn examine(
    host: &dyn Host,
    description: &Description,
    candidate: &Candidate,
    real: &HostPath,
) -> Option<Installation> {
    let tool = description.kind == Kind::Tool;
    let root = if tool { candidate.path.parent()? } else { real.clone() };
    if tool && !host.is_file(&candidate.path) {
        return None;
    }
    let suffix = if tool { suffix(description, &candidate.path) } else { String::new() };
    let mut parts: BTreeMap<String, Part> = description
        .parts
        .iter()
        .map(|(id, part)| (id.clone(), find_part(host, part, &root, &suffix)))
        .collect();
    if tool {
        let part = Part {
            path: Some(candidate.path.clone()),
            required: true,
            looked_for: Vec::new(),
            missing: None,
        };
        parts.insert("program".to_owned(), part);
    } else if !description.parts.iter().any(|(id, part)| part.marker && parts[id].path.is_some()) {
        return None;
    }
    let place = Place { root: &root, real };
    let mut version = from_files(host, description, &place);
    if version.is_none() && tool {
        // The real file of a tool may live in its own folder (Homebrew's cellar, a shim's target).
        version =
            real.parent().and_then(|folder| from_files(host, description, &Place { root: &folder, real }));
    }
    Some(Installation {
        toolkit: description.id.clone(),
        version,
        limits: limits(host, description, &root),
        device_archs: device_archs(host, description, &root),
        compiler_archs: recorded_archs(host, description, &parts),
        mended: mended(host, description, &root),
        root,
        found_via: Vec::new(),
        parts,
        chosen: false,
        reason: String::new(),
    })
}

/// What follows the tool's plain name in the name it was found under: `-12` for `gcc-12`.
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

fn find_part(host: &dyn Host, part: &PartDescription, root: &HostPath, suffix: &str) -> Part {
    let mut looked_for = Vec::new();
    let mut path = None;
    for candidate in &part.paths {
        let Some(filled) = candidate
            .on(host.platform())
            .and_then(|relative| fill(&relative.replace("{suffix}", suffix), host))
        else {
            continue;
        };
        // The newest of several folders that differ by their version.
        path = expand(host, root.join(&filled).normalized().as_str()).pop();
        looked_for.push(filled);
        if path.is_some() {
            break;
        }
    }
    let path = path.map(|path| go_up(&path, part.up));
    Part { path, required: part.required, looked_for, missing: part.missing.clone() }
}

fn limits(host: &dyn Host, description: &Description, root: &HostPath) -> BTreeMap<String, Fact<Version>> {
    let mut limits = BTreeMap::new();
    let mut texts: BTreeMap<String, (HostPath, String)> = BTreeMap::new();
    for source in &description.limits {
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

/// What somebody mended in a copy.
fn mended(host: &dyn Host, description: &Description, root: &HostPath) -> Vec<String> {
    // Longer than any header that is looked into.
    const LIMIT: usize = 1 << 20;
    let is_mended = |one: &&Mended| {
        let file = one.file.iter().filter_map(|file| fill(file, host)).find_map(|file| {
            let path = expand(host, root.join(&file).as_str()).into_iter().next()?;
            host.read_start(&path, LIMIT).ok()
        });
        file.is_some_and(|text| {
            one.has.iter().any(|has| memchr::memmem::find(&text, has.as_bytes()).is_some())
        })
    };
    description.mended.iter().filter(is_mended).map(|one| one.id.clone()).collect()
}

/// The words that `*` stands for in the file names found.
fn device_archs(host: &dyn Host, description: &Description, root: &HostPath) -> Vec<String> {
    let mut archs = Vec::new();
    for candidate in &description.device_archs {
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
            // Features follow (`gfx90a-xnack+`); words in between belong to files of another kind.
            let arch = arch.and_then(|arch| arch.split(['-', ':']).next());
            let plain =
                |arch: &&str| !arch.is_empty() && arch.bytes().all(|byte| byte.is_ascii_alphanumeric());
            archs.extend(arch.filter(plain).map(str::to_owned));
        }
        if !archs.is_empty() {
            break;
        }
    }
    archs.sort();
    archs.dedup();
    archs
}
