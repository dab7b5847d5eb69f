//! `gpubuild audit`: checks build outputs against declared requirements: instruction sets (by disassembly), needed libraries and their
//! search path, versions of the C library, segments, C runtimes and size.
//!
//! [`examine`] reads the files. The other modules examine their content without I/O. No file is executed or loaded.

pub mod code;
mod drafts;
pub mod level;
mod linkage;
pub mod origin;
pub mod structure;

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::isa::{self, AllowedFeatures, Processor};
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::FindingDraft;
use gpubuild_exec::store::hash_file;
use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_linker::archive::is_archive;
use gpubuild_linker::symbols;
use gpubuild_object as object;
use gpubuild_object::{ObjectBytes, ObjectFile};
use gpubuild_plan::artifacts::{Artifact, BuiltTree, Manifest};

use crate::report::audit::{AuditedFile, Isa};
use code::Code;
use level::{ClassifiedFunctions, CodeContext, FeatureUse};
use origin::{CompileOrigin, Origins};
use structure::Structure;

/// The files to audit and the requirements to check.
#[derive(Debug, Default)]
pub struct AuditRequest {
    /// Files that are audited by their content only.
    pub files: Vec<HostPath>,
    /// The manifest of a build, all of whose outputs are audited.
    pub manifest: Option<Manifest>,
    /// The program that was linked with the libraries of the build.
    pub program: Option<Artifact>,
    /// Patterns for libraries that the process has loaded before: PyTorch's, for an extension of it.
    pub loaded: Vec<String>,
    /// The limits that the files must respect.
    pub limits: AuditLimits,
    /// Which checks run.
    pub depth: Depth,
}

/// Which checks run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Depth {
    /// All checks.
    #[default]
    Full,
    /// The checks of `gpubuild build`: problems that keep the outputs from starting on other machines.
    Build,
}

/// The limits that files must respect, from `[audit]` in gpubuild.toml and from options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditLimits {
    /// The CPU level or processor that code must support, and the option or file that sets it.
    pub cpu: Option<(String, String)>,
    /// The newest symbol versions that files may require, by `GLIBC`, `GLIBCXX` and `CXXABI`.
    pub versions: BTreeMap<String, Version>,
    /// Maximum size of a file in bytes, and the limit as it was specified.
    pub max_size: Option<(u64, String)>,
}

/// The result of an audit.
#[derive(Debug, Clone, Default)]
pub struct Audit {
    /// The audited files.
    pub files: Vec<AuditedFile>,
    /// The findings, unsorted and not yet rendered.
    pub drafts: Vec<FindingDraft>,
}

/// A file under audit.
struct AuditSubject<'a> {
    path: HostPath,
    built: Option<&'a Artifact>,
    tree: Option<&'a BuiltTree>,
    bytes: u64,
    is_archive: bool,
    structure: Structure,
    /// The symbols that an archive defines.
    defined: BTreeSet<String>,
    /// How often the folders of the build occur in the file.
    folders: BTreeMap<String, usize>,
    codes: Result<Vec<Code>, String>,
    /// The headers that the loader reads; `None` for archives and object files.
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
            (None, None) if self.is_archive => "static",
            (None, None) => "object",
        }
    }

    /// Reads what the checks across files need.
    fn search(&mut self, host: &dyn ReadFiles, bytes: &ObjectBytes<'_>, request: &AuditRequest) {
        match self.kind() {
            "static" => self.defined = symbols::defined(bytes.data()).unwrap_or_default(),
            "executable" | "shared" | "module" => {
                let trees = request.manifest.iter().flat_map(|manifest| &manifest.trees);
                let folders = trees.flat_map(|tree| [&tree.source, &tree.build]).collect_set();
                let folders: Vec<&String> = folders.into_iter().filter(|folder| folder.len() > 2).collect();
                let texts: Vec<&[u8]> = folders.iter().map(|folder| folder.as_bytes()).collect();
                let mut counts = vec![0; texts.len()];
                // A file that cannot be read any more has no folders.
                let _ = object::scan(host, &self.path, &texts, |index, _| counts[index] += 1);
                self.folders = folders.into_iter().cloned().zip(counts).collect();
            }
            _ => {}
        }
    }

    fn machine(&self) -> Option<&'static str> {
        self.codes.iter().flatten().find_map(|code| code.machine)
    }
}

