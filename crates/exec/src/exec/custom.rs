//! Compile commands in custom commands: `add_custom_command` that runs a known compiler for one source. CMake's replies do not have them,
//! Ninja's file does.

use gpubuild_host::{HostPath, PathRules};
use gpubuild_plan::artifacts::Compiler;

use super::editor::SourceGroup;
use crate::cmake::fragments;

/// Programs that run the compiler in the following words.
const LAUNCHERS: [&str; 5] = ["ccache", "sccache", "distcc", "icecc", "env"];
/// Arguments that select the output, and mean that a source is compiled and not linked.
const COMPILES: [&str; 12] = [
    "-c",
    "--compile",
    "-dc",
    "--device-c",
    "-dw",
    "-ptx",
    "--ptx",
    "-cubin",
    "--cubin",
    "-fatbin",
    "--fatbin",
    "--genco",
];
/// Arguments about outputs, whose value is the next word.
const WITH_VALUE: [&str; 6] = ["-o", "--output-file", "-MF", "-MT", "-MQ", "-odir"];
/// Arguments about dependency files.
const DEPENDENCIES: [&str; 5] = ["-MD", "-MMD", "-MP", "-M", "-MM"];

/// A family of compilers.
struct Family {
    /// CMake's id of the compiler.
    id: &'static str,
    names: &'static [&'static str],
    /// The language of every source; otherwise its extension decides.
    language: Option<&'static str>,
}

const FAMILIES: [Family; 4] = [
    Family { id: "NVIDIA", names: &["nvcc"], language: None },
    Family { id: "Clang", names: &["hipcc"], language: Some("HIP") },
    Family { id: "Clang", names: &["clang", "clang++", "amdclang", "amdclang++"], language: None },
    Family { id: "GNU", names: &["gcc", "g++", "cc", "c++"], language: None },
];

/// The sources that custom commands in a `build.ninja` compile, one group each.
pub(crate) fn groups(ninja: &str, build: &HostPath) -> Vec<SourceGroup> {
    let joined = ninja.replace("$\r\n", "").replace("$\n", "");
    let mut found = Vec::new();
    let mut target = None;
    for line in joined.lines() {
        if let Some(statement) = line.strip_prefix("build ") {
            let (outputs, rule) = statement.split_once(": ").unwrap_or((statement, ""));
            let output = outputs.split(' ').next().unwrap_or_default();
            target = rule.starts_with("CUSTOM_COMMAND").then(|| unescaped(output)).flatten();
        } else if let (Some(target), Some(command)) = (&target, line.trim_start().strip_prefix("COMMAND = "))
        {
            found
                .extend(unescaped(command).into_iter().flat_map(|command| compiles(&command, target, build)));
        }
    }
    found
}

/// A value without Ninja's escapes. `None` if it contains variables.
fn unescaped(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '$' => value.push(characters.next().filter(|next| matches!(next, '$' | ' ' | ':'))?),
            other => value.push(other),
        }
    }
    Some(value)
}

/// The compilations in one shell command, `cd FOLDER && COMPILER … && …`.
fn compiles(command: &str, target: &str, build: &HostPath) -> Vec<SourceGroup> {
    let words = fragments::split(command, PathRules::Unix);
    let mut folder = build.clone();
    let mut found = Vec::new();
    for part in words.split(|word| word == "&&") {
        match part {
            [cd, path] if cd == "cd" => folder = folder.join(path),
            part => found.extend(compile(part, target, &folder)),
        }
    }
    found
}

/// The group of a command that compiles exactly one source.
fn compile(words: &[String], target: &str, folder: &HostPath) -> Option<SourceGroup> {
    let is_launcher = |word: &&String| LAUNCHERS.contains(&program_name(word)) || word.contains('=');
    let start = words.iter().take_while(is_launcher).count();
    let (program, arguments) = words.get(start..)?.split_first()?;
    let family = FAMILIES.iter().find(|family| family.has(program_name(program)))?;
    let (mut flags, mut sources, mut compiles, mut language) = (Vec::new(), Vec::new(), false, None);
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            // The shell interprets the rest.
            ";" | "|" | "||" | ">" | ">>" | "<" => return None,
            word if WITH_VALUE.contains(&word) => drop(rest.next()),
            word if COMPILES.contains(&word) => compiles = true,
            word if DEPENDENCIES.contains(&word) => {}
            "-x" => language = language_of(rest.next()?),
            "-D" | "-I" | "-U" | "-isystem" | "-include" | "-Xcompiler" => {
                flags.extend([word.clone(), rest.next()?.clone()]);
            }
            plain if !plain.starts_with('-') && language_of_file(plain).is_some() => sources.push(plain),
            _ => flags.push(word.clone()),
        }
    }
    let [source] = sources[..] else { return None };
    let language = family.language.or(language).or_else(|| language_of_file(source));
    Some(SourceGroup {
        target: target.to_owned(),
        language: language.filter(|_| compiles)?.to_owned(),
        flags,
        sources: vec![folder.join(source).normalized().to_string()],
        compiler: Some(Compiler { id: family.id.to_owned(), version: String::new(), path: program.clone() }),
        directory: Some(folder.to_string()),
        ..SourceGroup::default()
    })
}

