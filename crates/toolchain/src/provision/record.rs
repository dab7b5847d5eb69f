//! The files that a wheel lists in its RECORD, with their hashes.

use std::collections::BTreeMap;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gpubuild_host::{HostPath, ReadFiles};
use sha2::{Digest, Sha256};

use super::error::ProvisionError;
use super::prefix;

/// Bytes per read.
const CHUNK_SIZE: usize = 4 << 20;

/// Path of a RECORD in an unpacked wheel. `None` if the folder does not contain a wheel.
pub(super) fn path(host: &dyn ReadFiles, wheel: &HostPath) -> Option<HostPath> {
    let infos = host.list_matching(wheel, "*.dist-info").unwrap_or_default();
    infos.first().map(|info| wheel.join(info).join("RECORD"))
}

/// The files in a RECORD with their hashes: `path,sha256=HASH,SIZE` (PEP 376, 427). Files that installers put outside the wheel, such as
/// console scripts, are omitted.
pub(super) fn files(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = text.lines().filter_map(|line| {
        let (rest, _size) = line.rsplit_once(',')?;
        let (path, hash) = rest.rsplit_once(',')?;
        Some((path.trim_matches('"'), hash.strip_prefix("sha256=")?))
    });
    rows.filter(|(path, _)| !path.split(['/', '\\']).any(|part| part == ".."))
}

/// Checks the files of an unpacked wheel.
///
/// # Errors
/// A file is missing or differs.
pub(super) fn check(host: &dyn ReadFiles, package: &str, wheel: &HostPath) -> Result<(), ProvisionError> {
    let differs =
        |path: &str| ProvisionError::WheelDiffers { package: package.to_owned(), path: path.to_owned() };
    let record = path(host, wheel).unwrap_or_else(|| wheel.join("RECORD"));
    let text = host.read_text(&record).map_err(|error| ProvisionError::of_io(&error))?;
    for (path, expected) in files(&text) {
        match hash(host, &wheel.join(path)) {
            Ok(found) if found == expected => {}
            Ok(_) => return Err(differs(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(differs(path)),
            Err(error) => return Err(ProvisionError::of_io(&error)),
        }
    }
    Ok(())
}

/// Checks that no two of the unpacked wheels have different files of one name in the toolkit, of which only one would be installed.
///
/// # Errors
/// They have.
pub(super) fn check_names(
    host: &dyn ReadFiles,
    trees: &[String],
    wheels: &[(&str, HostPath)],
) -> Result<(), ProvisionError> {
    let mut known: BTreeMap<String, (&str, &HostPath)> = BTreeMap::new();
    for (package, wheel) in wheels {
        let all = prefix::files(host, wheel).map_err(|error| ProvisionError::of_io(&error))?;
        for path in all.into_iter().filter(|path| in_toolkit(trees, path).is_some()) {
            let Some((other, first)) = known.get(&path) else {
                known.insert(path, (package, wheel));
                continue;
            };
            let read = |wheel: &HostPath| {
                hash(host, &wheel.join(&path)).map_err(|error| ProvisionError::of_io(&error))
            };
            if read(first)? != read(wheel)? {
                let packages = [(*other).to_owned(), (*package).to_owned()];
                return Err(ProvisionError::WheelsConflict { path, packages });
            }
        }
    }
    Ok(())
}

/// Path in the toolkit of a file of a wheel, if the file is in one of the folders that map to the toolkit's root.
pub(super) fn in_toolkit<'a>(trees: &[String], path: &'a str) -> Option<&'a str> {
    trees.iter().find_map(|tree| match tree.strip_suffix('*') {
        None => path.strip_prefix(tree.as_str())?.strip_prefix('/'),
        Some(start) => Some(path.strip_prefix(start)?.split_once('/')?.1),
    })
}

/// The sha256 of a file in the encoding of RECORD.
pub(super) fn hash(host: &dyn ReadFiles, path: &HostPath) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut start = 0_u64;
    loop {
        let chunk = host.read_part(path, start, CHUNK_SIZE)?;
        hasher.update(&chunk);
        start += chunk.len() as u64;
        if chunk.len() < CHUNK_SIZE {
            return Ok(URL_SAFE_NO_PAD.encode(hasher.finalize()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheel_records_are_parsed() {
        let text = "nvidia/cu13/bin/nvcc,sha256=AbC_-9,12\n\"a,b\",sha256=X,1\nx.dist-info/RECORD,,\n\
                    ../../bin/tool,sha256=Y,3\nb/../../c,sha256=Z,3\n";
        let found: Vec<_> = files(text).collect();
        assert_eq!(found, [("nvidia/cu13/bin/nvcc", "AbC_-9"), ("a,b", "X")]);
    }

    #[test]
    fn paths_in_a_toolkit_begin_with_a_tree() {
        let trees = ["nvidia/cu13".to_owned(), "_rocm_sdk_core*".to_owned()];
        for (path, expected) in [
            ("nvidia/cu13/bin/nvcc", Some("bin/nvcc")),
            ("nvidia/cu130/bin/nvcc", None),
            ("_rocm_sdk_core_7/lib/x", Some("lib/x")),
            ("_rocm_sdk_core", None),
        ] {
            assert_eq!(in_toolkit(&trees, path), expected, "{path}");
        }
    }
}
