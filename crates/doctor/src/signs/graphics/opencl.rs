//! OpenCL: the driver folder, variables, and environments with their own loader.

use gpubuild_core::backend::Backend;
use gpubuild_host::library::LibraryLoader;
use gpubuild_host::{HostPath, Os, ReadFiles, glob};

use super::{SignContext, program};

/// NVIDIA's OpenCL driver. NVIDIA's container toolkit mounts it without the file that registers it.
const NVIDIA: &str = "libnvidia-opencl.so.1";

/// Observations about OpenCL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opencl {
    /// `/etc/OpenCL/vendors`, unless it is the empty folder of Fedora's loader package.
    pub vendors: Option<HostPath>,
    /// A variable that replaces the driver folder, with its value, and whether the value names an existing path.
    pub chosen: Option<(String, String, bool)>,
    /// The loader of the active conda environment and the environment's driver folder, if that folder has no driver.
    pub conda: Option<(HostPath, HostPath)>,
    /// A file in that environment that uses OpenCL.
    pub conda_user: Option<HostPath>,
    /// The loader, if it is part of a CUDA Toolkit.
    pub from_cuda: Option<HostPath>,
    /// NVIDIA's driver library, if no driver is registered.
    pub unregistered_nvidia: Option<HostPath>,
    /// Path of `clinfo`.
    pub clinfo: Option<HostPath>,
}

pub(super) fn gather(context: &SignContext<'_>) -> Opencl {
    let host = context.host;
    if host.platform().os == Os::Macos {
        return Opencl::default();
    }
    let folder = host.path("/etc/OpenCL/vendors");
    let chosen = ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"].into_iter().find_map(|name| {
        let value = host.env().get(name)?;
        let leads = value.split(':').any(|part| host.exists(&host.path(part)));
        Some((name.to_owned(), value.to_owned(), leads))
    });
    let runtime = context.inventory.runtimes.get(&Backend::Opencl);
    let loader = runtime.and_then(|runtime| runtime.loader.as_ref()).map(|fact| fact.value.clone());
    let has_no_driver = loader.is_some() && runtime.is_some_and(|runtime| runtime.drivers.is_empty());
    Opencl {
        vendors: Some(folder).filter(|folder| is_used(context, folder)),
        chosen,
        conda: conda(host),
        conda_user: conda_user(host),
        unregistered_nvidia: has_no_driver.then(|| LibraryLoader::new(host).find(NVIDIA)).flatten(),
        from_cuda: loader.filter(|path| is_cuda(host, path)),
        clinfo: program(host, "clinfo"),
    }
}

/// Whether the folder is in use. Fedora's loader package contains an empty folder.
fn is_used(context: &SignContext<'_>, folder: &HostPath) -> bool {
    let Ok(names) = context.host.list(folder) else { return false };
    let distro = context.facts.distro.as_ref().map(|fact| &fact.value);
    let is_fedora =
        distro.is_some_and(|distro| distro.id == "fedora" || distro.like.iter().any(|id| id == "fedora"));
    !names.is_empty() || !is_fedora
}

fn is_cuda(host: &dyn ReadFiles, path: &HostPath) -> bool {
    let real = host.canonical(path).unwrap_or_else(|_| path.clone());
    [path, &real].iter().any(|path| {
        let text = path.forward_slashes().to_lowercase();
        text.contains("/cuda") || text.contains("/targets/") || text.contains("/nvidia/")
    })
}

fn conda_user(host: &dyn ReadFiles) -> Option<HostPath> {
    let prefix = host.path(host.env().get("CONDA_PREFIX")?);
    ["lib/python3*/site-packages/pyopencl", "bin/clinfo"]
        .iter()
        .find_map(|pattern| glob(host, prefix.join(pattern).as_str()).into_iter().next())
}

/// The loader of the active conda environment and the folder that it searches, if that has no driver.
fn conda(host: &dyn ReadFiles) -> Option<(HostPath, HostPath)> {
    let prefix = host.path(host.env().get("CONDA_PREFIX")?);
    let loader = prefix.join("lib/libOpenCL.so.1");
    let folder = prefix.join("etc/OpenCL/vendors");
    let has_driver = !glob(host, folder.join("*.icd").as_str()).is_empty();
    (host.is_file(&loader) && !has_driver).then_some((loader, folder))
}
