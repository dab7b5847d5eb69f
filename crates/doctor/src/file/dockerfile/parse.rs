//! Parses a Dockerfile into instructions: continued lines, comments in them, here-documents, the escape directive.

use crate::file::text::ScriptText;

/// An instruction.
#[derive(Debug, Clone)]
pub struct Instruction {
    /// The keyword in upper case: `FROM`, `RUN`.
    pub keyword: String,
    /// The first line of the instruction.
    pub line: usize,
    /// The text after the keyword, with continued lines joined.
    pub script: ScriptText,
    /// The here-documents, in order.
    pub documents: Vec<HereDocument>,
}

/// A here-document.
#[derive(Debug, Clone)]
pub struct HereDocument {
    /// The delimiter: `EOF`.
    pub name: String,
    /// The body.
    pub script: ScriptText,
}

impl Instruction {
    /// The text after the keyword, trimmed.
    #[must_use]
    pub fn text(&self) -> &str {
        self.script.text().trim()
    }

    /// The words after the keyword and its flags.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.text().split_whitespace().skip_while(|word| word.starts_with("--"))
    }

    /// The value of a flag: `build` for `--from=build`.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<&str> {
        let flags = self.text().split_whitespace().take_while(|word| word.starts_with("--"));
        flags
            .filter_map(|flag| flag.strip_prefix("--")?.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }
}

/// Why a text can't be parsed as a Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DockerfileError {
    /// A line starts with an unknown instruction.
    #[error("line {line}: `{word}` is not a Dockerfile instruction")]
    Unknown {
        /// The line number.
        line: usize,
        /// The first word of the line, cut to 40 characters.
        word: String,
    },
    /// `FROM` is missing.
    #[error("it has no `FROM`")]
    NoStage,
}

const KEYWORDS: &[&str] = &[
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "MAINTAINER",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// Whether a word is the keyword of an instruction, ignoring case.
#[must_use]
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// Parses a Dockerfile.
///
/// # Errors
/// If a line does not start with an instruction, or `FROM` is missing.
pub fn parse(text: &str) -> Result<Vec<Instruction>, DockerfileError> {
    let escape = escape(text);
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let mut list: Vec<Instruction> = Vec::new();
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        let (word, rest) = trimmed.split_at(end);
        if !is_keyword(word) {
            return Err(DockerfileError::Unknown { line: number, word: word.chars().take(40).collect() });
        }
        let mut script = ScriptText::default();
        let mut piece = (number, rest.trim_start());
        loop {
            let Some(kept) = piece.1.trim_end().strip_suffix(escape) else {
                script.push(piece.0, piece.1);
                break;
            };
            script.push(piece.0, kept);
            // Comments and empty lines within a continued line are dropped.
            let is_ignored = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
            let Some(next) = lines.by_ref().find(|(_, line)| !is_ignored(line)) else { break };
            piece = next;
        }
        let mut instruction =
            Instruction { keyword: word.to_ascii_uppercase(), line: number, script, documents: Vec::new() };
        if matches!(instruction.keyword.as_str(), "RUN" | "COPY" | "ADD") {
            for (name, strips_tabs) in document_names(instruction.script.text()) {
                let mut body = ScriptText::default();
                for (number, line) in lines.by_ref() {
                    let line = if strips_tabs { line.trim_start_matches('\t') } else { line };
                    if line == name {
                        break;
                    }
                    body.push_line(number, line);
                }
                instruction.documents.push(HereDocument { name, script: body });
            }
        }
        list.push(instruction);
    }
    if list.iter().any(|instruction| instruction.keyword == "FROM") {
        Ok(list)
    } else {
        Err(DockerfileError::NoStage)
    }
}

/// The continuation character: a backslash, or a backtick with the directive `# escape=` in the first lines.
fn escape(text: &str) -> char {
    for line in text.lines() {
        let Some((name, value)) = line.trim().strip_prefix('#').and_then(|line| line.split_once('=')) else {
            break;
        };
        if name.trim().eq_ignore_ascii_case("escape") && value.trim() == "`" {
            return '`';
        }
    }
    '\\'
}

