//! Compares both ways in which `gpubuild-toml` reads with each other and with the `toml` crate, including error messages. The tests are
//! not in that crate: build scripts use it too, and its dev-dependencies would change the features of what these compile.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use gpubuild_toml::{Lazy, encode, from_bytes, from_str};
use serde::Deserialize;
use toml::Spanned;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentSample {
    name: String,
    #[serde(default)]
    on: bool,
    size: Option<u16>,
    factor: Option<f64>,
    #[serde(default)]
    list: Vec<KeywordSample>,
    #[serde(default)]
    pair: (u8, String),
    #[serde(default)]
    table: BTreeMap<KeywordSample, Vec<i64>>,
    either: Option<Either>,
    shape: Option<Shape>,
    #[serde(default)]
    inner: Vec<InnerSample>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KeywordSample {
    First,
    SecondOne,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Either {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Point,
    Circle(f64),
    Line(i8, i8),
    Box { width: u8 },
}

#[derive(Debug, PartialEq, Deserialize)]
struct InnerSample {
    id: Number,
    #[serde(flatten)]
    rest: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Number(u32);

/// Asserts that `from_str`, `from_bytes` and the `toml` crate read the same value, and returns it.
#[track_caller]
fn read_all(text: &str) -> DocumentSample {
    let document = from_str::<DocumentSample>(text).unwrap();
    assert_eq!(document, toml::from_str(text).unwrap());
    assert_eq!(document, from_bytes(&encode(text).unwrap()).unwrap());
    document
}

#[test]
fn every_kind_of_value_is_read() {
    let document = read_all(
        r#"
        name = 'a "b"'
        on = true
        size = 0x1_0
        factor = 1_0.5
        list = ["first", "second-one"]
        pair = [7, "x"]
        table = { second-one = [-9223372036854775808, 9223372036854775807], first = [] }
        either = ["a", "b"]
        shape = { box = { width = 3 } }
        [[inner]]
        id = 4
        more = """
        two
        lines"""
        "#,
    );
    assert_eq!((document.size, document.factor), (Some(16), Some(10.5)));
    for shape in ["'point'", "{ circle = 2.0 }", "{ line = [1, -1] }", "{ box = { width = 1 } }"] {
        read_all(&format!("name = ''\nshape = {shape}\neither = 'one'"));
    }
    read_all("name = ''\nfactor = inf");
    for length in [0, 127, 128, 16_383, 16_384, 70_000] {
        assert_eq!(read_all(&format!("name = '{}'", "x".repeat(length))).name.len(), length);
    }
}

#[test]
fn errors_are_equal_to_those_of_the_toml_crate() {
    for text in [
        "",
        "name = 1",
        "name = 'x'\nnam = 2\n",
        "name = 'x'\nsize = 70000",
        "name = 'x'\nsize = -1",
        "name = 'x'\nlist = [\"first\", \"third\"]\n",
        "name = 'x'\n[table]\nthird = [1]\n",
        "name = 'x'\n[table]\nfirst = ['é', 1]\n",
        "é = 'x'",
        "name = 'x'\neither = 3",
        "name = 'x'\n[[inner]]\nid = 'y'\n",
        "name = 'x'\n[[inner]]\nmore = 'y'\n",
        "name = 'x'\npair = [1]",
        "name = ",
        "name = 'x'\nfactor = 1e999\n",
        "name = 'x'\nsize = 99999999999999999999999999999999999999999999\n",
        "name = 'x'\n[project\n",
        "name = 'x'\nname = 'y'\n",
    ] {
        let ours = from_str::<DocumentSample>(text).unwrap_err();
        let theirs = toml::from_str::<DocumentSample>(text).unwrap_err();
        assert_eq!(ours.to_string(), theirs.to_string().trim_end(), "{text}");
        assert_eq!((ours.message(), ours.span()), (theirs.message(), theirs.span()), "{text}");
    }
}

#[test]
fn invalid_enum_variants_are_rejected() {
    for shape in ["'circle'", "{ point = 1 }", "{}", "{ circle = 1.0, point = 2 }", "3", "'square'"] {
        let text = format!("name = ''\nshape = {shape}");
        assert!(toml::from_str::<DocumentSample>(&text).is_err(), "{shape}");
        let error = from_str::<DocumentSample>(&text).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}

#[test]
fn errors_in_embedded_documents_contain_the_keys() {
    let bytes = encode("name = 'x'\n[[inner]]\nid = 'y'\n").unwrap();
    let error = from_bytes::<DocumentSample>(&bytes).unwrap_err();
    assert!(error.to_string().ends_with("in `inner.id`"), "{error}");
    for bytes in [&[][..], &[9], &bytes[..bytes.len() - 3], &[6, 255, 255, 255, 255]] {
        assert!(from_bytes::<DocumentSample>(bytes).is_err());
    }
}

#[test]
fn spans_are_equal_to_those_of_the_toml_crate() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct SpannedSample {
        list: Vec<Spanned<String>>,
        table: Spanned<BTreeMap<String, Spanned<i64>>>,
    }
    let text = "list = ['a', 'bc']\n[table]\nx = 1\nyy = 22\n";
    let ours: SpannedSample = from_str(text).unwrap();
    let theirs: SpannedSample = toml::from_str(text).unwrap();
    assert_eq!(ours, theirs);
    assert_eq!((ours.list[1].span(), ours.table.span()), (theirs.list[1].span(), theirs.table.span()));
}

#[test]
fn lazy_values_are_equal_to_immediate_ones() {
    #[derive(Debug, Deserialize)]
    struct Outer {
        before: u8,
        #[serde(default)]
        table: Lazy<BTreeMap<String, Vec<i64>>>,
        after: u8,
    }
    let text = "before = 1\nafter = 2\n[table]\na = [1, 2]\nb = []\n";
    let (immediate, lazy): (Outer, Outer) =
        (from_str(text).unwrap(), from_bytes(&encode(text).unwrap()).unwrap());
    assert_eq!((immediate.before, immediate.after), (lazy.before, lazy.after));
    assert_eq!(*immediate.table, *lazy.table);
    assert_eq!(lazy.table["a"], [1, 2]);
    assert!(from_bytes::<Outer>(&encode("before = 1\nafter = 2").unwrap()).unwrap().table.is_empty());
    let wrong = text.replace("[1, 2]", "['x']");
    assert!(from_str::<Outer>(&wrong).unwrap_err().to_string().contains("line 4"));
}
