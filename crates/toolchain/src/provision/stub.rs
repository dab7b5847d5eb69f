//! Builds a stub library for linking: it defines the functions that headers declare, without an implementation.
//!
//! The driver installs its own library, so a machine without a driver has no library to link with. A program that is
//! linked with the stub loads the driver's library at run time.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use gpubuild_host::{Command, Host, HostPath, ReadFiles, find_program};
use gpubuild_plan::target::Target;
use gpubuild_plan::wheels::TargetWheels;
use regex_lite::Regex;

use super::kit::Stub;

/// Timeout of the compiler for about two thousand empty functions.
const DEADLINE: Duration = Duration::from_secs(120);

/// C compilers in order of preference.
const COMPILERS: [&str; 3] = ["cc", "gcc", "clang"];

/// The first installed C compiler; for a target, GCC for it.
#[must_use]
pub(super) fn compiler(host: &dyn ReadFiles, target: Option<&TargetWheels>) -> Option<HostPath> {
    let find = |name: &str| find_program(host, name).into_iter().next();
    match target {
        Some(target) => find(&Target::of_triple(&target.triple).gcc_program("gcc")),
        None => COMPILERS.iter().find_map(|name| find(name)),
    }
}

/// The compiler in messages.
#[must_use]
pub(super) fn compiler_name(target: Option<&TargetWheels>) -> String {
    target.map_or_else(|| "C compiler".to_owned(), |target| format!("GCC for {}", target.triple))
}

/// Builds the library in a prefix. `Err` contains text for a note: the toolkit works without the library, except for
/// linking with the driver's library.
pub(super) fn make(
    host: &dyn Host,
    stub: &Stub,
    prefix: &HostPath,
    target: Option<&TargetWheels>,
) -> Result<(), String> {
    let compiler = compiler(host, target).ok_or_else(|| format!("no {} was found", compiler_name(target)))?;
    let mut text = String::new();
    for header in &stub.headers {
        if let Ok(content) = host.read_text(&prefix.join(header)) {
            text.push_str(&content);
        }
    }
    let names = functions(&text, stub);
    if names.is_empty() {
        return Err(format!("no function was found in {}", stub.headers.join(", ")));
    }
    let library = prefix.join(&stub.library);
    let source = library.parent().unwrap_or_else(|| prefix.clone()).join("stub.c");
    host.write(&source, source_text(&names, stub.answer).as_bytes()).map_err(|error| error.to_string())?;
    let command = Command::new(compiler.as_str(), DEADLINE)
        .args(["-shared", "-fPIC", "-nostdlib", "-w", &format!("-Wl,-soname,{}", stub.soname)])
        .args(["-o", library.as_str(), source.as_str()]);
    let output = host.run(&command);
    // A leftover source file is harmless.
    let _ = host.remove(&source);
    match output {
        Ok(output) if output.success() => Ok(()),
        Ok(output) => Err(output.stderr.lines().next().unwrap_or("the C compiler failed").to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The symbol names of the functions that headers declare.
fn functions(headers: &str, stub: &Stub) -> BTreeSet<String> {
    let Ok(pattern) = Regex::new(&stub.function) else { return BTreeSet::new() };
    let mut names = BTreeSet::new();
    for found in pattern.captures_iter(headers) {
        let Some(name) = found.get(1) else { continue };
        names.insert(name.as_str().to_owned());
        for suffix in &stub.suffixes {
            names.insert(format!("{}{suffix}", name.as_str()));
        }
    }
    names
}

fn source_text(names: &BTreeSet<String>, answer: i32) -> String {
    let mut text = String::new();
    for name in names {
        let _ = writeln!(text, "int {name}(void) {{ return {answer}; }}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provision::kit;

    #[test]
    fn all_symbol_names_are_found_in_headers() {
        let stub = kit::embedded().kits["cuda"].stub.as_ref().unwrap();
        let header = "\
#define cuMemAlloc                          cuMemAlloc_v2
    #define cuMemcpy                        __CUDA_API_PTDS(cuMemcpy)
    #define cuEventElapsedTime              cuEventElapsedTime_v2
#define CUDA_VERSION 13000
typedef CUresult (CUDAAPI *CUhostFn)(void *);
typedef struct CUctx_st *CUcontext;
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
CUresult CUDAAPI
    cuLaunchKernel(CUfunction f);
";
        let names = functions(header, stub);
        for name in [
            "cuInit",
            "cuMemAlloc",
            "cuMemAlloc_v2",
            "cuMemcpy_ptds",
            "cuEventElapsedTime_v2",
            "cuLaunchKernel",
            "cuLaunchKernel_ptsz",
        ] {
            assert!(names.contains(name), "{name} in {names:?}");
        }
        assert!(names.iter().all(|name| name.starts_with("cu") && !name.starts_with("cuda")), "{names:?}");
        assert!(source_text(&names, 34).contains("int cuInit(void) { return 34; }\n"));
    }
}
