//! Which copy of ROCm variables, PATH, `/opt/rocm` and the distribution's folders lead to.

use std::time::Duration;

use gpubuild_host::{Command, HostPath, InspectHost, Os, ReadFiles, find_program, glob};

use super::SignContext;

/// The copies of ROCm and how they are found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copies {
    /// Origins in report order.
    pub origins: Vec<CopyOrigin>,
    /// A file of ROCm in `/usr`, from the distribution's packages.
    pub in_usr: Option<HostPath>,
    /// A copy of ROCm in `/opt`.
    pub in_opt: Option<HostPath>,
    /// Folder of the device libraries from the distribution's packages.
    pub device_libraries: Option<HostPath>,
    /// Whether the compiler of the distribution's packages finds them without help.
    pub finds_device_libraries: bool,
    /// A variable that tells compilers where ROCm or its device libraries are.
    pub pinned_by: Option<String>,
    /// Whether a copy has CMake package files.
    pub has_cmake: bool,
    /// Whether the distribution's packages use Debian's layout with a folder per architecture.
    pub is_multiarch: bool,
}

/// Something that leads to a copy of ROCm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOrigin {
    /// Name of the origin: `ROCM_PATH`, `hipcc on PATH`, `/opt/rocm`, `hipconfig --rocmpath`.
    pub name: String,
    /// Path as written in the variable or output.
    pub place: String,
    /// Real root of the copy; `None` if there is no copy at that path.
    pub root: Option<HostPath>,
    /// Whether the origin is an environment variable.
    pub is_variable: bool,
}

pub(super) fn gather(context: &SignContext<'_>) -> Copies {
    let host = context.host;
    let mut origins = Vec::new();
    for name in ["ROCM_PATH", "ROCM_HOME", "HIP_PATH"] {
        let Some(value) = host.env().get(name) else { continue };
        let root = root_at(host, &host.path(value.trim_end_matches(['/', '\\'])));
        origins.push(CopyOrigin { name: name.to_owned(), place: value.to_owned(), root, is_variable: true });
    }
    // The `hipcc` of an active Python environment was chosen by activating it.
    let prefixes: Vec<HostPath> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .iter()
        .filter_map(|name| Some(host.path(host.env().get(name)?)))
        .collect();
    let in_environment =
        |program: &HostPath| prefixes.iter().any(|prefix| program.key().starts_with(&prefix.key()));
    if let Some(program) = find_program(host, "hipcc").into_iter().find(|one| !in_environment(one)) {
        let root = host.canonical(&program).ok().and_then(|real| root_of_program(host, &real));
        let place = program.to_string();
        origins.push(CopyOrigin { name: "hipcc on PATH".to_owned(), place, root, is_variable: false });
    }
    origins.extend(hipconfig(host));
    let mut roots = context.inventory.of("rocm").iter().map(|copy| &copy.root);
    let has_cmake = roots.any(|root| {
        ["lib/cmake/*", "lib64/cmake/*", "lib/*-linux-gnu/cmake/*"].iter().any(|pattern| {
            let names = glob(host, root.join(pattern).as_str());
            let is_rocm = |path: &HostPath| {
                let name = path.file_name().unwrap_or_default().to_lowercase();
                name.starts_with("hip") || name.starts_with("roc") || name.starts_with("amd")
            };
            names.iter().any(is_rocm)
        })
    });
    if host.platform().os != Os::Linux {
        return Copies { origins, has_cmake, ..Copies::default() };
    }
    let link = host.path("/opt/rocm");
    if let Some(root) = root_at(host, &link) {
        let origin = CopyOrigin {
            name: "/opt/rocm".to_owned(),
            place: root.to_string(),
            root: Some(root),
            is_variable: false,
        };
        origins.push(origin);
    } else if let Ok(target) = host.read_link(&link) {
        // The link of a release that was removed.
        let name = "/opt/rocm".to_owned();
        origins.push(CopyOrigin { name, place: target, root: None, is_variable: false });
    }
    let in_opt = glob(host, "/opt/rocm*").into_iter().find(|path| is_copy(host, path));
    distribution(host, Copies { origins, in_opt, has_cmake, ..Copies::default() })
}

/// Reads the recorded output of `hipconfig` only; starts no process.
fn hipconfig(host: &dyn InspectHost) -> Option<CopyOrigin> {
    let ask = |argument: &str| {
        let command = Command::new("hipconfig", Duration::from_secs(3)).args([argument.to_owned()]);
        host.recorded_output(&command)
    };
    let output = ["--rocmpath", "-R"].into_iter().find_map(ask)?;
    let place = output.stdout.trim().lines().next()?.trim().to_owned();
    let root = root_at(host, &host.path(place.trim_end_matches(['/', '\\'])));
    Some(CopyOrigin { name: "hipconfig --rocmpath".to_owned(), place, root, is_variable: false })
}

