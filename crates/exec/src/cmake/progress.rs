//! Reads the progress of a build from the output of the build tool.

/// Value of `NINJA_STATUS`: finished and total edges.
pub const STATUS_FORMAT: &str = "[%f/%t] ";

/// A step that the build tool announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NinjaStep<'a> {
    /// Number of finished steps; for Make, percent.
    pub done: u32,
    /// Total number of steps known so far; for Make, 100.
    pub total: u32,
    /// Description of the step, such as `Building C object a.c.o`.
    pub what: &'a str,
}

/// Parses Ninja's `[3/12] Building …` and Make's `[ 25%] Building …`.
#[must_use]
pub fn parse(line: &str) -> Option<NinjaStep<'_>> {
    let (status, what) = line.strip_prefix('[')?.split_once("] ")?;
    let (done, total) = if let Some(percent) = status.trim().strip_suffix('%') {
        (percent.parse().ok()?, 100)
    } else {
        let (done, total) = status.split_once('/')?;
        (done.parse().ok()?, total.parse().ok()?)
    };
    Some(NinjaStep { done, total, what: what.trim() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_status_lines_are_parsed() {
        let step = parse("[3/12] Building C object src/CMakeFiles/a.dir/a.c.o").unwrap();
        assert_eq!((step.done, step.total), (3, 12));
        assert_eq!(step.what, "Building C object src/CMakeFiles/a.dir/a.c.o");
        assert_eq!(parse("[ 25%] Linking C static library liba.a").unwrap().done, 25);
        for other in ["", "[x/y] no", "[1/2]", "FAILED: a.o", "[WARN] thing", "[-1/4] x"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
