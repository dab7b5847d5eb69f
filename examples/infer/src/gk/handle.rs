//! The device of the C interface.

use super::options::Fusion;
use super::{Backend, DeviceInfo, Error, Status, borrowed_text, sys};
use std::cell::Cell;
use std::ptr::NonNull;

/// An open device of the C interface, which is closed when nothing uses it any more.
pub(super) struct DeviceHandle {
    pub(super) backend: Backend,
    pub(super) raw: NonNull<sys::gk_device>,
    pub(super) info: DeviceInfo,
    pub(super) fusion: Cell<Fusion>,
    /// Bytes of all live buffers.
    pub(super) allocated: Cell<u64>,
}

/// Calls an entry of the interface with a device; `Backend::named` has checked that all entries exist.
macro_rules! entry {
    ($handle:expr, $name:ident) => {
        match $handle.backend.table.$name {
            Some(entry) => entry,
            None => unreachable!("checked by `Backend::named`"),
        }
    };
}

pub(super) use entry;

impl DeviceHandle {
    pub(super) fn check(&self, raw: sys::gk_status, doing: impl FnOnce() -> String) -> Result<(), Error> {
        Status::check(raw).map_err(|status| {
            #[expect(unsafe_code, reason = "call through the interface")]
            // SAFETY: the device is open.
            let detail = borrowed_text(unsafe { entry!(self, last_error)(self.raw.as_ptr()) });
            Error { backend: self.backend.id(), doing: doing(), status, detail }
        })
    }
}

impl Drop for DeviceHandle {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: `open` returned this pointer; buffers and plans hold the handle, so this is the last use.
        unsafe {
            entry!(self, close)(self.raw.as_ptr());
        }
    }
}
