//! Escapes text from a machine for GitHub's Markdown. Text that GitHub would interpret as a link, mention, heading or markup becomes code.

use gpubuild_core::clean;

/// A line of Markdown that is being written.
#[derive(Debug, Default)]
struct MarkdownLine {
    text: String,
    after_code: bool,
}

impl MarkdownLine {
    fn plain(&mut self, text: &str) {
        self.text.push_str(text);
        self.after_code &= text.is_empty();
    }

    fn code(&mut self, text: &str) {
        // Two adjacent code spans need a space between their backticks.
        if self.after_code {
            self.text.push(' ');
        }
        self.text.push_str(&code(text));
        self.after_code = true;
    }
}

/// A sentence: text in backticks becomes code, and so does every word that Markdown could interpret.
#[must_use]
pub fn prose(text: &str, limit: usize) -> String {
    let text = clean::short(text, limit);
    let parts: Vec<&str> = text.split('`').collect();
    let mut line = MarkdownLine::default();
    if parts.len().is_multiple_of(2) {
        words(&mut line, &text);
        return line.text;
    }
    for (index, part) in parts.iter().enumerate() {
        if index % 2 == 1 {
            if !part.is_empty() {
                line.code(part);
            }
        } else {
            words(&mut line, part);
        }
    }
    line.text
}

fn words(line: &mut MarkdownLine, text: &str) {
    for (index, word) in text.split(char::is_whitespace).enumerate() {
        if index > 0 {
            line.plain(" ");
        }
        let core = word.trim_start_matches(['(', '"', '\'']);
        let (before, _) = word.split_at(word.len() - core.len());
        let core = core.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"', '\'']);
        let after = &word[before.len() + core.len()..];
        line.plain(before);
        if is_plain(core) {
            line.plain(core);
        } else {
            line.code(core);
        }
        line.plain(after);
    }
}

/// Whether Markdown and GitHub (`@mention`, `#123`, `GH-123`, `owner/name`, `:emoji:`, a commit) show the word unchanged.
fn is_plain(word: &str) -> bool {
    let harmless = |c: char| c.is_alphanumeric() || ".,;()'\"!?%=+-–—…’“”™®°µ×✓✗".contains(c);
    let is_commit = (7..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lower = word.to_ascii_lowercase();
    let refers = word.rsplit_once('-').is_some_and(|(head, number)| {
        !head.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    word.chars().all(harmless) && !is_commit && !refers && !lower.starts_with("www.")
}

/// Inline code, which may contain backticks.
#[must_use]
pub fn code(text: &str) -> String {
    let text = clean::line(text);
    if text.trim().is_empty() {
        return "(empty)".to_owned();
    }
    let fence = "`".repeat(longest_run(&text) + 1);
    let pad = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// A code block. The lines must not contain line breaks.
#[must_use]
pub fn block(language: &str, lines: &[&str]) -> String {
    let longest = lines.iter().map(|line| longest_run(line)).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}{language}\n{}\n{fence}\n", lines.join("\n"))
}

/// A link, or code if the target is not a plain `https` URL.
#[must_use]
pub fn link(target: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#@!$&'()*+,;=%".contains(c);
    if target.starts_with("https://") && target.chars().all(harmless) && !target.contains("##") {
        format!("<{target}>")
    } else {
        code(target)
    }
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_special_meaning_become_code() {
        for (text, expected) in [
            ("the driver 550.54 is too old", "the driver 550.54 is too old"),
            ("`CUDA_PATH` names `/opt/x y`", "`CUDA_PATH` names `/opt/x y`"),
            ("CUDA_PATH is set (see /opt/x).", "`CUDA_PATH` is set (see `/opt/x`)."),
            ("ask @everyone, see #1", "ask `@everyone`, see `#1`"),
            ("odd ` tick", "odd `` ` `` tick"),
            ("`a``b`", "`a` `b`"),
            ("`a`/b", "`a` `/b`"),
            ("see deadbeef12 and GH-7", "see `deadbeef12` and `GH-7`"),
            ("<b>*x*</b> [a](b)", "`<b>*x*</b>` `[a](b`)"),
            ("Radeon™ RX 7900 XTX", "Radeon™ RX 7900 XTX"),
        ] {
            assert_eq!(prose(text, 600), expected);
        }
    }

    #[test]
    fn code_may_contain_backticks() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("`a`"), "`` `a` ``");
        assert_eq!(code("a``b"), "```a``b```");
        assert_eq!(code(" a"), "`  a `");
        assert_eq!(code(" "), "(empty)");
        assert_eq!(block("sh", &["echo ```"]), "````sh\necho ```\n````\n");
    }

    #[test]
    fn only_plain_urls_become_links() {
        assert_eq!(link("https://a.example/b?c=1"), "<https://a.example/b?c=1>");
        assert_eq!(link("javascript:alert(1)"), "`javascript:alert(1)`");
        assert_eq!(link("https://a.example/>x"), "`https://a.example/>x`");
    }
}
