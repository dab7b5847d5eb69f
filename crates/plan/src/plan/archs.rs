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
#[path = "archs_tests.rs"]
mod tests;
