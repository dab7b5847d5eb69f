//! Formats conversations as the model was trained to see them: with the chat template of the file, or a
//! built-in one.
//!
//! Templates are Jinja as Python's `transformers` runs it. The output is the same text, byte for byte, or an
//! error; `tests/suite/templates.rs` compares both with Python.

mod isolated;
mod json;
mod python;

use crate::Error;
use crate::gguf::Gguf;
use crate::tokenizer::Tokenizer;
pub use isolated::{IsolatedTemplate, answer};
use jiff::civil::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value, context};
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions, once, at the start.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Text of the message.
    pub content: String,
}

impl Message {
    /// A message with this role and content.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// What the text ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    /// The opening of the model's answer.
    Assistant,
    /// The last message.
    None,
}

/// What templates can query about the model and the date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateContext {
    /// Text of the start token.
    pub bos: String,
    /// Text of the end token.
    pub eos: String,
    /// The local time, for templates that state the date.
    #[serde(with = "isolated::time")]
    pub now: DateTime,
}

impl TemplateContext {
    /// The values of a model, with the current time.
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
    template_context: TemplateContext,
}

/// Built-in templates, for files without one.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("chatml", include_str!("../../templates/chatml.jinja")),
    ("llama2", include_str!("../../templates/llama2.jinja")),
    ("llama3", include_str!("../../templates/llama3.jinja")),
    ("mistral", include_str!("../../templates/mistral.jinja")),
];

const KEY: &str = "tokenizer.chat_template";
const NAME: &str = "template";

/// Maximum number of steps of a template, so that a broken one cannot hang.
const FUEL: u64 = 10_000_000;

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    /// The source is not Jinja, or uses unsupported features.
    pub fn new(source: &str, template_context: TemplateContext) -> Result<Self, Error> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| Error::message(explain(&error)))?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_fuel(Some(FUEL));
        python::install(&mut environment, template_context.now);
        environment.add_template_owned(NAME, python::without_generation(source)).map_err(|error| {
            Error::message(format!("cannot parse the chat template: {}", explain(&error)))
        })?;
        Ok(Self { environment, template_context })
    }

    /// The source of a chat template in the file: the named one, or the default. `None` if the file has no
    /// templates.
    ///
    /// # Errors
    /// The file has templates, but not this one, or the key is not a string.
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
            "`{}` has no chat template named `{name}`; it has `default`{others}",
            gguf.name()
        )))
    }

    /// The text of a conversation.
    ///
    /// # Errors
    /// The template rejects the conversation, as many do if roles do not alternate, or fails.
    pub fn render(&self, messages: &[Message], opening: Opening) -> Result<String, Error> {
        let template =
            self.environment.get_template(NAME).map_err(|error| Error::message(explain(&error)))?;
        let context = context! {
            messages => Value::from(Serde(messages)),
            add_generation_prompt => opening == Opening::Assistant,
            bos_token => self.template_context.bos.as_str(),
            eos_token => self.template_context.eos.as_str(),
            tools => (),
            documents => (),
        };
        // Templates are untrusted, and minijinja 3.0.5 panics on a reversed slice of an empty slice.
        // Rendering only reads, so a panic cannot leave inconsistent state.
        let rendered = catch_unwind(AssertUnwindSafe(|| template.render(context)))
            .map_err(|_| Error::message("the chat template fails because of a bug in the template engine"))?;
        rendered.map_err(|error| {
            Error::message(match python::raised(&error) {
                Some(reason) => format!("the chat template rejects this conversation: {reason}"),
                None => format!("the chat template fails: {}", explain(&error)),
            })
        })
    }
}

/// A Jinja error with its line number, on one line.
fn explain(error: &minijinja::Error) -> String {
    let what = error
        .detail()
        .map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()));
    error.line().map_or_else(|| what.clone(), |line| format!("line {line}: {what}"))
}
