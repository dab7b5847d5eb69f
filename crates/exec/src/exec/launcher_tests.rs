use super::*;

#[test]
fn the_log_of_ccache_is_read() {
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
    assert_eq!(calls[3].words, ["called_for_preprocessing"]);
    assert_eq!(parse_log("cache_miss\n\n"), []);
}

#[test]
fn the_counts_of_sccache_are_read() {
    let text = r#"{"stats":{"compile_requests":1,"requests_not_cacheable":1,"cache_hits":{"counts":{"C/C++":4,"CUDA":2}},
        "cache_misses":{"counts":{"C/C++":3}},"non_cacheable_compilations":2},"cache_location":"Local disk: \"/x\""}"#;
    let (counts, place) = parse_stats(text).unwrap();
    assert_eq!(counts, LauncherCounts { hits: 6, misses: 3, other: 3 });
    assert_eq!(place, "Local disk: \"/x\"");
    assert_eq!(parse_stats("sccache: error: timed out"), None);
}

#[test]
fn names_of_programs_are_bare() {
    assert_eq!(stem("/usr/bin/ccache"), "ccache");
    assert_eq!(stem(r"C:\Tools\SCCACHE.EXE"), "sccache");
}
