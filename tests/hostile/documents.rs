//! Documents with places for payloads.

use serde_json::Value;

/// A place in a document.
#[derive(Debug, Clone)]
pub(crate) enum Spot {
    /// Replaces a string.
    Value(String),
    /// Is appended to a string.
    End(String),
    /// Is appended to every line of a string, inside of its quotation marks.
    Lines(String),
    /// Is the key of an additional entry of a table.
    Key(String),
    /// Replaces a string of the JSON document in a string.
    Inner(String, String),
}

/// Every place of a document. Paths are JSON pointers.
pub(crate) fn spots(document: &Value) -> Vec<Spot> {
    let mut list = Vec::new();
    walk(document, String::new(), &mut |path, value| match value {
        Value::Object(_) => list.push(Spot::Key(path)),
        Value::String(text) => {
            if let Ok(inner @ Value::Object(_)) = serde_json::from_str(text) {
                walk(&inner, String::new(), &mut |below, value| {
                    if value.is_string() {
                        list.push(Spot::Inner(path.clone(), below));
                    }
                });
            }
            if text.contains('\n') {
                list.push(Spot::Lines(path.clone()));
            }
            list.push(Spot::End(path.clone()));
            list.push(Spot::Value(path));
        }
        _ => {}
    });
    list
}

fn walk(value: &Value, path: String, visit: &mut dyn FnMut(String, &Value)) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                let key = key.replace('~', "~0").replace('/', "~1");
                walk(value, format!("{path}/{key}"), visit);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                walk(value, format!("{path}/{index}"), visit);
            }
        }
        _ => {}
    }
    visit(path, value);
}

/// The document with a payload.
pub(crate) fn plant(document: &Value, spot: &Spot, payload: &str) -> Value {
    let mut planted = document.clone();
    let mut at = |path: &str, change: &dyn Fn(&str) -> String| {
        let value = planted.pointer_mut(path).unwrap();
        *value = Value::String(change(value.as_str().unwrap()));
    };
    match spot {
        Spot::Value(path) => at(path, &|_| payload.to_owned()),
        Spot::End(path) => at(path, &|text| format!("{text}{payload}")),
        Spot::Lines(path) => at(path, &|text| lines(text, payload)),
        Spot::Inner(path, below) => at(path, &|text| {
            let inner: Value = serde_json::from_str(text).unwrap();
            plant(&inner, &Spot::Value(below.clone()), payload).to_string()
        }),
        Spot::Key(path) => {
            let table = planted.pointer_mut(path).unwrap().as_object_mut().unwrap();
            table.insert(payload.to_owned(), Value::String(payload.to_owned()));
        }
    }
    planted
}

/// Appends a payload to every line of a text: before a quotation mark at its end, if there is one.
pub(crate) fn lines(text: &str, payload: &str) -> String {
    let one = |line: &str| match line.strip_suffix(['"', '\'']) {
        Some(start) => format!("{start}{payload}{}\n", &line[start.len()..]),
        None => format!("{line}{payload}\n"),
    };
    text.lines().map(one).collect()
}

/// Variants of a text of lines: a payload at the end of line `index`, instead of its last word, and as a separate line.
pub(crate) fn in_line(text: &str, index: usize, payload: &str) -> [String; 3] {
    let change = |change: &dyn Fn(&str) -> String| {
        let numbered = text.lines().enumerate();
        let lines =
            numbered.map(|(at, line)| if at == index { change(line) } else { line.to_owned() } + "\n");
        lines.collect::<String>()
    };
    [
        change(&|line| format!("{line}{payload}")),
        change(&|line| {
            format!("{}{payload}", line.trim_end_matches(|c: char| !c.is_whitespace() && c != '='))
        }),
        change(&|line| format!("{line}\n{payload}")),
    ]
}
