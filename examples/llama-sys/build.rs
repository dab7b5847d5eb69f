//! Builds llama.cpp for the backends that the features name.

fn main() {
    gpubuild_build::Build::new().source_from_env("LLAMA_CPP_SOURCE").link();
}
