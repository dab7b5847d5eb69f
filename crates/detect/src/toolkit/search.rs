//! Where copies of a toolkit may be: from the places of a description to candidate roots, each with the way that led
//! there.

use std::collections::BTreeSet;

use gpubuild_host::{Host, HostPath, Os};

use super::description::{Description, Kind, Root, is_on};
use super::pattern::fill;
use super::places::{expand, go_up, path_folders, programs};

/// How a copy that gpubuild installed itself was found.
pub const OWN: &str = "gpubuild";

/// How strongly a way speaks for a copy; smaller is stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A variable names this very toolkit.
    Explicit,
    /// A program on PATH.
    Path,
    /// An active environment, or a neighbour that contains it.
    Environment,
    /// gpubuild installed it because this user asked for it: weaker than what this shell or environment sets, stronger
    /// than what the machine has for everybody.
    Own,
    /// The system's own default among known folders.
    Default,
    /// A known folder or the registry; the newest wins.
    Known,
}

/// A path that may be a copy.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// The folder, or for a tool the program.
    pub path: HostPath,
    /// How it was found, for people.
    pub via: String,
    /// How strong that is.
    pub rank: Rank,
    /// The place that was named, for the message when nothing is there.
    pub place: HostPath,
}

/// What a search brought up.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// In order of preference.
    pub candidates: Vec<Candidate>,
    /// Explicit variables whose place does not exist at all: name and value.
    pub absent: Vec<(String, HostPath)>,
}

/// All candidates of a description on this host.
pub(super) fn search(host: &dyn Host, description: &Description, path: &[HostPath]) -> Found {
    let mut found = Found::default();
    for root in description.roots.iter().filter(|root| is_on(&root.on, host.platform().os)) {
        let searcher = Searcher { host, kind: description.kind, root, path };
        searcher.run(&mut found);
    }
    found.candidates.sort_by_key(|candidate| candidate.rank);
    found
}

struct Searcher<'a> {
    host: &'a dyn Host,
    kind: Kind,
    root: &'a Root,
    path: &'a [HostPath],
}

impl Searcher<'_> {
    fn run(&self, found: &mut Found) {
        if let Some(name) = &self.root.env {
            self.variable(name, Rank::Explicit, found);
        } else if let Some(name) = &self.root.prefix_env {
            self.variable(name, Rank::Environment, found);
        } else if let Some(pattern) = &self.root.own {
            self.own(pattern, found);
        } else if let Some(pattern) = &self.root.known {
            let rank = if self.root.default { Rank::Default } else { Rank::Known };
            if let Some(filled) = fill(pattern, self.host) {
                for place in expand(self.host, &filled) {
                    self.offer(&place, &format!("known:{place}"), rank, found);
                }
            }
        } else if let (Some(key), Some(value)) = (&self.root.registry, &self.root.value) {
            self.registry(key, value, found);
        } else if let Some(tool) = &self.root.visual_studio {
            if let Some(place) = self.host.visual_studio_tool(tool) {
                self.offer(&place, "visual-studio", Rank::Known, found);
            }
        } else {
            self.programs(found);
        }
    }

    fn variable(&self, name: &str, rank: Rank, found: &mut Found) {
        let Some(value) = self.host.env().get(name) else { return };
        let place = self.host.path(value.trim_end_matches(['/', '\\']));
        if !place.is_absolute() || !self.host.exists(&place) {
            if rank == Rank::Explicit {
                found.absent.push((name.to_owned(), place));
            }
            return;
        }
        self.offer(&place, &format!("env:{name}"), rank, found);
    }

    /// What gpubuild installed itself. An installation is published by one rename and sealed; what bears no seal is what a
    /// kill left behind.
    fn own(&self, pattern: &str, found: &mut Found) {
        let Some(folder) = gpubuild_host::folders::toolkit_folder(self.host) else { return };
        for place in expand(self.host, folder.join(pattern).as_str()) {
            if self.host.is_file(&place.join(gpubuild_host::folders::INSTALLED)) {
                self.offer(&place, OWN, Rank::Own, found);
            }
        }
    }

    fn registry(&self, key: &str, value: &str, found: &mut Found) {
        let below = self.host.registry_keys(key).into_iter().map(|name| format!("{key}\\{name}"));
        for key in std::iter::once(key.to_owned()).chain(below) {
            if let Some(entry) = self.host.registry_value(&key, value) {
                let place = self.host.path(entry.text.trim_end_matches(['/', '\\']));
                if place.is_absolute() && self.host.exists(&place) {
                    self.offer(&place, "registry", Rank::Known, found);
                }
            }
        }
    }

    fn programs(&self, found: &mut Found) {
        for name in &self.root.program {
            for program in programs(self.host, self.path, name) {
                // A tool is the program by the name it was found under: `clang++` is a link that looks at its own name.
                // An SDK's folder is where the real file lies.
                if self.kind == Kind::Tool {
                    self.offer(&program, "path", Rank::Path, found);
                } else if let Ok(real) = self.host.canonical(&program) {
                    self.offer(&real, "path", Rank::Path, found);
                }
            }
        }
    }

    fn offer(&self, place: &HostPath, via: &str, rank: Rank, found: &mut Found) {
        let base = go_up(place, self.root.up);
        let mut push = |path: HostPath| {
            found.candidates.push(Candidate { path, via: via.to_owned(), rank, place: place.clone() });
        };
        if self.root.sub.is_empty() {
            push(base);
            return;
        }
        for sub in &self.root.sub {
            let Some(sub) = fill(sub, self.host) else { continue };
            if sub.is_empty() {
                push(base.clone());
            } else {
                for path in expand(self.host, base.join(&sub).as_str()) {
                    push(path);
                }
            }
        }
    }
}

/// The folders in which programs are searched: PATH.
pub(super) fn program_folders(host: &dyn Host) -> Vec<HostPath> {
    let mut folders = path_folders(host);
    // Under WSL every program of the Windows side is on PATH too; a Linux build can't use those, and each look there
    // goes through a slow file system.
    if host.platform().os == Os::Linux {
        folders.retain(|folder| !folder.as_str().starts_with("/mnt/"));
    }
    // Folders that are not there, and other names of one that comes before (`/bin` of a merged `/usr`), have nothing to
    // add, and some forty programs are looked for in each.
    if host.platform().os != Os::Windows {
        let mut seen = BTreeSet::new();
        folders.retain(|folder| host.canonical(folder).is_ok_and(|real| seen.insert(real.key())));
    }
    folders
}
