//! Fixes as corrected lines.

use gpubuild_core::backend::Backend;

use super::text::{Sheet, find_word, shown};

/// The line with a text replaced.
#[must_use]
pub fn replace(sheet: &Sheet, line: usize, old: &str, new: &str) -> String {
    let corrected = if old.is_empty() { None } else { sheet.corrected(line, old, new) };
    corrected.map_or_else(
        || format!("put `{}` in the place of `{}` in line {line}", shown(new), shown(old)),
        |corrected| format!("write line {line} as `{corrected}`"),
    )
}

/// The line with several texts replaced.
#[must_use]
pub fn replace_all<'a>(
    sheet: &Sheet,
    line: usize,
    changes: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut text = sheet.line(line).to_owned();
    let mut missed = Vec::new();
    for (old, new) in changes {
        match find_word(&text, old) {
            Some(at) => text.replace_range(at..at + old.len(), new),
            None => missed.push(format!("`{}` in the place of `{}`", shown(new), shown(old))),
        }
    }
    if missed.is_empty() {
        format!("write line {line} as `{}`", shown(&text))
    } else {
        format!("put {} in line {line}", missed.join(", "))
    }
}

/// The line with a text added after another one.
#[must_use]
pub fn append(sheet: &Sheet, line: usize, after: &str, new: &str) -> String {
    let corrected =
        if after.is_empty() { None } else { sheet.corrected(line, after, &format!("{after} {new}")) };
    corrected.map_or_else(
        || format!("add `{}` to the command of line {line}", shown(new)),
        |corrected| format!("write line {line} as `{corrected}`"),
    )
}

/// The name of a backend for people.
#[must_use]
pub fn backend(backend: Backend) -> &'static str {
    match backend {
        Backend::Cpu => "processors",
        Backend::Cuda => "CUDA",
        Backend::Rocm => "ROCm",
        Backend::Metal => "Metal",
        Backend::Vulkan => "Vulkan",
        Backend::Sycl => "SYCL",
        Backend::Opencl => "OpenCL",
    }
}
