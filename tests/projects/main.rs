//! Third-party projects, built for real: llama.cpp, whisper.cpp, stable-diffusion.cpp, ggml, and some that only the
//! generic profile supports. The sources are fetched by pinned hash and are not part of the repository. The tests are
//! skipped unless `GPUBUILD_REQUIRE` names `projects`, since they take many minutes.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests print why they skip")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and write their own files")]

mod crates;
mod dynamic;
mod generic;
mod gguf;
mod golden;
mod new;
mod options;
#[path = "../common/requirements.rs"]
mod requirements;
mod running;
mod sdist;
mod sources;
mod support;
mod whisper_model;
