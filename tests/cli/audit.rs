//! `gpubuild audit` on binaries that the tests compile, each with one problem.

use serde_json::Value;

use crate::support::{RunResult, Sandbox, is_on_path, skip};

/// A loop that a compiler vectorizes for the instruction set it may use.
const KERNEL: &str =
    "void scale(float *x, float y, int n) { for (int i = 0; i < n; i++) x[i] = x[i] * y + 1.0f; }\n";

/// Compiles these files with `cc` in a new folder. Prints why and returns `None` if there is no `cc`.
fn compiled(files: &[(&str, &str)], commands: &[&str]) -> Option<Sandbox> {
    if !is_on_path("cc") {
        skip("cmake", "no cc");
        return None;
    }
    let sandbox = Sandbox::new();
    for (name, text) in files {
        sandbox.write(name, text);
    }
    for command in commands {
        sandbox.start(&command.split(' ').collect::<Vec<_>>()).succeeds();
    }
    Some(sandbox)
}

fn ids(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

/// The finding with an id; panics if it is missing.
#[track_caller]
fn finding<'a>(report: &'a Value, id: &str) -> &'a Value {
    let found = report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id);
    found.unwrap_or_else(|| panic!("{id} is not among {:?}", ids(report)))
}

/// Audits files and expects exactly these findings.
#[track_caller]
fn check(sandbox: &Sandbox, arguments: &[&str], exit: i32, expected: &[&str]) -> Value {
    let ran = sandbox.run(&[&["audit", "--json"], arguments].concat());
    let report = ran.json();
    assert_eq!((ran.exit, ids(&report)), (Some(exit), expected.to_vec()), "{ran:#?}");
    report
}

#[test]
fn instructions_above_the_declared_level_are_reported_by_function() {
    let commands =
        ["cc -O3 -mavx512f -c k.c -o k.o", "cc -O3 -c k.c -o plain.o", "ar rcs libk.a k.o plain.o"];
    let Some(sandbox) = compiled(&[("k.c", KERNEL)], &commands) else { return };
    check(&sandbox, &["plain.o"], 0, &[]);
    let report = check(&sandbox, &["k.o"], 1, &["audit.isa.above-promise"]);
    let found = finding(&report, "audit.isa.above-promise");
    let evidence = found["evidence"][0]["value"].as_str().unwrap();
    assert!(evidence.starts_with("scale: 0x") && evidence.contains('%'), "{evidence}");
    assert!(found["summary"].as_str().unwrap().contains("avx512f"), "{found}");
    assert!(found["remedy"]["text"].as_str().unwrap().contains("x86-64-v4"), "{found}");
    // A declared CPU level allows the instructions; in archives the member is named.
    check(&sandbox, &["k.o", "--cpu", "x86-64-v4"], 0, &[]);
    let ran = sandbox.run(&["audit", "libk.a"]);
    assert!(ran.stdout.contains("libk.a(k.o)") && ran.exit == Some(1), "{ran:#?}");
}

#[test]
fn runtime_dispatched_functions_are_accepted() {
    let clones = format!("__attribute__((target_clones(\"avx512f\", \"avx2\", \"default\")))\n{KERNEL}");
    let asks = format!(
        "__attribute__((target(\"avx2\"))) static {}\n{}int fast(float *x, float y, int n) {{\n\
         if (__builtin_cpu_supports(\"avx2\")) scale(x, y, n); else plain(x, y, n);\nreturn 0; }}\n",
        KERNEL.replace("void", "__attribute__((noinline)) void"),
        KERNEL.replace("scale", "plain")
    );
    let main = "int fast(float *, float, int); int main(int c, char **v) { float x[8]; (void)v; return fast(x, 1, c); }\n";
    let files = [("clones.c", clones.as_str()), ("asks.c", &asks), ("main.c", main)];
    let commands = ["cc -O3 -shared -fPIC clones.c -o libclones.so", "cc -O3 main.c asks.c -o asks"];
    let Some(sandbox) = compiled(&files, &commands) else { return };
    let report = check(&sandbox, &["libclones.so"], 0, &[]);
    assert_eq!(report["files"][0]["isa"]["above"], Value::Null, "{report}");
    assert!(report["files"][0]["isa"]["dispatched"].as_array().unwrap().contains(&"avx512f".into()));
    // A program cannot be judged completely without the flags of its sources: a note says so.
    check(&sandbox, &["asks"], 0, &["audit.isa.perhaps-dispatched"]);
}