/// Adds the packages of a distribution in `/usr`.
fn distribution(host: &dyn ReadFiles, mut copies: Copies) -> Copies {
    let patterns = [
        "/usr/lib/*-linux-gnu/cmake/hip/hip-config*.cmake",
        "/usr/lib64/cmake/hip/hip-config*.cmake",
        "/usr/lib/cmake/hip/hip-config*.cmake",
        "/usr/include/hip/hip_runtime.h",
    ];
    let compiler = host.path("/usr/bin/hipcc");
    let is_own = |path: &HostPath| host.canonical(path).is_ok_and(|real| real.as_str().starts_with("/usr/"));
    let found = patterns.iter().find_map(|pattern| glob(host, pattern).into_iter().find(is_own));
    copies.in_usr = found.or_else(|| Some(compiler).filter(|path| host.is_file(path) && is_own(path)));
    copies.is_multiarch = !glob(host, "/usr/lib/*-linux-gnu/cmake/hip*").is_empty()
        || !glob(host, "/usr/lib/*-linux-gnu/libamdhip64.so*").is_empty();
    // Folders that the distribution's clang searches: its resource directory.
    let own = [
        "/usr/lib/llvm-*/lib/clang/*/amdgcn/bitcode/ockl.bc",
        "/usr/lib/llvm-*/lib/clang/*/lib/amdgcn/bitcode/ockl.bc",
        "/usr/lib64/rocm/llvm/lib/clang/*/amdgcn/bitcode/ockl.bc",
        "/usr/lib64/rocm/llvm/lib/clang/*/lib/amdgcn/bitcode/ockl.bc",
        "/usr/lib/clang/*/amdgcn/bitcode/ockl.bc",
        "/usr/lib/clang/*/lib/amdgcn/bitcode/ockl.bc",
        "/usr/amdgcn/bitcode/ockl.bc",
    ];
    let others = [
        "/usr/lib/*-linux-gnu/amdgcn/bitcode/ockl.bc",
        "/usr/lib/amdgcn/bitcode/ockl.bc",
        "/usr/lib64/amdgcn/bitcode/ockl.bc",
        "/usr/share/amdgcn/bitcode/ockl.bc",
    ];
    let first =
        |patterns: &[&str]| patterns.iter().find_map(|pattern| glob(host, pattern).into_iter().next());
    let found = first(&own);
    copies.finds_device_libraries = found.is_some();
    copies.device_libraries = found.or_else(|| first(&others)).and_then(|file| file.parent());
    copies.pinned_by = pinned_by(host);
    copies
}

/// The variable that tells compilers where ROCm or its device libraries are.
fn pinned_by(host: &dyn ReadFiles) -> Option<String> {
    let set = ["ROCM_PATH", "HIP_DEVICE_LIB_PATH", "DEVICE_LIB_PATH"];
    let found =
        set.iter().find(|name| host.env().get(name).is_some_and(|path| host.is_dir(&host.path(path))));
    let flags = ["HIPFLAGS", "HIPCC_COMPILE_FLAGS_APPEND", "CMAKE_HIP_FLAGS"];
    let by_flag = || {
        let says = |text: &str| text.contains("--rocm-path") || text.contains("--rocm-device-lib-path");
        flags.iter().find(|name| host.env().get(name).is_some_and(says))
    };
    found.or_else(by_flag).map(|&name| name.to_owned())
}

/// The copy at a path that a variable names: the path itself, or the parent of a `hip` folder.
fn root_at(host: &dyn ReadFiles, place: &HostPath) -> Option<HostPath> {
    let real = host.canonical(place).ok()?;
    let above = real.parent().filter(|_| real.file_name() == Some("hip"));
    above.filter(|above| is_copy(host, above)).or_else(|| Some(real).filter(|real| is_copy(host, real)))
}

fn root_of_program(host: &dyn ReadFiles, program: &HostPath) -> Option<HostPath> {
    let root = program.parent()?.parent()?;
    let above = root.parent().filter(|_| root.file_name() == Some("hip"));
    Some(above.filter(|above| is_copy(host, above)).unwrap_or(root))
}

fn is_copy(host: &dyn ReadFiles, root: &HostPath) -> bool {
    let files = [
        "bin/hipcc",
        "bin/hipcc.exe",
        "bin/hipcc.bin.exe",
        "bin/hipcc.bat",
        ".info/version",
        "include/hip/hip_version.h",
        "include/hip/hip_runtime.h",
        "lib/libamdhip64.so",
    ];
    files.iter().any(|file| host.exists(&root.join(file)))
}
