//! Both ways agree with each other and with the `toml` crate, which says the same of mistakes.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    name: String,
    #[serde(default)]
    on: bool,
    size: Option<u16>,
    factor: Option<f64>,
    #[serde(default)]
    list: Vec<WordSample>,
    #[serde(default)]
    pair: (u8, String),
    #[serde(default)]
    table: BTreeMap<WordSample, Vec<i64>>,
    either: Option<Either>,
    shape: Option<Shape>,
    #[serde(default)]
    inner: Vec<InnerSample>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WordSample {
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

/// The same from all three.
#[track_caller]
fn same(text: &str) -> Whole {
    let whole = from_str::<Whole>(text).unwrap();
    assert_eq!(whole, toml::from_str(text).unwrap());
    assert_eq!(whole, from_bytes(&encode(text).unwrap()).unwrap());
    whole
}

#[test]
fn every_sort_of_value_is_read() {
    let whole = same(
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
    assert_eq!((whole.size, whole.factor), (Some(16), Some(10.5)));
    for shape in ["'point'", "{ circle = 2.0 }", "{ line = [1, -1] }", "{ box = { width = 1 } }"] {
        same(&format!("name = ''\nshape = {shape}\neither = 'one'"));
    }
    same("name = ''\nfactor = inf");
    for length in [0, 127, 128, 16_383, 16_384, 70_000] {
        assert_eq!(same(&format!("name = '{}'", "x".repeat(length))).name.len(), length);
    }
}

#[test]
fn mistakes_are_shown_as_by_toml() {
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
        let ours = from_str::<Whole>(text).unwrap_err();
        let theirs = toml::from_str::<Whole>(text).unwrap_err();
        assert_eq!(ours.to_string(), theirs.to_string().trim_end(), "{text}");
        assert_eq!((ours.message(), ours.span()), (theirs.message(), theirs.span()), "{text}");
    }
}

#[test]
fn what_is_no_variant_is_refused() {
    for shape in ["'circle'", "{ point = 1 }", "{}", "{ circle = 1.0, point = 2 }", "3", "'square'"] {
        let text = format!("name = ''\nshape = {shape}");
        assert!(toml::from_str::<Whole>(&text).is_err(), "{shape}");
        let error = from_str::<Whole>(&text).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}

#[test]
fn embedded_documents_tell_the_keys() {
    let bytes = encode("name = 'x'\n[[inner]]\nid = 'y'\n").unwrap();
    let error = from_bytes::<Whole>(&bytes).unwrap_err();
    assert!(error.to_string().ends_with("in `inner.id`"), "{error}");
    for bytes in [&[][..], &[9], &bytes[..bytes.len() - 3], &[6, 255, 255, 255, 255]] {
        assert!(from_bytes::<Whole>(bytes).is_err());
    }
}

#[test]
fn places_are_those_of_toml() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct PlacedSample {
        list: Vec<Spanned<String>>,
        table: Spanned<BTreeMap<String, Spanned<i64>>>,
    }
    let text = "list = ['a', 'bc']\n[table]\nx = 1\nyy = 22\n";
    let ours: PlacedSample = from_str(text).unwrap();
    let theirs: PlacedSample = toml::from_str(text).unwrap();
    assert_eq!(ours, theirs);
    assert_eq!((ours.list[1].span(), ours.table.span()), (theirs.list[1].span(), theirs.table.span()));
}

#[test]
fn what_is_read_later_is_the_same() {
    #[derive(Debug, Deserialize)]
    struct Outer {
        before: u8,
        #[serde(default)]
        table: Later<BTreeMap<String, Vec<i64>>>,
        after: u8,
    }
    let text = "before = 1\nafter = 2\n[table]\na = [1, 2]\nb = []\n";
    let (at_once, later): (Outer, Outer) =
        (from_str(text).unwrap(), from_bytes(&encode(text).unwrap()).unwrap());
    assert_eq!((at_once.before, at_once.after), (later.before, later.after));
    assert_eq!(*at_once.table, *later.table);
    assert_eq!(later.table["a"], [1, 2]);
    assert!(from_bytes::<Outer>(&encode("before = 1\nafter = 2").unwrap()).unwrap().table.is_empty());
    let wrong = text.replace("[1, 2]", "['x']");
    assert!(from_str::<Outer>(&wrong).unwrap_err().to_string().contains("line 4"));
}
