//! Renders the template of a file in a child process. Within the limit of steps, a template can still nest values until the stack
//! overflows, or double a text until the memory is full.

use super::{ChatTemplate, Message, Opening, TemplateContext};
use crate::Error;
use crate::child;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A child that has not answered by then is killed.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum length of an answer in bytes.
const LONGEST: u64 = 16 << 20;
/// Maximum memory of the child in bytes, where the system supports a limit.
#[cfg(target_os = "linux")]
const MEMORY: u64 = 160 << 20;

/// A template of a file that is not trusted.
#[derive(Debug)]
pub struct IsolatedTemplate {
    program: PathBuf,
    source: String,
    template_context: TemplateContext,
}

/// The input of the child.
#[derive(Debug, Serialize, Deserialize)]
struct TemplateRequest {
    source: String,
    template_context: TemplateContext,
    /// `None`: only compile the template.
    conversation: Option<(Vec<Message>, Opening)>,
}

impl IsolatedTemplate {
    /// Compiles a template in a child process: `program __template`.
    ///
    /// # Errors
    /// The source is not Jinja, or uses unsupported features.
    pub fn new(program: PathBuf, source: String, template_context: TemplateContext) -> Result<Self, Error> {
        let template = Self { program, source, template_context };
        template.ask(None).map(|_| template)
    }

    /// The text of a conversation.
    ///
    /// # Errors
    /// The template rejects the conversation, fails, or needs too much memory or time.
    pub fn render(&self, messages: &[Message], opening: Opening) -> Result<String, Error> {
        self.ask(Some((messages.to_vec(), opening)))
    }

    fn ask(&self, conversation: Option<(Vec<Message>, Opening)>) -> Result<String, Error> {
        let (source, template_context) = (self.source.clone(), self.template_context.clone());
        let request = TemplateRequest { source, template_context, conversation };
        let input = serde_json::to_vec(&request)
            .map_err(|error| Error::message(format!("cannot pass on the chat template: {error}")))?;
        let ended = child::run(Command::new(&self.program).arg("__template"), input, LONGEST, TIMEOUT)
            .map_err(|error| {
                Error::message(format!("cannot start a process for the chat template: {error}"))
            })?;
        let Some(ended) = ended else {
            let seconds = TIMEOUT.as_secs();
            return Err(Error::message(format!("the chat template takes more than {seconds} s")));
        };
        let answer = serde_json::from_slice::<Result<String, String>>(&ended.output);
        match answer.ok().filter(|_| ended.status.success()) {
            Some(answer) => answer.map_err(Error::message),
            None => Err(Error::message(
                "the chat template needs too much memory, nests too deeply, or writes too much",
            )),
        }
    }
}

/// The child's side: the answer to a request, as JSON.
///
/// # Errors
/// The request is invalid.
pub fn answer(request: &str) -> Result<String, Error> {
    limit_resources();
    let invalid = |error: serde_json::Error| Error::message(format!("invalid request: {error}"));
    let TemplateRequest { source, template_context, conversation } =
        serde_json::from_str(request).map_err(invalid)?;
    let rendered = ChatTemplate::new(&source, template_context).and_then(|template| match conversation {
        Some((messages, opening)) => template.render(&messages, opening),
        None => Ok(String::new()),
    });
    serde_json::to_string(&rendered.map_err(|error| error.to_string())).map_err(invalid)
}

/// Limits the memory, and writes no core file when the limit ends the process.
#[cfg(target_os = "linux")]
fn limit_resources() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    for (resource, limit) in [(Resource::Data, MEMORY), (Resource::Core, 0)] {
        // Without the limit, only the time is limited.
        let _: Result<(), _> = setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) });
    }
}

#[cfg(not(target_os = "linux"))]
fn limit_resources() {}

/// Local times as text.
pub(super) mod time {
    use jiff::civil::DateTime;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(in crate::chat) fn serialize<S: Serializer>(
        now: &DateTime,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(now)
    }

    pub(in crate::chat) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<DateTime, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
