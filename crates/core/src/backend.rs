//! Backend ids. What a backend needs is data in `toolkits/`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Id of a backend: a way to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Backend {
    /// The CPU.
    Cpu,
    /// NVIDIA CUDA.
    Cuda,
    /// AMD ROCm; `hip` is an alias.
    #[serde(alias = "hip")]
    Rocm,
    /// Apple Metal.
    Metal,
    /// Khronos Vulkan.
    Vulkan,
    /// Khronos SYCL, through Intel's oneAPI.
    Sycl,
    /// Khronos OpenCL.
    Opencl,
}

impl Backend {
    /// All backends, in the order in which they are listed everywhere.
    pub const ALL: [Self; 7] =
        [Self::Cpu, Self::Cuda, Self::Rocm, Self::Metal, Self::Vulkan, Self::Sycl, Self::Opencl];

    /// The id in options, JSON and file names.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
            Self::Metal => "metal",
            Self::Vulkan => "vulkan",
            Self::Sycl => "sycl",
            Self::Opencl => "opencl",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.id())
    }
}

/// The error for a name that is not a backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown backend `{name}`{}", .nearest.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default())]
pub struct UnknownBackend {
    /// The name as given.
    pub name: String,
    /// The backend with the most similar name, if one is close enough.
    pub nearest: Option<Backend>,
}

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.trim().to_ascii_lowercase();
        if name == "hip" {
            return Ok(Self::Rocm);
        }
        if let Some(backend) = Self::ALL.into_iter().find(|backend| backend.id() == name) {
            return Ok(backend);
        }
        let nearest = Self::ALL
            .into_iter()
            .map(|backend| (edit_distance(backend.id(), &name), backend))
            .min_by_key(|(distance, _)| *distance)
            .filter(|(distance, backend)| *distance <= backend.id().len() / 2)
            .map(|(_, backend)| backend);
        Err(UnknownBackend { name: text.trim().to_owned(), nearest })
    }
}

/// The Levenshtein distance in bytes. Words of more than 256 bytes are not compared, and count as different in
/// every byte.
#[must_use]
pub fn edit_distance(left: &str, right: &str) -> usize {
    let longest = left.len().max(right.len());
    if longest > 256 {
        return longest;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_not_compared() {
        let long = "x".repeat(10_000_000);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance(&long, &long), long.len());
    }

    #[test]
    fn ids_and_aliases_are_parsed() {
        for backend in Backend::ALL {
            assert_eq!(backend.id().parse(), Ok(backend));
        }
        assert_eq!("HIP".parse(), Ok(Backend::Rocm));
    }

    #[test]
    fn only_a_similar_name_is_suggested() {
        let near = "vulcan".parse::<Backend>().unwrap_err();
        assert_eq!(near.nearest, Some(Backend::Vulkan));
        assert_eq!(near.to_string(), "unknown backend `vulcan`, did you mean `vulkan`?");
        assert_eq!("quantum".parse::<Backend>().unwrap_err().nearest, None);
    }
}
