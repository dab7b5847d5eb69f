//! Containers and WSL: GPUs that a container was not given or has lost, and problems on the Windows side.

mod engines;
mod gpus;
mod wsl;

use gpubuild_detect::id;

use super::DoctorCheck;

/// The checks of this family.
pub(super) const CHECKS: &[DoctorCheck] = &[
    DoctorCheck { id: id!("ctr.no-gpus-flag"), run: gpus::not_given },
    DoctorCheck { id: id!("ctr.lost-after-reload"), run: gpus::lost },
    DoctorCheck { id: id!("ctr.caps-graphics"), run: gpus::graphics },
    DoctorCheck { id: id!("ctr.amd-devices"), run: gpus::amd },
    DoctorCheck { id: id!("ctr.intel-devices"), run: gpus::intel },
    DoctorCheck { id: id!("ctr.runtime-missing"), run: engines::runtime },
    DoctorCheck { id: id!("wsl.linux-driver-inside"), run: wsl::linux_driver },
    DoctorCheck { id: id!("wsl.no-dxg"), run: wsl::no_device },
    DoctorCheck { id: id!("wsl.amd"), run: wsl::amd },
];
