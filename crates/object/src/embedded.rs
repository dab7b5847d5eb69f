//! Kernels anywhere in a file: in the members of an archive, or embedded as an array of bytes. Found by how they begin.

use gpubuild_host::{HostPath, ReadFiles};

use super::bytes::{ObjectBytes, UnreadableObject};
use super::fatbin::{self, FatbinCode};
use super::offload::{self, HipCode};

/// The kernels in a file, whose content is given too.
///
/// # Errors
/// The file can't be read a second time.
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
            // Other programs have the mark as a text: what follows it is then no bundle.
            hip.read_bundle(part, 0);
        }
    }
    Ok((cuda, hip))
}
