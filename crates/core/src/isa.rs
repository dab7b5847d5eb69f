//! Determines which instruction sets compiler flags, levels and project options allow. Names are data (`toolkits/tables/isa.toml`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use gpubuild_toolkits::tables;
use serde::Deserialize;

static TABLE: OnceLock<IsaTable> = OnceLock::new();

/// The content of `toolkits/tables/isa.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsaTable {
    #[serde(rename = "schema")]
    _schema: u32,
    x86_64: Processor,
    aarch64: Processor,
    /// Project options and the features that they enable; `native` enables the features of the build machine.
    pub options: BTreeMap<String, String>,
    asks: CpuQuery,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuQuery {
    symbols: Vec<String>,
}

/// The instruction sets of one processor architecture.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Features beyond the baseline.
    pub feature: Vec<Feature>,
    cpu: Vec<CpuModel>,
    #[serde(default)]
    msvc: BTreeMap<String, Vec<String>>,
}

/// One instruction set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// The name in compiler flags: `avx2`.
    pub id: String,
    /// The names that the disassembler uses.
    #[serde(default)]
    pub decoder: Vec<String>,
    /// Bit patterns that identify its instructions, as `mask/value`.
    #[serde(default)]
    pub words: Vec<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    implies: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuModel {
    names: Vec<String>,
    #[serde(default)]
    level: bool,
    has: Vec<String>,
}

/// The instruction set features that code may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedFeatures {
    /// Ids of the features, including implied ones.
    pub features: BTreeSet<String>,
    /// Whether all features of the build machine are allowed. Such code cannot be checked and may not run on other machines.
    pub native: bool,
}

impl AllowedFeatures {
    /// Adds the features that `other` allows.
    pub fn add(&mut self, other: &Self) {
        self.features.extend(other.features.iter().cloned());
        self.native |= other.native;
    }

    /// Whether only baseline features are allowed.
    #[must_use]
    pub fn is_baseline(&self) -> bool {
        self.features.is_empty() && !self.native
    }
}

/// The embedded table, parsed on first use.
///
/// # Panics
/// The embedded file is invalid; a test rules this out.
#[must_use]
pub fn table() -> &'static IsaTable {
    TABLE.get_or_init(|| {
        gpubuild_toml::from_static(tables::ISA)
            .unwrap_or_else(|error| panic!("toolkits/tables/isa.toml: {error}"))
    })
}

impl IsaTable {
    /// The instruction sets of `x86_64` or `aarch64`; `None` for other names.
    #[must_use]
    pub fn processor(&self, name: &str) -> Option<&Processor> {
        match name {
            "x86_64" => Some(&self.x86_64),
            "aarch64" => Some(&self.aarch64),
            _ => None,
        }
    }

    /// Whether a symbol belongs to code that queries processor features at run time.
    #[must_use]
    pub fn is_cpu_query(&self, symbol: &str) -> bool {
        self.asks.symbols.iter().any(|known| symbol == known)
    }

    /// Whether a project's cache entry affects instruction sets.
    #[must_use]
    pub fn is_option(&self, name: &str) -> bool {
        let is_flags = name.strip_prefix("CMAKE_").and_then(|rest| rest.strip_suffix("_FLAGS"));
        self.options.contains_key(name) || is_flags.is_some_and(|language| !language.contains("LINKER"))
    }
}

