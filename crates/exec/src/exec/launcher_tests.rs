use super::*;

#[test]
fn ccache_log_is_parsed() {
    let text = "# a.c\ncache_miss\ndirect_cache_miss\nlocal_storage_miss\n# /s/b c.cpp\ndirect_cache_hit\n\
                local_storage_hit\n# d.c\npreprocessed_cache_hit\n# x.cu\ncalled_for_preprocessing\n";
    let calls = parse_log(text);
    let outcomes: Vec<(&str, LauncherOutcome)> =
        calls.iter().map(|call| (call.source.as_str(), call.outcome)).collect();
    assert_eq!(
        outcomes,
        [
            ("a.c", LauncherOutcome::Miss),
            ("/s/b c.cpp", LauncherOutcome::Hit),
            ("d.c", LauncherOutcome::Hit),
            ("x.cu", LauncherOutcome::Other)
        ]
    );
    assert_eq!(calls[3].results, ["called_for_preprocessing"]);
    assert_eq!(parse_log("cache_miss\n\n"), []);
}

#[test]
fn sccache_statistics_are_parsed() {
    let text = r#"{"stats":{"compile_requests":1,"requests_not_cacheable":1,"cache_hits":{"counts":{"C/C++":4,"CUDA":2}},
        "cache_misses":{"counts":{"C/C++":3}},"non_cacheable_compilations":2},"cache_location":"Local disk: \"/x\""}"#;
    let (counts, location) = parse_stats(text).unwrap();
    assert_eq!(counts, LauncherCounts { hits: 6, misses: 3, other: 3 });
    assert_eq!(location, "Local disk: \"/x\"");
    assert_eq!(parse_stats("sccache: error: timed out"), None);
}

#[test]
fn program_names_have_no_folder_or_extension() {
    assert_eq!(stem("/usr/bin/ccache"), "ccache");
    assert_eq!(stem(r"C:\Tools\SCCACHE.EXE"), "sccache");
}
