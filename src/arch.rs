//! Architectures of NVIDIA and AMD devices: `sm_90`, `gfx942`, and lists of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An NVIDIA architecture as it stands in a list for CMake: `90`, `90a-real`, `120f-virtual`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CudaArch {
    /// Compute capability times ten: 90, 120.
    pub number: u16,
    /// `a`, `f` or none.
    pub suffix: Option<char>,
    /// Machine code, PTX or both.
    pub code: CudaCode,
}

/// What is generated for an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CudaCode {
    /// Machine code and PTX.
    Both,
    /// Machine code only, `-real`.
    Real,
    /// PTX only, `-virtual`.
    Virtual,
}

/// Text that is no architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no CUDA architecture: write `90`, `9.0`, `sm_90`, `90a-real` or `120f-virtual`")]
pub struct NotAnArch(pub String);

impl CudaArch {
    /// Both machine code and PTX for a compute capability times ten.
    #[must_use]
    pub fn new(number: u16) -> Self {
        Self { number, suffix: None, code: CudaCode::Both }
    }

    /// The same architecture with other code.
    #[must_use]
    pub fn with_code(&self, code: CudaCode) -> Self {
        Self { code, ..self.clone() }
    }

    /// `sm_90a`.
    #[must_use]
    pub fn sm(&self) -> String {
        format!("sm_{}{}", self.number, self.suffix.map(String::from).unwrap_or_default())
    }

    /// Whether machine code for it runs on a card: on its own architecture and on later ones of the same major version; code with
    /// an `a`, and code of or for boards with a GPU on the chip, on its own alone (NVIDIA, CUDA C++ programming guide, "Binary
    /// compatibility" and "Family-specific features").
    #[must_use]
    pub fn runs_on(&self, card: &Self) -> bool {
        let (own, card) = (renamed(self.number), renamed(card.number));
        let on_chip = ON_CHIP.contains(&own) || ON_CHIP.contains(&card);
        match self.suffix {
            Some('a') => own == card,
            _ if on_chip => own == card,
            _ => own / 10 == card / 10 && own <= card,
        }
    }

    /// Whether PTX for it is translated for a card: for its own architecture and everything later; with a letter as machine code
    /// runs.
    #[must_use]
    pub fn translates_for(&self, card: &Self) -> bool {
        if self.suffix.is_some() { self.runs_on(card) } else { renamed(self.number) <= renamed(card.number) }
    }
}

/// GPUs of Tegra chips: TX1, TX2, Xavier, Orin, Thor.
const ON_CHIP: [u16; 5] = [53, 62, 72, 87, 110];

/// Thor was 10.1 in CUDA 12 and is 11.0 from 13.0 on.
fn renamed(number: u16) -> u16 {
    if number == 101 { 110 } else { number }
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

impl Serialize for CudaArch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A list as people write it: separated by `;`, `,` or white space; sorted, each entry once.
///
/// # Errors
/// The first word that is no architecture.
pub fn parse_cuda_list(text: &str) -> Result<Vec<CudaArch>, NotAnArch> {
    let mut list = text
        .split([';', ',', ' ', '\t', '\n'])
        .filter(|word| !word.is_empty())
        .map(str::parse)
        .collect::<Result<Vec<CudaArch>, _>>()?;
    list.sort();
    list.dedup();
    Ok(list)
}

/// The list as CMake wants it.
#[must_use]
pub fn cmake_list<T: fmt::Display>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(";")
}

/// The gfx name of a `gfx_target_version` of the kernel driver: 110003 -> `gfx1103`, 90010 -> `gfx90a`.
/// `None` for 0, which is the processor's node.
#[must_use]
pub fn gfx_from_target_version(version: u32) -> Option<String> {
    let (major, minor, step) = (version / 10_000, version / 100 % 100, version % 100);
    (version > 0).then(|| format!("gfx{major}{minor:x}{step:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_read() {
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
    fn kernel_numbers_become_gfx_names() {
        assert_eq!(gfx_from_target_version(110_003).as_deref(), Some("gfx1103"));
        assert_eq!(gfx_from_target_version(90_010).as_deref(), Some("gfx90a"));
        assert_eq!(gfx_from_target_version(90_402).as_deref(), Some("gfx942"));
        assert_eq!(gfx_from_target_version(0), None);
    }
}
