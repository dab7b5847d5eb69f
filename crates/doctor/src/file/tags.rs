//! Which tags of `nvidia/cuda` exist, and the nearest one that does.

use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::Severity;
use gpubuild_detect::id;

use super::image::ImageName;
use super::tables::{CudaTags, tables};

/// What is wrong with a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagProblem {
    /// The id of the finding.
    pub id: DiagnosticId,
    /// How much it matters.
    pub severity: Severity,
    /// Why it can't be pulled.
    pub why: String,
    /// What happens.
    pub what: &'static str,
    /// The image to write instead.
    pub instead: String,
}

/// The parts of a tag.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct TagParts<'a> {
    version: &'a str,
    /// `cudnn`, `cudnn8`.
    cudnn: Option<&'a str>,
    flavour: Option<&'a str>,
    os: Option<&'a str>,
    /// Whether cuDNN stands after the flavour, which no tag has.
    is_turned: bool,
}

/// Looks at the tag of an image of NVIDIA's. `builds`: whether the compiler is needed, for the proposal.
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
            instead: renamed(image, &tag),
        })
    };
    let tag = image.tag.as_deref().unwrap_or("latest");
    if tag == "latest" {
        return missing("NVIDIA publishes no tag `latest` for it".to_owned(), default());
    }
    let parts = split(tag)?;
    let version: Version = parts.version.parse().ok()?;
    if version < rules.deleted_below {
        let why = format!("NVIDIA has deleted the images of CUDA {}", version.release());
        return missing(why, complete(rules, &rules.version, &TagParts { os: None, ..parts }, wanted));
    }
    // Of what may go any day nothing is proposed.
    let proposal = if version < rules.retiring_below {
        complete(rules, &rules.version, &TagParts { os: None, ..parts }, wanted)
    } else {
        complete(rules, &version, &parts, wanted)
    };
    if parts.version.split('.').count() < 3 {
        return missing(format!("tags name a release with three numbers, not `{}`", parts.version), proposal);
    }
    if parts.flavour.is_none() || parts.os.is_none() {
        return missing("tags end in a flavour and a system, as `-runtime-ubuntu22.04`".to_owned(), proposal);
    }
    if parts.is_turned {
        return missing("in a tag cuDNN stands before the flavour".to_owned(), proposal);
    }
    if let Some(why) = cudnn_problem(rules, &version, parts.cudnn) {
        return missing(why, proposal);
    }
    if let Some(row) = rules.system.iter().find(|row| Some(row.os.as_str()) == parts.os) {
        let why = match (&row.since, &row.until) {
            (Some(since), _) if version < *since => format!("images on {} begin with CUDA {since}", row.os),
            (_, Some(until)) if version > *until => format!("images on {} end with CUDA {until}", row.os),
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
        what: "may be gone any day",
        why: format!("CUDA {} is out of support, and NVIDIA deletes such images", version.release()),
        instead: renamed(image, &proposal),
    })
}

fn cudnn_problem(rules: &CudaTags, version: &Version, cudnn: Option<&str>) -> Option<String> {
    let has_digit = cudnn? != "cudnn";
    let since = &rules.cudnn_without_digit_since;
    // The release before had neither.
    if has_digit && (version.major(), version.minor()) >= (since.major(), since.minor()) {
        Some(format!("from CUDA {since} on tags say `cudnn` without a number"))
    } else if !has_digit && *version < *since {
        Some(format!("before CUDA {since} tags say `cudnn8`"))
    } else {
        None
    }
}

/// The parts of a tag; `None` for tags with other parts, of which nothing is known.
fn split(tag: &str) -> Option<TagParts<'_>> {
    let mut pieces = tag.split('-');
    let version = pieces.next().filter(|text| text.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = TagParts { version, ..TagParts::default() };
    for piece in pieces {
        match piece {
            "base" | "runtime" | "devel" => parts.flavour = Some(piece),
            _ if piece.starts_with("cudnn") => {
                parts.is_turned = parts.flavour.is_some();
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

/// A whole tag with what is missing filled in.
fn complete(rules: &CudaTags, version: &Version, parts: &TagParts<'_>, wanted: &str) -> String {
    let release = match rules.last.get(&version.release()) {
        Some(last) if version.as_str().split('.').count() < 3 => last.clone(),
        _ if version.as_str().split('.').count() < 3 => format!("{}.0", version.release()),
        _ => version.to_string(),
    };
    let since = &rules.cudnn_without_digit_since;
    let is_between = parts.cudnn.is_some() && version.release() == since.release() && *version < *since;
    let release = if is_between { since.to_string() } else { release };
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
    fn tags_that_do_not_exist_are_told_with_one_that_does() {
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
                .map_or("-".to_owned(), |problem| format!("{} {}", problem.id, problem.instead));
            assert_eq!(seen, expected, "{text}");
        }
    }
}
