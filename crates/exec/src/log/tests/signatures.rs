//! Properties of all signatures.

use std::collections::BTreeSet;

use super::buckets::FoundLiteral;
use super::index::differ_in_numbers;
use super::*;

#[test]
fn every_sample_is_recognised_by_its_own_signature_first() {
    let all = Signatures::with_samples();
    let mut wrong = Vec::new();
    for (at, signature) in all.iter().enumerate() {
        if let Err(error) = regex_lite::Regex::new(&signature.pattern) {
            wrong.push(format!("{at} {}: {error}", signature.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (at, signature) in all.iter().enumerate() {
        if signature.source.is_empty() {
            wrong.push(format!("{at} {}: no source", signature.id));
        }
        let found = all.read(signature.sample.as_bytes()).causes;
        match found.first() {
            Some(first) if first.id == signature.id => {}
            first => wrong.push(format!(
                "{at} {}: {:?}",
                signature.id,
                first.map(|cause| (&cause.id, &cause.text))
            )),
        }
        for sample in &signature.also {
            let found = all.read(sample.as_bytes()).causes;
            if found.first().is_none_or(|first| first.id != signature.id) {
                let found = found.first().map(|cause| (&cause.id, &cause.text));
                wrong.push(format!("{at} {}: {found:?} for {sample}", signature.id));
            }
        }
        // The signature itself must match, not only another one of the same finding.
        let alone = Signatures::new(only(signature)).read(signature.sample.as_bytes());
        if alone.causes.is_empty() {
            wrong.push(format!("{at} {} does not match its own sample", signature.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all.iter().count() >= 200);
}

/// The findings of a log with two signatures, in either order of the files.
#[track_caller]
fn of_conflicting(first: &Signature, second: &Signature, log: &str, expected: &str) {
    for signatures in [[first, second], [second, first]] {
        let signatures = signatures.map(Signature::clone).to_vec();
        let all = Signatures::new(EmbeddedSignatures { signatures, ..EmbeddedSignatures::default() });
        let causes = all.read(log.as_bytes()).causes;
        assert_eq!(causes.iter().map(|cause| cause.id.as_str()).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn exact_signatures_precede_general_and_weak_ones_of_any_file() {
    let signature = |id: &str, pattern: &str| {
        let first = Signatures::embedded().iter().find(|one| one.id == id && one.after.is_none()).unwrap();
        let (summary, fix) = (None, None);
        let plain = Signature {
            lines: 1,
            names: None,
            weak: false,
            doubtful: false,
            unless_weak: Strength::Exact,
            ..first.clone()
        };
        Signature { pattern: pattern.to_owned(), summary, fix, ..plain }
    };
    let exact = signature("cuda.nvcc-flag", "fatal: the flag .* is unknown");
    let general = Signature {
        unless_weak: Strength::General,
        ..signature("build.tool-missing", "fatal: the .* is unknown")
    };
    let weak = Signature { weak: true, ..signature("cuda.nvcc-failed", "fatal: the flag") };
    let log = "fatal: the flag -x is unknown\n";
    of_conflicting(&exact, &general, log, "cuda.nvcc-flag");
    of_conflicting(&exact, &weak, log, "cuda.nvcc-flag");
    of_conflicting(&general, &weak, log, "build.tool-missing");
}

#[test]
fn every_id_is_in_the_catalogue_and_every_entry_has_a_signature() {
    let findings = Findings::embedded();
    let all = Signatures::embedded();
    let of_names = all.names.rows.iter().flat_map(|row| {
        [row.id(NameKind::Header), row.id(NameKind::Loaded)].into_iter().flatten().map(DiagnosticId::as_str)
    });
    let used: BTreeSet<&str> = all.iter().map(|signature| signature.id.as_str()).chain(of_names).collect();
    let missing: Vec<&&str> = used.iter().filter(|id| findings.get(id).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let build = findings.families().iter().find(|family| family.family == "build").unwrap();
    let unused: Vec<&String> = build
        .findings
        .keys()
        .filter(|id| !used.contains(id.as_str()) && id.as_str() != UNRECOGNISED.as_str())
        .collect();
    assert!(unused.is_empty(), "findings without a signature: {unused:?}");
}

/// Each signature captures all values that the summary and remedy of its finding use, unless it has its own summary or remedy.
#[test]
fn placeholders_of_all_findings_are_filled() {
    let findings = Findings::embedded();
    let mut unfilled = Vec::new();
    for signature in Signatures::with_samples().iter() {
        let Some((family, entry)) = findings.find(&signature.id) else { continue };
        let cause = &read(&signature.sample).causes[0];
        if family.family != "build" {
            continue;
        }
        let summary = signature.summary.as_ref().or(entry.summary.as_ref());
        let fill = |text: &str| template::fill(text, |name| cause.values.get(name).cloned());
        if summary.is_some_and(|text| fill(text).is_none()) {
            unfilled.push(format!("{}: {summary:?} {:?}", signature.id, cause.values));
        }
        let fixes = [fill(&entry.fix), cause.fix.clone()];
        if fixes.iter().all(Option::is_none) {
            unfilled.push(format!("{}: {} {:?}", signature.id, entry.fix, cause.values));
        }
    }
    assert!(unfilled.is_empty(), "{}", unfilled.join("\n"));
}

#[test]
fn samples_with_other_numbers_have_the_literals_of_a_complete_search() {
    let all = Signatures::with_samples();
    // A number that is longer, and one with another digit in each place.
    let changes: [fn(char) -> String; 2] = [
        |digit| format!("{digit}7"),
        |digit| digit.to_digit(10).map_or_else(String::new, |digit| ((digit + 3) % 10).to_string()),
    ];
    let lines = all.iter().flat_map(|one| one.sample.lines());
    for line in lines {
        for change in changes {
            let number = |c: char| if c.is_ascii_digit() { change(c) } else { c.to_string() };
            let other: String = line.chars().map(number).collect();
            assert!(differ_in_numbers(line.as_bytes(), other.as_bytes()), "{line}");
            let (mut before, mut found, mut expected) = (Vec::new(), Vec::new(), Vec::new());
            all.index.literals(line.as_bytes(), &mut before);
            all.index.literals(other.as_bytes(), &mut expected);
            all.index.literals_like(&before, other.as_bytes(), &mut found);
            let numbers = |found: &[FoundLiteral]| {
                let mut numbers = Vec::new();
                all.index.numbers(found, &mut numbers);
                numbers.into_iter().collect::<BTreeSet<_>>()
            };
            assert_eq!(numbers(&found), numbers(&expected), "{line}\n{other}");
        }
    }
}

#[test]
fn every_pattern_has_indexable_literals() {
    for one in Signatures::embedded().list.iter().filter(|one| !one.signature.is_guess()) {
        let shortest = one.literals.iter().map(String::len).min();
        assert!(shortest.is_some_and(|length| length >= 5), "{}: {:?}", one.signature.pattern, one.literals);
    }
}

#[test]
fn captured_values_fill_the_templates_of_signatures() {
    for signature in Signatures::with_samples().iter() {
        let alone = Signatures::new(only(signature));
        let cause = &alone.read(signature.sample.as_bytes()).causes[0];
        let row = signature.names.zip(cause.values.get("name")).and_then(|(kind, name)| {
            alone
                .names
                .find(kind, &format!("{}{name}", signature.prefix))
                .map(|row| (kind, &alone.names.rows[row]))
        });
        let id = row.and_then(|(kind, row)| row.id(kind));
        let is_own = id.is_none_or(|id| id == signature.id);
        let has_component = row.is_some_and(|(_, row)| row.component.is_some());
        let filled = |of_row: Option<bool>, own: &Option<String>, of_component: &Option<String>| {
            of_row == Some(true) || (is_own && (own.is_some() || (has_component && of_component.is_some())))
        };
        let of_row = row.map(|(_, row)| row.summary.is_some());
        let summary = filled(of_row, &signature.summary, &signature.component_summary);
        assert_eq!(cause.summary.is_some(), summary, "{}", signature.pattern);
        let of_row = row.map(|(_, row)| row.fix.is_some());
        let fix = filled(of_row, &signature.fix, &signature.component_fix);
        assert_eq!(cause.fix.is_some(), fix, "{}", signature.pattern);
    }
}

#[test]
fn reading_is_linear_for_signatures_with_a_precondition() {
    // Many lines that match the pattern without the text that must precede it.
    let line =
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.\n";
    let reading = read(&line.repeat(50_000));
    assert_eq!(reading.causes[0].id, "cuda.toolkit.not-on-path");
    assert_eq!(reading.causes[0].count, 50_000);
    let empty = read(&"\n".repeat(300_000));
    assert_eq!((empty.causes.len(), empty.guess), (0, None));
}

/// Values of a log are quoted when they are inserted into a command, so a placeholder must not be inside quotes.
#[test]
fn commands_of_signatures_do_not_quote_placeholders() {
    for signature in Signatures::embedded().iter() {
        for command in signature.commands.values().flatten() {
            let mut quote = None;
            for (start, c) in command.char_indices() {
                match quote {
                    None if matches!(c, '\'' | '"') => quote = Some(c),
                    Some(open) if open == c => quote = None,
                    Some(_) if c == '{' => {
                        let name = command[start + 1..].split('}').next().unwrap_or_default();
                        let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                        assert!(!is_name || name.is_empty(), "{}: {command}", signature.id);
                    }
                    _ => {}
                }
            }
        }
    }
}