/// Audits all requested files.
#[must_use]
pub fn examine(host: &dyn ReadFiles, request: &AuditRequest) -> Audit {
    let mut audit = Audit::default();
    let subjects = subjects(host, request, &mut audit.drafts);
    let mut classified = BTreeSet::new();
    let mut notes = Vec::new();
    for subject in &subjects {
        let structure = &subject.structure;
        let mut file = describe(subject, structure);
        let processor = subject.machine().and_then(|name| isa::table().processor(name));
        match processor {
            Some(processor) => {
                let (isa, drafts) = levels(subject, processor, request, &subjects, &classified);
                file.isa = Some(isa);
                audit.drafts.extend(drafts);
            }
            None => audit.drafts.extend(drafts::unread(subject)),
        }
        if matches!(subject.kind(), "static" | "object") {
            let global = subject.codes.iter().flatten().flat_map(|code| &code.global);
            classified.extend(global.cloned());
        }
        audit.drafts.extend(linkage::drafts(host, subject, request));
        if request.depth == Depth::Full {
            audit.drafts.extend(drafts::structure(subject, structure, &request.limits));
            audit.drafts.extend(drafts::budget(subject, &request.limits));
            audit.drafts.extend(drafts::device_code(subject));
            notes.extend(drafts::paths(subject));
        }
        audit.files.push(file);
    }
    if request.depth == Depth::Full {
        audit.drafts.extend(drafts::duplicates(&defined(&subjects)));
        audit.drafts.extend(drafts::runtimes(&subjects));
        audit.drafts.extend(notes);
    }
    audit
}

