//! Translates the arguments of GCC, nvcc, hipcc and MSVC to those of clang.

use gpubuild_host::ReadFiles;
use gpubuild_plan::artifacts::{BuiltTree, Compiler};

use crate::exec::editor::{EditorInfo, SourceGroup};

/// The newest GPU architecture that clang 14 knows. It cannot parse a file at all if the architecture is unknown.
const NEWEST_KNOWN: u32 = 86;

/// GCC's `omp.h` has attributes of the form `malloc (function, number)`, which clang rejects.
const PLAIN_MALLOC: &str = "-D__malloc__(...)=__malloc__";

/// Starts of GCC's arguments that clang rejects or that only change code generation across files.
const GCC_ONLY: [&str; 14] = [
    "-fanalyzer",
    "-fcompare-debug",
    "-fconcepts",
    "-fdiagnostics-all-candidates",
    "-ffat-lto-objects",
    "-flto",
    "-fmax-errors=",
    "-fmodules-ts",
    "-fno-fat-lto-objects",
    "-fno-gnu-unique",
    "-fno-lifetime-dse",
    "-fno-lto",
    "-fopenacc",
    "-foffload",
];

/// Arguments of nvcc whose value may be the next word, without those for the host compiler. Names after one dash are accepted
/// with two as well.
const NVCC_WITH_VALUE: [&str; 44] = [
    "-Werror",
    "-Xarchive",
    "-Xcudafe",
    "-Xfatbin",
    "-Xlinker",
    "-Xnvlink",
    "-Xptxas",
    "-arch",
    "-archive-options",
    "-ccbin",
    "-code",
    "-compiler-bindir",
    "-compress-mode",
    "-cudadevrt",
    "-cudart",
    "-default-stream",
    "-diag-error",
    "-diag-suppress",
    "-diag-warn",
    "-fatbin-options",
    "-fmad",
    "-ftz",
    "-gencode",
    "-generate-code",
    "-gpu-architecture",
    "-gpu-code",
    "-jobserver",
    "-jump-table-density",
    "-linker-options",
    "-maxrregcount",
    "-nvlink-options",
    "-odir",
    "-optf",
    "-options-file",
    "-prec-div",
    "-prec-sqrt",
    "-ptxas-options",
    "-rdc",
    "-relocatable-device-code",
    "-split-compile",
    "-std-prefix",
    "-t",
    "-threads",
    "-x",
];

/// Arguments of the host compiler that nvcc passes on, or reads in the same sense as clang.
const HOST_STARTS: [&str; 13] = [
    "-D",
    "-U",
    "-I",
    "-O",
    "-W",
    "-f",
    "-g",
    "-idirafter",
    "-include",
    "-isystem",
    "-m",
    "-pthread",
    "-std=",
];

/// Arguments of nvcc that start like one of the host compiler.
const NVCC_ONLY: [&str; 8] = [
    "-fatbin",
    "-fdevice-",
    "-forward-unknown-",
    "-gen-opt-lto",
    "-minimal",
    "-Ofast-compile",
    "-Wno-deprecated-gpu-targets",
    "-Wreorder",
];

/// Arguments with a separate value that clang reads as the host compiler does.
const HOST_WITH_VALUE: [&str; 6] = ["-D", "-U", "-I", "-idirafter", "-include", "-isystem"];

