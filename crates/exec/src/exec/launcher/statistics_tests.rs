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
    let read = ServerStatistics::parse(text).unwrap();
    assert_eq!(read.counts, LauncherCounts { hits: 6, misses: 3, other: 3 });
    assert_eq!(read.location, "Local disk: \"/x\"");
    assert_eq!(ServerStatistics::parse("sccache: error: timed out"), None);
}

#[test]
fn distributed_compilations_are_counted_from_the_start_of_the_build() {
    let text = |one: u32, two: u32, failed: u32| {
        format!(
            r#"{{"stats":{{"cache_hits":{{"counts":{{}}}},"cache_misses":{{"counts":{{"CUDA":{one}}}}},
            "dist_compiles":{{"10.0.0.1:10501":{one},"10.0.0.2:10501":{two}}},"dist_errors":{failed}}}}}"#
        )
    };
    let (before, after) = (text(4, 1, 2), text(9, 1, 3));
    let built = ServerStatistics::parse(&after).unwrap().since(&ServerStatistics::parse(&before).unwrap());
    assert_eq!(built.distributed, BTreeMap::from([("10.0.0.1:10501".to_owned(), 5)]));
    assert_eq!((built.not_distributed, built.counts.misses), (1, 5));
}

#[test]
fn program_names_have_no_folder_or_extension() {
    assert_eq!(stem("/usr/bin/ccache"), "ccache");
    assert_eq!(stem(r"C:\Tools\SCCACHE.EXE"), "sccache");
}

#[test]
fn huge_numbers_of_a_server_do_not_overflow() {
    let most = u64::MAX;
    let text = format!(
        r#"{{"stats":{{"cache_hits":{{"counts":{{"C":{most},"CUDA":{most}}}}},"cache_misses":{{"counts":{{"C":{most},"D":1}}}},
            "requests_not_cacheable":{most},"non_cacheable_compilations":{most},"dist_compiles":{{"a":{most}}},"dist_errors":{most}}}}}"#
    );
    let statistics = ServerStatistics::parse(&text).unwrap();
    let LauncherCounts { hits, misses, other } = statistics.counts;
    assert_eq!((hits, misses, other), (most, most, most));
    assert_eq!(ServerStatistics::parse(&text.replace(&most.to_string(), "1e999")), None);
}
