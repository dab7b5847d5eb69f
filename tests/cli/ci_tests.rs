//! `test_images`: jobs that test on another machine what a job packed.
#![expect(clippy::disallowed_methods, reason = "a test removes the folder that it packed")]

use serde_json::{Value, json};

use crate::ci::{document, project};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::pack;
use crate::support::Sandbox;

const PROGRAM: &str = "\n[binary]\npackage = \"app\"\n";

const GPU: &str = r#"
[[variants]]
name = "cuda"
backends = ["cpu", "cuda"]
images = ["ubuntu-24.04", "windows-2025"]
toolkits = { cuda = ["13.0", "13.5"] }
test_images = ["gpu-box"]
[ci.images.gpu-box]
host = "gpu-box.toml"
labels = ["self-hosted", "gpu"]
"#;

fn with_box(lines: &str) -> Sandbox {
    let sandbox = project(&format!("{PROGRAM}{lines}"));
    sandbox.write("gpu-box.toml", include_str!("../hosts/ubuntu-22.04-rtx4090.toml"));
    sandbox
}

fn test_names(rows: &Value) -> Vec<&str> {
    rows["tests"].as_array().unwrap().iter().map(|test| test["name"].as_str().unwrap()).collect()
}

#[test]
fn each_package_for_the_platform_of_a_test_image_is_tested_on_it() {
    let sandbox = with_box(GPU);
    let rows = document(&sandbox.run(&["ci", "matrix", "--json"]));
    assert_eq!(test_names(&rows), ["cuda13.0-ubuntu-24.04-on-gpu-box", "cuda13.5-ubuntu-24.04-on-gpu-box"]);
    let first = &rows["tests"][0];
    assert_eq!(first["of"], "cuda13.0-ubuntu-24.04");
    assert_eq!(first["backends"], "cuda", "the CPU was tested where it was built");
    let install = "install --manifest release --variant cuda13.0 --backend cuda --to .gpubuild/tested";
    assert_eq!(first["run"], json!([install.split(' ').collect::<Vec<_>>()]));
    let tests = document(&sandbox.run(&["ci", "matrix", "--format", "github", "--tests"]));
    assert_eq!(tests["include"][1]["os"], json!(["self-hosted", "gpu"]));
    let builds = document(&sandbox.run(&["ci", "matrix", "--format", "github"]));
    let tested: Vec<(&str, &str)> = builds["include"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["tested"].as_str().unwrap()))
        .collect();
    assert!(tested.contains(&("cuda13.0-ubuntu-24.04", "yes")), "{tested:?}");
    assert!(tested.contains(&("cuda13.0-windows-2025", "")), "{tested:?}");
    // Without the jobs that pack, there is nothing to test.
    let rows = document(&sandbox.run(&["ci", "matrix", "--json", "--platform", "windows-x86_64"]));
    assert!(rows["tests"].is_null(), "{rows:#}");
    let shown = sandbox.run(&["ci", "run", "cuda13.5-ubuntu-24.04-on-gpu-box", "--dry-run"]);
    assert_eq!(shown.stdout.trim(), format!("gpubuild {}", install.replace("13.0", "13.5")));
    let refused = sandbox.run(&["ci", "run", "cuda13.5-ubuntu-24.04-on-gpu-box", "--dry-run", "--pack"]);
    assert_eq!(refused.exit, Some(2));
    assert!(refused.stderr.contains("it tests what `cuda13.5-ubuntu-24.04` packs"), "{refused:#?}");
}

#[test]
fn workflows_pass_packages_on_to_the_tests() {
    let container =
        GPU.replace("labels = [\"self-hosted\", \"gpu\"]", "labels = [\"gpu\"]\ncontainer = \"cuda:13\"");
    for (service, file, parts) in [
        (
            "github",
            ".github/workflows/gpubuild.yml",
            ["(github.ref_type == 'tag' || matrix.tested)", "needs: [matrix, build, test]", "--tests)"],
        ),
        (
            "gitlab",
            ".gitlab/gpubuild.yml",
            ["OF: \"cuda13.0-ubuntu-24.04\"", "[ -z \"$CI_COMMIT_TAG$TESTED\" ]", "TESTED: \"yes\""],
        ),
    ] {
        let sandbox = with_box(&container.replace("windows-2025", "debian-12"));
        assert_eq!(sandbox.run(&["ci", "init", "--format", service]).exit, Some(0));
        let text = sandbox.read(file);
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("@test") && !text.contains("@packed") && !text.contains("@after"), "{text}");
        assert_eq!(text.matches(" ci run \"$ROW\"").count(), 2, "{text}");
        let events: Result<Vec<_>, _> = saphyr_parser::Parser::new_from_str(&text).collect();
        assert!(events.is_ok(), "{text}");
        assert_eq!(sandbox.run(&["ci", "verify"]).exit, Some(0));
        // Without `test_images`, the file has no tests.
        let toml = sandbox.read("gpubuild.toml").replace("test_images = [\"gpu-box\"]\n", "");
        sandbox.write("gpubuild.toml", &toml);
        assert_eq!(sandbox.run(&["ci", "init", "--format", service]).exit, Some(0));
        let without = sandbox.read(file);
        assert!(!without.to_lowercase().contains("tested"), "{without}");
    }
}

