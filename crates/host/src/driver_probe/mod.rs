//! The child side of a probe: opens a vendor's library and queries it.
//!
//! This code only runs in `gpubuild __probe ID`, a separate process, so a library that crashes, hangs, prints text or keeps
//! state cannot affect gpubuild. The parent process reads one line from standard output: the [`DriverReply`]. Only these
//! modules call vendor code; each `unsafe` block states why it is sound.
#![expect(
    unsafe_code,
    reason = "vendor libraries have C interfaces and are called in this child process only"
)]

mod cuda;
mod cuda_runtime;
mod hip;
mod level_zero;
#[cfg(target_os = "macos")]
mod metal;
mod opencl;
mod vulkan;

use std::error::Error;
use std::ffi::CStr;

use libloading::Library;
use serde::Serialize;
use serde_json::Value;

/// The line that a child probe prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriverReply {
    /// `ok` or `failed`.
    pub status: &'static str,
    /// The error; empty on success.
    pub error: String,
    /// The answer; null on failure.
    pub answer: Value,
}

/// Queries the vendor library of a probe. `arguments` are library paths for the probes that need them (`cuda-runtime`).
#[must_use]
pub fn query(id: &str, arguments: &[String]) -> DriverReply {
    // A driver that hangs would remain if gpubuild was killed.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let answer = match id {
        "cuda-runtime" => cuda_runtime::query(arguments),
        "cuda" => cuda::query(),
        "rocm" => hip::query(),
        "vulkan" => vulkan::query(),
        "opencl" => opencl::query(),
        "sycl" => level_zero::query(),
        #[cfg(target_os = "macos")]
        "metal" => metal::query(),
        #[cfg(not(target_os = "macos"))]
        "metal" => Err("Metal is available on macOS only".to_owned()),
        other => Err(format!("unknown probe `{other}`")),
    };
    match answer {
        Ok(answer) => DriverReply { status: "ok", error: String::new(), answer },
        Err(error) => DriverReply { status: "failed", error, answer: Value::Null },
    }
}

/// Opens the first library that loads. On failure, the error is that of the first name.
fn open(names: &[&str]) -> Result<Library, String> {
    let mut first_error = None;
    for name in names {
        // SAFETY: this child process exists to run the initialisers of a driver library.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(library),
            Err(error) => {
                // The loader's message is in the error source.
                let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                first_error.get_or_insert(reason);
            }
        }
    }
    let reason = first_error.unwrap_or_default();
    Err(format!("failed to open {}: {reason}", names.join(", ")))
}

/// Decodes a buffer up to its first NUL.
fn text(buffer: &[u8]) -> String {
    CStr::from_bytes_until_nul(buffer).map_or_else(
        |_| String::from_utf8_lossy(buffer).into_owned(),
        |text| text.to_string_lossy().trim().to_owned(),
    )
}

/// Looks up a function of a library by its C name and type.
macro_rules! function {
    ($library:expr, $name:literal, fn($($argument:ty),* $(,)?) -> $result:ty) => {
        // SAFETY: the vendor's header declares this type for this name.
        unsafe { $library.get::<unsafe extern "system" fn($($argument),*) -> $result>($name) }
            .map_err(|error| format!("{}: {error}", $name.to_string_lossy()))
    };
}
use function;
