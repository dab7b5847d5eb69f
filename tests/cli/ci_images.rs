//! `[ci.images.NAME]`: machines and containers of a project, as recorded hosts.
#![expect(clippy::disallowed_methods, reason = "a test reads its own files")]

use serde_json::json;

use crate::support::{Sandbox, recorded};

const PROJECT: &str = r#"schema = 1
[project]
name = "demo"
source = "vendor"
profile = "gk"
[ci.images.gpu-box]
host = "runners/gpu.toml"
labels = ["self-hosted", "gpu"]
[ci.images.gpu-container]
host = "runners/gpu.toml"
labels = ["docker-gpu"]
container = "registry.example.org/team/cuda:12"
[[variants]]
name = "cuda"
backends = ["cpu", "cuda"]
images = ["gpu-box", "gpu-container"]
"#;

fn project(text: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("gpubuild.toml", text);
    sandbox.write("vendor/CMakeLists.txt", "project(x C)\n");
    for backend in ["cpu", "cuda"] {
        sandbox.write(&format!("vendor/src/{backend}/CMakeLists.txt"), "");
    }
    let text = std::fs::read_to_string(recorded("debian-12-own-cuda")).unwrap();
    sandbox.write("runners/gpu.toml", &text);
    sandbox
}

#[test]
fn rows_are_planned_on_recorded_images_of_the_project() {
    let sandbox = project(PROJECT);
    let rows = sandbox.run(&["ci", "matrix", "--json"]).json();
    let row = |index: usize| &rows["include"][index];
    assert_eq!(row(0)["name"], "cuda-gpu-box", "{rows:#}");
    assert_eq!(row(0)["labels"], json!(["self-hosted", "gpu"]));
    assert!(row(0)["setup"].is_null() && row(0)["gitlab"].is_null(), "{rows:#}");
    assert_eq!(row(1)["container"], "registry.example.org/team/cuda:12");
    assert_eq!(row(1)["gitlab"], json!({"image": "registry.example.org/team/cuda:12", "tag": "docker-gpu"}));
    assert!(row(1)["labels"].is_null());
    let github = sandbox.run(&["ci", "matrix", "--format", "github"]).json();
    assert_eq!(github["include"][0]["os"], json!(["self-hosted", "gpu"]));
    assert_eq!(github["include"][1]["os"], "docker-gpu");
    let images = sandbox.run(&["ci", "images", "--json"]).json();
    let own = images["images"].as_array().unwrap().iter().find(|image| image["id"] == "gpu-box").unwrap();
    assert_eq!(own["distribution"], "debian-12", "{own:#}");
}

#[test]
fn recording_decides_whether_an_image_can_build() {
    let sandbox = project(PROJECT);
    let without = std::fs::read_to_string(recorded("macos-15-m3")).unwrap();
    sandbox.write("runners/gpu.toml", &without);
    let ran = sandbox.run(&["ci", "matrix"]);
    ran.fails(2, "ci.impossible").says(&["cuda-gpu-box", "[cuda.platform]"]);
}

#[test]
fn invalid_images_are_errors() {
    let sandbox = project(PROJECT);
    sandbox.write("runners/gpu.toml", "schema = 7\n");
    sandbox.run(&["ci", "matrix"]).fails(2, "ci.image-host").says(&["[ci.images.gpu-box]"]);
    sandbox.remove("runners/gpu.toml");
    sandbox.run(&["ci", "matrix"]).fails(2, "ci.image-host").says(&["runners/gpu.toml"]);
    let sandbox = project(&PROJECT.replace("gpu-box", "debian-12"));
    sandbox.run(&["ci", "matrix"]).fails(2, "ci.image-name");
    for (from, to, says) in [
        ("images.gpu-box", "images.Big", "`Big`"),
        ("images.gpu-box", "images.\"a/b\"", "`a/b`"),
        ("\"gpu\"]", "\"g u\"]", "`g u` in `[ci.images.gpu-box]`"),
        ("team/cuda:12", "team/$(id)", "is not a label or a container"),
        ("labels = [\"docker-gpu\"]", "sbatch = [\"-p gpu\"]", "`-p gpu` is not an option of sbatch"),
        ("labels = [\"docker-gpu\"]", "sbatch = [\"--x\\ny\"]", "is not an option of sbatch"),
        (
            "labels = [\"docker-gpu\"]",
            "kubernetes = { limits = { cpu = \"a b\" } }",
            "`cpu = a b` is neither a resource",
        ),
        (
            "labels = [\"docker-gpu\"]",
            "kubernetes = { limits = { cpu = \"\" } }",
            "`cpu = ` is neither a resource",
        ),
        (
            "labels = [\"docker-gpu\"]",
            "kubernetes = { node_selector = { \"a b\" = \"c\" } }",
            "`a b = c` is neither a",
        ),
    ] {
        let sandbox = project(&PROJECT.replace(from, to));
        sandbox.run(&["ci", "matrix"]).fails(2, "project.invalid").says(&[says]);
    }
}
