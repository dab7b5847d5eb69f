use super::*;

const BUILT: &str = r#"{"schema":1,"gpubuild":"0.1.0","project":"p","backends":["cpu"],
"trees":[{"build":"@/b","files":[{"target":"k","kind":"static","path":"@/b/libk.a","bytes":1,"sha256":"0"}]}],
"cargo":{"lines":["rustc-link-search=native=@/b","rustc-link-lib=static=k","rustc-link-lib=dylib=m"],"search_path":[],
"search_path_beside":[],"search_path_alone":["$ORIGIN"],"beside":[]}}"#;

/// The lines for a crate whose manifest has this text, in which `@` means the manifest's folder.
fn lines_of(manifest: Option<&str>) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display().to_string();
    let path = folder.path().join("manifest.json");
    if let Some(text) = manifest {
        files::write(&path, text.replace('@', &root).as_bytes()).unwrap();
    }
    let variables = Variables::new([(find::VARIABLE.to_owned(), path.display().to_string())]);
    let text = lines(&variables).replace(&root, "@");
    (folder, text)
}

#[test]
fn without_a_manifest_a_crate_compiles_without_kernels() {
    let (_folder, text) = lines_of(None);
    assert!(text.contains("cargo::rustc-check-cfg=cfg(gpubuild_backend, values(\"cpu\", "), "{text}");
    assert!(text.contains("cargo::rerun-if-changed=@/manifest.json\n"), "{text}");
    assert!(
        text.contains("cargo::warning=no kernels were built yet") && !text.contains("rustc-cfg="),
        "{text}"
    );
}

#[test]
fn a_manifest_gives_cfgs_and_link_lines() {
    let (_folder, text) = lines_of(Some(BUILT));
    assert!(text.contains("cargo::rustc-cfg=gpubuild_backend=\"cpu\"\n"), "{text}");
    let end = "cargo::rustc-link-search=native=@/b\ncargo::rustc-link-lib=static=k\ncargo::rustc-link-lib=dylib=m\n\
               cargo::rustc-link-arg=-Wl,-rpath,$ORIGIN\n";
    assert!(text.ends_with(end), "{text}");
    assert!(text.contains("cargo::warning=`@/b/libk.a` is missing or changed since the build"), "{text}");
}

#[test]
fn an_invalid_manifest_is_an_error_with_an_id() {
    for (text, expected) in [
        ("{", "[manifest.unreadable]"),
        (
            "[]",
            "has schema (none), but this gpubuild-link reads schema 1: run `gpubuild build` again [manifest.other-schema]",
        ),
        (r#"{"schema":2}"#, "has schema 2, "),
        (r#"{"schema":1}"#, "it is not a manifest: run `gpubuild build` again [manifest.unreadable]"),
        (
            r#"{"schema":1,"project":"p","backends":[],"trees":[]}"#,
            "has no lines for cargo: an older gpubuild wrote it",
        ),
    ] {
        let (_folder, lines) = lines_of(Some(text));
        assert!(lines.contains("cargo::error=") && lines.contains(expected), "{lines}");
    }
}

#[test]
fn line_breaks_are_replaced_and_files_are_watched_once() {
    let mut script = BuildScript::default();
    script.warning("one\ntwo");
    script.watch(Path::new("/a"));
    script.watch(Path::new("/a"));
    script.error("what\n\n  hint: do\n");
    script.error("##vso[a]\u{1b}[31m\u{202e}");
    assert_eq!(
        script.into_text(),
        "cargo::warning=one two\ncargo::rerun-if-changed=/a\ncargo::error=what\ncargo::error=  hint: do\n\
         cargo::error=# #vso[a]\\u{1b}[31m\\u{202e}\n"
    );
}
