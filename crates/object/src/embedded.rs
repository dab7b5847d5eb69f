//! Finds device code anywhere in a file by its magic numbers: in members of an archive, or embedded as a byte array.

use gpubuild_host::{HostPath, ReadFiles};

use super::bytes::{ObjectBytes, UnreadableObject};
use super::fatbin::{self, FatbinCode};
use super::offload::{self, HipCode};

/// Finds the device code in a file. `content` is the complete content of the file.
///
/// # Errors
/// If the file can't be read.
pub fn embedded(
    host: &dyn ReadFiles,
    path: &HostPath,
    content: &[u8],
) -> Result<(FatbinCode, HipCode), UnreadableObject> {
    let file = ObjectBytes::open(host, path)?;
    let data = file.data();
    let (mut cuda, mut hip) = (FatbinCode::default(), HipCode::default());
    let mut after = 0;
    for at in memchr::memmem::find_iter(content, &fatbin::MAGIC.to_le_bytes()) {
        let start = at as u64;
        let size = content.get(at..).and_then(fatbin::container_size).filter(|_| start >= after);
        if let Some((size, part)) = size.and_then(|size| Some((size, data.part(start, size)?))) {
            cuda.read(part);
            after = start + size;
        }
    }
    for at in memchr::memmem::find_iter(content, offload::MAGIC) {
        let start = at as u64;
        if let Some(part) = data.part(start, (content.len() as u64).saturating_sub(start)) {
            // Tools that process bundles contain the magic number as a string; such matches are not bundles.
            hip.read_bundle(part, 0);
        }
    }
    Ok((cuda, hip))
}
