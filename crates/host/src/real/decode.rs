//! Environment variables as text.

use std::ffi::OsString;

/// Separates variables into those that are UTF-8, and the names of the others.
///
/// Of PATH, only the folders that are not UTF-8 are omitted, because programs are found without them.
pub(super) fn decode(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> (Vec<(String, String)>, Vec<String>) {
    let (mut decoded, mut not_utf8) = (Vec::new(), Vec::new());
    for (name, value) in variables {
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => decoded.push((name, value)),
            Err(value) if name.eq_ignore_ascii_case("PATH") => {
                let folders = std::env::split_paths(&value).filter(|folder| folder.to_str().is_some());
                let path = std::env::join_paths(folders).ok().and_then(|path| path.into_string().ok());
                decoded.push((name, path.unwrap_or_default()));
            }
            Err(_) => not_utf8.push(name),
        }
    }
    (decoded, not_utf8)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn values_that_are_not_utf8_are_named_and_path_keeps_its_other_folders() {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let variables = [
            (text(b"HOME"), text(b"/home/m\xfcller")),
            (text(b"PATH"), text(b"/usr/bin:/opt/\xff/bin:/bin")),
            (text(b"CC"), text(b"gcc")),
            (text(b"\xff"), text(b"1")),
        ];
        let (decoded, not_utf8) = decode(variables.into_iter());
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(decoded, [of("PATH", "/usr/bin:/bin"), of("CC", "gcc")]);
        assert_eq!(not_utf8, ["HOME"]);
    }
}
