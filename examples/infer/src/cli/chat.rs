//! `infer chat`: a conversation with a model that has a chat template.

use super::generate::{Ending, Reader, Writer};
use super::printer::Printer;
use super::run::{context, load};
use super::sampling::SamplingArgs;
use super::{Failure, ModelArgs, interrupt, open_model, program};
use crate::Error;
use crate::chat::{self, BUILT_IN, ChatTemplate, IsolatedTemplate, Message, Opening, Role, TemplateContext};
use crate::gguf::Gguf;
use crate::model::Model;
use crate::sampler::Sampler;
use crate::session::{CacheType, LogitRows, Options};
use crate::tokenizer::Tokenizer;
use clap::Args;
use std::io::{BufRead, IsTerminal, Read};
use std::path::Path;

/// Above 0: otherwise conversations are predictable, and small models repeat themselves.
const TEMPERATURE: f64 = 0.7;

#[derive(Debug, Clone, Args)]
pub(super) struct ChatArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Instructions for the model before the conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Send this message, print the answer and exit [default: read turns from stdin, one per line]
    #[arg(long, value_name = "TEXT")]
    user: Option<String>,
    /// Chat template: `chatml`, `llama2`, `llama3`, `mistral`, a file, or the name of one in the model [default: the model's]
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Maximum tokens of an answer
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1024)]
    tokens: u32,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// A template that writes the conversation.
enum TurnTemplate {
    BuiltIn(Box<ChatTemplate>),
    OfFile(IsolatedTemplate),
}

impl TurnTemplate {
    fn render(&self, messages: &[Message]) -> Result<String, Error> {
        match self {
            Self::BuiltIn(template) => template.render(messages, Opening::Assistant),
            Self::OfFile(template) => template.render(messages, Opening::Assistant),
        }
    }
}

/// `infer __template`: renders a template in this process.
pub(super) fn render(printer: &mut Printer) -> Result<(), Failure> {
    let mut request = String::new();
    std::io::stdin()
        .read_to_string(&mut request)
        .map_err(|error| Error::message(format!("cannot read the request: {error}")))?;
    printer.answer(&chat::answer(&request)?)
}

/// The requested template, or that of the model.
fn template(gguf: &Gguf, tokenizer: &Tokenizer, asked: Option<&str>) -> Result<TurnTemplate, Error> {
    let of_file = |source: String, template_context: TemplateContext| {
        IsolatedTemplate::new(program()?, source, template_context).map(TurnTemplate::OfFile)
    };
    let template_context = TemplateContext::of(tokenizer);
    let built_in = asked.and_then(|asked| BUILT_IN.iter().find(|(name, _)| *name == asked));
    if let Some((_, source)) = built_in {
        return ChatTemplate::new(source, template_context).map(Box::new).map(TurnTemplate::BuiltIn);
    }
    if let Some(path) = asked.map(Path::new).filter(|path| path.is_file()) {
        let source = std::fs::read_to_string(path).map_err(|error| Error::Read {
            path: path.display().to_string(),
            source: std::sync::Arc::new(error),
        })?;
        return of_file(source, template_context);
    }
    if let Some(source) = ChatTemplate::source_of(gguf, asked)? {
        return of_file(source.to_owned(), template_context);
    }
    let names = BUILT_IN.map(|(name, _)| format!("`{name}`")).join(", ");
    let what = asked.map_or_else(String::new, |asked| format!(", and `{asked}` is not a file"));
    Err(Error::message(format!(
        "`{}` has no chat template{what}\nhint: if you know how it was trained, say so with `--template`: {names}, or a file; \
         `infer run` continues a text",
        gguf.name()
    )))
}

/// A conversation in progress.
struct Chat<'a> {
    args: &'a ChatArgs,
    template: TurnTemplate,
    messages: Vec<Message>,
    writer: Writer,
}

pub(super) fn chat(args: &ChatArgs, printer: &mut Printer) -> Result<(), Failure> {
    if args.model.quiet {
        printer.be_quiet();
    }
    let gguf = open_model(args.model.model.as_ref())?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let template = template(&gguf, &tokenizer, args.template.as_deref())?;
    let model = Model::from_gguf(gguf)?;
    let options =
        Options { n_ctx: context(&model, args.model.ctx), cache: CacheType::F16, logits: LogitRows::Last };
    let session = load(&model, &args.model.device, options, printer)?;
    let sampler = Sampler::new(args.sampling.settings(TEMPERATURE));
    let messages = args.system.iter().map(|text| Message::new(Role::System, text)).collect();
    let writer = Writer::new(session, tokenizer, sampler);
    let mut chat = Chat { args, template, messages, writer };
    interrupt::install()?;
    if let Some(user) = &args.user {
        return chat.turn(user, printer);
    }
    chat.listen(printer)
}

impl Chat<'_> {
    /// Answers each line of input.
    fn listen(&mut self, printer: &mut Printer) -> Result<(), Failure> {
        let stdin = std::io::stdin();
        let terminal = stdin.is_terminal();
        if terminal {
            printer.note("one line is one turn; ctrl-c stops an answer, twice exits; ctrl-d exits");
        }
        let mut line = String::new();
        loop {
            if terminal {
                printer.invite();
            }
            line.clear();
            let count = stdin.lock().read_line(&mut line);
            if count.map_err(|error| Error::message(format!("cannot read the next turn: {error}")))? == 0 {
                return Ok(());
            }
            let text = line.trim_end_matches(['\r', '\n']);
            if text.trim().is_empty() {
                continue;
            }
            match self.turn(text, printer) {
                // At a terminal the user can try another message.
                Err(Failure::Error(error)) if terminal => printer.error(&error),
                done => done?,
            }
        }
    }

    /// One question and its answer. A failed turn does not become part of the conversation.
    fn turn(&mut self, text: &str, printer: &mut Printer) -> Result<(), Failure> {
        self.messages.push(Message::new(Role::User, text));
        let done = self.answer(printer);
        match done {
            Ok(text) => self.messages.push(Message::new(Role::Assistant, text)),
            Err(failure) => {
                self.messages.pop();
                return Err(failure);
            }
        }
        Ok(())
    }

    fn answer(&mut self, printer: &mut Printer) -> Result<String, Failure> {
        let rendered = self.template.render(&self.messages)?;
        let prompt = self.writer.tokenizer().prompt(&rendered)?;
        let stream = self.writer.tokenizer().stream(&rendered);
        interrupt::forget();
        let mut piece = |text: &str| printer.answer(text);
        let mut reader = Reader { piece: &mut piece, stopped: &interrupt::pressed };
        let written = self.writer.write(&prompt, self.args.tokens, stream, &mut reader)?;
        interrupt::forget();
        printer.answer("\n")?;
        let (prompt_rate, rate) = written.rates();
        printer.note(format_args!(
            "{} tokens, {} of them new, {prompt_rate:.1} tokens/s; answer: {} tokens, {rate:.1} tokens/s{}",
            prompt.len(),
            written.prompt_computed,
            written.tokens.len(),
            if written.ending == Ending::Model {
                String::new()
            } else {
                format!("; {}", written.ending.describe())
            },
        ));
        Ok(written.text)
    }
}
