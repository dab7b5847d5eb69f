//! Generates text with a loaded model: the loop that `run` and `chat` share.

use super::Failure;
use crate::Error;
use crate::gk::Kind;
use crate::sampler::Sampler;
use crate::session::{MAX_CANDIDATES, Output, Session};
use crate::tokenizer::{TextStream, Tokenizer};
use serde::Serialize;
use std::time::Instant;

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    /// The model produced an end token.
    Model,
    /// `--tokens`.
    Limit,
    /// The context is full.
    Context,
    /// The user interrupted it.
    Interrupt,
}

impl Ending {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Model => "the model ended the text",
            Self::Limit => "`--tokens` reached",
            Self::Context => "the context is full; increase `--ctx` for more",
            Self::Interrupt => "interrupted",
        }
    }
}

/// A generated text.
#[derive(Debug, Serialize)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) tokens: Vec<u32>,
    pub(super) ending: Ending,
    /// Prompt tokens that were computed; those cached from the previous turn are not.
    pub(super) prompt_computed: usize,
    pub(super) prompt_seconds: f64,
    pub(super) seconds: f64,
}

impl Written {
    pub(super) fn rates(&self) -> (f64, f64) {
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 tokens")]
        let rate = |tokens: usize, seconds: f64| if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
        (rate(self.prompt_computed, self.prompt_seconds), rate(self.tokens.len(), self.seconds))
    }
}

/// Receives the pieces of a text, and can stop it.
pub(super) struct Reader<'a> {
    pub(super) piece: &'a mut dyn FnMut(&str) -> Result<(), Failure>,
    pub(super) stopped: &'a dyn Fn() -> bool,
}

/// State for generating a text.
pub(super) struct Writer {
    session: Session,
    tokenizer: Tokenizer,
    sampler: Sampler,
    /// All tokens since the start; the session has the first of them in its cache.
    history: Vec<u32>,
}

impl Writer {
    pub(super) fn new(session: Session, tokenizer: Tokenizer, sampler: Sampler) -> Self {
        Self { session, tokenizer, sampler, history: Vec::new() }
    }

    pub(super) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// What each pass must compute for the sampler.
    fn output(&self) -> Output {
        match self.sampler.candidates() {
            _ if self.sampler.is_greedy() => Output::Best,
            Some(count @ 1..=MAX_CANDIDATES) => Output::Candidates(count),
            _ => Output::Logits,
        }
    }

    /// Feeds the part of a prompt that is not cached yet.
    fn feed(&mut self, prompt: &[u32], output: Output) -> Result<usize, Error> {
        // A failed pass leaves tokens in the cache that are not in the history.
        let cached = &self.history[..self.history.len().min(self.session.position() as usize)];
        let same = cached.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        // The last token must be computed, because its logits choose the next one.
        let same = same.min(prompt.len().saturating_sub(1));
        self.session.rewind(u32::try_from(same).unwrap_or(0));
        self.history.truncate(same);
        self.session.feed(&prompt[same..], output)?;
        self.history.extend(&prompt[same..]);
        Ok(prompt.len() - same)
    }

    /// Generates at most `limit` tokens after a prompt.
    pub(super) fn write(
        &mut self,
        prompt: &[u32],
        limit: u32,
        mut stream: TextStream,
        reader: &mut Reader,
    ) -> Result<Written, Failure> {
        let start = Instant::now();
        let output = self.output();
        let prompt_computed = self.feed(prompt, output)?;
        self.sampler.accept(&prompt[prompt.len() - prompt_computed..]);
        let mut pending = vec![self.first(output)?];
        let prompt_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let (mut tokens, mut text) = (Vec::new(), String::new());
        let ending = 'text: loop {
            for id in pending.drain(..) {
                if self.tokenizer.is_end(id) {
                    break 'text Ending::Model;
                }
                if tokens.len() >= limit as usize {
                    break 'text Ending::Limit;
                }
                tokens.push(id);
                let piece = stream.push(&self.tokenizer.bytes(id));
                text.push_str(&piece);
                (reader.piece)(&piece)?;
            }
            if (reader.stopped)() {
                break Ending::Interrupt;
            }
            let missing = limit.saturating_sub(u32::try_from(tokens.len()).unwrap_or(u32::MAX));
            if missing == 0 {
                break Ending::Limit;
            }
            if self.session.room() == 0 {
                break Ending::Context;
            }
            pending = self.advance(output, missing)?;
        };
        let rest = stream.finish();
        text.push_str(&rest);
        (reader.piece)(&rest)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Written { text, tokens, ending, prompt_computed, prompt_seconds, seconds })
    }

    /// The first token after the prompt.
    fn first(&mut self, output: Output) -> Result<u32, Error> {
        if output != Output::Best {
            return self.sample(output);
        }
        let id = self.session.best()?;
        self.history.push(id);
        Ok(id)
    }

    fn sample(&mut self, output: Output) -> Result<u32, Error> {
        let candidates = match output {
            Output::Candidates(count) => self.session.candidates(count)?,
            _ => (0..).zip(self.session.logits(1)?).collect(),
        };
        let id = self.sampler.choose(&candidates).ok_or_else(|| {
            Error::message("the device returned no valid logits: the weights or the kernels are broken")
        })?;
        self.sampler.accept(&[id]);
        self.history.push(id);
        Ok(id)
    }

    /// The next tokens: one if the reader sees each as it is generated, several if querying the device is
    /// expensive.
    fn advance(&mut self, output: Output, wanted: u32) -> Result<Vec<u32>, Error> {
        const BATCH: u32 = 8;
        if output == Output::Best {
            let slow = matches!(self.session.device().info().kind, Kind::Cpu | Kind::Software)
                || self.session.gpu_layers().is_some();
            let count = if slow { 1 } else { BATCH.min(wanted) };
            let ids = self.session.generate(count.min(self.session.room()))?;
            self.history.extend(&ids);
            return Ok(ids);
        }
        let last = self.history[self.history.len() - 1..].to_vec();
        self.session.feed(&last, output)?;
        Ok(vec![self.sample(output)?])
    }
}
