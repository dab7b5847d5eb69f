//! Libraries with unusual names in unusual folders.

use gpubuild_host::ReadFiles;

use crate::support::{SMALL, workspace};

#[test]
fn library_with_unusual_name_and_folder_is_linked() {
    let Some(workspace) = workspace(SMALL) else { return };
    let script = workspace.host.read_text(&workspace.path("x-sys/native/CMakeLists.txt")).unwrap();
    // A folder per configuration and a name without `lib`, as for ggml's libraries on Windows.
    let odd = "set_target_properties(x PROPERTIES PREFIX \"\" ARCHIVE_OUTPUT_DIRECTORY \"${CMAKE_BINARY_DIR}/lib64/$<CONFIG>\")\n";
    workspace.write("x-sys/native/CMakeLists.txt", &format!("{script}{odd}"));
    let output = workspace.cargo(&["build", "-vv"], &[]).success().output;
    let lines = format!("{}{}", output.stdout, output.stderr);
    assert!(lines.contains("cargo::rustc-link-lib=static:+verbatim=x.a"), "{lines}");
    assert!(lines.contains("/lib64/Release\n"), "{lines}");
    assert_eq!(workspace.app(), "42");
}
