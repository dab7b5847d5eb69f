//! Finds programs on PATH and files by pattern, following the rules of the host's platform.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use gpubuild_core::order::SortIndirect as _;

use super::{Environment, FileKind, HostInfo, HostPath, Os, Platform, ReadFiles};

/// The default value of PATHEXT on Windows.
const DEFAULT_EXTENSIONS: &str = ".COM;.EXE;.BAT;.CMD";

/// How many paths one `*` of a pattern may match.
pub const GLOB_LIMIT: usize = 4096;

/// Finds all programs with a name on the host's PATH, in order: a shell would start the first one. An absolute path yields itself
/// if it is executable. The working directory is never searched.
#[must_use]
pub fn find_program(host: &dyn ReadFiles, name: &str) -> Vec<HostPath> {
    find_program_in(host, name, host.env().get("PATH").unwrap_or_default())
}

/// Like [`find_program`], with a different search path.
#[must_use]
pub fn find_program_in(host: &dyn ReadFiles, name: &str, search_path: &str) -> Vec<HostPath> {
    let path = host.path(name);
    let (folders, file) = if is_bare(host.platform(), name) {
        (host.search_folders(search_path), name)
    } else {
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(file)) if path.is_absolute() => (Arc::new(vec![folder]), file),
            _ => return Vec::new(),
        }
    };
    let names = names(host, file);
    let mut programs: Vec<HostPath> = Vec::new();
    for folder in folders.iter() {
        for program in names.iter().filter_map(|name| executable(host, folder, name)) {
            if !programs.iter().any(|known| known.key() == program.key()) {
                programs.push(program);
            }
        }
    }
    programs
}

/// The absolute folders of a search path, in order, without duplicates.
pub(super) fn folders(platform: Platform, search_path: &str) -> Vec<HostPath> {
    let separator = if platform.os == Os::Windows { ';' } else { ':' };
    let mut seen = HashSet::new();
    let folders = search_path.split(separator).map(|folder| folder.trim_matches('"'));
    folders
        .filter(|folder| !folder.is_empty())
        .map(|folder| HostPath::new(platform.path_rules(), folder))
        .filter(|folder| folder.is_absolute() && seen.insert(folder.key()))
        .collect()
}

/// The possible file names of a program. On Windows, every extension of PATHEXT is tried unless the name already has one.
fn names(host: &dyn HostInfo, file: &str) -> Vec<String> {
    let extensions = extensions(host.env());
    if host.platform().os != Os::Windows || has_extension(&host.path(file), extensions) {
        return vec![file.to_owned()];
    }
    let extensions = extensions.split(';').map(str::trim).filter(|extension| !extension.is_empty());
    extensions.map(|extension| format!("{file}{extension}")).collect()
}

/// The program in a folder, if it is executable. On Windows, its name is spelled as in the folder.
fn executable(host: &dyn ReadFiles, folder: &HostPath, name: &str) -> Option<HostPath> {
    let path = folder.join(name);
    host.stat(&path).ok().filter(|stat| stat.kind == FileKind::File && stat.executable)?;
    if host.platform().os != Os::Windows {
        return Some(path);
    }
    let names = host.list_matching(folder, name).unwrap_or_default();
    Some(names.first().map_or(path, |name| folder.join(name)))
}

/// Whether a program is given by name only, without a folder.
pub(super) fn is_bare(platform: Platform, name: &str) -> bool {
    !name.contains('/') && (platform.os != Os::Windows || !name.contains(['\\', ':']))
}

/// The value of PATHEXT, or its default.
pub(super) fn extensions(env: &Environment) -> &str {
    env.get("PATHEXT").unwrap_or(DEFAULT_EXTENSIONS)
}

/// Whether a Windows file name has one of the extensions of PATHEXT.
pub(super) fn has_extension(path: &HostPath, extensions: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_ascii_lowercase();
    extensions
        .split(';')
        .any(|extension| !extension.is_empty() && name.ends_with(&extension.trim().to_ascii_lowercase()))
}

/// Finds all paths that match a pattern such as `/usr/local/cuda-*/bin/nvcc`, in which `*` matches any text within one name.
/// Sorted by name in natural order, so that `cuda-12.10` comes after `cuda-12.9`. At most [`GLOB_LIMIT`] paths are kept for each `*`:
/// descriptions of toolkits by others may have patterns such as `/*/*/*/*`.
#[must_use]
pub fn glob(host: &dyn ReadFiles, pattern: &str) -> Vec<HostPath> {
    let pattern = host.path(pattern);
    if !pattern.as_str().contains('*') && pattern.is_normalized() {
        return if host.exists(&pattern) { vec![pattern] } else { Vec::new() };
    }
    let (root, components) = components(&pattern);
    let mut found = vec![root];
    let mut fixed = String::new();
    for component in &components {
        if component.contains('*') {
            let folders = found.iter().map(|folder| joined(folder, &fixed));
            found = folders.flat_map(|folder| matches(host, &folder, component)).take(GLOB_LIMIT).collect();
            fixed.clear();
        } else {
            if !fixed.is_empty() {
                fixed.push('/');
            }
            fixed.push_str(component);
        }
    }
    found
        .iter()
        .map(|folder| joined(folder, &fixed))
        .filter(|path| fixed.is_empty() || host.exists(path))
        .collect()
}

