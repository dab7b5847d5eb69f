//! Every recorded host: with the suggested lines all build systems agree, or the exceptions have a reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpubuild::report::resolvers::ResolversReport;
use gpubuild::report::resolvers_text::text;
use gpubuild_core::Backend;
use gpubuild_doctor::resolvers::agree::{changed, takes};
use gpubuild_host::{Host, HostInfo, Overlay, RecordedHost};

use super::resolve;

fn recordings(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            recordings(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

/// Checks the suggested lines on one host.
pub(crate) fn check_lines(name: &str, host: &dyn Host) {
    let now = resolve(host);
    for (toolkit, agreement) in &now.agreements {
        let env = changed(host.env(), host.platform().os, &agreement.lines);
        let then = resolve(&Overlay::new(host, env));
        let after = &then.agreements[toolkit];
        assert_eq!(
            after.chosen, agreement.chosen,
            "{name}: the lines change gpubuild's own choice of {toolkit}"
        );
        for one in then.of(toolkit) {
            let exception = agreement.exceptions.iter().find(|exception| exception.id == one.id);
            let follows = takes(one, &agreement.chosen);
            assert_eq!(follows, exception.is_none(), "{name}: {} after {:?}", one.id, agreement.lines);
            assert!(exception.is_none_or(|exception| !exception.reason.is_empty()), "{name}: {}", one.id);
        }
        assert!(after.lines.is_empty(), "{name}: {toolkit} still has lines: {:?}", after.lines);
        assert_eq!(after.agree, agreement.exceptions.is_empty(), "{name}: {toolkit}");
    }
}

/// Checks that the text fits 100 columns, except for lines to copy.
pub(crate) fn check_text(name: &str, host: &dyn Host) -> String {
    let os = host.platform().os;
    let document = ResolversReport::new(&resolve(host), &Backend::ALL, os);
    let text = text(&document, &BTreeMap::new(), os, &|_, piece| piece.to_owned());
    for line in text.lines() {
        let copied = ["  export ", "  unset ", "  . ", "  -D", "  $env:", "  '-D", "  Remove-Item"];
        let is_copied = copied.iter().any(|start| line.starts_with(start));
        assert!(is_copied || line.chars().count() <= 100, "{name}: {line}");
    }
    text
}

#[test]
fn suggested_lines_make_resolvers_agree_on_every_recorded_host() {
    let mut paths = Vec::new();
    recordings(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts"), &mut paths);
    assert!(paths.len() >= 19, "{}", paths.len());
    for path in paths {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let host = RecordedHost::parse(&name, &std::fs::read_to_string(&path).unwrap()).unwrap();
        check_lines(&name, &host);
        check_text(&name, &host);
        assert_eq!(host.counts().processes, 0, "{name}: no process is started");
    }
}
