//! The templates with bindings, with small libraries in place of llama.cpp and whisper.cpp.

use std::path::Path;

use crate::server::{Server, files};
use crate::support::{Workspace, has_libclang, line};

const CMAKE: &str = "\
cmake_minimum_required(VERSION 3.16)
project(played C)
option(GGML_CPU \"the processor's own backend\" ON)
option(GGML_METAL \"Metal\" OFF)
if(NOT GGML_CPU)
  message(FATAL_ERROR \"the processor's backend belongs to every build\")
endif()
add_library(ggml-base STATIC ggml/base.c)
target_include_directories(ggml-base PUBLIC ggml/include)
add_library(ggml-cpu STATIC ggml/cpu.c)
target_link_libraries(ggml-cpu PUBLIC ggml-base)
add_library(ggml STATIC ggml/ggml.c)
target_link_libraries(ggml PUBLIC ggml-cpu)
add_library(@ STATIC @.c)
target_include_directories(@ PUBLIC include)
target_link_libraries(@ PUBLIC ggml)
";

const BACKEND_H: &str = "\
#pragma once
#include <stddef.h>
typedef struct ggml_backend_device *ggml_backend_dev_t;
size_t ggml_backend_dev_count(void);
ggml_backend_dev_t ggml_backend_dev_get(size_t index);
const char *ggml_backend_dev_name(ggml_backend_dev_t device);
const char *ggml_backend_dev_description(ggml_backend_dev_t device);
";

const GGML_C: &str = "\
#include \"ggml-backend.h\"
int ggml_cpu_answer(void);
struct ggml_backend_device { const char *name; };
static struct ggml_backend_device only = {\"CPU\"};
size_t ggml_backend_dev_count(void) { return 1; }
ggml_backend_dev_t ggml_backend_dev_get(size_t index) { return index ? NULL : &only; }
const char *ggml_backend_dev_name(ggml_backend_dev_t device) { return device->name; }
const char *ggml_backend_dev_description(ggml_backend_dev_t device) { (void)device; return ggml_cpu_answer() == 42 ? \"played\" : \"\"; }
";

const LLAMA_H: &str = "\
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include \"ggml-backend.h\"
#define LLAMA_PLAYED 1
struct llama_model;
struct llama_model_params { ggml_backend_dev_t *devices; int32_t n_gpu_layers; bool vocab_only; };
void llama_backend_init(void);
const char *llama_print_system_info(void);
struct llama_model_params llama_model_default_params(void);
struct llama_model *llama_model_load_from_file(const char *path, struct llama_model_params params);
void llama_model_free(struct llama_model *model);
int32_t llama_model_desc(const struct llama_model *model, char *text, size_t size);
uint64_t llama_model_n_params(const struct llama_model *model);
";

const LLAMA_C: &str = "\
#include \"llama.h\"
#include <stdio.h>
#include <stdlib.h>
struct llama_model { uint64_t size; };
void llama_backend_init(void) {}
const char *llama_print_system_info(void) { return \"PLAYED = 1 | \"; }
struct llama_model_params llama_model_default_params(void) {
    struct llama_model_params params = {NULL, -1, false};
    return params;
}
struct llama_model *llama_model_load_from_file(const char *path, struct llama_model_params params) {
    FILE *file = params.n_gpu_layers == 0 ? fopen(path, \"rb\") : NULL;
    if (!file) return NULL;
    struct llama_model *model = malloc(sizeof *model);
    for (model->size = 0; fgetc(file) != EOF; ++model->size) {}
    fclose(file);
    return model;
}
void llama_model_free(struct llama_model *model) { free(model); }
int32_t llama_model_desc(const struct llama_model *model, char *text, size_t size) { (void)model; return snprintf(text, size, \"played F32\"); }
uint64_t llama_model_n_params(const struct llama_model *model) { return model->size; }
";

const WHISPER_H: &str = "\
#pragma once
#include <stdbool.h>
#include \"ggml-backend.h\"
struct whisper_context;
struct whisper_context_params { bool use_gpu; int gpu_device; };
const char *whisper_print_system_info(void);
int whisper_lang_max_id(void);
const char *whisper_lang_str(int id);
struct whisper_context_params whisper_context_default_params(void);
struct whisper_context *whisper_init_from_file_with_params(const char *path, struct whisper_context_params params);
int whisper_model_n_vocab(struct whisper_context *context);
int whisper_model_n_audio_layer(struct whisper_context *context);
int whisper_model_n_text_layer(struct whisper_context *context);
void whisper_free(struct whisper_context *context);
";

const WHISPER_C: &str = "\
#include \"whisper.h\"
#include <stdlib.h>
struct whisper_context { int words; };
static const char *names[] = {\"en\", \"de\"};
const char *whisper_print_system_info(void) { return \"PLAYED = 1 | \"; }
int whisper_lang_max_id(void) { return 1; }
const char *whisper_lang_str(int id) { return names[id]; }
struct whisper_context_params whisper_context_default_params(void) { struct whisper_context_params params = {true, 0}; return params; }
struct whisper_context *whisper_init_from_file_with_params(const char *path, struct whisper_context_params params) {
    if (params.use_gpu || path[0] != '/') return NULL;
    struct whisper_context *context = malloc(sizeof *context);
    context->words = (int)ggml_backend_dev_count();
    return context;
}
int whisper_model_n_vocab(struct whisper_context *context) { return context->words; }
int whisper_model_n_audio_layer(struct whisper_context *context) { (void)context; return 2; }
int whisper_model_n_text_layer(struct whisper_context *context) { (void)context; return 3; }
void whisper_free(struct whisper_context *context) { free(context); }
";

/// Serves a folder as an archive, and makes it the source of a project of this workspace. The server lives as long as the value.
fn publish(workspace: &Workspace, folder: &str, project: &str) -> Server {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in walkdir::WalkDir::new(workspace.path(folder)).sort_by_file_name() {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            let name = entry.path().strip_prefix(workspace.path(folder)).unwrap();
            builder.append_path_with_name(entry.path(), Path::new("top").join(name)).unwrap();
        }
    }
    let tar = builder.into_inner().unwrap();
    let archive = zstd::encode_all(&tar[..], 1).unwrap();
    let sha256 = gpubuild_exec::store::sha256(&archive);
    let server = Server::start(files(vec![("sources.tar.zst".to_owned(), archive)]));
    let source =
        format!("{{ url = \"{}\", sha256 = \"{sha256}\", strip = 1 }}", server.url("sources.tar.zst"));
    let file = format!("{project}/gpubuild.toml");
    let text = workspace.read(&file);
    let changed = text.lines().map(|line| match line.strip_prefix("source = ") {
        Some(_) => format!("source = {source}\n"),
        None => format!("{line}\n"),
    });
    workspace.write(&file, &changed.collect::<String>());
    server
}

/// The project that the template creates, with small sources on a server.
fn workspace(name: &str, header: &str, source: &str) -> Option<(Workspace, Server)> {
    let workspace = Workspace::new(&[]).filter(|_| has_libclang())?;
    let files = [
        ("CMakeLists.txt", CMAKE.replace('@', name)),
        ("ggml/include/ggml-backend.h", BACKEND_H.to_owned()),
        ("ggml/base.c", "int ggml_base_answer(void) { return 41; }\n".to_owned()),
        (
            "ggml/cpu.c",
            "int ggml_base_answer(void);\nint ggml_cpu_answer(void) { return ggml_base_answer() + 1; }\n"
                .to_owned(),
        ),
        ("ggml/ggml.c", GGML_C.to_owned()),
        (&format!("include/{name}.h"), header.to_owned()),
        (&format!("{name}.c"), source.to_owned()),
    ];
    for (file, text) in files {
        workspace.write(&format!("sources/{file}"), &text);
    }
    let project = format!("new-{name}");
    workspace.make(&[&project, "--template", name, "--offline"]);
    let server = publish(&workspace, "sources", &project);
    Some((workspace, server))
}

#[test]
fn llama_template_is_fetched_built_and_run() {
    let Some((workspace, server)) = workspace("llama", LLAMA_H, LLAMA_C) else { return };
    // A build script downloads nothing, and its error has the command that does.
    let missing = workspace.start("new-llama", "cargo", &["build"]);
    assert!(!missing.ok && missing.stderr.contains("[source.not-fetched]"), "{missing:#?}");
    assert!(missing.stderr.contains("gpubuild fetch --project "), "{missing:#?}");
    assert!(server.requests().is_empty());

    let done = workspace.follow("new-llama", "README.md");
    assert_eq!(done[1].1.stdout, "system: PLAYED = 1 |\ndevice: CPU: played\n");
    workspace.write("model.gguf", "GGUF");
    let model = workspace.path("model.gguf");
    let ran = workspace.start("new-llama", "cargo", &["run", "--quiet", "--", model.to_str().unwrap()]);
    assert_eq!(line(&ran.stdout, "model: "), "played F32, 4 parameters");
    let refused = workspace.start("new-llama", "cargo", &["run", "--quiet", "--", "nowhere.gguf"]);
    assert!(!refused.ok && refused.stderr.contains("cannot load `nowhere.gguf`"), "{refused:#?}");
    workspace.is_in_order("new-llama");
    // `gpubuild build` builds the libraries and links the program with them only.
    let file = workspace
        .read("new-llama/gpubuild.toml")
        .replace("package = \".\"", "package = \".\"\nprofile = \"dev\"");
    workspace.write("new-llama/gpubuild.toml", &file);
    let built = workspace.gpubuild("new-llama", &["build", "--backends", "cpu", "--run"]);
    assert!(built.ok, "{built:#?}");
    assert_eq!(built.stdout, "system: PLAYED = 1 |\ndevice: CPU: played\n");
    // The sources in the repository replace those in the cache.
    let vendored = workspace.start("new-llama", "gpubuild", &["fetch", "--vendor", "third_party"]);
    assert!(vendored.ok, "{vendored:#?}");
    std::fs::remove_dir_all(workspace.path("cache/sources")).unwrap();
    let ran = workspace.start("new-llama", "cargo", &["run", "--quiet"]);
    assert_eq!(ran.stdout, "system: PLAYED = 1 |\ndevice: CPU: played\n", "{ran:#?}");
    assert_eq!(server.requests().len(), 1);
    // A feature whose backend cannot be built here does not prevent `cargo check`.
    let named = workspace.start("new-llama", "cargo", &["check", "--features", "metal"]);
    assert!(named.ok, "{named:#?}");
}

#[test]
fn whisper_template_is_fetched_built_and_run() {
    let Some((workspace, _server)) = workspace("whisper", WHISPER_H, WHISPER_C) else { return };
    let done = workspace.follow("new-whisper", "README.md");
    assert_eq!(done[1].1.stdout, "system: PLAYED = 1 |\nlanguages: 2\n");
    let ran = workspace.start("new-whisper", "cargo", &["run", "--quiet", "--", "/model.bin"]);
    assert_eq!(line(&ran.stdout, "model: "), "1 tokens, 2 audio and 3 text layers");
    workspace.is_in_order("new-whisper");
}
