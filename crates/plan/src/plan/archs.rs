//! Selects the GPU architectures to build from the request, the devices and the toolkit, with a note for each that is left
//! out.

use gpubuild_core::arch::torch::torch_as_cmake;
use gpubuild_core::arch::{CudaArch, CudaCode, parse_cuda_list};
use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_detect::toolkit::range::{ArchSupport, CudaRange};
use gpubuild_host::Environment;

use crate::project::profile::{ArchSuffix, Profile};
use crate::project::{Archs, ProjectFile};

/// Requested architectures and their origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchSelection {
    /// The request: `auto`, `native`, `all`, `all-major` or a list.
    pub text: String,
    /// The origin for messages: `CUDAARCHS=90`, `gpubuild.toml`, `auto`.
    pub origin: String,
}

impl ArchSelection {
    /// For CUDA: the flag, then the variable of the project's profile (`TORCH_CUDA_ARCH_LIST`), then `CUDAARCHS` and `CUDA_COMPUTE_CAP`,
    /// which CMake and Rust crates read, then gpubuild.toml, then `auto`.
    #[must_use]
    pub fn cuda(flag: Option<&str>, env: &Environment, file: Option<&ProjectFile>) -> Self {
        if let Some(text) = flag {
            return Self { text: text.to_owned(), origin: format!("--cuda-archs {text}") };
        }
        let named = profile(file).and_then(|profile| profile.cuda_arch_list);
        if let Some(name) = named
            && let Some(value) = env.get(&name)
        {
            return Self { text: torch_as_cmake(value), origin: format!("{name}={value}") };
        }
        Self::resolve(env, &["CUDAARCHS", "CUDA_COMPUTE_CAP"], file, Backend::Cuda)
    }

    /// For ROCm: the variable of the project's profile (`PYTORCH_ROCM_ARCH`), then `AMDGPU_TARGETS`, then gpubuild.toml, then `auto`.
    #[must_use]
    pub fn rocm(env: &Environment, file: Option<&ProjectFile>) -> Self {
        let named = profile(file).and_then(|profile| profile.rocm_arch_variable);
        let variables: Vec<&str> = named.as_deref().into_iter().chain(["AMDGPU_TARGETS"]).collect();
        Self::resolve(env, &variables, file, Backend::Rocm)
    }

    /// The first variable that is set, then gpubuild.toml, then `auto`.
    fn resolve(env: &Environment, variables: &[&str], file: Option<&ProjectFile>, backend: Backend) -> Self {
        if let Some((name, value)) = variables.iter().find_map(|name| Some((*name, env.get(name)?))) {
            return Self { text: value.to_owned(), origin: format!("{name}={value}") };
        }
        match file.and_then(|file| file.backends.get(&backend)?.archs.as_ref()) {
            Some(Archs::Keyword(text)) => Self { text: text.clone(), origin: "gpubuild.toml".to_owned() },
            Some(Archs::List(list)) => Self { text: list.join(";"), origin: "gpubuild.toml".to_owned() },
            None => Self { text: "auto".to_owned(), origin: "auto".to_owned() },
        }
    }

    /// A note for the plan if a variable selects the architectures. `list` is that of gpubuild.toml.
    #[must_use]
    pub fn note(&self, list: Option<&Archs>) -> Option<String> {
        let is_variable = !self.origin.starts_with("--") && self.origin.contains('=');
        let replaced = if list.is_some() { ", which replaces `archs` of gpubuild.toml" } else { "" };
        is_variable.then(|| format!("architectures are those of {}{replaced}", self.origin))
    }
}

fn profile(file: Option<&ProjectFile>) -> Option<Profile> {
    Profile::builtin(&file?.project.profile)
}

/// The architectures to build, with notes and warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchPlan<T> {
    /// The architectures, sorted.
    pub list: Vec<T>,
    /// Notes for the user, one line each.
    pub notes: Vec<String>,
    /// Architectures that are built although it is not known whether the toolkit supports them.
    pub warnings: Vec<Reason>,
}

impl<T> ArchPlan<T> {
    fn of(list: Vec<T>) -> Self {
        Self { list, notes: Vec::new(), warnings: Vec::new() }
    }
}

