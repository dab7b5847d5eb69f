//! Overrides: values that replace observations, for hosts without the hardware.

use gpubuild_core::arch::CudaArch;
use gpubuild_core::version::Version;
use gpubuild_host::{Environment, Os, Platform};

use super::{DriverFacts, EnvironmentOverride, Fact, Facts, Gpu, Vendor};
use crate::finding::Evidence;

/// Variables of other tools, and the keys that they set.
///
/// `CUDA_COMPUTE_CAP` and `CUDAARCHS` select the architectures to compile for, not the device, so they have a separate key.
const VARIABLES: [(&str, &str); 5] = [
    ("UV_CUDA_DRIVER_VERSION", "cuda.driver"),
    ("CONDA_OVERRIDE_CUDA", "cuda.version"),
    ("CUDA_COMPUTE_CAP", "cuda.archs"),
    ("CUDAARCHS", "cuda.archs"),
    ("HSA_OVERRIDE_GFX_VERSION", "rocm.hsa-override"),
];

/// The valid keys of `GPUBUILD_SET`.
pub const KEYS: [&str; 7] =
    ["cuda.driver", "cuda.version", "cuda.cc", "cuda.memory", "rocm.driver", "rocm.gfx", "rocm.memory"];

/// An invalid part of `GPUBUILD_SET`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` in `GPUBUILD_SET` {why}\nhint: write `key=value,key=value` with the keys {}", KEYS.join(", "))]
pub struct BadSet {
    /// The part as written.
    pub part: String,
    /// The problem, as the end of a sentence.
    pub why: &'static str,
}

/// Parses the value of `GPUBUILD_SET`, such as `cuda.driver=550.54,cuda.cc=90`. Returns valid and invalid parts.
#[must_use]
pub fn parse_set(text: &str) -> (Vec<EnvironmentOverride>, Vec<BadSet>) {
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for part in text.split([',', ';']).map(str::trim).filter(|part| !part.is_empty()) {
        let mut refuse = |why| bad.push(BadSet { part: part.to_owned(), why });
        let Some((key, value)) = part.split_once('=') else {
            refuse("has no `=`");
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        if !KEYS.contains(&key) {
            refuse("has an unknown key");
        } else if !is_valid(key, value) {
            refuse("has an invalid value");
        } else {
            good.push(EnvironmentOverride {
                key: key.to_owned(),
                value: value.to_owned(),
                origin: "GPUBUILD_SET".to_owned(),
            });
        }
    }
    (good, bad)
}

fn is_valid(key: &str, value: &str) -> bool {
    match key {
        "cuda.cc" => value.parse::<CudaArch>().is_ok(),
        "rocm.gfx" => gfx(value).is_some(),
        "cuda.memory" | "rocm.memory" => value.parse::<u64>().is_ok(),
        _ => value.parse::<Version>().is_ok(),
    }
}

/// Gathers all overrides, those of `GPUBUILD_SET` first. The first override of a key is used.
pub(super) fn gather(env: &Environment) -> Vec<EnvironmentOverride> {
    let mut overrides = env.get("GPUBUILD_SET").map(|text| parse_set(text).0).unwrap_or_default();
    for (variable, key) in VARIABLES {
        let Some(value) = env.get(variable) else { continue };
        let value = match key {
            "rocm.hsa-override" => match parse_hsa(value) {
                Some(gfx) => gfx,
                None => value.trim().to_owned(),
            },
            _ => value.trim().to_owned(),
        };
        overrides.push(EnvironmentOverride { key: key.to_owned(), value, origin: variable.to_owned() });
    }
    overrides
}

/// Parses an architecture: `gfx942` or `942`.
fn gfx(text: &str) -> Option<String> {
    let digits = text.trim().to_lowercase();
    let digits = digits.strip_prefix("gfx").unwrap_or(&digits);
    let plausible = (3..=4).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_hexdigit());
    plausible.then(|| format!("gfx{digits}"))
}

/// Parses the value of `HSA_OVERRIDE_GFX_VERSION`: `10.3.0` is `gfx1030`.
fn parse_hsa(text: &str) -> Option<String> {
    let mut numbers = text.trim().split('.').map(|number| number.parse::<u32>().ok());
    let (major, minor, step) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (minor < 16 && step < 16).then(|| format!("gfx{major}{minor:x}{step:x}"))
}

/// Applies the overrides that replace facts.
pub(super) fn apply(facts: &mut Facts) {
    let first = |key: &str| facts.overrides.iter().find(|set| set.key == key).cloned();
    let (cuda_driver, cuda_cc, cuda_memory) = (first("cuda.driver"), first("cuda.cc"), first("cuda.memory"));
    let (rocm_driver, rocm_gfx, rocm_memory) =
        (first("rocm.driver"), first("rocm.gfx"), first("rocm.memory"));
    let platform = facts.platform;
    if let Some(set) = cuda_driver {
        set_driver(facts, Vendor::Nvidia, module(platform, Vendor::Nvidia), &set);
    }
    if let Some(set) = rocm_driver {
        set_driver(facts, Vendor::Amd, module(platform, Vendor::Amd), &set);
    }
    if let Some(set) = cuda_cc {
        let arch = set.value.parse::<CudaArch>().ok().map(|arch| arch.sm());
        set_device(facts, Vendor::Nvidia, arch, &set, cuda_memory.as_ref());
    }
    if let Some(set) = rocm_gfx {
        let arch = gfx(&set.value);
        set_device(facts, Vendor::Amd, arch, &set, rocm_memory.as_ref());
    }
}