#[test]
fn tests_of_nothing_are_refused() {
    for (lines, reason) in [
        ("\ntest_images = [\"nowhere\"]", "unknown image `nowhere`"),
        ("\nimages = [\"windows-2025\"]\ntest_images = [\"ubuntu-24.04\"]", "no job packs the variant `cpu`"),
    ] {
        let variant = format!("\n[[variants]]\nname = \"cpu\"\nbackends = [\"cpu\"]{lines}\n");
        let ran = project(&format!("{PROGRAM}{variant}")).run(&["ci", "matrix"]);
        assert_eq!(ran.exit, Some(2), "{ran:#?}");
        assert!(ran.stderr.contains(reason), "{}", ran.stderr);
    }
    // A project without a program packs nothing.
    let lines = "\n[[variants]]\nname = \"cpu\"\nbackends = [\"cpu\"]\ntest_images = [\"ubuntu-24.04\"]\n";
    let ran = project(lines).run(&["ci", "matrix"]);
    assert!(ran.exit == Some(2) && ran.stderr.contains("[ci.no-pack]"), "{ran:#?}");
    let ran = project(&format!("{PROGRAM}{lines}")).run(&["ci", "matrix", "--format", "slurm", "--tests"]);
    ran.fails(2, "usage.conflict");
    let ran = project(lines).run(&["ci", "matrix", "--tests", "--allow-missing"]);
    assert!(ran.exit == Some(2) && ran.stderr.contains("[usage.conflict]"), "{ran:#?}");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_test_job_runs_what_the_build_job_packed_and_fails_with_it() {
    let Some(sandbox) = pack::project() else { return };
    let file = sandbox.read("gpubuild.toml");
    let lines = "\n[[variants]]\nname = \"cpu\"\nbackends = [\"cpu\"]\nimages = [\"debian-12\"]\ntest_images = [\"debian-12\"]\n";
    sandbox.write("gpubuild.toml", &format!("{file}{lines}"));
    let run = |job: &[&str]| sandbox.run(&[&["ci", "run"], job].concat());
    let test = ["cpu-debian-12-on-debian-12"];
    let before = run(&test);
    assert_eq!(before.exit, Some(2), "nothing was packed yet: {before:#?}");
    let packed = run(&["cpu-debian-12", "--pack"]);
    assert_eq!(packed.exit, Some(0), "{packed:#?}");
    let passed = run(&test);
    assert_eq!(passed.exit, Some(0), "{passed:#?}");
    assert!(!passed.stderr.contains("gpubuild build"), "nothing is compiled: {passed:#?}");
    // The same package with a program that returns an error.
    std::fs::remove_dir_all(sandbox.path("release")).unwrap();
    pack::program(&sandbox, 41);
    assert_eq!(run(&["cpu-debian-12", "--pack"]).exit, Some(0));
    let failed = run(&test);
    assert_eq!(failed.exit, Some(1), "{failed:#?}");
    assert!(failed.stderr.contains("ci.job-failed"), "{failed:#?}");
}

#[test]
fn many_impossible_jobs_are_counted() {
    let images: Vec<String> = (0..1000).map(|number| format!("\"nowhere-{number}\"")).collect();
    let variant =
        format!("\n[[variants]]\nname = \"cpu\"\nbackends = [\"cpu\"]\nimages = [{}]\n", images.join(", "));
    let sandbox = project(&format!("{PROGRAM}{variant}"));
    let refused = sandbox.run(&["ci", "matrix"]);
    assert_eq!(refused.exit, Some(2), "{refused:#?}");
    let skipped = sandbox.run(&["ci", "matrix", "--allow-missing"]);
    assert_eq!(skipped.exit, Some(0), "{skipped:#?}");
    for text in [&refused.stderr, &skipped.stderr, &skipped.stdout] {
        assert_eq!(text.matches("unknown image").count(), 256, "{text}");
        assert!(text.contains("744 more jobs"), "{text}");
    }
}
