//! `manifest.json` of a release, as `resolve` and `install` read it.

use gpubuild::report::resolve::{ResolveReport, text};
use gpubuild_release::manifest::{ReleaseManifest, read};
use gpubuild_release::{Devices, ReleaseMachine, ResolveRequest, resolve};

use super::machine::ExaminedMachine;
use super::output::{check_json, check_text};

/// Reads a manifest and selects a variant for machines of each operating system.
pub fn run(bytes: &[u8]) -> bool {
    let manifest = match read(bytes) {
        Ok(manifest) => manifest,
        Err(problem) => {
            check_text(&problem.to_string());
            return false;
        }
    };
    let written = serde_json::to_vec(&manifest).expect("a manifest is valid JSON");
    assert_eq!(read(&written).as_ref(), Ok(&manifest), "a manifest that is written is read differently");
    for machine in ExaminedMachine::all() {
        let state = &machine.state;
        let machine = ReleaseMachine::of(&state.facts, &state.matrix, &state.catalogue);
        for devices in [Devices::All, Devices::Any] {
            select(&manifest, &machine, devices);
        }
    }
    true
}

fn select(manifest: &ReleaseManifest, machine: &ReleaseMachine, devices: Devices) {
    let request = ResolveRequest { manifest, machine, devices, backend: None, variant: None, excluded: &[] };
    match resolve(&request) {
        Ok(choice) => {
            let variants = &manifest.platforms[&machine.platform].variants;
            let chosen = variants.iter().find(|variant| variant.label == choice.label);
            let chosen = chosen.expect("the selected variant is in the manifest");
            assert!(chosen.backends.contains(&choice.backend), "{choice:?}");
            assert_eq!(choice.rejected.len() + 1, variants.len(), "every other variant has a reason");
            check_text(&text(&choice, true));
            let report = ResolveReport::new(manifest, machine, &choice);
            check_json(&serde_json::to_string(&report).expect("a report is valid JSON"));
        }
        Err(error) => check_text(&format!("{} {:?}", error.text, error.rejected)),
    }
}
