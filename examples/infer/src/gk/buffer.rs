//! Memory of a device.

use super::handle::{DeviceHandle, entry};
use super::{Error, sys};
use std::ptr::NonNull;
use std::rc::Rc;

/// The purpose of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// Filled once, read by ops.
    Weight,
    /// Activations and caches.
    State,
    /// Small, written or read by the host for every token.
    Staging,
}

/// A buffer of the C interface.
pub(super) struct BufferHandle {
    pub(super) device: Rc<DeviceHandle>,
    pub(super) raw: NonNull<sys::gk_buffer>,
    pub(super) bytes: u64,
}

impl Drop for BufferHandle {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: `alloc` of this device returned the pointer; plans that use it hold this handle.
        unsafe {
            entry!(self.device, release)(self.device.raw.as_ptr(), self.raw.as_ptr());
        }
        let allocated = &self.device.allocated;
        allocated.set(allocated.get().saturating_sub(self.bytes));
    }
}

/// Memory on a device. Clones refer to the same memory.
#[derive(Clone)]
pub struct Buffer(pub(super) Rc<BufferHandle>);

impl std::fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Buffer({} bytes)", self.0.bytes)
    }
}

impl Buffer {
    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Copies elements to the device, to `offset` bytes from the start.
    ///
    /// # Errors
    /// They do not fit, or the device failed.
    pub fn write<T: bytemuck::NoUninit>(&self, offset: u64, source: &[T]) -> Result<(), Error> {
        let source: &[u8] = bytemuck::cast_slice(source);
        let device = &self.0.device;
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: device and buffer are alive and belong together; the source is valid for its length.
        let raw = unsafe {
            let (pointer, bytes) = (source.as_ptr().cast(), source.len() as u64);
            entry!(device, write)(device.raw.as_ptr(), self.0.raw.as_ptr(), offset, pointer, bytes)
        };
        device.check(raw, || {
            format!("writing {} bytes at offset {offset} of a buffer of {}", source.len(), self.0.bytes)
        })
    }

    /// Copies elements from the device, from `offset` bytes after the start. Waits for everything that was
    /// started before.
    ///
    /// # Errors
    /// The buffer is too small, or the device failed.
    pub fn read<T: bytemuck::Pod>(&self, offset: u64, destination: &mut [T]) -> Result<(), Error> {
        let destination: &mut [u8] = bytemuck::cast_slice_mut(destination);
        let device = &self.0.device;
        let length = destination.len();
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: device and buffer are alive and belong together; the destination is valid for its length.
        let raw = unsafe {
            let (pointer, bytes) = (destination.as_mut_ptr().cast(), length as u64);
            entry!(device, read)(device.raw.as_ptr(), self.0.raw.as_ptr(), offset, pointer, bytes)
        };
        device.check(raw, || {
            format!("reading {length} bytes at offset {offset} of a buffer of {}", self.0.bytes)
        })
    }

    pub(super) fn as_ptr(&self) -> *mut sys::gk_buffer {
        self.0.raw.as_ptr()
    }
}
