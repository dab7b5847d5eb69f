//! NVIDIA's wheels from the configured index of pip or uv: several hundred MB, so only if `GPUBUILD_REQUIRE` names
//! `cuda-wheels`.

use std::path::Path;
use std::process::Command;

use crate::sandbox::{on_path, requires, skip};

const LISTS: &str = "\
cmake_minimum_required(VERSION 3.24)
project(kernel LANGUAGES CXX)
set(CMAKE_CUDA_ARCHITECTURES 80 90)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
add_executable(kernel kernel.cu)
target_link_libraries(kernel PRIVATE CUDA::cudart_static)
add_executable(driver driver.cpp)
target_link_libraries(driver PRIVATE CUDA::cuda_driver)
";

const KERNEL: &str = "\
#include <cuda_runtime.h>
#include <cub/cub.cuh>
#include <cstdio>
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
int main() {
  int n = 0;
  std::printf(\"%d\\n\", static_cast<int>(cudaGetDeviceCount(&n)));
  if (n > 0) twice<<<1, 32>>>(nullptr);
}
";

const DRIVER: &str = "\
#include <cuda.h>
int main() {
  CUdeviceptr p;
  int version;
  return cuInit(0) + cuMemAlloc(&p, 4) + cuMemcpyDtoDAsync(p, p, 4, nullptr) + cuDriverGetVersion(&version);
}
";

#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// With only `CUDACXX` set, a CMake project compiles kernels and links the runtime and the driver library.
#[test]
fn cmake_builds_with_wheels_only() {
    if !requires("cuda-wheels") || !cfg!(target_os = "linux") {
        skip("cuda-wheels", "GPUBUILD_REQUIRE does not name cuda-wheels");
        return;
    }
    assert!(on_path("cmake").is_some() && on_path("ninja").is_some() && on_path("c++").is_some());
    let folder = tempfile::tempdir().unwrap();
    let gpubuild = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
        output(command.args(arguments).env("GPUBUILD_CACHE", folder.path().join("cache")))
    };
    for release in ["13.0", "13.5"] {
        gpubuild(&["toolkit", "install", &format!("cuda@{release}")]);
        gpubuild(&["toolkit", "verify", &format!("cuda@{release}")]);
        let root = folder.path().join("cache/toolkits").join(format!("cuda-{release}/prefix"));
        build(&folder.path().join(release), &root);
        // No file of the installation contains its path.
        let moved = folder.path().join("moved");
        std::fs::rename(root.parent().unwrap(), &moved).unwrap();
        build(&folder.path().join(format!("{release}-moved")), &moved.join("prefix"));
        std::fs::remove_dir_all(moved).unwrap();
    }
}

fn build(folder: &Path, root: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, text) in [("CMakeLists.txt", LISTS), ("kernel.cu", KERNEL), ("driver.cpp", DRIVER)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let build = folder.join("build");
    let mut configure = Command::new("cmake");
    configure.args(["-G", "Ninja", "-S"]).arg(folder).arg("-B").arg(&build);
    for other in ["CUDA_PATH", "CUDA_HOME", "CUDAToolkit_ROOT"] {
        configure.env_remove(other);
    }
    output(configure.env("CUDACXX", root.join("bin/nvcc")));
    output(Command::new("cmake").arg("--build").arg(&build));
    // Without a driver the runtime returns 35, with one another value; any answer is fine.
    let answer = output(&mut Command::new(build.join("kernel")));
    assert!(answer.trim().parse::<u32>().is_ok(), "{answer}");
}
