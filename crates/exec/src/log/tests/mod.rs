mod names;
mod signatures;

use gpubuild_core::Os;
use gpubuild_detect::finding::Findings;

use super::grid::GridWords;
use super::*;

fn read(log: &str) -> LogReading {
    Signatures::embedded().read(log.as_bytes())
}

#[track_caller]
fn ids(log: &str) -> Vec<DiagnosticId> {
    read(log).causes.into_iter().map(|cause| cause.id).collect()
}

/// The data with a single signature.
fn only(signature: &Signature) -> EmbeddedSignatures {
    let names = Signatures::embedded().names.rows.clone();
    let all = Signatures::embedded();
    let grid = if signature.cell.is_some() { signature::embedded().grid } else { GridWords::default() };
    let (signatures, cuda) = (vec![signature.clone()], all.cuda.clone());
    EmbeddedSignatures { signatures, names, grid, cuda, ..EmbeddedSignatures::default() }
}

#[test]
fn messages_that_cmake_breaks_into_lines_are_recognised() {
    // The literal `Could not find a package configuration file provided by` is broken.
    let text = "  The example of this project needs a library of the field.  Could not find a\n  package configuration file provided by \"hipblas\" with any of the following\n  names:\n";
    let log = format!(
        "CMake Error at CMakeLists.txt:5 (find_package):\n{text}\n-- Configuring incomplete, errors occurred!\n"
    );
    let reading = read(&log);
    assert_eq!(reading.causes.first().map(|cause| cause.id.as_str()), Some("rocm.cmake-config"));
    assert_eq!((reading.causes[0].line, reading.causes[0].count), (2, 1));
    // Below a prefix and in a deeper headline.
    let deeper = format!("      {}", log.replace('\n', "\n      "));
    assert_eq!(ids(&deeper), ids(&log));
    // A line that has room for the next word is not continued.
    let short = log.replace("of the field.  Could not find a\n", "of it.\n  Could not find a\n");
    assert_eq!(ids(&short), Vec::<DiagnosticId>::new());
    // Warnings do not fail a build.
    assert_eq!(
        ids(&log.replace("CMake Error", "CMake Warning").replace("incomplete, errors", "done")),
        Vec::<DiagnosticId>::new()
    );
}

