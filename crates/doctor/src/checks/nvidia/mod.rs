//! NVIDIA's driver: whether there is one, whether it is loaded, whether programs get the right libraries of it, and what it
//! says itself when it is asked.

mod codes;
mod devices;
mod libraries;
mod missing;
mod running;
mod targets;
mod view;

use super::Check;

pub(in crate::checks) use view::View;

/// The checks of this family.
pub(super) const CHECKS: &[Check] = &[
    Check { id: "nv.driver.secureboot", run: missing::secure_boot },
    Check { id: "nv.driver.dkms", run: missing::not_built },
    Check { id: "nv.driver.branch-dropped", run: missing::unsupported },
    Check { id: "nv.driver.missing", run: missing::missing },
    Check { id: "nv.driver.nouveau", run: missing::nouveau },
    Check { id: "nv.driver.vfio", run: missing::vfio },
    Check { id: "nv.driver.open-required", run: missing::flavour },
    Check { id: "nv.driver.library-missing", run: libraries::library_missing },
    Check { id: "nv.driver.lib-mismatch", run: libraries::mismatch },
    Check { id: "nv.compat-on-geforce", run: libraries::compatibility },
    Check { id: "nv.cudart-mixed", run: libraries::mixed },
    Check { id: "cuda.stub-at-runtime", run: libraries::stub },
    Check { id: "nv.symbol-too-new", run: libraries::symbol },
    Check { id: "nv.driver.too-old", run: targets::too_old },
    Check { id: "nv.ptx.too-new", run: targets::ptx },
    Check { id: "nv.no-kernel-image", run: targets::no_image },
    Check { id: "nv.fabricmanager", run: running::fabric },
    Check { id: "nv.uvm-missing", run: running::uvm },
    Check { id: "nv.suspend", run: running::sleep },
    Check { id: "nv.jetson", run: running::jetson },
    Check { id: "nv.device-nodes-missing", run: devices::nodes },
    Check { id: "nv.device-permission", run: devices::permission },
    Check { id: "nv.device-hidden", run: devices::hidden },
];
