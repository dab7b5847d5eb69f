//! Variant wheels (PEP 825, PEP 850): the properties that a variant requires of a machine, and the documents that list them. Pure.
//!
//! Installers compare variants by their properties, in the order of namespaces, features and values. The properties of vendors only say
//! on which machines a variant runs. `gpubuild_order`, whose values every machine has, gives the order of [`crate::resolve()`].

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::matrix::PREFERENCE;
use gpubuild_detect::toolkit::{Catalogue, Description};
use gpubuild_toolkits::tables;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::machine::level;
use crate::manifest::{Cuda, ReleaseVariant, is_label};
use crate::preference::BackendOrder;
use crate::properties::known_archs;

/// The schema of the table.
const SCHEMA: u32 = 1;
/// The namespace of the properties that order variants.
const ORDER: &str = "gpubuild_order";
/// The largest number of architectures that is distinguished.
const MAX_ARCHS: usize = 64;
/// The largest number of backends that is distinguished.
const MAX_BACKENDS: usize = PREFERENCE.len() + 1;
/// The label of a variant without properties.
pub const NULL: &str = "null";

/// `toolkits/tables/wheel-variants.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderTable {
    schema: u32,
    url: String,
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "provider")]
    providers: Vec<ProviderRow>,
}

/// A provider of properties.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderRow {
    namespace: String,
    package: String,
    plugin: Option<String>,
    #[serde(rename = "source")]
    _source: String,
}

impl ProviderTable {
    fn embedded() -> &'static Self {
        static TABLE: OnceLock<ProviderTable> = OnceLock::new();
        TABLE.get_or_init(|| {
            let table: ProviderTable = gpubuild_toml::from_static(tables::WHEEL_VARIANTS)
                .unwrap_or_else(|error| panic!("toolkits/tables/wheel-variants.toml is tested: {error}"));
            assert_eq!(table.schema, SCHEMA, "toolkits/tables/wheel-variants.toml is tested");
            table
        })
    }
}

/// The properties of a variant: values by namespace and feature. A machine has to support one value of each feature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VariantProperties(BTreeMap<String, BTreeMap<String, Vec<String>>>);

impl VariantProperties {
    /// The properties of a variant. They are empty if it runs on every machine of its platform.
    #[must_use]
    pub fn of(variant: &ReleaseVariant, order: &[Backend], catalogue: &Catalogue) -> Self {
        let mut all = Self::default();
        let best = order.iter().copied().find(|backend| variant.backends.contains(backend));
        if let Some(best) = best.filter(|backend| *backend != Backend::Cpu) {
            all.add(ORDER, "backend", [best.id().to_owned()]);
            all.add(ORDER, "reach", [if variant.portable { "portable" } else { "narrow" }.to_owned()]);
            all.add(ORDER, "archs", [variant.archs().clamp(1, MAX_ARCHS).to_string()]);
            all.add(ORDER, "backends", [variant.backends.len().clamp(1, MAX_BACKENDS).to_string()]);
            match (best, &variant.cuda, &variant.rocm) {
                (Backend::Cuda, Some(code), _) => all.add_cuda(code, catalogue),
                (Backend::Rocm, _, Some(code)) => all.add("amd", "gfx_arch", code.gfx.iter().cloned()),
                // Every supported Mac has Metal.
                (Backend::Metal, ..) => {}
                _ => all.add("gpubuild", "backend", [best.id().to_owned()]),
            }
        }
        if let Some((name, rank)) = variant.cpu.as_deref().and_then(level).filter(|(_, rank)| *rank > 1) {
            all.add(&name.replace('-', "_"), "level", [format!("v{rank}")]);
        }
        all
    }

    fn add(&mut self, namespace: &str, feature: &str, values: impl IntoIterator<Item = String>) {
        let features = self.0.entry(namespace.to_owned()).or_default();
        let all = features.entry(feature.to_owned()).or_default();
        all.extend(values);
        all.sort_indirect();
        all.dedup();
    }

    fn add_cuda(&mut self, code: &Cuda, catalogue: &Catalogue) {
        let Some(cuda) = catalogue.for_backend(Backend::Cuda) else { return };
        let translated = Translated::of(code, cuda);
        let floor = cuda.newest_for_driver(&code.driver).unwrap_or(&code.release);
        let oldest = if translated.needs_release { floor.max(&code.release) } else { floor };
        self.add("nvidia", "cuda_version_lower_bound", [format!("{}.{}", oldest.major(), oldest.minor())]);
        let known = known_archs(cuda);
        let values = code.real.iter().map(|arch| real(arch, &known)).chain(translated.values);
        self.add("nvidia", "sm_arch", values);
    }

    /// Whether the variant runs on every machine of its platform.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The properties as `namespace :: feature :: value`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let features =
            self.0.iter().flat_map(|(space, features)| features.iter().map(move |one| (space, one)));
        features
            .flat_map(|(space, (feature, values))| {
                values.iter().map(move |value| format!("{space} :: {feature} :: {value}"))
            })
            .collect()
    }
}

