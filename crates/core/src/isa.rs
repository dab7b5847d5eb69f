//! Instruction sets by name: which ones compiler flags, levels and project options allow. The names are data
//! (`toolkits/tables/isa.toml`). Pure.

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
    /// Project options with the features that they enable when on; `native` enables those of the build machine.
    pub options: BTreeMap<String, String>,
    asks: CpuQuery,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuQuery {
    symbols: Vec<String>,
}

/// Instruction sets of one processor architecture.
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
    /// The compilers' name: `avx2`.
    pub id: String,
    /// The disassembler's names.
    #[serde(default)]
    pub decoder: Vec<String>,
    /// Bits that identify its instructions: `mask/value`.
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

/// Instruction sets that code may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Promise {
    /// Features by id, including those that they imply.
    pub features: BTreeSet<String>,
    /// Includes whatever the build machine has, so nothing can be compared with it and it says nothing about other machines.
    pub native: bool,
}

impl Promise {
    /// Adds the features of another promise.
    pub fn add(&mut self, other: &Self) {
        self.features.extend(other.features.iter().cloned());
        self.native |= other.native;
    }

    /// Whether nothing beyond the baseline is allowed.
    #[must_use]
    pub fn is_baseline(&self) -> bool {
        self.features.is_empty() && !self.native
    }
}

/// The parsed table.
///
/// # Panics
/// If the embedded file is invalid; a test rules that out.
#[must_use]
pub fn table() -> &'static IsaTable {
    TABLE.get_or_init(|| {
        gpubuild_toml::from_bytes(tables::ISA)
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

    /// Whether a symbol belongs to code that queries the processor's features.
    #[must_use]
    pub fn asks(&self, symbol: &str) -> bool {
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
    /// The feature with this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Feature> {
        self.feature.iter().find(|feature| feature.id == id || feature.flags.iter().any(|flag| flag == id))
    }

    /// Inserts a feature and everything it implies.
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

    /// What a level or a processor supports: `x86-64-v3`, `haswell`, `armv8.2-a+dotprod`.
    #[must_use]
    pub fn cpu(&self, name: &str) -> Option<Promise> {
        if name == "native" {
            return Some(Promise { native: true, ..Promise::default() });
        }
        let (base, extras) = name.split_once('+').map_or((name, ""), |(base, extras)| (base, extras));
        let base = self.cpu.iter().find(|cpu| cpu.names.iter().any(|known| known == base))?;
        let extras = extras.split('+').filter(|extra| !extra.is_empty());
        Some(Promise { features: self.all(base.has.iter().map(String::as_str).chain(extras)), native: false })
    }

    /// The names that [`cpu`](Self::cpu) accepts.
    pub fn cpus(&self) -> impl Iterator<Item = &str> {
        self.cpu.iter().flat_map(|cpu| &cpu.names).map(String::as_str)
    }

    /// What compiler flags allow, applied in order.
    #[must_use]
    pub fn flags<'a>(&self, flags: impl IntoIterator<Item = &'a str>) -> Promise {
        let mut promise = Promise::default();
        for flag in flags {
            if let Some(arch) = flag.strip_prefix("/arch:").or_else(|| flag.strip_prefix("-arch:")) {
                let has = self.msvc.get(arch).into_iter().flatten().map(String::as_str);
                promise.features.extend(self.all(has));
            } else if let Some(cpu) = flag.strip_prefix("-march=").or_else(|| flag.strip_prefix("-mcpu=")) {
                promise.add(&self.cpu(cpu).unwrap_or_default());
            } else if let Some(off) = flag.strip_prefix("-mno-") {
                promise.features.remove(off);
            } else if let Some(id) = flag.strip_prefix("-m") {
                promise.features.extend(self.all([id]));
            }
        }
        promise
    }

    /// The lowest level that has all these features; `None` if no level does.
    #[must_use]
    pub fn level(&self, features: &BTreeSet<String>) -> Option<&str> {
        let fits =
            |cpu: &&CpuModel| cpu.level && self.all(cpu.has.iter().map(String::as_str)).is_superset(features);
        self.cpu.iter().find(fits).and_then(|cpu| cpu.names.first()).map(String::as_str)
    }

    /// What the cache entries of a configured project allow, and the entries that say so.
    #[must_use]
    pub fn options(&self, entries: &BTreeMap<String, String>) -> (Promise, Vec<String>) {
        let mut promise = Promise::default();
        let mut from = Vec::new();
        for (name, value) in entries {
            let one = match table().options.get(name) {
                Some(_) if !is_on(value) => continue,
                Some(features) if features == "native" => Promise { native: true, ..Promise::default() },
                Some(features) => Promise { features: self.all(features.split(' ')), native: false },
                None => self.flags(value.split_ascii_whitespace()),
            };
            if !one.is_baseline() {
                from.push(format!("{name}={value}"));
                promise.add(&one);
            }
        }
        (promise, from)
    }
}

/// Whether CMake interprets a value as true.
fn is_on(value: &str) -> bool {
    let value = value.to_ascii_uppercase();
    !matches!(value.as_str(), "" | "0" | "OFF" | "NO" | "FALSE" | "N" | "IGNORE" | "NOTFOUND")
        && !value.ends_with("-NOTFOUND")
}

/// Whether a compiler flag selects the instructions that may be used.
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
    fn flags_allow_the_features_they_name() {
        let check = |flags: &str, level: Option<&str>, native: bool| {
            let promise = x86().flags(flags.split(' '));
            assert_eq!((x86().level(&promise.features), promise.native), (level, native), "{flags}");
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
        let (promise, from) = x86().options(&entries(&[("GGML_AVX2", "ON"), ("GGML_AVX512", "OFF")]));
        assert!(promise.features.contains("avx2") && !promise.features.contains("avx512f"));
        assert_eq!(from, ["GGML_AVX2=ON"]);
        let (promise, _) = x86().options(&entries(&[("CMAKE_C_FLAGS", "-O2 -march=haswell")]));
        assert!(promise.features.contains("bmi2"));
        assert!(x86().options(&entries(&[("GGML_NATIVE", "ON")])).0.native);
    }
}
