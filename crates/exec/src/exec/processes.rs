//! Measures the memory of gpubuild's descendant processes by build output. Linux only; on other systems nothing is measured.

use std::collections::BTreeMap;

use gpubuild_host::ReadFiles;
use serde::Serialize;

/// Maximum number of samples. When it is reached, the number of samples is halved.
const MOST_SAMPLES: usize = 3000;

/// Memory use and parallelism at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Time in seconds since the start of the build.
    pub time: f64,
    /// Resident memory of all descendant processes.
    pub bytes: u64,
    /// Number of outputs that were being built.
    pub active: u32,
}

/// The observed lifetime and peak memory of the processes that build one output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ObservedProcess {
    /// Time of the first observation, in seconds since the start of the build.
    pub first: f64,
    /// Time of the last observation, in seconds since the start of the build.
    pub last: f64,
    /// Peak memory in bytes.
    pub peak: u64,
}

/// Collects observations of descendant processes.
#[derive(Debug, Default)]
pub struct Processes {
    own: Option<u32>,
    /// Output that a process builds, by process id and start time.
    names: BTreeMap<(u32, u64), Option<String>>,
    seen: BTreeMap<String, ObservedProcess>,
    samples: Vec<Sample>,
    /// Number of observations that are merged into one sample.
    stride: usize,
    skipped: usize,
}

/// Prefix that distinguishes crates from files.
const CRATE: &str = "crate ";

/// A running process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RunningProcess {
    parent: u32,
    started: u64,
}

impl Processes {
    /// Observes the processes once.
    pub fn observe(&mut self, host: &dyn ReadFiles, now: f64) {
        let own = *self.own.get_or_insert_with(|| own(host).unwrap_or_default());
        if own == 0 {
            return;
        }
        let all = all(host);
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (id, process) in &all {
            children.entry(process.parent).or_default().push(*id);
        }
        let mut outputs: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut total = 0;
        let mut open: Vec<(u32, Option<String>)> = vec![(own, None)];
        while let Some((id, output)) = open.pop() {
            for child in children.get(&id).into_iter().flatten() {
                let Some(process) = all.get(child) else { continue };
                // The outermost process that names an output counts: compilers run other tools with temporary files.
                let output = output.clone().or_else(|| self.name(host, *child, *process));
                let (now_bytes, peak) = memory(host, *child);
                total += now_bytes;
                if let Some(output) = &output {
                    let entry = outputs.entry(output.clone()).or_default();
                    *entry = (entry.0 + now_bytes, entry.1.max(peak));
                }
                open.push((*child, output));
            }
        }
        let active = u32::try_from(outputs.len()).unwrap_or(u32::MAX);
        for (name, (sum, peak)) in outputs {
            let bytes = sum.max(peak);
            let seen = self.seen.entry(name).or_insert(ObservedProcess { first: now, last: now, peak: 0 });
            (seen.last, seen.peak) = (now, seen.peak.max(bytes));
        }
        self.record(Sample { time: now, bytes: total, active });
    }

    fn record(&mut self, sample: Sample) {
        self.skipped += 1;
        if self.skipped < self.stride.max(1)
            && let Some(last) = self.samples.last_mut()
        {
            (last.bytes, last.active) = (last.bytes.max(sample.bytes), last.active.max(sample.active));
            return;
        }
        self.skipped = 0;
        self.samples.push(sample);
        if self.samples.len() >= MOST_SAMPLES {
            self.stride = self.stride.max(1) * 2;
            let larger = |pair: &[Sample]| Sample {
                time: pair[0].time,
                bytes: pair.iter().map(|one| one.bytes).max().unwrap_or_default(),
                active: pair.iter().map(|one| one.active).max().unwrap_or_default(),
            };
            self.samples = self.samples.chunks(2).map(larger).collect();
        }
    }

    /// The output that a process builds. Results are cached.
    fn name(&mut self, host: &dyn ReadFiles, id: u32, process: RunningProcess) -> Option<String> {
        if let Some(known) = self.names.get(&(id, process.started)) {
            return known.clone();
        }
        let line = host.read_text(&host.path(&format!("/proc/{id}/cmdline"))).unwrap_or_default();
        let arguments: Vec<&str> = line.split('\0').filter(|part| !part.is_empty()).collect();
        let name = output_of(&arguments).map(|name| {
            if name.starts_with(CRATE) {
                return name;
            }
            let folder = host.read_link(&host.path(&format!("/proc/{id}/cwd"))).unwrap_or_default();
            host.path(&folder).join(&name).to_string()
        });
        // Between fork and exec a process has the command line of its parent, so a missing name is cached only at the second
        // attempt.
        if name.is_some() || self.names.contains_key(&(id, process.started)) {
            self.names.insert((id, process.started), name.clone());
        }
        name
    }

    /// Peak memory of an output in bytes.
    #[must_use]
    pub fn peak(&self, output: &str) -> Option<u64> {
        self.seen.get(output).map(|seen| seen.peak)
    }

    /// The crates that were compiled, by name.
    pub fn crates(&self) -> impl Iterator<Item = (&str, ObservedProcess)> {
        self.seen.iter().filter_map(|(name, seen)| Some((name.strip_prefix(CRATE)?, *seen)))
    }

