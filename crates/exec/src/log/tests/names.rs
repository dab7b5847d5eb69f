//! Findings that depend on the name in a message.

use super::*;

/// Messages whose finding depends on the name in them.
#[test]
fn names_decide_the_finding() {
    for (log, id) in [
        (
            "./build.sh: line 12: hipcc: command not found\nmake: *** [all] Error 127\n",
            "rocm.toolkit.missing",
        ),
        ("/bin/bash: line 1: /usr/local/cuda/bin/nvcc: not found\n", "cuda.toolkit.not-on-path"),
        ("make: nvcc: No such file or directory\nmake: *** [a.o] Error 127\n", "cuda.toolkit.not-on-path"),
        ("Error: spawn nvcc ENOENT\n", "cuda.toolkit.not-on-path"),
        ("mold: fatal: library not found: nccl\n", "cuda.library-missing"),
        ("LINK : fatal error LNK1104: cannot open file 'python311.lib'\n", "py.headers-missing"),
        ("LINK : fatal error LNK1181: cannot open input file 'nvinfer_10.lib'\n", "cuda.library-missing"),
        (
            "Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file: No such file or directory\n",
            "cuda.runtime-library-missing",
        ),
        ("dyld[500]: Library not loaded: @rpath/libvulkan.1.dylib\n", "vk.loader-missing"),
        (
            "Could not load dynamic library 'cudart64_110.dll'; dlerror: cudart64_110.dll not found\n",
            "cuda.runtime-library-missing",
        ),
        (
            "a.cpp:1:10: fatal error: cutlass/cutlass.h: No such file or directory\n",
            "build.submodule-missing",
        ),
        (
            "a.cpp:1:10: fatal error: rocrand/rocrand.h: No such file or directory\n",
            "rocm.toolkit.headers-missing",
        ),
        ("a.cpp:1:10: fatal error: 'GLFW/glfw3.h' file not found\n", "build.header-missing"),
        ("terminate called\n  what():  CUDA_ERROR_NO_DEVICE\n", "cuda.no-device"),
        ("CUDA error: all CUDA-capable devices are busy or unavailable\n", "cuda.device-busy"),
        ("RuntimeError: CUDA error: too many resources requested for launch\n", "cuda.launch-limits"),
        ("CUDA error: the launch timed out and was terminated\n", "cuda.launch-timeout"),
        ("RuntimeError: HIP error: out of memory\n", "cuda.out-of-memory"),
        ("vk::Queue::submit: ErrorDeviceLost\nexit code: 1\n", "vk.device-lost"),
        ("vkCreateInstance failed -6\nexit code: 1\n", "vk.layer-missing"),
        ("vkCreateDevice() failed with VK_ERROR_FEATURE_NOT_PRESENT\n", "vk.feature-missing"),
    ] {
        let found = ids(log);
        assert_eq!(found.first().map(|found| found.as_str()), Some(id), "{log}");
    }
}

/// A missing header names its component and the packages that have it.
#[test]
fn components_have_packages() {
    let cause = &read("a.cpp:3:10: fatal error: Eigen/Dense: No such file or directory\n").causes[0];
    assert_eq!(cause.values["component"], "Eigen");
    assert_eq!(cause.commands["apt"], ["sudo apt install libeigen3-dev"]);
    assert!(cause.fix.as_ref().is_some_and(|fix| fix.contains("Eigen")), "{cause:?}");
    // Another header of the same signature is another cause, until one finding has both.
    let reading = read(
        "a.cpp:3:10: fatal error: Eigen/Dense: No such file or directory\na.cpp:4:10: fatal error: Eigen/Core: No such file or directory\n",
    );
    assert_eq!((reading.causes.len(), reading.causes[0].count), (1, 2));
}

