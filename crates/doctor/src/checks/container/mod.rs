//! Containers and WSL: what a container was not given, what it lost, and what Windows has to do.

mod engines;
mod gpus;
mod wsl;

use super::Check;

/// The checks of this family.
pub(super) const CHECKS: &[Check] = &[
    Check { id: "ctr.no-gpus-flag", run: gpus::not_given },
    Check { id: "ctr.lost-after-reload", run: gpus::lost },
    Check { id: "ctr.caps-graphics", run: gpus::graphics },
    Check { id: "ctr.amd-devices", run: gpus::amd },
    Check { id: "ctr.intel-devices", run: gpus::intel },
    Check { id: "ctr.runtime-missing", run: engines::runtime },
    Check { id: "wsl.linux-driver-inside", run: wsl::linux_driver },
    Check { id: "wsl.no-dxg", run: wsl::no_device },
    Check { id: "wsl.amd", run: wsl::amd },
];
