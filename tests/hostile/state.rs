//! Files that another user may have written or changed: the manifest of a build, models and lock files.
#![expect(clippy::disallowed_methods, reason = "tests read and write their own files")]

use gpubuild_gguf::{TensorType, Writer};
use serde_json::Value;

use crate::check::Form;
use crate::documents::{plant, spots};
use crate::requirements::skip;
use crate::runs::{Extent, Runs, call, repository, toml_file};

const MANIFEST: &str = ".gpubuild/adder/manifest.json";

fn build_manifests(extent: Extent) {
    let mut runs = Runs::new("manifests of builds");
    runs.set("PATH", &std::env::var("PATH").unwrap());
    runs.write(
        "vendor/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\nadd_library(adder STATIC adder.c)\n\
         target_link_libraries(adder PUBLIC m)\n",
    );
    runs.write("vendor/adder.c", "double add(double x) { return x + 1.0; }\n");
    let project = "schema = 1\n[project]\nname = \"adder\"\nsource = \"vendor\"\ntargets = [\"adder\"]\n";
    runs.write("gpubuild.toml", project);
    runs.run(&call(Form::Text, "build --backends cpu"));
    let Ok(manifest) = std::fs::read_to_string(runs.path(MANIFEST)) else {
        return skip("cmake", "CMake, Ninja or a C compiler is missing");
    };
    let document: Value = serde_json::from_str(&manifest).unwrap();
    let calls = [
        call(Form::Text, "link"),
        call(Form::Text, "link --format cargo"),
        call(Form::Text, "link --format cmake"),
        call(Form::Text, "link --format pkg-config"),
        call(Form::Json, "link --json"),
        call(Form::Text, "export out"),
        call(Form::Json, "export out --json"),
        call(Form::Text, "audit"),
        call(Form::Json, "audit --json"),
        call(Form::Text, "run"),
        call(Form::Text, "test"),
        call(Form::Text, "bench"),
        call(Form::Text, "build --backends cpu"),
    ];
    runs.plant(extent, &spots(&document), &calls, &|runs, spot, payload| {
        runs.write(MANIFEST, &plant(&document, spot, payload).to_string());
    });
    runs.finish(2);
}

/// A field of a model.
#[derive(Debug, Clone, Copy)]
enum Field {
    Architecture,
    Name,
    Key,
    Value,
    Tensor,
}

/// A small model with a payload in one field.
fn model(field: Field, payload: &str) -> Vec<u8> {
    let text = |here: &str, is_here: bool| if is_here { payload.to_owned() } else { here.to_owned() };
    let architecture = text("llama", matches!(field, Field::Architecture));
    let tensor = text("output.weight", matches!(field, Field::Tensor));
    let mut writer = Writer::new()
        .string("general.architecture", &architecture)
        .string("general.name", &text("tiny", matches!(field, Field::Name)))
        .string(
            &text("general.author", matches!(field, Field::Key)),
            &text("x", matches!(field, Field::Value)),
        );
    for (key, value) in
        [("block_count", 2), ("embedding_length", 64), ("attention.head_count", 4), ("context_length", 128)]
    {
        writer = writer.integer(&format!("{architecture}.{key}"), value);
    }
    let weights = || vec![0; 2 * 64 * 100];
    writer
        .tensor("token_embd.weight", &[64, 100], TensorType::F16, weights())
        .tensor(&tensor, &[64, 100], TensorType::F16, weights())
        .finish()
}

fn models(extent: Extent) {
    let mut runs = Runs::new("models");
    runs.write("host.toml", &repository("tests/hosts/ubuntu-22.04-rtx4090.toml"));
    let calls = [
        call(Form::Text, "estimate model.gguf --host host.toml"),
        call(Form::Json, "estimate model.gguf --host host.toml --json"),
        call(Form::Text, "estimate model.gguf --host host.toml -v"),
    ];
    let fields = [Field::Architecture, Field::Name, Field::Key, Field::Value, Field::Tensor];
    runs.plant(extent, &fields, &calls, &|runs, field, payload| {
        std::fs::write(runs.path("model.gguf"), model(*field, payload)).unwrap();
    });
    runs.finish(2);
}

fn locks(extent: Extent) {
    let mut runs = Runs::new("locks of toolkits");
    runs.write("host.toml", &repository("tests/hosts/ubuntu-22.04-rtx4090.toml"));
    runs.write(
        "gpubuild.toml",
        "schema = 1\n[project]\nname = \"demo\"\nsource = \"vendor\"\nbackends = [\"cuda\"]\n",
    );
    runs.write("vendor/CMakeLists.txt", "cmake_minimum_required(VERSION 3.24)\nproject(x C)\n");
    let calls = [
        call(Form::Text, "toolkit install cuda --lock lock.toml --dry-run --host host.toml"),
        call(Form::Json, "toolkit install cuda --lock lock.toml --dry-run --host host.toml --json"),
        call(Form::Text, "toolkit install cuda --lock lock.toml --offline"),
        call(Form::Json, "toolkit install cuda --lock lock.toml --offline --json"),
        call(Form::Text, "plan --provision --host host.toml"),
        call(Form::Text, "toolkit list"),
    ];
    let document = toml_file("toolkits/locks/cuda-13.0.toml");
    runs.plant(extent, &spots(&document), &calls, &|runs, spot, payload| {
        let text = toml::to_string(&plant(&document, spot, payload)).unwrap();
        runs.write("lock.toml", &text);
        runs.write("gpubuild.lock.d/cuda-13.0.toml", &text);
    });
    runs.finish(1);
}

#[test]
fn build_manifest_with_hostile_text() {
    build_manifests(Extent::Quick);
}

#[test]
#[ignore = "takes minutes"]
fn all_build_manifests_with_hostile_text() {
    build_manifests(Extent::Full);
}

#[test]
fn model_with_hostile_text() {
    models(Extent::Quick);
}

#[test]
#[ignore = "takes minutes"]
fn all_models_with_hostile_text() {
    models(Extent::Full);
}

#[test]
fn lock_with_hostile_text() {
    locks(Extent::Quick);
}

#[test]
#[ignore = "takes minutes"]
fn all_locks_with_hostile_text() {
    locks(Extent::Full);
}
