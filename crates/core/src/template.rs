//! Placeholders in the texts of data files: `{name}`, or `{name:argument}`.

/// Replaces the placeholders of a text by their values. `None` if one of them has no value.
///
/// A name starts with a lowercase letter, followed by lowercase letters, digits, `_` and `-`. Other braces, as in `awk '{print $1}'` or `${HOME}`, are copied.
pub fn fill(template: &str, mut value: impl FnMut(&str) -> Option<String>) -> Option<String> {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        filled.push_str(&rest[..start]);
        rest = &rest[start..];
        if let Some(name) = placeholder(rest) {
            filled.push_str(&value(name)?);
            rest = &rest[name.len() + 2..];
        } else {
            filled.push('{');
            rest = &rest[1..];
        }
    }
    filled.push_str(rest);
    Some(filled)
}

/// Names of the placeholders of a text, in order.
pub fn placeholders(template: &str) -> impl Iterator<Item = &str> {
    template.match_indices('{').filter_map(|(start, _)| placeholder(&template[start..]))
}

/// The text between the braces at the start of `text`.
fn placeholder(text: &str) -> Option<&str> {
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let name = inside.split_once(':').map_or(inside, |(name, _)| name);
    let is_name = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'));
    is_name.then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_and_other_braces_are_copied() {
        let value = |name: &str| match name {
            "root" => Some("/opt/cuda".to_owned()),
            "import-library" => Some("vulkan.so".to_owned()),
            "env:HOME" => Some("/home/ada".to_owned()),
            _ => None,
        };
        for (template, filled) in [
            ("no placeholder", Some("no placeholder")),
            ("{root}/bin", Some("/opt/cuda/bin")),
            ("lib{import-library}", Some("libvulkan.so")),
            ("[0-9]{2}", Some("[0-9]{2}")),
            ("{root}{env:HOME}", Some("/opt/cuda/home/ada")),
            ("{root}/{version}", None),
            ("awk '{print $1}' {root}", Some("awk '{print $1}' /opt/cuda")),
            ("echo ${HOME} {}", Some("echo ${HOME} {}")),
            ("{{root}}", Some("{/opt/cuda}")),
            ("{root", Some("{root")),
            ("ü{root}ü", Some("ü/opt/cudaü")),
        ] {
            assert_eq!(fill(template, value).as_deref(), filled, "{template}");
        }
        assert_eq!(placeholders("{root}/${HOME}/{env:X}").collect::<Vec<_>>(), ["root", "env:X"]);
    }
}
