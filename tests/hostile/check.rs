//! Parsers that check the outputs.

use pulldown_cmark::{Event, Options, Parser};
use quick_xml::Reader;
use quick_xml::events::Event as Xml;
use serde_json::Value;

use crate::payloads::FORGED;

/// The format of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text for people, or input of a shell or build system.
    Text,
    /// One JSON document.
    Json,
    /// A JSON document on each line.
    Lines,
    Markdown,
    Sarif,
    Junit,
    /// Annotations of GitHub.
    Github,
    /// Markdown with a recording in TOML.
    Report,
    Html,
}

/// Checks an output. Errors say what is wrong.
pub(crate) fn output(form: Form, text: &str) -> Result<(), String> {
    visible(text)?;
    if form != Form::Html {
        commands(form, text)?;
    }
    // The recording in a report has files of several lines.
    if !matches!(form, Form::Html | Form::Report) {
        messages(text)?;
    }
    match form {
        Form::Text | Form::Github => Ok(()),
        Form::Json => json(text).map(drop),
        Form::Lines => text.lines().try_for_each(|line| json(line).map(drop)),
        Form::Sarif => {
            let value = json(text)?;
            let is_error = value["error"]["id"].is_string();
            if is_error || value["version"] == "2.1.0" { Ok(()) } else { Err("not SARIF".to_owned()) }
        }
        Form::Markdown => markdown(text),
        Form::Report => report(text),
        Form::Junit => xml(text),
        Form::Html => html(text),
    }
}

/// The characters of the issue, listed here independently of the program.
fn is_hidden(c: char) -> bool {
    let code = u32::from(c);
    (code < 0x20 && c != '\n' && c != '\t')
        || (0x7f..=0x9f).contains(&code)
        || matches!(code, 0xad | 0x61c | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060 | 0x2066..=0x2069 | 0xfeff)
        || (0xe0000..=0xe007f).contains(&code)
}

fn visible(text: &str) -> Result<(), String> {
    match text.char_indices().find(|(_, c)| is_hidden(*c)) {
        None => Ok(()),
        Some((at, c)) => {
            let start = text[..at].char_indices().rev().nth(80).map_or(0, |(start, _)| start);
            Err(format!("{c:?} after {:?}", &text[start..at]))
        }
    }
}

/// No line starts with a command, except gpubuild's own annotations.
fn commands(form: Form, text: &str) -> Result<(), String> {
    let own = ["::error ", "::warning ", "::notice "];
    for line in text.lines() {
        let start = line.trim_start();
        let is_own = form == Form::Github && own.iter().any(|own| line.starts_with(own));
        let is_command = (start.starts_with("::") && !is_own)
            || ["section_start:", "section_end:", "travis_fold:"].iter().any(|mark| start.starts_with(mark))
            || ["##[", "##vso[", "##teamcity["].iter().any(|mark| line.contains(mark));
        // What follows the properties of an annotation is one line, with its own escapes.
        let is_split = is_own && line.split("::").nth(1).is_none_or(|head| !head.contains("title="));
        if is_command || is_split {
            return Err(format!("a command: {:?}", line.chars().take(200).collect::<String>()));
        }
    }
    Ok(())
}

