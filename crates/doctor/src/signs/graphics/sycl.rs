//! SYCL: the folder of oneAPI, and whether its environment is set.

use gpubuild_host::{HostPath, Os, ReadFiles, glob};

use super::{SignContext, program};

/// Observations about oneAPI.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sycl {
    /// Folder of oneAPI.
    pub folder: Option<HostPath>,
    /// The script that sets its environment.
    pub script: Option<HostPath>,
    /// What shows that the environment is set: a variable, or the path of `icpx` or `dpcpp` on PATH.
    pub sourced_by: Option<String>,
    /// Level Zero's driver for Intel GPUs of Gen12 and newer, with the build number in its name.
    pub driver: Option<(HostPath, u64)>,
}

pub(super) fn gather(context: &SignContext<'_>) -> Sycl {
    let host = context.host;
    let home = host.env().get("HOME").unwrap_or("/root");
    let (folders, script) = match host.platform().os {
        Os::Linux => (vec!["/opt/intel/oneapi".to_owned(), format!("{home}/intel/oneapi")], "setvars.sh"),
        Os::Windows => {
            let programs = host.env().get("ProgramFiles(x86)").unwrap_or(r"C:\Program Files (x86)");
            (vec![format!(r"{programs}\Intel\oneAPI")], "setvars.bat")
        }
        Os::Macos => return Sycl::default(),
    };
    let folder = folders.iter().map(|folder| host.path(folder)).find(|folder| host.is_dir(folder));
    let script = folder.as_ref().and_then(|folder| {
        let own = folder.join(script);
        Some(own).filter(|path| host.is_file(path)).or_else(|| {
            // Since 2024 each release has a folder with its own script.
            let patterns = ["*/oneapi-vars.sh", "*/oneapi-vars.bat", "compiler/*/env/vars.sh"];
            patterns.iter().find_map(|pattern| glob(host, folder.join(pattern).as_str()).pop())
        })
    });
    Sycl { folder, script, sourced_by: sourced_by(host), driver: driver(host) }
}

fn driver(host: &dyn ReadFiles) -> Option<(HostPath, u64)> {
    let patterns = [
        "/usr/lib/*-linux-gnu/libze_intel_gpu.so.*",
        "/usr/lib64/libze_intel_gpu.so.*",
        "/usr/lib/libze_intel_gpu.so.*",
    ];
    let files = patterns.iter().flat_map(|pattern| glob(host, pattern));
    files
        .filter_map(|path| Some((build_number(path.file_name()?)?, path)))
        .max_by_key(|(build, _)| *build)
        .map(|(build, path)| (path, build))
}

/// The build number in `libze_intel_gpu.so.1.6.33578`.
fn build_number(name: &str) -> Option<u64> {
    name.split_once(".so.")?.1.split('.').nth(2)?.parse().ok()
}

fn sourced_by(host: &dyn ReadFiles) -> Option<String> {
    let variables = ["SETVARS_COMPLETED", "ONEAPI_ROOT", "CMPLR_ROOT"];
    let variable = variables.iter().find(|name| host.env().get(name).is_some()).map(|&name| name.to_owned());
    variable.or_else(|| program(host, "icpx").or_else(|| program(host, "dpcpp")).map(|path| path.to_string()))
}

#[cfg(test)]
mod tests {
    use super::build_number;

    #[test]
    fn build_number_is_the_third_component() {
        for (name, build) in [
            ("libze_intel_gpu.so.1.6.33578", Some(33578)),
            ("libze_intel_gpu.so.1.3.27642.40", Some(27642)),
            ("libze_intel_gpu.so.1", None),
            ("libze_intel_gpu.so", None),
        ] {
            assert_eq!(build_number(name), build, "{name}");
        }
    }
}