impl Family {
    /// Whether a program is of this family: `x86_64-linux-gnu-g++-12` is `g++`.
    fn has(&self, program: &str) -> bool {
        let is_version = |end: &str| end.chars().all(|c| c.is_ascii_digit() || c == '.');
        let name =
            program.rsplit_once('-').filter(|(_, end)| is_version(end)).map_or(program, |(name, _)| name);
        self.names.iter().any(|own| {
            name.strip_suffix(own).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('-'))
        })
    }
}

fn program_name(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.strip_suffix(".exe").unwrap_or(name)
}

/// The language of a value of `-x`.
fn language_of(value: &str) -> Option<&'static str> {
    match value {
        "c" => Some("C"),
        "c++" => Some("CXX"),
        "cu" | "cuda" => Some("CUDA"),
        "hip" => Some("HIP"),
        _ => None,
    }
}

fn language_of_file(path: &str) -> Option<&'static str> {
    match path.rsplit_once('.')?.1 {
        "c" => Some("C"),
        "cc" | "cpp" | "cxx" | "C" | "c++" => Some("CXX"),
        "cu" => Some("CUDA"),
        "hip" => Some("HIP"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `LANGUAGE ID PROGRAM FLAGS SOURCE (FOLDER)` of the groups of one command.
    fn check(command: &str, expected: &[&str]) {
        let ninja = format!(
            "rule CUSTOM_COMMAND\n  command = $COMMAND\n\nbuild a.o | ${{cmake_ninja_workdir}}a.o: CUSTOM_COMMAND /p/a.cu || x\n  \
             COMMAND = {command}\n  DESC = Compiling\n\nbuild b.o: CXX_COMPILER__b /p/b.cpp\n  COMMAND = gcc -c /p/b.cpp\n"
        );
        let build = HostPath::new(PathRules::Unix, "/b");
        let found: Vec<String> = groups(&ninja, &build)
            .iter()
            .map(|group| {
                let compiler = group.compiler.as_ref().unwrap();
                let words = [&group.language, &compiler.id, &compiler.path].map(String::as_str);
                let flags = group.flags.iter().map(String::as_str);
                let words: Vec<&str> =
                    words.into_iter().chain(flags).chain(group.sources.iter().map(String::as_str)).collect();
                format!("{} ({})", words.join(" "), group.directory.as_deref().unwrap_or_default())
            })
            .collect();
        assert_eq!(found, expected, "{command}");
    }

    #[test]
    fn compilers_in_custom_commands_are_found() {
        check(
            "cd /b/sub && /cuda/bin/nvcc -O3 -arch=sm_90a -I /p/include -dc -o a.o /p/a.cu",
            &["CUDA NVIDIA /cuda/bin/nvcc -O3 -arch=sm_90a -I /p/include /p/a.cu (/b/sub)"],
        );
        check(
            "cd /b && hipcc --offload-arch=gfx942 -MD -MF a.d -c ../p/a.cu -o a.o && cmake -E touch a.stamp",
            &["HIP Clang hipcc --offload-arch=gfx942 /p/a.cu (/b)"],
        );
        check(
            "cd /b && ccache x86_64-linux-gnu-g++-12 \"-DA=b c\" -c x.cpp && clang-14 -x c -c y.cc",
            &["CXX GNU x86_64-linux-gnu-g++-12 -DA=b c /b/x.cpp (/b)", "C Clang clang-14 /b/y.cc (/b)"],
        );
        check(
            "cd /b && NVCC_X=1 nvcc -x cu --fatbin -o k.fatbin k$$1.cpp",
            &["CUDA NVIDIA nvcc /b/k$1.cpp (/b)"],
        );
    }

    #[test]
    fn other_commands_are_left_out() {
        for command in [
            "cd /b && cmake -E copy /p/a.c /b/a.c",
            "cd /b && gcc -o program /p/a.c",
            "cd /b && gcc -c a.c b.c",
            "cd /b && gcc -E -c a.c > a.i",
            "cd /b && sh -c \"gcc -c a.c\"",
            "cd /b && gcc -c ${in}",
            "cd /b && python3 generate.py -c kernels.cu",
            "cd /b && my-nvcc2 -c a.cu",
        ] {
            check(command, &[]);
        }
    }
}
