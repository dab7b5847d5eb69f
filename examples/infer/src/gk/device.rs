//! Devices: wrappers of the C objects, released on drop.

use super::buffer::{Buffer, BufferHandle, Usage};
use super::handle::{DeviceHandle, entry};
use super::options::{Binding, Fusion, OpenOptions, Precision};
use super::plan::Plan;
use super::{Backend, DeviceInfo, Error, Op, Status, Tensor, sys, text};
use crate::gguf::TensorType;
use std::cell::Cell;
use std::ffi::c_char;
use std::ptr::NonNull;
use std::rc::Rc;

/// Bytes transferred between host and device since the device was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Host to device.
    pub up: u64,
    /// Device to host.
    pub down: u64,
}

/// Parameters of a run, uploaded before it.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Number of rows of the plan to use.
    pub tokens: u32,
    /// Tokens in the cache before the run.
    pub position: u32,
    /// Index into the history of STEP.
    pub run: u32,
}

/// An open device.
#[derive(Clone)]
pub struct Device(Rc<DeviceHandle>);

impl std::fmt::Debug for Device {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Device({})", self.backend_id())
    }
}

impl Backend {
    /// Opens the first device, after enumerating all of them. If its description is known already,
    /// [`Backend::open`] is faster.
    ///
    /// # Errors
    /// The backend has no device, or the driver fails.
    pub fn open_first(&self, options: OpenOptions) -> Result<Device, Error> {
        let info = self.devices()?.into_iter().next().ok_or_else(|| Error {
            backend: self.id,
            doing: "opening its first device".to_owned(),
            status: Status::NoDevice,
            detail: String::new(),
        })?;
        self.open(0, info, options)
    }

    /// Opens the device with this index in [`Backend::devices`], which returned `info`.
    ///
    /// # Errors
    /// The driver fails.
    pub fn open(&self, index: u32, info: DeviceInfo, options: OpenOptions) -> Result<Device, Error> {
        let exact = match options.precision {
            Precision::Fast => 0,
            Precision::Exact => sys::GK_OPEN_EXACT,
        };
        let bind = match options.binding {
            Binding::Free => 0,
            Binding::Node => sys::GK_OPEN_BIND,
        };
        let raw_options = sys::gk_open_options {
            threads: options.threads,
            flags: exact | bind,
            cache_dir: std::ptr::null(),
        };
        let mut device = std::ptr::null_mut();
        let mut why: [c_char; 512] = [0; 512];
        let Some(open) = self.table.open else { unreachable!("checked by `named`") };
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: the pointers are valid for the call, `why` for its capacity.
        let raw = unsafe {
            let index = i32::try_from(index).unwrap_or(i32::MAX);
            open(index, &raw const raw_options, &raw mut device, why.as_mut_ptr(), why.len())
        };
        let error = |status| Error {
            backend: self.id,
            doing: format!("opening device {index}"),
            status,
            detail: text(&why),
        };
        Status::check(raw).map_err(error)?;
        let raw = NonNull::new(device).ok_or_else(|| error(Status::Failed))?;
        let fusion = Cell::new(options.fusion);
        Ok(Device(Rc::new(DeviceHandle { backend: *self, raw, info, fusion, allocated: Cell::new(0) })))
    }
}