/// Returns the compiler and all arguments except the source.
pub(super) fn of(
    host: &dyn ReadFiles,
    tree: &BuiltTree,
    editor: &EditorInfo,
    group: &SourceGroup,
) -> Vec<String> {
    let compiler = group.compiler.as_ref().or_else(|| tree.compilers.get(&group.language));
    let id = compiler.map_or("", |compiler| compiler.id.as_str());
    let mut words = if id == "NVIDIA" {
        cuda(host, tree, compiler, &group.flags)
    } else {
        let path = compiler.map_or_else(|| fallback(&group.language), |compiler| compiler.path.clone());
        let mut words = vec![path];
        words.extend(
            language(&group.language).map(str::to_owned).into_iter().flat_map(|it| ["-x".to_owned(), it]),
        );
        words.extend(group.flags.iter().filter(|flag| !is_rejected(flag)).cloned());
        words
    };
    if !id.contains("Clang") && id != "MSVC" {
        words.push("-Wno-unknown-warning-option".to_owned());
        if !words.iter().any(|word| word.starts_with("-std=")) {
            words.extend(standard(group, compiler).map(|number| format!("-std={number}")));
        }
    }
    words.extend(group.defines.iter().map(|define| format!("-D{define}")));
    for folder in &group.includes {
        match (folder.system, id) {
            (false, _) => words.push(format!("-I{}", folder.path)),
            (true, "MSVC") => words.extend(["-imsvc".to_owned(), folder.path.clone()]),
            (true, _) => words.extend(["-isystem".to_owned(), folder.path.clone()]),
        }
    }
    words.extend(group.sysroot.iter().map(|folder| format!("--sysroot={folder}")));
    words.extend(openmp(editor, group, &words));
    words
}

/// The standard of sources without a flag for it, where clang's default may differ from that of GCC and nvcc.
fn standard(group: &SourceGroup, compiler: Option<&Compiler>) -> Option<String> {
    let Compiler { id, version, .. } = compiler?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    let by_default = match (group.language.as_str(), id.as_str()) {
        ("C", "GNU") | ("CUDA", "NVIDIA") => "17",
        ("CXX", "GNU") if major >= 16 => "20",
        ("CXX", "GNU") if major >= 11 => "17",
        ("CXX", "GNU") => "14",
        _ => return None,
    };
    let number = group.standard.as_deref().unwrap_or(by_default);
    Some(if group.language == "C" { format!("gnu{number}") } else { format!("gnu++{number}") })
}

fn fallback(language: &str) -> String {
    if matches!(language, "C" | "OBJC") { "clang" } else { "clang++" }.to_owned()
}

/// The value of `-x` for a language that clang does not infer from all names of its sources.
fn language(language: &str) -> Option<&'static str> {
    match language {
        "CUDA" => Some("cuda"),
        "HIP" => Some("hip"),
        _ => None,
    }
}

fn is_rejected(flag: &str) -> bool {
    // hipcc has this argument, clang does not.
    GCC_ONLY.iter().any(|start| flag.starts_with(start)) || flag.starts_with("-parallel-jobs")
}

/// GCC's own header folder after all others: clang finds `omp.h` there unless LLVM's is installed.
fn openmp(editor: &EditorInfo, group: &SourceGroup, words: &[String]) -> Vec<String> {
    if !words.iter().any(|word| word == "-fopenmp") {
        return Vec::new();
    }
    let host_language = if group.language == "C" { "C" } else { "CXX" };
    let folders = editor.implicit.get(host_language).into_iter().flatten();
    let own = folders.filter(|folder| folder.contains("/gcc/") && folder.ends_with("/include"));
    own.flat_map(|folder| [PLAIN_MALLOC.to_owned(), "-idirafter".to_owned(), folder.clone()]).collect()
}

/// The arguments of nvcc for clang: the toolkit, one GPU architecture, and what concerns the host compiler.
fn cuda(
    host: &dyn ReadFiles,
    tree: &BuiltTree,
    compiler: Option<&Compiler>,
    flags: &[String],
) -> Vec<String> {
    let mut words = ["clang++", "-x", "cuda"].map(str::to_owned).to_vec();
    let root = tree.cache.get("CUDAToolkit_ROOT").filter(|root| !root.is_empty()).cloned();
    let beside = || host.path(&compiler?.path).parent()?.parent().map(|root| root.to_string());
    words.extend(root.or_else(beside).map(|root| format!("--cuda-path={root}")));
    let (kept, newest) = read_nvcc(flags);
    words.extend(newest.map(|number| format!("--cuda-gpu-arch=sm_{}", number.min(NEWEST_KNOWN))));
    // The installed clang may be older than the toolkit.
    words.extend(["--no-cuda-version-check", "-Wno-unknown-cuda-version"].map(str::to_owned));
    words.extend(kept.into_iter().filter(|word| !is_rejected(word)));
    words
}