impl Processor {
    /// Finds a feature by id or disassembler name.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Feature> {
        self.feature.iter().find(|feature| feature.id == id || feature.flags.iter().any(|flag| flag == id))
    }

    /// Inserts a feature and all features that it implies.
    fn insert(&self, id: &str, into: &mut BTreeSet<String>) {
        let Some(feature) = self.find(id) else { return };
        if into.insert(feature.id.clone()) {
            feature.implies.iter().for_each(|implied| self.insert(implied, into));
        }
    }

    fn all<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
        let mut features = BTreeSet::new();
        ids.into_iter().for_each(|id| self.insert(id, &mut features));
        features
    }

    /// The features of a level or processor: `x86-64-v3`, `haswell`, `armv8.2-a+dotprod`. `None` for unknown names.
    #[must_use]
    pub fn cpu(&self, name: &str) -> Option<AllowedFeatures> {
        if name == "native" {
            return Some(AllowedFeatures { native: true, ..AllowedFeatures::default() });
        }
        let (base, extras) = name.split_once('+').map_or((name, ""), |(base, extras)| (base, extras));
        let base = self.cpu.iter().find(|cpu| cpu.names.iter().any(|known| known == base))?;
        let extras = extras.split('+').filter(|extra| !extra.is_empty());
        Some(AllowedFeatures {
            features: self.all(base.has.iter().map(String::as_str).chain(extras)),
            native: false,
        })
    }

    /// The names that [`cpu`](Self::cpu) accepts.
    pub fn cpus(&self) -> impl Iterator<Item = &str> {
        self.cpu.iter().flat_map(|cpu| &cpu.names).map(String::as_str)
    }

    /// The features that compiler flags allow, applied in order.
    #[must_use]
    pub fn flags<'a>(&self, flags: impl IntoIterator<Item = &'a str>) -> AllowedFeatures {
        let mut allowed = AllowedFeatures::default();
        for flag in flags {
            if let Some(arch) = flag.strip_prefix("/arch:").or_else(|| flag.strip_prefix("-arch:")) {
                let has = self.msvc.get(arch).into_iter().flatten().map(String::as_str);
                allowed.features.extend(self.all(has));
            } else if let Some(cpu) = flag.strip_prefix("-march=").or_else(|| flag.strip_prefix("-mcpu=")) {
                allowed.add(&self.cpu(cpu).unwrap_or_default());
            } else if let Some(off) = flag.strip_prefix("-mno-") {
                allowed.features.remove(off);
            } else if let Some(id) = flag.strip_prefix("-m") {
                allowed.features.extend(self.all([id]));
            }
        }
        allowed
    }

    /// The lowest level that has all these features; `None` if no level does.
    #[must_use]
    pub fn level(&self, features: &BTreeSet<String>) -> Option<&str> {
        let fits =
            |cpu: &&CpuModel| cpu.level && self.all(cpu.has.iter().map(String::as_str)).is_superset(features);
        self.cpu.iter().find(fits).and_then(|cpu| cpu.names.first()).map(String::as_str)
    }

    /// The features that the CMake cache of a project allows, and the entries that allow them.
    #[must_use]
    pub fn options(&self, entries: &BTreeMap<String, String>) -> (AllowedFeatures, Vec<String>) {
        let mut allowed = AllowedFeatures::default();
        let mut from = Vec::new();
        for (name, value) in entries {
            let one = match table().options.get(name) {
                Some(_) if !is_on(value) => continue,
                Some(features) if features == "native" => {
                    AllowedFeatures { native: true, ..AllowedFeatures::default() }
                }
                Some(features) => AllowedFeatures { features: self.all(features.split(' ')), native: false },
                None => self.flags(value.split_ascii_whitespace()),
            };
            if !one.is_baseline() {
                from.push(format!("{name}={value}"));
                allowed.add(&one);
            }
        }
        (allowed, from)
    }
}

/// Whether CMake interprets a value as true.
fn is_on(value: &str) -> bool {
    let value = value.to_ascii_uppercase();
    !matches!(value.as_str(), "" | "0" | "OFF" | "NO" | "FALSE" | "N" | "IGNORE" | "NOTFOUND")
        && !value.ends_with("-NOTFOUND")
}

/// Whether a compiler flag selects instruction set features.
#[must_use]
pub fn is_machine_flag(flag: &str) -> bool {
    let is_model = flag.starts_with("-mcmodel") || flag.starts_with("-mtune") || flag.starts_with("-macosx");
    (flag.starts_with("-m") && !is_model) || flag.starts_with("/arch:") || flag.starts_with("-arch:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x86() -> &'static Processor {
        table().processor("x86_64").unwrap()
    }

    #[test]
    fn all_names_in_the_table_are_features() {
        for processor in [&table().x86_64, &table().aarch64] {
            let in_features = processor.feature.iter().flat_map(|feature| &feature.implies);
            let in_cpus = processor.cpu.iter().flat_map(|cpu| &cpu.has);
            for name in in_features.chain(in_cpus).chain(processor.msvc.values().flatten()) {
                assert!(processor.find(name).is_some(), "{name}");
            }
            assert!(processor.feature.iter().all(|it| it.decoder.is_empty() != it.words.is_empty()));
        }
        for features in table().options.values().filter(|features| *features != "native") {
            assert!(features.split(' ').all(|name| x86().find(name).is_some()), "{features}");
        }
    }

    #[test]
    fn flags_allow_the_features_that_they_name() {
        let check = |flags: &str, level: Option<&str>, native: bool| {
            let allowed = x86().flags(flags.split(' '));
            assert_eq!((x86().level(&allowed.features), allowed.native), (level, native), "{flags}");
        };
        check("-O3 -msse2 -mtune=native", Some("x86-64"), false);
        check("-mavx2 -mfma", Some("x86-64-v3"), false);
        check("-mavx2 -mno-avx2", Some("x86-64-v3"), false);
        check("-march=x86-64-v2", Some("x86-64-v2"), false);
        check("/arch:AVX512", Some("x86-64-v4"), false);
        check("-mavx512vnni", None, false);
        check("-march=native", Some("x86-64"), true);
    }

    #[test]
    fn only_enabled_options_count() {
        let entries = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let (allowed, from) = x86().options(&entries(&[("GGML_AVX2", "ON"), ("GGML_AVX512", "OFF")]));
        assert!(allowed.features.contains("avx2") && !allowed.features.contains("avx512f"));
        assert_eq!(from, ["GGML_AVX2=ON"]);
        let (allowed, _) = x86().options(&entries(&[("CMAKE_C_FLAGS", "-O2 -march=haswell")]));
        assert!(allowed.features.contains("bmi2"));
        assert!(x86().options(&entries(&[("GGML_NATIVE", "ON")])).0.native);
    }
}
