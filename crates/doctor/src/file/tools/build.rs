//! Recognizes commands that configure a build: CMake definitions, and whether they need the CUDA compiler.

use super::{CommandView, packages};
use crate::file::shell::{ShellCommand, ShellWord};

/// A definition `NAME=value` for CMake or make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The name, without a type such as `:BOOL`.
    pub name: String,
    /// The value.
    pub value: String,
    /// The word in the command that contains the definition.
    pub word: ShellWord,
}

impl Definition {
    /// Whether the value means on, by CMake's rules.
    #[must_use]
    pub fn is_on(&self) -> bool {
        matches!(self.value.to_ascii_lowercase().as_str(), "on" | "1" | "true" | "yes" | "y")
    }

    /// Whether the value means off, by CMake's rules.
    #[must_use]
    pub fn is_off(&self) -> bool {
        matches!(self.value.to_ascii_lowercase().as_str(), "off" | "0" | "false" | "no" | "n")
    }
}

/// A command that configures a build.
#[derive(Debug, Clone)]
pub struct CmakeInvocation {
    /// The definitions, in order.
    pub definitions: Vec<Definition>,
    /// The tool that reads the definitions.
    pub tool: Tool,
    /// The line of the command.
    pub line: usize,
    /// The generator from `-G` or `CMAKE_GENERATOR`.
    pub generator: Option<String>,
}

/// The tool that configures a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// CMake itself.
    Cmake,
    /// make or ninja with variables.
    Make,
    /// pip or another Python build tool that reads `CMAKE_ARGS`.
    Python,
}

/// The configuration of a command, if it configures a build. `lookup` returns environment variables.
#[must_use]
pub fn configuration(
    command: &ShellCommand,
    lookup: &dyn Fn(&str) -> Option<ShellWord>,
) -> Option<CmakeInvocation> {
    let view = CommandView::new(command);
    let own = |name: &str| command.assigned.iter().find(|(key, _)| key == name).map(|(_, word)| word.clone());
    let from_env = |name: &str| own(name).or_else(|| lookup(name));
    let mut definitions = Vec::new();
    let is_mode = |flag: &str| {
        matches!(flag, "--build" | "--install" | "-E" | "-P" | "--version" | "--open" | "--workflow")
    };
    let tool = match view.program {
        "cmake" | "cmake3" | "ccmake" | "qt-cmake" | "emcmake"
            if !view.words.iter().any(|word| is_mode(&word.text)) =>
        {
            cmake_words(view.words, &mut definitions);
            Tool::Cmake
        }
        "make" | "gmake" | "ninja" => {
            for word in view.words {
                if let Some((name, value)) = word.text.split_once('=').filter(|(name, _)| is_name(name)) {
                    definitions.push(Definition {
                        name: name.to_owned(),
                        value: value.to_owned(),
                        word: word.clone(),
                    });
                }
            }
            for (name, word) in &command.assigned {
                definitions.push(Definition {
                    name: name.clone(),
                    value: word.text.clone(),
                    word: word.clone(),
                });
            }
            // `make CMAKE_ARGS="-D…"` passes definitions to CMake.
            match definitions.iter().find(|one| one.name == "CMAKE_ARGS").cloned() {
                Some(passed) => {
                    cmake_words(&split_words(&passed.word, &passed.value), &mut definitions);
                    Tool::Cmake
                }
                None => Tool::Make,
            }
        }
        program if is_python_builder(program, view.words) => {
            let word = from_env("CMAKE_ARGS")?;
            cmake_words(&split_words(&word, &word.text), &mut definitions);
            Tool::Python
        }
        _ => return None,
    };
    let generator = view.option("-G").map(str::to_owned).or_else(|| {
        let joined =
            view.words.iter().find_map(|word| word.text.strip_prefix("-G").filter(|rest| !rest.is_empty()));
        joined.map(str::to_owned).or_else(|| from_env("CMAKE_GENERATOR").map(|word| word.text))
    });
    Some(CmakeInvocation { definitions, tool, line: command.line, generator })
}

/// The words of a value that contains arguments.
fn split_words(word: &ShellWord, value: &str) -> Vec<ShellWord> {
    let words = value.split([' ', '\t', '\n']).filter(|text| !text.is_empty());
    words.map(|text| ShellWord { text: text.trim_matches(['"', '\'']).to_owned(), line: word.line }).collect()
}

/// Whether a command builds or installs Python packages.
fn is_python_builder(program: &str, words: &[ShellWord]) -> bool {
    let is_tool = program.starts_with("python")
        || program.starts_with("pip")
        || matches!(program, "uv" | "poetry" | "pdm");
    let verbs = ["install", "wheel", "build", "sync", "bdist_wheel", "add"];
    let builds =
        words.iter().any(|word| verbs.contains(&word.text.as_str()) || word.text.ends_with("setup.py"));
    program == "cibuildwheel" || (is_tool && builds)
}

