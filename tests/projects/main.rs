//! Other people's projects, built for real: llama.cpp, whisper.cpp, stable-diffusion.cpp, ggml, and some that only the generic
//! profile knows. Their sources are fetched by pinned hash; nothing of them is kept in the repository. All of it is skipped
//! unless `GPUBUILD_REQUIRE` names `projects`, since it takes many minutes.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests; they say so when they skip")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and write their own files")]

mod crates;
mod dynamic;
mod generic;
mod gguf;
mod golden;
mod new;
mod options;
mod running;
mod sdist;
mod sources;
mod support;
mod whisper_model;