/// The start of a pattern, and its other components. The start of a normalized pattern includes all components before the first `*`.
fn components(pattern: &HostPath) -> (HostPath, Vec<String>) {
    let text = pattern.as_str();
    let separator = pattern.rules().separator();
    let star = text.find('*').unwrap_or(text.len());
    let start = text[..star].rfind(separator).filter(|_| pattern.is_normalized());
    if let Some(start) = start {
        let root = HostPath::new(pattern.rules(), &text[..start]);
        if root.is_normalized() {
            return (root, text[start + 1..].split(separator).map(str::to_owned).collect());
        }
    }
    let mut components = Vec::new();
    let mut rest = pattern.clone();
    while let (Some(parent), Some(name)) = (rest.parent(), rest.file_name()) {
        components.push(name.to_owned());
        rest = parent;
    }
    components.reverse();
    (rest, components)
}

fn joined(folder: &HostPath, relative: &str) -> HostPath {
    if relative.is_empty() { folder.clone() } else { folder.join(relative) }
}

fn matches(host: &dyn ReadFiles, folder: &HostPath, pattern: &str) -> Vec<HostPath> {
    let mut names = host.list_matching(folder, pattern).unwrap_or_default();
    names.sort_indirect_by(|left, right| natural_order(left, right));
    names.iter().map(|name| folder.join(name)).collect()
}

/// The names that match a pattern, of a sorted list.
pub(super) fn matching<'a>(
    platform: Platform,
    pattern: &'a str,
    names: &'a [String],
) -> impl Iterator<Item = &'a String> {
    let head = match platform.os {
        // Names that differ in case are not neighbours.
        Os::Windows => "",
        Os::Linux | Os::Macos => pattern.split('*').next().unwrap_or_default(),
    };
    let first = names.partition_point(|name| name.as_str() < head);
    names[first..]
        .iter()
        .take_while(move |name| name.starts_with(head))
        .filter(move |name| name_matches(platform, pattern, name))
}

/// Whether a name matches a pattern in which `*` matches any text, by the platform's case rules.
#[must_use]
pub fn name_matches(platform: Platform, pattern: &str, name: &str) -> bool {
    match platform.os {
        Os::Windows => star_matches(&pattern.to_lowercase(), &name.to_lowercase()),
        Os::Linux | Os::Macos => star_matches(pattern, name),
    }
}

/// Whether a name matches a pattern in which `*` matches any text, case-sensitively.
#[must_use]
pub fn star_matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(head) else { return false };
    let mut pieces: Vec<&str> = tail.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// Compares texts in natural order: runs of digits are compared as numbers.
#[must_use]
pub fn natural_order(left: &str, right: &str) -> Ordering {
    let (mut a, mut b) = (left.as_bytes(), right.as_bytes());
    while let (Some(&first), Some(&second)) = (a.first(), b.first()) {
        let order = if first.is_ascii_digit() && second.is_ascii_digit() {
            let (number, after) = digits(a);
            let (other, after_other) = digits(b);
            (a, b) = (after, after_other);
            number.len().cmp(&other.len()).then_with(|| number.cmp(other))
        } else {
            (a, b) = (&a[1..], &b[1..]);
            first.cmp(&second)
        };
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len()).then_with(|| left.cmp(right))
}