#[test]
fn program_above_baseline_is_reported_despite_dispatching_libraries() {
    let mut text =
        String::from("#include <stdio.h>\nint asks(void) { return __builtin_cpu_supports(\"avx2\"); }\n");
    for index in 0..10 {
        text += &KERNEL.replace("scale", &format!("scale{index}"));
    }
    text +=
        "int main(int c, char **v) { float x[9]; (void)v; scale3(x, 2, c); return asks() + (int)x[0]; }\n";
    let Some(sandbox) = compiled(&[("p.c", &text)], &["cc -O3 -march=haswell p.c -o p"]) else { return };
    let ran = sandbox.run(&["audit", "--json", "p"]);
    let report = ran.json();
    assert!(ids(&report).contains(&"audit.isa.above-promise"), "{ran:#?}");
    assert_eq!(ran.exit, Some(1));
}

#[test]
fn library_search_paths_are_checked() {
    let commands = [
        "cc -shared -fPIC k.c -o libstub.so -Wl,-rpath,/usr/local/cuda/lib64/stubs",
        "cc -shared -fPIC k.c -o libabsolute.so -Wl,-rpath,/opt/mine/lib",
        "cc -shared -fPIC k.c -o librelative.so -Wl,-rpath,lib",
        "cc -shared -fPIC k.c -o liborigin.so -Wl,-rpath,$ORIGIN/../lib",
    ];
    let Some(sandbox) = compiled(&[("k.c", KERNEL), ("tree/CMakeCache.txt", "")], &commands) else { return };
    check(&sandbox, &["libstub.so"], 1, &["audit.rpath.stubs"]);
    check(&sandbox, &["libabsolute.so"], 0, &["audit.rpath.absolute"]);
    check(&sandbox, &["libabsolute.so", "--fail-on", "warning"], 1, &["audit.rpath.absolute"]);
    check(&sandbox, &["libabsolute.so", "--allow", "audit.rpath.*", "--fail-on", "warning"], 0, &[]);
    check(&sandbox, &["librelative.so"], 1, &["audit.rpath.relative"]);
    check(&sandbox, &["liborigin.so"], 0, &[]);
    let built = format!("-Wl,-rpath,{}", sandbox.path("tree/src").display());
    sandbox.start(&["cc", "-shared", "-fPIC", "k.c", "-o", "libbuilt.so", &built]).succeeds();
    check(&sandbox, &["libbuilt.so"], 0, &["audit.rpath.build-folder"]);
}

#[test]
fn missing_libraries_and_driver_dependencies_are_reported() {
    let commands = [
        "cc -shared -fPIC k.c -o libgone.so -Wl,-soname,libgone.so.7",
        "cc -shared -fPIC k.c -o libcuda.so -Wl,-soname,libcuda.so.1",
        "cc main.c -o needs -L. -lgone -Wl,-rpath,$ORIGIN",
        "cc main.c -o driver -L. -Wl,--no-as-needed -lcuda -Wl,-rpath,$ORIGIN",
    ];
    let main = "void scale(float *, float, int); int main(int c, char **v) { float x[1]; (void)v; scale(x, 1, c); return 0; }\n";
    let Some(sandbox) = compiled(&[("k.c", KERNEL), ("main.c", main)], &commands) else { return };
    let report = check(&sandbox, &["needs"], 1, &["audit.needed.missing"]);
    assert!(finding(&report, "audit.needed.missing")["summary"].as_str().unwrap().contains("libgone.so.7"));
    sandbox.start(&["cp", "libgone.so", "libgone.so.7"]).succeeds();
    check(&sandbox, &["needs"], 0, &[]);
    // Hosts with the hardware have the driver; the program does not start on others, so this is a warning.
    check(&sandbox, &["driver"], 0, &["audit.needed.driver"]);
}

