//! Predicts a toolkit installation, so that a plan that installs a toolkit has the same cache entries as a later plan that
//! finds it installed.

use std::collections::BTreeMap;

use gpubuild_detect::facts::Fact;
use gpubuild_detect::finding::Evidence;
use gpubuild_detect::toolkit::pattern::fill;
use gpubuild_detect::toolkit::places::go_up;
use gpubuild_detect::toolkit::{Description, Installation, Inventory, OWN, ToolkitPart};
use gpubuild_host::folders::{target_toolkit_folder, toolkit_folder};
use gpubuild_host::{HostInfo, HostPath, ReadFiles};

use super::PREFIX;
use crate::plan::provision::{Provision, ReleaseChoice};
use crate::wheels::{TargetWheels, WheelLock};

/// The root of a future installation, with symbolic links resolved. `target` is the platform of its libraries, if that is another one.
#[must_use]
pub fn root(
    host: &dyn ReadFiles,
    toolkit: &str,
    choice: &ReleaseChoice,
    target: Option<&str>,
) -> Option<HostPath> {
    let folder = folder(host, target)?;
    let root = folder.join(&format!("{toolkit}-{}", choice.release)).join(PREFIX);
    // Resolve the part of the path that exists; the rest contains no links.
    let mut missing: Vec<String> = Vec::new();
    let mut place = root.clone();
    loop {
        if let Ok(real) = host.canonical(&place) {
            return Some(missing.iter().rev().fold(real, |path, name| path.join(name)));
        }
        missing.push(place.file_name()?.to_owned());
        place = place.parent()?;
    }
}

/// The folder of the toolkits for a platform; `None` is this machine.
#[must_use]
pub fn folder(host: &dyn HostInfo, target: Option<&str>) -> Option<HostPath> {
    match target {
        Some(triple) => target_toolkit_folder(host, triple),
        None => toolkit_folder(host),
    }
}

/// The inventory after an installation. The new copy is selected and first if no copy is selected yet; otherwise it is
/// last.
#[must_use]
pub fn with_installed(
    host: &dyn HostInfo,
    inventory: &Inventory,
    description: &Description,
    provision: &Provision,
) -> Inventory {
    let mut inventory = inventory.clone();
    let copies = inventory.installations.entry(description.id.clone()).or_default();
    copies.retain(|copy| copy.root.key() != provision.root.key());
    let chosen = !copies.iter().any(|copy| copy.chosen);
    let copy = installation(host, description, provision, chosen);
    let place = if chosen { 0 } else { copies.len() };
    copies.insert(place, copy);
    inventory
}

fn installation(
    host: &dyn HostInfo,
    description: &Description,
    provision: &Provision,
    chosen: bool,
) -> Installation {
    let part = |id: &String| {
        let part = &description.parts[id];
        let path = part
            .paths
            .iter()
            .find_map(|candidate| fill(candidate.on(host.platform())?, host))
            .map(|relative| go_up(&provision.root.join(&relative).normalized(), part.up));
        ToolkitPart {
            path: path.filter(|_| part.required || provision.with.contains(id)),
            required: part.required,
            looked_for: Vec::new(),
            missing: part.missing,
        }
    };
    let lock = format!("{}-{}", provision.toolkit, provision.choice.release);
    Installation {
        toolkit: description.id.clone(),
        version: Some(Fact {
            value: provision.choice.version.clone(),
            found_via: "lock".to_owned(),
            evidence: vec![Evidence::file(lock, provision.choice.version.as_str())],
        }),
        root: provision.root.clone(),
        found_via: vec![OWN.to_owned()],
        parts: description.parts.keys().map(|id| (id.clone(), part(id))).collect(),
        limits: BTreeMap::new(),
        mended: Vec::new(),
        device_archs: Vec::new(),
        compiler_archs: Vec::new(),
        chosen,
        reason: "the build installs it first".to_owned(),
    }
}

/// Total size in bytes of the base wheels and those of further components for a machine.
#[must_use]
pub fn download_bytes(
    lock: &WheelLock,
    with: &[String],
    platform: gpubuild_host::Platform,
    libc: &crate::wheels::tag::WheelLibc,
    target: Option<&TargetWheels>,
) -> u64 {
    let wheels = lock.select_for(with, platform, libc, target).unwrap_or_default();
    wheels.iter().map(crate::wheels::PinnedWheel::size).sum()
}