/// Id of the warning for architectures that no table contains.
const NOT_IN_TABLE: DiagnosticId = id!("cuda.arch.not-in-table");

/// Selects the architectures for CUDA.
///
/// # Errors
/// An explicitly requested architecture is invalid or not supported, or no architecture is left.
pub fn cuda(
    selection: &ArchSelection,
    devices: &[CudaArch],
    range: &CudaRange,
    default: &[CudaArch],
) -> Result<ArchPlan<CudaArch>, Reason> {
    match selection.text.trim() {
        "auto" if devices.is_empty() => Ok(from_default(range, default)),
        "native" if devices.is_empty() => Err(Reason::new(
            id!("cuda.arch.native-no-gpu"),
            format!("`native` architectures were requested ({}), but no GPU was found", selection.origin),
        )
        .hint("list them, `archs = [\"80\", \"90\"]`, or use `auto`")),
        text @ ("auto" | "native") => for_devices(devices, range, text == "native", &selection.origin),
        "all" => Ok(real_and_one_ptx(range.numbers.iter().copied())),
        "all-major" => {
            let lowest = range.numbers.first().copied();
            Ok(real_and_one_ptx(range.numbers.iter().copied().filter(|n| n % 10 == 0 || Some(*n) == lowest)))
        }
        list => {
            let list = parse_cuda_list(list).map_err(|error| {
                Reason::new(id!("cuda.arch.invalid"), format!("{error} ({})", selection.origin))
                    .hint(known(range))
            })?;
            if list.is_empty() {
                return Err(Reason::new(
                    id!("cuda.arch.invalid"),
                    format!("no architecture is named ({})", selection.origin),
                )
                .hint(known(range)));
            }
            let mut plan = ArchPlan::of(Vec::new());
            for arch in list {
                plan.warnings.extend(supported(&arch, range, &selection.origin)?);
                plan.list.push(arch);
            }
            Ok(plan)
        }
    }
}

/// Joins machine code and PTX of the same architecture to one entry.
#[must_use]
pub fn joined(list: &[CudaArch]) -> Vec<CudaArch> {
    let is_ptx_of = |real: &CudaArch, other: &CudaArch| *other == real.with_code(CudaCode::Virtual);
    let mut joined: Vec<CudaArch> = Vec::new();
    for arch in list {
        let with_ptx = arch.code == CudaCode::Real && list.iter().any(|other| is_ptx_of(arch, other));
        let entry = if with_ptx { arch.with_code(CudaCode::Both) } else { arch.clone() };
        if !joined.iter().any(|known| is_ptx_of(&known.with_code(CudaCode::Real), &entry)) {
            joined.push(entry);
        }
    }
    joined
}

/// Adds the suffix that a project requires for some architectures. Also returns the changes as text for a note.
#[must_use]
pub fn with_suffix(list: Vec<CudaArch>, rule: Option<&ArchSuffix>) -> (Vec<CudaArch>, Option<String>) {
    let Some(rule) = rule else { return (list, None) };
    let mut changed = Vec::new();
    let list = list
        .into_iter()
        .map(|arch| {
            if arch.suffix.is_some() || !(rule.from..=rule.to).contains(&arch.number) {
                return arch;
            }
            let with = CudaArch { suffix: Some(rule.suffix), ..arch.clone() };
            changed.push(format!("{with} for {arch}"));
            with
        })
        .collect();
    (list, (!changed.is_empty()).then(|| changed.join(", ")))
}

/// Refuses an architecture that the toolkit is known not to support. Returns a warning if no table covers it.
fn supported(arch: &CudaArch, range: &CudaRange, origin: &str) -> Result<Option<Reason>, Reason> {
    let (Some(lowest), Some(highest)) = (range.numbers.first(), range.numbers.last()) else {
        return Ok(None);
    };
    let known = known(range);
    let renamed =
        range.other_name(arch).map(|other| format!("use `{other}`, its number in this toolkit; {known}"));
    let (id, hint) = match range.support(arch.number) {
        ArchSupport::Yes => return Ok(None),
        ArchSupport::Unknown => return Ok(Some(not_in_table(arch, range, origin))),
        ArchSupport::Dropped => {
            let hint = format!("use an older toolkit, or remove {}; {known}", arch.sm());
            (id!("cuda.arch.dropped-by-toolkit"), hint)
        }
        ArchSupport::TooNew => {
            let hint = format!("use a newer toolkit, or PTX: `{highest}-virtual`; {known}");
            (id!("cuda.arch.too-new-for-toolkit"), hint)
        }
    };
    Err(Reason::new(
        id,
        format!(
            "{} ({origin}) is not supported by {}, which supports sm_{lowest} to sm_{highest}",
            arch.sm(),
            range.toolkit
        ),
    )
    .hint(renamed.unwrap_or(hint)))
}

