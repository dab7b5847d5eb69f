//! Selects the Cargo features of a program that are named after backends. If backends are requested by name, the program
//! is built with exactly their features, independent of its default features. Pure.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use serde::Deserialize;

/// The features of a Cargo.toml, each with the features that it enables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Features(BTreeMap<String, Vec<String>>);

#[derive(Default, Deserialize)]
struct CrateFeatures {
    #[serde(default)]
    features: Features,
}

impl Features {
    /// Parses a Cargo.toml. Returns no features if it is invalid; cargo reports the error.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        gpubuild_toml::from_str::<CrateFeatures>(text).unwrap_or_default().features
    }

    /// Arguments for cargo that enable exactly the features of these backends and keep all features that are not named after
    /// backends. Empty if the default features are already correct, or if the package has no such features.
    #[must_use]
    pub fn arguments(&self, backends: &[Backend]) -> Vec<String> {
        let backend = |name: &str| self.0.contains_key(name).then(|| name.parse::<Backend>().ok()).flatten();
        let is_other = |name: &str| backend(name).is_some_and(|one| !backends.contains(&one));
        let is_asked = |name: &String| backend(name).is_some_and(|one| backends.contains(&one));
        let default = self.0.get("default").map(Vec::as_slice).unwrap_or_default();
        let (left_out, kept): (Vec<&String>, Vec<&String>) = default.iter().partition(|name| is_other(name));
        // `dep:x` in the default features cannot be given on the command line. The build script reports the mismatch then.
        let is_replaced = !left_out.is_empty() && !kept.iter().any(|name| name.starts_with("dep:"));
        let on = self.reached(default);
        let wanted = self.0.keys().filter(|name| is_asked(name));
        let mut features: Vec<&String> = if is_replaced {
            kept.into_iter().chain(wanted).collect()
        } else {
            wanted.filter(|name| !on.contains(name.as_str())).collect()
        };
        features.sort_indirect();
        features.dedup();
        let mut arguments = Vec::new();
        if is_replaced {
            arguments.push("--no-default-features".to_owned());
        }
        if !features.is_empty() {
            let list: Vec<&str> = features.into_iter().map(String::as_str).collect();
            arguments.extend(["--features".to_owned(), list.join(",")]);
        }
        arguments
    }

    /// These features and all that they enable, transitively.
    fn reached<'a>(&'a self, from: &'a [String]) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut next: Vec<&str> = from.iter().map(String::as_str).collect();
        while let Some(name) = next.pop() {
            if found.insert(name) {
                next.extend(self.0.get(name).into_iter().flatten().map(String::as_str));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(default: &str, additional: &str, backends: &str) -> String {
        let text = format!(
            "[package]\nname = \"x\"\n[features]\ndefault = {default}\ncuda = []\nhip = []\nopencl = [\"sys/opencl\"]\nvulkan = []\n{additional}"
        );
        let backends: Vec<Backend> = backends.split(',').map(|id| id.parse().unwrap()).collect();
        Features::parse(&text).arguments(&backends).join(" ")
    }

    #[test]
    fn features_of_requested_backends_are_enabled() {
        let vulkan = "[\"vulkan\"]";
        assert_eq!(check(vulkan, "", "cpu,vulkan"), "", "the default is already correct");
        assert_eq!(check(vulkan, "", "cpu"), "--no-default-features");
        assert_eq!(check(vulkan, "", "cpu,opencl"), "--no-default-features --features opencl");
        assert_eq!(check(vulkan, "", "cpu,vulkan,rocm"), "--features hip");
        assert_eq!(check("[]", "", "cpu,cuda,vulkan"), "--features cuda,vulkan");
        assert_eq!(check("[]", "cpu = []\n", "cpu"), "--features cpu");
        assert_eq!(check("[]", "", "cpu,metal"), "", "the package has no such feature");
    }

    #[test]
    fn other_features_are_kept() {
        let additional = "tls = [\"dep:tls\"]\ngpu = [\"vulkan\"]\n";
        let default = "[\"tls\", \"vulkan\", \"sys/fast\"]";
        assert_eq!(check(default, additional, "cpu"), "--no-default-features --features sys/fast,tls");
        assert_eq!(check("[\"gpu\"]", additional, "cpu,vulkan"), "", "already enabled by `gpu`");
        assert_eq!(check("[\"gpu\"]", additional, "cpu"), "", "features with other names are not changed");
        assert_eq!(check("[\"dep:tls\", \"vulkan\"]", additional, "cpu,cuda"), "--features cuda");
        assert!(Features::parse("[package]\nname = \"x\"\n").arguments(&Backend::ALL).is_empty());
        assert!(Features::parse("no TOML").arguments(&Backend::ALL).is_empty());
    }
}
