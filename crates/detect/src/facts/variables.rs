//! Variables whose value leads nowhere, from `toolkits/tables/variables.toml`.

use std::sync::OnceLock;

use gpubuild_core::arch::torch::is_torch_word;
use gpubuild_core::backend::Backend;
use gpubuild_host::search::find_program;
use gpubuild_host::{HostPath, InspectHost, Os};
use gpubuild_toml::Lazy;
use gpubuild_toolkits::tables;
use serde::Deserialize;

use crate::diagnostic::DiagnosticId;
use crate::facts::is_on;
use crate::finding::Affects;
use crate::id;

/// Programs that start a compiler: the word after them is the compiler.
const LAUNCHERS: [&str; 5] = ["ccache", "sccache", "distcc", "icecc", "buildcache"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VariableTable {
    /// The names of all rows.
    known: Vec<String>,
    variable: Lazy<Vec<VariableRow>>,
    generator: Lazy<Vec<GeneratorRow>>,
}

/// A group of variables with the same meaning.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableRow {
    /// Their names.
    pub names: Vec<String>,
    is: Target,
    /// The programs that read them, for messages.
    pub reader: String,
    /// The backend that they concern; every backend if `None`.
    pub backend: Option<Backend>,
    /// What stops working.
    #[serde(default = "build")]
    pub affects: Affects,
    /// Whether their readers stop with an error. Otherwise they search elsewhere, or go without.
    #[serde(default)]
    pub blocks: bool,
    /// What they should name: `c`, `cxx`, `nvcc-host`, a toolkit, or `toolkit:part`.
    #[serde(rename = "use")]
    pub right: Option<String>,
    /// The finding that reports them, if it is not that of all values of this kind.
    finding: Option<DiagnosticId>,
    #[serde(default)]
    on: Vec<Os>,
    /// Where this is documented.
    pub source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GeneratorRow {
    names: Vec<String>,
    programs: Vec<String>,
    #[serde(default)]
    on: Vec<Os>,
    #[serde(rename = "source")]
    _source: String,
}

fn build() -> Affects {
    Affects::Build
}

/// What a value must lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Target {
    Program,
    Compiler,
    Flags,
    File,
    Folder,
    Place,
    Places,
    Archs,
    TorchArchs,
    Generator,
}

/// A variable whose value leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongVariable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The part of the value that leads nowhere.
    pub part: String,
    /// The problem, as the end of a sentence that starts with name and part.
    pub why: String,
    /// The finding that reports it.
    pub id: DiagnosticId,
    /// The programs that read the variable.
    pub reader: &'static str,
    /// The backend that it concerns; every backend if `None`.
    pub backend: Option<Backend>,
    /// What stops working.
    pub affects: Affects,
    /// Whether its readers stop with an error.
    pub blocks: bool,
    /// What it should name, as in the table.
    pub right: Option<&'static str>,
}

impl WrongVariable {
    /// The problem, in one line.
    #[must_use]
    pub fn text(&self) -> String {
        if self.id == "cuda.arch.invalid" {
            return format!("`{}={}`: `{}` {}", self.name, self.value, self.part, self.why);
        }
        format!("`{}` names `{}`, {}", self.name, self.part, self.why)
    }
}

/// The embedded table. A test parses it.
fn table() -> &'static VariableTable {
    static TABLE: OnceLock<VariableTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        gpubuild_toml::from_static(tables::VARIABLES).expect("toolkits/tables/variables.toml is tested")
    })
}

/// All rows of the table.
#[must_use]
pub fn rows() -> &'static [VariableRow] {
    &table().variable
}

/// Examines every variable of the table that is set.
pub(super) fn probe(host: &dyn InspectHost) -> Vec<WrongVariable> {
    let mut found = Vec::new();
    if !table().known.iter().any(|name| host.env().get(name).is_some()) {
        return found;
    }
    for row in table().variable.iter().filter(|row| is_on(&row.on, host.platform().os)) {
        for name in &row.names {
            let Some(value) = host.env().get(name).map(str::trim).filter(|value| !value.is_empty()) else {
                continue;
            };
            let Some((part, why)) = problem(host, row.is, value) else { continue };
            found.push(WrongVariable {
                name: name.clone(),
                value: value.to_owned(),
                part,
                why,
                id: row.finding.unwrap_or_else(|| id_of(row.is)),
                reader: &row.reader,
                backend: row.backend,
                affects: row.affects,
                blocks: row.blocks,
                right: row.right.as_deref(),
            });
        }
    }
    found
}

fn id_of(target: Target) -> DiagnosticId {
    match target {
        Target::Program | Target::Compiler | Target::Flags => id!("env.program-missing"),
        Target::Archs | Target::TorchArchs => id!("cuda.arch.invalid"),
        Target::Generator => id!("env.generator-missing"),
        Target::File | Target::Folder | Target::Place | Target::Places => id!("env.path-missing"),
    }
}

