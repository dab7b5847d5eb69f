//! Reduces large files in a recording to the relevant parts, so that the recording can be read and pasted.

use crate::{dpkg, library};

/// Headers up to this size in bytes are recorded completely.
const SMALL: usize = 8 << 10;
/// Lines of larger headers are recorded if they contain one of these texts: macros with versions and limits.
const MARKERS: [&str; 5] = ["VERSION", "__GNUC__", "__clang_major__", "_MSC_VER", "__GLIBC"];

/// The reduced content of a file; `None` if it is recorded completely. `was_accessed` returns whether the program accessed a path.
pub(super) fn content(path: &str, content: &[u8], was_accessed: &dyn Fn(&str) -> bool) -> Option<Vec<u8>> {
    if path == "/etc/ld.so.cache" {
        return library::cache::keep(content, was_accessed);
    }
    if path == dpkg::STATUS {
        return Some(dpkg::keep(&String::from_utf8_lossy(content)).into_bytes());
    }
    let header = [".h", ".hpp"].iter().any(|end| path.ends_with(end));
    if !header || content.len() <= SMALL {
        return None;
    }
    let text = std::str::from_utf8(content).ok()?;
    let is_kept = |line: &&str| MARKERS.iter().any(|marker| line.contains(marker));
    Some(text.lines().filter(is_kept).fold(String::new(), |kept, line| kept + line + "\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_headers_are_reduced_to_version_lines() {
        let mut text = "#define VK_HEADER_VERSION 304\n".to_owned();
        for _ in 0..1000 {
            text.push_str("#define VK_SOMETHING 1\n");
        }
        let kept = content("/usr/include/vulkan/vulkan_core.h", text.as_bytes(), &|_| false);
        assert_eq!(kept.as_deref(), Some(&b"#define VK_HEADER_VERSION 304\n"[..]));
        assert_eq!(content("/usr/include/x.h", b"#define A 1\n", &|_| false), None);
        assert_eq!(content("/proc/cpuinfo", text.as_bytes(), &|_| false), None);
    }
}