#[test]
fn successful_logs_have_no_causes() {
    for log in [
        // Optional packages that are missing.
        "-- Could NOT find Vulkan (missing: glslc) (found version \"1.3.257\")\nCMake Warning at CMakeLists.txt:343 (message):\n  Vulkan not found\n\n\n-- Configuring done (2.2s)\n-- Generating done (0.1s)\n",
        "CMake Warning at CMakeLists.txt:5 (find_package):\n  By not providing \"FindMKL.cmake\" in CMAKE_MODULE_PATH this project has asked\n  CMake to find a package configuration file provided by \"MKL\", but CMake did\n  not find one.\n\n  Could not find a package configuration file provided by \"MKL\" with any of\n  the following names:\n\n    MKLConfig.cmake\n\n-- Configuring done\n",
        "      CMake Warning at CMakeLists.txt:5 (find_package):\n        Could not find a package configuration file provided by \"IntelSYCL\" with\n        any of the following names:\n\n      -- Configuring done\n",
        // Error words in names of files and flags.
        "[1/3] Building CXX object src/CMakeFiles/error.dir/fatal_error.cpp.o\n/usr/bin/c++ -Werror=undefined -DNO_CUDA_ERROR -o error_handling.o -c undefined_reference.cpp\n[3/3] Linking CXX static library liberror.a\n",
        "   Compiling thiserror v2.0.12\n   Compiling cuda-errors v0.1.0 (/src/cannot find -lcuda)\n    Finished `release` profile [optimized] target(s) in 12.3s\n",
        // Compiler warnings.
        "a.c:3:5: warning: unused variable 'x' [-Wunused-variable]\nnvcc warning : Support for offline compilation for architectures prior to '<compute/sm/lto>_75' will be removed in a future release (Use -Wno-deprecated-gpu-targets to suppress warning).\nnvcc warning : Cannot find valid GPU for '-arch=native', default arch is used\n",
        // Optional tools that are missing.
        "/bin/sh: 1: git: not found\ncc -O2 -c ggml.c -o ggml.o\ncc -O2 -c a.c -o a.o\ncc -O2 -c b.c -o b.o\ncc -O2 -c c.c -o c.o\ncc -O2 -c d.c -o d.o\ncc -o main ggml.o a.o b.o c.o d.o\n./main -h\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n-- The CUDA compiler identification is NVIDIA 12.8.61\n-- Detecting CUDA compiler ABI info\n-- Detecting CUDA compiler ABI info - done\n-- Configuring done\n-- Generating done\n[1/2] Building CUDA object a.cu.o\n[2/2] Linking\n",
        // CMake checks that may fail.
        "-- Performing Test HAVE_AVX512 - Failed\n-- Looking for pthread_create in pthreads - not found\n-- GL_NV_cooperative_matrix2 not supported by glslc\n-- Configuring done\n",
        "-- app: `glslc` does not compile cooperative matrices, skipping them: matrices.glsl:21: error: '#extension' : extension not supported: GL_KHR_cooperative_matrix\n-- Configuring done\n",
        // Lines of a runtime that chooses among its providers.
        "2024-01-01 10:00:00: I tensorflow/core/platform/cpu_feature_guard.cc:182] This TensorFlow binary is optimized\nstep 1 loss 0.5\nstep 2 loss 0.4\nstep 3 loss 0.3\nstep 4 loss 0.2\nstep 5 loss 0.2\nstep 6 loss 0.1\nstep 7 loss 0.1\n",
        "Collecting torch\n  Downloading torch-2.5.1-cp311-cp311-manylinux1_x86_64.whl (906.4 MB)\nInstalling collected packages: nvidia-cudnn-cu12, torch\nSuccessfully installed nvidia-cudnn-cu12-9.1.0.70 torch-2.5.1\n",
        // Results of checks as CMake's graphical interface prints them, and a build tool that reports success.
        "Could NOT find CUDNN (missing: CUDNN_LIBRARY CUDNN_INCLUDE_DIR)\nCould NOT find PythonInterp (missing: PYTHON_EXECUTABLE)\nFound ZLIB\nConfiguring done\n",
        "[ 10%] Building CXX object probe.cpp.o\nprobe.cpp:1:10: fatal error: cudnn.h: No such file or directory\nnote: the example without cuDNN is built\n[100%] Built target example\n",
        "warning: x@0.1.0: /usr/bin/ld: cannot find -lcuda: No such file or directory\n    Finished `release` profile [optimized] target(s) in 12.3s\n",
        "checking for cuda.h... no\nchecking for libnuma... no\nchecking whether gcc accepts -Werror... yes\nconfigure: creating ./config.status\n",
        "Dependency libdrm found: NO (tried pkgconfig and cmake)\nRun-time dependency vulkan found: YES 1.3.275\nProgram glslangValidator found: NO\nBuild targets in project: 12\n",
        "    *** WARNING: Cannot find nvToolsExt. nvtx was disabled.\n    a.cpp:1:10: fatal error: cudnn.h: No such file or directory\nSuccessfully built cupy\nSuccessfully installed cupy-4.0.0\n",
        // Another processor's library that the linker ignores without consequence, and a module that compiled.
        "ld: warning: ignoring file '/usr/local/lib/libomp.dylib': found architecture 'x86_64', required architecture 'arm64'\n[100%] Built target app\n",
        "Building module:\ncleaning build area...\nmake -j16 modules... done.\nnvidia/550.54.14: installed in /lib/modules/6.5.0/updates/dkms\n",
        "ptxas info    : 56 bytes stack frame, 52 bytes spill stores, 52 bytes spill loads\nvulkan.cpp:12: note: IncompatibleDrivers is tested\n[2/2] Linking CXX executable app\n",
        "",
        "\n\n",
    ] {
        assert_eq!(ids(log), Vec::<String>::new(), "{log}");
    }
}

/// The console of a French Windows writes the no-break space as another letter.
#[test]
fn french_headers_in_the_code_page_of_the_console_are_recognised() {
    let log = "1>d:\\darknet\\src\\cuda.h(33): fatal error C1083: Impossible d'ouvrir le fichier includeá: 'cudnn.h'á: No such file or directory\n";
    assert_eq!(ids(log), ["cuda.library-missing"]);
}

