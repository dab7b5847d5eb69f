//! Whether nvcc supports the installed host compiler and C library.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Affects, Evidence, EvidenceKind, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::rules::{VersionWindow, window_number};
use gpubuild_detect::toolkit::{Description, Installation};
use gpubuild_host::{HostPath, Os};

use crate::DiagnosisCase;
use crate::advice::{self, AdviceQuery};
use crate::checks::cuda_toolkit::{chosen, evidence, is_blocked_by, release, with_toolkit};

/// nvcc does not support this version of GCC.
pub(super) fn gcc(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    outside(case, "gcc", id!("cuda.host.gcc-too-new"))
}

/// nvcc does not support this version of Clang.
pub(super) fn clang(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    outside(case, "clang", id!("cuda.host.clang-window"))
}

/// The compiler that nvcc uses by default and does not support.
struct RefusedCompiler<'a> {
    /// What selects it: a variable, a file, or PATH.
    origin: &'a str,
    program: &'a HostPath,
    number: u64,
}

fn outside(case: &DiagnosisCase<'_>, family: &str, id: DiagnosticId) -> Vec<FindingDraft> {
    let (Some(copy), Some(description)) = (chosen(case), case.catalogue.get("cuda")) else {
        return Vec::new();
    };
    if case.facts.platform.os != Os::Linux {
        return Vec::new();
    }
    let Some(window) = description.host_compiler_window(copy, family) else { return Vec::new() };
    let refused = refused(case, family, &window);
    let blocked = is_blocked_by(case, id);
    if refused.is_none() && !blocked {
        return Vec::new();
    }
    let fitting = fitting(case, description, copy);
    let by_default = refused.as_ref().is_some_and(|refused| refused.origin == "PATH");
    let is_debians = case.signs.cuda_toolkit.debian.is_some() && copy.root.as_str() == "/usr";
    if by_default && is_debians && fitting.is_some() {
        // Debian's package depends on a supported GCC and passes it to its nvcc.
        return Vec::new();
    }
    let mut draft = FindingDraft::new(id)
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("version", release(copy))
        .value("window", window.describe(refused.as_ref().map(|refused| refused.number)))
        .evidence(limit(copy, family, &window))
        .evidence(evidence(copy));
    if let Some(refused) = &refused {
        draft = draft
            .value("found", refused.number.to_string())
            .value("program", refused.program.as_str())
            .value("origin", refused.origin)
            .evidence(Evidence::file(refused.program.as_str(), format!("version {}", refused.number)));
        if refused.origin != "PATH" {
            draft = draft.value("named", format!("`{}` names", refused.origin));
        }
    }
    for version in versions(case, family) {
        draft = draft.evidence(version);
    }
    if let Some(fitting) = fitting {
        let named = refused.as_ref().is_some_and(|refused| refused.origin != "PATH");
        // gpubuild uses the supported compiler; other builds use the unsupported one.
        let kind = if named { FindingKind::Fault } else { FindingKind::Caution };
        let case = if named { "named" } else { "beside" };
        return vec![draft.kind(kind).case(case).value("cxx", fitting.as_str())];
    }
    let max = window.max.unwrap_or(u64::MAX);
    let draft = match advice::gcc(case.facts, max, window.min.unwrap_or(0)).filter(|_| family == "gcc") {
        Some(compiler) => draft
            .value("gcc", compiler.major.to_string())
            .value("cxx", compiler.program)
            .steps("install_gcc", vec![compiler.command]),
        None => draft.case("toolkit"),
    };
    let number = refused.as_ref().map(|refused| refused.number).or_else(|| newest(case, family));
    let query =
        AdviceQuery { compiler: number.map(|number| (family.to_owned(), number)), ..AdviceQuery::default() };
    vec![with_toolkit(case, draft, &query)]
}

/// The host compiler that nvcc uses by default, if it belongs to this family and is not supported.
fn refused<'a>(
    case: &DiagnosisCase<'a>,
    family: &str,
    window: &VersionWindow,
) -> Option<RefusedCompiler<'a>> {
    let compiler = case.signs.cuda_build.host_compiler.as_ref()?;
    let copy =
        case.inventory.of(family).iter().find(|copy| is_program(copy, &compiler.program, &compiler.real));
    let version = match copy {
        Some(copy) => copy.version().cloned(),
        None => version_of_name(family, &compiler.real),
    };
    let number = window_number(&version?, family);
    (!window.contains(number)).then_some(RefusedCompiler {
        origin: &compiler.origin,
        program: &compiler.program,
        number,
    })
}

/// Whether a copy is this program, under its C or C++ name.
fn is_program(copy: &Installation, program: &HostPath, real: &HostPath) -> bool {
    let parts = [copy.part("program"), copy.part("cxx")];
    parts.into_iter().flatten().any(|part| part.key() == program.key() || part.key() == real.key())
}

