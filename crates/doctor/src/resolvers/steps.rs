//! Follows the steps of a search on a host. Reads files, the environment and the registry only; starts no process.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::toolkit::description::is_on;
use gpubuild_detect::toolkit::pattern::fill;
use gpubuild_detect::toolkit::places::{expand, go_up, path_folders, programs};
use gpubuild_host::library::LibraryLoader;
use gpubuild_host::search::natural_order;
use gpubuild_host::{FileKind, HostPath, InspectHost, Os};

use super::PassedOver;
use super::description::{Beside, PlaceOrder, ResolverStep};

/// Compiler wrappers: each runs the next program on PATH with the name it was called by.
const WRAPPERS: [&str; 4] = ["ccache", "sccache", "buildcache", "colornvcc"];

/// What a search looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// A program.
    Compiler,
    /// A folder.
    Root,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// Found at this path, by this rule.
    Found { path: HostPath, rule: String },
    /// Failed with this message.
    Failed(String),
    /// Refers to another resolver; `wrong` is the message if that one fails.
    Like { id: String, wrong: Option<String> },
    /// Refers to gpubuild's choice.
    Gpubuild,
}

/// A host with the data that all steps share.
pub(super) struct Walker<'a> {
    pub(super) host: &'a dyn InspectHost,
    path: Vec<HostPath>,
    loader: LibraryLoader<'a>,
}

impl<'a> Walker<'a> {
    pub(super) fn new(host: &'a dyn InspectHost) -> Self {
        Self { host, path: path_folders(host), loader: LibraryLoader::new(host) }
    }

    /// Follows the steps. `tool` is the version of the build system's tool and `before` the compiler that was found. Variables that
    /// are set but of no use are added to `passed`.
    pub(super) fn search(
        &self,
        steps: &[ResolverStep],
        aim: Aim,
        tool: Option<&Version>,
        before: Option<&HostPath>,
        passed: &mut Vec<PassedOver>,
    ) -> StepOutcome {
        for step in steps.iter().filter(|step| self.applies(step, tool)) {
            if let Some(other) = &step.like {
                return StepOutcome::Like { id: other.clone(), wrong: step.wrong.clone() };
            }
            if step.gpubuild {
                return StepOutcome::Gpubuild;
            }
            let value =
                step.env.as_ref().or(step.with_env.as_ref()).and_then(|name| self.host.env().get(name));
            let message = |text: &str| text.replace("{value}", value.unwrap_or_default());
            if let Some(text) = &step.fail {
                return StepOutcome::Failed(message(text));
            }
            if let (Some(refused), Some(text), Some(value)) = (&step.refuse, &step.wrong, value)
                && value.contains(refused.as_str())
            {
                return StepOutcome::Failed(message(text));
            }
            if step.refuse.is_some() {
                continue;
            }
            match self.try_step(step, aim, before) {
                StepMatch::Found(path, rule) => {
                    return match &step.still_fails {
                        Some(text) => StepOutcome::Failed(message(text)),
                        None => StepOutcome::Found { path, rule },
                    };
                }
                StepMatch::Nothing => {}
                StepMatch::Misled(found) => {
                    if let Some(text) = &step.wrong {
                        return StepOutcome::Failed(message(text).replace("{found}", &found));
                    }
                }
            }
            if let (Some(name), Some(value)) = (&step.env, value) {
                if let Some(text) = &step.wrong {
                    return StepOutcome::Failed(message(text));
                }
                let one = PassedOver { variable: name.clone(), value: value.to_owned() };
                if !passed.contains(&one) {
                    passed.push(one);
                }
            }
        }
        StepOutcome::Failed("nothing found".to_owned())
    }

    fn applies(&self, step: &ResolverStep, tool: Option<&Version>) -> bool {
        let env = self.host.env();
        let is_set = |name: &String| env.get(name).is_some();
        let is_there =
            |name: &String| env.get(name).is_some_and(|value| self.host.exists(&self.place(value)));
        is_on(&step.on, self.host.platform().os)
            && is_in_range(tool, step.since.as_ref(), step.before.as_ref())
            && !step.unless_env.iter().any(is_set)
            && !step.unless_place.iter().any(is_there)
            && step.with_env.as_ref().is_none_or(is_set)
            && (step.with_program.is_empty() || self.program(&step.with_program).is_some())
    }