/// Python has loaded PyTorch's libraries before it loads an extension.
#[test]
fn libraries_of_pytorch_are_not_missing_in_its_extensions() {
    let commands = [
        "cc -shared -fPIC k.c -o libtorch_cpu.so",
        "cc -shared -fPIC k.c -o libgone.so",
        "cc -shared -fPIC k.c -o libextension.so -L. -Wl,--no-as-needed -ltorch_cpu -lgone",
        "rm libtorch_cpu.so libgone.so",
    ];
    let Some(sandbox) = compiled(&[("k.c", KERNEL), ("CMakeLists.txt", "")], &commands) else { return };
    check(&sandbox, &["libextension.so"], 1, &["audit.needed.missing", "audit.needed.missing"]);
    let project = "schema = 1\n[project]\nname = \"p\"\nsource = \".\"\nprofile = \"torch-extension\"\n";
    sandbox.write("gpubuild.toml", project);
    let report = check(&sandbox, &["libextension.so"], 1, &["audit.needed.missing"]);
    assert!(finding(&report, "audit.needed.missing")["summary"].as_str().unwrap().contains("libgone.so"));
}

#[test]
fn glibc_symbol_versions_are_checked_against_the_minimum() {
    let text = "#include <pthread.h>\nstatic void *f(void *x) { return x; }\nint main(void) { pthread_t t; return pthread_create(&t, 0, f, 0); }\n";
    let Some(sandbox) = compiled(&[("p.c", text)], &["cc p.c -o p -pthread"]) else { return };
    let report = check(&sandbox, &["p"], 0, &[]);
    let Some(needs) = report["files"][0]["glibc"].as_str().filter(|version| *version >= "2.34") else {
        skip("glibc", "this C library has no symbol versions from 2.34 on");
        return;
    };
    check(&sandbox, &["p", "--glibc", needs], 0, &[]);
    let report = check(&sandbox, &["p", "--glibc", "2.28"], 1, &["audit.libc.above-floor"]);
    let evidence = report["findings"][0]["evidence"].to_string();
    assert!(evidence.contains("pthread_create"), "{evidence}");
    assert_eq!(sandbox.run(&["audit", "p", "--glibc", "new"]).exit, Some(2));
}

#[test]
fn writable_executable_memory_is_reported() {
    let asm = ".globl fixed\n.text\nfixed: movq table, %rax\n ret\n.data\ntable: .quad 0\n";
    let commands = [
        "cc -shared -fPIC k.c -o libstack.so -Wl,-z,execstack",
        "cc -c fixed.s -o fixed.o",
        "cc -nostdlib -static -no-pie main.c -o rwx -Wl,-N",
        "cc -shared fixed.o -o libtext.so -Wl,-z,notext",
    ];
    let files = [("k.c", KERNEL), ("fixed.s", asm), ("main.c", "void _start(void) { for (;;) {} }\n")];
    let Some(sandbox) = compiled(&files, &commands[..3]) else { return };
    check(&sandbox, &["libstack.so"], 1, &["audit.segments.executable-stack"]);
    let report = check(&sandbox, &["fixed.o"], 1, &["audit.code.not-pic"]);
    assert!(report["findings"][0]["evidence"][0]["value"].as_str().unwrap().contains("R_X86_64_32"));
    let report = sandbox.run(&["audit", "--json", "rwx"]).json();
    finding(&report, "audit.segments.writable-code");
    // 64-bit linkers reject 32-bit text relocations; on request they emit them for 64-bit addresses.
    sandbox
        .write("fixed.s", ".globl fixed\n.text\nfixed: movabsq $table, %rax\n ret\n.data\ntable: .quad 0\n");
    sandbox.start(&["cc", "-c", "fixed.s", "-o", "fixed.o"]).succeeds();
    sandbox.start(&commands[3].split(' ').collect::<Vec<_>>()).succeeds();
    finding(&sandbox.run(&["audit", "--json", "libtext.so"]).json(), "audit.code.text-relocations");
}

