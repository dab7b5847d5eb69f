//! GPU architectures of NVIDIA and AMD (`sm_90`, `gfx942`), and lists of them.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use gpubuild_toolkits::tables;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::order::SortIndirect as _;
use crate::version::Version;

pub mod torch;

/// An NVIDIA architecture as CMake lists write it: `90`, `90a-real`, `120f-virtual`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CudaArch {
    /// Compute capability times ten: 90, 120.
    pub number: u16,
    /// `a` or `f`; `None` for neither.
    pub suffix: Option<char>,
    /// Machine code, PTX or both.
    pub code: CudaCode,
}

/// What the compiler generates for an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CudaCode {
    /// Machine code and PTX.
    Both,
    /// Machine code only, `-real`.
    Real,
    /// PTX only, `-virtual`.
    Virtual,
}

/// The error for text that is not an architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a CUDA architecture: write `90`, `9.0`, `sm_90`, `90a-real` or `120f-virtual`")]
pub struct NotAnArch(pub String);

impl CudaArch {
    /// Creates an architecture from a compute capability times ten, with machine code and PTX.
    #[must_use]
    pub fn new(number: u16) -> Self {
        Self { number, suffix: None, code: CudaCode::Both }
    }

    /// Returns the same architecture with another kind of code.
    #[must_use]
    pub fn with_code(&self, code: CudaCode) -> Self {
        Self { code, ..self.clone() }
    }

    /// The name with prefix and suffix, without the kind of code: `sm_90a`.
    #[must_use]
    pub fn sm(&self) -> String {
        format!("sm_{}{}", self.number, self.suffix.map(String::from).unwrap_or_default())
    }

    /// The same GPUs under their other number, if NVIDIA renumbered them: Thor was 10.1 and is 11.0.
    #[must_use]
    pub fn other_name(&self) -> Option<Self> {
        let other = rules().renamed.iter().find_map(|row| match self.number {
            number if number == row.arch.number => Some(row.to.number),
            number if number == row.to.number => Some(row.arch.number),
            _ => None,
        });
        Some(Self { number: other?, ..self.clone() })
    }

    /// Whether machine code for this architecture runs on a GPU of architecture `gpu`. It runs on the same architecture and on later ones
    /// with the same major version. Code with the suffix `a`, and code for integrated GPUs, only runs on exactly the same architecture,
    /// and integrated GPUs do not run code of other architectures (NVIDIA, CUDA C++ programming guide, "Binary compatibility" and
    /// "Family-specific features").
    #[must_use]
    pub fn runs_on(&self, gpu: &Self) -> bool {
        let rules = rules();
        let (own, gpu) = (rules.newest_name(self.number), rules.newest_name(gpu.number));
        let on_chip = rules.is_on_chip(own) || rules.is_on_chip(gpu);
        match self.suffix {
            Some('a') => own == gpu,
            _ if on_chip => own == gpu,
            _ => own / 10 == gpu / 10 && own <= gpu,
        }
    }

    /// Whether the driver can compile PTX of this architecture for `gpu`. It can for the same architecture and all later ones. PTX with
    /// a suffix follows the rules of machine code.
    #[must_use]
    pub fn translates_for(&self, gpu: &Self) -> bool {
        if self.suffix.is_some() {
            return self.runs_on(gpu);
        }
        let rules = rules();
        rules.newest_name(self.number) <= rules.newest_name(gpu.number)
    }
}

/// The content of `toolkits/tables/cuda-archs.toml`: compatibility rules that do not follow from the numbers. They apply to all
/// releases, so they are not in a toolkit description.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArchRules {
    #[serde(rename = "schema")]
    _schema: u32,
    on_chip: Vec<OnChip>,
    renamed: Vec<Renamed>,
    torch: Vec<TorchName>,
}

/// A name that PyTorch has for several architectures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TorchName {
    name: String,
    archs: Vec<CudaArch>,
    #[serde(rename = "source")]
    _source: String,
}

/// A GPU that is part of a system on a chip.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OnChip {
    arch: CudaArch,
    #[serde(rename = "chip")]
    _chip: String,
    #[serde(rename = "source")]
    _source: String,
}

/// An architecture that NVIDIA renumbered.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Renamed {
    arch: CudaArch,
    to: CudaArch,
    #[serde(rename = "since")]
    _since: Version,
    #[serde(rename = "chip")]
    _chip: String,
    #[serde(rename = "source")]
    _source: String,
}

impl ArchRules {
    fn is_on_chip(&self, number: u16) -> bool {
        self.on_chip.iter().any(|row| row.arch.number == number)
    }

    fn newest_name(&self, number: u16) -> u16 {
        self.renamed.iter().find(|row| row.arch.number == number).map_or(number, |row| row.to.number)
    }
}

fn rules() -> &'static ArchRules {
    static RULES: OnceLock<ArchRules> = OnceLock::new();
    RULES.get_or_init(|| {
        gpubuild_toml::from_static(tables::CUDA_ARCHS).expect("toolkits/tables/cuda-archs.toml is tested")
    })
}