/// Splits `text` into its leading digits, without leading zeros, and the rest.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let zeros = number.iter().position(|byte| *byte != b'0').unwrap_or(number.len());
    (&number[zeros..], rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, RecordedHost};

    fn names(paths: &[HostPath]) -> Vec<&str> {
        paths.iter().map(HostPath::as_str).collect()
    }

    #[test]
    fn all_copies_on_path_are_found_in_order() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("PATH", "/usr/local/cuda/bin::/usr/bin:relative:/usr/bin:/missing:/text")
            .executable("/usr/local/cuda-12.4/bin/nvcc")
            .link("/usr/local/cuda", "cuda-12.4")
            .executable("/usr/bin/nvcc")
            .file("/text/nvcc", "not executable")
            .directory("/missing/nvcc")
            .build();
        assert_eq!(names(&find_program(&host, "nvcc")), ["/usr/local/cuda/bin/nvcc", "/usr/bin/nvcc"]);
        assert_eq!(names(&find_program(&host, "/usr/bin/nvcc")), ["/usr/bin/nvcc"]);
        assert!(find_program(&host, "bin/nvcc").is_empty());
        assert!(find_program(&host, "ninja").is_empty());
    }

    #[test]
    fn a_pattern_for_everything_ends() {
        let mut host = RecordedHost::builder(Os::Linux, Arch::X86_64);
        for one in 0..70 {
            for other in 0..70 {
                host = host.file(&format!("/opt/{one}/{other}/x"), "");
            }
        }
        let host = host.build();
        assert_eq!(glob(&host, "/opt/*").len(), 70);
        assert_eq!(glob(&host, "/opt/*/*/*").len(), GLOB_LIMIT);
        assert_eq!(glob(&host, "/opt/7/*/x").len(), 70);
    }

    #[test]
    fn a_sorted_list_yields_every_name_that_matches() {
        let list = ["Libz", "a", "lib", "libcuda.so", "libcuda.so.1", "libz.so"].map(str::to_owned);
        for os in [Os::Linux, Os::Windows] {
            let platform = Platform { os, arch: Arch::X86_64 };
            for pattern in ["*", "a", "lib*", "libcuda.so", "libcuda.so*", "l*z*", "z*", "*so", "0*", ""] {
                let found: Vec<_> = matching(platform, pattern, &list).collect();
                let all: Vec<_> = list.iter().filter(|name| name_matches(platform, pattern, name)).collect();
                assert_eq!(found, all, "{pattern}");
            }
        }
    }

    #[test]
    fn windows_programs_are_found_by_extension_regardless_of_case() {
        let host = RecordedHost::builder(Os::Windows, Arch::X86_64)
            .env("Path", r#"C:\Tools;"C:\Program Files\CMake\bin";.;C:\tools"#)
            .env("PATHEXT", ".COM;.EXE;.BAT")
            .file(r"C:\Program Files\CMake\bin\cmake.exe", "")
            .file(r"C:\tools\Cmake.bat", "")
            .file(r"C:\tools\ninja.txt", "")
            .build();
        assert_eq!(
            names(&find_program(&host, "cmake")),
            [r"C:\Tools\Cmake.bat", r"C:\Program Files\CMake\bin\cmake.exe"]
        );
        assert_eq!(names(&find_program(&host, "CMAKE.EXE")), [r"C:\Program Files\CMake\bin\cmake.exe"]);
        let absolute = find_program(&host, "C:/Program Files/CMake/bin/cmake");
        assert_eq!(names(&absolute), [r"C:\Program Files\CMake\bin\cmake.exe"]);
        assert!(find_program(&host, "ninja").is_empty());
    }

    #[test]
    fn numbers_in_names_are_compared_by_value() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .executable("/usr/local/cuda-12.10/bin/nvcc")
            .executable("/usr/local/cuda-12.9/bin/nvcc")
            .executable("/usr/local/cuda-9.2/bin/nvcc")
            .directory("/usr/local/cuda-13/bin")
            .build();
        assert_eq!(
            names(&glob(&host, "/usr/local/cuda-*/bin/nvcc")),
            [
                "/usr/local/cuda-9.2/bin/nvcc",
                "/usr/local/cuda-12.9/bin/nvcc",
                "/usr/local/cuda-12.10/bin/nvcc"
            ]
        );
        assert_eq!(names(&glob(&host, "/usr/*/cuda-13*")), ["/usr/local/cuda-13"]);
        assert_eq!(names(&glob(&host, "/usr/local/cuda-13")), ["/usr/local/cuda-13"]);
        assert!(glob(&host, "/opt/*").is_empty());
    }

    #[test]
    fn windows_patterns_ignore_case() {
        let host = RecordedHost::builder(Os::Windows, Arch::X86_64)
            .file(r"C:\VulkanSDK\1.3.296.0\Bin\glslc.exe", "")
            .build();
        assert_eq!(
            names(&glob(&host, "c:/vulkansdk/*/bin/GLSLC*")),
            [r"c:\vulkansdk\1.3.296.0\bin\glslc.exe"]
        );
    }

    #[test]
    fn stars_match_any_text() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("cuda-*", "cuda-12", true),
            ("cuda-*", "cuda", false),
            ("lib*.so.*", "libcuda.so.580.65", true),
            ("lib*.so.*", "libcuda.so", false),
            ("a*a", "a", false),
            ("*b*", "abc", true),
            ("plain", "plain", true),
        ] {
            assert_eq!(star_matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn natural_order_is_total() {
        let mut names = ["v10", "v9", "v09", "v", "w1", "v1.10", "v1.9"];
        names.sort_by(|left, right| natural_order(left, right));
        assert_eq!(names, ["v", "v1.9", "v1.10", "v09", "v9", "v10", "w1"]);
    }
}
