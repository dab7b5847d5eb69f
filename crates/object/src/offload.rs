//! Reads HIP device code: clang's offload bundles (`__CLANG_OFFLOAD_BUNDLE__`), one per source file.
//!
//! Format: clang.llvm.org/docs/ClangOffloadBundler.html. The header of a compressed bundle (`CCOB`) contains only its size.

use std::collections::{BTreeMap, BTreeSet};

use super::bytes::Data;

pub(super) const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";
/// Bundles are aligned to pages.
const ALIGNMENT: u64 = 4096;
/// The limit of targets per bundle; LLVM has fewer targets in total.
const MAX_TARGETS: u64 = 1024;
const MAX_NAME: u64 = 512;

/// HIP code in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HipCode {
    /// The distinct targets: `gfx90a`, `gfx11-generic`, `gfx90a:xnack-`.
    pub targets: BTreeSet<String>,
    /// The size of the code in bytes for each target.
    pub bytes: BTreeMap<String, u64>,
    /// The number of compressed bundles, whose targets are unknown.
    pub compressed: usize,
    /// Whether a part could not be read, so that targets may be missing.
    pub incomplete: bool,
}

impl HipCode {
    /// Whether the file contains no code.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.compressed == 0
    }

    /// Adds the code of a section.
    pub(super) fn read(&mut self, section: Data<'_, '_>) {
        let mut at = 0;
        while at + 32 <= section.size() {
            let start = section.bytes(at, 24).unwrap_or_default();
            let size = if start == MAGIC {
                self.read_bundle(section, at)
            } else if start.starts_with(COMPRESSED) {
                self.compressed += 1;
                compressed_size(section, at)
            } else if start.iter().all(|byte| *byte == 0) {
                Some(1)
            } else {
                // A section starts with a bundle. Other data may follow the last one.
                self.incomplete |= at == 0;
                None
            };
            let next = size.and_then(|size| at.checked_add(size)?.checked_next_multiple_of(ALIGNMENT));
            match next {
                Some(next) if next > at => at = next,
                _ => return,
            }
        }
    }

    /// Adds the targets of a bundle. Returns the bundle's size in bytes.
    pub(super) fn read_bundle(&mut self, section: Data<'_, '_>, at: u64) -> Option<u64> {
        let count = section.u64(at + 24)?;
        let mut place = at + 32;
        let mut end = place;
        if count > MAX_TARGETS {
            self.incomplete = true;
            return None;
        }
        for _ in 0..count {
            let header = (section.u64(place), section.u64(place + 8), section.u64(place + 16));
            let (Some(offset), Some(size), Some(length)) = header else {
                self.incomplete = true;
                return None;
            };
            let name = section.bytes(place + 24, length).filter(|_| length <= MAX_NAME);
            let last = at.checked_add(offset).and_then(|start| start.checked_add(size));
            let (Some(name), Some(last)) = (name, last.filter(|last| *last <= section.size())) else {
                self.incomplete = true;
                return None;
            };
            if let Some(target) = target(&String::from_utf8_lossy(name)) {
                *self.bytes.entry(target.clone()).or_default() += size;
                self.targets.insert(target);
            }
            place += 24 + length;
            end = end.max(last).max(place);
        }
        Some(end - at)
    }
}

/// The target of a bundle entry: `gfx90a:xnack-` for `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-`; `None` for host code.
fn target(entry: &str) -> Option<String> {
    let (kind, triple) = entry.split_once('-')?;
    if !kind.starts_with("hip") {
        return None;
    }
    if triple.starts_with("spirv") {
        return Some("spirv".to_owned());
    }
    let device = triple.split_once("gfx").map(|(_, rest)| format!("gfx{rest}"))?;
    let known = |c: char| c.is_ascii_alphanumeric() || ":+-.".contains(c);
    device.chars().all(known).then_some(device)
}

/// The size of a compressed bundle; `None` for version 1 of the format, which does not contain it.
fn compressed_size(section: Data<'_, '_>, at: u64) -> Option<u64> {
    match section.u16(at + 4)? {
        2 => section.u32(at + 8).map(u64::from),
        version if version > 2 => section.u64(at + 8),
        _ => None,
    }
}