fn module(platform: Platform, vendor: Vendor) -> &'static str {
    match (vendor, platform.os) {
        (Vendor::Amd, _) => "amdgpu",
        _ => "nvidia",
    }
}

fn evidence(set: &EnvironmentOverride) -> Evidence {
    Evidence::env(&set.origin, format!("{}={}", set.key, set.value))
}

fn set_driver(facts: &mut Facts, vendor: Vendor, module: &str, set: &EnvironmentOverride) {
    let Ok(version) = set.value.parse::<Version>() else { return };
    let version = Fact { value: version, found_via: "override".to_owned(), evidence: vec![evidence(set)] };
    match facts.drivers.iter_mut().find(|driver| driver.module == module) {
        Some(driver) => driver.version = Some(version),
        None => facts.drivers.push(DriverFacts {
            vendor,
            module: module.to_owned(),
            version: Some(version),
            flavour: None,
        }),
    }
}

/// Sets the architecture of the vendor's devices, or adds a device if the machine has no such device.
fn set_device(
    facts: &mut Facts,
    vendor: Vendor,
    arch: Option<String>,
    set: &EnvironmentOverride,
    memory: Option<&EnvironmentOverride>,
) {
    let memory_bytes = memory.and_then(|memory| memory.value.parse().ok());
    let mut found = false;
    for gpu in facts.gpus.iter_mut().filter(|gpu| gpu.vendor == vendor) {
        found = true;
        gpu.arch.clone_from(&arch);
        gpu.memory_bytes = memory_bytes.or(gpu.memory_bytes);
        gpu.found_via.push("override".to_owned());
        gpu.evidence.push(evidence(set));
    }
    if !found {
        let maker = vendor.label();
        let bound = (facts.platform.os == Os::Linux).then(|| module(facts.platform, vendor).to_owned());
        facts.gpus.push(Gpu {
            name: format!("{maker} GPU {}", arch.as_deref().unwrap_or_default()).trim_end().to_owned(),
            kernel_driver: bound,
            arch,
            memory_bytes,
            found_via: vec!["override".to_owned()],
            evidence: vec![evidence(set)],
            ..Gpu::unknown(vendor)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed_and_errors_are_explained() {
        let (good, bad) = parse_set("cuda.driver=550.54, cuda.cc=90;rocm.gfx=gfx942,");
        let pairs: Vec<_> = good.iter().map(|set| (set.key.as_str(), set.value.as_str())).collect();
        assert_eq!(pairs, [("cuda.driver", "550.54"), ("cuda.cc", "90"), ("rocm.gfx", "gfx942")]);
        assert!(bad.is_empty());
        let (good, bad) = parse_set("cuda.cc=ninety,cuda.colour=red,nothing,rocm.gfx=gfxyz");
        assert!(good.is_empty());
        let why: Vec<_> = bad.iter().map(|bad| bad.why).collect();
        let invalid = "has an invalid value";
        assert_eq!(why, [invalid, "has an unknown key", "has no `=`", invalid]);
        assert!(bad[1].to_string().contains("hint: write `key=value"), "{}", bad[1]);
    }

    #[test]
    fn variables_of_other_tools_keep_their_origin() {
        let env = Environment::new(
            Os::Linux,
            [
                ("GPUBUILD_SET", "cuda.driver=570.1"),
                ("UV_CUDA_DRIVER_VERSION", "550.54"),
                ("HSA_OVERRIDE_GFX_VERSION", "10.3.0"),
                ("CUDAARCHS", "80;90"),
                ("CONDA_OVERRIDE_CUDA", ""),
            ],
        );
        let set: Vec<_> = gather(&env).into_iter().map(|set| (set.key, set.value, set.origin)).collect();
        let expected = [
            ("cuda.driver", "570.1", "GPUBUILD_SET"),
            ("cuda.driver", "550.54", "UV_CUDA_DRIVER_VERSION"),
            ("cuda.archs", "80;90", "CUDAARCHS"),
            ("rocm.hsa-override", "gfx1030", "HSA_OVERRIDE_GFX_VERSION"),
        ];
        assert_eq!(set, expected.map(|(key, value, origin)| (key.into(), value.into(), origin.into())));
        assert_eq!(parse_hsa("9.0.10").as_deref(), Some("gfx90a"));
        assert_eq!(parse_hsa("nonsense"), None);
    }
}
