//! The committed bindings must equal what bindgen generates from the header.

use crate::requirements::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the compiler's `stddef.h`: a libclang without its own headers needs it.
fn compiler_headers() -> Option<PathBuf> {
    let output = Command::new("cc").arg("-print-file-name=include").output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}

#[test]
fn committed_bindings_match_the_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // bindgen panics if libclang cannot be loaded, so its version is queried first.
    if std::panic::catch_unwind(bindgen::clang_version).is_err() {
        skip("libclang", "no libclang");
        return;
    }
    let mut builder = bindgen::Builder::default()
        .header(root.join("../../vendor/gk/include/gk.h").display().to_string())
        .allowlist_item("gk_.*|GK_.*")
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .derive_default(false)
        .layout_tests(true)
        .merge_extern_blocks(true)
        .generate_comments(false)
        .use_core()
        .rust_target(bindgen::RustTarget::stable(88, 0).expect("a known Rust version"))
        .rust_edition(bindgen::RustEdition::Edition2024)
        .formatter(bindgen::Formatter::Prettyplease);
    if let Some(headers) = compiler_headers() {
        builder = builder.clang_args(["-idirafter".to_owned(), headers.display().to_string()]);
    }
    // The first line contains the version of bindgen, which is independent of the header.
    let generated = builder.disable_header_comment().generate().expect("the header parses").to_string();
    let path = root.join("src/gk/bindings.rs");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("UPDATE_BINDINGS").is_some() {
        std::fs::write(&path, &generated).expect("writing the bindings");
    } else {
        assert!(
            generated == committed,
            "`{}` is out of date: run this test with UPDATE_BINDINGS=1",
            path.display()
        );
    }
}
