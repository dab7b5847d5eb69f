//! The CPU's name, level and features, and the share of processors and memory that this process may use.

use gpubuild_host::{Arch, InspectHost, Os, ReadFiles, ReadRegistry};

use super::cgroup::CgroupLimits;
use super::{CpuFacts, trimmed};
use crate::finding::{Evidence, EvidenceKind};

/// The `/proc/cpuinfo` flags that each x86-64 level adds, as defined in the psABI.
const LEVELS: [(&str, &[&str]); 4] = [
    ("x86-64-v1", &["cmov", "cx8", "fpu", "fxsr", "mmx", "sse", "sse2"]),
    ("x86-64-v2", &["cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"]),
    ("x86-64-v3", &["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"]),
    ("x86-64-v4", &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
];

/// Features that compute kernels use, spelled as in `/proc/cpuinfo`.
const FEATURES: [&str; 24] = [
    "amx_bf16",
    "amx_int8",
    "amx_tile",
    "asimd",
    "asimddp",
    "asimdhp",
    "avx",
    "avx2",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vnni",
    "avx512bw",
    "avx512dq",
    "avx512f",
    "avx512vl",
    "avx_vnni",
    "bf16",
    "f16c",
    "fma",
    "i8mm",
    "sme",
    "sse4_2",
    "sve",
    "sve2",
];

pub(super) fn probe(host: &dyn InspectHost, limits: &CgroupLimits) -> CpuFacts {
    match host.platform().os {
        Os::Linux => probe_linux(host, limits),
        Os::Windows => probe_windows(host),
        // On macOS, only a system call reports the model. The level follows from the platform.
        Os::Macos => CpuFacts { level: level_of_platform(host.platform().arch), ..CpuFacts::default() },
    }
}

/// Number of bytes that contain the first processor's entry. Reading the entries of all processors is slow, because the kernel
/// measures the frequency of each.
const FIRST_ENTRY: usize = 8 << 10;

fn probe_linux(host: &dyn ReadFiles, limits: &CgroupLimits) -> CpuFacts {
    let path = "/proc/cpuinfo";
    let file = host.path(path);
    let online = trimmed(host, "/sys/devices/system/cpu/online").as_deref().and_then(count_list);
    let text = match online {
        Some(_) => host.read_start(&file, FIRST_ENTRY),
        None => host.read(&file),
    };
    let Ok(text) = text else {
        return CpuFacts {
            threads: online,
            level: level_of_platform(host.platform().arch),
            ..CpuFacts::default()
        };
    };
    let mut cpu = parse_cpuinfo(&String::from_utf8_lossy(&text), host.platform().arch);
    let shown = cpu.name.clone().or_else(|| cpu.level.clone()).unwrap_or_default();
    cpu.evidence.push(Evidence::file(path, shown));
    let allowed =
        host.read_text(&host.path("/proc/self/status")).ok().and_then(|status| parse_allowed(&status));
    cpu.threads = within_limits(online.or(cpu.threads), allowed, limits.processors);
    cpu
}

/// The minimum of the present processors, the processors in the affinity mask, and the CPU time limit.
fn within_limits(present: Option<u32>, allowed: Option<u32>, time: Option<f64>) -> Option<u32> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the range of u32"
    )]
    let time = time.map(|processors| processors.ceil().clamp(1.0, f64::from(u32::MAX)) as u32);
    [present, allowed, time].into_iter().flatten().min()
}

fn probe_windows(host: &dyn ReadRegistry) -> CpuFacts {
    let key = r"HKLM\HARDWARE\DESCRIPTION\System\CentralProcessor\0";
    let named = host.registry_value(key, "ProcessorNameString");
    let mut cpu = CpuFacts { level: level_of_platform(host.platform().arch), ..CpuFacts::default() };
    match named {
        Some(value) => {
            let name = value.text.trim().to_owned();
            cpu.evidence.push(Evidence::new(
                EvidenceKind::Registry,
                format!(r"{key}\ProcessorNameString"),
                name.clone(),
            ));
            cpu.name = Some(name);
        }
        None => {
            if let Some(identifier) = host.env().get("PROCESSOR_IDENTIFIER") {
                cpu.evidence.push(Evidence::env("PROCESSOR_IDENTIFIER", identifier));
                cpu.name = Some(identifier.to_owned());
            }
        }
    }
    cpu.threads = host.env().get("NUMBER_OF_PROCESSORS").and_then(|count| count.trim().parse().ok());
    cpu
}

/// The baseline level of an architecture; `None` if the architecture has no levels.
fn level_of_platform(arch: Arch) -> Option<String> {
    match arch {
        Arch::X86_64 => None,
        Arch::Aarch64 => Some("armv8-a".to_owned()),
    }
}