/// Users copy Visual Studio's Error List, whose columns are separated by tabs, instead of the output.
#[test]
fn rows_of_the_error_list_are_recognised() {
    let log = "Severity\tCode\tDescription\tProject\tFile\tLine\nError\tC1083\tCannot open include file: 'cuda_runtime.h': No such file or directory\tapp\tD:\\src\\a.cpp\t3\nWarning\tC4244\tconversion from 'double' to 'float'\tapp\tD:\\src\\a.cpp\t9\n";
    let cause = &read(log).causes[0];
    assert_eq!((cause.id.as_str(), cause.line), ("cuda.toolkit.headers-missing", 2));
    let log = "错误\tLNK1181\t无法打开输入文件“cudart.lib”\tapp\tD:\\src\\LINK\t1\n";
    assert_eq!(read(log).causes[0].id.as_str(), "cuda.toolkit.component-missing");
}

#[test]
fn failures_after_success_and_errors_of_cmake_are_reported() {
    let log = "    Finished `release` profile [optimized] target(s) in 12.3s\n     Running `target/release/infer`\ninfer: CUDA error: an illegal memory access was encountered\n";
    assert_eq!(ids(log), ["cuda.kernel-fault"]);
    // The result of a check is the cause only if nothing else is.
    let status = "Could NOT find CUDNN (missing: CUDNN_LIBRARY)\n";
    assert_eq!(ids(status), ["cuda.library-missing"]);
    let log = format!(
        "{status}CMake Error: The following variables are used in this project, but they are set to NOTFOUND.\nPlease set them or make sure they are set and tested correctly in the CMake files:\nCUDA_nppc_LIBRARY (ADVANCED)\n"
    );
    assert_eq!(ids(&log), ["cmake.variable-notfound", "cuda.library-missing"]);
}

#[test]
fn drive_at_the_start_of_a_line_shows_windows() {
    let reading = read("D:/src/base/base.h:52:10: fatal error: 'glm/glm.hpp' file not found\n");
    assert_eq!(reading.platform.os, Some(Os::Windows));
    assert_eq!(reading.platform.evidence, Some((1, "D:".to_owned())));
}

#[test]
fn root_cause_is_reported_without_weaker_matches() {
    let log = "-- Check for working CUDA compiler: /usr/local/cuda/bin/nvcc - broken\nCMake Error at /usr/share/cmake-3.25/Modules/CMakeTestCUDACompiler.cmake:103 (message):\n  The CUDA compiler\n\n    \"/usr/local/cuda/bin/nvcc\"\n\n  is not able to compile a simple test program.\n\n  It fails with the following output:\n\n    Building CUDA object CMakeFiles/cmTC_10ad9.dir/main.cu.o\n    nvcc fatal   : Unsupported gpu architecture 'compute_61'\n    gmake[1]: *** [CMakeFiles/cmTC_10ad9.dir/build.make:79: CMakeFiles/cmTC_10ad9.dir/main.cu.o] Error 1\n";
    let reading = read(log);
    assert_eq!(ids(log), ["cuda.arch.dropped-by-toolkit"]);
    assert_eq!(reading.causes[0].line, 12);
    assert_eq!(reading.causes[0].values["arch"], "61");
    assert_eq!(reading.lines, 13);
    // Without a known root cause the general failure is reported.
    let log = log.replace("Unsupported gpu architecture 'compute_61'", "something new");
    assert_eq!(ids(&log), ["cuda.compiler-broken"]);
    assert_eq!(read(&log).causes[0].values["compiler"], "/usr/local/cuda/bin/nvcc");
}

#[test]
fn two_failures_are_reported_in_order() {
    let log = "a.c:1:10: fatal error: cudnn.h: No such file or directory\nb.c:1:10: fatal error: cudnn.h: No such file or directory\n/usr/bin/ld: cannot find -lcuda\n";
    assert_eq!(ids(log), ["cuda.library-missing", "cuda.stub-missing"]);
}

