//! Reads CUDA fat binaries: which kernels an executable contains, from the headers alone.
//!
//! NVIDIA does not document the format. This description is derived from the output of CUDA 11 to 13 and from libraries that
//! NVIDIA ships. All numbers are little-endian:
//!
//! - a section contains containers, one per object file: magic number `0xBA55ED50`, u16 version 1, u16 size of this header,
//!   u64 size of the entries;
//! - fields of an entry by offset: 0 u16 kind, 4 u32 size of this header, 8 u64 size of the content, 24 u16 minor and 26 u16
//!   major version (for PTX: the version of the PTX language), 28 u32 architecture, 40 u64 flags, where bit 20 means the suffix
//!   `a` and bit 21 the suffix `f`. The content may be compressed, the header never is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use gpubuild_core::arch::{CudaArch, CudaCode as Form};
use gpubuild_core::version::Version;
use serde::Serialize;

use super::bytes::Data;

pub(super) const MAGIC: u32 = 0xBA55_ED50;
/// The size of a container's header in bytes.
const HEADER: u64 = 16;
/// The minimum size of an entry's header in bytes.
const ENTRY: u64 = 64;
/// Flag for architecture-specific code: the suffix `a`.
const ARCH_SPECIFIC: u64 = 1 << 20;
/// Flag for family-specific code: the suffix `f`.
const FAMILY_SPECIFIC: u64 = 1 << 21;
/// The limit of entries per section.
const MAX_ENTRIES: usize = 1 << 20;
/// The limit of padding between two containers in bytes.
const LARGEST_GAP: u64 = 64 << 10;

/// The form of a kernel's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum KernelKind {
    /// Machine code.
    Sass,
    /// PTX text, which the driver compiles for the device.
    Ptx,
    /// LTO intermediate code, which only linkers read.
    Lto,
}

/// The kernels of one kind and architecture in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceKernel {
    /// The form of the code.
    pub kind: KernelKind,
    /// The architecture: `90`, `90a`, `120f`.
    pub arch: CudaArch,
    /// The version of the PTX language: `9.0`.
    pub ptx: Option<(u16, u16)>,
    /// The CUDA release that produced the machine code, or the oldest that can have produced it, if known: `12.4`.
    pub toolkit: Option<(u32, u32)>,
}

/// CUDA code in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FatbinCode {
    /// The distinct kernels.
    pub kernels: BTreeSet<DeviceKernel>,
    /// The size in the file in bytes for each of them, after compression.
    pub bytes: BTreeMap<DeviceKernel, u64>,
    /// The number of containers.
    pub containers: usize,
    /// Whether a part could not be read, so that kernels may be missing.
    pub incomplete: bool,
    /// Whether the file registers kernels with a CUDA runtime when it is loaded.
    pub registers: bool,
}

impl FatbinCode {
    /// Whether the file contains no kernels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// The newest CUDA release that produced a kernel, if known.
    #[must_use]
    pub fn toolkit(&self) -> Option<Version> {
        let (major, minor) = self.kernels.iter().filter_map(|kernel| kernel.toolkit).max()?;
        format!("{major}.{minor}").parse().ok()
    }

    /// Adds the kernels of a section.
    pub(super) fn read(&mut self, section: Data<'_, '_>) {
        let mut at = 0;
        let mut entries = 0;
        while at + HEADER <= section.size() {
            if section.u32(at) != Some(MAGIC) {
                match gap(section, at) {
                    Some(next) => at = next,
                    None => break,
                }
                continue;
            }
            let header = section.u16(at + 6).map_or(0, u64::from);
            let size = section.u64(at + 8).unwrap_or(u64::MAX);
            let Some(end) = at.checked_add(header).and_then(|start| start.checked_add(size)) else {
                self.incomplete = true;
                return;
            };
            if header < HEADER || end > section.size() {
                self.incomplete = true;
                return;
            }
            self.containers += 1;
            self.read_entries(section, at + header, end, &mut entries);
            at = end;
        }
    }

