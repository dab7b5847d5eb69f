//! Commands out of tokens.

use super::lex::{ShellToken, TokenKind, WordPiece};
use super::{Dialect, ScriptText, ShellCommand, ShellWord, expand};

/// A command whose variables are not replaced yet.
#[derive(Debug, Default)]
pub(super) struct Raw {
    words: Vec<(usize, Vec<WordPiece>)>,
    awaits: bool,
    input: Option<String>,
    tolerated: bool,
}

/// How many commands of a line are looked at for one that waits for a here-document.
const RECENT: usize = 64;

/// What a bracket or a keyword opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    /// `if`, `while`, `case`, a function: what is inside may never run, or may fail.
    Maybe,
    /// `for`: what is inside runs.
    Always,
    /// `(`, `{`: the place of its first command.
    Group(usize),
}

/// The commands of the tokens.
pub(super) fn group(tokens: Vec<ShellToken>) -> Vec<Raw> {
    let mut grouper = Grouper::default();
    for token in tokens {
        grouper.take(token);
    }
    grouper.end();
    grouper.list
}

#[derive(Debug, Default)]
struct Grouper {
    list: Vec<Raw>,
    current: Raw,
    blocks: Vec<Block>,
    /// Where the chain of `&&` and `|` begins that the current command belongs to.
    chain: usize,
    /// Whether a test stands before the current command.
    is_guarded: bool,
    /// Whether `|| …` was just seen: the chain before it is forgiven unless it leaves the script.
    forgives: Option<(usize, usize)>,
    /// Words of `for x in …` and `case x in` that are no command.
    skips: Option<&'static str>,
}

impl Grouper {
    fn take(&mut self, token: ShellToken) {
        match token.kind {
            TokenKind::Word(pieces) => self.word(token.offset, pieces),
            TokenKind::Awaits => self.current.awaits = true,
            TokenKind::Input(body) => {
                let recent = self.list.len().saturating_sub(RECENT);
                let mut commands = self.list[recent..].iter_mut().chain([&mut self.current]);
                if let Some(command) = commands.find(|command| command.awaits && command.input.is_none()) {
                    command.input = Some(body);
                }
            }
            TokenKind::End => {
                if self.skips.is_none() {
                    self.end();
                    self.new_chain();
                }
            }
            TokenKind::CaseEnd => {
                self.end();
                self.new_chain();
                if self.blocks.contains(&Block::Maybe) {
                    self.skips = Some(")");
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
                self.forgives = Some((self.chain, self.list.len()));
                self.new_chain();
            }
            TokenKind::Pipe => self.end(),
            TokenKind::Open => {
                // `name ()` makes a function; its words are no command.
                if self.current.words.len() == 1 {
                    self.current = Raw::default();
                    self.blocks.push(Block::Maybe);
                } else if self.skips.is_none() {
                    self.end();
                    self.blocks.push(Block::Group(self.chain));
                    self.new_chain();
                }
            }
            TokenKind::Close => {
                if self.skips == Some(")") {
                    self.skips = None;
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
            [WordPiece::Open(text)] => text.as_str(),
            _ => "",
        };
        if let Some(end) = self.skips {
            if text == end {
                self.skips = (end == "in").then_some(")");
            } else if end == ")" && text == "esac" {
                self.skips = None;
                self.blocks.pop();
            }
            return;
        }
        if self.current.words.is_empty() && self.keyword(text) {
            return;
        }
        self.current.words.push((offset, pieces));
    }

    /// Whether a word at the beginning of a command belongs to the language.
    fn keyword(&mut self, text: &str) -> bool {
        match text {
            "if" | "while" | "until" => self.blocks.push(Block::Maybe),
            "case" => {
                self.blocks.push(Block::Maybe);
                self.skips = Some("in");
            }
            "for" | "select" => {
                self.blocks.push(Block::Always);
                self.skips = Some("do");
            }
            "then" | "else" | "elif" | "do" | "time" => {}
            "fi" | "done" | "esac" => {
                self.blocks.pop();
            }
            "{" => {
                // After `name ()` the body may never run.
                if self.blocks.last() == Some(&Block::Maybe) && self.follows_function() {
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

    /// Whether the block that is open is a function's whose `)` was just read: nothing has run since.
    fn follows_function(&self) -> bool {
        self.chain == self.list.len() && self.current.words.is_empty()
    }

    fn end(&mut self) {
        let mut command = std::mem::take(&mut self.current);
        if command.words.is_empty() {
            return;
        }
        if let Some((from, to)) = self.forgives.take()
            && !command.leaves()
        {
            for forgiven in &mut self.list[from..to] {
                forgiven.tolerated = true;
            }
        }
        command.tolerated |= self.is_guarded || self.blocks.contains(&Block::Maybe);
        self.list.push(command);
    }
}

impl Raw {
    fn plain(&self, index: usize) -> &str {
        match self.words.get(index).map(|(_, pieces)| pieces.as_slice()) {
            Some([WordPiece::Open(text) | WordPiece::Literal(text)]) => text,
            _ => "",
        }
    }

    fn is_test(&self) -> bool {
        match self.plain(0) {
            "[" | "[[" | "test" | "which" | "type" | "hash" | "lspci" => true,
            "command" => self.plain(1) == "-v",
            _ => false,
        }
    }

    /// Whether the command ends the script with an error.
    fn leaves(&self) -> bool {
        match self.plain(0) {
            "exit" | "return" => self.plain(1) != "0",
            "false" => true,
            _ => false,
        }
    }

    /// The variable that `$env:NAME = …` sets.
    fn power_target(&self) -> Option<String> {
        let name = self.plain(0).strip_prefix("$env:")?;
        (self.plain(1) == "=").then(|| name.to_owned())
    }

    /// The command with its variables replaced, and the scripts of `$(…)` in it.
    pub(super) fn finish(
        self,
        script: &ScriptText,
        dialect: Dialect,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> (Option<ShellCommand>, Vec<(usize, usize)>) {
        let mut inside = Vec::new();
        let first = self.words.first().map_or(0, |(offset, _)| *offset);
        let target = if dialect == Dialect::Power { self.power_target() } else { None };
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
                    WordPiece::Open(open) if dialect == Dialect::Power => {
                        let open = open.replace("$env:", "$").replace("${env:", "${");
                        text.push_str(&expand(&open, lookup).text);
                    }
                    WordPiece::Open(open) => text.push_str(&expand(&open, lookup).text),
                    WordPiece::Script(whole, start, end) => {
                        text.push_str(&whole);
                        inside.push((start, end));
                    }
                }
            }
            let word = ShellWord { text, line: script.line_at(offset) };
            command.take(word, is_quoted);
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
    fn take(&mut self, word: ShellWord, is_quoted: bool) {
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
        // `sudo -E env A=1 program`: what counts is the program.
        let is_wrapper =
            |text: &str| matches!(text, "sudo" | "env" | "exec" | "nohup" | "stdbuf" | "xvfb-run");
        let is_flag = word.text.starts_with('-') && !self.words.is_empty();
        if self.words.len() == 1 && is_wrapper(self.program()) && !is_flag {
            self.words.clear();
            self.take(word, is_quoted);
            return;
        }
        if is_flag && is_wrapper(self.program()) {
            return;
        }
        self.words.push(word);
    }
}
