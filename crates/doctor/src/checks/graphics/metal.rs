//! Metal's offline compiler. gpubuild's own kernels are compiled by the driver and do not need it; projects that compile theirs
//! ahead of time do.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;

use super::is_asked;
use crate::DiagnosisCase;

/// First Xcode version whose compiler is a separate download.
const FIRST_WITH_ASSET: u64 = 26;

/// Only the command line tools are selected, which have no `metal` compiler.
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

/// Xcode is installed, but its Metal compiler is not downloaded.
pub(super) fn asset(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let signs = &case.signs.graphics.metal;
    let Some((xcode, version)) = signs.xcode() else { return Vec::new() };
    // Since 26 the SDK has the version of its Xcode.
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
