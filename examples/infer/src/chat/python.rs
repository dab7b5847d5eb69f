//! What templates expect of Python: the functions that `transformers` adds, methods of strings and maps, and tests that
//! answer as Jinja2's do.

use super::json::{Style, dumps};
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};

/// Marks an error that a template raised on purpose.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// Adds everything to an environment.
pub(super) fn install(environment: &mut Environment<'static>, now: DateTime) {
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", to_json);
    environment.add_test("sequence", |value: &Value| is_iterable(value));
    environment.add_test("iterable", |value: &Value| is_iterable(value));
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
    });
    environment.add_function("strftime_now", move |format: &str| {
        strtime::format(format, now)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("`strftime_now`: {error}")))
    });
}

/// Python's strings and maps are sequences, too.
fn is_iterable(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable)
}

#[expect(clippy::needless_pass_by_value, reason = "filters get their options by value")]
fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let sorted: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let (item_separator, key_separator) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "`separators` are two texts")),
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let style = Style { indent, item_separator, key_separator, ascii: ascii.unwrap_or(false) };
    let failed = |error| Error::new(ErrorKind::InvalidOperation, format!("`tojson`: {error}"));
    let text = if sorted == Some(true) {
        let mut tree = serde_json::to_value(value).map_err(failed)?;
        tree.sort_all_objects();
        dumps(&tree, &style)
    } else {
        dumps(value, &style)
    };
    Ok(Value::from_safe_string(text.map_err(failed)?))
}

/// What a template gave to `raise_exception`, if that is why it failed.
pub(super) fn raised(error: &Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(Raised(reason)) = error.downcast_ref() {
            return Some(reason.clone());
        }
        cause = error.source();
    }
    None
}

/// `transformers` marks the model's own words by a block of this name, for training. Here it is no more than what is in it.
pub(super) fn without_generation(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, block) = rest.split_at(start);
        text.push_str(before);
        let Some(length) = block.find("%}") else {
            return text + block;
        };
        let (tag, after) = block.split_at(length + 2);
        let inner = &tag[2..length];
        let word = inner.trim_matches(['-', '+']).trim();
        match word {
            "generation" => text.push_str(&tag.replace(word, "if true")),
            "endgeneration" => text.push_str(&tag.replace(word, "endif")),
            _ => text.push_str(tag),
        }
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String, Error> {
        let mut environment = Environment::new();
        install(&mut environment, jiff::civil::datetime(2024, 7, 6, 9, 5, 3, 0));
        environment.render_str(source, minijinja::context! { x => "a b", n => () })
    }

    #[test]
    fn functions_of_transformers() {
        for (source, expected) in [
            ("{{ strftime_now('%d %b %Y, %B, %Y-%m-%d') }}", "06 Jul 2024, July, 2024-07-06"),
            ("{{ {'b': 1, 'a': [true, none]} | tojson }}", "{\"b\": 1, \"a\": [true, null]}"),
            (
                "{{ {'b': 1, 'a': 'é'} | tojson(sort_keys=true, ensure_ascii=true) }}",
                "{\"a\": \"\\u00e9\", \"b\": 1}",
            ),
            ("{{ [1, 2] | tojson(separators=(',', ':')) }}", "[1,2]"),
            ("{{ '  x '.strip() }}{{ x.split(' ')[1] }}{{ x.startswith('a') }}", "xbTrue"),
            ("{{ x is sequence }}{{ n is iterable }}{{ {} is iterable }}", "TrueFalseTrue"),
        ] {
            assert_eq!(render(source).expect(source), expected, "{source}");
        }
    }

    #[test]
    fn reasons_of_templates_are_kept() {
        let error = render("{{ raise_exception('roles must alternate') }}").expect_err("it raises");
        assert_eq!(raised(&error), Some("roles must alternate".to_owned()));
        assert_eq!(raised(&render("{{ x.y.z }}").expect_err("undefined has nothing")), None);
        assert!(render("{{ [1] | tojson(colour=1) }}").is_err());
    }

    #[test]
    fn generation_blocks_are_their_content() {
        assert_eq!(
            without_generation("a{%- generation -%}b{% endgeneration %}c"),
            "a{%- if true -%}b{% endif %}c"
        );
        assert_eq!(
            without_generation("{% if generation %}x{% endif %}{% broken"),
            "{% if generation %}x{% endif %}{% broken"
        );
    }
}
