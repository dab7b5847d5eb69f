//! Groups tokens into commands.

use super::lex::{ShellToken, TokenKind, WordPiece};
use super::{Dialect, ScriptText, ShellCommand, ShellWord, expand};

/// A command before variable expansion.
#[derive(Debug, Default)]
pub(super) struct RawCommand {
    /// Offset in the script and pieces of each word.
    words: Vec<(usize, Vec<WordPiece>)>,
    has_here_document: bool,
    input: Option<String>,
    tolerated: bool,
    /// Whether a `|` follows.
    is_piped: bool,
}

/// How many recent commands are searched for the one that a here-document belongs to.
const RECENT: usize = 64;

/// A block opened by a bracket or keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    /// `if`, `while`, `case`, a function: the commands inside may not run, or may fail.
    Conditional,
    /// `for`: the commands inside run.
    Loop,
    /// `(` or `{`: the start of the enclosing chain.
    Group(usize),
}

/// Groups tokens into commands.
pub(super) fn group(tokens: Vec<ShellToken>) -> Vec<RawCommand> {
    let mut grouper = Grouper::default();
    for token in tokens {
        grouper.push(token);
    }
    grouper.end();
    grouper.list
}

#[derive(Debug, Default)]
struct Grouper {
    list: Vec<RawCommand>,
    current: RawCommand,
    blocks: Vec<Block>,
    /// The index of the first command in the current chain of `&&` and `|`.
    chain: usize,
    /// Whether a test precedes the current command in its chain.
    is_guarded: bool,
    /// The range of commands before a `||` that was just read: their failure is tolerated unless the next command exits.
    before_or: Option<(usize, usize)>,
    /// The word that ends a `for x in …` or `case x in` header, while one is being skipped.
    skip_until: Option<&'static str>,
}

impl Grouper {
    fn push(&mut self, token: ShellToken) {
        match token.kind {
            TokenKind::Word(pieces) => self.word(token.offset, pieces),
            TokenKind::HereDocument => self.current.has_here_document = true,
            TokenKind::Body(body) => {
                let recent = self.list.len().saturating_sub(RECENT);
                let mut commands = self.list[recent..].iter_mut().chain([&mut self.current]);
                if let Some(command) =
                    commands.find(|command| command.has_here_document && command.input.is_none())
                {
                    command.input = Some(body);
                }
            }
            TokenKind::End => {
                if self.skip_until.is_none() {
                    self.end();
                    self.new_chain();
                }
            }
            TokenKind::CaseEnd => {
                self.end();
                self.new_chain();
                if self.blocks.contains(&Block::Conditional) {
                    self.skip_until = Some(")");
                }
            }
            TokenKind::And => {
                let is_test = self.current.is_test();
                self.current.tolerated |= is_test;
                self.end();
                self.is_guarded |= is_test;
            }
            TokenKind::Or => {
                self.end();
                self.before_or = Some((self.chain, self.list.len()));
                self.new_chain();
            }
            TokenKind::Pipe => {
                let before = self.list.len();
                self.end();
                // After a group, the last command of the group writes to the pipe.
                let last = if self.list.len() > before { before } else { before.saturating_sub(1) };
                if let Some(command) = self.list.get_mut(last) {
                    command.is_piped = true;
                }
            }
            TokenKind::Open => {
                // `name ()` defines a function; the name is not a command.
                if self.current.words.len() == 1 {
                    self.current = RawCommand::default();
                    self.blocks.push(Block::Conditional);
                } else if self.skip_until.is_none() {
                    self.end();
                    self.blocks.push(Block::Group(self.chain));
                    self.new_chain();
                }
            }
            TokenKind::Close => {
                if self.skip_until == Some(")") {
                    self.skip_until = None;
                    return;
                }
                self.end();
                self.close_group();
            }
        }
    }

    fn new_chain(&mut self) {
        self.chain = self.list.len();
        self.is_guarded = false;
    }

    fn close_group(&mut self) {
        if let Some(Block::Group(start)) = self.blocks.pop_if(|block| matches!(block, Block::Group(_))) {
            self.chain = start;
        }
    }

    fn word(&mut self, offset: usize, pieces: Vec<WordPiece>) {
        let text = match pieces.as_slice() {
            [WordPiece::Expandable(text)] => text.as_str(),
            _ => "",
        };
        if let Some(end) = self.skip_until {
            if text == end {
                self.skip_until = (end == "in").then_some(")");
            } else if end == ")" && text == "esac" {
                self.skip_until = None;
                self.blocks.pop();
            }
            return;
        }
        if self.current.words.is_empty() && self.keyword(text) {
            return;
        }
        self.current.words.push((offset, pieces));
    }

