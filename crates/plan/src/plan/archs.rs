//! Which architectures are built: wish x devices x toolkit, each removal with its reason.

use gpubuild_core::arch::{CudaArch, CudaCode, parse_cuda_list};
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_detect::toolkit::range::{CudaRange, Knows};

use crate::project::Archs;
use crate::project::profile::ArchSuffix;

/// What was asked for, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchSelection {
    /// `auto`, `native`, `all`, `all-major` or a list.
    pub text: String,
    /// `CUDAARCHS`, `CUDA_COMPUTE_CAP`, `gpubuild.toml`, `auto`.
    pub origin: String,
}

impl ArchSelection {
    /// For CUDA: the flag, else the variables that CMake and Rust crates read, else the project.
    #[must_use]
    pub fn cuda(flag: Option<&str>, env: &gpubuild_host::Environment, file: Option<&Archs>) -> Self {
        match flag {
            Some(text) => Self { text: text.to_owned(), origin: format!("--cuda-archs {text}") },
            None => Self::resolve(env, &["CUDAARCHS", "CUDA_COMPUTE_CAP"], file),
        }
    }

    /// The first of the variables that is set, else what the project says, else `auto`.
    #[must_use]
    pub fn resolve(env: &gpubuild_host::Environment, variables: &[&str], file: Option<&Archs>) -> Self {
        if let Some((name, value)) = variables.iter().find_map(|name| Some((*name, env.get(name)?))) {
            return Self { text: value.to_owned(), origin: format!("{name}={value}") };
        }
        match file {
            Some(Archs::Word(word)) => Self { text: word.clone(), origin: "gpubuild.toml".to_owned() },
            Some(Archs::List(list)) => Self { text: list.join(";"), origin: "gpubuild.toml".to_owned() },
            None => Self { text: "auto".to_owned(), origin: "auto".to_owned() },
        }
    }
}

/// Architectures with remarks on what was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchPlan<T> {
    /// What is built, sorted.
    pub list: Vec<T>,
    /// One line each.
    pub notes: Vec<String>,
    /// What is built although nobody here can tell whether the toolkit knows it.
    pub warnings: Vec<Reason>,
}

impl<T> ArchPlan<T> {
    fn of(list: Vec<T>) -> Self {
        Self { list, notes: Vec::new(), warnings: Vec::new() }
    }
}

/// Stable id of what is in no table.
const NOT_IN_TABLE: DiagnosticId = id!("cuda.arch.not-in-table");

/// Plans the list for CUDA.
///
/// # Errors
/// Nothing is left to build, or what was asked for by name cannot be built.
pub fn cuda(
    wish: &ArchSelection,
    devices: &[CudaArch],
    range: &CudaRange,
    default: &[CudaArch],
) -> Result<ArchPlan<CudaArch>, Reason> {
    match wish.text.trim() {
        "auto" if devices.is_empty() => Ok(from_default(range, default)),
        "native" if devices.is_empty() => Err(Reason::new(
            id!("cuda.arch.native-no-gpu"),
            format!("`native` architectures were asked for ({}) and no GPU answered here", wish.origin),
        )
        .hint("name them, `archs = [\"80\", \"90\"]`, or use `auto`")),
        word @ ("auto" | "native") => for_devices(devices, range, word == "native", &wish.origin),
        "all" => Ok(real_and_one_ptx(range.numbers.iter().copied())),
        "all-major" => {
            let lowest = range.numbers.first().copied();
            Ok(real_and_one_ptx(range.numbers.iter().copied().filter(|n| n % 10 == 0 || Some(*n) == lowest)))
        }
        list => {
            let list = parse_cuda_list(list).map_err(|error| {
                Reason::new(id!("cuda.arch.invalid"), format!("{error} ({})", wish.origin)).hint(known(range))
            })?;
            if list.is_empty() {
                return Err(Reason::new(
                    id!("cuda.arch.invalid"),
                    format!("no architecture is named ({})", wish.origin),
                )
                .hint(known(range)));
            }
            let mut plan = ArchPlan::of(Vec::new());
            for arch in list {
                plan.warnings.extend(supported(&arch, range, &wish.origin)?);
                plan.list.push(arch);
            }
            Ok(plan)
        }
    }
}

/// The list as a project builds it that wants a suffix on some architectures; what that changed, for people.
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

