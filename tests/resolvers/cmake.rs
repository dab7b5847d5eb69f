//! The simulation of CMake compared with CMake itself: fake toolkits in a temporary folder, every `cmake` on PATH,
//! and the same environment for both.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpubuild_detect::toolkit::{self, Catalogue};
use gpubuild_doctor::resolvers::{Resolutions, agree, resolve_all};
use gpubuild_host::{Environment, Host, HostInfo, HostPath, Os, Overlay, RealHost, find_program};

use super::{outcome, skip};

/// Fake toolkits and projects in a temporary folder.
struct CmakeFixture {
    host: RealHost,
    folder: tempfile::TempDir,
    cmakes: Vec<HostPath>,
}

/// How a project uses CUDA.
#[derive(Clone, Copy)]
enum Project {
    Language,
    Package,
}

const NVCC: &str = r##"#!/bin/sh
top=$(dirname "$0")/..
case "$1 $2 $3" in
*__cmake_determine_cuda*) echo "#\$ TOP=$top" >&2; exit 1 ;;
*--version*) printf 'nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2025 NVIDIA Corporation\nCuda compilation tools, release VERSION, VVERSION.99\n' ;;
*) echo "no compiler, only its outside" >&2; exit 1 ;;
esac
"##;

impl CmakeFixture {
    /// Prints why and returns `None` without CMake.
    fn new() -> Option<Self> {
        let host = RealHost::new();
        let cmakes = find_program(&host, "cmake");
        let has = |name: &str| !find_program(&host, name).is_empty();
        if cmakes.is_empty() || !has("make") || !has("c++") || host.platform().os != Os::Linux {
            skip("cmake");
            return None;
        }
        let fixture = Self { host, folder: tempfile::tempdir().unwrap(), cmakes };
        fixture.toolkit("old", "11.8");
        fixture.toolkit("new", "12.4");
        std::os::unix::fs::symlink(fixture.path("old"), fixture.path("link")).unwrap();
        std::os::unix::fs::symlink(fixture.tool("c++"), fixture.path("old/bin/c++")).unwrap();
        for (name, text) in [
            // Sets the architectures as projects do; otherwise the error for a missing compiler is `Failed to detect
            // a default CUDA architecture`.
            ("language", "project(x CXX)\nset(CMAKE_CUDA_ARCHITECTURES 75)\nenable_language(CUDA)\n"),
            (
                "package",
                "project(x NONE)\nfind_package(CUDAToolkit REQUIRED)\n\
                 file(WRITE \"${CMAKE_BINARY_DIR}/found\" \"${CUDAToolkit_BIN_DIR}\")\n",
            ),
        ] {
            let text = format!("cmake_minimum_required(VERSION 3.18)\n{text}");
            std::fs::create_dir_all(fixture.path(name)).unwrap();
            std::fs::write(fixture.path(name).join("CMakeLists.txt"), text).unwrap();
        }
        Some(fixture)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn tool(&self, name: &str) -> String {
        find_program(&self.host, name).remove(0).as_str().to_owned()
    }

    fn toolkit(&self, name: &str, version: &str) {
        let root = self.path(name);
        for folder in ["bin", "include", "lib64", "nvvm/libdevice"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let nvcc = root.join("bin/nvcc");
        std::fs::write(&nvcc, NVCC.replace("VERSION", version)).unwrap();
        std::fs::set_permissions(&nvcc, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(root.join("include/cuda_runtime.h"), "").unwrap();
        std::fs::write(root.join("include/cublas_v2.h"), "").unwrap();
        std::fs::write(root.join("lib64/libcudart.so"), "").unwrap();
        let json = format!("{{\"cuda\": {{\"version\": \"{version}.0\"}}}}");
        std::fs::write(root.join("version.json"), json).unwrap();
    }

    /// A complete environment for a case. `@` stands for the folder of the toolkits.
    fn env(&self, cmake: &HostPath, variables: &[(&str, &str)]) -> Environment {
        let base = self.path("");
        let base = base.to_str().unwrap().trim_end_matches('/').to_owned();
        let mut env = Environment::new(
            Os::Linux,
            [("HOME", base.as_str()), ("PATH", "/usr/bin:/bin"), ("CMAKE", cmake.as_str())],
        );
        for (name, value) in variables {
            let value = value.replace('@', &base);
            let value = if *name == "PATH" { format!("{value}:/usr/bin:/bin") } else { value };
            env = env.with(name, Some(&value));
        }
        env
    }

    /// The result of the simulation.
    fn simulate(&self, env: &Environment) -> Resolutions {
        let overlay = Overlay::new(&self.host, env.clone());
        let catalogue = Catalogue::embedded();
        let mut inventory = toolkit::probe(&overlay, &catalogue);
        toolkit::query_programs(&self.host, &catalogue, &mut inventory);
        resolve_all(&overlay, &inventory, &catalogue)
    }

    /// The result of CMake: the toolkit's folder, or its error output.
    fn run(&self, cmake: &HostPath, env: &Environment, project: Project) -> Result<String, String> {
        let (name, file) = match project {
            Project::Language => ("language", "CMakeCache.txt"),
            Project::Package => ("package", "found"),
        };
        let build = tempfile::tempdir_in(self.folder.path()).unwrap();
        let output = Command::new(cmake.as_str())
            .args(["-S", self.path(name).to_str().unwrap(), "-G", "Unix Makefiles", "-B"])
            .arg(build.path())
            .env_clear()
            .envs(env.iter())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let text = std::fs::read_to_string(build.path().join(file)).unwrap_or_default();
        let found = match project {
            // The fake compilers cannot compile; CMake caches its choice before it notices.
            Project::Language => text
                .lines()
                .find_map(|line| line.strip_prefix("CMAKE_CUDA_COMPILER:FILEPATH="))
                .filter(|path| Path::new(path).is_absolute() && !path.ends_with("-NOTFOUND"))
                .filter(|path| Path::new(path).exists())
                .map(|path| Path::new(path).parent().unwrap().to_owned()),
            Project::Package => (!text.is_empty()).then(|| PathBuf::from(text)),
        };
        match found {
            Some(bin) => Ok(bin.join("..").canonicalize().unwrap().to_str().unwrap().to_owned()),
            None => Err(printed.split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }

    /// Compares simulation and CMake in an environment, for every CMake.
    fn compare(&self, project: Project, variables: &[(&str, &str)]) {
        for cmake in &self.cmakes {
            let env = self.env(cmake, variables);
            let resolutions = self.simulate(&env);
            let id = match project {
                Project::Language => "cmake-cuda-language",
                Project::Package => "cmake-cuda-package",
            };
            let simulated = resolutions.get(id).unwrap();
            match self.run(cmake, &env, project) {
                Ok(root) => assert_eq!(outcome(simulated), root, "{cmake} with {variables:?}"),
                Err(printed) => {
                    let error = simulated.error.clone().unwrap_or_else(|| {
                        panic!("{cmake} with {variables:?} fails, not in {}: {printed}", outcome(simulated))
                    });
                    let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
                    assert!(
                        printed.contains(&error),
                        "{cmake} with {variables:?} says no `{error}`: {printed}"
                    );
                }
            }
        }
    }
}

#[test]
fn find_package_simulation_matches_cmake() {
    let Some(fixture) = CmakeFixture::new() else { return };
    for variables in [
        &[("PATH", "@/old/bin")] as &[(&str, &str)],
        &[("PATH", "@/link/bin")],
        &[("PATH", "@/old")],
        &[("PATH", "@/old/bin:@/new/bin")],
        &[("CUDA_PATH", "@/new")],
        &[("CUDA_PATH", "@/new/bin")],
        &[("PATH", "@/old/bin"), ("CUDA_PATH", "@/new")],
        &[("PATH", "@/old/bin"), ("CUDA_HOME", "@/new")],
        &[("PATH", "@/old/bin"), ("CUDAToolkit_ROOT", "@/new")],
        &[("PATH", "@/old/bin"), ("CUDACXX", "@/new/bin/nvcc")],
        &[("PATH", "@/old/bin"), ("CUDACXX", "@/nowhere/nvcc")],
        &[("PATH", "@/old/bin"), ("CUDAToolkit_ROOT", "@/nowhere")],
        &[("CUDAToolkit_ROOT", "@/nowhere")],
        &[("PATH", "@/old/bin"), ("CMAKE_PREFIX_PATH", "@/new")],
        &[("CUDA_PATH", "@/nowhere")],
        &[],
    ] {
        fixture.compare(Project::Package, variables);
    }
}

#[test]
fn enable_language_simulation_matches_cmake() {
    let Some(fixture) = CmakeFixture::new() else { return };
    for variables in [
        &[("PATH", "@/old/bin")] as &[(&str, &str)],
        &[("CUDA_PATH", "@/new")],
        &[("PATH", "@/old/bin"), ("CUDA_PATH", "@/new")],
        &[("PATH", "@/old/bin"), ("CUDAToolkit_ROOT", "@/new")],
        &[("PATH", "@/old/bin"), ("CUDACXX", "@/new/bin/nvcc")],
        &[("PATH", "@/old/bin"), ("CUDACXX", "@/nowhere/nvcc")],
        &[("PATH", "@/new/bin"), ("CXX", "@/old/bin/c++")],
        &[("PATH", "@/old/bin"), ("CMAKE_PREFIX_PATH", "@/new")],
        &[("CUDAToolkit_ROOT", "@/new")],
        &[("CUDAToolkit_ROOT", "@/nowhere")],
        &[],
    ] {
        fixture.compare(Project::Language, variables);
    }
}

#[test]
fn hip_language_simulation_matches_cmake() {
    let Some(fixture) = CmakeFixture::new() else { return };
    if find_program(&fixture.host, "hipconfig").is_empty() {
        return skip("hip");
    }
    let text = "cmake_minimum_required(VERSION 3.21)\nset(CMAKE_HIP_ARCHITECTURES gfx900)\nproject(x CXX)\nenable_language(HIP)\n";
    std::fs::create_dir_all(fixture.path("hip")).unwrap();
    std::fs::write(fixture.path("hip/CMakeLists.txt"), text).unwrap();
    // Without a variable, and with the suggested line for the installed copy.
    let first = fixture.env(&fixture.cmakes[0], &[]);
    let line = fixture.simulate(&first).agreements.remove("rocm").map(|agreement| agreement.cmake);
    let clang = line.and_then(|mut cmake| cmake.remove("CMAKE_HIP_COMPILER"));
    for cmake in &fixture.cmakes {
        for clang in [None, clang.as_deref()] {
            let mut env = fixture.env(cmake, &[]);
            if let Some(clang) = clang {
                env = env.with("HIPCXX", Some(clang));
            }
            let simulated = fixture.simulate(&env);
            let simulated = simulated.get("cmake-hip-language").unwrap();
            let build = tempfile::tempdir_in(fixture.folder.path()).unwrap();
            let output = Command::new(cmake.as_str())
                .args(["-S", fixture.path("hip").to_str().unwrap(), "-G", "Unix Makefiles", "-B"])
                .arg(build.path())
                .env_clear()
                .envs(env.iter())
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&output.stderr).into_owned();
            let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
            let cache = std::fs::read_to_string(build.path().join("CMakeCache.txt")).unwrap_or_default();
            let found = cache.lines().find_map(|line| line.strip_prefix("CMAKE_HIP_COMPILER:FILEPATH="));
            let found = found.filter(|path| !path.ends_with("-NOTFOUND")).or(clang);
            let lost = printed.contains("does not contain the HIP runtime CMake package");
            // Old versions search for the package before they report a missing compiler.
            let failed = found.is_none() || lost;
            assert_eq!(simulated.error.is_some(), failed, "{cmake} with {clang:?}: {printed}");
            if let (Some(error), true) = (&simulated.error, found.is_some()) {
                let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(printed.contains(&error), "{cmake} with {clang:?} says no `{error}`: {printed}");
            }
            if let (Some(found), Some(takes)) = (found, &simulated.takes) {
                let compiler = takes.compiler.as_ref().map(HostPath::as_str);
                assert_eq!(compiler, Some(found), "{cmake} with {clang:?}");
            }
        }
    }
}

#[test]
fn find_vulkan_simulation_matches_cmake() {
    let Some(fixture) = CmakeFixture::new() else { return };
    for (file, text) in
        [("include/vulkan/vulkan.h", ""), ("lib/libvulkan.so", ""), ("bin/glslc", "#!/bin/sh\n")]
    {
        let path = fixture.path("sdk").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::create_dir_all(fixture.path("vulkan")).unwrap();
    let text = "cmake_minimum_required(VERSION 3.18)\nproject(x NONE)\nfind_package(Vulkan)\n\
        file(WRITE \"${CMAKE_BINARY_DIR}/found\" \"${Vulkan_INCLUDE_DIR}\\n${Vulkan_GLSLC_EXECUTABLE}\\n\")\n";
    std::fs::write(fixture.path("vulkan/CMakeLists.txt"), text).unwrap();
    for variables in [
        &[("VULKAN_SDK", "@/sdk")] as &[(&str, &str)],
        &[("VULKAN_SDK", "@/nowhere")],
        &[("VULKAN_SDK", "@/sdk/include")],
        &[("PATH", "@/sdk/bin")],
        &[("CMAKE_PREFIX_PATH", "@/sdk"), ("VULKAN_SDK", "@/nowhere")],
        &[("Vulkan_ROOT", "@/sdk")],
        &[],
    ] {
        for cmake in &fixture.cmakes {
            let env = fixture.env(cmake, variables);
            let build = tempfile::tempdir_in(fixture.folder.path()).unwrap();
            Command::new(cmake.as_str())
                .args(["-S", fixture.path("vulkan").to_str().unwrap(), "-G", "Unix Makefiles", "-B"])
                .arg(build.path())
                .env_clear()
                .envs(env.iter())
                .output()
                .unwrap();
            let text = std::fs::read_to_string(build.path().join("found")).unwrap();
            let found: Vec<&str> = text.lines().collect();
            let resolutions = fixture.simulate(&env);
            let one = resolutions.get("cmake-vulkan").unwrap();
            let missing = found.iter().any(|path| path.ends_with("-NOTFOUND"));
            assert_eq!(one.error.is_some(), missing, "{variables:?}: {text}");
            if let Some(takes) = one.takes.as_ref().filter(|_| !missing) {
                assert_eq!(takes.root.join("include").as_str(), found[0], "{cmake} with {variables:?}");
                assert_eq!(takes.compiler.as_ref().unwrap().as_str(), found[1], "{cmake} with {variables:?}");
            }
        }
    }
}

#[test]
fn suggested_lines_change_the_choice_of_cmake() {
    let Some(fixture) = CmakeFixture::new() else { return };
    let variables = [
        ("PATH", "@/new/bin"),
        ("CXX", "@/old/bin/c++"),
        ("CUDA_HOME", "@/new"),
        ("CUDAToolkit_ROOT", "@/new"),
    ];
    for cmake in &fixture.cmakes {
        let env = fixture.env(cmake, &variables);
        let new = fixture.path("new").to_str().unwrap().to_owned();
        let old = fixture.path("old").to_str().unwrap().to_owned();
        assert_eq!(
            fixture.run(cmake, &env, Project::Language),
            Ok(old),
            "CMake uses the toolkit beside the C++ compiler"
        );
        let agreement = fixture.simulate(&env).agreements.remove("cuda").unwrap();
        assert_eq!(agreement.chosen.as_str(), new);
        assert!(!agreement.agree && !agreement.lines.is_empty());
        let env = agree::changed(&env, Os::Linux, &agreement.lines);
        assert_eq!(fixture.run(cmake, &env, Project::Language), Ok(new.clone()), "{:?}", agreement.lines);
        assert_eq!(fixture.run(cmake, &env, Project::Package), Ok(new), "{:?}", agreement.lines);
    }
}