    /// Removes the quotes that Windows users put around values.
    fn unquoted<'v>(&self, value: &'v str) -> &'v str {
        match self.host.platform().os {
            Os::Windows => value.trim().trim_matches('"'),
            Os::Linux | Os::Macos => value,
        }
    }

    fn place(&self, value: &str) -> HostPath {
        let value = self.unquoted(value);
        let trimmed = value.trim_end_matches(['/', '\\']);
        self.host.path(if trimmed.is_empty() { value } else { trimmed })
    }

    /// The first of these names on PATH. All folders are searched for a name before the next name is tried.
    fn program(&self, names: &[String]) -> Option<HostPath> {
        names.iter().find_map(|name| {
            programs(self.host, &self.path, name).into_iter().find(|path| !self.is_wrapper(path))
        })
    }

    fn is_wrapper(&self, program: &HostPath) -> bool {
        let real = self.host.canonical(program);
        real.is_ok_and(|real| real.file_name().is_some_and(|name| WRAPPERS.contains(&name)))
    }

    /// The program that a variable names: by a path, possibly with arguments, or by a bare name.
    fn named_program(&self, value: &str) -> Option<HostPath> {
        let value = self.unquoted(value).trim();
        [value, value.split_whitespace().next().unwrap_or_default()].into_iter().find_map(|name| {
            let path = self.host.path(name);
            if path.is_absolute() {
                return self.host.is_file(&path).then_some(path);
            }
            self.program(&[name.to_owned()])
        })
    }

    /// The folders of these compilers, without duplicates.
    fn beside(&self, list: &[Beside]) -> Vec<HostPath> {
        let compiler = |one: &Beside| {
            let named = self.host.env().get(&one.env).and_then(|value| self.named_program(value));
            named.or_else(|| self.program(&one.program))?.parent()
        };
        let mut folders: Vec<HostPath> = Vec::new();
        for folder in list.iter().filter_map(compiler) {
            if folders.iter().all(|known| known.key() != folder.key()) {
                folders.push(folder);
            }
        }
        folders
    }

    /// The places of a step, each with its rule, which describes it to the user.
    fn places(&self, step: &ResolverStep, aim: Aim, before: Option<&HostPath>) -> Vec<(HostPath, String)> {
        if let Some(name) = &step.env {
            let Some(value) = self.host.env().get(name) else { return Vec::new() };
            let rule = format!("`{name}`");
            if step.list {
                let separator = if self.host.platform().os == Os::Windows { ';' } else { ':' };
                let parts = value.split(separator).filter(|part| !part.trim().is_empty());
                return parts.map(|part| (self.place(part), rule.clone())).collect();
            }
            if aim == Aim::Compiler && step.sub.is_empty() {
                return self.named_program(value).map(|path| (path, rule)).into_iter().collect();
            }
            return vec![(self.place(value), rule)];
        }
        if !step.program.is_empty() {
            let found = self.program(&step.program);
            let rule = |path: &HostPath| format!("`{}` on PATH", path.file_name().unwrap_or_default());
            return found.map(|path| (path.clone(), rule(&path))).into_iter().collect();
        }
        if step.folders {
            let rule = |folder: &HostPath| format!("`{folder}` on PATH");
            return self.path.iter().map(|folder| (folder.clone(), rule(folder))).collect();
        }
        if step.prefixes {
            let prefix = |folder: &HostPath| {
                matches!(folder.file_name(), Some("bin" | "sbin" | "Bin")).then(|| folder.parent()).flatten()
            };
            let rule = |folder: &HostPath| format!("`{folder}` on PATH");
            return self.path.iter().filter_map(|folder| Some((prefix(folder)?, rule(folder)))).collect();
        }
        if !step.beside.is_empty() {
            let rule = "next to a compiler".to_owned();
            return self.beside(&step.beside).into_iter().map(|folder| (folder, rule.clone())).collect();
        }
        if !step.library.is_empty() {
            let found = |name: &String| {
                Some((self.loader.find(name)?, format!("`{name}` found by the system's loader")))
            };
            return step.library.iter().find_map(found).into_iter().collect();
        }
        if step.relative {
            let rule = "next to the compiler".to_owned();
            return before.map(|compiler| (compiler.clone(), rule)).into_iter().collect();
        }
        self.known(step)
    }

    fn known(&self, step: &ResolverStep) -> Vec<(HostPath, String)> {
        let mut places: Vec<HostPath> = Vec::new();
        for pattern in &step.known {
            let Some(filled) = fill(pattern, self.host) else { continue };
            let head =
                self.host.path(&filled).file_name().and_then(|name| name.split('*').next()).map(str::len);
            places.extend(expand(self.host, &filled).into_iter().filter(|place| {
                let rest = place.file_name().and_then(|name| name.get(head?..));
                !step.numbered || rest.is_some_and(is_release)
            }));
        }
        sort(&mut places, step.order);
        places.into_iter().map(|place| (place.clone(), format!("`{place}`"))).collect()
    }

    fn try_step(&self, step: &ResolverStep, aim: Aim, before: Option<&HostPath>) -> StepMatch {
        let mut places = self.places(step, aim, before);
        if step.single {
            places.truncate(1);
        }
        let mut misled = None;
        for (place, rule) in places {
            let rule = step.rule.clone().unwrap_or(rule);
            let Some(base) = self.base(step, &place) else { continue };
            for candidate in self.candidates(step, &base) {
                if step.leads.is_empty() {
                    if self.fits(step, aim, &candidate) {
                        return StepMatch::Found(candidate, rule);
                    }
                    continue;
                }
                let found = candidate.file_name().and_then(Version::find_in);
                let Some(found) = found.map(|version| version.as_str().to_owned()) else { continue };
                let lead = |template: &String| {
                    let text =
                        template.replace("{found}", &found).replace("{found_}", &found.replace('.', "_"));
                    Some(self.place(&fill(&text, self.host)?)).filter(|path| self.host.exists(path))
                };
                match step.leads.iter().find_map(lead) {
                    Some(path) => return StepMatch::Found(path, rule),
                    None => misled = Some(found),
                }
            }
        }
        misled.map_or(StepMatch::Nothing, StepMatch::Misled)
    }

    /// The folder that the paths in `sub` are relative to.
    fn base(&self, step: &ResolverStep, place: &HostPath) -> Option<HostPath> {
        let followed = if step.follow { self.host.canonical(place).ok()? } else { place.clone() };
        let mut base = go_up(&followed, step.up);
        if let Some(last) = &step.drop_last
            && base.file_name() == Some(last.as_str())
        {
            base = go_up(&base, 1);
        }
        Some(base)
    }

    fn candidates(&self, step: &ResolverStep, base: &HostPath) -> Vec<HostPath> {
        if step.sub.is_empty() {
            return vec![base.clone()];
        }
        let mut all = Vec::new();
        for sub in &step.sub {
            let Some(filled) = fill(sub, self.host) else { continue };
            let mut found = expand(self.host, base.join(&filled).normalized().as_str());
            sort(&mut found, step.order);
            all.extend(found);
        }
        all
    }

    fn fits(&self, step: &ResolverStep, aim: Aim, candidate: &HostPath) -> bool {
        if !candidate.is_absolute() {
            return false;
        }
        let Ok(stat) = self.host.stat(candidate) else { return step.trust };
        let right = match aim {
            Aim::Compiler if step.env.is_some() => stat.kind == FileKind::File,
            Aim::Compiler => stat.kind == FileKind::File && stat.executable && !self.is_wrapper(candidate),
            Aim::Root => true,
        };
        right && (step.needs.is_empty() || self.has_any(candidate, &step.needs))
    }

    /// Whether a pattern matches an existing path.
    pub(super) fn matches_existing(&self, pattern: &str) -> bool {
        fill(pattern, self.host).is_some_and(|filled| !expand(self.host, &filled).is_empty())
    }

    /// Whether one of these paths exists below a folder.
    pub(super) fn has_any(&self, folder: &HostPath, paths: &[String]) -> bool {
        paths.iter().any(|path| {
            fill(path, self.host)
                .is_some_and(|path| !expand(self.host, folder.join(&path).as_str()).is_empty())
        })
    }
}

