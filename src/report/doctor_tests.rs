//! Tests every output format of the doctor with every hostile value in every field: a parser of the format must find the same structure as
//! with a harmless value.

use std::collections::BTreeMap;

use gpubuild_core::clean;
use gpubuild_core::shell;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Findings, Severity};
use gpubuild_detect::id;
use gpubuild_host::Os;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use quick_xml::Reader;
use quick_xml::events::Event as Xml;
use serde_json::Value;

use super::detect_text::Detail;
use super::doctor::DoctorReport;
use super::hostile::{HARMLESS, HostileValues, file, finding, machine, samples};
use super::{doctor_github, doctor_junit, doctor_markdown, doctor_sarif, doctor_text};

/// Runs a test on every hostile value, for a machine and for a file, together with a harmless document. The command of the harmless document
/// is shown or omitted like that of the hostile one.
fn check(test: impl Fn(&str, &DoctorReport, &DoctorReport)) {
    assert!(samples().len() >= 40);
    for sample in samples() {
        let values = HostileValues::all(&sample);
        let shown = clean::command(&sample).is_some();
        let command = if shown { HARMLESS.to_owned() } else { "left\nout".to_owned() };
        let harmless = HostileValues { text: HARMLESS.to_owned(), command };
        test(&sample, &machine(&values), &machine(&harmless));
        test(&sample, &file(&values), &file(&harmless));
    }
}

/// Fails if the output contains control characters or commands of CI services.
#[track_caller]
fn assert_printable(text: &str) {
    let hidden = text.chars().find(|c| *c != '\n' && clean::is_hidden(*c));
    assert_eq!(hidden, None, "{:?}", excerpt(text));
    assert!(!text.contains("##[") && !text.contains("##vso[") && !text.contains("##teamcity["));
    assert!(String::from(text).ends_with('\n'));
}

fn excerpt(text: &str) -> String {
    text.chars().take(600).collect()
}

/// Parses a line like GitHub's runner: `::name key=value,…::data`, or `##[name …]data` anywhere.
fn runner_command(line: &str) -> Option<(String, BTreeMap<String, String>, String)> {
    assert!(!line.contains("##["), "{line}");
    let (info, data) = line.trim_start().strip_prefix("::")?.split_once("::")?;
    let (name, properties) = info.split_once(' ').unwrap_or((info, ""));
    let unescape_data = |text: &str| text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%");
    let unescape = |text: &str| {
        let text = text.replace("%0D", "\r").replace("%0A", "\n").replace("%3A", ":").replace("%2C", ",");
        text.replace("%25", "%")
    };
    let properties = properties.split(',').filter_map(|pair| pair.split_once('='));
    let properties = properties.map(|(key, value)| (key.to_owned(), unescape(value))).collect();
    Some((name.to_owned(), properties, unescape_data(data)))
}

#[test]
fn json_keeps_values_and_structure() {
    check(|sample, hostile, harmless| {
        if sample.len() > 1 << 16 && hostile.host.is_some() {
            return;
        }
        let text = clean::json(&serde_json::to_string_pretty(hostile).unwrap()).into_owned() + "\n";
        assert_printable(&text);
        assert!(text.lines().all(|line| runner_command(line).is_none()));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shape(&value), shape(&serde_json::to_value(harmless).unwrap()));
        assert_eq!(value["findings"][0]["evidence"][1]["value"], *sample);
        assert_eq!(value["findings"][0]["remedy"]["commands"][1], *sample);
    });
}

/// The structure of a JSON value, without texts and numbers.
fn shape(value: &Value) -> Value {
    match value {
        Value::String(_) => Value::String(String::new()),
        Value::Array(list) => list.iter().map(shape).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Number(_) => Value::from(0),
        other => other.clone(),
    }
}

#[test]
fn text_has_visible_characters_in_a_hundred_columns() {
    for detail in [Detail::Relevant, Detail::Everything] {
        check(|sample, hostile, harmless| {
            let [hostile, harmless] = [hostile, harmless]
                .map(|document| doctor_text::text(document, detail, &|_, text| text.to_owned()));
            assert_printable(&hostile);
            let first = hostile.lines().find(|line| line.starts_with("✗ ")).unwrap();
            assert!(first.starts_with("✗ error: the device"), "{sample:?}: {}", excerpt(&hostile));
            for line in hostile.lines() {
                let is_command = line.starts_with("    ") && line[4..] == *sample;
                let width = unicode_width::UnicodeWidthStr::width(line);
                assert!(width <= 100 || is_command, "{sample:?}: {}", excerpt(line));
                assert_eq!(runner_command(line), None);
            }
            // The number of continuation lines depends on the length of values; lines with a label are always there.
            let labels = |text: &str| -> Vec<String> {
                let starts =
                    ["✗ ", "! ", "- ", "  fix:", "  needs:", "  verify:", "  so:", "  seen:", "  link:"];
                let of =
                    |line: &str| starts.into_iter().find(|start| line.starts_with(start)).map(str::to_owned);
                text.lines().filter_map(of).collect()
            };
            assert_eq!(labels(&hostile), labels(&harmless), "{sample:?}: {}", excerpt(&hostile));
        });
    }
}

