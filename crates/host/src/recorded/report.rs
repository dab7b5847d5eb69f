//! Extracts the recording from a report of `gpubuild report`: a Markdown file that the user may have edited.

/// Returns the recording with empty lines before it, so that line numbers stay the same. `None` if the text is not a report.
pub(super) fn recording(text: &str) -> Option<String> {
    let is_schema = |line: &str| line.starts_with("schema = \"gpubuild.host/");
    let mut lines = text.lines().enumerate().peekable();
    let (start, length) = loop {
        let (at, line) = lines.next()?;
        if let Some(length) = fence(line, "toml")
            && lines.peek().is_some_and(|(_, next)| is_schema(next))
        {
            break (at, length);
        }
    };
    let mut kept = "\n".repeat(start + 1);
    for (_, line) in lines.take_while(|(_, line)| fence(line, "") != Some(length)) {
        kept.push_str(line);
        kept.push('\n');
    }
    Some(kept)
}

/// The number of backticks if `line` is a code fence with the info string `info`.
fn fence(line: &str, info: &str) -> Option<usize> {
    let rest = line.trim_end().trim_start_matches('`');
    let length = line.trim_end().len() - rest.len();
    (length >= 3 && rest == info).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recording_keeps_its_line_numbers() {
        let text = "hello\n````toml\nschema = \"gpubuild.host/1\"\n```\n````\nbye\n";
        assert_eq!(recording(text).as_deref(), Some("\n\nschema = \"gpubuild.host/1\"\n```\n"));
        assert_eq!(recording("schema = \"gpubuild.host/1\"\n"), None);
        assert_eq!(recording("```toml\na = 1\n```\n"), None);
    }
}
