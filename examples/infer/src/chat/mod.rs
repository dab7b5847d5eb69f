//! Conversations as the model was trained to see them: the chat template of a file, or one of ours.
//!
//! Templates are Jinja as Python's `transformers` runs it. What this module promises is the same text, byte for byte, or an
//! error; `tests/suite/templates.rs` compares both with Python.

mod json;
mod python;

use crate::Error;
use crate::gguf::Gguf;
use crate::tokenizer::Tokenizer;
use jiff::civil::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value, context};
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sets the scene, once, at the start.
    System,
    /// Asks.
    User,
    /// The model.
    Assistant,
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A turn.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// Whether a text ends where the model is to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// It ends with the words that open the model's turn.
    Assistant,
    /// It ends with the last message.
    None,
}

/// What templates may ask about the model and the day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// Text of the token that starts a text.
    pub bos: String,
    /// Text of the token that ends one.
    pub eos: String,
    /// The local time, for templates that tell the model the date.
    pub now: DateTime,
}

impl Surroundings {
    /// Those of a model, now.
    #[must_use]
    pub fn of(tokenizer: &Tokenizer) -> Self {
        let text = |id: Option<u32>| {
            id.and_then(|id| tokenizer.vocabulary().text(id)).unwrap_or_default().to_owned()
        };
        Self { bos: text(tokenizer.bos()), eos: text(tokenizer.eos()), now: jiff::Zoned::now().datetime() }
    }
}

/// A compiled template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    surroundings: Surroundings,
}

/// Templates of ours, for files that carry none.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("chatml", include_str!("../../templates/chatml.jinja")),
    ("llama2", include_str!("../../templates/llama2.jinja")),
    ("llama3", include_str!("../../templates/llama3.jinja")),
    ("mistral", include_str!("../../templates/mistral.jinja")),
];

const KEY: &str = "tokenizer.chat_template";
const NAME: &str = "template";

/// Most steps that a template may take: a broken one must not hang.
const FUEL: u64 = 10_000_000;

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    /// It is not Jinja, or uses what this program does not know.
    pub fn new(source: &str, surroundings: Surroundings) -> Result<Self, Error> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| Error::message(explain(&error)))?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_fuel(Some(FUEL));
        python::install(&mut environment, surroundings.now);
        environment.add_template_owned(NAME, python::without_generation(source)).map_err(|error| {
            Error::message(format!("the chat template cannot be read: {}", explain(&error)))
        })?;
        Ok(Self { environment, surroundings })
    }

    /// The source of the template of a file: the one of this name, or the one without. `None` if the file has none at all.
    ///
    /// # Errors
    /// The file has templates, but not this one, or the key is no string.
    pub fn source_of<'a>(gguf: &'a Gguf, name: Option<&str>) -> Result<Option<&'a str>, Error> {
        let Some(name) = name.filter(|name| *name != "default") else {
            return Ok(gguf.string(KEY)?);
        };
        if let Some(source) = gguf.string(&format!("{KEY}.{name}"))? {
            return Ok(Some(source));
        }
        if gguf.string(KEY)?.is_none() {
            return Ok(None);
        }
        let names = gguf.strings("tokenizer.chat_templates")?.unwrap_or_default();
        let others = if names.is_empty() { String::new() } else { format!(" and {}", names.join(", ")) };
        Err(Error::message(format!(
            "`{}` has no chat template of the name `{name}`; it has `default`{others}",
            gguf.name()
        )))
    }

    /// The text of a conversation.
    ///
    /// # Errors
    /// The template refuses the conversation, as many do where roles do not alternate, or fails.
    pub fn render(&self, messages: &[Message], opening: Opening) -> Result<String, Error> {
        let template =
            self.environment.get_template(NAME).map_err(|error| Error::message(explain(&error)))?;
        let context = context! {
            messages => Value::from(Serde(messages)),
            add_generation_prompt => opening == Opening::Assistant,
            bos_token => self.surroundings.bos.as_str(),
            eos_token => self.surroundings.eos.as_str(),
            tools => (),
            documents => (),
        };
        // Templates come from strangers, and minijinja 3.0.5 panics on a reversed slice of an empty slice. Nothing of ours is
        // half-changed by that: rendering only reads.
        let rendered = catch_unwind(AssertUnwindSafe(|| template.render(context)))
            .map_err(|_| Error::message("the chat template fails: it meets a bug of the template engine"))?;
        rendered.map_err(|error| {
            Error::message(match python::raised(&error) {
                Some(reason) => format!("the chat template refuses this conversation: {reason}"),
                None => format!("the chat template fails: {}", explain(&error)),
            })
        })
    }
}

/// An error of Jinja with its line, on one line.
fn explain(error: &minijinja::Error) -> String {
    let what = error
        .detail()
        .map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()));
    error.line().map_or_else(|| what.clone(), |line| format!("line {line}: {what}"))
}
