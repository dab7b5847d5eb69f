//! Signs that a compiler was killed for want of memory, and how much narrower to try again.
//!
//! Pure but for [`killed_by_kernel`], which reads one counter.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_host::ReadFiles;

use crate::cmake::progress;
use crate::log::Signatures;

/// Id of the finding.
pub const OUT_OF_MEMORY: DiagnosticId = id!("build.out-of-memory");

/// What hints at a compiler that was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sign {
    /// A line that says so.
    Said(String),
    /// A step failed without a word, as one that is killed does.
    Silent,
}

/// The sign in what a build tool printed, if there is one.
#[must_use]
pub fn sign(lines: &[String]) -> Option<Sign> {
    let failed: Vec<usize> = (0..lines.len()).filter(|index| lines[*index].starts_with("FAILED: ")).collect();
    let read = Signatures::embedded().read(lines.join("\n").as_bytes());
    if let Some(cause) = read.causes.into_iter().find(|cause| cause.id == OUT_OF_MEMORY) {
        let text = cause.text.split_whitespace().collect::<Vec<_>>().join(" ");
        return Some(Sign::Said(text));
    }
    let killed = |line: &&String| line.trim() == "Killed" || line.starts_with("FAILED: [code=137]");
    if let Some(line) = lines.iter().find(killed) {
        return Some(Sign::Said(line.trim().to_owned()));
    }
    (!failed.is_empty() && failed.iter().all(|index| is_silent(lines, *index))).then_some(Sign::Silent)
}

/// Whether nothing follows a `FAILED:` line but the command.
fn is_silent(lines: &[String], failed: usize) -> bool {
    lines.get(failed + 2).is_none_or(|line| {
        progress::parse(line).is_some() || line.starts_with("FAILED: ") || line.starts_with("ninja: ")
    })
}

/// How many compilers to try with after `width` at once were too many: half of them, then one. `None` after one.
#[must_use]
pub fn narrower(width: u32, attempts: u32) -> Option<u32> {
    match (width, attempts) {
        (0 | 1, _) => None,
        (_, 0) => Some(width / 2),
        _ => Some(1),
    }
}

/// How many compilers were at work on the kind of step that failed: those for devices have a pool of their own.
#[must_use]
pub fn width_of(lines: &[String], jobs: u32, device: u32) -> u32 {
    const DEVICE: [&str; 4] = [".cu.o", ".cu.obj", ".hip.o", ".hip.obj"];
    let mut failed = lines.iter().filter(|line| line.starts_with("FAILED: ")).peekable();
    let of_devices =
        failed.peek().is_some() && failed.all(|line| DEVICE.iter().any(|end| line.trim_end().ends_with(end)));
    if of_devices { jobs.min(device) } else { jobs }
}

/// How many processes Linux has killed for want of memory since it started; `None` where it does not tell.
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
    fn killed_compilers_are_told_from_faulty_sources() {
        let said = [
            "FAILED: a.o\n/usr/bin/c++ -c a.cpp\nc++: fatal error: Killed signal terminated program cc1plus",
            "FAILED: a.cu.o\nnvcc a.cu\nnvcc error   : 'cicc' died due to signal 9 (Kill signal)",
            "FAILED: a.o\nclang++ a.cpp\nclang: error: unable to execute command: Killed",
            "FAILED: a.o\nc++ a.cpp\ncc1plus: out of memory allocating 65536 bytes after a total of 17301504 bytes",
            "FAILED: liba.so\nc++ a.o\n/usr/bin/ld: final link failed: memory exhausted",
            "FAILED: [code=137] a.o\n/usr/bin/c++ -c a.cpp",
            "FAILED: a.o\ncc a.c\nKilled",
            "a.cpp(1): fatal error C1060: compiler is out of heap space",
        ];
        for text in said {
            assert!(matches!(sign(&lines(text)), Some(Sign::Said(_))), "{text}");
        }
        let silent = "[1/3] Building\nFAILED: a.o\ncc a.c\n[2/3] Building\nninja: build stopped: failed.";
        assert_eq!(sign(&lines(silent)), Some(Sign::Silent));
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
    fn it_gets_narrower_in_two_steps() {
        assert_eq!((narrower(8, 0), narrower(4, 1), narrower(1, 2)), (Some(4), Some(1), None));
        assert_eq!((narrower(2, 0), narrower(3, 0), narrower(1, 0)), (Some(1), Some(1), None));
        let device = lines("FAILED: x/a.cu.o\nnvcc a.cu\nKilled");
        assert_eq!((width_of(&device, 16, 4), width_of(&device, 2, 4)), (4, 2));
        assert_eq!(width_of(&lines("FAILED: x/a.cpp.o\nc++"), 16, 4), 16);
        assert_eq!(width_of(&[], 16, 4), 16);
    }

    #[test]
    fn the_kernels_counter_is_read() {
        assert_eq!(parse_vmstat("nr_free_pages 3\noom_kill 12\nnuma_hit 1\n"), Some(12));
        assert_eq!(parse_vmstat("nr_free_pages 3\n"), None);
    }
}
