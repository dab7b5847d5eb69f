//! Builds llama.cpp for the backends selected by the features.

fn main() {
    gpubuild_build::Build::new().source_from_env("LLAMA_CPP_SOURCE").link();
}
