use gpubuild_detect::finding::Findings;

use super::*;

fn read(log: &str) -> LogReading {
    Signatures::embedded().read(log.as_bytes())
}

#[track_caller]
fn ids(log: &str) -> Vec<DiagnosticId> {
    read(log).causes.into_iter().map(|cause| cause.id).collect()
}

#[test]
fn every_sample_is_recognised_by_its_own_signature_first() {
    let all = Signatures::embedded();
    let mut wrong = Vec::new();
    for (at, signature) in all.iter().enumerate() {
        if let Err(error) = regex_lite::Regex::new(&signature.pattern) {
            wrong.push(format!("{at} {}: {error}", signature.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (at, signature) in all.iter().enumerate() {
        let found = all.read(signature.sample.as_bytes()).causes;
        match found.first() {
            Some(first) if first.id == signature.id => {}
            first => wrong.push(format!(
                "{at} {}: {:?}",
                signature.id,
                first.map(|cause| (&cause.id, &cause.text))
            )),
        }
        // The signature itself must match, not only another one of the same finding.
        let alone = Signatures::new(vec![signature.clone()]).read(signature.sample.as_bytes());
        if alone.causes.is_empty() {
            wrong.push(format!("{at} {} does not match its own sample", signature.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all.iter().count() >= 200);
}

#[test]
fn every_id_is_in_the_catalogue_and_every_entry_has_a_signature() {
    let findings = Findings::embedded();
    let used: BTreeSet<&str> = Signatures::embedded().iter().map(|signature| signature.id.as_str()).collect();
    let missing: Vec<&&str> = used.iter().filter(|id| findings.get(id).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let build = findings.families().iter().find(|family| family.family == "build").unwrap();
    let unused: Vec<&String> = build
        .findings
        .keys()
        .filter(|id| !used.contains(id.as_str()) && id.as_str() != UNRECOGNISED.as_str())
        .collect();
    assert!(unused.is_empty(), "findings without a signature: {unused:?}");
}

/// Each signature captures all values that the summary and remedy of its finding use, unless it has its own summary or remedy.
#[test]
fn placeholders_of_all_findings_are_filled() {
    let findings = Findings::embedded();
    let mut unfilled = Vec::new();
    for signature in Signatures::embedded().iter() {
        let Some((family, entry)) = findings.find(&signature.id) else { continue };
        let cause = &read(&signature.sample).causes[0];
        if family.family != "build" {
            continue;
        }
        let summary = signature.summary.as_ref().or(entry.summary.as_ref());
        if summary.is_some_and(|text| signature::fill(text, &cause.values).is_none()) {
            unfilled.push(format!("{}: {summary:?} {:?}", signature.id, cause.values));
        }
        let fixes = [signature::fill(&entry.fix, &cause.values), cause.fix.clone()];
        if fixes.iter().all(Option::is_none) {
            unfilled.push(format!("{}: {} {:?}", signature.id, entry.fix, cause.values));
        }
    }
    assert!(unfilled.is_empty(), "{}", unfilled.join("\n"));
}

#[test]
fn every_pattern_has_indexable_literals() {
    for one in &Signatures::embedded().list {
        let shortest = one.literals.iter().map(String::len).min();
        assert!(shortest.is_some_and(|length| length >= 5), "{}: {:?}", one.signature.pattern, one.literals);
    }
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
        "",
        "\n\n",
    ] {
        assert_eq!(ids(log), Vec::<String>::new(), "{log}");
    }
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
    assert_eq!(reading.first_error.as_deref(), Some("a.c:3:5: no member named 'x' in 'struct y'"));
    assert_eq!(read("all is well\n").first_error, None);
    assert_eq!(read("all is well\n").lines, 1);
}

#[test]
fn captured_values_fill_the_templates_of_signatures() {
    for signature in Signatures::embedded().iter() {
        let cause = &read(&signature.sample).causes[0];
        assert_eq!(cause.summary.is_some(), signature.summary.is_some(), "{}", signature.pattern);
        assert_eq!(cause.fix.is_some(), signature.fix.is_some(), "{}", signature.pattern);
    }
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
