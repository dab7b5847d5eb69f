//! Checks tags of `nvidia/cuda` and suggests the closest published tag.

use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::Severity;
use gpubuild_detect::id;

use super::image::ImageName;
use super::tables::{CudaTags, tables};

/// A tag that does not exist or may be deleted soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagProblem {
    /// The finding's id.
    pub id: DiagnosticId,
    /// The finding's severity.
    pub severity: Severity,
    /// The reason.
    pub why: String,
    /// The consequence: `can't be pulled`.
    pub what: &'static str,
    /// The image to use instead.
    pub replacement: String,
}

/// The parts of a tag.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct TagParts<'a> {
    version: &'a str,
    /// `cudnn` or `cudnn8`.
    cudnn: Option<&'a str>,
    flavour: Option<&'a str>,
    os: Option<&'a str>,
    /// Whether cuDNN comes after the flavour, which is not a valid order.
    is_misordered: bool,
}

/// Checks the tag of an image of NVIDIA's. With `builds`, the suggested tag contains the compiler.
#[must_use]
pub fn problem(image: &ImageName, builds: bool) -> Option<TagProblem> {
    if !image.is_from_nvidia() || image.has_digest {
        return None;
    }
    let rules = &tables().cuda_tags;
    let wanted = if builds { "devel" } else { "runtime" };
    let default = || format!("{}-{wanted}-{}", rules.version, rules.os);
    let missing = |why: String, tag: String| {
        Some(TagProblem {
            id: id!("file.image-tag"),
            severity: Severity::Error,
            why,
            what: "can't be pulled",
            replacement: renamed(image, &tag),
        })
    };
    let tag = image.tag.as_deref().unwrap_or("latest");
    if tag == "latest" {
        return missing("NVIDIA does not publish a `latest` tag".to_owned(), default());
    }
    let parts = split(tag)?;
    let version: Version = parts.version.parse().ok()?;
    if version < rules.deleted_below {
        let why = format!("NVIDIA has deleted the CUDA {} images", version.release());
        return missing(why, complete(rules, &rules.version, &TagParts { os: None, ..parts }, wanted));
    }
    // Never suggest an image that may be deleted soon.
    let suggestion = if version < rules.retiring_below {
        complete(rules, &rules.version, &TagParts { os: None, ..parts }, wanted)
    } else {
        complete(rules, &version, &parts, wanted)
    };
    if parts.version.split('.').count() < 3 {
        return missing(format!("tags use a three-part version, not `{}`", parts.version), suggestion);
    }
    if parts.flavour.is_none() || parts.os.is_none() {
        return missing(
            "tags end in a flavour and an operating system, such as `-runtime-ubuntu22.04`".to_owned(),
            suggestion,
        );
    }
    if parts.is_misordered {
        return missing("in tags, cuDNN comes before the flavour".to_owned(), suggestion);
    }
    if let Some(why) = cudnn_problem(rules, &version, parts.cudnn) {
        return missing(why, suggestion);
    }
    if let Some(row) = rules.system.iter().find(|row| Some(row.os.as_str()) == parts.os) {
        let why = match (&row.since, &row.until) {
            (Some(since), _) if version < *since => format!("{} images start with CUDA {since}", row.os),
            (_, Some(until)) if version > *until => format!("{} images end with CUDA {until}", row.os),
            _ => String::new(),
        };
        if !why.is_empty() {
            return missing(
                why,
                complete(rules, &version, &TagParts { os: Some(&row.instead), ..parts }, wanted),
            );
        }
    }
    (version < rules.retiring_below).then(|| TagProblem {
        id: id!("file.image-retiring"),
        severity: Severity::Warning,
        what: "may be deleted at any time",
        why: format!("NVIDIA no longer supports CUDA {} and deletes unsupported images", version.release()),
        replacement: renamed(image, &suggestion),
    })
}

fn cudnn_problem(rules: &CudaTags, version: &Version, cudnn: Option<&str>) -> Option<String> {
    let has_digit = cudnn? != "cudnn";
    let since = &rules.cudnn_without_digit_since;
    // 12.4.0 has neither form, so a number is wrong for all of 12.4.
    if has_digit && (version.major(), version.minor()) >= (since.major(), since.minor()) {
        Some(format!("tags for CUDA {since} and newer use `cudnn` without a number"))
    } else if !has_digit && *version < *since {
        Some(format!("tags for CUDA versions before {since} use `cudnn8`"))
    } else {
        None
    }
}

/// Splits a tag into its parts; `None` if the tag contains unknown parts.
fn split(tag: &str) -> Option<TagParts<'_>> {
    let mut pieces = tag.split('-');
    let version = pieces.next().filter(|text| text.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = TagParts { version, ..TagParts::default() };
    for piece in pieces {
        match piece {
            "base" | "runtime" | "devel" => parts.flavour = Some(piece),
            _ if piece.starts_with("cudnn") => {
                parts.is_misordered = parts.flavour.is_some();
                parts.cudnn = Some(piece);
            }
            _ if piece.starts_with(|c: char| c.is_ascii_alphabetic()) && parts.os.is_none() => {
                parts.os = Some(piece);
            }
            _ => return None,
        }
    }
    Some(parts)
}