/// No line begins like a message of gpubuild.
pub(crate) fn messages(text: &str) -> Result<(), String> {
    let is_forged = |line: &&str| FORGED.iter().any(|forged| line.starts_with(forged));
    match text.lines().find(is_forged) {
        None => Ok(()),
        Some(line) => Err(format!("a forged message: {line:?} in {:?}", &text[..text.len().min(400)])),
    }
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

/// Only the report's own HTML, and no link that leaves `https`.
fn markdown(text: &str) -> Result<(), String> {
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => {
                let own = ["<details>", "</details>", "<summary>", "</summary>", "<code>", "</code>", "<br>"];
                let mut rest = html.to_string();
                for tag in own {
                    rest = rest.replace(tag, "");
                }
                if rest.contains('<') {
                    return Err(format!("HTML in Markdown: {html:?}"));
                }
            }
            Event::Start(pulldown_cmark::Tag::Link { dest_url, .. }) if !dest_url.starts_with("https://") => {
                return Err(format!("a link to {dest_url:?}"));
            }
            Event::Start(pulldown_cmark::Tag::Image { dest_url, .. }) => {
                return Err(format!("an image {dest_url:?}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The recording in the report must be TOML with the schema of recordings.
fn report(text: &str) -> Result<(), String> {
    markdown(text)?;
    let mut toml = None;
    let mut in_toml = false;
    for event in Parser::new(text) {
        match event {
            Event::Start(pulldown_cmark::Tag::CodeBlock(kind)) => {
                in_toml =
                    matches!(kind, pulldown_cmark::CodeBlockKind::Fenced(language) if &*language == "toml");
                if in_toml {
                    toml.get_or_insert_with(String::new);
                }
            }
            Event::Text(part) if in_toml => toml.as_mut().unwrap().push_str(&part),
            Event::End(pulldown_cmark::TagEnd::CodeBlock) => in_toml = false,
            _ => {}
        }
    }
    let value: toml::Value =
        toml::from_str(&toml.ok_or("no recording")?).map_err(|error| error.to_string())?;
    if value["schema"].as_str() == Some("gpubuild.host/1") {
        Ok(())
    } else {
        Err("not a recording".to_owned())
    }
}

fn xml(text: &str) -> Result<(), String> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    reader.config_mut().check_comments = true;
    let known =
        ["testsuites", "testsuite", "testcase", "failure", "skipped", "system-out", "properties", "property"];
    let mut depth = 0_i32;
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Xml::Start(element) | Xml::Empty(element) if !known.contains(&element.name().0) => {
                return Err(format!("element {:?}", element.name()));
            }
            Xml::Start(_) => depth += 1,
            Xml::End(_) => depth -= 1,
            Xml::CData(_) | Xml::DocType(_) | Xml::PI(_) | Xml::Comment(_) => {
                return Err("markup in a value".to_owned());
            }
            Xml::Eof if depth == 0 => return Ok(()),
            Xml::Eof => return Err("not closed".to_owned()),
            _ => {}
        }
    }
}

/// Every `<` begins one of the page's own tags, and every tag is closed.
fn html(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find('>').ok_or("a tag without end")?;
        let tag = &rest[..end];
        rest = &rest[end..];
        let name = tag
            .trim_start_matches('/')
            .split(|c: char| !c.is_ascii_alphanumeric())
            .next()
            .unwrap_or_default();
        let is_void =
            ["meta", "br", "img", "hr", "link", "input", "col"].contains(&name) || tag.ends_with('/');
        if tag.starts_with('!') || is_void {
            if name == "img" && !tag.contains("src=\"data:") {
                return Err(format!("an image: {tag:?}"));
            }
        } else if tag.starts_with('/') {
            if open.pop() != Some(name) {
                return Err(format!("{tag:?} closes nothing"));
            }
        } else {
            open.push(name);
            if name == "style" || name == "script" {
                let close = format!("</{name}>");
                rest = &rest[rest.find(&close).ok_or("no end of a style")?..];
            }
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("not closed: {open:?}")) }
}

#[test]
fn wrong_outputs_are_rejected() {
    for (form, text) in [
        (Form::Text, "a\n  ::error::x\n"),
        (Form::Text, "a\r::error::x\n"),
        (Form::Text, "a ##[error]x\n"),
        (Form::Text, "section_start:1:x\n"),
        (Form::Markdown, "x\nwarning: forged\n"),
        (Form::Text, "\u{9b}31m"),
        (Form::Text, "\u{202e}"),
        (Form::Github, "::add-mask::x\n"),
        (Form::Github, "::error ::x\n"),
        (Form::Json, "{}\n{}\n"),
        (Form::Sarif, "{}"),
        (Form::Markdown, "<script>\n"),
        (Form::Markdown, "[x](javascript:a)\n"),
        (Form::Junit, "<testsuite><x/></testsuite>"),
        (Form::Junit, "<testsuite>"),
        (Form::Report, "text\n"),
        (Form::Html, "<p><b></p>"),
        (Form::Html, "<p><img src=x></p>"),
    ] {
        assert!(output(form, text).is_err(), "{form:?} {text:?}");
    }
    assert!(messages("error: x\nerror: forged\n").is_err());
    assert_eq!(messages("error: x\n  error: forged\n"), Ok(()));
    for (form, text) in [
        (Form::Text, ": :error::x\n\ta ::b\n"),
        (Form::Github, "::error file=a,line=1,title=b.c::d%0Ae\n"),
        (Form::Report, "```toml\nschema = \"gpubuild.host/1\"\n```\n"),
        (Form::Html, "<!DOCTYPE html><p>a<br>b</p>"),
    ] {
        assert_eq!(output(form, text), Ok(()), "{form:?} {text:?}");
    }
}