    fn read_entries(&mut self, section: Data<'_, '_>, mut at: u64, end: u64, entries: &mut usize) {
        while at + ENTRY <= end {
            *entries += 1;
            let next = section.bytes(at, ENTRY).and_then(|entry| self.read_entry(section, at..end, entry));
            let Some(next) = next.filter(|next| *next > at && *entries < MAX_ENTRIES) else {
                self.incomplete = true;
                return;
            };
            at = next;
        }
    }

    /// Adds the kernel of an entry, which begins at the start of `rest`, the rest of its container. Returns the offset of the next entry.
    fn read_entry(&mut self, section: Data<'_, '_>, rest: Range<u64>, entry: &[u8]) -> Option<u64> {
        let number = |at: usize, size: usize| {
            entry[at..at + size].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let header = number(4, 4);
        let content = rest.start.checked_add(header)?;
        let next = content.checked_add(number(8, 8))?;
        if header < ENTRY || next > rest.end {
            return None;
        }
        let kind = match number(0, 2) {
            1 => KernelKind::Ptx,
            2 | 16 => KernelKind::Sass,
            8 => KernelKind::Lto,
            _ => return Some(next),
        };
        let flags = number(40, 8);
        let suffix = match (flags & ARCH_SPECIFIC != 0, flags & FAMILY_SPECIFIC != 0) {
            (true, _) => Some('a'),
            (_, true) => Some('f'),
            _ => None,
        };
        let arch = u16::try_from(number(28, 4)).ok().filter(|arch| (10..1000).contains(arch))?;
        let version = (u16::try_from(number(26, 2)).ok()?, u16::try_from(number(24, 2)).ok()?);
        let kernel = DeviceKernel {
            kind,
            arch: CudaArch { number: arch, suffix, code: Form::Both },
            ptx: (kind == KernelKind::Ptx).then_some(version),
            toolkit: match kind {
                KernelKind::Sass => toolkit(section, content).or_else(|| toolkit_of_format(arch, version)),
                KernelKind::Ptx | KernelKind::Lto => None,
            },
        };
        *self.bytes.entry(kernel.clone()).or_default() += next - rest.start;
        self.kernels.insert(kernel);
        Some(next)
    }
}

/// The size of the container at the start of `data`, header included; `None` if it is not a valid container.
pub(super) fn container_size(data: Data<'_, '_>) -> Option<u64> {
    let form = (data.u32(0)?, data.u16(4)?, u64::from(data.u16(6)?));
    let size = data.u64(8)?.checked_add(HEADER)?;
    (form == (MAGIC, 1, HEADER) && size <= data.size()).then_some(size)
}

/// The offset of the next container after padding; `None` if nothing is found within [`LARGEST_GAP`].
fn gap(section: Data<'_, '_>, at: u64) -> Option<u64> {
    let end = section.size().min(at + LARGEST_GAP);
    let bytes = section.bytes(at, end - at)?;
    let skip = bytes.iter().position(|byte| *byte != 0)?;
    // Unknown data; a container may follow at a later 4-byte boundary.
    let from = if skip == 0 { 4 } else { skip / 4 * 4 };
    let found = memchr::memmem::find(bytes.get(from..)?, &MAGIC.to_le_bytes())?;
    Some(at + (from + found) as u64)
}

/// The CUDA release in the ELF header of uncompressed machine code. Up to CUDA 12, the header's version field contains it
/// (`124` for 12.4). Later releases store 1 there and use a note instead.
fn toolkit(section: Data<'_, '_>, content: u64) -> Option<(u32, u32)> {
    let header = section.bytes(content, 64)?;
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    let version = u32::from_le_bytes(header[20..24].try_into().ok()?);
    (100..1000).contains(&version).then_some((version / 10, version % 10))
}

/// The oldest release by the version of the machine code format: for GPUs before Blackwell it is 1.7 up to CUDA 12.9, and 1.8
/// since 13.0.
fn toolkit_of_format(arch: u16, form: (u16, u16)) -> Option<(u32, u32)> {
    (arch < 100 && form.0 == 1 && form.1 >= 8).then_some((13, 0))
}
