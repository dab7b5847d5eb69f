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
}
