//! All processing of a file before a session is opened. The fuzz targets compile this file too.

use infer::chat::{ChatTemplate, Message, Opening, Role, TemplateContext};
use infer::gguf::{Bytes, Gguf};
use infer::gk::Device;
use infer::model::{Model, rope, tensors};
use infer::session::{CacheType, LogitRows, Needs, Options};
use infer::tokenizer::Tokenizer;

/// A context size for tables and estimates.
const CONTEXT: u32 = 8;

/// Reads a file as far as the command line does before it uploads weights, and asserts what must hold for
/// every accepted file; `device` adds the memory estimate.
pub(crate) fn load(bytes: Vec<u8>, device: Option<&Device>) -> Result<(), infer::Error> {
    let gguf = Gguf::new("test.gguf", Bytes::Owned(bytes))?;
    for name in gguf.tensor_names() {
        let tensor = gguf.tensor(name).expect("it was listed");
        assert_eq!(gguf.data(tensor).len(), tensor.data.len());
    }
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let template = ChatTemplate::source_of(&gguf, None)?.map(str::to_owned);
    let title = gguf.string("general.name")?.unwrap_or_default().to_owned();
    let model = Model::from_gguf(gguf)?;
    encode(&tokenizer, "abc é <user> zz")?;
    // A text chosen by the file; a vocabulary may have no token for it.
    let _: Result<(), infer::Error> = encode(&tokenizer, &title);
    for spec in model.specs() {
        let rows = model.rows(spec, 0, spec.rows);
        assert_eq!(rows.len() as u64, spec.kind.row_bytes(spec.width.into()).unwrap() * u64::from(spec.rows));
    }
    let factors = model.spec(tensors::ROPE_FREQS).map(|spec| model.vector(spec));
    let table = rope::table(model.config(), factors.as_deref(), CONTEXT)?;
    assert_eq!(table.len(), (CONTEXT * model.config().n_rot) as usize);
    assert!(table.iter().all(|value| value.is_finite()), "a rotation is not finite: {:?}", model.config());
    if let Some(device) = device {
        let options = Options { n_ctx: CONTEXT, cache: CacheType::F16, logits: LogitRows::Last };
        let needs = Needs::new(&model, device, options)?;
        assert!(needs.total() >= needs.weights);
    }
    if let Some(source) = template {
        let text = render(&source, TemplateContext { now: day(), ..TemplateContext::of(&tokenizer) })?;
        encode(&tokenizer, &text)?;
    }
    Ok(())
}

/// Encodes a text and decodes it again.
fn encode(tokenizer: &Tokenizer, text: &str) -> Result<(), infer::Error> {
    let mut stream = tokenizer.stream(text);
    for id in tokenizer.prompt(text)? {
        assert!((id as usize) < tokenizer.vocabulary().len());
        stream.push(&tokenizer.bytes(id));
    }
    assert!(stream.finish().len() < 4, "at most one character is incomplete");
    Ok(())
}

/// A fixed date, so that fuzzing results are reproducible.
pub(crate) fn day() -> jiff::civil::DateTime {
    jiff::civil::datetime(2024, 7, 6, 9, 5, 3, 0)
}

/// Renders a short conversation with a template.
pub(crate) fn render(source: &str, template_context: TemplateContext) -> Result<String, infer::Error> {
    let template = ChatTemplate::new(source, template_context)?;
    let turns =
        [(Role::System, "be kind"), (Role::User, "a é <user>"), (Role::Assistant, "b"), (Role::User, "c")];
    let messages = turns.map(|(role, text)| Message::new(role, text));
    template.render(&messages, Opening::Assistant)
}
