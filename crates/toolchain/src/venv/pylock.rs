//! Lists of wheels that uv and pip install: `pylock.toml` (PEP 751). uv adds the addresses of the files; their hashes are those of the
//! table.

use super::table::WheelRow;
use crate::provision::pin::{PinError, Pylock};

/// The requirements on exactly these wheels, one per line.
#[must_use]
pub fn requirements(wheels: &[&WheelRow]) -> String {
    let lines = wheels.iter().map(|wheel| format!("{}=={}", wheel.package, wheel.version));
    lines.collect::<Vec<_>>().join("\n")
}

/// Checks that a list has every wheel, with the hashes of the table.
///
/// # Errors
/// The list is invalid, lacks a wheel, or has a file with another hash.
pub fn check(text: &str, wheels: &[&WheelRow]) -> Result<(), PinError> {
    let list = Pylock::parse(text)?;
    for wheel in wheels {
        let listed = list.files(&wheel.package);
        let mut known = 0;
        for file in wheel.files() {
            let Some(other) = listed.iter().find(|(name, _)| *name == file.name) else { continue };
            known += 1;
            if other.1 != Some(file.sha256.as_str()) {
                return Err(PinError::Hash { file: file.name.clone() });
            }
        }
        if known == 0 {
            let what = format!("file of `{}`", wheel.package);
            let (toolkit, release) = (wheel.package.clone(), wheel.version.clone());
            return Err(PinError::Incomplete { what, toolkit, release });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venv::table::WheelTable;
    use gpubuild_detect::diagnostic::Diagnostic as _;
    use gpubuild_samples::random::{cases, random};

    fn rows() -> Vec<&'static WheelRow> {
        WheelTable::embedded().releases[0].wheels.iter().take(1).collect()
    }

    fn listed(name: &str, sha256: &str) -> String {
        let package = &rows()[0].package;
        format!(
            "lock-version = \"1.0\"\n[[packages]]\nname = \"{package}\"\nversion = \"1\"\n\
             wheels = [{{ url = \"https://example.org/{name}\", hashes = {{ sha256 = \"{sha256}\" }} }}]\n"
        )
    }

    #[test]
    fn lists_need_the_hashes_of_the_table() {
        let rows = rows();
        let file = &rows[0].files()[0];
        assert_eq!(check(&listed(&file.name, &file.sha256), &rows), Ok(()));
        for (text, id) in [
            (listed(&file.name, &"0".repeat(64)), "wheel.hash-mismatch"),
            (listed("other-1-py3-none-any.whl", &file.sha256), "toolkit.lock-incomplete"),
            ("packages = 1".to_owned(), "toolkit.lock-unreadable"),
        ] {
            assert_eq!(check(&text, &rows).unwrap_err().id(), id, "{text}");
        }
    }

    /// Pieces of a list, of other text and of hostile text in a random order, with a fixed seed. `GPUBUILD_CASES` sets their number.
    #[test]
    fn generated_lists_are_accepted_only_with_the_right_hash() {
        let cases = cases(500);
        let rows = rows();
        let file = &rows[0].files()[0];
        let good = listed(&file.name, &file.sha256);
        let other = "0".repeat(64);
        let pieces = [
            "../",
            "\\u0000",
            "\u{202e}",
            "::error::",
            "[[packages]]\n",
            "wheels = 5\n",
            "\"",
            "]",
            "é",
            &other,
        ];
        let mut random = random();
        let mut refused = 0;
        for _ in 0..cases {
            let mut text = good.clone();
            for _ in 0..=random(3) {
                let start = (0..=random(text.len() + 1).min(text.len()))
                    .rev()
                    .find(|at| text.is_char_boundary(*at))
                    .unwrap_or(0);
                let end = (start + random(70)).min(text.len());
                let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(start);
                text.replace_range(start..end, pieces[random(pieces.len())]);
            }
            match check(&text, &rows) {
                Ok(()) => assert!(text.contains(&file.sha256) && text.contains(&file.name), "{text}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > cases / 2, "{refused} of {cases}");
    }
}
