//! Builds whisper.cpp for the selected features, links it, and generates bindings of its header.

fn main() {
    let build = gpubuild_build::Build::new().source_from_env("WHISPER_CPP_SOURCE");
    let Ok(built) = build.run() else { return };
    // If a toolkit is missing and nothing was built, `cargo check` still works.
    let bindings = built.bindings().include_source("ggml/include");
    bindings.write(|call| {
        bindgen::Builder::default()
            .headers(&call.headers)
            .clang_args(&call.arguments)
            .depfile("bindings", &call.depfile)
            .allowlist_item("(whisper|ggml)_.*|(WHISPER|GGML)_.*")
            .generate()
            .map(|bindings| bindings.to_string())
    });
}