enum StepMatch {
    Found(HostPath, String),
    Nothing,
    /// A name with this version was found, but the paths derived from it do not exist.
    Misled(String),
}

/// Whether a version of a tool is in the range. An unknown version counts as the newest.
pub(super) fn is_in_range(tool: Option<&Version>, since: Option<&Version>, before: Option<&Version>) -> bool {
    since.is_none_or(|since| tool.is_none_or(|tool| tool >= since))
        && before.is_none_or(|before| tool.is_some_and(|tool| tool < before))
}

fn sort(places: &mut [HostPath], order: PlaceOrder) {
    let name = |place: &HostPath| place.file_name().unwrap_or_default().to_owned();
    match order {
        PlaceOrder::Listed => {}
        PlaceOrder::Name => places.sort_indirect_by_key(|place| name(place).to_lowercase()),
        PlaceOrder::Newest => places.sort_indirect_by(|left, right| natural_order(&name(right), &name(left))),
    }
}

/// Whether a text is one or two digits, a dot and one digit: CMake's pattern for a release in a folder's name.
fn is_release(text: &str) -> bool {
    let Some((major, minor)) = text.split_once('.') else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(major) && major.len() <= 2 && digits(minor) && minor.len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_one_digit_after_the_dot() {
        for (text, expected) in [
            ("12.4", true),
            ("9.2", true),
            ("12.10", false),
            ("12", false),
            ("12.4.1", false),
            ("x.1", false),
        ] {
            assert_eq!(is_release(text), expected, "{text}");
        }
    }
}
