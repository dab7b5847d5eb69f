//! Projects that no profile knows, with the generic one: what a maintainer of a binding would write.

use crate::sources;
use crate::support::{Place, Probe};

fn targets(place: &Place) -> Vec<String> {
    let manifest = place.manifest();
    let files = manifest["trees"][0]["files"].as_array().unwrap();
    files.iter().map(|file| file["target"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn zlib_ng() {
    if !sources::wanted() {
        return;
    }
    let source = sources::vendored("libz-ng-sys").join("src/zlib-ng");
    // An alias is as good as the target that it stands for.
    let rest =
        "targets = [\"zlib-ng::zlib\"]\noptions = { ZLIB_COMPAT = \"OFF\", BUILD_TESTING = \"OFF\" }\n";
    let place = Place::new("zlib-ng", "cmake", &source, rest);
    place.build("cpu");
    let build = place.folder.join(".gpubuild/zlib-ng/cpu");
    let argument = "a text that is long enough, long enough, long enough";
    let probe = Probe { file: "zlib.c", includes: vec![source.clone(), build], argument };
    let said = place.run_rust(&[probe], &[]);
    assert!(said.contains("52 bytes came back"), "{said}");
}

#[test]
fn highs() {
    if !sources::wanted() {
        return;
    }
    let source = sources::vendored("highs-sys").join("HiGHS");
    let rest = "targets = [\"highs\"]\noptions = { BUILD_CXX_EXE = \"OFF\", ZLIB = \"OFF\" }\n";
    let place = Place::new("highs", "cmake", &source, rest);
    place.build("cpu");
    assert!(targets(&place).contains(&"highs".to_owned()), "{:?}", targets(&place));
    let build = place.folder.join(".gpubuild/highs/cpu");
    let includes = vec![source.join("highs"), source.join("src"), build.clone(), build.join("src")];
    let said = place.run_rust(&[Probe { file: "highs.c", includes, argument: "" }], &[]);
    assert!(said.contains("objective 28"), "{said}");
}

#[test]
fn snmalloc() {
    if !sources::wanted() {
        return;
    }
    let source = sources::vendored("snmalloc-sys").join("upstream");
    let rest = "targets = [\"snmallocshim-static\"]\noptions = { SNMALLOC_BUILD_TESTING = \"OFF\" }\n";
    let place = Place::new("snmalloc", "cmake", &source, rest);
    place.build("cpu");
    assert_eq!(targets(&place), ["snmallocshim-static"]);
}
