//! Reads definitions and versions from the headers and CMake scripts of a project.

/// The value of the first line `#define NAME value`, without a trailing comment.
#[must_use]
pub fn default_of(header: &str, name: &str) -> Option<String> {
    header.lines().find_map(|line| {
        let line = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
        let rest = line.trim_start().strip_prefix(name)?;
        let value = rest.strip_prefix([' ', '\t'])?.split("//").next()?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    })
}

/// The version `0.25.3` from `set(PREFIX_MAJOR 0)`, `set(PREFIX_MINOR 25)` and `set(PREFIX_PATCH 3)`.
#[must_use]
pub fn version(script: &str, prefix: &str) -> Option<String> {
    let part = |part: &str| {
        let start = format!("set({prefix}_{part} ");
        let (_, rest) = script.split_once(&start)?;
        Some(rest.split(')').next()?.trim().to_owned())
    };
    Some(format!("{}.{}.{}", part("MAJOR")?, part("MINOR")?, part("PATCH")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_read_from_headers() {
        let header = "#ifndef GGML_MAX_NAME\n#   define GGML_MAX_NAME        64 // bytes\n#endif\n#define GGML_MAX_NAMES 3\n";
        assert_eq!(default_of(header, "GGML_MAX_NAME").as_deref(), Some("64"));
        assert_eq!(default_of(header, "GGML_MAX"), None);
    }

    #[test]
    fn version_is_read_from_three_variables() {
        let script = "set(GGML_VERSION_MAJOR 0)\nset(GGML_VERSION_MINOR 25)\nset(GGML_VERSION_PATCH 3)\n";
        assert_eq!(version(script, "GGML_VERSION").as_deref(), Some("0.25.3"));
        assert_eq!(version(script, "LLAMA_VERSION"), None);
    }
}
