//! HIP's device code: bundles that clang makes, `__CLANG_OFFLOAD_BUNDLE__`, one per source file.
//!
//! Form: clang.llvm.org/docs/ClangOffloadBundler.html. A compressed bundle (`CCOB`) says only how large it is.

use std::collections::{BTreeMap, BTreeSet};

use super::bytes::Data;

pub(super) const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";
/// Bundles start at pages.
const ALIGNMENT: u64 = 4096;
/// Targets of one bundle; all of LLVM's together are fewer.
const MOST: u64 = 1024;
const LONGEST_NAME: u64 = 512;

/// HIP code in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HipCode {
    /// What it is for, each once: `gfx90a`, `gfx11-generic`, `gfx90a:xnack-`.
    pub targets: BTreeSet<String>,
    /// Bytes of code for each of them.
    pub bytes: BTreeMap<String, u64>,
    /// Bundles that are compressed and tell nothing.
    pub compressed: usize,
    /// Something could not be read, so that there may be more.
    pub incomplete: bool,
}

impl HipCode {
    /// Whether there is any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.compressed == 0
    }

    /// Adds what a section holds.
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
                // Sections begin with a bundle; whatever follows the last one is none of them.
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

    /// Keeps the targets of a bundle and tells its size.
    pub(super) fn read_bundle(&mut self, section: Data<'_, '_>, at: u64) -> Option<u64> {
        let count = section.u64(at + 24)?;
        let mut place = at + 32;
        let mut end = place;
        if count > MOST {
            self.incomplete = true;
            return None;
        }
        for _ in 0..count {
            let header = (section.u64(place), section.u64(place + 8), section.u64(place + 16));
            let (Some(offset), Some(size), Some(length)) = header else {
                self.incomplete = true;
                return None;
            };
            let name = section.bytes(place + 24, length).filter(|_| length <= LONGEST_NAME);
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

/// `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-` is for `gfx90a:xnack-`; the host's own part is for no device.
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

/// The size of a compressed bundle; the first version of the form did not say it.
fn compressed_size(section: Data<'_, '_>, at: u64) -> Option<u64> {
    match section.u16(at + 4)? {
        2 => section.u32(at + 8).map(u64::from),
        version if version > 2 => section.u64(at + 8),
        _ => None,
    }
}