/// The version in the name of a compiler that detection did not find: `g++-13`, `x86_64-linux-gnu-gcc-13`.
fn version_of_name(family: &str, real: &HostPath) -> Option<Version> {
    let name = real.file_name()?;
    let is_family = match family {
        "gcc" => name.contains("gcc") || name.contains("g++"),
        _ => name.contains("clang"),
    };
    let digits = name.rsplit('-').next().filter(|_| is_family)?;
    digits.parse().ok()
}

/// The C++ compiler that this toolkit supports: the newest GCC, otherwise the newest Clang.
fn fitting(case: &DiagnosisCase<'_>, description: &Description, copy: &Installation) -> Option<HostPath> {
    ["gcc", "clang"].iter().find_map(|family| {
        let window = description.host_compiler_window(copy, family)?;
        let fits = |one: &&Installation| {
            one.is_complete()
                && one.version().is_some_and(|version| window.contains(window_number(version, family)))
        };
        let best = case
            .inventory
            .of(family)
            .iter()
            .filter(fits)
            .max_by(|left, right| left.version().cmp(&right.version()))?;
        best.part("cxx").cloned()
    })
}

/// The C++ compiler that the chosen toolkit supports. Without a toolkit, the first one.
pub(in crate::checks) fn host_compiler(case: &DiagnosisCase<'_>) -> Option<HostPath> {
    let description = case.catalogue.get("cuda")?;
    match chosen(case) {
        Some(copy) => fitting(case, description, copy),
        None => case.inventory.of("gcc").iter().find_map(|copy| copy.part("cxx").cloned()),
    }
}

/// Evidence of the limit: the toolkit's header, otherwise the table row.
fn limit(copy: &Installation, family: &str, window: &VersionWindow) -> Evidence {
    let stated = ["max", "below"].iter().find_map(|suffix| copy.limits.get(&format!("{family}-{suffix}")));
    let stated = stated.and_then(|fact| fact.evidence.first()).cloned();
    stated.unwrap_or_else(|| Evidence::file(window.source.clone(), window.describe(None)))
}

/// Evidence of the versions of the installed compilers.
fn versions(case: &DiagnosisCase<'_>, family: &str) -> Vec<Evidence> {
    let copies = case.inventory.of(family).iter();
    copies.filter_map(|copy| copy.version.as_ref()?.evidence.first().cloned()).take(3).collect()
}

fn newest(case: &DiagnosisCase<'_>, family: &str) -> Option<u64> {
    case.inventory.of(family).iter().filter_map(|copy| Some(window_number(copy.version()?, family))).max()
}

/// nvcc does not support this version of Microsoft's compiler.
pub(super) fn msvc(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("cuda.host.msvc-window");
    let (Some(copy), Some(description)) = (chosen(case), case.catalogue.get("cuda")) else {
        return Vec::new();
    };
    let Some(window) = description.host_compiler_window(copy, "msvc") else { return Vec::new() };
    let copies = case.inventory.of("msvc");
    // Builds use the compiler of the developer prompt, otherwise the newest.
    let first =
        copies.iter().find(|one| one.found_via.iter().any(|via| via == "path" || via.starts_with("env:")));
    let selected = first.or_else(|| copies.iter().max_by(|left, right| left.version().cmp(&right.version())));
    let Some((selected, version)) = selected.and_then(|selected| Some((selected, selected.version()?)))
    else {
        return Vec::new();
    };
    let number = window_number(version, "msvc");
    if case.facts.platform.os != Os::Windows || window.contains(number) {
        return Vec::new();
    }
    let mut draft = FindingDraft::new(id)
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("version", release(copy))
        .value("window", range(&window))
        .value("found", number.to_string())
        .value("toolset", version.to_string())
        .evidence(limit(copy, "msvc", &window))
        .evidence(evidence(copy))
        .evidence(Evidence::file(selected.root.as_str(), version.as_str()));
    if let Some(max) = window.max.filter(|max| number > *max) {
        // 1939 is toolset 14.39 of Visual Studio 2022.
        draft = draft.value("newest", format!("14.{}", max - 1900));
    }
    let fitting = copies
        .iter()
        .filter_map(|one| one.version())
        .filter(|version| window.contains(window_number(version, "msvc")))
        .max();
    if let Some(fitting) = fitting {
        return vec![draft.kind(FindingKind::Caution).case("beside").value("fitting", fitting.release())];
    }
    let query = AdviceQuery { compiler: Some(("msvc".to_owned(), number)), ..AdviceQuery::default() };
    vec![with_toolkit(case, draft, &query)]
}

