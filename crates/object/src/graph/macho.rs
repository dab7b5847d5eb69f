//! macOS: `@rpath`, `@loader_path`, `@executable_path`, dyld's variables, and libraries that exist only in dyld's cache.

use gpubuild_detect::toolkit::libraries;
use gpubuild_host::library::search::{Match, Via};
use gpubuild_host::{HostPath, Os};

use super::{EdgeTarget, GraphEdge, GraphWalk};
use crate::NeededObject;

/// Resolves all dependencies.
pub(super) fn walk(walk: &mut GraphWalk<'_>) {
    walk.graph.knows_system = walk.host.exists(&walk.host.path("/usr/lib/dyld"));
    let mut at = 0;
    while at < walk.graph.objects.len() {
        let needed = walk.graph.objects[at].binary().map(|binary| binary.needed.clone()).unwrap_or_default();
        for needed in needed {
            link(walk, at, needed);
        }
        at += 1;
    }
}

fn link(walk: &mut GraphWalk<'_>, from: usize, needed: NeededObject) {
    let paths = candidates(walk, from, &needed.name);
    let lookup = walk.loader.macos(&paths);
    let machine = walk.graph.objects[0].binary().map(|binary| binary.machine.name);
    let mut foreign = Vec::new();
    let mut found = None;
    let mut later = Vec::new();
    for one in lookup.usable {
        let fits = match walk.read(&one.path) {
            Ok(binary) => machine.is_none_or(|machine| binary.machine.name == machine),
            Err(_) => true,
        };
        match (fits, &found) {
            (false, _) => foreign.push(one),
            (true, None) => found = Some(one),
            (true, Some(_)) => later.push(walk.copy(one)),
        }
    }
    let in_cache = |candidate: &Match| libraries::is_of_system(Os::Macos, candidate.path.as_str());
    let target = if let Some(index) = walk.known(&needed.name) {
        EdgeTarget::Loaded(index)
    } else if let Some(first) = found {
        match walk.load(&first, &needed.name, from) {
            Some(index) => EdgeTarget::Loaded(index),
            None => EdgeTarget::Unknown,
        }
    } else if paths.iter().any(in_cache) {
        EdgeTarget::System
    } else {
        walk.absent(&needed.name, foreign)
    };
    walk.graph.links.push(GraphEdge { from, needed, target, own: None, later });
}

/// The paths that a name may refer to, in dyld's search order.
fn candidates(walk: &GraphWalk<'_>, from: usize, name: &str) -> Vec<Match> {
    let Some(rest) = name.strip_prefix("@rpath/") else {
        let path = expand(walk, from, name);
        return path.map(|path| Match { path, via: Via::Path }).into_iter().collect();
    };
    let mut candidates = Vec::new();
    let mut at = Some(from);
    let mut steps = walk.graph.objects.len();
    while let (Some(index), 1..) = (at, steps) {
        let list = walk.graph.objects[index].binary().map(|binary| binary.rpath.clone()).unwrap_or_default();
        for folder in list {
            let folder = expand(walk, index, &folder);
            candidates.extend(folder.map(|folder| Match { path: folder.join(rest), via: Via::Rpath }));
        }
        at = walk.graph.objects[index].parent;
        steps -= 1;
    }
    if candidates.is_empty() {
        // No object has an rpath. The file name is still searched in the fallback folders.
        candidates.push(Match { path: walk.host.path(&format!("/@rpath/{rest}")), via: Via::Rpath });
    }
    candidates
}

/// Expands `@loader_path` and `@executable_path`.
fn expand(walk: &GraphWalk<'_>, owner: usize, text: &str) -> Option<HostPath> {
    let folder = |index: usize| {
        let object = &walk.graph.objects[index];
        if index == 0 { object.real.parent() } else { object.path.parent() }
    };
    let below = |folder: Option<HostPath>, rest: &str| {
        let folder = folder?;
        let rest = rest.trim_start_matches('/');
        Some(if rest.is_empty() { folder } else { folder.join(rest).normalized() })
    };
    if let Some(rest) = text.strip_prefix("@loader_path") {
        return below(folder(owner), rest);
    }
    if let Some(rest) = text.strip_prefix("@executable_path") {
        return below(folder(0), rest);
    }
    Some(walk.host.path(text))
}
