//! Extracts the recording from a report of `gpubuild report`: a Markdown file that the user may have edited.

/// Returns the recording with empty lines before it, so that line numbers stay the same. `None` if the text is not a report.
pub(super) fn recording(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_start = |index: &usize| {
        fence(lines[*index], "toml").is_some()
            && lines.get(index + 1).is_some_and(|next| next.starts_with("schema = \"gpubuild.host/"))
    };
    let start = (0..lines.len()).find(is_start)?;
    let length = fence(lines[start], "toml")?;
    let end = (start + 1..lines.len())
        .find(|index| fence(lines[*index], "") == Some(length))
        .unwrap_or(lines.len());
    let mut kept = "\n".repeat(start + 1);
    for line in &lines[start + 1..end] {
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