#[test]
fn ci_logs_are_read() {
    let lines = [
        "2026-01-01T00:00:00.0000000Z ##[error]nvcc fatal   : Unsupported gpu architecture 'compute_120'\r\n",
        "12:32:13     nvcc fatal   : Unsupported gpu architecture 'compute_120'\n",
        "#12 21.64 nvcc fatal   : Unsupported gpu architecture 'compute_120'\n",
        "\u{1b}[31mnvcc fatal   : Unsupp\u{1b}[1morted gpu architecture 'compute_120'\u{1b}[0m",
        "warning: kernels@0.1.0: nvcc fatal   : Unsupported gpu architecture 'compute_120'",
    ];
    for line in lines {
        let reading = read(line);
        assert_eq!(reading.causes.len(), 1, "{line:?}");
        assert_eq!(reading.causes[0].values["arch"], "120");
        assert_eq!(reading.causes[0].text, "nvcc fatal   : Unsupported gpu architecture 'compute_120'");
    }
    let wrapped = "12:32:13   The CMAKE_CUDA_COMPILER:\n12:32:13 \n12:32:13     /opt/nvcc\n12:32:13 \n12:32:13   is not a full path to an existing compiler tool.\n";
    assert_eq!(ids(wrapped), ["cuda.toolkit.root-invalid"]);
    assert_eq!(read(wrapped).causes[0].values["compiler"], "/opt/nvcc");
    assert_eq!(read(wrapped).causes[0].line, 1);
}

#[test]
fn arbitrary_bytes_are_accepted() {
    let mut log = b"\xff\xfe\x00 caf\xe9\n".to_vec();
    log.extend_from_slice(b"LINK : fatal error LNK1181: cannot open input file 'cublas.lib' \x1b[31m\x07\n");
    log.extend_from_slice(&[0x1b, b'[', b'\n', 0x1b, b']']);
    let reading = Signatures::embedded().read(&log);
    assert_eq!(reading.causes[0].id, "cuda.toolkit.component-missing");
    assert_eq!(reading.causes[0].line, 2);
    assert!(!reading.causes[0].text.chars().any(char::is_control));
    // One very garbage line.
    let mut garbage = vec![b'x'; 3_000_000];
    garbage.extend_from_slice(b" nvcc fatal : Unknown option '-x'");
    assert!(
        Signatures::embedded().read(&garbage).causes.is_empty(),
        "text beyond the maximum line length must not match"
    );
}

#[test]
fn unknown_failure_is_quoted() {
    let reading =
        read("[1/2] cc a.c\na.c:3:5: error: no member named 'x' in 'struct y'\nmake: *** [all] Error 1\n");
    assert!(reading.causes.is_empty());
    let guess = reading.guess.unwrap();
    assert_eq!((guess.line, guess.text.as_str()), (2, "a.c:3:5: no member named 'x' in 'struct y'"));
    assert_eq!(guess.search, "a.c no member named x in struct y");
    assert_eq!(guess.context.first().map(|(number, _)| *number), Some(1));
    assert_eq!(read("all is well\n").guess, None);
    assert_eq!(read("all is well\n").lines, 1);
}

#[test]
fn large_logs_are_read() {
    // Twenty thousand lines of a successful build with a failure at the end.
    let line = "[123/4567] /usr/bin/c++ -DGGML_CUDA -I/src/ggml/include -O3 -Werror=undef -o error.o -c cannot.cpp\n";
    let mut log = line.repeat(20_000);
    log.push_str("/usr/bin/ld: cannot find -lcuda: No such file or directory\n");
    let reading = read(&log);
    assert_eq!(reading.lines, 20_001);
    assert_eq!(reading.causes[0].line, 20_001);
}

#[test]
fn captured_versions_have_no_full_stop() {
    let log = "RuntimeError: jaxlib version 0.4.30 is newer than and incompatible with jax version 0.4.23. Please update your jax";
    let values: Vec<String> = read(log).causes[0].values.values().cloned().collect();
    assert!(values.contains(&"0.4.23".to_owned()), "{values:?}");
}

#[test]
fn repeated_errors_are_one_cause_with_a_count() {
    let error = "a.obj : error LNK2001: unresolved external symbol cublasCreate_v2\n";
    let log = format!("[1/900] Building\n{}", error.repeat(341));
    let reading = read(&log);
    assert_eq!(reading.causes.len(), 1, "{:#?}", reading.causes);
    let cause = &reading.causes[0];
    assert_eq!((cause.id.as_str(), cause.line), ("link.cuda-runtime-undefined", 2));
    assert_eq!((cause.count, cause.last), (341, 342));
}

