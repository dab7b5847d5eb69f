//! The inside of a child probe: opens a vendor's library and queries it.
//!
//! Runs only in `gpubuild __probe ID`, a separate process, so that nothing the library does there (crash, hang, print, stay
//! initialised) affects gpubuild. The parent reads one line from standard output, the [`DriverReply`]. Only these modules
//! call foreign code; a comment at each block states why it is sound.
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

/// Queries the library of a probe id. `arguments` are paths of libraries, for probes that need them.
#[must_use]
pub fn ask(id: &str, arguments: &[String]) -> DriverReply {
    let answer = match id {
        "cuda-runtime" => cuda_runtime::ask(arguments),
        "cuda" => cuda::ask(),
        "rocm" => hip::ask(),
        "vulkan" => vulkan::ask(),
        "opencl" => opencl::ask(),
        "sycl" => level_zero::ask(),
        #[cfg(target_os = "macos")]
        "metal" => metal::ask(),
        #[cfg(not(target_os = "macos"))]
        "metal" => Err("Metal exists on macOS only".to_owned()),
        other => Err(format!("unknown probe `{other}`")),
    };
    match answer {
        Ok(answer) => DriverReply { status: "ok", error: String::new(), answer },
        Err(error) => DriverReply { status: "failed", error, answer: Value::Null },
    }
}

/// Opens the first of the libraries that exists.
fn open(names: &[&str]) -> Result<Library, String> {
    let mut first_error = None;
    for name in names {
        // SAFETY: this child process exists to run the initialisers of a driver library.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(library),
            Err(error) => {
                // The loader's message is in the source.
                let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                first_error.get_or_insert(reason);
            }
        }
    }
    let reason = first_error.unwrap_or_default();
    Err(format!("{} could not be opened: {reason}", names.join(", ")))
}

/// The text that a library wrote into a buffer, up to its NUL.
fn text(buffer: &[u8]) -> String {
    CStr::from_bytes_until_nul(buffer).map_or_else(
        |_| String::from_utf8_lossy(buffer).into_owned(),
        |text| text.to_string_lossy().trim().to_owned(),
    )
}

/// A library's function, by its C name and type.
macro_rules! function {
    ($library:expr, $name:literal, fn($($argument:ty),* $(,)?) -> $result:ty) => {
        // SAFETY: the vendor's header declares this type for this name.
        unsafe { $library.get::<unsafe extern "system" fn($($argument),*) -> $result>($name) }
            .map_err(|error| format!("{}: {error}", $name.to_string_lossy()))
    };
}
use function;
