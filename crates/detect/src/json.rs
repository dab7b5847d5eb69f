//! JSON of files and programs that gpubuild did not write, as values.

use serde_json::Value;

/// The maximum number of values and names in a document. Each needs up to 120 bytes of memory, so a document needs at most 60 MB.
const MAX_ITEMS: usize = 500_000;

/// Parses a document; `None` if it is invalid or has too many values.
#[must_use]
pub fn parse(text: &str) -> Option<Value> {
    if items(text.as_bytes()) > MAX_ITEMS {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// The number of characters outside of strings that start or separate values and names.
fn items(mut text: &[u8]) -> usize {
    let mut count = 0;
    while let [byte, rest @ ..] = text {
        text = if *byte == b'"' { after_string(rest) } else { rest };
        count += usize::from(b",:[{".contains(byte));
    }
    count
}

/// What follows the string that begins here.
fn after_string(mut text: &[u8]) -> &[u8] {
    while let [byte, rest @ ..] = text {
        text = match byte {
            b'"' => return rest,
            b'\\' => rest.get(1..).unwrap_or_default(),
            _ => rest,
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_documents_are_refused_whatever_they_contain() {
        for item in ["0", "[]", "{}", "\"\"", "{\"a\":0}", "[[[0]]]"] {
            let document = |count: usize| format!("[{}]", vec![item; count].join(","));
            assert!(parse(&document(1000)).is_some(), "{item}");
            assert!(parse(&document(MAX_ITEMS + 1)).is_none(), "{item}");
        }
        let members: Vec<String> = (0..=MAX_ITEMS / 2).map(|number| format!("\"{number}\":0")).collect();
        assert!(parse(&format!("{{{}}}", members.join(","))).is_none());
    }

    #[test]
    fn text_in_strings_is_not_counted() {
        let long = ",:[{\\\"".repeat(MAX_ITEMS);
        let text = format!("[\"{long}\",\"\\\\\",{{\"a\\\"\":[1,2]}}]");
        assert_eq!(items(text.as_bytes()), 7);
        assert!(parse(&text).is_some());
        for invalid in ["\"", "\"\\", "[\"\\\"", "", "[1,]"] {
            assert_eq!(parse(invalid), None, "{invalid}");
        }
    }
}
