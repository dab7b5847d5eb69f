//! CUDA's fat binaries: which kernels an executable carries, from the headers alone.
//!
//! NVIDIA documents the form nowhere; this is what its tools wrote from CUDA 11 to 13 (looked at in programs that they
//! compiled and libraries that NVIDIA ships). Little-endian throughout:
//!
//! - a section holds containers, one per object file: magic `0xBA55ED50`, u16 version 1, u16 size of this header, u64 size
//!   of the entries;
//! - an entry: 0 u16 kind, 4 u32 size of this header, 8 u64 size of the content, 24 u16 minor and 26 u16 major (of PTX the
//!   version of its language), 28 u32 architecture, 40 u64 flags, of which bit 20 means the suffix `a` and bit 21 `f`. The
//!   content may be compressed, these numbers never are.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::arch::{CudaArch, CudaCode as Form};
use gpubuild_core::version::Version;
use serde::Serialize;

use super::bytes::Data;

pub(super) const MAGIC: u32 = 0xBA55_ED50;
const HEADER: u64 = 16;
const ENTRY: u64 = 64;
const ONLY_THIS: u64 = 1 << 20;
const FAMILY: u64 = 1 << 21;
/// More entries than any library has: a file that says otherwise lies.
const MOST: usize = 1 << 20;
/// Zeros between two containers.
const LARGEST_GAP: u64 = 64 << 10;

/// What a kernel is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum KernelKind {
    /// Machine code.
    Sass,
    /// Text that the driver compiles for the device.
    Ptx,
    /// A form between the two that only linkers take.
    Lto,
}

/// Kernels of one architecture.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceKernel {
    /// Machine code or text.
    pub kind: KernelKind,
    /// `90`, `90a`, `120f`.
    pub arch: CudaArch,
    /// The version of the text's language: `9.0`.
    pub ptx: Option<(u16, u16)>,
    /// The toolkit that made the machine code, or the oldest that can have, where that shows: `12.4`.
    pub toolkit: Option<(u32, u32)>,
}

/// CUDA code in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FatbinCode {
    /// Every kind of kernel, each once.
    pub kernels: BTreeSet<DeviceKernel>,
    /// Bytes that each of them takes in the file, compressed as they are.
    pub bytes: BTreeMap<DeviceKernel, u64>,
    /// How many containers there are.
    pub containers: usize,
    /// Something could not be read, so that there may be more.
    pub incomplete: bool,
    /// The file registers kernels with a CUDA runtime when it is loaded.
    pub registers: bool,
}

impl FatbinCode {
    /// Whether there is any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// The newest toolkit that took part, as far as the kernels tell by themselves.
    #[must_use]
    pub fn toolkit(&self) -> Option<Version> {
        let (major, minor) = self.kernels.iter().filter_map(|kernel| kernel.toolkit).max()?;
        format!("{major}.{minor}").parse().ok()
    }

    /// Adds what a section holds.
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
            let next = section.bytes(at, ENTRY).and_then(|entry| self.read_entry(section, at, entry));
            let Some(next) = next.filter(|next| *next <= end && *next > at && *entries < MOST) else {
                self.incomplete = true;
                return;
            };
            at = next;
        }
    }

    /// Keeps what an entry says and tells where the next one starts.
    fn read_entry(&mut self, section: Data<'_, '_>, at: u64, entry: &[u8]) -> Option<u64> {
        let number = |at: usize, size: usize| {
            entry[at..at + size].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let header = number(4, 4);
        let content = at.checked_add(header)?;
        let next = content.checked_add(number(8, 8))?;
        if header < ENTRY {
            return None;
        }
        let kind = match number(0, 2) {
            1 => KernelKind::Ptx,
            2 | 16 => KernelKind::Sass,
            8 => KernelKind::Lto,
            _ => return Some(next),
        };
        let flags = number(40, 8);
        let suffix = match (flags & ONLY_THIS != 0, flags & FAMILY != 0) {
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
                KernelKind::Sass => toolkit(section, content).or_else(|| toolkit_of_form(arch, version)),
                KernelKind::Ptx | KernelKind::Lto => None,
            },
        };
        *self.bytes.entry(kernel.clone()).or_default() += next - at;
        self.kernels.insert(kernel);
        Some(next)
    }
}

/// Size of the container that starts here, wherever it lies: in a section, in an archive, in an array of bytes.
pub(super) fn container_size(content: &[u8]) -> Option<u64> {
    let number = |at: usize, size: usize| {
        let bytes = content.get(at..at + size)?;
        Some(bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let form = (number(0, 4)?, number(4, 2)?, number(6, 2)?);
    let size = number(8, 8)?.checked_add(HEADER)?;
    (form == (u64::from(MAGIC), 1, HEADER) && size <= content.len() as u64).then_some(size)
}

/// Where the next container starts after zeros; `None` if nothing more follows.
fn gap(section: Data<'_, '_>, at: u64) -> Option<u64> {
    let end = section.size().min(at + LARGEST_GAP);
    let bytes = section.bytes(at, end - at)?;
    let skip = bytes.iter().position(|byte| *byte != 0)?;
    // Something else stands here; a container may still follow at one of the next words.
    let from = if skip == 0 { 4 } else { skip / 4 * 4 };
    let found = memchr::memmem::find(bytes.get(from..)?, &MAGIC.to_le_bytes())?;
    Some(at + (from + found) as u64)
}

/// The toolkit in the header of machine code that is not compressed: up to CUDA 12 its file version is `124` for 12.4.
/// Later ones say 1 and have it in a note.
fn toolkit(section: Data<'_, '_>, content: u64) -> Option<(u32, u32)> {
    let header = section.bytes(content, 64)?;
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    let version = u32::from_le_bytes(header[20..24].try_into().ok()?);
    (100..1000).contains(&version).then_some((version / 10, version % 10))
}

/// Machine code for the cards before Blackwell is of form 1.7 up to CUDA 12.9 and of form 1.8 from 13.0 on.
fn toolkit_of_form(arch: u16, form: (u16, u16)) -> Option<(u32, u32)> {
    (arch < 100 && form.0 == 1 && form.1 >= 8).then_some((13, 0))
}
