//! Finds device code anywhere in a file by its magic numbers: in members of an archive, or embedded as a byte array.

use gpubuild_host::{HostPath, ReadFiles};

use super::bytes::{ObjectBytes, UnreadableObject};
use super::fatbin::{self, FatbinCode};
use super::offload::{self, HipCode};
use super::scan::scan;

/// Finds the device code in a file.
///
/// # Errors
/// If the file can't be read.
pub fn embedded(host: &dyn ReadFiles, path: &HostPath) -> Result<(FatbinCode, HipCode), UnreadableObject> {
    let file = ObjectBytes::open(host, path)?;
    let data = file.data();
    let (mut fatbins, mut bundles) = (Vec::new(), Vec::new());
    let magics: [&[u8]; 2] = [&fatbin::MAGIC.to_le_bytes(), offload::MAGIC];
    scan(host, path, &magics, |magic, at| if magic == 0 { fatbins.push(at) } else { bundles.push(at) })
        .map_err(|error| UnreadableObject::Refused(error.to_string()))?;
    let (mut cuda, mut hip) = (FatbinCode::default(), HipCode::default());
    let mut after = 0;
    for start in fatbins {
        let rest = data.part(start, data.size().saturating_sub(start)).filter(|_| start >= after);
        let size = rest.and_then(fatbin::container_size);
        if let Some((size, part)) = size.and_then(|size| Some((size, data.part(start, size)?))) {
            cuda.read(part);
            after = start + size;
        }
    }
    for start in bundles {
        if let Some(part) = data.part(start, data.size().saturating_sub(start)) {
            // Tools that process bundles contain the magic number as a string; such matches are not bundles.
            hip.read_bundle(part, 0);
        }
    }
    Ok((cuda, hip))
}