/// A complete tag: missing parts are filled with defaults.
fn complete(rules: &CudaTags, version: &Version, parts: &TagParts<'_>, wanted: &str) -> String {
    let release = match rules.last.get(&version.release()) {
        Some(last) if version.as_str().split('.').count() < 3 => last.clone(),
        _ if version.as_str().split('.').count() < 3 => format!("{}.0", version.release()),
        _ => version.to_string(),
    };
    let since = &rules.cudnn_without_digit_since;
    let lacks_cudnn = parts.cudnn.is_some() && version.release() == since.release() && *version < *since;
    let release = if lacks_cudnn { since.to_string() } else { release };
    let is_new = release.parse::<Version>().is_ok_and(|release| release >= rules.cudnn_without_digit_since);
    let cudnn = parts.cudnn.map_or("", |_| if is_new { "cudnn-" } else { "cudnn8-" });
    let system = rules.system.iter().find(|row| row.os == rules.os).and_then(|row| row.since.as_ref());
    let default_os = if system.is_some_and(|since| *version < *since) { "ubuntu22.04" } else { &rules.os };
    format!("{release}-{cudnn}{}-{}", parts.flavour.unwrap_or(wanted), parts.os.unwrap_or(default_os))
}

fn renamed(image: &ImageName, tag: &str) -> String {
    ImageName { tag: Some(tag.to_owned()), ..image.clone() }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tags_are_reported_with_a_published_one() {
        for (text, expected) in [
            ("nvidia/cuda", "file.image-tag nvidia/cuda:12.9.1-runtime-ubuntu24.04"),
            ("nvcr.io/nvidia/cuda:latest", "file.image-tag nvcr.io/nvidia/cuda:12.9.1-runtime-ubuntu24.04"),
            (
                "nvidia/cuda:10.2-cudnn7-devel-ubuntu18.04",
                "file.image-tag nvidia/cuda:12.9.1-cudnn-devel-ubuntu24.04",
            ),
            ("nvidia/cuda:11.0-base", "file.image-tag nvidia/cuda:12.9.1-base-ubuntu24.04"),
            ("nvidia/cuda:12.2-devel-ubuntu22.04", "file.image-tag nvidia/cuda:12.2.2-devel-ubuntu22.04"),
            ("nvidia/cuda:12.2.0", "file.image-tag nvidia/cuda:12.2.0-runtime-ubuntu22.04"),
            (
                "nvidia/cuda:12.1.0-devel-cudnn8-ubuntu22.04",
                "file.image-tag nvidia/cuda:12.1.0-cudnn8-devel-ubuntu22.04",
            ),
            (
                "nvidia/cuda:12.4.1-cudnn8-devel-ubuntu22.04",
                "file.image-tag nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04",
            ),
            (
                "nvidia/cuda:12.4.0-cudnn8-devel-ubuntu22.04",
                "file.image-tag nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04",
            ),
            (
                "nvidia/cuda:12.4.0-cudnn-devel-ubuntu22.04",
                "file.image-tag nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04",
            ),
            ("nvidia/cuda:12.4.0-devel-ubuntu22.04", "-"),
            (
                "nvidia/cuda:12.2.2-cudnn-devel-ubuntu22.04",
                "file.image-tag nvidia/cuda:12.2.2-cudnn8-devel-ubuntu22.04",
            ),
            ("nvidia/cuda:12.4.1-devel-ubuntu24.04", "file.image-tag nvidia/cuda:12.4.1-devel-ubuntu22.04"),
            ("nvidia/cuda:12.6.3-devel-centos7", "file.image-tag nvidia/cuda:12.6.3-devel-rockylinux8"),
            (
                "nvidia/cuda:11.3.1-devel-ubuntu20.04",
                "file.image-retiring nvidia/cuda:12.9.1-devel-ubuntu24.04",
            ),
            ("nvidia/cuda:12.2.0-devel-ubuntu22.04", "-"),
            ("nvidia/cuda:13.3.0-cudnn-runtime-ubuntu24.04", "-"),
            ("nvidia/cuda:11.8.0-cudnn8-runtime-rockylinux8", "-"),
            ("nvidia/cuda:12.2.0@sha256:00", "-"),
            ("nvidia/cuda:12.4.1-tensorrt10-devel-ubuntu22.04-x1", "-"),
            ("harbor.example.org/nvidia/cuda:latest", "-"),
            ("ubuntu", "-"),
        ] {
            let seen = problem(&ImageName::parse(text).unwrap(), false)
                .map_or("-".to_owned(), |problem| format!("{} {}", problem.id, problem.replacement));
            assert_eq!(seen, expected, "{text}");
        }
    }
}
