//! Resolves the places in a description to candidate paths on the host.

use std::collections::BTreeSet;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::folders::{INSTALLED, toolkit_folder};
use gpubuild_host::{Arch, HostPath, InspectHost, Os, ReadFiles};

use super::description::{Description, Root, ToolkitKind, is_on};
use super::pattern::fill;
use super::places::{expand, go_up, path_folders, programs};

/// The value of `found_via` for copies that gpubuild installed.
pub const OWN: &str = "gpubuild";

/// The precedence of a place, in descending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A variable for exactly this toolkit.
    Explicit,
    /// A program on PATH.
    Path,
    /// An active environment, or another toolkit that contains this one.
    Environment,
    /// Installed by gpubuild for this user: has lower precedence than settings of the shell or environment, but higher than the
    /// machine's defaults.
    Own,
    /// The system's default among known folders.
    Default,
    /// A known folder or the registry. Among these, the newest copy is chosen.
    Known,
}

/// The path of a possible copy.
#[derive(Debug, Clone)]
pub(super) struct CandidatePath {
    /// The root folder, or for a tool the program.
    pub path: HostPath,
    /// How it was found, for messages.
    pub via: String,
    /// The precedence of that place.
    pub rank: Rank,
    /// The original path in the variable, registry or description, for messages.
    pub place: HostPath,
}

/// The result of a search.
#[derive(Debug, Default)]
pub(super) struct SearchResult {
    /// The candidates in order of preference.
    pub candidates: Vec<CandidatePath>,
    /// Names and values of variables for this toolkit whose path does not exist.
    pub absent: Vec<(String, HostPath)>,
    /// Folders that do not exist, and the file that identifies a copy in those that do.
    pub searched: Vec<String>,
}

/// Finds all candidates of a description on a host.
pub(super) fn search(host: &dyn InspectHost, description: &Description, path: &[HostPath]) -> SearchResult {
    let own = toolkit_folder(host);
    run(host, description, path, own.as_ref(), &|_| true)
}

/// Finds only the copies that gpubuild installed in a folder.
pub(super) fn search_own(
    host: &dyn InspectHost,
    description: &Description,
    folder: &HostPath,
) -> SearchResult {
    run(host, description, &[], Some(folder), &|root| root.own.is_some())
}

fn run(
    host: &dyn InspectHost,
    description: &Description,
    path: &[HostPath],
    own: Option<&HostPath>,
    is_wanted: &dyn Fn(&Root) -> bool,
) -> SearchResult {
    let mut found = SearchResult::default();
    let roots = description.roots.iter().filter(|root| is_on(&root.on, host.platform().os));
    for root in roots.filter(|root| is_wanted(root)) {
        let searcher = Searcher { host, description, root, path, own };
        searcher.run(&mut found);
    }
    found.candidates.sort_indirect_by_key(|candidate| candidate.rank);
    found
}

struct Searcher<'a> {
    host: &'a dyn InspectHost,
    description: &'a Description,
    root: &'a Root,
    path: &'a [HostPath],
    /// The folder of the toolkits that gpubuild installed.
    own: Option<&'a HostPath>,
}

