//! `gpubuild audit`: what a build produced against what was promised. Instruction sets by disassembly, libraries and the
//! folders that they are searched in, versions of the C library, segments, C runtimes, size.
//!
//! [`examine`] reads the files (thin), [`code`], [`origin`], [`level`] and [`structure`] judge (pure). Nothing is started
//! and nothing is loaded.

pub mod code;
pub mod level;
mod linkage;
pub mod origin;
pub mod structure;
mod tell;

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::isa::{self, Processor, Promise};
use gpubuild_core::version::Version;
use gpubuild_detect::finding::FindingDraft;
use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_linker::symbols;
use gpubuild_object as object;
use gpubuild_object::ObjectFile;
use gpubuild_plan::artifacts::{Artifact, BuiltTree, Manifest};

use crate::report::audit::{AuditedFile, Isa};
use code::Code;
use level::{Judged, Surroundings, Use};
use origin::{Origins, ToolchainOrigin};
use structure::Structure;

/// What is audited.
#[derive(Debug, Default)]
pub struct AuditRequest {
    /// Files by path, of which nothing is known but what they hold.
    pub files: Vec<HostPath>,
    /// Everything that a build produced.
    pub manifest: Option<Manifest>,
    /// The program that was linked with it.
    pub program: Option<Artifact>,
    /// What files have to keep to.
    pub limits: AuditLimits,
    /// How much is looked at.
    pub depth: Depth,
}

/// How much is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Depth {
    /// Everything.
    #[default]
    Full,
    /// What a build looks at when it is done: what keeps others from starting the result.
    Build,
}

/// What files have to keep to: `[audit]` of gpubuild.toml and flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditLimits {
    /// A level or a processor that everybody's code keeps to, with its name and where it was said.
    pub cpu: Option<(String, String)>,
    /// The newest versions that may be needed: `GLIBC`, `GLIBCXX`, `CXXABI`.
    pub versions: BTreeMap<String, Version>,
    /// The largest file, and the text that said so.
    pub max_size: Option<(u64, String)>,
}

/// Its result.
#[derive(Debug, Clone, Default)]
pub struct Audit {
    /// What the files are.
    pub files: Vec<AuditedFile>,
    /// What is to be said.
    pub drafts: Vec<FindingDraft>,
}

/// A file under audit.
struct AuditSubject<'a> {
    path: HostPath,
    built: Option<&'a Artifact>,
    tree: Option<&'a BuiltTree>,
    data: Vec<u8>,
    codes: Result<Vec<Code>, String>,
    /// What the loader sees; `None` for archives and object files.
    binary: Option<ObjectFile>,
}

impl AuditSubject<'_> {
    fn kind(&self) -> &str {
        match (self.built, &self.binary) {
            (Some(built), _) => &built.kind,
            (None, Some(binary)) => match binary.kind {
                object::ObjectKind::Program => "executable",
                object::ObjectKind::Library => "shared",
            },
            (None, None) if self.data.starts_with(b"!<arch>\n") => "static",
            (None, None) => "object",
        }
    }

    fn machine(&self) -> Option<&'static str> {
        self.codes.iter().flatten().find_map(|code| code.machine)
    }
}

/// Looks into everything that was asked for.
#[must_use]
pub fn examine(host: &dyn ReadFiles, request: &AuditRequest) -> Audit {
    let mut audit = Audit::default();
    let subjects = subjects(host, request, &mut audit.drafts);
    let mut judged_functions = BTreeSet::new();
    let mut notes = Vec::new();
    for subject in &subjects {
        let structure = structure::read(&subject.data);
        let mut file = describe(subject, &structure);
        let processor = subject.machine().and_then(|name| isa::table().processor(name));
        match processor {
            Some(processor) => {
                let (isa, drafts) = levels(subject, processor, request, &subjects, &judged_functions);
                file.isa = Some(isa);
                audit.drafts.extend(drafts);
            }
            None => audit.drafts.extend(tell::unread(subject)),
        }
        if matches!(subject.kind(), "static" | "object") {
            let global = subject.codes.iter().flatten().flat_map(|code| &code.global);
            judged_functions.extend(global.cloned());
        }
        audit.drafts.extend(linkage::drafts(host, subject, request));
        if request.depth == Depth::Full {
            audit.drafts.extend(tell::structure(subject, &structure, &request.limits));
            audit.drafts.extend(tell::budget(subject, &request.limits));
            audit.drafts.extend(tell::device_code(subject));
            notes.extend(tell::paths(subject, request));
        }
        audit.files.push(file);
    }
    if request.depth == Depth::Full {
        audit.drafts.extend(tell::duplicates(&defined(&subjects)));
        audit.drafts.extend(tell::runtimes(&subjects));
        audit.drafts.extend(notes);
    }
    audit
}

