//! What headers and scripts of a project say about the interface of a library.

/// The value in a line `#define NAME value`, without a remark behind it.
#[must_use]
pub fn default_of(header: &str, name: &str) -> Option<String> {
    header.lines().find_map(|line| {
        let line = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
        let rest = line.trim_start().strip_prefix(name)?;
        let value = rest.strip_prefix([' ', '\t'])?.split("//").next()?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    })
}

/// `0.25.3` of three lines `set(PREFIX_MAJOR 0)`.
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
    fn defaults_stand_in_headers() {
        let header = "#ifndef GGML_MAX_NAME\n#   define GGML_MAX_NAME        64 // bytes\n#endif\n#define GGML_MAX_NAMES 3\n";
        assert_eq!(default_of(header, "GGML_MAX_NAME").as_deref(), Some("64"));
        assert_eq!(default_of(header, "GGML_MAX"), None);
    }

    #[test]
    fn the_version_has_three_parts() {
        let script = "set(GGML_VERSION_MAJOR 0)\nset(GGML_VERSION_MINOR 25)\nset(GGML_VERSION_PATCH 3)\n";
        assert_eq!(version(script, "GGML_VERSION").as_deref(), Some("0.25.3"));
        assert_eq!(version(script, "LLAMA_VERSION"), None);
    }
}