/// A variant wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledVariant {
    /// The label, which is part of the name of the file.
    pub label: String,
    /// What it requires.
    pub properties: VariantProperties,
    /// The order in which the project prefers backends.
    pub order: Vec<Backend>,
}

impl LabelledVariant {
    /// The document of the wheel.
    #[must_use]
    pub fn document(&self) -> Value {
        document(&self.order, &BTreeMap::from([(self.label.clone(), self.properties.clone())]))
    }
}

/// The GPUs for which the driver compiles the PTX of a variant.
struct Translated {
    /// Values of `sm_arch`.
    values: Vec<String>,
    /// Whether one of these GPUs also works with drivers that are older than the CUDA release of the PTX.
    needs_release: bool,
}

impl Translated {
    /// A GPU that is newer than the CUDA release has a driver that compiles its PTX. Providers report the architecture `NN0_virtual` for
    /// all GPUs of a major version.
    fn of(code: &Cuda, cuda: &Description) -> Self {
        let is_native = |gpu: &CudaArch| code.real.iter().any(|real| real.runs_on(gpu));
        let known = known_archs(cuda);
        let gpus: Vec<&(CudaArch, Version)> = known
            .iter()
            .filter(|(gpu, _)| !is_native(gpu) && code.ptx.iter().any(|ptx| ptx.translates_for(gpu)))
            .collect();
        let is_newer = |since: &Version| *since >= code.release;
        let is_only_ptx = code.real.is_empty();
        let used = gpus.iter().filter(|(_, since)| is_only_ptx || is_newer(since));
        let values = used
            .filter(|(gpu, _)| gpu.number % 10 == 0 || code.ptx.contains(gpu))
            .map(|(gpu, _)| format!("{}_virtual", gpu.number))
            .collect();
        Self { values, needs_release: is_only_ptx && gpus.iter().any(|(_, since)| !is_newer(since)) }
    }
}

/// The value for machine code. Code of `90a` has the value of `90`, because it runs on all GPUs that support the value. For `100a`, no
/// such value exists.
fn real(arch: &CudaArch, known: &[(CudaArch, Version)]) -> String {
    let plain = CudaArch { suffix: None, ..arch.clone() };
    let is_same = known.iter().all(|(gpu, _)| plain.runs_on(gpu) == arch.runs_on(gpu));
    let suffix = arch.suffix.filter(|_| !is_same).map(String::from).unwrap_or_default();
    format!("{}{suffix}_real", arch.number)
}

/// The order in which a project prefers backends.
#[must_use]
pub fn backend_order(prefer: &[Backend]) -> Vec<Backend> {
    BackendOrder::preferring(prefer).iter().collect()
}

/// The document of a wheel (`variant.json`) or of all wheels of a version (`NAME-VERSION-variants.json`). Documents of the same version
/// differ in their variants only.
#[must_use]
pub fn document(order: &[Backend], variants: &BTreeMap<String, VariantProperties>) -> Value {
    let table = ProviderTable::embedded();
    let mut namespaces = vec![ORDER];
    let mut providers = serde_json::Map::new();
    let backends: Vec<&str> = order.iter().filter(|one| **one != Backend::Cpu).map(|one| one.id()).collect();
    let up_to = |max: usize| -> Vec<String> { (1..=max).map(|number| number.to_string()).collect() };
    providers.insert(
        ORDER.to_owned(),
        json!({
            "static-properties": {
                "backend": backends,
                "reach": ["narrow", "portable"],
                "archs": up_to(MAX_ARCHS),
                "backends": up_to(MAX_BACKENDS),
            },
            "feature-order": ["backend", "reach", "archs", "backends"],
        }),
    );
    for row in &table.providers {
        namespaces.push(&row.namespace);
        let mut provider = json!({ "requires": [row.package] });
        if let Some(plugin) = &row.plugin {
            provider["plugin-api"] = json!(plugin);
        }
        providers.insert(row.namespace.clone(), provider);
    }
    json!({
        "$schema": table.url,
        "default-priorities": { "namespace": namespaces },
        "providers": providers,
        "variants": variants,
    })
}

/// A document as text.
#[must_use]
pub fn text(document: &Value) -> String {
    format!("{document:#}\n")
}

/// Adds the variants of a document that is in the folder already, from another machine or an earlier call.
///
/// # Errors
/// The other document is invalid, was written with other settings, or has other properties for a label.
pub fn merge(document: &mut Value, other: &str) -> Result<(), String> {
    let other = gpubuild_detect::json::parse(other).ok_or("it is not JSON, or has too many values")?;
    for key in ["$schema", "default-priorities", "providers"] {
        if other[key] != document[key] {
            return Err(format!("`{key}` differs from that of the new wheels"));
        }
    }
    let older = other["variants"].as_object().ok_or("`variants` is not an object")?;
    let variants = document["variants"].as_object_mut().ok_or("no variants")?;
    for (label, properties) in older {
        if !is_label(label) {
            return Err(format!("`{label}` is not a valid label"));
        }
        let known = variants.entry(label.clone()).or_insert_with(|| properties.clone());
        if known != properties {
            return Err(format!("the variant `{label}` has other properties"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "variant_tests.rs"]
mod tests;