#[test]
fn annotations_are_one_command_per_line() {
    check(|sample, hostile, harmless| {
        let [hostile, harmless] = [hostile, harmless].map(doctor_github::annotations);
        assert_printable(&hostile);
        let parse = |text: &str| -> Vec<Option<(String, Vec<String>, usize)>> {
            let of = |line: &str| {
                let (name, properties, data) = runner_command(line)?;
                Some((name, properties.into_keys().collect(), data.lines().count()))
            };
            text.lines().map(of).collect()
        };
        assert_eq!(parse(&hostile).len(), 4);
        assert_eq!(parse(&hostile)[3], None);
        let mut expected = parse(&harmless);
        // A path without visible characters is not a path.
        if clean::line(sample).trim().is_empty() {
            for one in expected.iter_mut().flatten() {
                one.1.retain(|key| key == "title");
            }
        }
        assert_eq!(parse(&hostile), expected, "{}", excerpt(&hostile));
        let first = runner_command(hostile.lines().next().unwrap()).unwrap();
        assert_eq!(first.1["title"], "probe.failed");
        assert!(first.2.starts_with("the device "));
    });
}

#[test]
fn markdown_has_no_markup_from_values() {
    check(|sample, hostile, harmless| {
        let [hostile, harmless] = [hostile, harmless]
            .map(|document| doctor_markdown::markdown(document, doctor_markdown::STEP_SUMMARY));
        assert_printable(&hostile);
        assert!(hostile.lines().all(|line| runner_command(line).is_none()));
        assert_eq!(skeleton(&hostile), skeleton(&harmless), "{sample:?}: {}", excerpt(&hostile));
    });
}

/// The structure of a Markdown page, without text. Fails if GitHub would interpret a part of the text.
fn skeleton(markdown: &str) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    let mut in_code = false;
    let mut text = String::new();
    for event in Parser::new_ext(markdown, Options::all()) {
        if !matches!(event, Event::Text(_)) {
            assert_no_reference(&text);
            text.clear();
        }
        match event {
            Event::Start(tag) => {
                in_code = matches!(tag, Tag::CodeBlock(_));
                list.push(format!("{tag:?}"));
            }
            Event::End(end) => {
                in_code &= end != TagEnd::CodeBlock;
                list.push(format!("{end:?}"));
            }
            Event::Text(part) if !in_code => text.push_str(&part),
            Event::Text(_) | Event::Code(_) => {}
            other => list.push(format!("{other:?}")),
        }
    }
    list
}

/// Fails on text that GitHub turns into links, mentions, emoji and formulas after Markdown. gpubuild's own links are recognised by their
/// example domain.
fn assert_no_reference(text: &str) {
    if text == "https://docs.example/a" {
        return;
    }
    for mark in ["@", "#", "://", "www.", "](", "$", "<", ">", "GH-", ":rot", "0123456789abcdef"] {
        assert!(!text.contains(mark), "`{mark}` in {:?}", excerpt(text));
    }
}

#[test]
fn junit_is_well_formed_and_keeps_its_cases() {
    let findings = Findings::embedded();
    check(|sample, hostile, harmless| {
        let [hostile, harmless] =
            [hostile, harmless].map(|document| doctor_junit::junit(document, &findings).unwrap());
        assert_printable(&hostile);
        assert!(hostile.lines().all(|line| runner_command(line).is_none()), "{}", excerpt(&hostile));
        assert_eq!(elements(&hostile), elements(&harmless), "{sample:?}: {}", excerpt(&hostile));
    });
}

