//! Splits a shell script into tokens.

use super::Dialect;

/// A token and its offset in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShellToken {
    pub(super) kind: TokenKind,
    pub(super) offset: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A word, made of pieces.
    Word(Vec<WordPiece>),
    /// `;`, a line break, `&`.
    End,
    /// `;;`, which ends a branch of `case`.
    CaseEnd,
    And,
    Or,
    Pipe,
    Open,
    Close,
    /// `<<EOF`: the command has a here-document.
    HereDocument,
    /// The body of the earliest here-document without a body.
    Body(String),
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordPiece {
    /// Text without expansion.
    Literal(String),
    /// Text in which variables are expanded.
    Expandable(String),
    /// `$(…)`: the complete text, and the start and end of the script in it.
    Substitution(String, usize, usize),
}

/// Splits a text into tokens.
pub(super) fn tokens(text: &str, dialect: Dialect) -> Vec<ShellToken> {
    let mut lexer = Lexer { text, at: 0, dialect, tokens: Vec::new(), pending: Vec::new() };
    while lexer.at < text.len() {
        lexer.step();
    }
    lexer.tokens
}

/// The limit of here-documents that start in one line.
const MAX_DOCUMENTS: usize = 16;

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    dialect: Dialect,
    tokens: Vec<ShellToken>,
    /// The delimiters of here-documents that start after this line, and whether leading tabs are stripped.
    pending: Vec<(String, bool)>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: TokenKind, length: usize) {
        self.tokens.push(ShellToken { kind, offset: self.at });
        self.at += length;
    }

    fn step(&mut self) {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return };
        if let Some(length) = self.continuation(rest) {
            self.at += length;
            return;
        }
        match first {
            '\n' => {
                self.push(TokenKind::End, 1);
                self.documents();
            }
            c if c.is_whitespace() => self.at += c.len_utf8(),
            '#' => self.at += rest.find('\n').unwrap_or(rest.len()),
            ';' if rest.starts_with(";;") => self.push(TokenKind::CaseEnd, 2),
            '&' if rest.starts_with("&&") => self.push(TokenKind::And, 2),
            '&' if rest.starts_with("&>") => self.redirection(1),
            ';' | '&' => self.push(TokenKind::End, 1),
            '|' if rest.starts_with("||") => self.push(TokenKind::Or, 2),
            '|' => self.push(TokenKind::Pipe, 1),
            '(' => self.push(TokenKind::Open, 1),
            ')' => self.push(TokenKind::Close, 1),
            '<' | '>' => self.redirection(0),
            _ => self.word(),
        }
    }

    /// The length of a line continuation at the start of `rest`, line break included.
    fn continuation(&self, rest: &str) -> Option<usize> {
        let mark = match self.dialect {
            Dialect::Posix => '\\',
            Dialect::Cmd => '^',
            Dialect::PowerShell => '`',
        };
        let after = rest.strip_prefix(mark)?;
        let after_spaces = after.trim_start_matches([' ', '\t', '\r']);
        after_spaces.starts_with('\n').then(|| rest.len() - after_spaces.len() + 1)
    }

    /// Skips a redirection such as `> file`, `2>&1` or `<<EOF`: it is not part of the command's words.
    fn redirection(&mut self, skip: usize) {
        let rest = &self.rest()[skip..];
        let operator = rest.find(|c| !matches!(c, '<' | '>' | '&' | '|')).unwrap_or(rest.len());
        let is_document = rest.starts_with("<<") && operator == 2;
        let strips_tabs = is_document && rest[2..].starts_with('-');
        self.at += skip + operator + usize::from(strips_tabs);
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
        let offset = self.at;
        let is_word =
            self.rest().chars().next().is_some_and(|c| !c.is_whitespace() && !";&|()<>#".contains(c));
        if !is_word {
            return;
        }
        self.word();
        let is_own = self.tokens.last().is_some_and(|token| token.offset == offset);
        let Some(ShellToken { kind: TokenKind::Word(pieces), .. }) = self.tokens.pop_if(|_| is_own) else {
            return;
        };
        let name: String = pieces
            .into_iter()
            .map(|piece| match piece {
                WordPiece::Literal(text)
                | WordPiece::Expandable(text)
                | WordPiece::Substitution(text, ..) => text,
            })
            .collect();
        if is_document && self.pending.len() < MAX_DOCUMENTS {
            self.pending.push((name, strips_tabs));
            self.tokens.push(ShellToken { kind: TokenKind::HereDocument, offset });
        }
    }

    /// Reads the bodies of the pending here-documents, after a line break.
    fn documents(&mut self) {
        for (end, strips_tabs) in std::mem::take(&mut self.pending) {
            let mut body = String::new();
            let start = self.at;
            while self.at < self.text.len() {
                let rest = self.rest();
                let length = rest.find('\n').map_or(rest.len(), |at| at + 1);
                let line = rest[..length].trim_end_matches(['\n', '\r']);
                let line = if strips_tabs { line.trim_start_matches('\t') } else { line };
                let is_end = line == end;
                if !is_end {
                    body.push_str(line);
                    body.push('\n');
                }
                self.at += length;
                if is_end {
                    break;
                }
            }
            self.tokens.push(ShellToken { kind: TokenKind::Body(body), offset: start });
        }
    }

    fn word(&mut self) {
        let offset = self.at;
        let mut pieces: Vec<WordPiece> = Vec::new();
        while let Some(c) = self.rest().chars().next() {
            if c.is_whitespace() || ";&|()<>".contains(c) || self.continuation(self.rest()).is_some() {
                break;
            }
            self.piece(c, &mut pieces);
        }
        // A digit before `>` or `<` is part of the redirection: `2>`.
        let is_number = matches!(pieces.as_slice(), [WordPiece::Expandable(text)] if text.len() == 1 && text.as_bytes()[0].is_ascii_digit());
        if !(is_number && self.rest().starts_with(['>', '<'])) {
            self.tokens.push(ShellToken { kind: TokenKind::Word(pieces), offset });
        }
    }

    fn piece(&mut self, c: char, pieces: &mut Vec<WordPiece>) {
        let rest = self.rest();
        match c {
            '\'' => {
                let length = rest[1..].find('\'').unwrap_or(rest.len() - 1);
                add(pieces, WordPiece::Literal(rest[1..=length].to_owned()));
                self.at += (length + 2).min(rest.len());
            }
            '"' => {
                self.at += 1;
                add(pieces, WordPiece::Expandable(String::new()));
                self.quoted(pieces);
            }
            '\\' if self.dialect == Dialect::Posix => {
                let length = rest[1..].chars().next().map_or(0, char::len_utf8);
                add(pieces, WordPiece::Literal(rest[1..=length].to_owned()));
                self.at += 1 + length;
            }
            '$' if rest.starts_with("$(") && !rest.starts_with("$((") => self.substitution(2, pieces),
            '`' if self.dialect == Dialect::Posix => self.substitution(1, pieces),
            _ => {
                add(pieces, WordPiece::Expandable(c.to_string()));
                self.at += c.len_utf8();
            }
        }
    }

    /// Reads the text between double quotes.
    fn quoted(&mut self, pieces: &mut Vec<WordPiece>) {
        while let Some(c) = self.rest().chars().next() {
            let rest = self.rest();
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' if self.dialect == Dialect::Posix
                    && rest[1..].starts_with(['"', '\\', '`', '$', '\n']) =>
                {
                    let kept = if rest[1..].starts_with('\n') { "" } else { &rest[1..2] };
                    add(pieces, WordPiece::Literal(kept.to_owned()));
                    self.at += 2;
                }
                '$' if rest.starts_with("$(") && !rest.starts_with("$((") => self.substitution(2, pieces),
                '`' if self.dialect == Dialect::Posix => self.substitution(1, pieces),
                _ => {
                    add(pieces, WordPiece::Expandable(c.to_string()));
                    self.at += c.len_utf8();
                }
            }
        }
    }

    /// Reads `$(…)` or a text between backticks.
    fn substitution(&mut self, opening: usize, pieces: &mut Vec<WordPiece>) {
        let start = self.at + opening;
        let body = &self.text[start..];
        let end = if opening == 1 { body.find('`') } else { closing(body) };
        let Some(end) = end else {
            // It is not closed: the rest becomes one word, so that the text is scanned only once.
            add(pieces, WordPiece::Literal(self.rest().to_owned()));
            self.at = self.text.len();
            return;
        };
        let whole = &self.text[self.at..=start + end];
        add(pieces, WordPiece::Substitution(whole.to_owned(), start, start + end));
        self.at = start + end + 1;
    }
}

/// The offset of the closing bracket that matches an opening bracket just before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0usize;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(mark), c) if c == mark => quote = None,
            (Some('\''), _) => {}
            (_, '(') => open += 1,
            (_, ')') if open == 0 => return Some(at),
            (_, ')') => open -= 1,
            _ => {}
        }
    }
    None
}

/// Adds a piece. Adjacent pieces of the same kind are joined.
fn add(pieces: &mut Vec<WordPiece>, piece: WordPiece) {
    match (pieces.last_mut(), piece) {
        (Some(WordPiece::Expandable(text)), WordPiece::Expandable(more))
        | (Some(WordPiece::Literal(text)), WordPiece::Literal(more)) => {
            text.push_str(&more);
        }
        (_, piece) => pieces.push(piece),
    }
}
