//! Templates that need only this repository.

use crate::support::{Workspace, line};

#[test]
fn own_kernels_run_on_every_available_backend() {
    let Some(workspace) = Workspace::new(&[]) else { return };
    workspace.make(&["new-kernels", "--template", "own-kernels"]);
    let done = workspace.follow("new-kernels", "README.md");
    assert_eq!(done[0].0, "cargo run");
    assert_eq!(line(&done[0].1.stdout, "cpu: "), "2 * [1.0, 2.0, 3.0] + 0.5 = [2.5, 4.5, 6.5]");
    assert_eq!(done[1].0, "cargo test");
    assert!(done[1].1.stdout.contains("test kernels::tests::every_backend_agrees_with_the_reference ... ok"));
    workspace.is_in_order("new-kernels");

    // `gpubuild build --backends` overrides the backends in the project file.
    let file = workspace
        .read("new-kernels/gpubuild.toml")
        .replace("package = \".\"", "package = \".\"\nprofile = \"dev\"");
    workspace.write("new-kernels/gpubuild.toml", &file);
    let built = workspace.gpubuild("new-kernels", &["build", "--backends", "cpu", "--run"]);
    assert!(built.ok, "{built:#?}");
    assert_eq!(built.stdout, "cpu: 2 * [1.0, 2.0, 3.0] + 0.5 = [2.5, 4.5, 6.5]\n");
}

#[test]
fn requested_backends_are_built_or_rejected() {
    let Some(workspace) = Workspace::new(&[]) else { return };
    workspace.make(&["new-named", "--template", "own-kernels", "--backends", "cpu"]);
    let ran = workspace.start("new-named", "cargo", &["run", "--quiet"]);
    assert!(ran.ok, "{ran:#?}");
    assert_eq!(ran.stdout, "cpu: 2 * [1.0, 2.0, 3.0] + 0.5 = [2.5, 4.5, 6.5]\n");
}

#[test]
fn program_features_match_the_requested_backends() {
    let Some(mut workspace) = Workspace::new(&[]) else { return };
    workspace.make(&["new-features", "--template", "own-kernels"]);
    let file = workspace
        .read("new-features/gpubuild.toml")
        .replace("package = \".\"", "package = \".\"\nprofile = \"dev\"");
    workspace.write("new-features/gpubuild.toml", &file);
    let manifest = workspace.read("new-features/Cargo.toml");
    let features = "[features]\ndefault = [\"loud\", \"vulkan\"]\nloud = []\nvulkan = []\n\n[dependencies]";
    workspace.write("new-features/Cargo.toml", &manifest.replace("[dependencies]", features));
    let main = workspace.read("new-features/src/main.rs").replace(
        "fn main() {",
        "fn main() {\n    println!(\"{} {}\", cfg!(feature = \"vulkan\"), cfg!(feature = \"loud\"));",
    );
    workspace.write("new-features/src/main.rs", &main);

    // The default feature names another backend than the command: the program is built for the requested one.
    let built = workspace.gpubuild("new-features", &["build", "--backends", "cpu", "--run"]);
    assert!(built.ok, "{built:#?}");
    assert_eq!(built.stdout, "false true\ncpu: 2 * [1.0, 2.0, 3.0] + 0.5 = [2.5, 4.5, 6.5]\n");
    let planned = workspace.gpubuild("new-features", &["plan", "--backends", "cpu"]).stdout;
    assert!(planned.contains("cargo gets --no-default-features --features loud\n"), "{planned}");

    // Without a request the features name a backend that is not built: the error precedes the linker's.
    workspace.set("GGML_VULKAN", "0");
    let failed = workspace.gpubuild("new-features", &["build"]);
    assert!(!failed.ok, "{failed:#?}");
    for message in ["has no library for vulkan", "gpubuild build --backends cpu"] {
        assert!(failed.stderr.contains(message), "{message}: {failed:#?}");
    }
}

#[test]
fn cpp_library_is_linked_with_its_dependencies() {
    let Some(workspace) = Workspace::new(&[]) else { return };
    let checkout = env!("CARGO_MANIFEST_DIR");
    workspace.make(&["new-cpp", "--template", "cpp-library", "--gpubuild-path", checkout]);
    let done = workspace.follow("new-cpp", "README.md");
    assert_eq!(done[0].1.stdout, "3 values, mean 5, median 4\n");
    assert!(done[1].1.stdout.contains("test tests::exceptions_become_errors ... ok"), "{:#?}", done[1]);
    let ran = workspace.start("new-cpp", "cargo", &["run", "--quiet", "--", "1", "2", "nan"]);
    assert!(!ran.ok && ran.stderr.contains("not a finite number"), "{ran:#?}");
    workspace.is_in_order("new-cpp");
    // C++ programs use the library without Rust.
    let configured =
        workspace.start("new-cpp", "cmake", &["-S", "native", "-B", "native/build", "-G", "Ninja"]);
    assert!(configured.ok, "{configured:#?}");
    assert!(workspace.start("new-cpp", "cmake", &["--build", "native/build"]).ok);
}

const MEMBER: &str = "[package]\nname = \"member\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nnew-own = { path = \"../new-own\" }\n";

#[test]
fn xtask_template_builds_kernels_of_a_workspace() {
    let Some(workspace) = Workspace::new(&[]) else { return };
    workspace
        .write("new-ws/Cargo.toml", "# ours\n[workspace]\nmembers = [\"member\"] # one\nresolver = \"3\"\n");
    workspace.write("new-ws/member/Cargo.toml", MEMBER);
    let main = "fn main() {\n    println!(\"{}\", new_own::dot(&[1.0, 2.0], &[3.0, 4.0]));\n}\n";
    workspace.write("new-ws/member/src/main.rs", main);
    workspace.make(&["new-ws", "--template", "xtask", "--name", "new-own"]);
    let text =
        "# ours\n[workspace]\nmembers = [\"member\", \"new-own\", \"xtask\"] # one\nresolver = \"3\"\n";
    assert_eq!(workspace.read("new-ws/Cargo.toml"), text);

    let done = workspace.follow("new-ws", "xtask/README.md");
    assert_eq!(done[0].0, "cargo xtask build");
    assert!(done[0].1.stderr.contains("kernels for cpu\n"), "{:#?}", done[0]);
    assert!(done[1].1.stdout.contains("test tests::products_are_summed ... ok"), "{:#?}", done[1]);
    let ran = workspace.start("new-ws", "cargo", &["run", "--quiet", "--package", "member"]);
    assert_eq!((ran.ok, ran.stdout.as_str()), (true, "11\n"), "{ran:#?}");
    workspace.is_in_order("new-ws");

    // A compile error of a kernel has its location, and cargo is not started.
    let kernel = workspace.read("new-ws/new-own/native/src/cpu.cpp");
    workspace.write("new-ws/new-own/native/src/cpu.cpp", &kernel.replace("return sum;", "return summ;"));
    let failed = workspace.start("new-ws", "cargo", &["xtask", "build"]);
    assert!(!failed.ok && failed.stderr.contains("cpu.cpp"), "{failed:#?}");
    assert!(failed.stderr.contains("summ") && !failed.stderr.contains("Compiling member"), "{failed:#?}");
    let refused = workspace.start("new-ws", "cargo", &["xtask", "build", "--backends", "cpu,vulcan"]);
    assert!(!refused.ok && refused.stderr.contains("[backend.unknown]"), "{refused:#?}");
}
