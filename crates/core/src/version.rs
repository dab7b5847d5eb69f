//! Dotted versions as vendors write them: `12.4.131`, `550.144.03`, `6.4.0-47`. Not `SemVer`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A version that is compared by its numbers and displayed as it was written.
///
/// Numbers are compared from left to right and a missing one counts as zero, so `12.4` equals `12.4.0`.
/// The text after the numbers (`-47`, `rc1`, `+deb12`) is kept for display and ignored in comparisons.
#[derive(Debug, Clone)]
pub struct Version {
    text: String,
    numbers: Vec<u64>,
}

/// The error for text that does not start with a number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version: it must start with a number")]
pub struct NotAVersion(pub String);

impl Version {
    /// The version that a number of CUDA's interface stands for: 12040 is 12.4.
    #[must_use]
    pub fn of_cuda_number(number: u64) -> Self {
        let numbers = vec![number / 1000, number % 1000 / 10];
        Self { text: format!("{}.{}", numbers[0], numbers[1]), numbers }
    }

    /// The version as it was written, without a leading `v`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first number: 12 of `12.4.131`.
    #[must_use]
    pub fn major(&self) -> u64 {
        self.part(0)
    }

    /// The second number; zero if it is missing.
    #[must_use]
    pub fn minor(&self) -> u64 {
        self.part(1)
    }

    /// The number at `index`, counted from zero; zero if it is missing.
    #[must_use]
    pub fn part(&self, index: usize) -> u64 {
        self.numbers.get(index).copied().unwrap_or(0)
    }

    /// `major.minor` as text, for messages that name a release line.
    #[must_use]
    pub fn release(&self) -> String {
        format!("{}.{}", self.major(), self.minor())
    }

    /// The first version in `text`: at least two groups of digits, separated by dots.
    #[must_use]
    pub fn find_in(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut start = 0;
        while start < bytes.len() {
            let boundary =
                start == 0 || !(bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'.');
            if bytes[start].is_ascii_digit() && boundary {
                let end = start
                    + text[start..]
                        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
                        .unwrap_or(text.len() - start);
                let candidate = text[start..end].trim_end_matches('.');
                if candidate.contains('.') {
                    return candidate.parse().ok();
                }
            }
            start += 1;
        }
        None
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let digits = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let mut numbers = Vec::new();
        for piece in digits.split('.') {
            let end = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
            match piece[..end].parse() {
                Ok(number) => numbers.push(number),
                Err(_) => break,
            }
            if end < piece.len() {
                break;
            }
        }
        if numbers.is_empty() {
            return Err(NotAVersion(text.to_owned()));
        }
        Ok(Self { text: digits.to_owned(), numbers })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let length = self.numbers.len().max(other.numbers.len());
        (0..length).map(|i| self.part(i).cmp(&other.part(i))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

#[cfg(feature = "schema")]
crate::string_schema!(Version);

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A version requirement: comparisons that must all hold, `>=12.4, <13`.
///
/// A version without an operator matches its release line: `12` matches every 12.x, `12.4` every 12.4.x.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRequirement {
    comparisons: Vec<(Comparison, Version)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    Above,
    AtMost,
    Below,
    Exactly,
    Line,
}

impl VersionRequirement {
    /// Whether `version` meets every comparison.
    #[must_use]
    pub fn holds(&self, version: &Version) -> bool {
        self.comparisons.iter().all(|(comparison, limit)| match comparison {
            Comparison::AtLeast => version >= limit,
            Comparison::Above => version > limit,
            Comparison::AtMost => version <= limit,
            Comparison::Below => version < limit,
            Comparison::Exactly => version == limit,
            Comparison::Line => {
                limit.numbers.iter().enumerate().all(|(i, number)| version.part(i) == *number)
            }
        })
    }
}

impl FromStr for VersionRequirement {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let operators = [
            (">=", Comparison::AtLeast),
            ("<=", Comparison::AtMost),
            ("==", Comparison::Exactly),
            (">", Comparison::Above),
            ("<", Comparison::Below),
            ("=", Comparison::Exactly),
        ];
        let comparisons = text
            .split(',')
            .map(|part| {
                let part = part.trim();
                let (comparison, rest) = operators
                    .iter()
                    .find_map(|(operator, comparison)| Some((*comparison, part.strip_prefix(operator)?)))
                    .unwrap_or((Comparison::Line, part));
                Ok((comparison, rest.parse()?))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { comparisons })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_ordered_by_number() {
        assert!(version("550.54.15") < version("550.144.03"));
        assert!(version("12.10") > version("12.9"));
        assert!(version("6.4.0-47") == version("6.4"));
        assert_eq!(version("v3.28.1").as_str(), "3.28.1");
        assert_eq!(version("580.65.06").to_string(), "580.65.06");
    }

    #[test]
    fn versions_are_found_in_text() {
        let nvcc = "Cuda compilation tools, release 12.4, V12.4.131";
        assert_eq!(Version::find_in(nvcc).unwrap().as_str(), "12.4");
        assert_eq!(Version::find_in("gcc (Debian 12.2.0-14) 12.2.0").unwrap().as_str(), "12.2.0");
        assert!(Version::find_in("no digits").is_none());
        assert!(Version::find_in("2024").is_none());
    }

    #[test]
    fn text_without_a_number_is_refused() {
        assert_eq!("latest".parse::<Version>(), Err(NotAVersion("latest".into())));
    }

    #[test]
    fn requirements_match_versions() {
        let holds = |requirement: &str, text: &str| {
            requirement.parse::<VersionRequirement>().unwrap().holds(&version(text))
        };
        assert!(holds(">=12.4", "12.4.131") && holds(">=12.4, <13", "12.9") && !holds(">=12.4,<13", "13.0"));
        assert!(holds("12", "12.8") && !holds("12.4", "12.5.1") && holds("=12.4.1", "12.4.1"));
        assert!("newest".parse::<VersionRequirement>().is_err() && "".parse::<VersionRequirement>().is_err());
    }

    proptest::proptest! {
        #[test]
        fn order_is_total_and_agrees_with_the_numbers(a in proptest::collection::vec(0u64..2000, 1..4), b in proptest::collection::vec(0u64..2000, 1..4)) {
            let join = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
            let (left, right) = (version(&join(&a)), version(&join(&b)));
            proptest::prop_assert_eq!(left.cmp(&right), right.cmp(&left).reverse());
            proptest::prop_assert_eq!(left == right, left.cmp(&right).is_eq());
        }
    }
}