#[test]
fn size_symbols_and_debug_information_are_reported() {
    let commands = ["cc -g -c k.c -o a.o", "cc -c k.c -o b.o", "ar rcs liba.a a.o", "ar rcs libb.a b.o"];
    let Some(sandbox) = compiled(&[("k.c", KERNEL)], &commands) else { return };
    let report =
        check(&sandbox, &["liba.a", "libb.a"], 1, &["audit.symbols.duplicate", "audit.contents.debug-info"]);
    assert!(report["findings"][0]["summary"].as_str().unwrap().contains("`scale`"), "{report}");
    check(&sandbox, &["libb.a", "--max-size", "100B"], 1, &["audit.size.over-budget"]);
    check(&sandbox, &["libb.a", "--max-size", "1MiB"], 0, &[]);
}

#[test]
fn mixed_msvc_runtimes_are_reported() {
    let cc = "x86_64-w64-mingw32-gcc";
    if !is_on_path(cc) {
        skip("mingw", "no compiler for Windows");
        return;
    }
    // The directives that MSVC writes for /MT and /MD.
    let object = |library: &str| {
        format!(
            "__asm__(\".section .drectve,\\\"yn\\\"\\n.ascii \\\" /DEFAULTLIB:\\\\\\\"{library}\\\\\\\" /DEFAULTLIB:OLDNAMES \\\"\\n.text\");\n{KERNEL}"
        )
    };
    let files = [("mt.c", object("LIBCMT")), ("md.c", object("MSVCRT"))];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let compile = |name: &str| format!("{cc} -c {name}.c -o {name}.obj");
    let commands = [compile("mt"), compile("md")];
    let Some(sandbox) = compiled(&files, &commands.each_ref().map(String::as_str)) else { return };
    let report = check(&sandbox, &["mt.obj"], 0, &[]);
    assert_eq!(report["files"][0]["runtimes"], serde_json::json!(["/MT"]));
    let report = check(&sandbox, &["mt.obj", "md.obj"], 1, &["audit.crt.mixed"]);
    assert!(report["findings"][0]["summary"].as_str().unwrap().contains("/MT and /MD"), "{report}");
}

#[test]
fn aarch64_instructions_are_grouped_by_feature() {
    let cc = "aarch64-linux-gnu-gcc";
    if !is_on_path(cc) {
        skip("aarch64", "no compiler for AArch64");
        return;
    }
    let text = "#include <arm_neon.h>\nint32x4_t dot(int32x4_t a, int8x16_t b, int8x16_t c) { return vdotq_s32(a, b, c); }\n";
    let sve = "#include <arm_sve.h>\nsvfloat32_t add(svfloat32_t a, svfloat32_t b) { return svadd_f32_x(svptrue_b32(), a, b); }\n";
    let (plain, dot) =
        (format!("{cc} -O3 -c k.c -o k.o"), format!("{cc} -O2 -march=armv8.2-a+dotprod -c dot.c -o dot.o"));
    let vector = format!("{cc} -O2 -march=armv8.2-a+sve -c sve.c -o sve.o");
    let files = [("k.c", KERNEL), ("dot.c", text), ("sve.c", sve)];
    let Some(sandbox) = compiled(&files, &[&plain, &dot, &vector]) else { return };
    check(&sandbox, &["k.o"], 0, &[]);
    for (name, feature) in [("dot.o", "dotprod"), ("sve.o", "sve")] {
        let report = check(&sandbox, &[name], 1, &["audit.isa.above-promise"]);
        assert_eq!(report["files"][0]["isa"]["above"], serde_json::json!([feature]), "{report}");
    }
    check(&sandbox, &["dot.o", "--cpu", "armv8.2-a+dotprod"], 0, &[]);
}

