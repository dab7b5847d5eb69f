//! Builds whisper.cpp for the backends that the features name, links it, and makes bindings of its header.

fn main() {
    let build = gpubuild_build::Build::new().source_from_env("WHISPER_CPP_SOURCE");
    let Ok(built) = build.run() else { return };
    let source = std::env::var("WHISPER_CPP_SOURCE").unwrap_or("whisper.cpp".to_owned());
    // Where a toolkit is missing and nothing was built, the crate can be checked all the same.
    let bindings = built.bindings().include(source + "/ggml/include");
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
