//! Compares chat templates with Python's Jinja2. `tests/tools/templates.py` writes `templates.json`.

use crate::sdist;
use infer::chat::{BUILT_IN, ChatTemplate, Message, Opening, Role, TemplateContext};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
}

#[derive(Deserialize)]
struct Conversation {
    messages: Vec<Turn>,
    opening: bool,
}

/// By template, then by conversation; `None` if the template rejects it.
type Expected = BTreeMap<String, BTreeMap<String, Option<String>>>;

#[derive(Deserialize)]
struct Report {
    ours: Expected,
    #[serde(rename = "llama.cpp")]
    llama: Expected,
}

fn conversations() -> BTreeMap<String, Conversation> {
    serde_json::from_str(include_str!("conversations.json")).unwrap()
}

fn report() -> Report {
    serde_json::from_str(include_str!("templates.json")).unwrap()
}

fn template_context() -> TemplateContext {
    let now = jiff::civil::datetime(2024, 7, 6, 9, 5, 3, 0);
    TemplateContext { bos: "<s>".to_owned(), eos: "</s>".to_owned(), now }
}

fn render(source: &str, conversation: &Conversation) -> Result<String, infer::Error> {
    let role = |name: &str| match name {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => panic!("{other}"),
    };
    let messages: Vec<Message> =
        conversation.messages.iter().map(|turn| Message::new(role(&turn.role), &turn.content)).collect();
    let opening = if conversation.opening { Opening::Assistant } else { Opening::None };
    ChatTemplate::new(source, template_context())?.render(&messages, opening)
}

#[test]
fn built_in_templates_match_python() {
    let (report, conversations) = (report(), conversations());
    assert_eq!(report.ours.len(), BUILT_IN.len());
    for (name, source) in BUILT_IN {
        for (conversation, expected) in &report.ours[name] {
            let text = render(source, &conversations[conversation]).ok();
            assert_eq!(text, *expected, "{name}, {conversation}");
        }
    }
}

#[test]
fn rejection_contains_the_reason_of_the_template() {
    let conversations = conversations();
    let source =
        "{% if messages[0].role == 'user' %}{{ raise_exception('system first, please') }}{% endif %}";
    let said = render(source, &conversations["one"]).unwrap_err().to_string();
    assert_eq!(said, "the chat template rejects this conversation: system first, please");
    let said = render("{{ nothing[:][::-1]|list }}", &conversations["one"]).unwrap_err().to_string();
    assert_eq!(said, "the chat template fails because of a bug in the template engine");
    let said = render("a\n{{ messages[0].nothing.at_all }}", &conversations["one"]).unwrap_err().to_string();
    assert!(said.starts_with("the chat template fails: line 2: "), "{said}");
    let said = render("{% for x in %}", &conversations["one"]).unwrap_err().to_string();
    assert!(said.starts_with("cannot parse the chat template: line 1: "), "{said}");
    let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
    assert!(render(endless, &conversations["one"]).unwrap_err().to_string().contains("fuel"));
}

#[test]
fn templates_of_real_models_match_python() {
    if !sdist::wanted() {
        return;
    }
    let (report, conversations) = (report(), conversations());
    let (mut equal, mut refused, mut wrong) = (0, 0, Vec::new());
    let folder = sdist::llama().join("models/templates");
    for (name, expected) in &report.llama {
        let source = std::fs::read_to_string(folder.join(format!("{name}.jinja"))).unwrap();
        for (conversation, expected) in expected {
            let text = render(&source, &conversations[conversation]);
            let hash = |text: &String| crate::hex(&Sha256::digest(text));
            match (&text, expected) {
                (Ok(text), Some(expected)) if hash(text) == *expected => equal += 1,
                (Err(_), None) => refused += 1,
                (Ok(text), _) => {
                    wrong.push(format!("{name}, {conversation}, expected {expected:?}: {text:?}"));
                }
                (Err(error), Some(_)) => wrong.push(format!("{name}, {conversation}: {error}")),
            }
        }
    }
    println!("{} templates: {equal} texts equal, {refused} rejected by both", report.llama.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
