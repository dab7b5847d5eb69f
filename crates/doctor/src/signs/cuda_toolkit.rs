//! Signs about finding the CUDA Toolkit: what variables, PATH and links lead to, which runtime libraries exist, where stubs are
//! searched, and which integrations Visual Studio has.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::toolkit::Installation;
use gpubuild_host::{HostPath, Os, ReadFiles, find_program, glob, library};

use super::SignContext;

/// Observations about finding the CUDA Toolkit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CudaToolkitSigns {
    /// The first nvcc on PATH.
    pub nvcc: Option<Nvcc>,
    /// `/usr/local/cuda`, if it is a link.
    pub link: Option<ToolkitLink>,
    /// Variables that name a folder inside a copy, such as its `bin`, instead of the copy.
    pub inside: Vec<Inside>,
    /// Whether `CUDACXX` names an existing compiler, NVIDIA's or Clang.
    pub cudacxx_works: bool,
    /// The folder of the chosen copy with `cuda.h` and without `cuda_runtime.h`.
    pub without_runtime_header: Option<HostPath>,
    /// Whether the linker can find a shared runtime library of the chosen copy. True without a chosen copy.
    pub has_runtime_library: bool,
    /// CUDA runtime libraries of any origin.
    pub runtimes: Vec<HostPath>,
    /// Folders with NVIDIA's stubs that the loader searches.
    pub stubs: Vec<Stubs>,
    /// Whether the linker searches a folder of stubs (`LIBRARY_PATH`).
    pub links_stubs: bool,
    /// The active conda environment, if it contains CUDA.
    pub conda: Option<Conda>,
    /// Debian's own package.
    pub debian: Option<Debian>,
    /// Library folder of the chosen copy, if it only has one for a target (`targets/sbsa-linux/lib`).
    pub target_libraries: Option<HostPath>,
    /// The login shell's script that adds CUDA to PATH.
    pub login_script: Option<HostPath>,
    /// Visual Studio's folders for integrations, newest last.
    pub integrations: Vec<Integration>,
}

/// An nvcc on PATH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nvcc {
    /// Path as found on PATH.
    pub program: HostPath,
    /// Parent of the `bin` folder that contains the real program.
    pub root: HostPath,
}

/// A link to a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolkitLink {
    /// Path of the link.
    pub place: HostPath,
    /// Real path of its target; `None` if the target does not exist.
    pub root: Option<HostPath>,
}

/// A variable that names a folder inside a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// Name of the variable.
    pub variable: String,
    /// Value of the variable.
    pub place: HostPath,
    /// Root of the copy.
    pub root: HostPath,
}

/// A folder of stubs that the loader searches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stubs {
    /// What adds it to the search: `LD_LIBRARY_PATH` or `/etc/ld.so.conf`.
    pub origin: String,
    /// Path of the folder.
    pub folder: HostPath,
}

/// CUDA in a conda environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conda {
    /// Path of the environment.
    pub prefix: HostPath,
    /// Real path of the environment, as in the inventory.
    pub real: HostPath,
    /// `targets/x86_64-linux`, if the headers are only there.
    pub target: Option<HostPath>,
    /// Path of its nvcc.
    pub nvcc: Option<HostPath>,
    /// Whether it contains CUDA headers.
    pub headers: bool,
}

/// Debian's own package, whose files are spread over `/usr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debian {
    /// `/usr/lib/cuda` if it exists: a folder with the layout of a toolkit, but without headers.
    pub shell: Option<HostPath>,
    /// Folder of its libraries.
    pub libraries: HostPath,
}

/// A folder with the integrations of a Visual Studio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integration {
    /// Path of the folder.
    pub folder: HostPath,
    /// Number in its path: `170` for Visual Studio 2022.
    pub number: u32,
    /// Integrated CUDA releases: `12.6`.
    pub releases: Vec<String>,
}

pub(super) fn gather(context: &SignContext<'_>) -> CudaToolkitSigns {
    let host = context.host;
    let copies = context.inventory.of("cuda");
    let chosen = context.inventory.chosen("cuda");
    let is_linux = host.platform().os == Os::Linux;
    CudaToolkitSigns {
        nvcc: nvcc(host),
        link: is_linux.then(|| link(host)).flatten(),
        inside: inside(host, copies),
        cudacxx_works: cudacxx_works(host),
        without_runtime_header: chosen.and_then(|copy| without_runtime_header(host, copy)),
        has_runtime_library: chosen.is_none_or(|copy| has_runtime_library(host, copy)),
        runtimes: runtimes(host),
        stubs: if is_linux { stubs(host) } else { Vec::new() },
        links_stubs: has_stubs(host.env().get("LIBRARY_PATH").unwrap_or_default()),
        conda: conda(host),
        debian: is_linux.then(|| debian(host, copies)).flatten(),
        target_libraries: chosen.and_then(|copy| target_libraries(host, copy)),
        login_script: Some(host.path("/etc/profile.d/cuda.sh")).filter(|path| is_linux && host.is_file(path)),
        integrations: if host.platform().os == Os::Windows { integrations(host) } else { Vec::new() },
    }
}