/// The part of a value that leads nowhere, and why. `None` if the value is right.
fn problem(host: &dyn InspectHost, target: Target, value: &str) -> Option<(String, String)> {
    let absent = |part: &str, what: &str| Some((part.to_owned(), what.to_owned()));
    match target {
        Target::Program => missing_program(host, value),
        Target::Compiler => {
            let place = host.path(value);
            if place.is_absolute() && host.is_dir(&place) {
                let names = ["g++", "gcc", "c++", "clang++", "cl.exe", "icpx", "nvc++"];
                let has_one = names.iter().any(|name| host.is_file(&place.join(name)));
                return if has_one { None } else { absent(value, "a folder without a compiler") };
            }
            missing_program(host, value)
        }
        Target::Flags => missing_program(host, &host_compiler_flag(value)?),
        Target::File => {
            let place = local(host, value)?;
            if host.is_file(&place) { None } else { absent(value, "a file that does not exist") }
        }
        Target::Folder => {
            let place = local(host, value)?;
            if host.is_dir(&place) {
                None
            } else if host.exists(&place) {
                absent(value, "which is a file, not a folder")
            } else {
                absent(value, "a folder that does not exist")
            }
        }
        Target::Place => {
            let place = local(host, value)?;
            if host.exists(&place) { None } else { absent(value, "which does not exist") }
        }
        Target::Places => {
            let separator = if host.platform().os == Os::Windows { ';' } else { ':' };
            let entries = value.split(separator).map(str::trim).filter(|entry| !entry.is_empty());
            let gone = |entry: &&str| local(host, entry).is_some_and(|place| !host.exists(&place));
            let missing: Vec<&str> = entries.filter(gone).collect();
            let first = missing.first()?;
            absent(first, "which does not exist")
        }
        Target::Archs => {
            let wrong = value.split([';', ',', ' ']).map(str::trim).find(|word| !is_cmake_arch(word));
            if let Some(word) = wrong.filter(|word| !word.is_empty()) {
                return absent(word, "is not an architecture of CMake's list");
            }
            None
        }
        Target::TorchArchs => {
            let wrong = value.split([';', ',', ' ']).find(|word| !word.is_empty() && !is_torch_word(word))?;
            absent(wrong, "is not an architecture of PyTorch's list")
        }
        Target::Generator => generator(host, value),
    }
}

/// A path that can be examined: absolute, or below the home folder. CMake resolves others in a folder that is not known here.
fn local(host: &dyn InspectHost, value: &str) -> Option<HostPath> {
    let value = value.trim_matches('"');
    let trimmed = value.trim_end_matches(['/', '\\']);
    let place = host.path(if trimmed.is_empty() || trimmed.ends_with(':') { value } else { trimmed });
    place.is_absolute().then_some(place)
}

/// The program of a command line that is not there.
fn missing_program(host: &dyn InspectHost, value: &str) -> Option<(String, String)> {
    let whole = value.trim_matches(['"', '\'']);
    if is_program(host, whole) {
        return None;
    }
    // CMake and cc accept options after the compiler, and a launcher before it.
    let mut words = value.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    let mut word = words.next()?;
    let name =
        |word: &str| word.rsplit(['/', '\\']).next().unwrap_or_default().trim_end_matches(".exe").to_owned();
    if LAUNCHERS.contains(&name(word).as_str())
        && is_program(host, word)
        && let Some(next) = words.find(|next| !next.starts_with('-'))
    {
        word = next;
    }
    let path = host.path(word);
    if !path.is_absolute() && word.contains(['/', '\\']) {
        return None;
    }
    if is_program(host, word) {
        return None;
    }
    if path.is_absolute() && host.is_file(&path) {
        return None;
    }
    let why = if host.is_dir(&path) && path.is_absolute() {
        "which is a folder"
    } else if path.is_absolute() {
        "a program that does not exist"
    } else {
        "a program that is not on PATH"
    };
    Some((word.to_owned(), why.to_owned()))
}

fn is_program(host: &dyn InspectHost, name: &str) -> bool {
    !find_program(host, name).is_empty()
}

/// The value of `-ccbin` among flags of nvcc.
#[must_use]
pub fn host_compiler_flag(flags: &str) -> Option<String> {
    let mut words = flags.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    while let Some(word) = words.next() {
        let rest = word.strip_prefix("--compiler-bindir").or_else(|| word.strip_prefix("-ccbin"));
        match rest {
            Some("") => return words.next().map(str::to_owned),
            Some(rest) => return Some(rest.trim_start_matches('=').to_owned()),
            None => {}
        }
    }
    None
}

