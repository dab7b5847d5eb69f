//! Patterns in descriptions: `{version}` in texts, and placeholders for values of the host.

use gpubuild_core::template;
use gpubuild_core::version::Version;
use gpubuild_host::{Arch, HostInfo, Os, Platform};

/// Extracts all versions in `text` that match a pattern with one `{version}`, in order.
///
/// A space in the pattern matches any run of blanks, so that `define CUDART_VERSION {version}` matches regardless of alignment.
#[must_use]
pub fn extract_all(pattern: &str, text: &str) -> Vec<Version> {
    let Some((before, after)) = pattern.split_once("{version}") else { return Vec::new() };
    let mut found = Vec::new();
    let mut start = 0;
    while start <= text.len() {
        let Some((_, end)) = find_loose(before, text, start) else { break };
        let digits =
            text[end..].find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len() - end);
        let number = text[end..end + digits].trim_end_matches('.');
        if !number.is_empty()
            && number.starts_with(|c: char| c.is_ascii_digit())
            && matches_loose(after, &text[end + number.len()..]).is_some()
            && let Ok(version) = number.parse()
        {
            found.push(version);
        }
        start = next_boundary(text, end.max(start + 1));
    }
    found
}

/// Extracts the first version that matches; see [`extract_all`].
#[must_use]
pub fn extract(pattern: &str, text: &str) -> Option<Version> {
    extract_all(pattern, text).into_iter().next()
}

fn next_boundary(text: &str, mut index: usize) -> usize {
    while index < text.len() && !text.is_char_boundary(index) {
        index += 1;
    }
    index
}

/// The byte range of the first match of `pattern` in `text` at or after `start`.
fn find_loose(pattern: &str, text: &str, start: usize) -> Option<(usize, usize)> {
    if pattern.is_empty() {
        return Some((start, start));
    }
    // Search for the literal text before the first space, which is fast.
    let first = pattern.split(' ').next().unwrap_or_default();
    let finder = memchr::memmem::Finder::new(first);
    let mut at = start;
    while at < text.len() {
        let rest = &text[at..];
        at += if first.is_empty() { rest.find([' ', '\t']) } else { finder.find(rest.as_bytes()) }?;
        if let Some(length) = matches_loose(pattern, &text[at..]) {
            return Some((at, at + length));
        }
        at = next_boundary(text, at + 1);
    }
    None
}

/// The length of the match if `text` starts with `pattern`; a space matches any run of blanks.
fn matches_loose(pattern: &str, text: &str) -> Option<usize> {
    let mut rest = text;
    let mut words = pattern.split(' ');
    rest = rest.strip_prefix(words.next()?)?;
    for word in words {
        let trimmed = rest.trim_start_matches([' ', '\t']);
        if trimmed.len() == rest.len() {
            return None;
        }
        rest = trimmed.strip_prefix(word)?;
    }
    Some(text.len() - rest.len())
}

/// Replaces the placeholders for values of the host. `None` if one of them has no value on this host.
pub fn fill(template: &str, host: &dyn HostInfo) -> Option<String> {
    fill_for(template, host, host.platform())
}

/// Like [`fill`], with the architecture of another platform.
pub fn fill_for(template: &str, host: &dyn HostInfo, platform: Platform) -> Option<String> {
    template::fill(template, |name| value(name, host, platform))
}

fn value(name: &str, host: &dyn HostInfo, platform: Platform) -> Option<String> {
    let env = |name: &str, default: Option<&str>| {
        host.env()
            .get(name)
            .map(|value| value.trim_end_matches(['/', '\\']).to_owned())
            .or(default.map(str::to_owned))
    };
    match name {
        // Filled later, when a version is read.
        "version" => Some("{version}".to_owned()),
        "arch" => Some(platform.arch.id().to_owned()),
        "triplet" => Some(format!("{}-linux-gnu", platform.arch.id())),
        "exe" => Some(if platform.os == Os::Windows { ".exe" } else { "" }.to_owned()),
        // Visual Studio's name for the architecture.
        "vs_arch" => Some(if platform.arch == Arch::X86_64 { "x64" } else { "arm64" }.to_owned()),
        "home" => match platform.os {
            Os::Windows => env("USERPROFILE", None),
            Os::Linux | Os::Macos => env("HOME", None),
        },
        "program_files" => env("ProgramFiles", Some("C:\\Program Files")),
        "program_files_x86" => env("ProgramFiles(x86)", Some("C:\\Program Files (x86)")),
        "local_app_data" => env("LOCALAPPDATA", None),
        "system32" => env("SystemRoot", Some("C:\\Windows")).map(|root| format!("{root}\\System32")),
        other => env(other.strip_prefix("env:")?, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pattern: &str, text: &str) -> Option<String> {
        extract(pattern, text).map(|version| version.to_string())
    }

    #[test]
    fn versions_are_extracted_by_pattern() {
        for (pattern, text, expected) in [
            ("define CUDART_VERSION {version}", "#define CUDART_VERSION  12040\n", Some("12040")),
            ("CUDA/v{version}", "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v12.6", Some("12.6")),
            ("cuda-{version}", "/usr/local/cuda-12.4", Some("12.4")),
            ("cuda-{version}", "/usr/local/cuda-old/x/cuda-11.8/y", Some("11.8")),
            ("gcc-{version}", "/usr/bin/x86_64-linux-gnu-gcc-12", Some("12")),
            ("gcc-{version}", "/usr/bin/gcc", None),
            (", {version}, VK_HEADER_VERSION)", "VK_MAKE_API_VERSION(0, 1, 3, VK_HEADER_VERSION)", Some("3")),
            ("MSVC/{version}/bin", "VC/Tools/MSVC/14.41.34120/bin/Hostx64", Some("14.41.34120")),
            ("{version}", "6.2.0-66\n", Some("6.2.0")),
            ("", "1.2", None),
        ] {
            assert_eq!(one(pattern, text).as_deref(), expected, "{pattern} in {text}");
        }
    }

    #[test]
    fn limits_of_a_host_config_are_extracted() {
        let config = "#if __GNUC__ > 13\n#error\n#if (__clang_major__ >= 18) || (__clang_major__ < 3)\n\
            #if _MSC_VER < 1910 || _MSC_VER >= 1950\n";
        assert_eq!(one("__GNUC__ > {version}", config).as_deref(), Some("13"));
        assert_eq!(one("__clang_major__ >= {version}", config).as_deref(), Some("18"));
        assert_eq!(one("_MSC_VER >= {version}", config).as_deref(), Some("1950"));
    }

    proptest::proptest! {
        #[test]
        fn extraction_never_panics(pattern in ".{0,12}", text in ".{0,40}") {
            let _ = extract_all(&format!("{pattern}{{version}}"), &text);
            let _ = extract_all(&format!("{pattern}{{version}}x y"), &text);
        }
    }
}
