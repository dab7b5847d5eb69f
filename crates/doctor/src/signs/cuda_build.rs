//! Signs about compiling for CUDA: nvcc's default host compiler, PyTorch, libclang and nvidia-smi.

use gpubuild_core::version::Version;
use gpubuild_detect::facts::variables::host_compiler_flag;
use gpubuild_detect::toolkit::libclang;
use gpubuild_host::{Command, HostPath, Os, ReadFiles, RunPrograms, find_program, glob};

use super::SignContext;
use super::cuda_toolkit::site_folders;

/// Observations about compiling for CUDA.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CudaBuildSigns {
    /// The host compiler that nvcc uses unless the build selects another.
    pub host_compiler: Option<HostCompilerSign>,
    /// `nvidia-smi` on PATH.
    pub nvidia_smi: Option<HostPath>,
    /// `nvidia-smi` in a known folder, whether or not it is on PATH.
    pub nvidia_smi_elsewhere: Option<HostPath>,
    /// Number of lines in its recorded driver version query, one per GPU.
    pub nvidia_smi_lines: Option<usize>,
    /// PyTorch in the active environment.
    pub torch: Option<Torch>,
    /// libclang, unless only states are asked for, which do not depend on it.
    pub libclang: Option<LibclangSign>,
    /// The active conda environment, or the program of conda, mamba or pixi.
    pub conda: Option<HostPath>,
    /// Whether the files exist from which uv reads the driver's version.
    pub driver_files: bool,
}

/// The libclang that bindgen would load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LibclangSign {
    /// It is in one of the folders of LLVM, or where `LIBCLANG_PATH` leads.
    Found,
    /// It is in none of them.
    Missing,
    /// `LIBCLANG_PATH` has this value, which does not lead to it.
    InvalidVariable(HostPath),
}

impl LibclangSign {
    pub(super) fn find(host: &dyn ReadFiles) -> Self {
        match libclang::find(host) {
            (_, Some(place)) => Self::InvalidVariable(place),
            (Some(_), None) => Self::Found,
            (None, None) => Self::Missing,
        }
    }
}

/// A host compiler that a variable or file names, or that is used by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCompilerSign {
    /// The variable or file that names it, or `PATH`.
    pub origin: String,
    /// Path of the program.
    pub program: HostPath,
    /// Path of the program with links resolved.
    pub real: HostPath,
}

/// An installation of PyTorch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torch {
    /// Path of its `version.py`.
    pub file: HostPath,
    /// Version of PyTorch.
    pub version: Option<Version>,
    /// CUDA release that it was built with; `None` for a build without CUDA.
    pub cuda: Option<Version>,
}

pub(super) fn gather(context: &SignContext<'_>) -> CudaBuildSigns {
    let host = context.host;
    let path = |path: &str| host.path(path);
    let smi = find_program(host, "nvidia-smi").into_iter().next();
    let elsewhere = ["/usr/lib/wsl/lib/nvidia-smi", "/usr/bin/nvidia-smi", "/opt/bin/nvidia-smi"];
    CudaBuildSigns {
        host_compiler: host_compiler(context),
        nvidia_smi_elsewhere: elsewhere.iter().map(|text| path(text)).find(|path| host.is_file(path)),
        nvidia_smi_lines: smi.as_ref().and_then(|smi| lines_of_smi(host, smi)),
        nvidia_smi: smi,
        torch: torch(host),
        libclang: None,
        conda: conda(host),
        driver_files: ["/sys/module/nvidia/version", "/proc/driver/nvidia/version"]
            .iter()
            .any(|text| host.is_file(&path(text))),
    }
}

/// The compiler that nvcc uses for host code: from its variables, then its profile, then `gcc` on PATH.
fn host_compiler(context: &SignContext<'_>) -> Option<HostCompilerSign> {
    let host = context.host;
    let flags = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];
    let flag = flags.iter().find_map(|name| Some((*name, host_compiler_flag(host.env().get(name)?)?)));
    let named =
        ["NVCC_CCBIN", "CUDAHOSTCXX"].iter().find_map(|name| Some((*name, host.env().get(name)?.to_owned())));
    if let Some((origin, value)) = named.or(flag) {
        return program(host, &value).map(|(program, real)| HostCompilerSign {
            origin: origin.to_owned(),
            program,
            real,
        });
    }
    if host.platform().os != Os::Linux {
        return None;
    }
    if let Some((profile, folder)) = profile(context) {
        let (program, real) = program(host, &folder)?;
        return Some(HostCompilerSign { origin: profile.to_string(), program, real });
    }
    let (program, real) = program(host, "gcc")?;
    Some(HostCompilerSign { origin: "PATH".to_owned(), program, real })
}

