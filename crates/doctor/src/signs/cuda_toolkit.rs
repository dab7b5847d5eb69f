//! Signs about finding the CUDA Toolkit: what variables, PATH and links lead to, what of a runtime lies around, where
//! stubs are searched, and what Visual Studio knows.

use gpubuild_detect::toolkit::Installation;
use gpubuild_host::{HostPath, Os, ReadFiles, find_program, glob, library};

use super::SignContext;

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CudaToolkitSigns {
    /// The first nvcc on PATH.
    pub nvcc: Option<Nvcc>,
    /// `/usr/local/cuda`, where it is a link.
    pub link: Option<ToolkitLink>,
    /// Variables that name a folder inside of a copy instead of the copy: its `bin`.
    pub inside: Vec<Inside>,
    /// Whether `CUDACXX` names a compiler that is there, be it NVIDIA's or Clang.
    pub cudacxx_works: bool,
    /// Libraries of the CUDA runtime, wherever they come from.
    pub runtimes: Vec<HostPath>,
    /// Folders with NVIDIA's stubs that the loader searches.
    pub stubs: Vec<Stubs>,
    /// Whether the linker searches a folder of stubs (`LIBRARY_PATH`).
    pub links_stubs: bool,
    /// The conda environment that is active, if CUDA is in it.
    pub conda: Option<Conda>,
    /// Debian's own package.
    pub debian: Option<Debian>,
    /// The only folder of libraries of the chosen copy, where that is one for a target (`targets/sbsa-linux/lib`).
    pub target_libraries: Option<HostPath>,
    /// The script of the login shell that puts CUDA on PATH.
    pub login_script: Option<HostPath>,
    /// Visual Studio's folders for integrations, the newest last.
    pub integrations: Vec<Integration>,
}

/// A compiler on PATH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nvcc {
    /// As it is found on PATH.
    pub program: HostPath,
    /// The folder above its real `bin`.
    pub root: HostPath,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolkitLink {
    /// The link.
    pub place: HostPath,
    /// Where it really leads; `None` if there is nothing.
    pub root: Option<HostPath>,
}

/// A variable that names a folder inside of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// The variable.
    pub variable: String,
    /// What it says.
    pub place: HostPath,
    /// The copy.
    pub root: HostPath,
}

/// A folder of stubs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stubs {
    /// `LD_LIBRARY_PATH`, or the loader's configuration.
    pub origin: String,
    /// The folder.
    pub folder: HostPath,
}

/// CUDA in a conda environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conda {
    /// The environment.
    pub prefix: HostPath,
    /// Its real folder, as copies are named.
    pub real: HostPath,
    /// `targets/x86_64-linux`, if its headers are only there.
    pub target: Option<HostPath>,
    /// Its nvcc.
    pub nvcc: Option<HostPath>,
    /// Whether any headers are there.
    pub headers: bool,
}

/// Debian's own package: spread over `/usr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debian {
    /// `/usr/lib/cuda`, the folder that looks like a toolkit and has no headers, if it is there.
    pub shell: Option<HostPath>,
    /// Where its libraries are.
    pub libraries: HostPath,
}

/// A folder in which Visual Studio keeps integrations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integration {
    /// The folder.
    pub folder: HostPath,
    /// The number in its path: `170` for Visual Studio 2022.
    pub number: u32,
    /// CUDA releases that are integrated: `12.6`.
    pub releases: Vec<String>,
}

/// Looks.
pub(super) fn gather(scene: &SignContext<'_>) -> CudaToolkitSigns {
    let host = scene.host;
    let copies = scene.inventory.of("cuda");
    let chosen = scene.inventory.chosen("cuda");
    let is_linux = host.platform().os == Os::Linux;
    CudaToolkitSigns {
        nvcc: nvcc(host),
        link: is_linux.then(|| link(host)).flatten(),
        inside: inside(host, copies),
        cudacxx_works: cudacxx_works(host),
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
    // Under WSL the programs of the Windows side are on PATH as well.
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

/// Variables whose real folder is not the copy that was found by way of them.
fn inside(host: &dyn ReadFiles, copies: &[Installation]) -> Vec<Inside> {
    let mut found = Vec::new();
    for copy in copies {
        for variable in copy.found_via.iter().filter_map(|via| via.strip_prefix("env:")) {
            let Some(value) = host.env().get(variable) else { continue };
            let place = host.path(value.trim_end_matches(['/', '\\']));
            let Ok(real) = host.canonical(&place) else { continue };
            // A variable may name the compiler itself, and an environment contains its copy.
            let below = real.is_inside(&copy.root) && real.key() != copy.root.key();
            if below && host.is_dir(&real) {
                found.push(Inside { variable: variable.to_owned(), place, root: copy.root.clone() });
            }
        }
    }
    found
}

/// The variable may hold a bare name, and options after the program.
fn cudacxx_works(host: &dyn ReadFiles) -> bool {
    let value = host.env().get("CUDACXX").unwrap_or_default().trim_matches('"');
    let words = [value, value.split_whitespace().next().unwrap_or_default()];
    words.iter().any(|word| {
        let path = host.path(word);
        !word.is_empty() && (host.is_file(&path) || !find_program(host, word).is_empty())
    })
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

/// Folders in which Python packages lie on Linux, those of active environments first.
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

/// Folders of stubs among those that the loader searches.
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

/// The folder of a server's libraries, where the usual `lib64` is not there.
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
    found.sort_by_key(|one| one.number);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::facts;
    use gpubuild_detect::toolkit::{self, Catalogue};
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, RecordedHost};

    fn look(host: RecordedHostBuilder) -> CudaToolkitSigns {
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
    fn a_variable_that_names_bin_is_told_from_one_that_names_the_compiler() {
        let signs = look(
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
        assert_eq!(look(linux(Arch::X86_64).link("/usr/local/cuda", "cuda-11")).link.unwrap().root, None);
    }

    #[test]
    fn stubs_are_seen_where_the_loader_looks() {
        let signs = look(
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
    fn the_libraries_of_a_target_count_only_where_there_are_no_others() {
        let only =
            linux(Arch::Aarch64).opaque("/usr/local/cuda-12.4/targets/sbsa-linux/lib/libcudart_static.a");
        assert!(look(only.clone()).target_libraries.is_some());
        assert_eq!(
            look(only.link("/usr/local/cuda-12.4/lib64", "targets/sbsa-linux/lib")).target_libraries,
            None
        );
    }
}