fn not_in_table(arch: &CudaArch, range: &CudaRange, origin: &str) -> Reason {
    Reason::new(
        NOT_IN_TABLE,
        format!(
            "it is not known whether {} supports {} ({origin}); `nvcc --list-gpu-arch` lists the supported ones",
            range.toolkit,
            arch.sm()
        ),
    )
}

/// The architectures that the toolkit supports, as text for a hint.
fn known(range: &CudaRange) -> String {
    let numbers: Vec<String> = range.numbers.iter().map(u16::to_string).collect();
    if numbers.is_empty() {
        return "write a list such as `80;90a`".to_owned();
    }
    format!("{} supports {}", range.toolkit, numbers.join(", "))
}

/// Machine code for every device, and PTX of the newest one, which the driver can compile for later generations.
fn for_devices(
    devices: &[CudaArch],
    range: &CudaRange,
    is_native: bool,
    origin: &str,
) -> Result<ArchPlan<CudaArch>, Reason> {
    let mut plan = ArchPlan::of(Vec::new());
    let mut dropped = None;
    for device in devices {
        let renamed = range.other_name(device);
        if let Some(other) = &renamed {
            plan.notes.push(format!("{} is named {} in {}", device.sm(), other.sm(), range.toolkit));
        }
        let device = renamed.as_ref().unwrap_or(device);
        match supported(device, range, "the GPU of this machine") {
            Ok(None) => plan.list.push(device.with_code(CudaCode::Real)),
            // The toolkit certainly supports PTX of its newest known architecture. `native` requires machine code.
            Ok(Some(_)) if !is_native && range.numbers.last().is_some_and(|last| device.number > *last) => {
                let highest = range.numbers.last().copied().unwrap_or_default();
                plan.notes.push(format!(
                    "{}: it is not known whether {} supports it; PTX of sm_{highest} is built instead \
                     (`--cuda-archs native` builds machine code)",
                    device.sm(),
                    range.toolkit
                ));
                plan.list.push(CudaArch::new(highest).with_code(CudaCode::Virtual));
            }
            Ok(Some(_)) => {
                plan.warnings.push(not_in_table(device, range, origin));
                plan.list.push(device.with_code(CudaCode::Real));
            }
            Err(reason) => match range.numbers.last() {
                // The driver compiles PTX of the newest supported architecture for it.
                Some(highest) if device.number > *highest => {
                    plan.notes.push(format!(
                        "{}: {}; PTX of sm_{highest} is built instead",
                        device.sm(),
                        reason.text
                    ));
                    plan.list.push(CudaArch::new(*highest).with_code(CudaCode::Virtual));
                }
                _ => {
                    plan.notes.push(format!("{} is left out: {}", device.sm(), reason.text));
                    dropped = Some(reason);
                }
            },
        }
    }
    let newest =
        plan.list.iter().filter(|arch| arch.code == CudaCode::Real).max_by_key(|arch| arch.number).cloned();
    if let Some(newest) = newest {
        plan.list.push(newest.with_code(CudaCode::Virtual));
    }
    plan.list.sort_indirect();
    plan.list.dedup();
    match dropped {
        Some(reason) if plan.list.is_empty() => Err(reason),
        _ => Ok(plan),
    }
}

