//! Detects compilers that ran out of memory, and computes with how many parallel compilers to retry.
//!
//! All functions are pure except [`killed_by_kernel`], which reads one counter.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_host::ReadFiles;

use crate::cmake::progress;
use crate::log::Signatures;

/// Id of the finding for a compiler that ran out of memory.
pub const OUT_OF_MEMORY: DiagnosticId = id!("build.out-of-memory");

/// How a build tool's output indicates that a compiler was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemorySign {
    /// A line reports that the compiler was killed or ran out of memory.
    Reported(String),
    /// A step failed without output, which also happens if it is killed.
    Silent,
}

/// Finds a sign of a killed compiler in the output of a build tool.
#[must_use]
pub fn sign(lines: &[String]) -> Option<MemorySign> {
    let failed: Vec<usize> = (0..lines.len()).filter(|index| lines[*index].starts_with("FAILED: ")).collect();
    let read = Signatures::embedded().read(lines.join("\n").as_bytes());
    if let Some(cause) = read.causes.into_iter().find(|cause| cause.id == OUT_OF_MEMORY) {
        let text = cause.text.split_whitespace().collect::<Vec<_>>().join(" ");
        return Some(MemorySign::Reported(text));
    }
    let killed = |line: &&String| line.trim() == "Killed" || line.starts_with("FAILED: [code=137]");
    if let Some(line) = lines.iter().find(killed) {
        return Some(MemorySign::Reported(line.trim().to_owned()));
    }
    (!failed.is_empty() && failed.iter().all(|index| is_silent(lines, *index))).then_some(MemorySign::Silent)
}

/// Whether a `FAILED:` line is followed only by the command.
fn is_silent(lines: &[String], failed: usize) -> bool {
    lines.get(failed + 2).is_none_or(|line| {
        progress::parse(line).is_some() || line.starts_with("FAILED: ") || line.starts_with("ninja: ")
    })
}

/// The number of parallel compilers for the next attempt after `jobs` were too many: first half of them, then one. `None` if
/// `jobs` was one.
#[must_use]
pub fn reduced_jobs(jobs: u32, attempts: u32) -> Option<u32> {
    match (jobs, attempts) {
        (0 | 1, _) => None,
        (_, 0) => Some(jobs / 2),
        _ => Some(1),
    }
}

/// The number of parallel compilers for the kind of step that failed. Device compilers run in a separate, smaller pool.
#[must_use]
pub fn jobs_of_failed_step(lines: &[String], jobs: u32, device: u32) -> u32 {
    const DEVICE: [&str; 4] = [".cu.o", ".cu.obj", ".hip.o", ".hip.obj"];
    let mut failed = lines.iter().filter(|line| line.starts_with("FAILED: ")).peekable();
    let is_device =
        failed.peek().is_some() && failed.all(|line| DEVICE.iter().any(|end| line.trim_end().ends_with(end)));
    if is_device { jobs.min(device) } else { jobs }
}

/// Number of processes that Linux has killed because of low memory since boot; `None` if `/proc/vmstat` does not report it.
#[must_use]
pub fn killed_by_kernel(host: &dyn ReadFiles) -> Option<u64> {
    parse_vmstat(&host.read_text(&host.path("/proc/vmstat")).ok()?)
}

fn parse_vmstat(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn killed_compilers_are_distinguished_from_faulty_sources() {
        let reported = [
            "FAILED: a.o\n/usr/bin/c++ -c a.cpp\nc++: fatal error: Killed signal terminated program cc1plus",
            "FAILED: a.cu.o\nnvcc a.cu\nnvcc error   : 'cicc' died due to signal 9 (Kill signal)",
            "FAILED: a.o\nclang++ a.cpp\nclang: error: unable to execute command: Killed",
            "FAILED: a.o\nc++ a.cpp\ncc1plus: out of memory allocating 65536 bytes after a total of 17301504 bytes",
            "FAILED: liba.so\nc++ a.o\n/usr/bin/ld: final link failed: memory exhausted",
            "FAILED: [code=137] a.o\n/usr/bin/c++ -c a.cpp",
            "FAILED: a.o\ncc a.c\nKilled",
            "a.cpp(1): fatal error C1060: compiler is out of heap space",
        ];
        for text in reported {
            assert!(matches!(sign(&lines(text)), Some(MemorySign::Reported(_))), "{text}");
        }
        let silent = "[1/3] Building\nFAILED: a.o\ncc a.c\n[2/3] Building\nninja: build stopped: failed.";
        assert_eq!(sign(&lines(silent)), Some(MemorySign::Silent));
        for text in [
            "FAILED: a.o\ncc a.c\na.c:1:1: error: unknown type name 'x'\nninja: build stopped: failed.",
            "FAILED: a.o\ncc a.c\nFAILED: b.o\ncc b.c\nb.c:1:1: error: no",
            "a warning about Killed things",
            "",
        ] {
            assert_eq!(sign(&lines(text)), None, "{text}");
        }
    }

    #[test]
    fn jobs_are_reduced_in_two_steps() {
        assert_eq!((reduced_jobs(8, 0), reduced_jobs(4, 1), reduced_jobs(1, 2)), (Some(4), Some(1), None));
        assert_eq!((reduced_jobs(2, 0), reduced_jobs(3, 0), reduced_jobs(1, 0)), (Some(1), Some(1), None));
        let device = lines("FAILED: x/a.cu.o\nnvcc a.cu\nKilled");
        assert_eq!((jobs_of_failed_step(&device, 16, 4), jobs_of_failed_step(&device, 2, 4)), (4, 2));
        assert_eq!(jobs_of_failed_step(&lines("FAILED: x/a.cpp.o\nc++"), 16, 4), 16);
        assert_eq!(jobs_of_failed_step(&[], 16, 4), 16);
    }

    #[test]
    fn kernel_counter_is_parsed() {
        assert_eq!(parse_vmstat("nr_free_pages 3\noom_kill 12\nnuma_hit 1\n"), Some(12));
        assert_eq!(parse_vmstat("nr_free_pages 3\n"), None);
    }
}
