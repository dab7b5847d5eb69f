//! Recognizes commands and code that read the text of `nvidia-smi`, which changes with the driver.

use crate::file::shell::ShellCommand;

/// Text of `nvidia-smi` that a program reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrapedText {
    /// Whether a driver of branch 610 or newer prints another heading, so that the text is not found.
    pub is_renamed: bool,
    /// The problem, for messages.
    pub why: String,
    /// What to do instead.
    pub fix: String,
}

/// Programs that search or cut text.
const READERS: &[&str] = &[
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "awk",
    "gawk",
    "mawk",
    "sed",
    "cut",
    "perl",
    "findstr",
    "Select-String",
];

/// The text of `nvidia-smi` that a command reads, if any.
#[must_use]
pub fn scraped(command: &ShellCommand) -> Option<ScrapedText> {
    if !READERS.contains(&command.program()) {
        return None;
    }
    let patterns = command.arguments().collect::<Vec<_>>().join(" ");
    let mut before = command.piped_from.as_deref().unwrap_or_default().split(" | ");
    let first = before.next().unwrap_or_default();
    // Only the first reader of a pipeline sees the text of `nvidia-smi`.
    let is_processed = before.any(|one| one.split(' ').next().is_some_and(|name| READERS.contains(&name)));
    match source(first).filter(|_| !is_processed) {
        // `CUDA.*Version` matches both headings.
        Some(Output::Table) if heading(&patterns).is_none() && patterns.contains("Version") => None,
        Some(Output::Table) => Some(of_patterns(&patterns)),
        Some(Output::Details) if heading(&patterns).is_some() => {
            Some(ScrapedText { is_renamed: false, ..of_patterns(&patterns) })
        }
        Some(Output::Details | Output::Stable) => None,
        // The text may come from a variable or a file. The heading with its colon occurs in no other program's output.
        None if is_processed => None,
        None => patterns.contains("CUDA Version:").then(|| of_patterns(&patterns)),
    }
}

/// The text of `nvidia-smi` that a line of code reads, in a file that runs `nvidia-smi`.
#[must_use]
pub fn scraped_by_code(line: &str) -> Option<ScrapedText> {
    let code = line.trim_start();
    let is_comment = ["#", "//", "*", "rem ", "::"].iter().any(|mark| code.starts_with(mark));
    let is_pattern = line.contains("CUDA Version:") || line.contains("CUDA Version\\s");
    (!is_comment && is_pattern).then(|| of_patterns(line))
}

/// What `nvidia-smi` prints.
enum Output {
    /// The table, whose text is not stable.
    Table,
    /// The list of `-q`.
    Details,
    /// CSV, XML, or a list with another purpose.
    Stable,
}

/// The output of the first command of a pipeline; `None` for other programs.
fn source(command: &str) -> Option<Output> {
    let mut words = command.split_whitespace();
    let is_smi = |word: &str| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
        name.strip_suffix(".exe").unwrap_or(name) == "nvidia-smi"
    };
    words.find(|word| is_smi(word))?;
    let words: Vec<&str> = words.collect();
    let selects = |word: &str| {
        matches!(word, "-i" | "-l" | "-lms" | "-f") || !word.starts_with('-') && word.parse::<u32>().is_ok()
    };
    let is_table = words.iter().all(|word| {
        selects(word) || word.starts_with("--id") || word.starts_with("-i") || word.starts_with('$')
    });
    if is_table {
        return Some(Output::Table);
    }
    let is_details = words.iter().any(|word| matches!(*word, "-q" | "--query"))
        && !words.iter().any(|word| word.starts_with("-x") || word.starts_with("--xml"));
    Some(if is_details { Output::Details } else { Output::Stable })
}

/// The heading in a pattern that drivers of branch 610 have renamed.
fn heading(patterns: &str) -> Option<&'static str> {
    ["CUDA Version", "Driver Version"].into_iter().find(|heading| patterns.contains(heading))
}

fn of_patterns(patterns: &str) -> ScrapedText {
    let query = |field: &str| format!("`nvidia-smi --query-gpu={field} --format=csv,noheader`");
    match heading(patterns) {
        Some("CUDA Version") => ScrapedText {
            is_renamed: true,
            why: "`CUDA Version` is read from the text of `nvidia-smi`, but drivers from 610 on print `CUDA UMD Version`"
                .to_owned(),
            fix: format!(
                "use {}, whose branch decides which CUDA releases run; if the text must be read, accept `CUDA( UMD)? Version`",
                query("driver_version")
            ),
        },
        Some(_) => ScrapedText {
            is_renamed: true,
            why: "`Driver Version` is read from the text of `nvidia-smi`, but drivers from 610 on print `KMD Version`"
                .to_owned(),
            fix: format!("use {}", query("driver_version")),
        },
        None => {
            let lower = patterns.to_ascii_lowercase();
            let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
            let fix = if has(&["mib", "memory"]) {
                query("memory.used,memory.total")
            } else if has(&["%", "util"]) {
                query("utilization.gpu")
            } else if has(&["python", "pid", "process", " c "]) {
                "`nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader`".to_owned()
            } else {
                query("name")
            };
            ScrapedText {
                is_renamed: false,
                why: "the table of `nvidia-smi` is read as text, and its layout changes between drivers".to_owned(),
                fix: format!("use {fix}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::of;
    use super::*;

    #[test]
    fn text_of_nvidia_smi_is_recognized() {
        for (text, expected) in [
            ("nvidia-smi | grep 'CUDA Version' | awk '{print $9}'", "! driver_version"),
            ("nvidia-smi | sed -n 's/.*CUDA Version: \\([0-9.]*\\).*/\\1/p'", "! driver_version"),
            ("nvidia-smi 2>/dev/null | head -4 | grep -oP 'Driver Version: \\K[0-9]+'", "! driver_version"),
            ("/usr/bin/nvidia-smi -i 0 | grep MiB", ". memory.used,memory.total"),
            ("nvidia-smi -q | grep 'CUDA Version'", ". driver_version"),
            ("nvidia-smi -q | grep 'Addressing Mode'", ""),
            ("nvidia-smi --query-gpu=name --format=csv | grep RTX", ""),
            ("nvidia-smi -L | grep -c GPU", ""),
            ("nvidia-smi | grep -oE 'CUDA.*Version: *[0-9.]+' | head -1 | grep -oE '[0-9.]+'", ""),
            ("nvidia-smi | head -3", ""),
            ("nvidia-smi | tee log", ""),
            ("echo \"$info\" | grep -o 'CUDA Version: [0-9.]*'", "! driver_version"),
            ("cat /usr/local/cuda/version.txt | grep 'CUDA Version'", ""),
            ("grep 'CUDA Version:' Readme.md", "! driver_version"),
            ("x=$(nvidia-smi | awk '/python/ {print $5}')", ". --query-compute-apps"),
        ] {
            let seen: Vec<String> = of(text)
                .iter()
                .filter_map(scraped)
                .map(|found| {
                    let mark = if found.is_renamed { "!" } else { "." };
                    let field = found.fix.split("--query-gpu=").nth(1).unwrap_or("--query-compute-apps");
                    format!("{mark} {}", field.split(' ').next().unwrap_or_default())
                })
                .collect();
            assert_eq!(seen.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn code_is_recognized() {
        assert!(
            scraped_by_code("m = re.search(r'CUDA Version:\\s+(\\d+)', out)")
                .is_some_and(|one| one.is_renamed)
        );
        assert!(scraped_by_code("# CUDA Version: 12").is_none());
        assert!(scraped_by_code("print('CUDA Version')").is_none());
    }
}