/// Collects definitions such as `-DNAME=value` and `-D NAME:BOOL=value`.
fn cmake_words(words: &[ShellWord], definitions: &mut Vec<Definition>) {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(rest) = word.text.strip_prefix("-D") else { continue };
        let (text, word) = if rest.is_empty() {
            let Some(next) = words.next() else { break };
            (next.text.as_str(), next)
        } else {
            (rest, word)
        };
        let Some((name, value)) = text.split_once('=') else { continue };
        let name = name.split(':').next().unwrap_or(name).trim();
        definitions.push(Definition { name: name.to_owned(), value: value.to_owned(), word: word.clone() });
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl CmakeInvocation {
    /// The last definition with this name, which is the one that counts.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.definitions.iter().rfind(|definition| definition.name == name)
    }

    /// The definition that enables CUDA.
    #[must_use]
    pub fn cuda(&self) -> Option<&Definition> {
        self.definitions.iter().find(|definition| {
            let name = definition.name.as_str();
            let switches = ["CUDA", "CUBLAS"].iter().any(|word| name.split('_').any(|part| part == *word));
            let is_switch = switches && !name.starts_with("CMAKE_") && definition.is_on();
            let is_arch = name == "CMAKE_CUDA_ARCHITECTURES" && !definition.is_off();
            is_switch || is_arch || name == "CMAKE_CUDA_COMPILER"
        })
    }

    /// The definition that enables Vulkan.
    #[must_use]
    pub fn vulkan(&self) -> Option<&Definition> {
        let is_vulkan = |definition: &&Definition| {
            definition.name.split('_').any(|part| part == "VULKAN") && definition.is_on()
        };
        self.definitions.iter().find(is_vulkan)
    }

    /// Whether this configures a ggml project: these build for the local machine by default.
    #[must_use]
    pub fn is_ggml(&self) -> bool {
        let starts = ["GGML_", "LLAMA_", "WHISPER_", "SD_"];
        self.definitions
            .iter()
            .any(|definition| starts.iter().any(|start| definition.name.starts_with(start)))
    }

    /// The value of `GGML_NATIVE` or its older names; `None` if not set.
    #[must_use]
    pub fn native(&self) -> Option<bool> {
        let names = ["GGML_NATIVE", "LLAMA_NATIVE", "WHISPER_NATIVE"];
        let definition = self.definitions.iter().rfind(|one| names.contains(&one.name.as_str()))?;
        Some(!definition.is_off())
    }
}

/// The word that shows that a command needs the CUDA compiler, if it does.
#[must_use]
pub fn needs_nvcc(command: &ShellCommand, configuration: Option<&CmakeInvocation>) -> Option<ShellWord> {
    let view = CommandView::new(command);
    if view.program == "nvcc" {
        return command.words.first().cloned();
    }
    // A toolkit package installed by the same command contains the compiler.
    if packages::toolkit(command).is_some() {
        return None;
    }
    configuration?.cuda().map(|definition| definition.word.clone())
}

#[cfg(test)]
mod tests {
    use super::super::tests::of;
    use super::*;

    fn read(text: &str) -> Option<CmakeInvocation> {
        configuration(&of(text)[0], &|_| None)
    }

    #[test]
    fn definitions_are_found() {
        let shown = |text: &str| -> Vec<String> {
            let list = read(text).map(|one| one.definitions).unwrap_or_default();
            list.iter().map(|one| format!("{}={}", one.name, one.value)).collect()
        };
        assert_eq!(
            shown("cmake -B b -DGGML_CUDA=ON -D CMAKE_CUDA_ARCHITECTURES:STRING='80;90' ."),
            ["GGML_CUDA=ON", "CMAKE_CUDA_ARCHITECTURES=80;90"]
        );
        assert_eq!(
            shown("CMAKE_ARGS=\"-DGGML_CUDA=on -DX=1\" pip install llama-cpp-python"),
            ["GGML_CUDA=on", "X=1"]
        );
        assert_eq!(
            shown("make base.en CMAKE_ARGS=\"-DGGML_VULKAN=1\""),
            ["CMAKE_ARGS=-DGGML_VULKAN=1", "GGML_VULKAN=1"]
        );
        assert_eq!(shown("GGML_CUDA=1 make -j LLAMA_X=2"), ["LLAMA_X=2", "GGML_CUDA=1"]);
        assert!(read("cmake --build b").is_none() && read("pip install x").is_none());
        assert_eq!(
            read("cmake -G 'Ninja Multi-Config' .").unwrap().generator.as_deref(),
            Some("Ninja Multi-Config")
        );
        assert_eq!(read("cmake -GNinja .").unwrap().generator.as_deref(), Some("Ninja"));
    }

    #[test]
    fn cuda_builds_are_recognized() {
        for (text, expected) in [
            ("cmake -DGGML_CUDA=ON .", true),
            ("cmake -DUSE_CUDA=1 .", true),
            ("cmake -DCMAKE_CUDA_ARCHITECTURES=80 .", true),
            ("make LLAMA_CUBLAS=1", true),
            ("nvcc a.cu", true),
            ("/usr/local/cuda/bin/nvcc --version", true),
            ("cmake -DGGML_CUDA=OFF .", false),
            ("cmake -DCMAKE_CUDA_ARCHITECTURES=OFF .", false),
            ("cmake -DGGML_VULKAN=ON .", false),
            ("make", false),
        ] {
            let command = &of(text)[0];
            let configuration = configuration(command, &|_| None);
            assert_eq!(needs_nvcc(command, configuration.as_ref()).is_some(), expected, "{text}");
        }
    }
}
