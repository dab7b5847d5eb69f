//! Probe for the versions of CUDA Toolkit libraries, which it loads by path in the given order. Needs no driver.

use std::ffi::c_int;

use libloading::Library;
use serde_json::{Map, Value, json};

use super::function;

/// Returns `{cudart: 12090, cublas: [12, 9, 2]}`, with the keys of the libraries among `paths`.
pub(super) fn query(paths: &[String]) -> Result<Value, String> {
    let mut answer = Map::new();
    let mut libraries = Vec::new();
    for path in paths {
        let library = super::open(&[path])?;
        if let Ok(version) = function!(library, c"cudaRuntimeGetVersion", fn(*mut c_int) -> c_int) {
            let mut number = 0;
            // SAFETY: the out-parameter is a local; the call needs no driver.
            check("cudaRuntimeGetVersion", unsafe { version(&raw mut number) })?;
            answer.insert("cudart".to_owned(), json!(number));
        }
        if let Some(version) = cublas(&library)? {
            answer.insert("cublas".to_owned(), json!(version));
        }
        // Keep the library loaded, because later libraries depend on it by name.
        libraries.push(library);
    }
    // Do not unload: that would run more library code, and the process exits anyway.
    libraries.into_iter().for_each(std::mem::forget);
    Ok(Value::Object(answer))
}

/// The cuBLAS version as major, minor and patch; `None` if the library is not cuBLAS.
fn cublas(library: &Library) -> Result<Option<[c_int; 3]>, String> {
    let Ok(property) = function!(library, c"cublasGetProperty", fn(c_int, *mut c_int) -> c_int) else {
        return Ok(None);
    };
    let mut version = [0; 3];
    for (which, number) in (0..).zip(&mut version) {
        // SAFETY: the out-parameter is a local; the call takes no handle.
        check("cublasGetProperty", unsafe { property(which, &raw mut *number) })?;
    }
    Ok(Some(version))
}

fn check(call: &str, status: c_int) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{call} returned {status}")) }
}