#[test]
fn platform_is_read_from_paths_and_tools() {
    for (log, os, distro) in [
        ("LINK : fatal error LNK1181: cannot open input file 'cublas.lib'\n", Some(Os::Windows), None),
        ("C:\\Users\\ada\\x.cu(3): error: expected a \";\"\n", Some(Os::Windows), None),
        ("/usr/include/x86_64-linux-gnu/bits/mathcalls.h:83:1: error: no\n", Some(Os::Linux), Some("debian")),
        (
            "gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n/usr/bin/ld: cannot find -lcuda\n",
            Some(Os::Linux),
            Some("ubuntu"),
        ),
        ("/usr/lib/gcc/x86_64-redhat-linux/13/cc1: error\n", Some(Os::Linux), Some("fedora")),
        (
            "-- The C compiler identification is AppleClang 16.0.0\n/opt/homebrew/bin/cmake\n",
            Some(Os::Macos),
            Some("macos"),
        ),
        ("C:/Users/ada/a.c: error\nC:/Users/ada/b.c: error\n", Some(Os::Windows), None),
        ("a.c:3:5: error: no\n", None, None),
    ] {
        let platform = read(log).platform;
        assert_eq!((platform.os, platform.distro.as_deref()), (os, distro), "{log}");
        assert_eq!(platform.evidence.is_some(), os.is_some(), "{log}");
    }
    let container = read(
        "#12 21.64 E: no\nERROR: failed to solve: process \"/bin/sh -c make\" did not complete successfully: exit code: 2\n",
    );
    assert!(container.platform.is_container);
    assert!(
        read("/mnt/c/Users/ada/llama.cpp/a.c:1:1: error: no\n/home/ada/x\n/home/ada/y\n").platform.is_wsl
    );
}

#[test]
fn messages_in_other_languages_are_recognised() {
    for (log, id) in [
        (
            "a.obj : error LNK2019: Verweis auf nicht aufgelöstes externes Symbol \"cudaMalloc\" in Funktion \"main\".\n",
            "link.cuda-runtime-undefined",
        ),
        ("a.obj : error LNK2001: 无法解析的外部符号 cublasCreate_v2\n", "link.cuda-runtime-undefined"),
        (
            "a.obj : error LNK2019: 未解決の外部シンボル cuMemCreate が関数 f で参照されました。\n",
            "link.cuda-driver-undefined",
        ),
        (
            "a.obj : error LNK2019: symbole externe non résolu vkCreateInstance référencé dans la fonction main\n",
            "link.vulkan-undefined",
        ),
        (
            "LINK : fatal error LNK1181: Eingabedatei \"cublas.lib\" kann nicht geöffnet werden.\n",
            "cuda.toolkit.component-missing",
        ),
        ("LINK : fatal error LNK1104: 无法打开文件“kernel32.lib”\n", "link.windows-sdk-missing"),
        ("LINK : fatal error LNK1181: ファイル 'vulkan-1.lib' を開けません。\n", "vk.sdk-missing"),
        (
            "a.cpp(3): fatal error C1083: Datei (Include) kann nicht geöffnet werden: \"cuda_runtime.h\": No such file or directory\n",
            "cuda.toolkit.headers-missing",
        ),
        (
            "a.cpp(3): fatal error C1083: 无法打开包括文件: “Python.h”: No such file or directory\n",
            "py.headers-missing",
        ),
        (
            "a.cpp(3): fatal error C1083: Impossible d'ouvrir le fichier include : 'cudnn.h' : No such file or directory\n",
            "cuda.library-missing",
        ),
        (
            "a.c:1:10: schwerwiegender Fehler: cublas_v2.h: Datei oder Verzeichnis nicht gefunden\n",
            "cuda.toolkit.headers-missing",
        ),
        (
            "a.c:1:10: erreur fatale: vulkan/vulkan.h : Aucun fichier ou dossier de ce type\n",
            "vk.headers-missing",
        ),
        ("a.c:1:10: 致命错误：cuda.h：没有那个文件或目录\n", "cuda.toolkit.headers-missing"),
        (
            "a.c:1:10: 致命的エラー: Python.h: そのようなファイルやディレクトリはありません\n",
            "py.headers-missing",
        ),
        ("a.c:1:24: fatal error: Foo.h: 没有那个文件或目录\n", "build.header-missing"),
        (
            "/usr/bin/ld: a.o:a.c:(.text+0x11): Nicht definierter Verweis auf `vkCreateInstance'\n",
            "link.vulkan-undefined",
        ),
        ("a.c:(.text+0x11): référence indéfinie vers « cudaMalloc »\n", "link.cuda-runtime-undefined"),
        ("a.c:(.text+0x11)：对‘cuMemCreate’未定义的引用\n", "link.cuda-driver-undefined"),
        ("a.c:(.text+0x11): `clGetPlatformIDs' に対する定義されていない参照です\n", "link.opencl-undefined"),
        ("/usr/bin/ld: 找不到 -lcublas\n", "cuda.toolkit.component-missing"),
        ("/usr/bin/ld: -lvulkan kann nicht gefunden werden\n", "vk.sdk-missing"),
    ] {
        let found = ids(log);
        assert_eq!(found.first().map(|found| found.as_str()), Some(id), "{log}");
    }
}