fn nvcc(host: &dyn ReadFiles) -> Option<Nvcc> {
    // Under WSL the programs of the Windows side are on PATH too.
    let own = |path: &HostPath| host.platform().os != Os::Linux || !path.as_str().starts_with("/mnt/");
    let program = find_program(host, "nvcc").into_iter().find(own)?;
    let real = host.canonical(&program).ok()?;
    let root = real.parent()?.parent()?;
    Some(Nvcc { program, root })
}

fn link(host: &dyn ReadFiles) -> Option<ToolkitLink> {
    let place = host.path("/usr/local/cuda");
    host.read_link(&place).ok()?;
    let root = host.canonical(&place).ok().filter(|root| host.is_dir(root));
    Some(ToolkitLink { place, root })
}

/// Variables that led to a copy and name a folder below its root.
fn inside(host: &dyn ReadFiles, copies: &[Installation]) -> Vec<Inside> {
    let mut found = Vec::new();
    for copy in copies {
        for variable in copy.found_via.iter().filter_map(|via| via.strip_prefix("env:")) {
            let Some(value) = host.env().get(variable) else { continue };
            let place = host.path(value.trim_end_matches(['/', '\\']));
            let Ok(real) = host.canonical(&place) else { continue };
            // A variable may also name the compiler itself, or an environment that contains the copy.
            let below = real.is_inside(&copy.root) && real.key() != copy.root.key();
            if below && host.is_dir(&real) {
                found.push(Inside { variable: variable.to_owned(), place, root: copy.root.clone() });
            }
        }
    }
    found
}

/// `CUDACXX` may be a bare name, and may have options after the program.
fn cudacxx_works(host: &dyn ReadFiles) -> bool {
    let value = host.env().get("CUDACXX").unwrap_or_default().trim_matches('"');
    let candidates = [value, value.split_whitespace().next().unwrap_or_default()];
    candidates.iter().any(|name| {
        let path = host.path(name);
        !name.is_empty() && (host.is_file(&path) || !find_program(host, name).is_empty())
    })
}

fn without_runtime_header(host: &dyn ReadFiles, copy: &Installation) -> Option<HostPath> {
    // The part is the folder that has one of the headers.
    let root = copy.part("headers")?;
    let folders = [root.join("include"), root.clone()];
    let folder = folders.into_iter().find(|folder| host.is_file(&folder.join("cuda.h")))?;
    let has_runtime = !glob(host, copy.root.join("targets/*/include/cuda_runtime.h").as_str()).is_empty();
    (!has_runtime && !host.is_file(&folder.join("cuda_runtime.h"))).then_some(folder)
}

fn has_runtime_library(host: &dyn ReadFiles, copy: &Installation) -> bool {
    let multiarch = format!("lib/{}-linux-gnu", host.platform().arch.id());
    let folders =
        ["lib64", "lib", "targets/*/lib", "lib/x64", "Library/lib", "Library/lib/x64", multiarch.as_str()];
    let has = |folder: &&str| {
        let names = ["libcudart*", "cudart*.lib"];
        names.iter().any(|name| !glob(host, copy.root.join(&format!("{folder}/{name}")).as_str()).is_empty())
    };
    folders.iter().any(has)
}