/// Returns the arguments that clang understands, and the number of the newest GPU architecture.
fn read_nvcc(flags: &[String]) -> (Vec<String>, Option<u32>) {
    let (mut kept, mut newest) = (Vec::new(), None);
    let mut rest = flags.iter();
    while let Some(flag) = rest.next() {
        let short = flag.strip_prefix('-').filter(|flag| flag.starts_with('-')).unwrap_or(flag);
        let (name, mut value) = match short.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (short, None),
        };
        let is_for_host = matches!(name, "-Xcompiler" | "-compiler-options");
        let takes_value = is_for_host || NVCC_WITH_VALUE.contains(&name);
        if takes_value && value.is_none() {
            value = rest.next().cloned();
        }
        match (name, value) {
            (_, Some(value)) if is_for_host => kept.extend(value.split(',').map(str::to_owned)),
            (
                "-gencode" | "-generate-code" | "-arch" | "-gpu-architecture" | "-code" | "-gpu-code",
                Some(value),
            ) => {
                newest = newest.max(newest_architecture(&value));
            }
            ("-rdc" | "-relocatable-device-code", Some(value)) if value == "true" => {
                kept.push("-fgpu-rdc".to_owned());
            }
            _ if takes_value => {}
            _ if HOST_WITH_VALUE.contains(&short) => {
                kept.push(short.to_owned());
                kept.extend(rest.next().cloned());
            }
            _ if is_for_clang(short) => kept.push(short.to_owned()),
            _ => {}
        }
    }
    (kept, newest)
}

fn is_for_clang(flag: &str) -> bool {
    HOST_STARTS.iter().any(|start| flag.starts_with(start))
        && !NVCC_ONLY.iter().any(|start| flag.starts_with(start))
}

/// The highest number in `arch=compute_80,code=[compute_80,sm_86]`, without the letters of `sm_90a`.
fn newest_architecture(value: &str) -> Option<u32> {
    let names = value.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let numbers = names.filter_map(|name| name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_")));
    numbers.filter_map(|number| number.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(nvcc: &str, clang: &str, newest: Option<u32>) {
        let flags: Vec<String> = nvcc.split(' ').map(str::to_owned).collect();
        let (kept, found) = read_nvcc(&flags);
        assert_eq!((kept.join(" ").as_str(), found), (clang, newest), "{nvcc}");
    }

    #[test]
    fn nvcc_arguments_are_translated() {
        check("-forward-unknown-to-host-compiler -O3 -DNDEBUG -std=c++17", "-O3 -DNDEBUG -std=c++17", None);
        let archs =
            "--generate-code=arch=compute_75,code=[compute_75,sm_75] -gencode arch=compute_90a,code=sm_90a";
        check(archs, "", Some(90));
        check("-arch sm_120f -code=sm_120f", "", Some(120));
        check(
            "-Xcompiler=-fPIC -Xcompiler -Wall,-mavx2 --compiler-options -fopenmp",
            "-fPIC -Wall -mavx2 -fopenmp",
            None,
        );
        check(
            "--options-file a.rsp -rdc=true -dc --relocatable-device-code true",
            "-fgpu-rdc -fgpu-rdc",
            None,
        );
        check("--expt-relaxed-constexpr -extended-lambda -use_fast_math -lineinfo -G", "", None);
        check(
            "-Xptxas -v -Xcudafe --display_error_number -diag-suppress 177 -t 4 -maxrregcount=64 -Werror all-warnings",
            "",
            None,
        );
        check(
            "-fmad=false -fPIC -fdevice-time-trace=x -Wno-deprecated-gpu-targets -Wall -m64",
            "-fPIC -Wall -m64",
            None,
        );
        check(
            "-D X=1 -I a -isystem b --std=c++20 -pthread -compress-mode=size",
            "-D X=1 -I a -isystem b -std=c++20 -pthread",
            None,
        );
    }
}