#[test]
fn earlier_unknown_error_precedes_a_failed_link_step() {
    let log = "C:\\src\\ggml\\a.cpp(12,5): error C2440: 'initializing': cannot convert from 'int' to 'X' [C:\\src\\ggml.vcxproj]\nLINK : fatal error LNK1181: cannot open input file 'ggml.lib'\n";
    let reading = read(log);
    assert_eq!(reading.causes[0].id, "link.library-missing");
    let guess = reading.guess.expect("the compiler's error");
    assert_eq!(guess.line, 1);
    assert!(guess.text.contains("C2440"), "{guess:?}");
    // A specific cause needs no guess.
    assert_eq!(
        read(
            "a.cpp(12,5): error C2440: no\nLINK : fatal error LNK1181: cannot open input file 'cublas.lib'\n"
        )
        .guess,
        None
    );
}

#[test]
fn broken_lines_are_joined() {
    let log = "C:\\Users\\user\\Desktop\\git\\app\\src\\very\\long\\ggml-x.cpp(7,10): fatal  error C1083: Cannot open include file: 'vulkan/vulkan\n.hpp': No such file or directory [C:\\Users\\user\\app.vcxproj]\n";
    assert_eq!(ids(log), ["vk.headers-missing"]);
    // The next line is a separate message.
    let log = "/home/user/project/with/a/long/path/source.cpp:7:10: fatal error: something odd that is\n/usr/bin/ld: error: cannot find -lcuda: No such file or directory\n";
    assert!(!ids(log).contains(&gpubuild_detect::id!("build.header-missing")), "{:?}", ids(log));
}

#[test]
fn end_of_memory_precedes_other_failures() {
    let log = "a.cpp:3:10: fatal error: Eigen/Dense: No such file or directory\nnvcc error   : 'cicc' died due to signal 9 (Kill signal)\nninja: build stopped: subcommand failed.\n";
    assert_eq!(ids(log), ["build.out-of-memory", "build.header-missing"]);
    let log = "k.cu(3): error: identifier \"M_PI\" is undefined\nwrite /tmp/x.o: no space left on device\n";
    assert_eq!(ids(log).first().map(|id| id.as_str()), Some("disk.full"));
}

#[test]
fn output_of_failed_checks_is_ignored() {
    let log = "Determining if the function foo exists failed with the following output:\n/usr/bin/ld: x.c:(.text+0x10): undefined reference to `cudaMalloc'\ncollect2: error: ld returned 1 exit status\nSource file was:\nint main() {}\n";
    // A log that consists of one failed check is about this check.
    assert_eq!(ids(log), ["link.cuda-runtime-undefined"]);
    let log = format!("{log}Determining if the function bar exists passed with the following output:\n");
    let log = log.as_str();
    assert_eq!(ids(log), Vec::<DiagnosticId>::new());
    let log = format!("{log}/usr/bin/ld: cannot find -lcuda\n");
    assert_eq!(ids(&log), ["cuda.stub-missing"]);
}

#[test]
fn guess_is_the_first_error_and_not_its_echo() {
    let log = "[1/3] cc a.c\nerror: could not compile `x` (lib) due to 1 previous error\nTraceback (most recent call last):\n  File \"setup.py\", line 3, in <module>\nValueError: unknown quantisation `q9`\n";
    let guess = read(log).guess.unwrap();
    assert_eq!(guess.text, "ValueError: unknown quantisation `q9`");
    let log = "thread 'main' panicked at build.rs:12:5:\nthe archive has no member `x.o`\nerror: failed to run custom build command for `y`\n";
    let guess = read(log).guess.unwrap();
    assert!(guess.text.contains("the archive has no member"), "{guess:?}");
}
