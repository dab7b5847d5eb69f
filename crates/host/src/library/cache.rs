//! Reads `/etc/ld.so.cache`, in which glibc's `ldconfig` stores the path of each library.

/// Start of the table. Files that also support old loaders have a table in the old format before it.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;

/// The paths of a library for a machine (ELF machine number, whether it is 64-bit). Paths without processor requirements come
/// first. `None` if the bytes are not a cache.
pub(super) fn lookup(cache: &[u8], soname: &str, machine: (u16, bool)) -> Option<Vec<String>> {
    let start = cache.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let table = &cache[start..];
    let count = number(table, MAGIC.len())? as usize;
    // Library kind and ABI flags, from glibc's sysdeps/generic/ldconfig.h.
    let wanted = match machine {
        (62, true) => 0x0303,
        (183, _) => 0x0a03,
        (3, _) => 0x0003,
        (40, _) => 0x0903,
        _ => return Some(Vec::new()),
    };
    let mut plain = Vec::new();
    let mut special = Vec::new();
    for index in 0..count {
        let at = HEADER.checked_add(index.checked_mul(ENTRY)?)?;
        let Some(flags) = number(table, at) else { break };
        if flags != wanted || !number(table, at + 4).is_some_and(|key| is_text(table, key, soname)) {
            continue;
        }
        let Some(path) = number(table, at + 8).and_then(|value| text(table, value)) else { continue };
        let processor_features = number(table, at + 16)? | number(table, at + 20)?;
        if processor_features == 0 { &mut plain } else { &mut special }.push(path.to_owned());
    }
    plain.append(&mut special);
    Some(plain)
}

fn number(table: &[u8], at: usize) -> Option<u32> {
    let bytes = table.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Whether the NUL-terminated string at offset `at` is `wanted`.
fn is_text(table: &[u8], at: u32, wanted: &str) -> bool {
    let rest = table.get(at as usize..).and_then(|rest| rest.strip_prefix(wanted.as_bytes()));
    rest.is_some_and(|rest| rest.first() == Some(&0))
}

fn text(table: &[u8], at: u32) -> Option<&str> {
    let rest = table.get(at as usize..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// An entry: flags (kind and ABI), name, path, required processor features.
#[cfg(feature = "recorded")]
type CacheRow<'a> = (u32, &'a str, &'a str, u64);

/// Writes a cache with these entries. `None` if it exceeds 4 GiB.
#[cfg(feature = "recorded")]
fn write(libraries: &[CacheRow<'_>]) -> Option<Vec<u8>> {
    let mut strings = Vec::new();
    let mut entries = Vec::new();
    let strings_start = HEADER + libraries.len() * ENTRY;
    let mut add = |text: &str| {
        let at = u32::try_from(strings_start + strings.len()).ok()?;
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        Some(at.to_le_bytes())
    };
    for (flags, name, path, features) in libraries {
        entries.extend(flags.to_le_bytes());
        entries.extend(add(name)?);
        entries.extend(add(path)?);
        entries.extend([0; 4]);
        entries.extend(features.to_le_bytes());
    }
    let mut cache = MAGIC.to_vec();
    cache.extend(u32::try_from(libraries.len()).ok()?.to_le_bytes());
    cache.extend(u32::try_from(strings.len()).ok()?.to_le_bytes());
    cache.resize(HEADER, 0);
    cache.extend(entries);
    cache.extend(strings);
    Some(cache)
}

/// Removes all entries whose path is not `wanted`. `None` if the bytes are not a cache.
#[cfg(feature = "recorded")]
pub(crate) fn keep(cache: &[u8], wanted: &dyn Fn(&str) -> bool) -> Option<Vec<u8>> {
    let start = cache.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let table = &cache[start..];
    let count = number(table, MAGIC.len())? as usize;
    let mut rows: Vec<CacheRow<'_>> = Vec::new();
    for index in 0..count {
        let at = HEADER.checked_add(index.checked_mul(ENTRY)?)?;
        let flags = number(table, at)?;
        let (name, path) = (text(table, number(table, at + 4)?)?, text(table, number(table, at + 8)?)?);
        let (low, high) = (number(table, at + 16)?, number(table, at + 20)?);
        if wanted(path) {
            rows.push((flags, name, path, u64::from(high) << 32 | u64::from(low)));
        }
    }
    write(&rows)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::library) fn cache(libraries: &[CacheRow<'_>]) -> Vec<u8> {
        write(libraries).unwrap()
    }

    #[test]
    fn entries_with_unwanted_paths_are_removed() {
        let bytes = cache(&[
            (0x0303, "liba.so.1", "/lib/liba.so.1", 0),
            (0x0303, "libb.so.1", "/lib/libb.so.1", 1 << 62),
        ]);
        let kept = keep(&bytes, &|path| path == "/lib/libb.so.1").unwrap();
        assert_eq!(kept, cache(&[(0x0303, "libb.so.1", "/lib/libb.so.1", 1 << 62)]));
        assert_eq!(keep(b"not a cache", &|_| true), None);
    }

    #[test]
    fn lookup_returns_matching_libraries_without_requirements_first() {
        let mut bytes = b"ld.so-1.7.0\0\0\0\0\0".to_vec();
        bytes.extend(cache(&[
            (0x0003, "libcuda.so.1", "/lib/i386-linux-gnu/libcuda.so.1", 0),
            (0x0303, "libcuda.so.1", "/lib/v3/libcuda.so.1", 1 << 62),
            (0x0303, "libcuda.so.1", "/lib/x86_64-linux-gnu/libcuda.so.1", 0),
            (0x0303, "libcuda.so", "/lib/x86_64-linux-gnu/libcuda.so", 0),
        ]));
        let found = lookup(&bytes, "libcuda.so.1", (62, true)).unwrap();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libcuda.so.1", "/lib/v3/libcuda.so.1"]);
        assert!(lookup(&bytes, "libcuda.so.1", (183, true)).unwrap().is_empty());
        assert!(lookup(b"ld.so-1.7.0", "libcuda.so.1", (62, true)).is_none());
    }

    #[test]
    fn damaged_caches_do_not_panic() {
        let bytes = cache(&[(0x0303, "libc.so.6", "/lib/libc.so.6", 0)]);
        for end in 0..bytes.len() {
            let _ = lookup(&bytes[..end], "libc.so.6", (62, true));
            let mut damaged = bytes.clone();
            damaged[end] = 0xff;
            let _ = lookup(&damaged, "libc.so.6", (62, true));
        }
    }
}
