//! Plans with Microsoft's compiler, outside of a developer prompt.
#![expect(clippy::disallowed_methods, reason = "a test reads its own files")]

use crate::plan::{complete, planned};
use crate::support::recorded;

#[test]
fn visual_studio_needs_no_developer_prompt() {
    let sandbox = complete("ggml");
    let text = std::fs::read_to_string(recorded("windows-11-rtx4070")).unwrap();
    let kits = r"C:\Program Files (x86)\Windows Kits\10";
    let file = |path: &str| format!("[[file]]\npath = '{kits}\\{path}'\n");
    let sdk = [
        "[[registry]]\nkey = 'HKLM\\SOFTWARE\\WOW6432Node\\Microsoft\\Microsoft SDKs\\Windows\\v10.0'\n",
        &format!("name = 'InstallationFolder'\nvalue = '{kits}\\'\n"),
        &file(r"Lib\10.0.22621.0\um\x64\kernel32.lib"),
        &file(r"bin\10.0.22621.0\x64\rc.exe"),
        &file(r"Lib\10.0.9600.0\um\x64\kernel32.lib"),
        // The C runtime only.
        &file(r"Lib\10.0.26100.0\ucrt\x64\ucrt.lib"),
    ]
    .concat();
    let tree = |text: &str| {
        sandbox.write("host.toml", text);
        let ran = sandbox.run(&["plan", "--json", "--host", "host.toml", "--backends", "cpu"]);
        planned(&ran)["trees"][0].clone()
    };
    let found = tree(&format!("{text}\n{sdk}"));
    let tools = r"C:\Program Files\Microsoft Visual Studio\2022\Community\VC\Tools\MSVC\14.43.34808";
    let include = found["env"]["INCLUDE"].as_str().unwrap();
    assert!(
        include.starts_with(&format!("{tools}\\include;{kits}\\Include\\10.0.22621.0\\ucrt;")),
        "{include}"
    );
    let lib =
        format!("{tools}\\lib\\x64;{kits}\\Lib\\10.0.22621.0\\ucrt\\x64;{kits}\\Lib\\10.0.22621.0\\um\\x64");
    assert_eq!(found["env"]["LIB"], lib);
    let cache = &found["cache"];
    assert!(
        cache["CMAKE_C_COMPILER"].as_str().unwrap().ends_with("/14.43.34808/bin/Hostx64/x64/cl.exe"),
        "{cache}"
    );
    assert_eq!(cache["CMAKE_RC_COMPILER"], format!("{kits}/bin/10.0.22621.0/x64/rc.exe").replace('\\', "/"));
    // A developer prompt sets them, and without the SDK there is nothing to set.
    let prompt = format!("{text}\n{sdk}").replacen("[env]\n", "[env]\nINCLUDE = 'C:\\theirs'\n", 1);
    for other in [tree(&prompt), tree(&text)] {
        assert!(other["env"]["INCLUDE"].is_null() && other["cache"]["CMAKE_C_COMPILER"].is_null(), "{other}");
    }
}
