//! Links the published program without unwind tables: its panics abort, and the standard library's tables are a tenth of its size.
#![expect(clippy::disallowed_methods, reason = "a build script reads the variables that cargo sets")]

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=packaging/no-unwind-tables.ld");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // Cargo does not tell whether panics abort. Only the profile `dist` has this level.
    if is("OPT_LEVEL", "z") && is("CARGO_CFG_TARGET_OS", "linux") {
        let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo sets this");
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{folder}/packaging/no-unwind-tables.ld");
    }
}
