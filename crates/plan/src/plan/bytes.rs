//! Parses and formats sizes: `2GiB`, `512 MiB`, `1.5GB`.

const UNITS: [(&str, u64); 9] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
];

/// Parses a size in bytes; `None` if the text is not a size.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| lower.strip_suffix(name).map(|number| (number, *unit)))
        .or_else(|| Some((lower.strip_suffix('b').unwrap_or(&lower), 1)))?;
    let value: f64 = number.trim().parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53 bytes")]
    (value.is_finite() && (0.0..9e15).contains(&(value * unit as f64)))
        .then_some((value * unit as f64) as u64)
}

/// Formats a size from a package index, which may omit sizes: zero is `an unknown size`.
#[must_use]
pub fn show_if_known(bytes: u64) -> String {
    if bytes == 0 { "an unknown size".to_owned() } else { show(bytes) }
}

/// Formats a size in binary units with one decimal digit, rounded down.
#[must_use]
pub fn show(bytes: u64) -> String {
    for (name, unit) in [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= unit {
            let tenths = bytes / (unit / 10);
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_formatted() {
        assert_eq!(parse("2GiB"), Some(2 << 30));
        assert_eq!(parse(" 512 mb "), Some(512_000_000));
        assert_eq!(parse("1.5G"), Some(3 << 29));
        assert_eq!(parse("100"), Some(100));
        for invalid in ["", "GiB", "-1GiB", "two", "nan", "1e300GiB"] {
            assert_eq!(parse(invalid), None, "{invalid}");
        }
        assert_eq!(show(3 << 29), "1.5 GiB");
        assert_eq!(show(12), "12 bytes");
    }
}