fn runtimes(host: &dyn ReadFiles) -> Vec<HostPath> {
    let env = |name: &str| host.env().get(name).map(|value| value.trim_end_matches(['/', '\\']).to_owned());
    let environments: Vec<String> = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env).collect();
    let mut patterns = Vec::new();
    match host.platform().os {
        Os::Linux => {
            for site in site_folders(&environments, env("HOME").as_deref()) {
                patterns.push(format!("{site}/nvidia/cuda_runtime/lib/libcudart.so*"));
                patterns.push(format!("{site}/nvidia/cu*/lib/libcudart.so*"));
            }
            patterns.extend(environments.iter().map(|prefix| format!("{prefix}/lib/libcudart.so*")));
            patterns.push("/usr/local/cuda*/lib64/libcudart.so*".to_owned());
            patterns.push("/usr/local/cuda*/targets/*/lib/libcudart.so*".to_owned());
            patterns.push(format!("/usr/lib/{}-linux-gnu/libcudart.so*", host.platform().arch.id()));
            patterns.push("/usr/lib64/libcudart.so*".to_owned());
        }
        Os::Windows => {
            for prefix in environments {
                patterns.push(format!("{prefix}/Lib/site-packages/nvidia/cuda_runtime/bin/cudart64_*.dll"));
                patterns.push(format!("{prefix}/Library/bin/cudart64_*.dll"));
            }
        }
        Os::Macos => {}
    }
    let mut found: Vec<HostPath> = patterns.iter().flat_map(|pattern| glob(host, pattern)).collect();
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|path| host.canonical(path).is_ok_and(|real| seen.insert(real.key())));
    found
}

/// Folders with Python packages on Linux; those of active environments first.
pub(super) fn site_folders(environments: &[String], home: Option<&str>) -> Vec<String> {
    let own = environments.iter().map(|prefix| format!("{prefix}/lib/python3*/site-packages"));
    let user = home.map(|home| format!("{home}/.local/lib/python3*/site-packages"));
    let system = [
        "/usr/local/lib/python3*/dist-packages",
        "/usr/local/lib/python3*/site-packages",
        "/usr/lib/python3*/dist-packages",
        "/usr/lib/python3*/site-packages",
        "/usr/lib64/python3*/site-packages",
    ];
    own.chain(user).chain(system.map(str::to_owned)).collect()
}

/// The folders of stubs that the loader searches.
fn stubs(host: &dyn ReadFiles) -> Vec<Stubs> {
    let variable = host.env().get("LD_LIBRARY_PATH").unwrap_or_default();
    let named: Vec<String> = variable.split([':', ';']).map(|text| host.path(text).key()).collect();
    library::folders(host)
        .into_iter()
        .filter(|folder| has_stubs(folder.as_str()) && host.is_dir(folder))
        .map(|folder| {
            let is_named = named.contains(&folder.key());
            let origin = if is_named { "LD_LIBRARY_PATH" } else { "/etc/ld.so.conf" };
            Stubs { origin: origin.to_owned(), folder }
        })
        .collect()
}

fn has_stubs(list: &str) -> bool {
    list.split([':', ';']).any(|folder| folder.split(['/', '\\']).any(|name| name == "stubs"))
}

fn conda(host: &dyn ReadFiles) -> Option<Conda> {
    let prefix = host.path(host.env().get("CONDA_PREFIX")?.trim_end_matches(['/', '\\']));
    let real = host.canonical(&prefix).ok()?;
    let first = |pattern: &str| glob(host, prefix.join(pattern).as_str()).into_iter().next();
    let nvcc = ["bin/nvcc", "Library/bin/nvcc.exe"].iter().find_map(|path| first(path));
    let plain = ["include/cuda.h", "include/cuda_runtime.h", "Library/include/cuda.h"];
    let plain = plain.iter().any(|path| first(path).is_some());
    let header =
        ["targets/*/include/cuda.h", "targets/*/include/cuda_runtime.h"].iter().find_map(|path| first(path));
    let target = header.as_ref().and_then(|header| header.parent()?.parent()).filter(|_| !plain);
    let headers = plain || header.is_some();
    (nvcc.is_some() || headers).then_some(Conda { prefix, real, target, nvcc, headers })
}

fn debian(host: &dyn ReadFiles, copies: &[Installation]) -> Option<Debian> {
    let own = host.path("/usr/lib/nvidia-cuda-toolkit");
    let copy = copies.iter().find(|copy| copy.root.as_str() == "/usr" && copy.part("compiler").is_some())?;
    if !host.is_dir(&own) {
        return None;
    }
    let library = copy.part("runtime-static").or_else(|| copy.part("cublas"));
    let libraries = library.and_then(HostPath::parent);
    let multiarch = format!("/usr/lib/{}-linux-gnu", host.platform().arch.id());
    Some(Debian {
        shell: Some(host.path("/usr/lib/cuda")).filter(|path| host.exists(path)),
        libraries: libraries.unwrap_or_else(|| host.path(&multiarch)),
    })
}

