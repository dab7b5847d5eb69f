//! What a developer prompt of Visual Studio sets, for builds outside of one.

use std::collections::BTreeMap;

use gpubuild_detect::facts::windows_sdk::{WindowsSdk, folder_of};
use gpubuild_host::{HostPath, Os};

use super::make::PlanInputs;

/// Variables of a developer prompt, and of users who choose their own compilers.
const SET_BY_OTHERS: [&str; 5] = ["INCLUDE", "LIB", "VCToolsInstallDir", "CC", "CXX"];
/// Folders of headers in the SDK.
const HEADERS: [&str; 5] = ["ucrt", "um", "shared", "winrt", "cppwinrt"];

type Entries = BTreeMap<String, String>;

/// Cache entries and variables with which CMake uses Microsoft's compiler outside of a developer prompt. Empty elsewhere, and if the
/// compiler or the Windows SDK was not found.
pub(super) fn settings(inputs: &PlanInputs<'_>) -> (Entries, Entries) {
    let nothing = (Entries::new(), Entries::new());
    let is_set = SET_BY_OTHERS.iter().any(|name| inputs.env.get(name).is_some());
    if inputs.facts.platform.os != Os::Windows || inputs.target.is_some() || is_set {
        return nothing;
    }
    let compiler = inputs.compilers.first().filter(|compiler| compiler.family == "msvc");
    let compiler = compiler.and_then(|compiler| compiler.cxx.as_ref());
    match (compiler, &inputs.facts.windows_sdk) {
        (Some(compiler), Some(sdk)) => {
            let arch = folder_of(inputs.facts.platform.arch);
            of(compiler, &sdk.value, arch).unwrap_or(nothing)
        }
        _ => nothing,
    }
}

/// `compiler` is `VC\Tools\MSVC\VERSION\bin\HostARCH\ARCH\cl.exe`.
fn of(compiler: &HostPath, sdk: &WindowsSdk, arch: &str) -> Option<(Entries, Entries)> {
    let tools = compiler.parent()?.parent()?.parent()?.parent()?;
    let of_sdk =
        |folder: &str, rest: &str| sdk.root.join(&format!("{folder}/{}/{rest}", sdk.version)).to_string();
    let headers = HEADERS.iter().map(|name| of_sdk("Include", name));
    let mut headers = std::iter::once(tools.join("include").to_string()).chain(headers);
    let libraries = ["ucrt", "um"].iter().map(|name| of_sdk("Lib", &format!("{name}/{arch}")));
    let mut libraries = std::iter::once(tools.join(&format!("lib/{arch}")).to_string()).chain(libraries);
    let joined = |list: &mut dyn Iterator<Item = String>| list.collect::<Vec<_>>().join(";");
    let env = [("INCLUDE", joined(&mut headers)), ("LIB", joined(&mut libraries))];

    let of_compiler = ["CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER"].map(|name| (name, compiler.clone()));
    let programs = sdk.programs.iter().flat_map(|folder| {
        [("CMAKE_RC_COMPILER", folder.join("rc.exe")), ("CMAKE_MT", folder.join("mt.exe"))]
    });
    let cache = of_compiler.into_iter().chain(programs);
    let cache = cache.map(|(name, path)| (name.to_owned(), path.forward_slashes())).collect();
    Some((cache, env.map(|(name, value)| (name.to_owned(), value)).into()))
}