impl Searcher<'_> {
    fn run(&self, found: &mut SearchResult) {
        if let Some(name) = &self.root.env {
            self.variable(name, Rank::Explicit, found);
        } else if let Some(name) = &self.root.prefix_env {
            self.variable(name, Rank::Environment, found);
        } else if let Some(pattern) = &self.root.own {
            self.own(pattern, found);
        } else if let Some(pattern) = &self.root.known {
            let rank = if self.root.default { Rank::Default } else { Rank::Known };
            if let Some(filled) = fill(pattern, self.host) {
                let places = expand(self.host, &filled);
                if places.is_empty() {
                    found.searched.push(filled);
                }
                for place in places {
                    self.add(&place, &format!("known:{place}"), rank, found);
                    found.searched.extend(self.marker(&place));
                }
            }
        } else if let (Some(key), Some(value)) = (&self.root.registry, &self.root.value) {
            self.registry(key, value, found);
        } else if let Some(tool) = &self.root.visual_studio {
            if let Some(place) = self.host.visual_studio_tool(tool) {
                self.add(&place, "visual-studio", Rank::Known, found);
            } else {
                for place in recorded_visual_studio(self.host, tool) {
                    self.add(&place, "visual-studio", Rank::Known, found);
                }
            }
        } else {
            self.programs(found);
        }
    }

    /// The file that identifies a copy in this folder.
    fn marker(&self, place: &HostPath) -> Option<String> {
        let part = self.description.parts.values().find(|part| part.marker)?;
        let relative = part.paths.iter().find_map(|path| path.on(self.host.platform()))?;
        Some(place.join(&fill(&relative.replace("{suffix}", ""), self.host)?).to_string())
    }

    fn variable(&self, name: &str, rank: Rank, found: &mut SearchResult) {
        let Some(value) = self.host.env().get(name) else { return };
        let place = self.host.path(value.trim_end_matches(['/', '\\']));
        if !place.is_absolute() || !self.host.exists(&place) {
            if rank == Rank::Explicit {
                found.absent.push((name.to_owned(), place));
            }
            return;
        }
        self.add(&place, &format!("env:{name}"), rank, found);
    }

    /// Adds copies that gpubuild installed. Folders without `installed.json` are ignored: they are left over from interrupted
    /// installations.
    fn own(&self, pattern: &str, found: &mut SearchResult) {
        let Some(folder) = self.own else { return };
        for place in expand(self.host, folder.join(pattern).as_str()) {
            if self.host.is_file(&place.join(INSTALLED)) {
                self.add(&place, OWN, Rank::Own, found);
            }
        }
    }

    fn registry(&self, key: &str, value: &str, found: &mut SearchResult) {
        let below = self.host.registry_keys(key).into_iter().map(|name| format!("{key}\\{name}"));
        for key in std::iter::once(key.to_owned()).chain(below) {
            if let Some(entry) = self.host.registry_value(&key, value) {
                let place = self.host.path(entry.text.trim_end_matches(['/', '\\']));
                if place.is_absolute() && self.host.exists(&place) {
                    self.add(&place, "registry", Rank::Known, found);
                }
            }
        }
    }

    fn programs(&self, found: &mut SearchResult) {
        for name in &self.root.program {
            for program in programs(self.host, self.path, name) {
                // Do not resolve links of tools, because programs such as `clang++` depend on the name by which they are called. The root
                // of an SDK is derived from the real path.
                if self.description.kind == ToolkitKind::Tool {
                    self.add(&program, "path", Rank::Path, found);
                } else if let Ok(real) = self.host.canonical(&program) {
                    self.add(&real, "path", Rank::Path, found);
                }
            }
        }
    }

    fn add(&self, place: &HostPath, via: &str, rank: Rank, found: &mut SearchResult) {
        let base = go_up(place, self.root.up);
        let mut push = |path: HostPath| {
            found.candidates.push(CandidatePath { path, via: via.to_owned(), rank, place: place.clone() });
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

/// The tool in each copy of Visual Studio that the installer's records name. The locator of the real host reads the same files.
fn recorded_visual_studio(host: &dyn InspectHost, tool: &str) -> Vec<HostPath> {
    let data = host.env().get("ProgramData").unwrap_or(r"C:\ProgramData");
    let records = format!("{data}/Microsoft/VisualStudio/Packages/_Instances/*/state.json");
    let native = match host.platform().arch {
        Arch::X86_64 => "x64",
        Arch::Aarch64 => "arm64",
    };
    let root = |file: &HostPath| -> Option<String> {
        let record = crate::json::parse(host.read_text(file).ok()?.trim_start_matches('\u{feff}'))?;
        Some(record.get("installationPath")?.as_str()?.to_owned())
    };
    let roots = expand(host, &records).into_iter().filter_map(|file| root(&file));
    // Windows on ARM runs the x64 programs too, which come with the ARM64 tools of older installers.
    let hosts = if native == "arm64" { vec!["arm64", "x64", "x86"] } else { vec![native, "x86"] };
    roots
        .flat_map(|root| {
            hosts
                .iter()
                .flat_map(move |own| {
                    expand(host, &format!("{root}/VC/Tools/MSVC/*/bin/Host{own}/{native}/{tool}"))
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The folders of PATH in which programs are searched.
pub(super) fn program_folders(host: &dyn ReadFiles) -> Vec<HostPath> {
    let mut folders = path_folders(host);
    // In WSL, PATH contains the folders of Windows. Linux builds cannot use programs there, and the file system is slow.
    if host.platform().os == Os::Linux {
        folders.retain(|folder| !folder.as_str().starts_with("/mnt/"));
    }
    // Skip missing folders and duplicates (`/bin` in a merged `/usr`), because about forty programs are searched in each folder.
    if host.platform().os != Os::Windows {
        let mut seen = BTreeSet::new();
        folders.retain(|folder| host.canonical(folder).is_ok_and(|real| seen.insert(real.key())));
    }
    folders
}
