//! NVIDIA's driver: whether it is installed and loaded, whether programs load the right libraries, and what the CUDA probe
//! reports.

mod codes;
mod devices;
mod libraries;
mod missing;
mod running;
mod targets;
mod view;

use gpubuild_detect::id;

use super::DoctorCheck;

pub(in crate::checks) use view::NvidiaView;

/// The checks of this family.
pub(super) const CHECKS: &[DoctorCheck] = &[
    DoctorCheck { id: id!("nv.driver.secureboot"), run: missing::secure_boot },
    DoctorCheck { id: id!("nv.driver.dkms"), run: missing::not_built },
    DoctorCheck { id: id!("nv.driver.branch-dropped"), run: missing::unsupported },
    DoctorCheck { id: id!("nv.driver.card-too-new"), run: missing::too_old_for_gpus },
    DoctorCheck { id: id!("nv.driver.missing"), run: missing::missing },
    DoctorCheck { id: id!("nv.driver.nouveau"), run: missing::nouveau },
    DoctorCheck { id: id!("nv.driver.vfio"), run: missing::vfio },
    DoctorCheck { id: id!("nv.driver.open-required"), run: missing::flavour },
    DoctorCheck { id: id!("nv.driver.library-missing"), run: libraries::library_missing },
    DoctorCheck { id: id!("nv.driver.library-not-on-path"), run: libraries::not_on_path },
    DoctorCheck { id: id!("nv.driver.lib-mismatch"), run: libraries::mismatch },
    DoctorCheck { id: id!("nv.compat-on-geforce"), run: libraries::compatibility },
    DoctorCheck { id: id!("nv.cudart-mixed"), run: libraries::mixed },
    DoctorCheck { id: id!("cuda.stub-at-runtime"), run: libraries::stub },
    DoctorCheck { id: id!("nv.symbol-too-new"), run: libraries::symbol },
    DoctorCheck { id: id!("nv.driver.too-old"), run: targets::too_old },
    DoctorCheck { id: id!("nv.ptx.too-new"), run: targets::ptx },
    DoctorCheck { id: id!("nv.no-kernel-image"), run: targets::no_image },
    DoctorCheck { id: id!("nv.fabricmanager"), run: running::fabric },
    DoctorCheck { id: id!("nv.uvm-missing"), run: running::uvm },
    DoctorCheck { id: id!("nv.suspend"), run: running::sleep },
    DoctorCheck { id: id!("nv.jetson"), run: running::jetson },
    DoctorCheck { id: id!("nv.device-nodes-missing"), run: devices::nodes },
    DoctorCheck { id: id!("nv.device-permission"), run: devices::permission },
    DoctorCheck { id: id!("nv.device-hidden"), run: devices::hidden },
];