/// Visual Studio is installed, but its compiler is not on PATH. Direct calls of nvcc need the developer prompt.
pub(super) fn cl_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    if case.facts.platform.os != Os::Windows || chosen(case).is_none() {
        return Vec::new();
    }
    let draft = FindingDraft::new(id!("cuda.host.cl-missing")).backend(Backend::Cuda).affects(Affects::Build);
    if let Some((variable, program)) = mingw_named(case) {
        let draft = draft.case("named").value("variable", variable).value("program", program);
        return vec![draft.evidence(Evidence::env(variable, program))];
    }
    let copies = case.inventory.of("msvc");
    let Some(copy) = copies.iter().find(|copy| copy.is_complete()) else {
        let is_blocked = is_blocked_by(case, id!("cuda.host.cl-missing"));
        let mut draft = draft.evidence(Evidence::env("PATH", "no cl.exe"));
        if let Some(program) = case.inventory.of("gcc").iter().find_map(|copy| copy.part("cxx")) {
            let found = Evidence::file(program.as_str(), "present");
            draft = draft.case("mingw").value("program", program.as_str()).evidence(found);
        }
        return if is_blocked { vec![draft] } else { Vec::new() };
    };
    let in_prompt =
        copies.iter().any(|copy| copy.found_via.iter().any(|via| via == "path" || via.starts_with("env:")));
    if in_prompt || case.env.get("NVCC_CCBIN").is_some() {
        return Vec::new();
    }
    // Other generators use the compiler on PATH; the Visual Studio generators find it without PATH.
    let plain = case.env.get("CMAKE_GENERATOR").filter(|name| !name.starts_with("Visual Studio"));
    let msys = case.env.get("MSYSTEM");
    let mut draft = draft
        .case(if msys.is_some() { "msys" } else { "prompt" })
        .value("folder", copy.root.as_str())
        .evidence(Evidence::file(copy.part("program").unwrap_or(&copy.root).as_str(), "present"))
        .evidence(Evidence::env("PATH", "no cl.exe"));
    if let Some(vcvars) = vcvars(&copy.root) {
        draft = draft.value("vcvars", vcvars);
    }
    // CMake's default generator in an MSYS2 shell is Ninja or a kind of Make, not Visual Studio.
    vec![match (plain, msys) {
        (Some(generator), _) => {
            draft.kind(FindingKind::Fault).evidence(Evidence::env("CMAKE_GENERATOR", generator))
        }
        (None, Some(shell)) if case.env.get("CMAKE_GENERATOR").is_none() => {
            draft.kind(FindingKind::Fault).evidence(Evidence::env("MSYSTEM", shell))
        }
        (None, _) => draft.kind(FindingKind::Note),
    }]
}

/// A compiler of MinGW that a variable names as nvcc's host compiler.
fn mingw_named<'a>(case: &'a DiagnosisCase<'_>) -> Option<(&'static str, &'a str)> {
    let is_mingw = |value: &str| {
        let name = value.rsplit(['/', '\\']).next().unwrap_or(value).to_lowercase();
        ["g++", "gcc", "c++"].iter().any(|end| name.trim_end_matches(".exe").ends_with(end))
    };
    ["CUDAHOSTCXX", "NVCC_CCBIN"]
        .into_iter()
        .find_map(|name| Some((name, case.env.get(name).filter(|value| is_mingw(value))?)))
}

/// `vcvars64.bat` of the Visual Studio that contains the compiler in this folder.
fn vcvars(folder: &HostPath) -> Option<String> {
    let text = folder.as_str();
    let end = text.find(r"\VC\Tools\MSVC\")?;
    Some(format!(r"{}\VC\Auxiliary\Build\vcvars64.bat", &text[..end]))
}

fn range(window: &VersionWindow) -> String {
    match (window.min, window.max) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        (None, Some(max)) => format!("up to {max}"),
        (Some(min), None) => format!("{min} and newer"),
        (None, None) => "any".to_owned(),
    }
}

/// The toolkit's headers conflict with the headers of the C library.
pub(super) fn glibc(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("cuda.host.glibc");
    if !is_blocked_by(case, id) {
        return Vec::new();
    }
    let Some(copy) = chosen(case) else { return Vec::new() };
    let libc = case.facts.libc.as_ref();
    let mut draft =
        FindingDraft::new(id).backend(Backend::Cuda).affects(Affects::Build).evidence(evidence(copy));
    for evidence in libc.iter().flat_map(|fact| &fact.evidence).take(1) {
        draft = draft.evidence(evidence.clone());
    }
    if libc.is_some_and(|fact| fact.evidence.is_empty()) {
        draft = draft.evidence(Evidence::new(EvidenceKind::File, "libc.so.6", "present"));
    }
    let headers = copy.part("headers").map(|folder| folder.join("crt/math_functions.h").to_string());
    let draft = draft.value("header", headers.unwrap_or_default());
    let query = AdviceQuery::default();
    if advice::toolkit(case, &query).is_some() {
        return vec![with_toolkit(case, draft, &query)];
    }
    let devices = &case.matrix.verdict(Backend::Cuda).devices;
    let cards: Vec<&str> = devices.iter().map(|gpu| gpu.name.as_str()).collect();
    let libc = libc.map(|fact| fact.value.label()).unwrap_or_default();
    vec![draft.case("none-fits").value("cards", cards.join(", ")).value("libc", libc)]
}