impl Device {
    /// Id of the device's backend.
    #[must_use]
    pub fn backend_id(&self) -> &'static str {
        self.0.backend.id()
    }

    /// The description from before the device was opened.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Enables or disables fused ops in new plans.
    pub fn set_fusion(&self, fusion: Fusion) {
        self.0.fusion.set(fusion);
    }

    /// Free and total memory in bytes.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn memory(&self) -> Result<(u64, u64), Error> {
        let (mut free, mut total) = (0, 0);
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: the device is open, both pointers are valid.
        let raw = unsafe { entry!(self.0, memory)(self.0.raw.as_ptr(), &raw mut free, &raw mut total) };
        self.0.check(raw, || "querying free memory".to_owned())?;
        Ok((free, total))
    }

    /// Bytes of all live buffers of this device, as requested.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        self.0.allocated.get()
    }

    /// Bytes transferred between host and device so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let mut raw = sys::gk_traffic { up: 0, down: 0 };
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: the device is open, the pointer is valid.
        unsafe {
            entry!(self.0, traffic)(self.0.raw.as_ptr(), &raw mut raw);
        }
        Traffic { up: raw.up, down: raw.down }
    }

    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// Out of memory, or more than the device allows in one piece.
    pub fn alloc(&self, bytes: u64, usage: Usage) -> Result<Buffer, Error> {
        let usage = match usage {
            Usage::Weight => sys::GK_USAGE_WEIGHT,
            Usage::State => sys::GK_USAGE_STATE,
            Usage::Staging => sys::GK_USAGE_STAGING,
        };
        let mut buffer = std::ptr::null_mut();
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: the device is open, the pointer is valid.
        let raw = unsafe { entry!(self.0, alloc)(self.0.raw.as_ptr(), bytes, usage, &raw mut buffer) };
        self.0.check(raw, || format!("allocating {bytes} bytes"))?;
        match NonNull::new(buffer) {
            Some(raw) => {
                self.0.allocated.set(self.0.allocated.get().saturating_add(bytes));
                Ok(Buffer(Rc::new(BufferHandle { device: Rc::clone(&self.0), raw, bytes })))
            }
            None => Err(self.error(Status::Failed, format!("allocating {bytes} bytes"))),
        }
    }

    /// Bytes that a weight of `rows` rows of `width` elements takes on the device; 0 if the type is not
    /// supported.
    #[must_use]
    pub fn weight_bytes(&self, kind: TensorType, width: u64, rows: u64) -> u64 {
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: the device is open.
        unsafe {
            entry!(self.0, weight_bytes)(self.0.raw.as_ptr(), kind.id(), width, rows)
        }
    }

    /// Uploads rows of a weight, starting at `first`, in the GGUF layout. Each row is uploaded once, in
    /// ascending order.
    ///
    /// # Errors
    /// The bytes are not complete rows, the weight is on another device, or the backend fails.
    pub fn weight_put(&self, weight: &Tensor, rows: &[u8], first: u64) -> Result<(), Error> {
        let doing = || format!("uploading rows from {first} of a {} weight", weight.kind);
        let row_bytes = weight.kind.row_bytes(u64::from(weight.ne[0])).filter(|bytes| *bytes > 0);
        let whole = row_bytes.filter(|bytes| (rows.len() as u64).is_multiple_of(*bytes));
        let (Some(row_bytes), true) = (whole, self.owns(&weight.buffer)) else {
            return Err(self.error(Status::BadArgument, doing()));
        };
        let raw_weight = weight.raw();
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: the device is open and owns the buffer; `rows` holds exactly the number of rows that is
        // passed.
        let raw = unsafe {
            let count = rows.len() as u64 / row_bytes;
            entry!(self.0, weight_put)(
                self.0.raw.as_ptr(),
                &raw const raw_weight,
                rows.as_ptr().cast(),
                first,
                count,
            )
        };
        self.0.check(raw, doing)
    }

    /// Checks that the backend has a kernel for an op.
    ///
    /// # Errors
    /// The reason why it has none.
    pub fn supports(&self, op: &Op) -> Result<(), Error> {
        let raw_op = op.raw();
        self.check_owner(op)?;
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: the device is open, the op is valid for the call, and its buffers are live and belong to
        // this device.
        let raw = unsafe { entry!(self.0, supports)(self.0.raw.as_ptr(), &raw const raw_op) };
        self.0.check(raw, || format!("checking op `{}`", op.code.name()))
    }

    /// Prepares a list of ops.
    ///
    /// # Errors
    /// The list is empty, or the backend refuses an op; the error names the first one.
    pub fn plan(&self, ops: &[Op]) -> Result<Plan, Error> {
        if ops.is_empty() {
            return Err(self.error(Status::BadArgument, "preparing an empty plan".to_owned()));
        }
        for op in ops {
            self.check_owner(op)?;
        }
        let raw_ops = self.fused(ops.iter().map(Op::raw).collect());
        let count = u32::try_from(raw_ops.len()).unwrap_or(u32::MAX);
        let mut plan = std::ptr::null_mut();
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: the device is open and owns every buffer; the array holds `count` ops and is copied by the call.
        let raw = unsafe {
            entry!(self.0, plan_build)(self.0.raw.as_ptr(), raw_ops.as_ptr(), count, &raw mut plan)
        };
        self.0.check(raw, || format!("preparing a plan of {count} ops"))?;
        let Some(raw) = NonNull::new(plan) else {
            return Err(self.error(Status::Failed, format!("preparing a plan of {count} ops")));
        };
        let buffers = ops.iter().flat_map(Op::buffers).cloned().collect();
        Ok(Plan { raw, device: Rc::clone(&self.0), ops: count, _buffers: buffers })
    }

    /// Starts a plan `repeat` times; more than once only if it ends in STEP. May return before the run is
    /// complete.
    ///
    /// # Errors
    /// The step does not fit the plan or its caches, or the device failed.
    pub fn run(&self, plan: &Plan, step: Step, repeat: u32) -> Result<(), Error> {
        let doing = || format!("running a plan for {} tokens at position {}", step.tokens, step.position);
        if !Rc::ptr_eq(&self.0, &plan.device) {
            return Err(self.error(Status::BadArgument, doing()));
        }
        let raw_step = sys::gk_step { n_tok: step.tokens, pos: step.position, run: step.run, reserved: 0 };
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: device and plan are alive and belong together; the step is valid for the call.
        let raw = unsafe {
            entry!(self.0, plan_run)(self.0.raw.as_ptr(), plan.raw.as_ptr(), &raw const raw_step, repeat)
        };
        self.0.check(raw, doing)
    }

    /// Waits for everything that was started.
    ///
    /// # Errors
    /// The device failed in the meantime.
    pub fn sync(&self) -> Result<(), Error> {
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: the device is open.
        let raw = unsafe { entry!(self.0, sync)(self.0.raw.as_ptr()) };
        self.0.check(raw, || "waiting for the device".to_owned())
    }

    /// Applies fusion: the ops that the backend receives.
    fn fused(&self, ops: Vec<sys::gk_op>) -> Vec<sys::gk_op> {
        let (Some(fuse), Fusion::On, Ok(count)) =
            (super::FUSE, self.0.fusion.get(), u32::try_from(ops.len()))
        else {
            return ops;
        };
        let mut fused = ops.clone();
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: device and backend belong together; both arrays hold `count` ops, whose buffers are live.
        let length = unsafe {
            fuse(self.0.backend.table, self.0.raw.as_ptr(), ops.as_ptr(), count, fused.as_mut_ptr())
        };
        fused.truncate(length as usize);
        fused
    }

    fn owns(&self, buffer: &Buffer) -> bool {
        Rc::ptr_eq(&self.0, &buffer.0.device)
    }

    fn check_owner(&self, op: &Op) -> Result<(), Error> {
        if op.buffers().all(|buffer| self.owns(buffer)) {
            Ok(())
        } else {
            Err(self
                .error(Status::BadArgument, format!("op `{}` uses memory of another device", op.code.name())))
        }
    }

    fn error(&self, status: Status, doing: String) -> Error {
        Error { backend: self.backend_id(), doing, status, detail: String::new() }
    }
}
