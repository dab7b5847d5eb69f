//! Tests with the output of real tools.

use super::*;

#[track_caller]
fn check(log: &str, expected: &str) {
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(first_error(&lines).map(|error| error.to_string()).unwrap_or_default(), expected, "{log}");
}

#[test]
fn compiler_errors_are_recognised() {
    check(
        "[1/3] Building C object a.o\nFAILED: a.o\n/usr/bin/cc -c a.c\n/src/a.c: In function 'f':\n/src/a.c:3:5: error: unknown type name 'floot'\n    3 |     floot x;\n      |     ^~~~~\nninja: build stopped: subcommand failed.",
        "/src/a.c:3:5: unknown type name 'floot'",
    );
    check(
        "In file included from /src/a.c:1:\n/src/a.h:9:10: fatal error: nope.h: No such file or directory",
        "/src/a.h:9:10: nope.h: No such file or directory",
    );
    check("a.cpp:1:1: error: unknown type name 'x'\n1 error generated.", "a.cpp:1:1: unknown type name 'x'");
    check(
        "cc1: all warnings being treated as errors\na.c:2:1: error: unused variable 'x' [-Werror=unused-variable]",
        "a.c:2:1: unused variable 'x' [-Werror=unused-variable]",
    );
    check(
        r"C:\src\a b.c(12): error C2065: 'x': undeclared identifier",
        r"C:\src\a b.c:12: C2065: 'x': undeclared identifier",
    );
    check(
        r"C:\src\a.c(12,5): fatal error C1083: Cannot open include file: 'x.h'",
        r"C:\src\a.c:12:5: C1083: Cannot open include file: 'x.h'",
    );
    check(r"C:\src\a.c:7:3: error: expected ';'", r"C:\src\a.c:7:3: expected ';'");
    check("clang: error: unknown argument: '-fnope'", "clang: unknown argument: '-fnope'");
    check(
        "c++: fatal error: Killed signal terminated program cc1plus",
        "c++: Killed signal terminated program cc1plus",
    );
    check("a.c:4: error: old style", "a.c:4: old style");
}

#[test]
fn device_compiler_errors_are_recognised() {
    check(
        "/src/k.cu(14): error: identifier \"foo\" is undefined\n\n1 error detected in the compilation of \"/src/k.cu\".",
        "/src/k.cu:14: identifier \"foo\" is undefined",
    );
    check(
        "/src/k.cu(14): error #20: identifier \"foo\" is undefined",
        "/src/k.cu:14: #20: identifier \"foo\" is undefined",
    );
    check(
        "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
        "nvcc fatal : Unsupported gpu architecture 'compute_120'",
    );
    check(
        "ptxas /tmp/k.ptx, line 21; error   : Unexpected instruction types",
        "/tmp/k.ptx:21: Unexpected instruction types",
    );
    check(
        "ptxas fatal   : Ptx assembly aborted due to errors",
        "ptxas fatal : Ptx assembly aborted due to errors",
    );
    check("glslc: error: cannot open input file: 'x.comp'", "glslc: cannot open input file: 'x.comp'");
    check(
        "matmul.comp:12: error: 'foo' : undeclared identifier",
        "matmul.comp:12: 'foo' : undeclared identifier",
    );
    check("/bin/sh: 1: glslc: not found", "/bin/sh: 1: glslc: not found");
    check(
        "kernel.metal:3:1: error: unknown type name 'kernal'",
        "kernel.metal:3:1: unknown type name 'kernal'",
    );
}

#[test]
fn linker_errors_are_recognised() {
    check(
        "/usr/bin/ld: main.o: in function `main':\nmain.c:(.text+0x5): undefined reference to `gk_backend_cuda'\ncollect2: error: ld returned 1 exit status",
        "main.c: undefined reference to `gk_backend_cuda'",
    );
    check(
        "/usr/bin/ld: /tmp/x.o: in function `main':\n/src/main.c:9: undefined reference to `f'",
        "/src/main.c:9: undefined reference to `f'",
    );
    check(
        "/usr/bin/ld: cannot find -lcublas: No such file or directory\ncollect2: error: ld returned 1 exit status",
        "ld: cannot find -lcublas: No such file or directory",
    );
    check(
        "/usr/bin/ld: b.o: multiple definition of `f'; a.o: first defined here",
        "b.o: multiple definition of `f'; a.o: first defined here",
    );
    check("ld.lld: error: undefined symbol: cuMemCreate", "ld.lld: undefined symbol: cuMemCreate");
    check(
        "Undefined symbols for architecture arm64:\n  \"_gk\", referenced from:\n      _main in main.o\nld: symbol(s) not found for architecture arm64",
        "Undefined symbols for architecture arm64: \"_gk\", referenced from",
    );
    check(
        "LINK : fatal error LNK1104: cannot open file 'cudart.lib'",
        "LINK: LNK1104: cannot open file 'cudart.lib'",
    );
    check(
        "a.obj : error LNK2019: unresolved external symbol f",
        "a.obj: LNK2019: unresolved external symbol f",
    );
}

#[test]
fn cmake_and_build_tool_errors_are_recognised() {
    check(
        "-- Configuring\nCMake Error at src/cuda/CMakeLists.txt:12 (message):\n  nvcc is\n  missing\n\n\nCall Stack (most recent call first):\n  CMakeLists.txt:4 (include)\n",
        "src/cuda/CMakeLists.txt:12: nvcc is missing",
    );
    check(
        "CMake Error: The source directory \"/x\" does not appear to contain CMakeLists.txt.",
        "The source directory \"/x\" does not appear to contain CMakeLists.txt.",
    );
    check(
        "CMake Error in CMakeLists.txt:\n  No project() command is present.\n",
        "CMakeLists.txt: No project() command is present.",
    );
    check(
        "CMake Error at /usr/share/cmake/Modules/FindPackageHandleStandardArgs.cmake:230 (message):\n  Could NOT find Vulkan (missing: Vulkan_LIBRARY)\n",
        "/usr/share/cmake/Modules/FindPackageHandleStandardArgs.cmake:230: Could NOT find Vulkan (missing: Vulkan_LIBRARY)",
    );
    check(
        "ninja: error: '/src/a.c', needed by 'a.o', missing and no known rule to make it",
        "ninja: '/src/a.c', needed by 'a.o', missing and no known rule to make it",
    );
    check("ar: liba.a: No space left on device", "ar: liba.a: No space left on device");
    check(
        "   Compiling infer v0.1.0\nerror[E0425]: cannot find value `x` in this scope\n --> src/main.rs:2:5\n",
        "src/main.rs:2:5: cannot find value `x` in this scope",
    );
    check(
        "error: linking with `cc` failed: exit status: 1\n  |\n  = note: /usr/bin/ld: x.o: undefined reference to `gk'",
        "x.o: undefined reference to `gk'",
    );
    check("error: no matching package named `nope` found", "no matching package named `nope` found");
}

#[test]
fn unknown_output_still_gives_a_line() {
    check(
        "FAILED: out.h\npython3 gen.py\nTraceback (most recent call last):\nValueError: bad\nninja: build stopped: subcommand failed.",
        "Traceback (most recent call last):",
    );
    check("something odd happened\n\n", "something odd happened");
    check("", "");
}

#[test]
fn failed_step_is_named() {
    let error = first_error(&[
        "FAILED: [code=1] src/vulkan/CMakeFiles/gk-vulkan.dir/v.c.o",
        "cc -c v.c",
        "v.c:1:1: error: no",
    ]);
    assert_eq!(error.unwrap().step.as_deref(), Some("src/vulkan/CMakeFiles/gk-vulkan.dir/v.c.o"));
}
