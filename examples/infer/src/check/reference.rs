//! Compares the embedded model on a device with stored results of an exact computation.

use super::{Row, nmse};
use crate::Error;
use crate::session::{CHUNK, Output, Session};
use crate::tokenizer::{Specials, Tokenizer};
use serde::Deserialize;

/// The stored results; `model/README.md` documents the fields.
#[derive(Debug, Clone, Deserialize)]
pub struct Reference {
    prompt: Prompt,
    logits: Vec<LogitRow>,
    greedy: Greedy,
}

#[derive(Debug, Clone, Deserialize)]
struct Prompt {
    text: String,
    tokens: Vec<u32>,
    argmax: Vec<u32>,
}

#[derive(Debug, Clone, Deserialize)]
struct LogitRow {
    position: usize,
    values: Vec<f64>,
}

#[derive(Debug, Clone, Deserialize)]
struct Greedy {
    tokens: Vec<u32>,
    margins: Vec<f64>,
    text: String,
}

/// Allowed error of the logits. Eight-bit activations through all layers cause up to a fifth of it; a wrong
/// layer, head or position causes far more.
const LOGITS: f64 = 1e-3;

impl Reference {
    /// Parses the stored results.
    ///
    /// # Errors
    /// The text is not JSON of the expected form.
    pub fn parse(json: &str) -> Result<Self, Error> {
        serde_json::from_str(json)
            .map_err(|error| Error::message(format!("the reference of the model: {error}")))
    }

    /// Number of tokens that the comparison feeds: the minimum context.
    #[must_use]
    pub fn length(&self) -> usize {
        self.prompt.tokens.len() + self.greedy.tokens.len()
    }
}

/// Compares tokens, logits and greedy text. The session must store all logits.
///
/// # Errors
/// The device fails.
pub fn compare_model(
    reference: &Reference,
    tokenizer: &Tokenizer,
    session: &mut Session,
) -> Result<Vec<Row>, Error> {
    let Reference { prompt, greedy, .. } = reference;
    let ids = tokenizer.prompt(&prompt.text)?;
    let mut rows = vec![equal_tokens("tokens of the prompt", &ids, &prompt.tokens)];
    let plain = tokenizer.encode(&prompt.text, Specials::Plain)?;
    rows.push(equal_tokens("tokens without the start", &plain, &prompt.tokens[1.min(prompt.tokens.len())..]));

    let all = [prompt.tokens.as_slice(), &greedy.tokens].concat();
    let computed = all_logits(session, &all)?;
    let mut largest = 0.0_f64;
    for LogitRow { position, values } in &reference.logits {
        let found = computed.get(*position).map(Vec::as_slice).unwrap_or_default();
        rows.push(Row::error(format!("logits after token {position}"), nmse(found, values), LOGITS));
        let differences = found.iter().zip(values).map(|(found, exact)| (f64::from(*found) - exact).abs());
        largest = differences.fold(largest, f64::max);
    }
    let best: Vec<u32> = computed.iter().map(|row| best(row)).collect();
    let exact_best = [&prompt.argmax[..prompt.argmax.len().saturating_sub(1)], &greedy.tokens].concat();
    rows.push(best_tokens(&best, &exact_best, prompt.tokens.len(), &greedy.margins, largest));

    session.reset();
    session.feed(&prompt.tokens, Output::Best)?;
    let mut written = vec![session.best()?];
    while written.len() < greedy.tokens.len() {
        let missing = greedy.tokens.len() - written.len();
        let count = u32::try_from(missing).unwrap_or(CHUNK).min(16);
        written.extend(session.generate(count)?);
    }
    rows.push(greedy_text(tokenizer, &written, greedy, largest));
    Ok(rows)
}

/// Logits after every token of a text.
fn all_logits(session: &mut Session, tokens: &[u32]) -> Result<Vec<Vec<f32>>, Error> {
    session.reset();
    let mut all = Vec::new();
    for chunk in tokens.chunks(CHUNK as usize) {
        // A plan for one token has one row, which is all rows.
        session.feed(chunk, Output::AllLogits)?;
        let logits = session.logits(chunk.len())?;
        all.extend(logits.chunks_exact(logits.len() / chunk.len()).map(<[f32]>::to_vec));
    }
    Ok(all)
}

fn best(logits: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (id, logit) in (0..).zip(logits) {
        if *logit > best.1 {
            best = (id, *logit);
        }
    }
    best.0
}

fn equal_tokens(name: &str, found: &[u32], expected: &[u32]) -> Row {
    let result = match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None if found.len() == expected.len() => format!("{} equal", found.len()),
        None => format!("{} instead of {}", found.len(), expected.len()),
        Some(place) => format!("token {place} is {} instead of {}", found[place], expected[place]),
    };
    Row { name: name.to_owned(), result, bound: "equal".to_owned(), ok: found == expected }
}

/// The best token after each token of the text; near ties may differ.
fn best_tokens(found: &[u32], exact: &[u32], prompt: usize, margins: &[f64], error: f64) -> Row {
    let mut ties = 0;
    let mut wrong = Vec::new();
    for (place, (found, exact)) in found.iter().zip(exact).enumerate() {
        if found == exact {
            continue;
        }
        // Margins are known for generated tokens only: the first is chosen after the last token of the
        // prompt.
        let margin = (place + 1).checked_sub(prompt).and_then(|written| margins.get(written));
        match margin {
            Some(margin) if *margin < 2.0 * error => ties += 1,
            _ => wrong.push(place),
        }
    }
    let count = exact.len().min(found.len());
    let tie_text = if ties > 0 { format!(", {ties} near ties differ") } else { String::new() };
    Row {
        name: "best token after each".to_owned(),
        result: format!("{} of {count} equal{tie_text}", count - wrong.len() - ties),
        bound: "equal except near ties".to_owned(),
        ok: wrong.is_empty() && count == exact.len(),
    }
}

/// The text that the device generates on its own.
fn greedy_text(tokenizer: &Tokenizer, written: &[u32], greedy: &Greedy, error: f64) -> Row {
    let name = "text, generated".to_owned();
    let bound = "equal up to a near tie".to_owned();
    let first = written.iter().zip(&greedy.tokens).position(|(written, exact)| written != exact);
    let Some(place) = first else {
        let bytes: Vec<u8> = written.iter().flat_map(|id| tokenizer.bytes(*id)).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let ok = text.trim() == greedy.text.trim();
        let result = if ok { "equal" } else { "different text" };
        return Row { name, result: format!("{} tokens, {result}", written.len()), bound, ok };
    };
    let margin = greedy.margins.get(place).copied().unwrap_or(f64::INFINITY);
    let result =
        format!("equal up to token {place}, whose margin is {margin:.1e} at an error of {error:.1e}");
    Row { name, result, bound, ok: margin < 2.0 * error }
}
