//! Rows of Visual Studio's Error List, which users copy instead of the output: columns separated by tabs.

/// Maximum number of bytes before the code of a message.
const BEFORE_CODE: usize = 32;

/// Prefixes of the codes that Visual Studio's compilers, linker and build engine use.
const PREFIXES: [&[u8]; 9] = [b"C", b"D", b"LNK", b"MSB", b"CVT", b"RC", b"CS", b"NU", b"U"];
/// How the severity of a row starts that is not an error, in lowercase: English, German, French, Spanish, Russian, Chinese, Japanese.
const NO_ERRORS: [&str; 8] = ["warn", "message", "avert", "adver", "предуп", "警告", "消息", "メッセージ"];

/// Converts a row to the format of the compiler: `Error<tab>C1083<tab>no file<tab>project` to `error C1083: no file [project]`.
/// Returns `None` for any other line.
pub(super) fn row(line: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr(b'\t', &line[..line.len().min(BEFORE_CODE)])?;
    let mut columns = line.split(|byte| *byte == b'\t');
    let first = columns.next()?;
    // `Error<tab>C1083<tab>…`, or `error C1083<tab>…`.
    let last_word = first.rsplit(|byte| *byte == b' ').next()?;
    let code =
        if is_code(last_word) { last_word } else { columns.next().filter(|column| is_code(column))? };
    let severity = String::from_utf8_lossy(first).to_lowercase();
    if NO_ERRORS.iter().any(|start| severity.starts_with(start)) {
        return None;
    }
    let message = columns.next().map(<[u8]>::trim_ascii).filter(|message| !message.is_empty())?;
    let place: Vec<&[u8]> = columns.collect();
    let mut row = [b"error ", code, b": ", message].concat();
    if !place.is_empty() {
        row.extend_from_slice(&[b" [", place.join(&b' ').trim_ascii(), b"]"].concat());
    }
    Some(row)
}

/// Whether a text is the code of a message: a known prefix and four digits.
fn is_code(text: &[u8]) -> bool {
    let (letters, digits) = text.split_at(text.len().saturating_sub(4));
    PREFIXES.contains(&letters) && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_get_the_format_of_the_compiler() {
        let converted = |line: &str| row(line.as_bytes()).map(|row| String::from_utf8(row).unwrap());
        for (line, expected) in [
            (
                "Error\tC1083\tCannot open include file: 'a.h'\tapp\tD:\\a.cpp\t34",
                "error C1083: Cannot open include file: 'a.h' [app D:\\a.cpp 34]",
            ),
            ("错误\tLNK1181\t无法打开输入文件“a.lib”", "error LNK1181: 无法打开输入文件“a.lib”"),
            ("error MSB3721\tThe command exited\tlib", "error MSB3721: The command exited [lib]"),
        ] {
            assert_eq!(converted(line).as_deref(), Some(expected));
        }
        for line in [
            "",
            "\t",
            "Error\tC1083\t",
            "Error\t9758\terror LNK1181: no",
            "int\tmain",
            "a\tC1083x\tb",
            "no tab C1083",
            "GPU\tRTX4090\t24 GB",
            "RTX4090\t24 GB",
            "Warning\tC4244\tconversion\tapp",
            "警告\tLNK4098\t默认库冲突",
        ] {
            assert_eq!(converted(line), None, "{line:?}");
        }
    }
}
