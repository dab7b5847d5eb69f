//! The text of `doctor --binary`: the file, how its libraries are resolved, and which devices its device code runs on.

use std::collections::BTreeSet;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_detect::toolkit::libraries::{self, LibraryRole};
use gpubuild_doctor::binary::verdicts::DeviceCover;
use gpubuild_host::library::search::Via;
use gpubuild_object::{KernelKind, ObjectFormat, When};

use super::binary::{
    BinaryReport, DeviceCodeReport, KernelReport, KernelsReport, LibraryReport, LibraryState,
};
use super::detect_text::Detail;

/// The lines of the text. Names and paths are not escaped; the caller escapes them.
pub(super) fn lines(binary: &BinaryReport, detail: Detail) -> Vec<String> {
    let also =
        if binary.also.is_empty() { String::new() } else { format!(" (and {})", binary.also.join(", ")) };
    let loader = binary.interpreter.as_ref().map(|path| format!(", loaded by {path}")).unwrap_or_default();
    let (format, kind) = (binary.format.label(), binary.kind.label());
    let mut page = vec![format!("{}: {format} {kind} for {}{also}{loader}", binary.path, binary.machine)];
    let is_shown = |library: &&LibraryReport| detail == Detail::Everything || matters(library);
    let shown: Vec<&LibraryReport> = binary.libraries.iter().filter(is_shown).collect();
    let width = shown.iter().map(|library| library.name.chars().count()).max().unwrap_or(0).min(40);
    if !binary.libraries.is_empty() {
        page.push("libraries".to_owned());
    }
    for library in &shown {
        page.push(format!("  {:<width$}  {}", library.name, state(binary, library)));
    }
    let rest = binary.libraries.len() - shown.len();
    if rest > 0 {
        let other = if shown.is_empty() { "" } else { " more" };
        page.push(format!("  {rest}{other} found (-v lists all)"));
    }
    if !binary.kernels.is_empty() {
        page.push("device code".to_owned());
    }
    for kernels in &binary.kernels {
        let name = kernels.path.rsplit(['/', '\\']).next().unwrap_or_default();
        page.push(format!("  {name}: {}", archs(kernels)));
        page.extend(kernels.devices.iter().map(|device| format!("    {}", on(device))));
    }
    page
}

fn matters(library: &LibraryReport) -> bool {
    let is_gpu = libraries::find(&library.name).is_some_and(|known| known.role != LibraryRole::System);
    let in_order = matches!(library.state, LibraryState::Found | LibraryState::System);
    is_gpu
        || !in_order
        || matches!(library.via, Some(Via::Rpath | Via::Runpath | Via::LibraryPath | Via::Application))
}

fn state(binary: &BinaryReport, library: &LibraryReport) -> String {
    let when = match library.when {
        When::Start => "",
        When::FirstCall => ", loaded at the first call",
        When::IfThere => ", optional",
        When::Opened => ", opened at run time",
    };
    let path = library.path.as_deref().unwrap_or_default();
    let by = match library.needed_by.first().filter(|first| **first != binary.path) {
        Some(first) => format!(", needed by {}", first.rsplit(['/', '\\']).next().unwrap_or_default()),
        None => String::new(),
    };
    match library.state {
        LibraryState::Found => {
            let via = library.via.map(|found| via(binary.format, found)).unwrap_or_default();
            format!("{path}{via}{when}")
        }
        LibraryState::System => format!("part of the system{when}"),
        LibraryState::Missing if library.when == When::Opened => "missing, opened at run time".to_owned(),
        LibraryState::Missing if library.when == When::IfThere => "missing, optional".to_owned(),
        LibraryState::Missing => format!("missing{by}{when}"),
        LibraryState::WrongProcessor => format!("{path} is for another architecture{by}"),
        LibraryState::Unknown => format!("not in the recording{by}{when}"),
    }
}

fn via(format: ObjectFormat, via: Via) -> &'static str {
    match via {
        Via::LibraryPath if format == ObjectFormat::MachO => " by DYLD_LIBRARY_PATH",
        Via::Path => " by its path",
        Via::Rpath => " by RPATH",
        Via::LibraryPath => " by LD_LIBRARY_PATH",
        Via::Runpath => " by RUNPATH",
        Via::Cache | Via::Default | Via::System => "",
        Via::Configuration => " by /etc/ld.so.conf",
        Via::Application => " beside the program",
        Via::ProgramPath => " by PATH",
        Via::Fallback => " by dyld's fallback folders",
    }
}

fn archs(kernels: &KernelsReport) -> String {
    let mut words: Vec<String> = Vec::new();
    for (kind, start) in [
        (KernelKind::Sass, "sm_"),
        (KernelKind::Ptx, "PTX of compute_"),
        (KernelKind::Lto, "LTO code of compute_"),
    ] {
        let of: BTreeSet<(usize, &String)> = kernels
            .cuda
            .iter()
            .filter(|kernel| kernel.kind == kind)
            .map(|KernelReport { arch, .. }| (arch.trim_end_matches(char::is_alphabetic).len(), arch))
            .collect_set();
        words.extend(of.into_iter().map(|(_, arch)| format!("{start}{arch}")));
    }
    words.extend(kernels.hip.iter().cloned());
    if kernels.incomplete {
        words.push("and some for unknown targets".to_owned());
    }
    words.join(", ")
}

fn on(device: &DeviceCodeReport) -> String {
    let arch = device.arch.as_ref().map(|arch| format!(" ({arch})")).unwrap_or_default();
    let how = match device.cover {
        DeviceCover::Native => "contains machine code for it",
        DeviceCover::Compiled => "the driver compiles PTX for it at the first start",
        DeviceCover::PtxTooNew => "the driver is too old for the PTX",
        DeviceCover::None => "contains no code for it",
        DeviceCover::Unknown => "unknown",
    };
    format!("{}{arch}: {how}", device.name)
}