/// The library folder of the server target, if the usual `lib64` does not exist.
fn target_libraries(host: &dyn ReadFiles, copy: &Installation) -> Option<HostPath> {
    let has_plain = ["lib64", "lib/libcudart_static.a", "lib/libcudart.so"]
        .iter()
        .any(|path| host.exists(&copy.root.join(path)));
    let folder = copy.root.join("targets/sbsa-linux/lib");
    (!has_plain && host.is_dir(&folder)).then_some(folder)
}

fn integrations(host: &dyn ReadFiles) -> Vec<Integration> {
    let folder = |name: &str, default: &str| host.env().get(name).unwrap_or(default).to_owned();
    let roots =
        [folder("ProgramFiles", r"C:\Program Files"), folder("ProgramFiles(x86)", r"C:\Program Files (x86)")];
    let mut found: Vec<Integration> = roots
        .iter()
        .flat_map(|root| {
            glob(
                host,
                &format!("{root}/Microsoft Visual Studio/*/*/MSBuild/Microsoft/VC/v1*/BuildCustomizations"),
            )
        })
        .filter_map(|folder| {
            let number = folder.parent()?.file_name()?.strip_prefix('v')?.parse().ok()?;
            let names = host.list(&folder).unwrap_or_default();
            let release =
                |name: &String| Some(name.strip_prefix("CUDA ")?.strip_suffix(".props")?.to_owned());
            Some(Integration { releases: names.iter().filter_map(release).collect(), folder, number })
        })
        .collect();
    found.sort_indirect_by_key(|one| one.number);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::facts;
    use gpubuild_detect::toolkit::{self, Catalogue};
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, RecordedHost};

    fn observe(host: RecordedHostBuilder) -> CudaToolkitSigns {
        let host = host.build();
        let facts = facts::gather(&host);
        let catalogue = Catalogue::embedded();
        let inventory = toolkit::probe(&host, &catalogue);
        gather(&SignContext { host: &host, facts: &facts, inventory: &inventory, catalogue: &catalogue })
    }

    fn linux(arch: Arch) -> RecordedHostBuilder {
        RecordedHost::builder(Os::Linux, arch)
            .executable("/usr/local/cuda-12.4/bin/nvcc")
            .file("/usr/local/cuda-12.4/include/cuda.h", "#define CUDA_VERSION 12040\n")
    }

    #[test]
    fn variable_that_names_bin_is_distinguished_from_one_that_names_the_compiler() {
        let signs = observe(
            linux(Arch::X86_64)
                .link("/usr/local/cuda", "cuda-12.4")
                .env("CUDA_HOME", "/usr/local/cuda/bin/")
                .env("CUDA_PATH", "/usr/local/cuda")
                .env("CUDACXX", "/usr/local/cuda/bin/nvcc"),
        );
        let inside: Vec<_> =
            signs.inside.iter().map(|one| (one.variable.as_str(), one.root.as_str())).collect();
        assert_eq!(inside, [("CUDA_HOME", "/usr/local/cuda-12.4")]);
        assert_eq!(signs.link.unwrap().root.unwrap().as_str(), "/usr/local/cuda-12.4");
        assert_eq!(observe(linux(Arch::X86_64).link("/usr/local/cuda", "cuda-11")).link.unwrap().root, None);
    }

    #[test]
    fn stubs_are_found_in_the_loaders_folders() {
        let signs = observe(
            linux(Arch::X86_64)
                .opaque("/usr/local/cuda-12.4/lib64/stubs/libcuda.so")
                .file("/etc/ld.so.conf", "/opt/x/stubs\n/usr/local/cuda-12.4/lib64\n")
                .opaque("/opt/x/stubs/libcuda.so")
                .env("LD_LIBRARY_PATH", "/gone/stubs:/usr/local/cuda-12.4/lib64/stubs:/opt/stubsy"),
        );
        let stubs: Vec<_> =
            signs.stubs.iter().map(|one| (one.origin.as_str(), one.folder.as_str())).collect();
        assert_eq!(
            stubs,
            [("LD_LIBRARY_PATH", "/usr/local/cuda-12.4/lib64/stubs"), ("/etc/ld.so.conf", "/opt/x/stubs")]
        );
    }

    #[test]
    fn target_libraries_count_only_if_there_are_no_others() {
        let only =
            linux(Arch::Aarch64).opaque("/usr/local/cuda-12.4/targets/sbsa-linux/lib/libcudart_static.a");
        assert!(observe(only.clone()).target_libraries.is_some());
        assert_eq!(
            observe(only.link("/usr/local/cuda-12.4/lib64", "targets/sbsa-linux/lib")).target_libraries,
            None
        );
    }
}