impl FromStr for CudaArch {
    type Err = NotAnArch;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || NotAnArch(text.trim().to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let (body, code) = if let Some(body) = lower.strip_suffix("-real") {
            (body, CudaCode::Real)
        } else if let Some(body) = lower.strip_suffix("-virtual") {
            (body, CudaCode::Virtual)
        } else {
            (lower.as_str(), CudaCode::Both)
        };
        let body = body.strip_prefix("sm_").or_else(|| body.strip_prefix("compute_")).unwrap_or(body);
        let (digits, suffix) = match body.chars().last() {
            Some(letter @ ('a' | 'f')) => (&body[..body.len() - 1], Some(letter)),
            _ => (body, None),
        };
        let number = match digits.split_once('.') {
            Some((major, minor)) if minor.len() == 1 => {
                let major: u16 = major.parse().map_err(|_| bad())?;
                let minor: u16 = minor.parse().map_err(|_| bad())?;
                major.checked_mul(10).and_then(|n| n.checked_add(minor)).ok_or_else(bad)?
            }
            Some(_) => return Err(bad()),
            None => digits.parse().map_err(|_| bad())?,
        };
        if !(20..=999).contains(&number) {
            return Err(bad());
        }
        Ok(Self { number, suffix, code })
    }
}

impl fmt::Display for CudaArch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.number)?;
        if let Some(letter) = self.suffix {
            write!(formatter, "{letter}")?;
        }
        match self.code {
            CudaCode::Both => Ok(()),
            CudaCode::Real => formatter.write_str("-real"),
            CudaCode::Virtual => formatter.write_str("-virtual"),
        }
    }
}

impl<'de> Deserialize<'de> for CudaArch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
crate::string_schema!(CudaArch);

impl Serialize for CudaArch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Parses a list whose entries are separated by `;`, `,` or whitespace. The result is sorted and has no duplicates.
///
/// # Errors
/// An entry is not an architecture.
pub fn parse_cuda_list(text: &str) -> Result<Vec<CudaArch>, NotAnArch> {
    let mut list = text
        .split([';', ',', ' ', '\t', '\n'])
        .filter(|word| !word.is_empty())
        .map(str::parse)
        .collect::<Result<Vec<CudaArch>, _>>()?;
    list.sort_indirect();
    list.dedup();
    Ok(list)
}

/// Joins entries with `;`, as CMake expects.
#[must_use]
pub fn cmake_list<T: fmt::Display>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(";")
}

/// Converts a `gfx_target_version` of the kernel driver to a gfx name: 110003 is `gfx1103`, 90010 is `gfx90a`. `None` for 0, the value of
/// CPU nodes.
#[must_use]
pub fn gfx_from_target_version(version: u32) -> Option<String> {
    let (major, minor, step) = (version / 10_000, version / 100 % 100, version % 100);
    (version > 0).then(|| format!("gfx{major}{minor:x}{step:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_are_parsed() {
        for (text, shown) in [
            ("90", "90"),
            ("9.0", "90"),
            ("sm_90a", "90a"),
            ("compute_80-virtual", "80-virtual"),
            ("120f-real", "120f-real"),
            ("12.0", "120"),
            (" 8.6 ", "86"),
        ] {
            assert_eq!(text.parse::<CudaArch>().unwrap().to_string(), shown, "{text}");
        }
        for text in ["", "native", "9", "9.00", "abc", "90-fake", "99999"] {
            assert!(text.parse::<CudaArch>().is_err(), "{text}");
        }
    }

    #[test]
    fn lists_are_sorted_and_unique() {
        let list = parse_cuda_list("90, 80;90 75").unwrap();
        assert_eq!(cmake_list(&list), "75;80;90");
        assert_eq!(parse_cuda_list("80;oops"), Err(NotAnArch("oops".into())));
    }

    #[test]
    fn code_for_an_integrated_gpu_only_runs_on_that_gpu_under_both_names() {
        let number = |text: &str| text.parse::<CudaArch>().unwrap();
        let on_chip: Vec<u16> = rules().on_chip.iter().map(|row| row.arch.number).collect();
        assert_eq!(on_chip, [53, 62, 72, 87, 110]);
        let runs = |code: &str, gpu: &str| number(code).runs_on(&number(gpu));
        assert!(runs("80", "86") && !runs("80", "87") && !runs("87", "89") && runs("87", "87"));
        assert!(!runs("70", "72") && !runs("52", "53") && !runs("61", "62") && runs("60", "61"));
        assert!(runs("101", "110") && runs("110", "101") && !runs("100", "101") && !runs("110", "111"));
        assert_eq!(number("101a-real").other_name(), Some(number("110a-real")));
        assert_eq!((number("110").other_name(), number("90").other_name()), (Some(number("101")), None));
        assert!(number("101").translates_for(&number("110")) && number("110").translates_for(&number("101")));
        assert!(number("80").translates_for(&number("87")) && !number("103").translates_for(&number("100")));
    }

    #[test]
    fn kernel_numbers_map_to_gfx_names() {
        assert_eq!(gfx_from_target_version(110_003).as_deref(), Some("gfx1103"));
        assert_eq!(gfx_from_target_version(90_010).as_deref(), Some("gfx90a"));
        assert_eq!(gfx_from_target_version(90_402).as_deref(), Some("gfx942"));
        assert_eq!(gfx_from_target_version(0), None);
    }
}
