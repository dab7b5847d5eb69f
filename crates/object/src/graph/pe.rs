//! Windows: searches the program's folder, System32, the Windows folder and `PATH`. A name is loaded only once.

use gpubuild_detect::toolkit::libraries;
use gpubuild_host::library::search::{Match, Via};

use super::{EdgeTarget, GraphEdge, GraphWalk, opened};
use crate::NeededObject;

/// Resolves all dependencies.
pub(super) fn walk(walk: &mut GraphWalk<'_>) {
    let has = |name: &str| !walk.loader.windows(name, None, true).usable.is_empty();
    walk.graph.knows_system = has("kernel32.dll") && has("user32.dll");
    let mut at = 0;
    while at < walk.graph.objects.len() {
        // Skip the hundreds of dependencies of Windows' own libraries: they are always present.
        let object = &walk.graph.objects[at];
        let is_windows = object.via == Some(Via::System) && libraries::find(object.name()).is_none();
        let binary = walk.graph.objects[at].binary().filter(|_| !is_windows || at == 0);
        for needed in binary.map(|binary| binary.needed.clone()).unwrap_or_default() {
            link(walk, at, needed);
        }
        at += 1;
        if at == walk.graph.objects.len() {
            for (from, name) in walk.opened_later() {
                let known =
                    |link: &GraphEdge| link.from == from && link.needed.name.eq_ignore_ascii_case(&name);
                if !walk.graph.links.iter().any(known) {
                    link(walk, from, opened(&name));
                }
            }
        }
    }
}

fn link(walk: &mut GraphWalk<'_>, from: usize, needed: NeededObject) {
    let key = needed.name.to_lowercase();
    let wide = walk.graph.objects[0].binary().is_none_or(|binary| binary.machine.wide);
    let application = walk.graph.objects[0].path.parent();
    let mut found: Vec<Match> = Vec::new();
    let target = if libraries::is_of_system(gpubuild_host::Os::Windows, &needed.name) {
        EdgeTarget::System
    } else if let Some(index) = walk.known(&key) {
        EdgeTarget::Loaded(index)
    } else {
        found = walk.loader.windows(&needed.name, application.as_ref(), wide).usable;
        match found.first().cloned() {
            Some(first) => match walk.load(&first, &key, from) {
                Some(index) => EdgeTarget::Loaded(index),
                None => EdgeTarget::Unknown,
            },
            None => walk.absent(&needed.name, Vec::new()),
        }
    };
    let later = found.into_iter().skip(1).map(|found| walk.copy(found)).collect();
    walk.graph.links.push(GraphEdge { from, needed, target, own: None, later });
}
