//! Templates that need nothing but this repository.

use crate::support::{Desk, line};

#[test]
fn own_kernels_run_on_every_backend_that_is_here() {
    let Some(desk) = Desk::new(&[]) else { return };
    desk.make(&["new-kernels", "--template", "own-kernels"]);
    let done = desk.follow("new-kernels", "README.md");
    assert_eq!(done[0].0, "cargo run");
    assert_eq!(line(&done[0].1.stdout, "cpu: "), "2 * [1.0, 2.0, 3.0] + 0.5 = [2.5, 4.5, 6.5]");
    assert_eq!(done[1].0, "cargo test");
    assert!(done[1].1.stdout.contains("test kernels::tests::every_backend_agrees_with_the_reference ... ok"));
    desk.is_in_order("new-kernels");

    // The program has the backends that `gpubuild build` is told, whatever the project file says.
    let file = desk
        .read("new-kernels/gpubuild.toml")
        .replace("package = \".\"", "package = \".\"\nprofile = \"dev\"");
    desk.write("new-kernels/gpubuild.toml", &file);
    let built = desk.gpubuild("new-kernels", &["build", "--backends", "cpu", "--run"]);
    assert!(built.ok, "{built:#?}");
    assert_eq!(built.stdout, "cpu: 2 * [1.0, 2.0, 3.0] + 0.5 = [2.5, 4.5, 6.5]\n");
}

#[test]
fn named_backends_are_built_or_refused() {
    let Some(desk) = Desk::new(&[]) else { return };
    desk.make(&["new-named", "--template", "own-kernels", "--backends", "cpu"]);
    let ran = desk.start("new-named", "cargo", &["run", "--quiet"]);
    assert!(ran.ok, "{ran:#?}");
    assert_eq!(ran.stdout, "cpu: 2 * [1.0, 2.0, 3.0] + 0.5 = [2.5, 4.5, 6.5]\n");
}

#[test]
fn a_program_has_the_features_of_the_backends_that_are_asked_for() {
    let Some(mut desk) = Desk::new(&[]) else { return };
    desk.make(&["new-features", "--template", "own-kernels"]);
    let file = desk
        .read("new-features/gpubuild.toml")
        .replace("package = \".\"", "package = \".\"\nprofile = \"dev\"");
    desk.write("new-features/gpubuild.toml", &file);
    let manifest = desk.read("new-features/Cargo.toml");
    let features = "[features]\ndefault = [\"loud\", \"vulkan\"]\nloud = []\nvulkan = []\n\n[dependencies]";
    desk.write("new-features/Cargo.toml", &manifest.replace("[dependencies]", features));
    let main = desk.read("new-features/src/main.rs").replace(
        "fn main() {",
        "fn main() {\n    println!(\"{} {}\", cfg!(feature = \"vulkan\"), cfg!(feature = \"loud\"));",
    );
    desk.write("new-features/src/main.rs", &main);

    // The default names another backend than the user does just now: the program is built for the one that was named.
    let built = desk.gpubuild("new-features", &["build", "--backends", "cpu", "--run"]);
    assert!(built.ok, "{built:#?}");
    assert_eq!(built.stdout, "false true\ncpu: 2 * [1.0, 2.0, 3.0] + 0.5 = [2.5, 4.5, 6.5]\n");
    let planned = desk.gpubuild("new-features", &["plan", "--backends", "cpu"]).stdout;
    assert!(planned.contains("cargo gets --no-default-features --features loud\n"), "{planned}");

    // Where nobody names any, the features ask for a backend that is not built: that is told before what the linker says.
    desk.set("GGML_VULKAN", "0");
    let failed = desk.gpubuild("new-features", &["build"]);
    assert!(!failed.ok, "{failed:#?}");
    for said in ["has no library for vulkan", "gpubuild build --backends cpu"] {
        assert!(failed.stderr.contains(said), "{said}: {failed:#?}");
    }
}

#[test]
fn a_cpp_library_is_linked_with_all_that_it_needs() {
    let Some(desk) = Desk::new(&[]) else { return };
    let checkout = env!("CARGO_MANIFEST_DIR");
    desk.make(&["new-cpp", "--template", "cpp-library", "--gpubuild-path", checkout]);
    let done = desk.follow("new-cpp", "README.md");
    assert_eq!(done[0].1.stdout, "3 values, mean 5, median 4\n");
    assert!(done[1].1.stdout.contains("test tests::exceptions_become_errors ... ok"), "{:#?}", done[1]);
    let ran = desk.start("new-cpp", "cargo", &["run", "--quiet", "--", "1", "2", "nan"]);
    assert!(!ran.ok && ran.stderr.contains("not a finite number"), "{ran:#?}");
    desk.is_in_order("new-cpp");
    // C++ programs use it without Rust.
    let configured = desk.start("new-cpp", "cmake", &["-S", "native", "-B", "native/build", "-G", "Ninja"]);
    assert!(configured.ok, "{configured:#?}");
    assert!(desk.start("new-cpp", "cmake", &["--build", "native/build"]).ok);
}

const MEMBER: &str = "[package]\nname = \"member\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nnew-own = { path = \"../new-own\" }\n";

#[test]
fn a_workspace_gets_tasks_that_build_its_kernels() {
    let Some(desk) = Desk::new(&[]) else { return };
    desk.write("new-ws/Cargo.toml", "# ours\n[workspace]\nmembers = [\"member\"] # one\nresolver = \"3\"\n");
    desk.write("new-ws/member/Cargo.toml", MEMBER);
    let main = "fn main() {\n    println!(\"{}\", new_own::dot(&[1.0, 2.0], &[3.0, 4.0]));\n}\n";
    desk.write("new-ws/member/src/main.rs", main);
    desk.make(&["new-ws", "--template", "xtask", "--name", "new-own"]);
    let text =
        "# ours\n[workspace]\nmembers = [\"member\", \"new-own\", \"xtask\"] # one\nresolver = \"3\"\n";
    assert_eq!(desk.read("new-ws/Cargo.toml"), text);

    let done = desk.follow("new-ws", "xtask/README.md");
    assert_eq!(done[0].0, "cargo xtask build");
    assert!(done[0].1.stderr.contains("kernels for cpu\n"), "{:#?}", done[0]);
    assert!(done[1].1.stdout.contains("test tests::products_are_summed ... ok"), "{:#?}", done[1]);
    let ran = desk.start("new-ws", "cargo", &["run", "--quiet", "--package", "member"]);
    assert_eq!((ran.ok, ran.stdout.as_str()), (true, "11\n"), "{ran:#?}");
    desk.is_in_order("new-ws");

    // A kernel that does not compile is told with its place, and cargo is not started.
    let kernel = desk.read("new-ws/new-own/native/src/cpu.cpp");
    desk.write("new-ws/new-own/native/src/cpu.cpp", &kernel.replace("return sum;", "return summ;"));
    let failed = desk.start("new-ws", "cargo", &["xtask", "build"]);
    assert!(!failed.ok && failed.stderr.contains("cpu.cpp"), "{failed:#?}");
    assert!(failed.stderr.contains("summ") && !failed.stderr.contains("Compiling member"), "{failed:#?}");
    let refused = desk.start("new-ws", "cargo", &["xtask", "build", "--backends", "cpu,vulcan"]);
    assert!(!refused.ok && refused.stderr.contains("[backend.unknown]"), "{refused:#?}");
}
