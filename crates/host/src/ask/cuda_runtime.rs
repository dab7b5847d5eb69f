//! Libraries of the CUDA Toolkit, loaded by their paths in the order given and asked for their versions. No driver is needed.

use std::ffi::c_int;

use libloading::Library;
use serde_json::{Map, Value, json};

use super::function;

/// `{cudart: 12090, cublas: [12, 9, 2]}`, as far as these libraries are among them.
pub(super) fn ask(paths: &[String]) -> Result<Value, String> {
    let mut answer = Map::new();
    let mut libraries = Vec::new();
    for path in paths {
        let library = super::open(&[path])?;
        if let Ok(version) = function!(library, c"cudaRuntimeGetVersion", fn(*mut c_int) -> c_int) {
            let mut number = 0;
            // SAFETY: one out-parameter that lives here; the call needs no driver.
            check("cudaRuntimeGetVersion", unsafe { version(&raw mut number) })?;
            answer.insert("cudart".to_owned(), json!(number));
        }
        if let Some(version) = cublas(&library)? {
            answer.insert("cublas".to_owned(), json!(version));
        }
        // A library that others need stays loaded: they find it by its name.
        libraries.push(library);
    }
    // Unloading runs code of the libraries once more, for nothing: the process ends.
    libraries.into_iter().for_each(std::mem::forget);
    Ok(Value::Object(answer))
}

/// Major, minor, patch.
fn cublas(library: &Library) -> Result<Option<[c_int; 3]>, String> {
    let Ok(property) = function!(library, c"cublasGetProperty", fn(c_int, *mut c_int) -> c_int) else {
        return Ok(None);
    };
    let mut version = [0; 3];
    for (which, number) in (0..).zip(&mut version) {
        // SAFETY: one out-parameter that lives here; the call takes no handle.
        check("cublasGetProperty", unsafe { property(which, &raw mut *number) })?;
    }
    Ok(Some(version))
}

fn check(call: &str, status: c_int) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{call} answered {status}")) }
}
