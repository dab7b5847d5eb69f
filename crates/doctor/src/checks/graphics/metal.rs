//! Metal's offline compiler. Our own kernels are compiled by the driver and need none; projects that compile theirs ahead do.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;

use super::is_asked;
use crate::DiagnosisCase;

/// From this Xcode on, the compiler is an asset of its own.
const FIRST_WITH_ASSET: u64 = 26;

/// The command line tools are selected: they have no `metal`.
pub(super) fn tools_only(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let signs = &case.signs.graphics.metal;
    let Some(selected) =
        signs.selected.as_ref().filter(|_| signs.is_tools_only() && signs.compiler.is_none())
    else {
        return Vec::new();
    };
    let mut draft = FindingDraft::new(id!("metal.clt-only"))
        .backend(Backend::Metal)
        .affects(Affects::Build)
        .evidence(Evidence::file(&signs.selected_by, selected.as_str()))
        .evidence(Evidence::file(selected.join("usr/bin/metal").as_str(), "absent"));
    match signs.xcodes.last() {
        Some((xcode, _)) => {
            draft = draft
                .evidence(Evidence::file(xcode.as_str(), "present"))
                .value("xcode", xcode.to_string())
                .kind(FindingKind::Fault)
                .case(if signs.selected_by == "DEVELOPER_DIR" { "variable" } else { "not-selected" });
        }
        None if is_asked(case, Backend::Metal) => draft = draft.kind(FindingKind::Fault),
        None => {}
    }
    vec![draft]
}

/// Xcode is there and its compiler was not downloaded.
pub(super) fn asset(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let signs = &case.signs.graphics.metal;
    let Some((xcode, version)) = signs.xcode() else { return Vec::new() };
    // The SDK has the number of its Xcode from 26 on.
    let of_sdk = case
        .inventory
        .chosen("metal")
        .and_then(|copy| copy.version())
        .filter(|one| one.major() >= FIRST_WITH_ASSET);
    let Some(version) = version.as_ref().or(of_sdk).filter(|version| version.major() >= FIRST_WITH_ASSET)
    else {
        return Vec::new();
    };
    if signs.asset.is_some() {
        return Vec::new();
    }
    let kind = if is_asked(case, Backend::Metal) { FindingKind::Fault } else { FindingKind::Caution };
    vec![
        FindingDraft::new(id!("metal.toolchain-asset"))
            .backend(Backend::Metal)
            .affects(Affects::Build)
            .kind(kind)
            .value("version", version.to_string())
            .value("xcode", xcode.to_string())
            .evidence(Evidence::file(xcode.as_str(), version.as_str()))
            .evidence(Evidence::file(
                "/System/Library/AssetsV2/com_apple_MobileAsset_MetalToolchain",
                "absent",
            )),
    ]
}
