//! The Python environment that templates expect: the functions that `transformers` adds, methods of strings
//! and maps, and tests with the semantics of Jinja2.

use super::json::{Style, dumps};
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, filters};

/// Marks an error raised by the template.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// Adds all functions, filters and tests to an environment.
pub(super) fn install(environment: &mut Environment<'static>, now: DateTime) {
    environment.add_filter("tojson", to_json);
    bound(environment);
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

/// The largest width, count or indent that a template can use. Fuel limits the steps of a template, but not
/// the size of what a step produces.
const LARGEST: i64 = 10_000;
/// Maximum digits of a width in a format.
const DIGITS: usize = 4;

/// Makes the filters and methods whose output size is a parameter reject large values: running out of memory
/// would abort the program, not only the template.
fn bound(environment: &mut Environment<'static>) {
    environment.add_filter("unbounded_indent", filters::indent);
    environment.add_filter("unbounded_slice", filters::slice);
    environment.add_filter("unbounded_batch", filters::batch);
    environment.add_filter("unbounded_format", filters::format);
    for (name, original) in
        [("indent", "unbounded_indent"), ("slice", "unbounded_slice"), ("batch", "unbounded_batch")]
    {
        environment.add_filter(name, move |state: &mut State, arguments: Rest<Value>| {
            small(name, arguments.get(1..).unwrap_or_default())?;
            state.apply_filter(original, &arguments)
        });
    }
    environment.add_filter("format", |state: &mut State, arguments: Rest<Value>| {
        short_widths(arguments.first())?;
        state.apply_filter("unbounded_format", &arguments)
    });
    environment.set_unknown_method_callback(|state, value, method, arguments| {
        if method == "format" {
            short_widths(Some(value))?;
        }
        minijinja_contrib::pycompat::unknown_method_callback(state, value, method, arguments)
    });
}

fn small(name: &str, arguments: &[Value]) -> Result<(), Error> {
    for argument in arguments {
        let named = Kwargs::try_from(argument.clone()).ok();
        let mut numbers = vec![argument.as_i64()];
        if let Some(named) = named.filter(|_| argument.is_kwargs()) {
            numbers = named.args().map(|key| named.peek::<Value>(key).ok()?.as_i64()).collect();
        }
        if let Some(number) = numbers.into_iter().flatten().find(|number| *number > LARGEST) {
            let text = format!("`{name}` accepts numbers up to {LARGEST}, not {number}");
            return Err(Error::new(ErrorKind::InvalidOperation, text));
        }
    }
    Ok(())
}

/// Accepts only short widths and precisions inside the format; `*`, which reads them from a value, is
/// rejected.
fn short_widths(format: Option<&Value>) -> Result<(), Error> {
    let Some(format) = format.and_then(Value::as_str) else { return Ok(()) };
    let longest = format.split(|character: char| !character.is_ascii_digit()).map(str::len).max();
    if longest.is_some_and(|digits| digits > DIGITS) || format.contains('*') {
        let text = format!("a format accepts widths of at most {DIGITS} digits and no `*`");
        return Err(Error::new(ErrorKind::InvalidOperation, text));
    }
    Ok(())
}

/// Python's strings and maps are iterable too.
fn is_iterable(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable)
}

/// Maximum spaces per level of JSON.
const MOST_SPACES: usize = 32;

#[expect(clippy::needless_pass_by_value, reason = "filters get their options by value")]
fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let sorted: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    if let Some(indent) = indent.filter(|indent| *indent > MOST_SPACES) {
        let text = format!("`tojson` accepts an indent of at most {MOST_SPACES} spaces, not {indent}");
        return Err(Error::new(ErrorKind::InvalidOperation, text));
    }
    let (item_separator, key_separator) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "`separators` must be two strings")),
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

/// The argument of `raise_exception`, if it caused the error.
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

/// `transformers` marks the model's answers with a block of this name, for training. Here it is replaced by
/// its content.
pub(super) fn without_generation(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, block) = rest.split_at(start);
        text.push_str(before);
        // The opening `%` must not be the closing one too: `{%}` is not a tag.
        let Some(length) = block[2..].find("%}").map(|inside| inside + 2) else {
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
    fn large_numbers_are_rejected() {
        for source in [
            "{{ x|indent(100000000000) }}",
            "{{ x|indent(width=9000000000000000000) }}",
            "{{ [1]|slice(100000000000)|list }}",
            "{{ [1]|batch(100000000000, 'x')|list }}",
            "{{ '%99999999999d'|format(1) }}",
            "{{ '%*d'|format(99999999999, 1) }}",
            "{{ '{:>99999999999}'.format('a') }}",
            "{{ [1]|tojson(indent=100000) }}",
            "{{ [[1]]|tojson(indent=9000000000000000000) }}",
            "{{ 'a' * 100000000000 }}",
        ] {
            assert!(render(source).is_err(), "{source}");
        }
        for (source, expected) in [
            ("{{ 'a\nb'|indent(2) }}{{ 'a\nb'|indent(1, true) }}", "a\n  b a\n b"),
            ("{{ [1, 2, 3]|batch(2)|list }}{{ [1, 2, 3]|slice(2)|list }}", "[[1, 2], [3]][[1, 2], [3]]"),
            ("{{ '%5d %s'|format(2024, 123456) }}{{ '{:>3}'.format('a') }}", " 2024 123456  a"),
        ] {
            assert_eq!(render(source).expect(source), expected, "{source}");
        }
    }

    #[test]
    fn reasons_of_templates_are_preserved() {
        let error = render("{{ raise_exception('roles must alternate') }}").expect_err("it raises");
        assert_eq!(raised(&error), Some("roles must alternate".to_owned()));
        assert_eq!(raised(&render("{{ x.y.z }}").expect_err("undefined has nothing")), None);
        assert!(render("{{ [1] | tojson(colour=1) }}").is_err());
    }

    #[test]
    fn generation_blocks_are_replaced_by_their_content() {
        assert_eq!(
            without_generation("a{%- generation -%}b{% endgeneration %}c"),
            "a{%- if true -%}b{% endif %}c"
        );
        assert_eq!(
            without_generation("{% if generation %}x{% endif %}{% broken"),
            "{% if generation %}x{% endif %}{% broken"
        );
        assert_eq!(without_generation("a{%}b"), "a{%}b");
        assert_eq!(without_generation("{%}{% generation %}"), "{%}{% generation %}");
    }
}