/// The `compiler-bindir` in the profile next to the chosen nvcc. Debian's package sets it.
fn profile(context: &SignContext<'_>) -> Option<(HostPath, String)> {
    let copy = context.inventory.chosen("cuda")?;
    let beside = copy.part("compiler")?.parent()?.join("nvcc.profile");
    let places = [
        beside,
        context.host.path("/usr/lib/nvidia-cuda-toolkit/bin/nvcc.profile"),
        context.host.path("/etc/nvcc.profile"),
    ];
    places.into_iter().find_map(|place| {
        let text = context.host.read_text(&place).ok()?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix("compiler-bindir"))?;
        Some((place, line.trim_start().trim_start_matches(['=', '?', '+']).trim().to_owned()))
    })
}

/// The compiler for a name, a path or a folder, and its real path.
fn program(host: &dyn ReadFiles, text: &str) -> Option<(HostPath, HostPath)> {
    let path = host.path(text);
    let program = if path.is_absolute() && host.is_dir(&path) {
        ["g++", "gcc"].iter().map(|name| path.join(name)).find(|path| host.is_file(path))?
    } else {
        find_program(host, text).into_iter().next()?
    };
    let real = host.canonical(&program).ok()?;
    Some((program, real))
}

fn lines_of_smi(host: &dyn RunPrograms, smi: &HostPath) -> Option<usize> {
    let command = Command::new(smi.as_str(), std::time::Duration::from_secs(3))
        .args(["--query-gpu=driver_version", "--format=csv,noheader"]);
    let output = host.recorded_output(&command)?;
    Some(output.stdout.lines().filter(|line| !line.trim().is_empty()).count())
}

fn torch(host: &dyn ReadFiles) -> Option<Torch> {
    let env = |name: &str| host.env().get(name).map(|value| value.trim_end_matches(['/', '\\']).to_owned());
    let environments: Vec<String> = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env).collect();
    let patterns: Vec<String> = match host.platform().os {
        Os::Windows => environments.iter().map(|prefix| format!("{prefix}/Lib/site-packages")).collect(),
        Os::Linux | Os::Macos => site_folders(&environments, env("HOME").as_deref()),
    };
    let file = patterns.iter().flat_map(|site| glob(host, &format!("{site}/torch/version.py"))).next()?;
    let text = host.read_text(&file).ok()?;
    let (version, cuda) = parse_torch(&text);
    Some(Torch { file, version, cuda })
}

/// The versions of PyTorch and CUDA in `torch/version.py`: `cuda: Optional[str] = '12.4'`.
fn parse_torch(text: &str) -> (Option<Version>, Option<Version>) {
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let (left, right) = line.split_once('=')?;
            let left = left.split(':').next()?.trim();
            (left == name).then(|| right.trim().trim_matches(['"', '\'']).parse().ok()).flatten()
        })
    };
    (value("__version__"), value("cuda"))
}

fn conda(host: &dyn ReadFiles) -> Option<HostPath> {
    let prefix = host.env().get("CONDA_PREFIX").or_else(|| host.env().get("MAMBA_ROOT_PREFIX"));
    let active = prefix.map(|prefix| host.path(prefix));
    let programs = ["conda", "mamba", "micromamba", "pixi"];
    active.or_else(|| programs.iter().find_map(|name| find_program(host, name).into_iter().next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_compiler_is_parsed_from_flags() {
        for (flags, expected) in [
            ("-ccbin g++-12", Some("g++-12")),
            ("-O2 -ccbin=/usr/bin/g++-12 -w", Some("/usr/bin/g++-12")),
            ("--compiler-bindir /opt/gcc", Some("/opt/gcc")),
            ("-ccbin \"/opt/x/g++\"", Some("/opt/x/g++")),
            ("-O2", None),
            ("-ccbin", None),
        ] {
            assert_eq!(host_compiler_flag(flags).as_deref(), expected, "{flags}");
        }
    }

    #[test]
    fn torch_versions_are_parsed() {
        let versions = |text| {
            let (version, cuda) = parse_torch(text);
            (version.map(|one| one.to_string()), cuda.map(|one| one.to_string()))
        };
        let text = "from typing import Optional\n\n__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']\n__version__ = '2.6.0+cu124'\ndebug = False\ncuda: Optional[str] = '12.4'\ngit_version = '1eba9b3aa3c43f86f4a2c807ac8e12c4a7767340'\nhip: Optional[str] = None\n";
        assert_eq!(versions(text), (Some("2.6.0+cu124".into()), Some("12.4".into())));
        let old = "__version__ = '1.13.1+cpu'\ndebug = False\ncuda = None\n";
        assert_eq!(versions(old), (Some("1.13.1+cpu".into()), None));
        assert_eq!(versions("<html>"), (None, None));
    }
}