/// The delimiters of here-documents (`<<EOF`, `<<-"END"`, but not `<<<` and not in quotes), and whether leading tabs are
/// stripped.
fn document_names(text: &str) -> Vec<(String, bool)> {
    const MAX_DOCUMENTS: usize = 16;
    let mut names = Vec::new();
    let mut quote = None;
    let mut skip_to = 0;
    for (at, c) in text.char_indices() {
        if at < skip_to {
            continue;
        }
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(mark), c) if c == mark => quote = None,
            (None, '<') if text[at..].starts_with("<<") => {
                let rest = &text[at + 2..];
                if rest.starts_with('<') || rest.starts_with('(') {
                    skip_to = at + 3;
                    continue;
                }
                let (rest, strips_tabs) = rest.strip_prefix('-').map_or((rest, false), |rest| (rest, true));
                let name: String = rest
                    .trim_start_matches(['"', '\''])
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                    .collect();
                skip_to = at + 2;
                if !name.is_empty()
                    && !name.starts_with(|c: char| c.is_ascii_digit())
                    && names.len() < MAX_DOCUMENTS
                {
                    skip_to = text.len() - rest.len() + name.len();
                    if rest.starts_with(['"', '\'']) {
                        skip_to += 2;
                    }
                    names.push((name, strips_tabs));
                }
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let describe = |one: Instruction| {
            let documents: Vec<String> = one
                .documents
                .iter()
                .map(|document| format!(" <{}:{}>", document.name, document.script.text().trim_end()))
                .collect();
            format!("{} {} {}{}", one.line, one.keyword, one.text(), documents.concat())
        };
        parse(text).unwrap().into_iter().map(describe).collect()
    }

    #[test]
    fn instructions_are_parsed() {
        let text = "# syntax=docker/dockerfile:1\nfrom a AS b\n\nRUN one && \\\n    # why\n\n    two \\\n  && three\nENV A=1 \\\n    B=2\nRUN <<EOF\nnvcc\n  FROM no\nEOF\nCOPY <<-'X' <<Y /to/\n\ta\n\tX\nb\nY\nCMD [\"x\"]";
        assert_eq!(
            shown(text),
            [
                "2 FROM a AS b",
                "4 RUN one &&     two   && three",
                "9 ENV A=1     B=2",
                "11 RUN <<EOF <EOF:nvcc\n  FROM no>",
                "15 COPY <<-'X' <<Y /to/ <X:a> <Y:b>",
                "20 CMD [\"x\"]",
            ]
        );
        let list = parse("FROM a\nRUN one && \\\n # c\n two").unwrap();
        assert_eq!(list[1].script.line_at(list[1].script.text().find("two").unwrap()), 4);
    }

    #[test]
    fn escape_directive_and_crlf_are_supported() {
        assert_eq!(shown("# escape=`\nFROM a\nRUN dir C:\\ `\n  b"), ["2 FROM a", "3 RUN dir C:\\   b"]);
        assert_eq!(shown("FROM a\r\nRUN b \\\r\n  c\r\n"), ["1 FROM a", "2 RUN b   c"]);
    }

    #[test]
    fn shifts_and_here_strings_are_not_here_documents() {
        assert_eq!(document_names("cat <<< word && echo $((1<<2)) '<<EOF'"), []);
        assert_eq!(
            document_names("python3 <<EOF && cat <<\"B\""),
            [("EOF".to_owned(), false), ("B".to_owned(), false)]
        );
    }

    #[test]
    fn other_texts_are_rejected() {
        assert_eq!(
            parse("hello world").unwrap_err(),
            DockerfileError::Unknown { line: 1, word: "hello".into() }
        );
        assert_eq!(parse("# nothing\nARG A\n").unwrap_err(), DockerfileError::NoStage);
        assert!(parse("FROM a\nRUN b \\").is_ok());
    }
}