/// Reads every file. One that can't be read, or is not what was built, is a finding.
fn subjects<'a>(
    host: &dyn ReadFiles,
    request: &'a AuditRequest,
    drafts: &mut Vec<FindingDraft>,
) -> Vec<AuditSubject<'a>> {
    let trees = request.manifest.iter().flat_map(|manifest| &manifest.trees);
    let built = trees.flat_map(|tree| tree.files.iter().map(move |file| (file, Some(tree))));
    let program = request.program.iter().map(|program| (program, None));
    // What goes into others comes first: its functions are not judged a second time where they were linked.
    let mut built: Vec<_> = built.chain(program).collect();
    built.sort_by_key(|(file, tree)| (tree.is_none(), file.kind != "static"));
    let paths = built.into_iter().map(|(file, tree)| (host.path(&file.path), Some(file), tree));
    let named = request.files.iter().map(|path| (path.clone(), None, None));
    let mut subjects = Vec::new();
    for (path, built, tree) in paths.chain(named) {
        let data = match host.read(&path) {
            Ok(data) => data,
            Err(error) => {
                drafts.push(tell::unreadable(&path, &error.to_string()));
                continue;
            }
        };
        if built.is_some_and(|built| {
            built.bytes != data.len() as u64 || built.sha256 != gpubuild_exec::store::sha256(&data)
        }) {
            drafts.push(tell::changed(&path));
        }
        let codes = code::read(&data);
        if let (Err(error), None) = (&codes, built) {
            drafts.push(tell::unreadable(&path, error));
            continue;
        }
        let binary = object::read(host, &path, host.platform().arch).ok();
        subjects.push(AuditSubject { path, built, tree, data, codes, binary });
    }
    subjects
}

fn describe(subject: &AuditSubject<'_>, structure: &Structure) -> AuditedFile {
    let highest = |kind: &str| {
        let versions = structure.versions.get(kind)?.keys().filter_map(|text| text.parse::<Version>().ok());
        versions.max().map(|version| version.as_str().to_owned())
    };
    let binary = subject.binary.as_ref();
    let device_code =
        subject.built.map(|built| built.device_code.iter().map(|code| code.arch.clone()).collect());
    let in_binary = || {
        let cuda = binary?.cuda.kernels.iter().map(|kernel| match kernel.kind {
            object::KernelKind::Ptx => kernel.arch.sm().replace("sm_", "compute_"),
            _ => kernel.arch.sm(),
        });
        Some(cuda.chain(binary?.hip.targets.iter().cloned()).collect::<BTreeSet<String>>())
    };
    let device_code: BTreeSet<String> =
        device_code.filter(|code: &BTreeSet<String>| !code.is_empty()).or_else(in_binary).unwrap_or_default();
    AuditedFile {
        path: subject.path.to_string(),
        kind: subject.kind().to_owned(),
        target: subject.built.map(|built| built.target.clone()),
        machine: subject.machine().map(str::to_owned).or_else(|| Some(binary?.machine.name.to_owned())),
        bytes: subject.data.len() as u64,
        isa: None,
        device_code: device_code.into_iter().collect(),
        needed: binary
            .map(|binary| binary.needed.iter().map(|needed| needed.name.clone()).collect())
            .unwrap_or_default(),
        rpath: binary.map(|binary| linkage::folders(binary).cloned().collect()).unwrap_or_default(),
        glibc: highest("GLIBC"),
        glibcxx: highest("GLIBCXX"),
        cxxabi: highest("CXXABI"),
        runtimes: structure.runtimes.keys().map(|runtime| runtime.flag().to_owned()).collect(),
    }
}

/// What a file may use everywhere, in words, and who says so.
fn promise(
    subject: &AuditSubject<'_>,
    processor: &Processor,
    limits: &AuditLimits,
) -> (Promise, String, Vec<String>) {
    let named = limits.cpu.as_ref().and_then(|(name, from)| Some((processor.cpu(name)?, name, from)));
    if let Some((promise, name, from)) = named {
        return (promise, name.clone(), vec![from.clone()]);
    }
    let Some(tree) = subject.tree else {
        return (Promise::default(), words(processor, &Promise::default()), Vec::new());
    };
    let (promise, from) = processor.options(&tree.promises);
    let words = words(processor, &promise);
    (promise, words, from)
}

/// `x86-64-v3`, `x86-64 with avx avx2`, `native`.
fn words(processor: &Processor, promise: &Promise) -> String {
    if promise.native {
        return "native".to_owned();
    }
    let base = processor.cpus().next().unwrap_or_default();
    let exact = processor
        .level(&promise.features)
        .filter(|level| processor.cpu(level).is_some_and(|level| level.features == promise.features));
    match exact {
        Some(level) => level.to_owned(),
        None if promise.features.is_empty() => base.to_owned(),
        None => {
            let list: Vec<&str> = promise.features.iter().map(String::as_str).collect();
            format!("{base} with {}", list.join(" "))
        }
    }
}