/// A project with one library whose CMakeLists.txt ends with `lines`.
fn project(lines: &str, sources: &[(&str, &str)]) -> Option<Sandbox> {
    let sandbox = Sandbox::with_library()?;
    for (name, text) in sources {
        sandbox.write(&format!("vendor/{name}"), text);
    }
    let names: Vec<&str> = sources.iter().map(|(name, _)| *name).collect();
    let names = names.join(" ");
    sandbox.write(
        "vendor/CMakeLists.txt",
        &format!(
            "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\nset(CMAKE_C_FLAGS_RELEASE -O3)\n\
             add_library(adder STATIC adder.c {names})\n{lines}\n"
        ),
    );
    Some(sandbox)
}

fn built(sandbox: &Sandbox) -> RunResult {
    let built = sandbox.run(&["build"]);
    built.succeeds();
    built
}

#[test]
fn build_reports_global_flags_above_the_declared_level() {
    let fixed = "target_compile_options(adder PRIVATE -mavx2)";
    let Some(sandbox) = project(fixed, &[("kernel.c", KERNEL)]) else { return };
    built(&sandbox).says(&["audit.isa.above-promise", "gpubuild audit"]);
    let report = check(&sandbox, &[], 1, &["audit.isa.above-promise"]);
    assert!(report["findings"][0]["summary"].as_str().unwrap().contains("`scale`"), "{report}");
    // The project file may declare a higher level.
    let toml = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{toml}[audit]\ncpu = \"x86-64-v3\"\n"));
    check(&sandbox, &[], 0, &[]);
    sandbox.write("gpubuild.toml", &format!("{toml}[audit]\ncpu = \"pentium\"\n"));
    sandbox.run(&["audit"]).fails(2, "audit.cpu-unknown");
}

#[test]
fn per_source_flags_with_cpu_detection_count_as_dispatch() {
    let own = "set_source_files_properties(fast.c PROPERTIES COMPILE_OPTIONS -mavx2)";
    let asks = "int asks(void) { return __builtin_cpu_supports(\"avx2\"); }\n";
    let Some(sandbox) = project(own, &[("fast.c", KERNEL), ("asks.c", asks)]) else { return };
    let ran = built(&sandbox);
    assert!(!ran.stderr.contains("audit."), "{ran:#?}");
    let report = check(&sandbox, &[], 0, &[]);
    assert!(report["files"][0]["isa"]["dispatched"].as_array().unwrap().contains(&"avx".into()), "{report}");
    let Some(sandbox) = project(own, &[("fast.c", KERNEL)]) else { return };
    built(&sandbox);
    check(&sandbox, &[], 0, &["audit.isa.unguarded"]);
}

#[test]
fn build_reports_an_implicit_march_native() {
    if !std::is_x86_feature_detected!("avx") {
        skip("avx", "this CPU has no instructions above the baseline");
        return;
    }
    let forced = "set(CMAKE_C_FLAGS \"-march=native\" CACHE STRING \"\" FORCE)";
    let Some(sandbox) = project("", &[("kernel.c", KERNEL)]) else { return };
    let lists = sandbox.read("vendor/CMakeLists.txt");
    sandbox.write("vendor/CMakeLists.txt", &lists.replace("add_library", &format!("{forced}\nadd_library")));
    built(&sandbox).says(&["audit.isa.native"]);
    check(&sandbox, &[], 0, &["audit.isa.native"]);
    // For requested flags the build reports nothing; the audit still reports the file.
    sandbox.write("vendor/CMakeLists.txt", &lists);
    let toml = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{toml}options = {{ CMAKE_C_FLAGS = \"-march=native\" }}\n"));
    let ran = built(&sandbox);
    assert!(!ran.stderr.contains("audit."), "{ran:#?}");
    check(&sandbox, &[], 0, &["audit.isa.native"]);
}

