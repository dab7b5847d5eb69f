//! Signs of ROCm and HIP.

mod copies;
mod kernel;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::Fact;
use gpubuild_detect::finding::Evidence;
use gpubuild_host::library::LibraryLoader;
use gpubuild_host::{HostPath, Os, ReadFiles, find_program, glob};

use super::SignContext;
pub use copies::{Copies, CopyOrigin};
pub use kernel::{KfdNode, KfdSigns};

/// Observations about ROCm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RocmSigns {
    /// Files and variables that show that ROCm is used on this machine, by path or name.
    pub traces: Vec<String>,
    /// The copies of ROCm and the origins that lead to them.
    pub copies: Copies,
    /// What the kernel and its driver report.
    pub kernel: KfdSigns,
    /// Folders of rocBLAS kernels with the architectures that they are for.
    pub rocblas: Vec<(HostPath, Vec<String>)>,
    /// Release of ROCm in `/opt`, which installations without a compiler have too.
    pub release: Option<Fact<Version>>,
    /// Path of `rocminfo`.
    pub rocminfo: Option<HostPath>,
}

pub(super) fn gather(context: &SignContext<'_>) -> RocmSigns {
    let host = context.host;
    if host.platform().os == Os::Macos {
        return RocmSigns::default();
    }
    let copies = copies::gather(context);
    let rocminfo = find_program(host, "rocminfo").into_iter().next().or_else(|| {
        let known = ["/opt/rocm/bin/rocminfo", "/opt/rocm-*/bin/rocminfo"];
        known.iter().filter(|_| host.platform().os == Os::Linux).find_map(|one| glob(host, one).pop())
    });
    RocmSigns {
        traces: traces(context, rocminfo.as_ref()),
        kernel: kernel::gather(host),
        rocblas: rocblas(host),
        release: release(host),
        copies,
        rocminfo,
    }
}

/// Files and variables that exist only if ROCm is used. HIP's library is no such file on Windows, because the driver contains it.
fn traces(context: &SignContext<'_>, rocminfo: Option<&HostPath>) -> Vec<String> {
    let host = context.host;
    let mut traces: Vec<String> =
        context.inventory.of("rocm").iter().map(|copy| copy.root.to_string()).collect();
    for name in ["ROCM_PATH", "ROCM_HOME", "HIP_PATH", "HSA_OVERRIDE_GFX_VERSION"] {
        traces.extend(host.env().get(name).map(|_| name.to_owned()));
    }
    traces.extend(rocminfo.map(ToString::to_string));
    if host.platform().os == Os::Linux {
        traces.extend(glob(host, "/opt/rocm*").iter().map(ToString::to_string));
        for pattern in
            ["/usr/lib/ollama*/rocm*", "/usr/local/lib/ollama*/rocm*", "/usr/share/ollama/lib/rocm*"]
        {
            traces.extend(glob(host, pattern).iter().map(ToString::to_string));
        }
        let loader = LibraryLoader::new(host);
        for name in ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libhsa-runtime64.so.1"] {
            traces.extend(loader.find(name).map(|path| path.to_string()));
        }
    }
    // PyTorch for ROCm contains its own libraries.
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let Some(prefix) = host.env().get(variable) else { continue };
        for pattern in ["lib/python3*/site-packages/torch/version.py", "Lib/site-packages/torch/version.py"] {
            let files = glob(host, host.path(prefix).join(pattern).as_str());
            let is_hip = |path: &HostPath| host.read_text(path).is_ok_and(|text| is_torch_of_hip(&text));
            traces.extend(files.into_iter().filter(is_hip).map(|path| path.to_string()));
        }
    }
    traces
}

/// Whether a `version.py` belongs to a PyTorch built for ROCm.
fn is_torch_of_hip(text: &str) -> bool {
    text.lines().any(|line| {
        let mut sides = line.splitn(2, '=');
        let name = sides.next().unwrap_or_default().split(':').next().unwrap_or_default().trim();
        let value = sides.next().unwrap_or_default().trim();
        name == "hip" && !value.is_empty() && value != "None"
    })
}

/// The release in ROCm's version file; `6.2.0-66` is 6.2.0.
fn release(host: &dyn ReadFiles) -> Option<Fact<Version>> {
    let files = ["/opt/rocm/.info/version", "/opt/rocm-*/.info/version"];
    let file =
        files.iter().filter(|_| host.platform().os == Os::Linux).find_map(|one| glob(host, one).pop())?;
    let text = host.read_text(&file).ok()?;
    let value: Version = text.trim().split('-').next()?.parse().ok()?;
    let evidence = vec![Evidence::file(file.as_str(), text.trim())];
    Some(Fact { value, found_via: "file".to_owned(), evidence })
}

/// Folders of rocBLAS kernels that exist without an installed SDK.
const ROCBLAS: [&str; 6] = [
    "/opt/rocm/lib/rocblas/library",
    "/opt/rocm-*/lib/rocblas/library",
    "/usr/lib64/rocblas/library",
    "/usr/lib/rocblas/library",
    "/usr/lib/*-linux-gnu/rocblas/*/library",
    "/usr/lib/*-linux-gnu/rocblas/library",
];

fn rocblas(host: &dyn ReadFiles) -> Vec<(HostPath, Vec<String>)> {
    if host.platform().os != Os::Linux {
        return Vec::new();
    }
    let mut found: Vec<(HostPath, Vec<String>)> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for folder in ROCBLAS.iter().flat_map(|pattern| glob(host, pattern)) {
        let Ok(real) = host.canonical(&folder) else { continue };
        if seen.contains(&real.key()) {
            continue;
        }
        seen.push(real.key());
        let names = host.list(&folder).unwrap_or_default();
        let mut archs: Vec<String> = names.iter().filter_map(|name| arch_in(name)).collect();
        archs.sort_indirect();
        archs.dedup();
        if !archs.is_empty() {
            found.push((folder, archs));
        }
    }
    found
}

/// The architecture in the name of a Tensile file.
fn arch_in(name: &str) -> Option<String> {
    let rest = name
        .strip_prefix("TensileLibrary_lazy_")
        .or_else(|| name.strip_prefix("TensileLibrary_"))
        .or_else(|| name.strip_prefix("Kernels.so-000-"))?;
    let word: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    (word.starts_with("gfx") && word.len() > 4).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_file_names_contain_the_architecture() {
        for (name, arch) in [
            ("TensileLibrary_lazy_gfx90a.dat", Some("gfx90a")),
            ("TensileLibrary_gfx1030.co", Some("gfx1030")),
            ("Kernels.so-000-gfx90a-xnack+.hsaco", Some("gfx90a")),
            ("TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx906.dat", None),
            ("TensileManifest.txt", None),
        ] {
            assert_eq!(arch_in(name).as_deref(), arch, "{name}");
        }
    }

    #[test]
    fn pytorch_builds_for_rocm_are_recognised() {
        for (text, hip) in [
            (
                "__version__ = '2.8.0+rocm6.4'\ncuda: Optional[str] = None\nhip: Optional[str] = '6.4.43482-0f2d60242'\n",
                true,
            ),
            ("cuda = None\nhip = '5.7.31921'\n", true),
            ("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n", false),
            ("", false),
        ] {
            assert_eq!(is_torch_of_hip(text), hip, "{text}");
        }
    }
}