fn parse_cpuinfo(text: &str, arch: Arch) -> CpuFacts {
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    let flags: Vec<&str> =
        value("flags").or_else(|| value("Features")).unwrap_or_default().split_whitespace().collect();
    let has = |flag: &str| flags.contains(&flag);
    let level = match arch {
        Arch::X86_64 => LEVELS
            .iter()
            .take_while(|(_, needed)| needed.iter().all(|flag| has(flag)))
            .last()
            .map(|(level, _)| (*level).to_owned()),
        Arch::Aarch64 => level_of_platform(arch),
    };
    let threads = text
        .lines()
        .filter(|line| line.split(':').next().is_some_and(|key| key.trim() == "processor"))
        .count();
    CpuFacts {
        name: value("model name").filter(|name| !name.is_empty()).map(str::to_owned),
        threads: u32::try_from(threads).ok().filter(|count| *count > 0),
        level,
        features: FEATURES.iter().filter(|feature| has(feature)).map(|&feature| feature.to_owned()).collect(),
        evidence: Vec::new(),
    }
}

/// Counts the processors in a line such as `Cpus_allowed_list: 0-3,8`.
fn parse_allowed(status: &str) -> Option<u32> {
    count_list(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

/// Counts the numbers in a list such as `0-3,8`.
fn count_list(text: &str) -> Option<u32> {
    let mut count: u32 = 0;
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    (count > 0).then_some(count)
}

/// Reads memory sizes in bytes, limited by the control group.
pub(super) fn probe_memory(host: &dyn ReadFiles, limits: &CgroupLimits) -> super::Memory {
    if host.platform().os != Os::Linux {
        return super::Memory::default();
    }
    let (total, available) =
        trimmed(host, "/proc/meminfo").map(|text| parse_meminfo(&text)).unwrap_or_default();
    let left = limits.memory.map(|limit| limit.saturating_sub(limits.memory_used.unwrap_or(0)));
    super::Memory {
        total_bytes: [total, limits.memory].into_iter().flatten().min(),
        available_bytes: [available, left].into_iter().flatten().min(),
    }
}

/// Parses `MemTotal` and `MemAvailable` to bytes.
fn parse_meminfo(text: &str) -> (Option<u64>, Option<u64>) {
    let value = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    (value("MemTotal"), value("MemAvailable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "fpu cx8 cmov mmx fxsr sse sse2";
    const V2: &str = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3";
    const V3: &str = "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave";
    const V4: &str = "avx512f avx512bw avx512cd avx512dq avx512vl avx512_vnni";

    fn level(flags: &[&str]) -> String {
        let text = format!("processor\t: 0\nflags\t\t: {}\n\nprocessor\t: 1\n", flags.join(" "));
        let cpu = parse_cpuinfo(&text, Arch::X86_64);
        assert_eq!(cpu.threads, Some(2));
        cpu.level.unwrap_or_default()
    }

    #[test]
    fn a_level_requires_the_flags_of_all_lower_levels() {
        assert_eq!(level(&[V1, V2, V3, V4]), "x86-64-v4");
        assert_eq!(level(&[V1, V2, V3]), "x86-64-v3");
        assert_eq!(level(&[V1, V2, "avx avx2"]), "x86-64-v2");
        assert_eq!(level(&[V1, V3]), "x86-64-v1");
        assert_eq!(level(&[]), "");
    }

    #[test]
    fn features_are_sorted_and_arm_features_are_parsed() {
        let cpu = parse_cpuinfo(
            "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd aes sve i8mm bf16\n",
            Arch::Aarch64,
        );
        assert_eq!(cpu.features, ["asimd", "bf16", "i8mm", "sve"]);
        assert_eq!((cpu.level.as_deref(), cpu.name), (Some("armv8-a"), None));
        assert!(FEATURES.is_sorted());
    }

    #[test]
    fn allowed_processors_are_counted() {
        assert_eq!(parse_allowed("Name:\tx\nCpus_allowed_list:\t0-3,8\n"), Some(5));
        assert_eq!(parse_allowed("Cpus_allowed_list:\t0\n"), Some(1));
        assert_eq!(parse_allowed("Cpus_allowed_list:\t3-0\n"), None);
        assert_eq!(parse_allowed("Cpus_allowed_list:\n"), None);
        assert_eq!(within_limits(Some(64), Some(16), Some(1.5)), Some(2));
        assert_eq!(within_limits(Some(8), None, Some(0.1)), Some(1));
        assert_eq!(within_limits(None, None, None), None);
    }

    #[test]
    fn memory_is_converted_to_bytes() {
        let text = "MemTotal:        4023888 kB\nMemFree:  1 kB\nMemAvailable:    3000000 kB\n";
        assert_eq!(parse_meminfo(text), (Some(4_023_888 * 1024), Some(3_000_000 * 1024)));
        assert_eq!(parse_meminfo("MemTotal: many kB\n"), (None, None));
    }
}