#[test]
fn shadowing_library_of_another_build_is_reported() {
    let lines = "add_library(user SHARED user.c)\ntarget_link_libraries(user PRIVATE adder)\nset_target_properties(adder PROPERTIES POSITION_INDEPENDENT_CODE ON)";
    let user = "double add(double); double twice(double x) { return add(add(x)); }\n";
    let Some(sandbox) = project("", &[]) else { return };
    sandbox.write("vendor/user.c", user);
    sandbox.write(
        "vendor/CMakeLists.txt",
        &format!(
            "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\nadd_library(adder SHARED adder.c)\n\
             target_link_libraries(adder PUBLIC m)\n{lines}\n"
        ),
    );
    let toml = sandbox.read("gpubuild.toml").replace("[\"adder\"]", "[\"adder\", \"user\"]");
    sandbox.write("gpubuild.toml", &toml);
    built(&sandbox);
    let rpaths = "audit.rpath.build-folder";
    check(&sandbox, &["--allow", rpaths], 0, &[]);
    sandbox.write("other/x.c", &format!("{KERNEL}double add(double x) {{ return x; }}\n"));
    sandbox.start(&["cc", "-shared", "-fPIC", "other/x.c", "-o", "other/libadder.so"]).succeeds();
    let mut command = sandbox.command();
    let other = sandbox.path("other");
    let ran =
        command.env("LD_LIBRARY_PATH", &other).args(["audit", "--json", "--allow", rpaths]).output().unwrap();
    let ran = RunResult::from(ran);
    assert_eq!((ran.exit, ids(&ran.json())), (Some(1), vec!["audit.needed.other-copy"]), "{ran:#?}");
}

#[test]
fn dependency_with_a_path_is_reported() {
    let main = "void scale(float *, float, int); int main(int c, char **v) { float x[1]; (void)v; scale(x, 1, c); return 0; }\n";
    let commands = ["cc -shared -fPIC k.c -o libplain.so"];
    let Some(sandbox) = compiled(&[("k.c", KERNEL), ("main.c", main)], &commands) else { return };
    let library = sandbox.path("libplain.so");
    sandbox.start(&["cc", "main.c", library.to_str().unwrap(), "-o", "main"]).succeeds();
    check(&sandbox, &["main"], 1, &["audit.needed.absolute"]);
}

#[test]
fn audit_without_build_or_files_is_an_error() {
    Sandbox::new().run(&["audit"]).fails(2, "project.not-found");
    Sandbox::with_project("cmake").run(&["audit"]).fails(2, "manifest.missing");
    let sandbox = Sandbox::new();
    sandbox.write("x.txt", "hello");
    check(&sandbox, &["x.txt", "gone.so"], 1, &["audit.file.unreadable", "audit.file.unreadable"]);
    sandbox.run(&["audit", "x.txt", "--allow", "audit.nothing"]).fails(2, "audit.allow-unknown");
}

/// The file is larger than any that is kept in memory, but has only the tables and the code of a small one.
#[cfg(target_os = "linux")]
#[test]
fn large_libraries_are_read_in_parts() {
    let Some(sandbox) = compiled(&[("k.c", KERNEL)], &["cc -shared -fPIC k.c -o liblarge.so"]) else {
        return;
    };
    let library = std::fs::File::options().write(true).open(sandbox.path("liblarge.so")).unwrap();
    library.set_len(5 << 30).unwrap();
    let report = check(&sandbox, &["liblarge.so"], 0, &[]);
    assert_eq!(report["files"][0]["bytes"], 5_u64 << 30);
}
