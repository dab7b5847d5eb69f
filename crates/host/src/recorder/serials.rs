//! Replaces numbers that identify one device or machine by placeholders: UUIDs of GPUs, serial numbers, network addresses.
//!
//! The UUIDs of GPUs get numbers, because programs compare them, for example with `CUDA_VISIBLE_DEVICES`. All other numbers become `0`.

use std::collections::BTreeSet;
use std::ops::Range;

use gpubuild_core::order::SortIndirect as _;

/// The beginnings of UUIDs that NVIDIA's tools print.
const DEVICES: [&str; 2] = ["GPU-", "MIG-"];
/// Hexadecimal digits in a UUID.
const DIGITS: usize = 32;
/// The shortest beginning of a UUID that is replaced, in digits. Programs accept beginnings.
const MIN_DIGITS: usize = 4;
/// The first group of a UUID.
const FIRST_GROUP: usize = 8;
/// Words before the value of an identifying number, in lowercase. More words may precede them.
const LABELS: [&str; 13] = [
    "serial number",
    "serial_number",
    "serialnumber",
    "serial",
    "uuid",
    "unique id",
    "unique_id",
    "uniqueid",
    "gpu pdi",
    "gpu_pdi",
    "machine-id",
    "machineguid",
    "node guid",
];
/// Names of files that contain an identifying number only.
const FILES: [&str; 12] = [
    "address",
    "board_serial",
    "boot_id",
    "chassis_serial",
    "machine-id",
    "node_guid",
    "product_serial",
    "product_uuid",
    "serial",
    "serial_number",
    "sys_image_guid",
    "unique_id",
];

/// Whether a file contains an identifying number only.
pub(super) fn is_serial_file(path: &str) -> bool {
    let is_system =
        ["/sys/", "/etc/", "/proc/", "/var/lib/dbus/"].iter().any(|start| path.starts_with(start));
    is_system && path.rsplit('/').next().is_some_and(|name| FILES.contains(&name))
}

/// Whether a name, such as that of a registry value, is the label of an identifying number.
pub(super) fn is_label(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    LABELS.iter().any(|label| name.ends_with(label))
}

/// The identifying numbers of a machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Serials {
    /// The UUIDs of GPUs, and beginnings of unknown ones, in lowercase without the prefix.
    devices: BTreeSet<String>,
}

impl Serials {
    /// Collects the UUIDs of GPUs in a text. They are collected before any of them is replaced.
    pub(super) fn collect(&mut self, text: &str) {
        for id in devices(text) {
            self.devices.insert(text[id].to_ascii_lowercase());
        }
    }

    /// Whether binary content contains the UUID of a GPU.
    pub(super) fn occur_in(content: &[u8]) -> bool {
        !devices(&String::from_utf8_lossy(content)).is_empty()
    }

    /// Replaces the numbers in a text.
    pub(super) fn text(&self, text: &str) -> String {
        let text = replaced(text, devices(text), |id| self.placeholder(id));
        let text = replaced(&text, addresses(&text), zeros);
        replaced(&text, labelled(&text), |_| "0".to_owned())
    }

    /// The placeholder of a UUID or its beginning, with the same length, except that the first group stays complete.
    fn placeholder(&self, id: &str) -> String {
        let id = id.to_ascii_lowercase();
        // Beginnings of other UUIDs have no number.
        let complete = || self.devices.iter().filter(|known| digits(known) == DIGITS);
        let unknown = || {
            let is_unknown = |known: &&String| !complete().any(|all| all.starts_with(known.as_str()));
            self.devices.iter().filter(is_unknown)
        };
        let position = complete().position(|known| known.starts_with(&id));
        let number =
            position.or_else(|| Some(complete().count() + unknown().position(|known| *known == id)?));
        let full = format!("{:08x}-0000-0000-0000-000000000000", number.map_or(0, |number| number + 1));
        full[..id.len().clamp(FIRST_GROUP, full.len())].to_owned()
    }
}

/// The text with all ranges replaced.
fn replaced(text: &str, ranges: Vec<Range<usize>>, new: impl Fn(&str) -> String) -> String {
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for range in ranges {
        result.push_str(&text[done..range.start]);
        result.push_str(&new(&text[range.clone()]));
        done = range.end;
    }
    result.push_str(&text[done..]);
    result
}

fn digits(text: &str) -> usize {
    text.bytes().filter(u8::is_ascii_hexdigit).count()
}

/// The UUIDs of GPUs in a text, without their prefixes.
fn devices(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    for (at, _) in text.match_indices('-') {
        let end = at + 1;
        let Some(prefix) = DEVICES.iter().find(|prefix| text[..end].ends_with(**prefix)) else { continue };
        let is_word = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
        let starts_inside = end > prefix.len() && is_word(end - prefix.len() - 1);
        let run = bytes[end..].iter().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'-').count();
        let id = text[end..end + run].trim_end_matches('-');
        if !starts_inside && !is_word(end + run) && !id.starts_with('-') && digits(id) >= MIN_DIGITS {
            found.push(end..end + id.len());
        }
    }
    found
}

/// Addresses of network cards, and serial numbers in the notation of PCI: 6 or 8 groups of two digits.
fn addresses(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'-');
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| is_part(byte)).count();
        let word = &bytes[at..at + length];
        let is_address = |separator: u8| {
            matches!(length, 17 | 23)
                && word.iter().enumerate().all(|(index, byte)| {
                    if index % 3 == 2 { *byte == separator } else { byte.is_ascii_hexdigit() }
                })
        };
        if is_address(b':') || is_address(b'-') {
            found.push(at..at + length);
        }
        at += length.max(1);
    }
    found
}

fn zeros(address: &str) -> String {
    address.chars().map(|character| if character.is_ascii_hexdigit() { '0' } else { character }).collect()
}

/// The values after labels: `Serial Number : 132`, `"serial":"132"`, `unique_id=0x7d`.
fn labelled(text: &str) -> Vec<Range<usize>> {
    let lower = text.to_ascii_lowercase();
    let mut found: Vec<Range<usize>> = Vec::new();
    for label in LABELS {
        for (at, _) in lower.match_indices(label) {
            let Some(value) = value_after(text, at + label.len()) else { continue };
            if !found.iter().any(|known| known.start < value.end && value.start < known.end) {
                found.push(value);
            }
        }
    }
    found.sort_indirect_by_key(|range| range.start);
    found
}

/// The value after a label that ends at `at`. `None` if it is not an identifying number, or the placeholder of one.
fn value_after(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    let after = rest.trim_start_matches(['"', '\'', ')', ' ', '\t']);
    let after = after.strip_prefix([':', '=', ','])?.trim_start_matches(['"', '\'', ' ', '\t']);
    let start = text.len() - after.len();
    let is_value =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.' | ':');
    let length = after.find(|character| !is_value(character)).unwrap_or(after.len());
    let value = &after[..length];
    let is_number = length >= 4 && value.bytes().any(|byte| byte.is_ascii_digit());
    let is_placeholder = value.chars().all(|c| matches!(c, '0' | '-' | ':'))
        || DEVICES.iter().any(|start| value.starts_with(start));
    (is_number && !is_placeholder).then_some(start..start + length)
}

#[cfg(test)]
mod tests;
