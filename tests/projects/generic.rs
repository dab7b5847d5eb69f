//! Projects without a profile, built with the generic one, as a binding's maintainer would.

use crate::sources;
use crate::support::{Probe, ProjectFolder, UNITY};

fn targets(project: &ProjectFolder) -> Vec<String> {
    let manifest = project.manifest();
    let files = manifest["trees"][0]["files"].as_array().unwrap();
    files.iter().map(|file| file["target"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn zlib_ng_builds_with_the_generic_profile() {
    if !sources::wanted() {
        return;
    }
    let source = sources::vendored("libz-ng-sys").join("src/zlib-ng");
    // An alias target works like the target it names.
    let rest =
        "targets = [\"zlib-ng::zlib\"]\noptions.ZLIB_COMPAT = \"OFF\"\noptions.BUILD_TESTING = \"OFF\"\n";
    let project = ProjectFolder::new("zlib-ng", "cmake", &source, rest);
    project.build("cpu");
    let build = project.folder.join(".gpubuild/zlib-ng/cpu");
    let argument = "a text that is long enough, long enough, long enough";
    let probe = Probe { file: "zlib.c", includes: vec![source.clone(), build], argument };
    let output = project.run_rust(&[probe], &[]);
    assert!(output.contains("52 bytes restored"), "{output}");
}

#[test]
fn highs_builds_with_the_generic_profile() {
    if !sources::wanted() {
        return;
    }
    let source = sources::vendored("highs-sys").join("HiGHS");
    let rest = "targets = [\"highs\"]\noptions.BUILD_CXX_EXE = \"OFF\"\noptions.ZLIB = \"OFF\"\n";
    let project = ProjectFolder::new("highs", "cmake", &source, &format!("{UNITY}{rest}"));
    project.build("cpu");
    assert!(targets(&project).contains(&"highs".to_owned()), "{:?}", targets(&project));
    let build = project.folder.join(".gpubuild/highs/cpu");
    let includes = vec![source.join("highs"), source.join("src"), build.clone(), build.join("src")];
    let output = project.run_rust(&[Probe { file: "highs.c", includes, argument: "" }], &[]);
    assert!(output.contains("objective 28"), "{output}");
}

#[test]
fn snmalloc_builds_with_the_generic_profile() {
    if !sources::wanted() {
        return;
    }
    let source = sources::vendored("snmalloc-sys").join("upstream");
    let rest = "targets = [\"snmallocshim-static\"]\noptions.SNMALLOC_BUILD_TESTING = \"OFF\"\n";
    let project = ProjectFolder::new("snmalloc", "cmake", &source, rest);
    project.build("cpu");
    assert_eq!(targets(&project), ["snmallocshim-static"]);
}