/// Whether a word is an entry of CMake's `CUDA_ARCHITECTURES`, in one of the spellings that gpubuild accepts too.
fn is_cmake_arch(word: &str) -> bool {
    matches!(word.to_ascii_lowercase().as_str(), "" | "native" | "all" | "all-major" | "auto" | "off")
        || word.parse::<gpubuild_core::arch::CudaArch>().is_ok()
}

fn generator(host: &dyn InspectHost, value: &str) -> Option<(String, String)> {
    let os = host.platform().os;
    // "Eclipse CDT4 - Ninja" and "Visual Studio 17 2022 Win64": an extra generator, a platform.
    let own = value.rsplit(" - ").next().unwrap_or(value).trim();
    let is_one = |row: &&GeneratorRow| {
        row.names.iter().any(|name| {
            own == name || own.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(' '))
        })
    };
    let Some(row) = table().generator.iter().find(is_one) else {
        // A newer CMake may have more generators.
        return None;
    };
    if !is_on(&row.on, os) {
        return Some((value.to_owned(), "a generator that CMake does not have on this system".to_owned()));
    }
    if row.programs.is_empty() || row.programs.iter().any(|name| is_program(host, name)) || os == Os::Windows
    {
        return None;
    }
    Some((value.to_owned(), format!("whose program `{}` is not on PATH", row.programs[0])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, RecordedHost};

    fn wrong(name: &str, value: &str) -> Option<String> {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("PATH", "/usr/bin")
            .env(name, value)
            .executable("/usr/bin/gcc-12")
            .executable("/usr/bin/ccache")
            .executable("/opt/my tools/cc")
            .file("/opt/toolchain.cmake", "")
            .directory("/opt/cuda")
            .directory("/opt/empty")
            .executable("/opt/gcc/bin/g++")
            .build();
        probe(&host).first().map(|one| format!("{} {}", one.part, one.why))
    }

    #[test]
    fn every_row_has_distinct_names_and_a_source() {
        let mut names: Vec<&String> = rows().iter().flat_map(|row| &row.names).collect();
        assert!(names.len() > 40, "{}", names.len());
        let mut known: Vec<&String> = table().known.iter().collect();
        names.sort();
        known.sort();
        assert_eq!(names, known);
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        assert!(rows().iter().all(|row| !row.source.is_empty() && !row.reader.is_empty()));
    }

    #[test]
    fn programs_are_searched_as_build_systems_do() {
        for (value, expected) in [
            ("gcc-12", None),
            ("gcc-12 -m64", None),
            ("ccache gcc-12", None),
            ("/opt/my tools/cc", None),
            ("./cc", None),
            ("gcc-99", Some("gcc-99 a program that is not on PATH")),
            ("ccache gcc-99", Some("gcc-99 a program that is not on PATH")),
            ("/usr/bin/gcc-99", Some("/usr/bin/gcc-99 a program that does not exist")),
            ("/opt/cuda", Some("/opt/cuda which is a folder")),
        ] {
            assert_eq!(wrong("CC", value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn other_kinds_of_values_are_examined() {
        for (name, value, expected) in [
            ("NVCC_CCBIN", "/opt/gcc/bin", None),
            ("NVCC_CCBIN", "/opt/empty", Some("/opt/empty a folder without a compiler")),
            ("NVCC_PREPEND_FLAGS", "-O2 -ccbin gcc-12", None),
            ("NVCC_PREPEND_FLAGS", "-ccbin=gcc-9", Some("gcc-9 a program that is not on PATH")),
            ("NVCC_APPEND_FLAGS", "-w", None),
            ("CUDA_HOME", "/opt/cuda/", None),
            ("CUDA_HOME", "/usr/local/cuda", Some("/usr/local/cuda a folder that does not exist")),
            ("CMAKE_TOOLCHAIN_FILE", "/opt/toolchain.cmake", None),
            ("CMAKE_TOOLCHAIN_FILE", "cmake/mine.cmake", None),
            ("CMAKE_TOOLCHAIN_FILE", "/opt/gone.cmake", Some("/opt/gone.cmake a file that does not exist")),
            ("VK_LAYER_PATH", "/opt/cuda:/opt/gone", Some("/opt/gone which does not exist")),
            ("CUDAARCHS", "80;90a-real;120f", None),
            ("CUDAARCHS", "all-major", None),
            ("CUDAARCHS", "ampere", Some("ampere is not an architecture of CMake's list")),
            ("CMAKE_GENERATOR", "Ninja", Some("Ninja whose program `ninja` is not on PATH")),
            (
                "CMAKE_GENERATOR",
                "Visual Studio 17 2022",
                Some("Visual Studio 17 2022 a generator that CMake does not have on this system"),
            ),
            ("CMAKE_GENERATOR", "Future Generator", None),
            ("SDKROOT", "/gone", None),
        ] {
            assert_eq!(wrong(name, value).as_deref(), expected, "{name}={value}");
        }
    }
}