    /// The samples in the order of time.
    #[must_use]
    pub fn into_samples(self) -> Vec<Sample> {
        self.samples
    }
}

/// The output that a command line names: the file after `-o`, the crate of rustc, or the package of a build script.
fn output_of(arguments: &[&str]) -> Option<String> {
    let program = arguments.first()?.rsplit('/').next()?;
    let after = |flag: &str| {
        let at = arguments.iter().position(|argument| *argument == flag)?;
        arguments.get(at + 1).copied()
    };
    if program == "rustc" {
        return after("--crate-name").filter(|name| *name != "___").map(|name| format!("{CRATE}{name}"));
    }
    if program.starts_with("build-script-") {
        let package = arguments[0].rsplit('/').nth(1)?;
        let package = package.rsplit_once('-').map_or(package, |(package, _)| package);
        return Some(format!("{CRATE}{package} (build script)"));
    }
    after("-o").or_else(|| after("--output")).filter(|name| !name.starts_with('-')).map(str::to_owned)
}

fn own(host: &dyn ReadFiles) -> Option<u32> {
    host.read_link(&host.path("/proc/self")).ok()?.parse().ok()
}

fn all(host: &dyn ReadFiles) -> BTreeMap<u32, RunningProcess> {
    let names = host.list(&host.path("/proc")).unwrap_or_default();
    let ids = names.iter().filter_map(|name| name.parse::<u32>().ok());
    ids.filter_map(|id| {
        let text = host.read_text(&host.path(&format!("/proc/{id}/stat"))).ok()?;
        Some((id, parse_stat(&text)?))
    })
    .collect()
}

/// Parses `/proc/PID/stat`, such as `12 (name with ) in it) S 7 …`.
fn parse_stat(text: &str) -> Option<RunningProcess> {
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(RunningProcess { parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
}

/// Current and peak resident memory of a process in bytes.
fn memory(host: &dyn ReadFiles, id: u32) -> (u64, u64) {
    let text = host.read_text(&host.path(&format!("/proc/{id}/status"))).unwrap_or_default();
    (field(&text, "VmRSS:"), field(&text, "VmHWM:"))
}

fn field(text: &str, name: &str) -> u64 {
    let value =
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok());
    value.unwrap_or(0_u64) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, Os, RecordedHost};

    #[test]
    fn outputs_are_read_from_command_lines() {
        let check = |line: &str, expected: Option<&str>| {
            let arguments: Vec<&str> = line.split(' ').collect();
            assert_eq!(output_of(&arguments).as_deref(), expected, "{line}");
        };
        check("/usr/bin/c++ -O3 -o CMakeFiles/x.dir/a.cpp.o -c a.cpp", Some("CMakeFiles/x.dir/a.cpp.o"));
        check("/usr/bin/ccache /usr/bin/cc -c a.c -o a.o", Some("a.o"));
        check("/usr/bin/rustc --crate-name infer --edition=2024", Some("crate infer"));
        check("/t/debug/build/whisper-sys-0a1b/build-script-build", Some("crate whisper-sys (build script)"));
        check("/bin/sh -c cc", None);
        check("cc -o", None);
    }

    #[test]
    fn memory_of_a_compiler_counts_for_the_output_of_its_driver() {
        let stat =
            |id: u32, parent: u32| format!("{id} (c) x) S {parent} {} 77 0\n", "0 ".repeat(17).trim_end());
        let status = |kib: u32| format!("Name:\tx\nVmHWM:\t{kib} kB\nVmRSS:\t{} kB\n", kib / 2);
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .link("/proc/self", "10")
            .file("/proc/10/stat", &stat(10, 1))
            .file("/proc/11/stat", &stat(11, 10))
            .file("/proc/11/cmdline", "g++\0-o\0a.o\0-c\0a.cpp\0")
            .file("/proc/11/status", &status(10))
            .link("/proc/11/cwd", "/b")
            .file("/proc/12/stat", &stat(12, 11))
            .file("/proc/12/cmdline", "cc1plus\0-o\0/tmp/x.s\0")
            .file("/proc/12/status", &status(1000))
            .file("/proc/13/stat", &stat(13, 1))
            .file("/proc/13/cmdline", "g++\0-o\0other.o\0")
            .file("/proc/13/status", &status(1000))
            .build();
        let mut processes = Processes::default();
        processes.observe(&host, 1.0);
        processes.observe(&host, 2.0);
        assert_eq!(processes.peak("/b/a.o"), Some(1000 * 1024));
        assert_eq!(processes.peak("/tmp/x.s"), None);
        assert_eq!(processes.peak("/b/other.o"), None, "not a descendant process");
        assert_eq!(processes.into_samples()[0], Sample { time: 1.0, bytes: 505 * 1024, active: 1 });
    }

    #[test]
    fn long_builds_keep_fewer_samples() {
        let mut processes = Processes::default();
        for second in 0..10_000_u32 {
            processes.record(Sample { time: f64::from(second), bytes: second.into(), active: 1 });
        }
        let samples = processes.into_samples();
        assert!(samples.len() < MOST_SAMPLES && samples.len() > 1000, "{}", samples.len());
        assert_eq!(samples.last().unwrap().bytes, 9_999, "the peak is kept");
    }
}