/// The instruction sets of a file against the promise.
fn levels(
    subject: &AuditSubject<'_>,
    processor: &Processor,
    request: &AuditRequest,
    subjects: &[AuditSubject<'_>],
    judged_functions: &BTreeSet<String>,
) -> (Isa, Vec<FindingDraft>) {
    let (promise, promised, promised_by) = promise(subject, processor, &request.limits);
    let same_tree = |other: &&AuditSubject<'_>| match (other.tree, subject.tree) {
        (Some(other), Some(own)) => other.id == own.id,
        _ => other.path == subject.path,
    };
    let related = subjects.iter().filter(same_tree).flat_map(|other| other.codes.iter().flatten());
    let asks = related.clone().find_map(|code| code.asks.clone());
    let none = BTreeSet::new();
    let is_linked = matches!(subject.kind(), "executable" | "shared" | "module");
    let around = Surroundings {
        processor,
        promise: &promise,
        asks: asks.is_some(),
        is_module: subject.kind() == "module",
        // A file that was named by itself is judged by itself.
        judged: if is_linked && subject.built.is_some() { judged_functions } else { &none },
    };
    let origins = subject.tree.map(|tree| Origins::new(tree, processor));
    let target = subject.built.map(|built| built.target.as_str()).unwrap_or_default();
    let mut all = Judged::default();
    for code in subject.codes.iter().flatten() {
        let origin = match (&origins, &code.member) {
            (Some(origins), Some(member)) => origins.of_member(target, member),
            (Some(origins), None) => origins.of_target(target),
            (None, _) => ToolchainOrigin::Unknown,
        };
        let one = level::judge(code, &origin, &around);
        all.above.extend(one.above);
        all.dispatched.extend(one.dispatched);
        all.perhaps.extend(one.perhaps);
        all.unguarded.extend(one.unguarded);
    }
    let sets = |lists: &[&Vec<Use>]| -> Vec<String> {
        let uses = lists.iter().flat_map(|list| list.iter()).flat_map(|one| one.features.iter().cloned());
        uses.collect::<BTreeSet<_>>().into_iter().collect()
    };
    let isa = Isa {
        above: sets(&[&all.above]),
        dispatched: sets(&[&all.dispatched, &all.perhaps, &all.unguarded]),
        promised: promised.clone(),
        promised_by: promised_by.clone(),
    };
    let told = tell::AuditFinding {
        processor,
        promised: &promised,
        promised_by: &promised_by,
        asks: asks.as_deref(),
    };
    let mut drafts = tell::levels(subject, &all, &told);
    // Code that keeps to the baseline runs everywhere, whatever it was allowed to use.
    if promise.native && subject.codes.iter().flatten().any(|code| !code.functions.is_empty()) {
        drafts.extend(tell::native(subject, &promised_by));
    }
    (isa, drafts)
}

/// The symbols of every archive, in the order of the link line as far as it is known.
fn defined(subjects: &[AuditSubject<'_>]) -> Vec<(String, BTreeSet<String>)> {
    let archives = subjects.iter().filter(|subject| subject.kind() == "static");
    archives
        .filter_map(|subject| Some((subject.path.to_string(), symbols::defined(&subject.data).ok()?)))
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A tree without anything in it.
    pub(crate) fn tree() -> BuiltTree {
        BuiltTree {
            interface: gpubuild_plan::artifacts::BuiltInterface::default(),
            folder: None,
            extra: Vec::new(),
            abi: BTreeMap::new(),
            id: "cpu".into(),
            backends: Vec::new(),
            key: String::new(),
            source: "/src".into(),
            build: "/build".into(),
            generator: "Ninja".into(),
            cmake: "3.31".into(),
            cache: BTreeMap::new(),
            files: Vec::new(),
            link: Vec::new(),
            compilers: BTreeMap::new(),
            compile: Vec::new(),
            promises: BTreeMap::new(),
        }
    }

    #[test]
    fn a_promise_has_words() {
        let x86 = isa::table().processor("x86_64").unwrap();
        let check = |flags: &str, expected: &str| {
            assert_eq!(words(x86, &x86.flags(flags.split(' '))), expected, "{flags}");
        };
        check("-O2", "x86-64");
        check("-march=x86-64-v3", "x86-64-v3");
        check("-mavx", "x86-64 with avx popcnt sse3 sse4.1 sse4.2 ssse3");
        check("-march=native", "native");
    }
}