/// Reads all files, one after the other: together they may not fit into memory. An unreadable file and a file that changed after the build are findings.
fn subjects<'a>(
    host: &dyn ReadFiles,
    request: &'a AuditRequest,
    drafts: &mut Vec<FindingDraft>,
) -> Vec<AuditSubject<'a>> {
    let trees = request.manifest.iter().flat_map(|manifest| &manifest.trees);
    let built = trees.flat_map(|tree| tree.files.iter().map(move |file| (file, Some(tree))));
    let program = request.program.iter().map(|program| (program, None));
    // Archives come first, so that their functions are not classified again in the files that they are linked into.
    let mut built: Vec<_> = built.chain(program).collect();
    built.sort_indirect_by_key(|(file, tree)| (tree.is_none(), file.kind != "static"));
    let paths = built.into_iter().map(|(file, tree)| (host.path(&file.path), Some(file), tree));
    let named = request.files.iter().map(|path| (path.clone(), None, None));
    let mut subjects = Vec::new();
    for (path, built, tree) in paths.chain(named) {
        let bytes = match ObjectBytes::open_sections(host, &path) {
            Ok(bytes) => bytes,
            Err(error) => {
                drafts.push(drafts::unreadable(&path, &error.to_string()));
                continue;
            }
        };
        let hash = || hash_file(host, &path).map(|(hash, _)| hash).ok();
        if built.is_some_and(|built| built.bytes != bytes.size() || Some(&built.sha256) != hash().as_ref()) {
            drafts.push(drafts::changed(&path));
        }
        let codes = code::read(bytes.data());
        if let (Err(error), None) = (&codes, built) {
            drafts.push(drafts::unreadable(&path, error));
            continue;
        }
        let mut subject = AuditSubject {
            built,
            tree,
            bytes: bytes.size(),
            is_archive: is_archive(bytes.data()),
            structure: structure::read(bytes.data()),
            defined: BTreeSet::new(),
            folders: BTreeMap::new(),
            codes,
            binary: object::read(host, &path, host.platform().arch).ok(),
            path,
        };
        if request.depth == Depth::Full {
            subject.search(host, &bytes, request);
        }
        subjects.push(subject);
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
        Some(cuda.chain(binary?.hip.targets.iter().cloned()).collect_set())
    };
    let device_code: BTreeSet<String> =
        device_code.filter(|code: &BTreeSet<String>| !code.is_empty()).or_else(in_binary).unwrap_or_default();
    AuditedFile {
        path: subject.path.to_string(),
        kind: subject.kind().to_owned(),
        target: subject.built.map(|built| built.target.clone()),
        machine: subject.machine().map(str::to_owned).or_else(|| Some(binary?.machine.name.to_owned())),
        bytes: subject.bytes,
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

/// The instruction sets that a file may use without a query of the processor, their description, and the options that allow them.
fn requirement(
    subject: &AuditSubject<'_>,
    processor: &Processor,
    limits: &AuditLimits,
) -> (AllowedFeatures, String, Vec<String>) {
    let named = limits.cpu.as_ref().and_then(|(name, from)| Some((processor.cpu(name)?, name, from)));
    if let Some((allowed, name, from)) = named {
        return (allowed, name.clone(), vec![from.clone()]);
    }
    let Some(tree) = subject.tree else {
        return (
            AllowedFeatures::default(),
            describe_features(processor, &AllowedFeatures::default()),
            Vec::new(),
        );
    };
    let (allowed, from) = processor.options(&tree.promises);
    let description = describe_features(processor, &allowed);
    (allowed, description, from)
}

/// `x86-64-v3`, `x86-64 with avx avx2`, `native`.
fn describe_features(processor: &Processor, allowed: &AllowedFeatures) -> String {
    if allowed.native {
        return "native".to_owned();
    }
    let base = processor.cpus().next().unwrap_or_default();
    let exact = processor
        .level(&allowed.features)
        .filter(|level| processor.cpu(level).is_some_and(|level| level.features == allowed.features));
    match exact {
        Some(level) => level.to_owned(),
        None if allowed.features.is_empty() => base.to_owned(),
        None => {
            let list: Vec<&str> = allowed.features.iter().map(String::as_str).collect();
            format!("{base} with {}", list.join(" "))
        }
    }
}

/// Compares the instruction sets of a file with the allowed ones.
fn levels(
    subject: &AuditSubject<'_>,
    processor: &Processor,
    request: &AuditRequest,
    subjects: &[AuditSubject<'_>],
    classified: &BTreeSet<String>,
) -> (Isa, Vec<FindingDraft>) {
    let (allowed, description, allowed_by) = requirement(subject, processor, &request.limits);
    let same_tree = |other: &&AuditSubject<'_>| match (other.tree, subject.tree) {
        (Some(other), Some(own)) => other.id == own.id,
        _ => other.path == subject.path,
    };
    let related = subjects.iter().filter(same_tree).flat_map(|other| other.codes.iter().flatten());
    let cpu_query = related.clone().find_map(|code| code.cpu_query.clone());
    let none = BTreeSet::new();
    let is_linked = matches!(subject.kind(), "executable" | "shared" | "module");
    let context = CodeContext {
        processor,
        allowed: &allowed,
        queries_cpu: cpu_query.is_some(),
        is_module: subject.kind() == "module",
        // A file that is not part of a build is classified completely.
        classified: if is_linked && subject.built.is_some() { classified } else { &none },
    };
    let origins = subject.tree.map(|tree| Origins::new(tree, processor));
    let target = subject.built.map(|built| built.target.as_str()).unwrap_or_default();
    let mut all = ClassifiedFunctions::default();
    for code in subject.codes.iter().flatten() {
        let origin = match (&origins, &code.member) {
            (Some(origins), Some(member)) => origins.of_member(target, member),
            (Some(origins), None) => origins.of_target(target),
            (None, _) => CompileOrigin::Unknown,
        };
        let one = level::classify(code, &origin, &context);
        all.above.extend(one.above);
        all.dispatched.extend(one.dispatched);
        all.perhaps.extend(one.perhaps);
        all.unguarded.extend(one.unguarded);
    }
    let sets = |lists: &[&Vec<FeatureUse>]| -> Vec<String> {
        let uses = lists.iter().flat_map(|list| list.iter()).flat_map(|one| one.features.iter().cloned());
        uses.collect_set().into_iter().collect()
    };
    let isa = Isa {
        above: sets(&[&all.above]),
        dispatched: sets(&[&all.dispatched, &all.perhaps, &all.unguarded]),
        promised: description.clone(),
        promised_by: allowed_by.clone(),
    };
    let requirement = drafts::IsaRequirement {
        processor,
        description: &description,
        allowed_by: &allowed_by,
        cpu_query: cpu_query.as_deref(),
    };
    let mut drafts = drafts::levels(subject, &all, &requirement);
    // Code that uses only the baseline runs on every processor, even if more was allowed.
    if allowed.native && subject.codes.iter().flatten().any(|code| !code.functions.is_empty()) {
        drafts.extend(drafts::native(subject, &allowed_by));
    }
    (isa, drafts)
}

/// The symbols that each archive defines.
fn defined(subjects: &[AuditSubject<'_>]) -> Vec<(String, BTreeSet<String>)> {
    let archives = subjects.iter().filter(|subject| subject.kind() == "static");
    archives.map(|subject| (subject.path.to_string(), subject.defined.clone())).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A tree without outputs.
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
    fn allowed_features_are_described() {
        let x86 = isa::table().processor("x86_64").unwrap();
        let check = |flags: &str, expected: &str| {
            assert_eq!(describe_features(x86, &x86.flags(flags.split(' '))), expected, "{flags}");
        };
        check("-O2", "x86-64");
        check("-march=x86-64-v3", "x86-64-v3");
        check("-mavx", "x86-64 with avx popcnt sse3 sse4.1 sse4.2 ssse3");
        check("-march=native", "native");
    }
}
