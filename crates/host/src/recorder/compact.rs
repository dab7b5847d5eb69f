//! Makes a recording small enough to be read and pasted: of large files only what was looked at.

use crate::library;

/// Text files up to this size are kept whole.
const SHORT: usize = 8 << 10;
/// What the lines of a header that are kept have in them: versions and limits.
const LINES: [&str; 5] = ["VERSION", "__GNUC__", "__clang_major__", "_MSC_VER", "__GLIBC"];

/// The content that is recorded for a file; `looked_at` tells whether a path was asked for.
pub(super) fn content(path: &str, content: &[u8], looked_at: &dyn Fn(&str) -> bool) -> Option<Vec<u8>> {
    if path == "/etc/ld.so.cache" {
        return library::cache::keep(content, looked_at);
    }
    let header = [".h", ".hpp"].iter().any(|end| path.ends_with(end));
    if !header || content.len() <= SHORT {
        return None;
    }
    let text = std::str::from_utf8(content).ok()?;
    let is_kept = |line: &&str| LINES.iter().any(|word| line.contains(word));
    Some(text.lines().filter(is_kept).fold(String::new(), |kept, line| kept + line + "\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_headers_keep_the_lines_that_tell_versions() {
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
