//! The inside of a child probe: opens one vendor's library and asks it what it sees.
//!
//! Runs only in `gpubuild __probe ID`, in a process of its own: whatever the library does there (crash, hang, print, stay
//! initialised) harms nobody. The parent reads one line from standard output, the [`Reply`]. These are the only modules that
//! call foreign code; each block says why that is sound.
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

/// The one line that a child probe prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reply {
    /// `ok` or `failed`.
    pub status: &'static str,
    /// Why there is no answer.
    pub error: String,
    /// The answer; null without one.
    pub answer: Value,
}

/// Asks the library behind a probe id. `arguments` are paths of libraries, for probes that take some.
#[must_use]
pub fn ask(id: &str, arguments: &[String]) -> Reply {
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
        other => Err(format!("there is no probe `{other}`")),
    };
    match answer {
        Ok(answer) => Reply { status: "ok", error: String::new(), answer },
        Err(error) => Reply { status: "failed", error, answer: Value::Null },
    }
}

/// Opens the first of the libraries that is there.
fn open(names: &[&str]) -> Result<Library, String> {
    let mut first_error = None;
    for name in names {
        // SAFETY: running the initialisers of a driver library is what this child process is for.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(library),
            Err(error) => {
                // The loader's own words stand in the source.
                let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                first_error.get_or_insert(reason);
            }
        }
    }
    let reason = first_error.unwrap_or_default();
    Err(format!("{} could not be opened: {reason}", names.join(", ")))
}

/// Text that a library wrote into a buffer, up to its NUL.
fn text(buffer: &[u8]) -> String {
    CStr::from_bytes_until_nul(buffer).map_or_else(
        |_| String::from_utf8_lossy(buffer).into_owned(),
        |text| text.to_string_lossy().trim().to_owned(),
    )
}

/// A function of a library, by its C name and type.
macro_rules! function {
    ($library:expr, $name:literal, fn($($argument:ty),* $(,)?) -> $result:ty) => {
        // SAFETY: the type is the one that the vendor's header declares for this name.
        unsafe { $library.get::<unsafe extern "system" fn($($argument),*) -> $result>($name) }
            .map_err(|error| format!("{}: {error}", $name.to_string_lossy()))
    };
}
use function;
