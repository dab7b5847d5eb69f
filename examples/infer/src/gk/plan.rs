//! Prepared lists of ops.

use super::buffer::Buffer;
use super::handle::{DeviceHandle, entry};
use super::{Error, sys, text};
use std::ptr::NonNull;
use std::rc::Rc;

/// How the launches of a plan reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replay {
    /// No launches: the CPU computes every op.
    Host,
    /// Each run issues every launch again.
    Launches,
    /// Recorded once in a command buffer.
    Commands,
    /// Recorded once in a driver graph.
    Graph,
}

/// How a backend runs a plan.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PlanInfo {
    /// How its launches reach the device.
    pub mode: Replay,
    /// Launches of one run.
    pub launches: u32,
    /// Why a backend with graphs issues the launches one by one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl std::fmt::Display for PlanInfo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let launches = self.launches;
        match self.mode {
            Replay::Host => formatter.write_str("computed on the CPU, without launches"),
            Replay::Launches => write!(formatter, "{launches} launches, issued one by one"),
            Replay::Commands => write!(formatter, "{launches} launches, replayed as a command buffer"),
            Replay::Graph => write!(formatter, "{launches} launches, replayed as a graph"),
        }?;
        if self.note.is_empty() { Ok(()) } else { write!(formatter, ": {}", self.note) }
    }
}

/// A prepared list of ops.
pub struct Plan {
    pub(super) raw: NonNull<sys::gk_plan>,
    pub(super) device: Rc<DeviceHandle>,
    pub(super) ops: u32,
    /// The interface requires that the buffers of a plan outlive it.
    pub(super) _buffers: Vec<Buffer>,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Plan({})", self.device.backend.id())
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: `plan_build` of this device returned the pointer.
        unsafe {
            entry!(self.device, plan_free)(self.device.raw.as_ptr(), self.raw.as_ptr());
        }
    }
}

impl Plan {
    /// Number of ops in a run, counting a fused op as one.
    #[must_use]
    pub fn ops(&self) -> u32 {
        self.ops
    }

    /// How its launches reach the device.
    ///
    /// # Errors
    /// The backend refuses.
    pub fn info(&self) -> Result<PlanInfo, Error> {
        let mut raw = sys::gk_plan_info { launches: 0, replay: 0, note: [0; 240] };
        #[expect(unsafe_code, reason = "call through the interface")]
        // SAFETY: device and plan are alive and belong together; the result is valid for the call.
        let status = unsafe {
            entry!(self.device, plan_info)(self.device.raw.as_ptr(), self.raw.as_ptr(), &raw mut raw)
        };
        self.device.check(status, || "querying how a plan is run".to_owned())?;
        let replay = match raw.replay {
            sys::GK_REPLAY_HOST => Replay::Host,
            sys::GK_REPLAY_COMMANDS => Replay::Commands,
            sys::GK_REPLAY_GRAPH => Replay::Graph,
            _ => Replay::Launches,
        };
        Ok(PlanInfo { launches: raw.launches, mode: replay, note: text(&raw.note) })
    }
}
