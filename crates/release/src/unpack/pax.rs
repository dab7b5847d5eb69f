//! Reads pax headers: records with names that do not fit into the header of an entry. Pure.

/// The largest accepted header in bytes.
pub(super) const LARGEST: u64 = 64 << 10;

/// What a pax header says about an entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PaxHeader {
    /// The path of the entry.
    pub(super) path: Option<String>,
    /// The target of a link.
    pub(super) link: Option<String>,
}

/// Parses the records `LENGTH KEY=VALUE\n`. Times, owners and comments are ignored.
pub(super) fn parse(mut rest: &[u8]) -> Result<PaxHeader, &'static str> {
    const MALFORMED: &str = "a pax header is malformed";
    let mut found = PaxHeader::default();
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ').ok_or(MALFORMED)?;
        let length = std::str::from_utf8(&rest[..space]).ok().and_then(|text| text.parse::<usize>().ok());
        let length = length.filter(|length| (space + 3..=rest.len()).contains(length)).ok_or(MALFORMED)?;
        let (record, after) = rest.split_at(length);
        rest = after;
        let record = record[space + 1..].strip_suffix(b"\n").ok_or(MALFORMED)?;
        let record = std::str::from_utf8(record).map_err(|_| "a pax header is not UTF-8")?;
        let (key, value) = record.split_once('=').ok_or(MALFORMED)?;
        match key {
            "path" => set(&mut found.path, value)?,
            "linkpath" => set(&mut found.link, value)?,
            // Programs that ignore it would read other files.
            "size" => return Err("a pax header changes the size of a file"),
            key if key.starts_with("GNU.sparse") => return Err("it has a sparse file"),
            _ => {}
        }
    }
    Ok(found)
}

fn set(place: &mut Option<String>, value: &str) -> Result<(), &'static str> {
    if place.replace(value.to_owned()).is_some() {
        return Err("a pax header has two names");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_other_records_ignored() {
        let found = parse(b"30 mtime=1700000000.123456789\n17 path=a/long/x\n14 linkpath=y\n").unwrap();
        assert_eq!(found, PaxHeader { path: Some("a/long/x".into()), link: Some("y".into()) });
        assert_eq!(parse(b"19 comment=abcdefg\n").unwrap(), PaxHeader::default());
        assert_eq!(parse(b"").unwrap(), PaxHeader::default());
    }

    #[test]
    fn malformed_and_ambiguous_records_are_refused() {
        for bad in [
            &b"x"[..],
            b"5 a=b",
            b"99 a=b\n",
            b"6 a=b\n\n",
            b"0 a=b\n",
            b"7 path\n",
            b"10 size=1\n",
            b"10 path=x\n10 path=y\n",
            b"22 GNU.sparse.major=1\n",
            b"10 path=\xff\n",
            b"18446744073709551615 a=b\n",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