/// Each form of the message that a package of pkg-config is missing, and headers without an ending, lead to a command.
#[test]
fn missing_packages_and_headers_without_ending_have_commands() {
    for (log, name, apt) in [
        (
            "-- Checking for module 'libuv'\n--   No package 'libuv' found\nCMake Error at /usr/share/cmake-3.25/Modules/FindPkgConfig.cmake:607 (message):\n  A required package was not found\n",
            "libuv",
            "libuv1-dev",
        ),
        (
            "CMake Error at /usr/share/cmake-3.25/Modules/FindPkgConfig.cmake:607 (message):\n  The following required packages were not found:\n\n   - wayland-client\n   - xkbcommon\n\nCall Stack (most recent call first):\n",
            "wayland-client",
            "libwayland-dev wayland-protocols",
        ),
        (
            "Package harfbuzz was not found in the pkg-config search path.\nPerhaps you should add the directory containing `harfbuzz.pc'\nto the PKG_CONFIG_PATH environment variable\nNo package 'harfbuzz' found\nmake: *** [Makefile:4: all] Error 1\n",
            "harfbuzz",
            "libharfbuzz-dev",
        ),
        (
            "Package 'liburing', required by 'virtual:world', not found\nmake: *** [Makefile:4: all] Error 1\n",
            "liburing",
            "liburing-dev",
        ),
        (
            "Run-time dependency epoxy found: NO (tried pkgconfig and cmake)\n\n../meson.build:93:12: ERROR: Dependency \"epoxy\" not found, tried pkgconfig and cmake\n",
            "epoxy",
            "libepoxy-dev",
        ),
        ("ERROR: dav1d >= 0.5.0 not found using pkg-config\n", "dav1d", "libdav1d-dev"),
        ("a.cc:1:10: fatal error: Eigen/Core: No such file or directory\n", "Eigen/Core", "libeigen3-dev"),
        (
            "a.cc:1:10: fatal error: 'unsupported/Eigen/CXX11/Tensor' file not found\n",
            "unsupported/Eigen/CXX11/Tensor",
            "libeigen3-dev",
        ),
        (
            "a.cc:1:10: fatal error: eigen3/Eigen/Dense: No such file or directory\n",
            "eigen3/Eigen/Dense",
            "libeigen3-dev",
        ),
        ("a.cc:1:10: fatal error: QtCore: No such file or directory\n", "QtCore", "qt6-base-dev"),
        (
            "C:\\src\\a.cpp(3,10): fatal error C1083: Cannot open include file: 'QApplication': No such file or directory\n",
            "QApplication",
            "qt6-base-dev",
        ),
        ("a.cc:1:10: fatal error: armadillo: No such file or directory\n", "armadillo", "libarmadillo-dev"),
    ] {
        let reading = read(log);
        let cause = &reading.causes[0];
        assert_eq!(cause.values.get("name").map(String::as_str), Some(name), "{log}: {cause:?}");
        assert_eq!(
            cause.commands.get("apt"),
            Some(&vec![format!("sudo apt install {apt}")]),
            "{log}: {cause:?}"
        );
    }
}

/// Short forms of the most frequent messages of each tool, one per line after the id of their finding.
#[test]
fn messages_of_the_field_are_recognised() {
    let mut wrong = Vec::new();
    for line in include_str!("../field.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let (id, message) = line.split_once('\t').unwrap_or_else(|| panic!("no tab in `{line}`"));
        let found = ids(&format!("{message}\n"));
        if found.first().is_none_or(|first| first.as_str() != id) {
            wrong.push(format!("{id}: {found:?} for {message}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each name of the table is found in a message of its kind, and gives the finding of its row.
#[test]
fn every_name_is_found() {
    let all = Signatures::embedded();
    let mut wrong = Vec::new();
    for row in &all.names.rows {
        for (kind, name) in row.names() {
            let name = name.replace('*', if kind == NameKind::Header { "x.h" } else { "x" });
            let (log, own) = match kind {
                NameKind::Header => (
                    format!("a.cpp:1:10: fatal error: {name}: No such file or directory\n"),
                    "build.header-missing",
                ),
                NameKind::Library => (format!("/usr/bin/ld: cannot find -l{name}\n"), "link.library-missing"),
                NameKind::Package => (
                    format!(
                        "CMake Error: Could not find a package configuration file provided by \"{name}\"\n"
                    ),
                    "cmake.package-missing",
                ),
                NameKind::Tool => (format!("sh: 1: {name}: not found\n"), "build.tool-missing"),
                NameKind::Module => {
                    (format!("ModuleNotFoundError: No module named '{name}'\n"), "py.module-missing")
                }
                NameKind::Symbol => (
                    format!("a.cpp:1:10: error: ‘class {name}’ has no member named ‘turn’\n"),
                    "build.library-version",
                ),
                NameKind::Code | NameKind::Loaded | NameKind::Identifier => continue,
            };
            let wanted = row.id(kind).map_or(own, |id| id.as_str());
            let found = ids(&log);
            if found.first().is_none_or(|first| first.as_str() != wanted) {
                wrong.push(format!("{kind:?} {name}: {found:?}, not {wanted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