fn from_default(range: &CudaRange, default: &[CudaArch]) -> ArchPlan<CudaArch> {
    let list: Vec<CudaArch> = default
        .iter()
        .filter(|arch| range.numbers.is_empty() || range.numbers.contains(&arch.number))
        .cloned()
        .collect();
    let mut plan =
        if list.is_empty() { real_and_one_ptx(range.numbers.iter().copied()) } else { ArchPlan::of(list) };
    plan.notes.push("no GPU was found, so the architectures for distribution are built".to_owned());
    plan
}

fn real_and_one_ptx(numbers: impl Iterator<Item = u16>) -> ArchPlan<CudaArch> {
    let mut list: Vec<CudaArch> = numbers.map(|n| CudaArch::new(n).with_code(CudaCode::Real)).collect();
    if let Some(newest) = list.last().cloned() {
        list.push(newest.with_code(CudaCode::Virtual));
    }
    ArchPlan::of(list)
}

/// Selects the architectures for ROCm: gfx names, optionally with features (`gfx90a:xnack+`).
///
/// # Errors
/// `native` without a GPU, or an invalid gfx name.
pub fn rocm(
    selection: &ArchSelection,
    devices: &[String],
    default: &[String],
) -> Result<ArchPlan<String>, Reason> {
    let mut plan = ArchPlan::of(Vec::new());
    match selection.text.trim() {
        "auto" | "native" if !devices.is_empty() => plan.list = devices.to_vec(),
        "native" => {
            return Err(Reason::new(
                id!("rocm.arch.native-no-gpu"),
                format!("`native` architectures were requested ({}), but no GPU was found", selection.origin),
            )
            .hint("list them, `archs = [\"gfx1100\"]`, or use `auto`"));
        }
        "auto" => {
            plan.list = default.to_vec();
            plan.notes.push("no GPU was found, so the architectures for distribution are built".to_owned());
        }
        list => {
            for text in list.split([';', ',', ' ']).filter(|text| !text.is_empty()) {
                let digits = text.strip_prefix("gfx").map(|rest| rest.split(':').next().unwrap_or(rest));
                if !digits
                    .is_some_and(|d| (3..=5).contains(&d.len()) && d.chars().all(|c| c.is_ascii_hexdigit()))
                {
                    return Err(Reason::new(
                        id!("rocm.arch.invalid"),
                        format!(
                            "`{text}` is not an AMD architecture ({}): use names such as `gfx90a` or `gfx1100`",
                            selection.origin
                        ),
                    ));
                }
                plan.list.push(text.to_owned());
            }
        }
    }
    plan.list.sort_indirect();
    plan.list.dedup();
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_can_require_a_suffix() {
        let rule = ArchSuffix { from: 120, to: 129, suffix: 'a' };
        let list = parse_cuda_list("90-virtual;120;121-real;120f-real").unwrap();
        let (list, changed) = with_suffix(list, Some(&rule));
        assert_eq!(gpubuild_core::arch::cmake_list(&list), "90-virtual;120a;120f-real;121a-real");
        assert_eq!(changed.as_deref(), Some("120a for 120, 121a-real for 121-real"));
    }
    use gpubuild_core::arch::cmake_list;
    use gpubuild_detect::toolkit::range::Basis;

    fn selection(text: &str) -> ArchSelection {
        ArchSelection { text: text.to_owned(), origin: "test".to_owned() }
    }

    fn cuda_12_4() -> CudaRange {
        CudaRange {
            basis: Basis::Complete,
            numbers: vec![50, 52, 60, 61, 70, 75, 80, 86, 87, 89, 90],
            toolkit: "CUDA 12.4".to_owned(),
        }
    }

    fn planned(text: &str, devices: &[&str]) -> Result<String, DiagnosticId> {
        let devices: Vec<CudaArch> = devices.iter().map(|d| d.parse().unwrap()).collect();
        let default = parse_cuda_list("75-real 80-real 90-real 90-virtual 120-real").unwrap();
        cuda(&selection(text), &devices, &cuda_12_4(), &default)
            .map(|p| cmake_list(&p.list))
            .map_err(|r| r.id)
    }

    #[test]
    fn devices_get_machine_code_and_one_ptx() {
        assert_eq!(planned("auto", &["sm_90"]).unwrap(), "90-real;90-virtual");
        assert_eq!(planned("native", &["sm_86", "sm_75"]).unwrap(), "75-real;86-real;86-virtual");
        assert_eq!(planned("auto", &["sm_120"]).unwrap(), "90-virtual");
    }

    #[test]
    fn without_a_device_auto_is_for_distribution_and_native_is_refused() {
        assert_eq!(planned("auto", &[]).unwrap(), "75-real;80-real;90-real;90-virtual");
        assert_eq!(planned("native", &[]).unwrap_err(), "cuda.arch.native-no-gpu");
    }

    #[test]
    fn unsupported_architectures_are_refused_if_requested_and_noted_in_auto() {
        assert_eq!(planned("120", &[]).unwrap_err(), "cuda.arch.too-new-for-toolkit");
        assert_eq!(planned("35", &[]).unwrap_err(), "cuda.arch.dropped-by-toolkit");
        assert_eq!(planned("auto", &["sm_35"]).unwrap_err(), "cuda.arch.dropped-by-toolkit");
        assert_eq!(planned("auto", &["sm_35", "sm_80"]).unwrap(), "80-real;80-virtual");
        assert_eq!(planned("80;90a", &["sm_75"]).unwrap(), "80;90a");
        assert_eq!(planned("fast", &[]).unwrap_err(), "cuda.arch.invalid");
    }

    #[test]
    fn renamed_architectures_use_the_number_of_the_toolkit() {
        let range = CudaRange {
            basis: Basis::Complete,
            numbers: vec![90, 100, 101, 120, 121],
            toolkit: "CUDA 12.9".to_owned(),
        };
        let thor: Vec<CudaArch> = vec![CudaArch::new(110)];
        for text in ["auto", "native"] {
            let plan = cuda(&selection(text), &thor, &range, &[]).unwrap();
            assert_eq!(cmake_list(&plan.list), "101-real;101-virtual");
            assert_eq!(plan.notes, ["sm_110 is named sm_101 in CUDA 12.9"]);
        }
        let refused = cuda(&selection("90;110"), &thor, &range, &[]).unwrap_err();
        assert_eq!(refused.id, "cuda.arch.too-new-for-toolkit");
        assert!(refused.hint.unwrap().starts_with("use `101`, its number in this toolkit"));
    }

    #[test]
    fn architectures_beyond_the_table_are_built_with_a_warning() {
        let range = CudaRange { basis: Basis::Open { dropped: vec![37] }, ..cuda_12_4() };
        let check = |text: &str, devices: &[&str]| {
            let devices: Vec<CudaArch> = devices.iter().map(|device| device.parse().unwrap()).collect();
            let plan = cuda(&selection(text), &devices, &range, &[]).unwrap();
            let warnings: Vec<String> = plan.warnings.iter().map(Reason::line).collect();
            (cmake_list(&plan.list), warnings.join("\n"), plan.notes.len())
        };
        let warning = "it is not known whether CUDA 12.4 supports sm_130 (test); `nvcc --list-gpu-arch` lists the supported ones [cuda.arch.not-in-table]";
        assert_eq!(check("90;130", &[]), ("90;130".to_owned(), warning.to_owned(), 0));
        assert_eq!(check("90", &[]), ("90".to_owned(), String::new(), 0));
        // `auto` must not select an architecture that may fail the build.
        assert_eq!(check("auto", &["sm_130"]), ("90-virtual".to_owned(), String::new(), 1));
        assert_eq!(check("native", &["sm_130"]), ("130-real;130-virtual".to_owned(), warning.to_owned(), 0));
        for gone in ["35", "37"] {
            assert_eq!(
                cuda(&selection(gone), &[], &range, &[]).unwrap_err().id,
                "cuda.arch.dropped-by-toolkit"
            );
        }
    }

    #[test]
    fn all_and_all_major_are_expanded() {
        assert!(planned("all", &[]).unwrap().ends_with("89-real;90-real;90-virtual"));
        assert_eq!(planned("all-major", &[]).unwrap(), "50-real;60-real;70-real;80-real;90-real;90-virtual");
    }

    fn project(profile: &str, archs: &str) -> ProjectFile {
        let text =
            format!("schema = 1\n[project]\nname = \"x\"\nsource = \".\"\nprofile = \"{profile}\"\n{archs}");
        gpubuild_toml::from_str(&text).unwrap()
    }

    /// Text and origin of the selection.
    fn selected(backend: Backend, env: &[(&str, &str)], file: &ProjectFile) -> (String, String) {
        let env = Environment::new(gpubuild_host::Os::Linux, env.iter().copied());
        let selection = match backend {
            Backend::Rocm => ArchSelection::rocm(&env, Some(file)),
            _ => ArchSelection::cuda(None, &env, Some(file)),
        };
        (selection.text, selection.origin)
    }

    #[test]
    fn variables_have_precedence_over_the_file_and_the_one_of_the_profile_over_others() {
        let lists = "[backends.cuda]\narchs = [\"90\"]\n[backends.rocm]\narchs = [\"gfx90a\"]\n";
        let (torch, llama) = (project("torch-extension", lists), project("llama", lists));
        let own = ("TORCH_CUDA_ARCH_LIST", "8.0;8.6+PTX");
        let cmake = ("CUDAARCHS", "75");
        let cuda = |env: &[(&str, &str)], file: &ProjectFile| selected(Backend::Cuda, env, file);
        let pair = |text: &str, origin: &str| (text.to_owned(), origin.to_owned());
        let of_torch = pair("80-real;86", "TORCH_CUDA_ARCH_LIST=8.0;8.6+PTX");
        assert_eq!(cuda(&[own, cmake], &torch), of_torch);
        assert_eq!(cuda(&[own, cmake], &llama), pair("75", "CUDAARCHS=75"));
        assert_eq!(cuda(&[own], &llama), pair("90", "gpubuild.toml"));
        assert_eq!(cuda(&[cmake], &torch), pair("75", "CUDAARCHS=75"));
        assert_eq!(cuda(&[("TORCH_CUDA_ARCH_LIST", "")], &torch), pair("90", "gpubuild.toml"));
        let env = Environment::new(gpubuild_host::Os::Linux, [own]);
        let flag = ArchSelection::cuda(Some("89"), &env, Some(&torch));
        assert_eq!((flag.text.as_str(), flag.origin.as_str()), ("89", "--cuda-archs 89"));
        assert_eq!(flag.note(None), None);
        let rocm = [("PYTORCH_ROCM_ARCH", "gfx942"), ("AMDGPU_TARGETS", "gfx1100")];
        assert_eq!(selected(Backend::Rocm, &rocm, &torch), pair("gfx942", "PYTORCH_ROCM_ARCH=gfx942"));
        assert_eq!(selected(Backend::Rocm, &rocm, &llama), pair("gfx1100", "AMDGPU_TARGETS=gfx1100"));
        assert_eq!(selected(Backend::Rocm, &[], &torch), pair("gfx90a", "gpubuild.toml"));
    }

    #[test]
    fn wrong_words_of_a_pytorch_list_are_reported_with_the_variable() {
        let env = Environment::new(gpubuild_host::Os::Linux, [("TORCH_CUDA_ARCH_LIST", "8.0;Amper")]);
        let selection = ArchSelection::cuda(None, &env, Some(&project("torch-extension", "")));
        let reason = cuda(&selection, &[], &cuda_12_4(), &[]).unwrap_err();
        assert_eq!(reason.id, "cuda.arch.invalid");
        assert!(reason.text.starts_with("`Amper` is not"), "{}", reason.text);
        assert!(reason.text.ends_with("(TORCH_CUDA_ARCH_LIST=8.0;Amper)"), "{}", reason.text);
    }

    #[test]
    fn rocm_lists_are_validated() {
        let default = ["gfx1100".to_owned(), "gfx90a".to_owned()];
        assert_eq!(rocm(&selection("auto"), &[], &default).unwrap().list, default);
        assert_eq!(
            rocm(&selection("gfx90a:xnack+;gfx942"), &[], &default).unwrap().list,
            ["gfx90a:xnack+", "gfx942"]
        );
        assert_eq!(rocm(&selection("rdna3"), &[], &default).unwrap_err().id, "rocm.arch.invalid");
        assert_eq!(rocm(&selection("native"), &[], &default).unwrap_err().id, "rocm.arch.native-no-gpu");
    }
}