    /// Handles a keyword at the start of a command. Returns whether the word is one.
    fn keyword(&mut self, text: &str) -> bool {
        match text {
            "if" | "while" | "until" => self.blocks.push(Block::Conditional),
            "case" => {
                self.blocks.push(Block::Conditional);
                self.skip_until = Some("in");
            }
            "for" | "select" => {
                self.blocks.push(Block::Loop);
                self.skip_until = Some("do");
            }
            "then" | "else" | "elif" | "do" | "time" => {}
            "fi" | "done" | "esac" => {
                self.blocks.pop();
            }
            "{" => {
                // After `name ()`, the body may not run.
                if self.blocks.last() == Some(&Block::Conditional) && self.follows_function() {
                    return true;
                }
                self.blocks.push(Block::Group(self.chain));
                self.new_chain();
            }
            "}" => match self.blocks.last() {
                Some(Block::Group(_)) => self.close_group(),
                _ => {
                    self.blocks.pop();
                }
            },
            "!" => self.current.tolerated = true,
            _ => return false,
        }
        true
    }

    /// Whether the `)` of `name ()` was just read, without a command since.
    fn follows_function(&self) -> bool {
        self.chain == self.list.len() && self.current.words.is_empty()
    }

    fn end(&mut self) {
        let mut command = std::mem::take(&mut self.current);
        if command.words.is_empty() {
            return;
        }
        if let Some((from, to)) = self.before_or.take()
            && !command.exits_with_error()
        {
            for earlier in &mut self.list[from..to] {
                earlier.tolerated = true;
            }
        }
        command.tolerated |= self.is_guarded || self.blocks.contains(&Block::Conditional);
        self.list.push(command);
    }
}

impl RawCommand {
    /// A word that consists of one piece; empty for other words.
    fn plain(&self, index: usize) -> &str {
        match self.words.get(index).map(|(_, pieces)| pieces.as_slice()) {
            Some([WordPiece::Expandable(text) | WordPiece::Literal(text)]) => text,
            _ => "",
        }
    }

    pub(super) fn is_piped(&self) -> bool {
        self.is_piped
    }

    fn is_test(&self) -> bool {
        match self.plain(0) {
            "[" | "[[" | "test" | "which" | "type" | "hash" | "lspci" => true,
            "command" => self.plain(1) == "-v",
            _ => false,
        }
    }

    /// Whether the command ends the script with an error.
    fn exits_with_error(&self) -> bool {
        match self.plain(0) {
            "exit" | "return" => self.plain(1) != "0",
            "false" => true,
            _ => false,
        }
    }

    /// The variable that PowerShell's `$env:NAME = …` sets.
    fn powershell_variable(&self) -> Option<String> {
        let name = self.plain(0).strip_prefix("$env:")?;
        (self.plain(1) == "=").then(|| name.to_owned())
    }

    /// The command after variable expansion, and the ranges of the scripts in `$(…)`.
    pub(super) fn finish(
        self,
        script: &ScriptText,
        dialect: Dialect,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> (Option<ShellCommand>, Vec<(usize, usize)>) {
        let mut inside = Vec::new();
        let first = self.words.first().map_or(0, |(offset, _)| *offset);
        let target = if dialect == Dialect::PowerShell { self.powershell_variable() } else { None };
        let mut command = ShellCommand {
            line: script.line_at(first),
            tolerated: self.tolerated,
            input: self.input,
            ..ShellCommand::default()
        };
        for (offset, pieces) in self.words {
            let mut text = String::new();
            let is_quoted = matches!(pieces.first(), Some(WordPiece::Literal(_)));
            for piece in pieces {
                match piece {
                    WordPiece::Literal(literal) => text.push_str(&literal),
                    WordPiece::Expandable(open) if dialect == Dialect::PowerShell => {
                        let open = open.replace("$env:", "$").replace("${env:", "${");
                        text.push_str(&expand(&open, lookup).text);
                    }
                    WordPiece::Expandable(open) => text.push_str(&expand(&open, lookup).text),
                    WordPiece::Substitution(whole, start, end) => {
                        text.push_str(&whole);
                        inside.push((start, end));
                    }
                }
            }
            let word = ShellWord { text, line: script.line_at(offset) };
            command.push(word, is_quoted);
        }
        if let Some(name) = target {
            let value = command.words.drain(..).nth(2);
            command.assigned.extend(value.map(|value| (name, value)));
        }
        let is_empty = command.words.is_empty() && command.assigned.is_empty();
        ((!is_empty).then_some(command), inside)
    }
}

impl ShellCommand {
    fn push(&mut self, word: ShellWord, is_quoted: bool) {
        let may_set = self.words.is_empty() || self.is_assignment();
        if may_set
            && !is_quoted
            && let Some((name, value)) = word.text.split_once('=')
            && !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            let value = ShellWord { text: value.to_owned(), line: word.line };
            self.assigned.push((name.to_owned(), value));
            if self.words.is_empty() {
                return;
            }
        }
        // `sudo -E env A=1 program`: drop the wrappers and their flags.
        let is_wrapper =
            |text: &str| matches!(text, "sudo" | "env" | "exec" | "nohup" | "stdbuf" | "xvfb-run");
        let is_flag = word.text.starts_with('-') && !self.words.is_empty();
        if self.words.len() == 1 && is_wrapper(self.program()) && !is_flag {
            self.words.clear();
            self.push(word, is_quoted);
            return;
        }
        if is_flag && is_wrapper(self.program()) {
            return;
        }
        self.words.push(word);
    }
}