/// The elements of an XML file with the names of their attributes. Every text must unescape.
fn elements(xml: &str) -> Vec<String> {
    let mut reader = Reader::from_str(xml);
    let config = reader.config_mut();
    config.check_end_names = true;
    config.check_comments = true;
    let mut list = Vec::new();
    let mut put = |sign: &str, element: &quick_xml::events::BytesStart<'_>| {
        let attributes = element.attributes().map(|attribute| {
            let attribute = attribute.unwrap();
            let value = attribute.normalized_value(quick_xml::XmlVersion::Explicit1_0).unwrap();
            assert!(!value.chars().any(clean::is_hidden));
            attribute.key.0.to_owned()
        });
        let attributes: Vec<String> = attributes.collect();
        list.push(format!("{sign}{} {attributes:?}", element.name().0));
    };
    loop {
        match reader.read_event().unwrap() {
            Xml::Start(element) => put("", &element),
            Xml::Empty(element) => put("/", &element),
            Xml::Text(text) => assert!(!text.chars().any(|c| c != '\n' && clean::is_hidden(c))),
            Xml::GeneralRef(entity) => {
                assert!(["lt", "gt", "amp", "quot", "apos"].contains(&&*entity), "&{};", &*entity);
            }
            Xml::End(_) | Xml::Decl(_) => {}
            Xml::Eof => return list,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn sarif_keeps_its_structure_and_what_github_requires() {
    let findings = Findings::embedded();
    check(|sample, hostile, harmless| {
        let [text, harmless] = [hostile, harmless].map(|document| doctor_sarif::sarif(document, &findings));
        assert_printable(&text);
        let [hostile, harmless] = [&text, &harmless].map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_sarif(&hostile);
        assert_eq!(shape(&hostile), shape(&harmless), "{sample:?}");
        for result in hostile["runs"][0]["results"].as_array().unwrap() {
            assert!(!result["message"]["text"].as_str().unwrap().contains("]("));
        }
    });
}

/// Checks the structure that the standard and GitHub require.
fn assert_sarif(sarif: &Value) {
    keys(sarif, &["$schema", "version", "runs"], &[]);
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    keys(run, &["tool", "results", "automationDetails", "columnKind"], &[]);
    keys(&run["automationDetails"], &["id"], &[]);
    keys(&run["tool"], &["driver"], &[]);
    let driver = &run["tool"]["driver"];
    keys(driver, &["name", "semanticVersion", "rules"], &[]);
    let rules = driver["rules"].as_array().unwrap();
    for rule in rules {
        let required = ["id", "shortDescription", "fullDescription", "help"];
        keys(rule, &required, &["helpUri", "defaultConfiguration", "properties"]);
        for name in ["shortDescription", "fullDescription", "help"] {
            let text = filled(&rule[name]["text"]);
            assert!(name == "help" || text.chars().count() <= 1024);
        }
        if let Some(link) = rule.get("helpUri") {
            assert!(filled(link).starts_with("https://"));
        }
    }
    let mut marks = std::collections::BTreeSet::new();
    for result in run["results"].as_array().unwrap() {
        let required = ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"];
        keys(result, &required, &[]);
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&filled(&result["level"])));
        filled(&result["message"]["text"]);
        let locations = result["locations"].as_array().unwrap();
        assert_eq!(locations.len(), 1);
        keys(&locations[0], &["physicalLocation"], &["logicalLocations"]);
        let physical = &locations[0]["physicalLocation"];
        keys(physical, &["artifactLocation", "region"], &[]);
        let uri = filled(&physical["artifactLocation"]["uri"]);
        assert!(uri.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%:".contains(&byte)), "{uri}");
        keys(&physical["region"], &["startLine", "startColumn", "endLine", "endColumn"], &[]);
        assert!(physical["region"].as_object().unwrap().values().all(|number| number.as_u64() >= Some(1)));
        assert!(marks.insert(filled(&result["partialFingerprints"]["primaryLocationLineHash"])));
    }
}

/// Fails unless an object has all required keys and no keys other than these and the optional ones.
fn keys(value: &Value, required: &[&str], optional: &[&str]) {
    let object = value.as_object().unwrap();
    for key in required {
        assert!(object.contains_key(*key), "{key} is missing in {value}");
    }
    for key in object.keys() {
        assert!(required.contains(&key.as_str()) || optional.contains(&key.as_str()), "{key} in {value}");
    }
}

fn filled(value: &Value) -> &str {
    let text = value.as_str().unwrap();
    assert!(!text.trim().is_empty());
    text
}

#[test]
fn value_in_a_command_is_one_word_or_the_command_is_omitted() {
    for sample in samples() {
        let Some(quoted) = shell::quote(Os::Linux, &sample) else {
            assert!(clean::line(&sample) != sample || sample.starts_with('-'), "{sample:?}");
            continue;
        };
        let command = format!("ls {quoted} x");
        assert_eq!(shlex::split(&command).unwrap(), ["ls", &sample, "x"]);
        let quoted = shell::quote(Os::Windows, &sample).unwrap();
        assert_eq!(powershell_word(&quoted).as_deref(), Some(&*sample), "{quoted}");
    }
}

/// Parses a word like PowerShell: a string in single quotes, of which it accepts five kinds, or a bare word.
fn powershell_word(word: &str) -> Option<String> {
    let is_quote = |c: char| "'\u{2018}\u{2019}\u{201a}\u{201b}".contains(c);
    let Some(inner) = word.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) else {
        return word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/\\._-+:=".contains(c))
            .then(|| word.to_owned());
    };
    let mut value = String::new();
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        if is_quote(c) {
            chars.next_if(|next| is_quote(*next))?;
        }
        value.push(c);
    }
    Some(value)
}

