//! Architectures that commands and variables request, and whether a CUDA release supports them.

use gpubuild_core::arch::CudaArch;
use gpubuild_core::version::Version;
use gpubuild_detect::toolkit::Description;

use super::CommandView;
use super::build::CmakeInvocation;
use crate::file::shell::{ShellCommand, ShellWord};

/// A requested list of architectures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchRequest {
    /// The variable or option: `CMAKE_CUDA_ARCHITECTURES`, `-arch`.
    pub name: String,
    /// The list as written.
    pub value: String,
    /// The word that contains the list.
    pub word: ShellWord,
}

/// Environment variables and CMake variables with lists of architectures.
pub const VARIABLES: &[&str] = &[
    "CUDAARCHS",
    "CMAKE_CUDA_ARCHITECTURES",
    "TORCH_CUDA_ARCH_LIST",
    "CUDA_DOCKER_ARCH",
    "CUDA_COMPUTE_CAP",
    "TCNN_CUDA_ARCHITECTURES",
];

/// All lists of architectures in a command.
#[must_use]
pub fn requests(command: &ShellCommand, configuration: Option<&CmakeInvocation>) -> Vec<ArchRequest> {
    let mut list = Vec::new();
    let mut add = |name: &str, value: &str, word: &ShellWord| {
        list.push(ArchRequest { name: name.to_owned(), value: value.to_owned(), word: word.clone() });
    };
    for definition in configuration.into_iter().flat_map(|one| &one.definitions) {
        if VARIABLES.contains(&definition.name.as_str()) {
            add(&definition.name, &definition.value, &definition.word);
        }
    }
    for (name, word) in &command.assigned {
        let is_known = VARIABLES.contains(&name.as_str());
        if is_known && configuration.is_none_or(|one| one.get(name).is_none()) {
            add(name, &word.text, word);
        }
    }
    let words = CommandView::new(command).words;
    for (index, word) in words.iter().enumerate() {
        let text = word.text.as_str();
        let before = index.checked_sub(1).map_or("", |index| words[index].text.as_str());
        if matches!(before, "-arch" | "--gpu-architecture") {
            add("-arch", text, word);
        } else if let Some(value) =
            text.strip_prefix("-arch=").or_else(|| text.strip_prefix("--gpu-architecture="))
        {
            add("-arch", value, word);
        } else if text.contains("arch=compute_") || text.contains("code=sm_") {
            for part in text.split([',', ' ', '"', '\'', '[', ']', ';', '=']) {
                if part.starts_with("compute_") || part.starts_with("sm_") {
                    add("-gencode", part, word);
                }
            }
        } else if let Some(at) = text.find("-arch=native") {
            add("-arch", &text[at + 6..at + 12], word);
        }
    }
    list
}

impl ArchRequest {
    /// Whether the list contains `native`, the GPU of the build machine.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.parts().any(|part| part == "native")
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        self.value.split([';', ',', ' ', '+']).map(str::trim).filter(|part| !part.is_empty())
    }

    /// The architectures in the list; other words are skipped.
    pub fn archs(&self) -> impl Iterator<Item = CudaArch> {
        self.parts().filter_map(|part| part.parse().ok())
    }
}

/// Why a CUDA release does not support an architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsupportedArch {
    /// A later release added it: the first release with support.
    TooNew(Version),
    /// The release no longer supports it: the oldest architecture that it supports.
    Dropped(u16),
}

/// Why a release does not support an architecture; `None` if it does, or if the table does not list the architecture.
#[must_use]
pub fn unsupported(arch: &CudaArch, release: &Version, cuda: &Description) -> Option<UnsupportedArch> {
    let number = arch.number.to_string();
    let row = cuda.archs(release)?;
    if row.archs.contains(&number) {
        return None;
    }
    let oldest = row.archs.iter().filter_map(|known| known.parse::<u16>().ok()).min()?;
    if arch.number < oldest {
        return Some(UnsupportedArch::Dropped(oldest));
    }
    let first = cuda.compatibility.arch.iter().find(|row| row.archs.contains(&number))?;
    if first.since > *release {
        return Some(UnsupportedArch::TooNew(first.since.clone()));
    }
    Some(UnsupportedArch::Dropped(oldest))
}

#[cfg(test)]
mod tests {
    use super::super::tests::of;
    use super::*;
    use crate::file::tools::build::configuration;
    use gpubuild_detect::toolkit::Catalogue;

    #[test]
    fn all_forms_of_lists_are_found() {
        for (text, expected) in [
            ("cmake -DCMAKE_CUDA_ARCHITECTURES=native .", "CMAKE_CUDA_ARCHITECTURES:native"),
            ("cmake -DCMAKE_CUDA_ARCHITECTURES=\"75;80-real\" .", "CMAKE_CUDA_ARCHITECTURES:75;80-real"),
            ("nvcc -arch=sm_90a a.cu", "-arch:sm_90a"),
            ("nvcc -arch native a.cu", "-arch:native"),
            ("nvcc -gencode arch=compute_80,code=sm_80 a.cu", "-gencode:compute_80 -gencode:sm_80"),
            ("TORCH_CUDA_ARCH_LIST='8.0 9.0+PTX' pip install x", "TORCH_CUDA_ARCH_LIST:8.0 9.0+PTX"),
            ("export CUDAARCHS=86", "CUDAARCHS:86"),
            ("CMAKE_ARGS='-DCMAKE_CUDA_ARCHITECTURES=61' pip install x", "CMAKE_CUDA_ARCHITECTURES:61"),
            ("cmake -DCMAKE_CUDA_FLAGS='-arch=native -O3' .", "-arch:native"),
            ("uname --arch native", ""),
            ("make", ""),
        ] {
            let command = &of(text)[0];
            let configuration = configuration(command, &|_| None);
            let seen: Vec<String> = requests(command, configuration.as_ref())
                .iter()
                .map(|one| format!("{}:{}", one.name, one.value))
                .collect();
            assert_eq!(seen.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn unsupported_architectures_are_reported() {
        let catalogue = Catalogue::embedded();
        let cuda = catalogue.get("cuda").unwrap();
        let check =
            |arch: &str, release: &str| unsupported(&arch.parse().unwrap(), &release.parse().unwrap(), cuda);
        assert_eq!(check("90", "11.7.1"), Some(UnsupportedArch::TooNew("11.8".parse().unwrap())));
        assert_eq!(check("120", "12.6.3"), Some(UnsupportedArch::TooNew("12.8".parse().unwrap())));
        assert_eq!(check("61", "13.0.1"), Some(UnsupportedArch::Dropped(75)));
        assert_eq!(check("35", "12.1"), Some(UnsupportedArch::Dropped(50)));
        assert_eq!(check("80", "10.2"), Some(UnsupportedArch::TooNew("11.0".parse().unwrap())));
        assert_eq!(check("75", "8.0.61"), Some(UnsupportedArch::TooNew("10.0".parse().unwrap())));
        assert_eq!(check("101", "13.0"), Some(UnsupportedArch::Dropped(75)));
        for (arch, release) in
            [("90a", "12.2"), ("75", "13.3"), ("130", "13.9"), ("80", "6.5"), ("121", "12.9")]
        {
            assert_eq!(check(arch, release), None, "{arch} {release}");
        }
    }
}