/// Refuses what the toolkit is known not to compile for. A table that ends refuses nothing: what it does not tell is a warning.
fn supported(arch: &CudaArch, range: &CudaRange, origin: &str) -> Result<Option<Reason>, Reason> {
    let (Some(lowest), Some(highest)) = (range.numbers.first(), range.numbers.last()) else {
        return Ok(None);
    };
    let known = known(range);
    let renamed = range.other_name(arch).map(|other| format!("write `{other}`, its number there; {known}"));
    let (id, hint) = match range.knows(arch.number) {
        Knows::Yes => return Ok(None),
        Knows::Unknown => return Ok(Some(not_in_table(arch, range, origin))),
        Knows::Dropped => {
            let hint = format!("use an older toolkit, or leave out {}; {known}", arch.sm());
            (id!("cuda.arch.dropped-by-toolkit"), hint)
        }
        Knows::TooNew => {
            let hint = format!("use a newer toolkit, or PTX: `{highest}-virtual`; {known}");
            (id!("cuda.arch.too-new-for-toolkit"), hint)
        }
    };
    Err(Reason::new(
        id,
        format!(
            "{} ({origin}) is not among what {} compiles for: sm_{lowest} to sm_{highest}",
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
            "no table tells whether {} compiles for {} ({origin}); `nvcc --list-gpu-arch` does",
            range.toolkit,
            arch.sm()
        ),
    )
}

/// Every architecture that the toolkit knows, in words.
fn known(range: &CudaRange) -> String {
    let numbers: Vec<String> = range.numbers.iter().map(u16::to_string).collect();
    if numbers.is_empty() {
        return "write them as in `80;90a`".to_owned();
    }
    format!("{} knows {}", range.toolkit, numbers.join(", "))
}

/// Machine code for every device and PTX of the newest, so that the next generation starts as well.
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
            plan.notes.push(format!("{} is {} to {}", device.sm(), other.sm(), range.toolkit));
        }
        let device = renamed.as_ref().unwrap_or(device);
        match supported(device, range, "the GPU here") {
            Ok(None) => plan.list.push(device.with_code(CudaCode::Real)),
            // PTX of the newest that is known is certain to be compiled. Who says `native` wants its own code.
            Ok(Some(_)) if !is_native && range.numbers.last().is_some_and(|last| device.number > *last) => {
                let highest = range.numbers.last().copied().unwrap_or_default();
                plan.notes.push(format!(
                    "{}: no table tells whether {} compiles for it; PTX of sm_{highest} is built for it (`--cuda-archs native`: its own code)",
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
                // PTX of the newest architecture below it is compiled by the driver.
                Some(highest) if device.number > *highest => {
                    plan.notes.push(format!(
                        "{}: {}; PTX of sm_{highest} is built for it",
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
    plan.list.sort();
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
    plan.notes.push("no GPU answered here, so the list for distribution is built".to_owned());
    plan
}

fn real_and_one_ptx(numbers: impl Iterator<Item = u16>) -> ArchPlan<CudaArch> {
    let mut list: Vec<CudaArch> = numbers.map(|n| CudaArch::new(n).with_code(CudaCode::Real)).collect();
    if let Some(newest) = list.last().cloned() {
        list.push(newest.with_code(CudaCode::Virtual));
    }
    ArchPlan::of(list)
}

/// Plans the list for ROCm: gfx names, optionally with features (`gfx90a:xnack+`).
///
/// # Errors
/// `native` without a GPU, or a word that is no gfx name.
pub fn rocm(
    wish: &ArchSelection,
    devices: &[String],
    default: &[String],
) -> Result<ArchPlan<String>, Reason> {
    let mut plan = ArchPlan::of(Vec::new());
    match wish.text.trim() {
        "auto" | "native" if !devices.is_empty() => plan.list = devices.to_vec(),
        "native" => {
            return Err(Reason::new(
                id!("rocm.arch.native-no-gpu"),
                format!("`native` architectures were asked for ({}) and no GPU answered here", wish.origin),
            )
            .hint("name them, `archs = [\"gfx1100\"]`, or use `auto`"));
        }
        "auto" => {
            plan.list = default.to_vec();
            plan.notes.push("no GPU answered here, so the list for distribution is built".to_owned());
        }
        list => {
            for word in list.split([';', ',', ' ']).filter(|word| !word.is_empty()) {
                let digits = word.strip_prefix("gfx").map(|rest| rest.split(':').next().unwrap_or(rest));
                if !digits
                    .is_some_and(|d| (3..=5).contains(&d.len()) && d.chars().all(|c| c.is_ascii_hexdigit()))
                {
                    return Err(Reason::new(
                        id!("rocm.arch.invalid"),
                        format!(
                            "`{word}` is no AMD architecture ({}): write `gfx90a`, `gfx1100`",
                            wish.origin
                        ),
                    ));
                }
                plan.list.push(word.to_owned());
            }
        }
    }
    plan.list.sort();
    plan.list.dedup();
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_may_want_a_suffix() {
        let rule = ArchSuffix { from: 120, to: 129, suffix: 'a' };
        let list = parse_cuda_list("90-virtual;120;121-real;120f-real").unwrap();
        let (list, changed) = with_suffix(list, Some(&rule));
        assert_eq!(gpubuild_core::arch::cmake_list(&list), "90-virtual;120a;120f-real;121a-real");
        assert_eq!(changed.as_deref(), Some("120a for 120, 121a-real for 121-real"));
    }
    use gpubuild_core::arch::cmake_list;
    use gpubuild_detect::toolkit::range::Basis;

    fn wish(text: &str) -> ArchSelection {
        ArchSelection { text: text.to_owned(), origin: "test".to_owned() }
    }

    fn cuda_12_4() -> CudaRange {
        CudaRange {
            basis: Basis::Whole,
            numbers: vec![50, 52, 60, 61, 70, 75, 80, 86, 87, 89, 90],
            toolkit: "CUDA 12.4".to_owned(),
        }
    }

    fn planned(text: &str, devices: &[&str]) -> Result<String, DiagnosticId> {
        let devices: Vec<CudaArch> = devices.iter().map(|d| d.parse().unwrap()).collect();
        let default = parse_cuda_list("75-real 80-real 90-real 90-virtual 120-real").unwrap();
        cuda(&wish(text), &devices, &cuda_12_4(), &default).map(|p| cmake_list(&p.list)).map_err(|r| r.id)
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
    fn what_the_toolkit_cannot_do_is_refused_by_name_and_noted_in_auto() {
        assert_eq!(planned("120", &[]).unwrap_err(), "cuda.arch.too-new-for-toolkit");
        assert_eq!(planned("35", &[]).unwrap_err(), "cuda.arch.dropped-by-toolkit");
        assert_eq!(planned("auto", &["sm_35"]).unwrap_err(), "cuda.arch.dropped-by-toolkit");
        assert_eq!(planned("auto", &["sm_35", "sm_80"]).unwrap(), "80-real;80-virtual");
        assert_eq!(planned("80;90a", &["sm_75"]).unwrap(), "80;90a");
        assert_eq!(planned("fast", &[]).unwrap_err(), "cuda.arch.invalid");
    }

    #[test]
    fn a_chip_is_built_for_under_the_number_that_the_toolkit_has_for_it() {
        let range = CudaRange {
            basis: Basis::Whole,
            numbers: vec![90, 100, 101, 120, 121],
            toolkit: "CUDA 12.9".to_owned(),
        };
        let thor: Vec<CudaArch> = vec![CudaArch::new(110)];
        for word in ["auto", "native"] {
            let plan = cuda(&wish(word), &thor, &range, &[]).unwrap();
            assert_eq!(cmake_list(&plan.list), "101-real;101-virtual");
            assert_eq!(plan.notes, ["sm_110 is sm_101 to CUDA 12.9"]);
        }
        let refused = cuda(&wish("90;110"), &thor, &range, &[]).unwrap_err();
        assert_eq!(refused.id, "cuda.arch.too-new-for-toolkit");
        assert!(refused.hint.unwrap().starts_with("write `101`, its number there"));
    }

    #[test]
    fn where_the_table_ends_a_wish_is_built_with_a_warning() {
        let range = CudaRange { basis: Basis::Open { gone: vec![37] }, ..cuda_12_4() };
        let check = |text: &str, devices: &[&str]| {
            let devices: Vec<CudaArch> = devices.iter().map(|device| device.parse().unwrap()).collect();
            let plan = cuda(&wish(text), &devices, &range, &[]).unwrap();
            let warnings: Vec<String> = plan.warnings.iter().map(Reason::line).collect();
            (cmake_list(&plan.list), warnings.join("\n"), plan.notes.len())
        };
        let warning = "no table tells whether CUDA 12.4 compiles for sm_130 (test); `nvcc --list-gpu-arch` does [cuda.arch.not-in-table]";
        assert_eq!(check("90;130", &[]), ("90;130".to_owned(), warning.to_owned(), 0));
        assert_eq!(check("90", &[]), ("90".to_owned(), String::new(), 0));
        // A guess that nobody asked for must not be what stops the build.
        assert_eq!(check("auto", &["sm_130"]), ("90-virtual".to_owned(), String::new(), 1));
        assert_eq!(check("native", &["sm_130"]), ("130-real;130-virtual".to_owned(), warning.to_owned(), 0));
        for gone in ["35", "37"] {
            assert_eq!(cuda(&wish(gone), &[], &range, &[]).unwrap_err().id, "cuda.arch.dropped-by-toolkit");
        }
    }

    #[test]
    fn all_and_all_major_are_spelled_out() {
        assert!(planned("all", &[]).unwrap().ends_with("89-real;90-real;90-virtual"));
        assert_eq!(planned("all-major", &[]).unwrap(), "50-real;60-real;70-real;80-real;90-real;90-virtual");
    }

    #[test]
    fn rocm_lists_are_checked() {
        let default = ["gfx1100".to_owned(), "gfx90a".to_owned()];
        assert_eq!(rocm(&wish("auto"), &[], &default).unwrap().list, default);
        assert_eq!(
            rocm(&wish("gfx90a:xnack+;gfx942"), &[], &default).unwrap().list,
            ["gfx90a:xnack+", "gfx942"]
        );
        assert_eq!(rocm(&wish("rdna3"), &[], &default).unwrap_err().id, "rocm.arch.invalid");
        assert_eq!(rocm(&wish("native"), &[], &default).unwrap_err().id, "rocm.arch.native-no-gpu");
    }
}
