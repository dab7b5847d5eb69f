//! Resource limits of this process's control groups.

use gpubuild_host::ReadFiles;

const ROOT: &str = "/sys/fs/cgroup";

/// The tightest limits of the process's control group and its ancestors.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CgroupLimits {
    /// Memory in bytes.
    pub(super) memory: Option<u64>,
    /// Memory in use within the group with that limit, in bytes.
    pub(super) memory_used: Option<u64>,
    /// CPU time as a number of processors.
    pub(super) processors: Option<f64>,
}

/// Reads the limits of cgroup version 2, or of version 1 if it is mounted.
pub(super) fn probe(host: &dyn ReadFiles) -> CgroupLimits {
    let Ok(groups) = host.read_text(&host.path("/proc/self/cgroup")) else { return CgroupLimits::default() };
    let text = |path: String| host.read_text(&host.path(&path)).ok();
    let mut limits = CgroupLimits::default();
    if let Some(group) = parse_group(&groups, "") {
        for folder in upwards(ROOT, &group) {
            let memory = text(format!("{folder}/memory.max")).and_then(|max| parse_limit(&max));
            if let Some(memory) = memory.filter(|memory| limits.memory.is_none_or(|limit| *memory < limit)) {
                limits.memory = Some(memory);
                limits.memory_used =
                    text(format!("{folder}/memory.current")).and_then(|used| parse_limit(&used));
            }
            let processors = text(format!("{folder}/cpu.max")).and_then(|max| parse_cpu_max(&max));
            limits.processors = smaller(limits.processors, processors);
        }
    }
    if let Some(group) = parse_group(&groups, "memory") {
        // In a container, the machine's hierarchy can be hidden: the root then is the process's own group.
        for folder in upwards(&format!("{ROOT}/memory"), &group) {
            let memory = text(format!("{folder}/memory.limit_in_bytes")).and_then(|max| parse_limit(&max));
            if let Some(memory) = memory.filter(|memory| limits.memory.is_none_or(|limit| *memory < limit)) {
                limits.memory = Some(memory);
                limits.memory_used =
                    text(format!("{folder}/memory.usage_in_bytes")).and_then(|used| parse_limit(&used));
            }
        }
    }
    if let Some(group) = parse_group(&groups, "cpu") {
        for folder in upwards(&format!("{ROOT}/cpu"), &group) {
            let quota = text(format!("{folder}/cpu.cfs_quota_us"));
            let period = text(format!("{folder}/cpu.cfs_period_us"));
            let processors = quota
                .zip(period)
                .and_then(|(quota, period)| parse_cpu_max(&format!("{} {}", quota.trim(), period)));
            limits.processors = smaller(limits.processors, processors);
        }
    }
    limits
}

fn smaller(left: Option<f64>, right: Option<f64>) -> Option<f64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (left, right) => left.or(right),
    }
}

/// The path of a controller's group in `/proc/self/cgroup`. The line of version 2 has no controller.
fn parse_group(text: &str, controller: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then(|| group.trim().to_owned())
    })
}

/// The folders of a group and its ancestors, ending with the root.
fn upwards(root: &str, group: &str) -> Vec<String> {
    let mut folders = Vec::new();
    let mut rest = group.trim_end_matches('/');
    while !rest.is_empty() {
        folders.push(format!("{root}{rest}"));
        rest = rest.rfind('/').map_or("", |at| &rest[..at]);
    }
    folders.push(root.to_owned());
    folders
}

/// Parses a limit in bytes. `None` for `max` and for the huge numbers that mean "no limit" in version 1.
fn parse_limit(text: &str) -> Option<u64> {
    const NO_LIMIT: u64 = 1 << 60;
    text.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
}

/// Parses a CPU limit such as `200000 100000` (microseconds of CPU time, period) to a number of processors. `None` for `max` or a
/// negative number, which mean no limit.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let mut numbers = text.split_whitespace();
    let quota: f64 = numbers.next()?.parse().ok().filter(|quota| *quota > 0.0)?;
    let period: f64 = numbers.next()?.parse().ok().filter(|period| *period > 0.0)?;
    Some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, Os, RecordedHost};

    #[test]
    fn the_tightest_limit_of_all_ancestors_applies() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/proc/self/cgroup", "0::/user.slice/user-1000.slice\n")
            .file("/sys/fs/cgroup/user.slice/user-1000.slice/memory.max", "max\n")
            .file("/sys/fs/cgroup/user.slice/memory.max", "4294967296\n")
            .file("/sys/fs/cgroup/user.slice/memory.current", "1073741824\n")
            .file("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n")
            .file("/sys/fs/cgroup/cpu.max", "max 100000\n")
            .build();
        let limits =
            CgroupLimits { memory: Some(4 << 30), memory_used: Some(1 << 30), processors: Some(1.5) };
        assert_eq!(probe(&host), limits);
    }

    #[test]
    fn version_1_limits_in_a_container_are_read_from_the_root() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file(
                "/proc/self/cgroup",
                "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
            )
            .file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n")
            .file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n")
            .file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
            .file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
            .build();
        let limits = CgroupLimits { memory: Some(2 << 30), memory_used: Some(1 << 20), processors: None };
        assert_eq!(probe(&host), limits);
    }

    #[test]
    fn unlimited_values_are_none() {
        assert_eq!(parse_limit("9223372036854771712"), None);
        assert_eq!(parse_limit("max"), None);
        assert_eq!(parse_cpu_max("max 100000"), None);
        assert_eq!(parse_cpu_max("100000"), None);
        assert_eq!(parse_cpu_max("100000 0"), None);
    }
}