#[test]
fn commands_of_the_catalogue_can_be_shown_and_quote_values() {
    for (_, id, entry) in Findings::embedded().iter() {
        let tables = entry.cases.values().filter_map(|case| case.commands.as_ref()).chain([&entry.commands]);
        let verify = entry.cases.values().filter_map(|case| case.verify.as_ref()).chain(&entry.verify);
        let commands = tables.flat_map(BTreeMap::values).flatten().chain(verify);
        for command in commands {
            assert_eq!(clean::command(command), Some(command.as_str()), "{id}");
            let mut quote = None;
            for (start, c) in command.char_indices() {
                match (quote, c) {
                    (None, '\'' | '"') => quote = Some(c),
                    (Some(open), _) if open == c => quote = None,
                    (Some(_), '{') => {
                        let name = command[start + 1..].split('}').next().unwrap_or_default();
                        let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                        assert!(
                            !is_name || name.is_empty(),
                            "{id}: {{{name}}} brings its own quotes: {command}"
                        );
                    }
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn github_gets_ten_annotations_of_a_kind_and_the_rest_is_counted() {
    let values = HostileValues::all(HARMLESS);
    let mut document = file(&values);
    let findings = Findings::embedded();
    let ids = findings.ids().filter_map(DiagnosticId::find).take(25);
    document.findings = ids
        .enumerate()
        .map(|(index, id)| finding(id, if index < 12 { Severity::Error } else { Severity::Warning }, &values))
        .collect();
    document.findings.reverse();
    document.summary.errors = 12;
    document.summary.warnings = 13;
    document.summary.infos = 0;
    let text = doctor_github::annotations(&document);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 21);
    assert!(lines[..10].iter().all(|line| line.starts_with("::error ")), "{text}");
    assert!(lines[10..20].iter().all(|line| line.starts_with("::warning ")), "{text}");
    assert_eq!(
        lines[20],
        "gpubuild doctor: 12 errors, 13 warnings; not annotated, because GitHub keeps 10 of each kind: 2 errors, 3 warnings"
    );
}

#[test]
fn markdown_respects_the_limit_and_counts_omitted_findings() {
    let mut document = machine(&HostileValues::all(&"w ".repeat(5000)));
    let one = finding(id!("probe.failed"), Severity::Error, &HostileValues::all(&"@x ".repeat(5000)));
    document.findings = vec![one; 500];
    for limit in [doctor_markdown::STEP_SUMMARY, 40_000] {
        let text = doctor_markdown::markdown(&document, limit);
        assert!(text.len() <= limit, "{}", text.len());
        let left = text.lines().find(|line| line.contains("of 500 findings are omitted")).unwrap();
        let shown = text.matches("**✗ error:**").count();
        assert!(left.starts_with(&format!("**{} of", 500 - shown)), "{left}");
        assert!(shown > 0 && text.contains("| cuda | ✓ present |"));
    }
}

#[test]
fn repeated_finding_has_fingerprints_that_do_not_depend_on_lines() {
    let findings = Findings::embedded();
    let marks = |lines: [u32; 2]| -> Vec<Value> {
        let mut document = file(&HostileValues::all(HARMLESS));
        document.findings = lines
            .iter()
            .map(|line| {
                let mut one = finding(id!("file.failed"), Severity::Error, &HostileValues::all(HARMLESS));
                one.evidence[0].place = format!("Dockerfile:{line}");
                one
            })
            .collect();
        let sarif: Value = serde_json::from_str(&doctor_sarif::sarif(&document, &findings)).unwrap();
        let results = sarif["runs"][0]["results"].as_array().unwrap().clone();
        assert_eq!(results[1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "Dockerfile");
        assert_eq!(results[1]["locations"][0]["physicalLocation"]["region"]["startLine"], lines[1]);
        results.into_iter().map(|result| result["partialFingerprints"].clone()).collect()
    };
    assert_eq!(marks([3, 9]), marks([4, 20]));
    assert_ne!(marks([3, 9])[0], marks([3, 9])[1]);
}
