//! CI jobs: the matrix, the generated workflow files, and jobs that run locally.

use serde_json::{Value, json};

use crate::support::{RunResult, Sandbox, recorded};

/// A project with kernels for every backend and additional lines in its file.
pub(crate) fn project(lines: &str) -> Sandbox {
    let sandbox = Sandbox::with_project("gk");
    for backend in ["cpu", "cuda", "rocm", "metal", "vulkan", "sycl", "opencl"] {
        sandbox.write(&format!("vendor/src/{backend}/CMakeLists.txt"), "");
    }
    let file = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{file}{lines}"));
    sandbox
}

#[track_caller]
pub(crate) fn document(ran: &RunResult) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    ran.json()
}

fn names(rows: &Value) -> Vec<&str> {
    rows["include"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

pub(crate) fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    rows["include"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()
}

pub(crate) const TWO: &str = r#"
[[variants]]
name = "cpu"
backends = ["cpu"]
images = ["ubuntu-22.04", "windows-2022"]
[[variants]]
name = "cuda"
backends = ["cpu", "cuda"]
toolkits = { cuda = ["12.4", "13.0"] }
archs = { cuda = ["80", "90"] }
"#;

#[test]
fn ci_rows_combine_variants_images_and_versions() {
    let rows = document(&project(TWO).run(&["ci", "matrix", "--json"]));
    assert_eq!(rows["schema"], json!({"name": "ci", "version": 1}));
    // CUDA 12.4 has no wheels with a compiler, so this version uses a container.
    assert_eq!(
        names(&rows),
        [
            "cpu-ubuntu-22.04",
            "cpu-windows-2022",
            "cuda12.4-cuda-12.4-ubuntu-22.04",
            "cuda13.0-ubuntu-24.04",
            "cuda13.0-ubuntu-24.04-arm",
            "cuda13.0-windows-2025"
        ]
    );
    let container = row(&rows, "cuda12.4-cuda-12.4-ubuntu-22.04");
    assert_eq!(container["os"], "ubuntu-22.04");
    assert_eq!(container["container"], "nvidia/cuda:12.4.1-devel-ubuntu22.04");
    assert!(
        container["prepare"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains("rustup"))
    );
    let wheels = row(&rows, "cuda13.0-ubuntu-24.04");
    assert_eq!(wheels["container"], "");
    assert_eq!(
        wheels["run"],
        json!([
            ["build", "--variant", "cuda", "--toolkit", "cuda=13.0", "--provision"],
            ["test", "--backends", "cpu"]
        ])
    );
    assert!(wheels["needs"]["download_bytes"].as_u64().unwrap() > 50 << 20, "{wheels:#}");
    assert_eq!(wheels["archs"]["cuda"], "80;90");
}

/// A program, a variant on two systems, two toolkit versions, and a variant name that is not a valid label with its
/// versions.
pub(crate) const PACKED: &str = r#"
[binary]
package = "app"
[[variants]]
name = "cpu"
backends = ["cpu"]
images = ["ubuntu-24.04", "ubuntu-22.04", "windows-2022"]
[[variants]]
name = "cuda"
backends = ["cpu", "cuda"]
toolkits = { cuda = ["12.4", "13.0"] }
[[variants]]
name = "cuda13.0"
backends = ["cpu", "cuda"]
images = ["cuda-13.0-ubuntu-24.04"]
[[variants]]
name = "gpu"
backends = ["cpu", "cuda"]
images = ["ubuntu-24.04"]
toolkits = { cuda = ["13.0", "13"] }
"#;

#[test]
fn plain_cmake_project_has_rows_for_its_enabled_backends() {
    let sandbox = Sandbox::with_project("cmake");
    let rows = document(&sandbox.run(&["ci", "matrix", "--json"]));
    assert_eq!(
        names(&rows),
        ["cpu-ubuntu-24.04", "cpu-ubuntu-24.04-arm", "cpu-windows-2025", "cpu-macos-15"]
    );
    assert_eq!(rows["include"][0]["run"][0], json!(["build", "--variant", "cpu"]));
    let file = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{file}[backends.vulkan]\noptions = {{ X_VULKAN = \"ON\" }}\n"));
    let rows = document(&sandbox.run(&["ci", "matrix", "--json"]));
    let names = names(&rows);
    assert!(names.contains(&"cpu-ubuntu-24.04") && names.contains(&"vulkan-ubuntu-24.04"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("cuda")), "{names:?}");
}

#[test]
fn ci_output_is_deterministic() {
    let (one, other) = (project(TWO), project(TWO));
    for format in ["json", "github", "gitlab", "text"] {
        let arguments = ["ci", "matrix", "--format", format];
        assert_eq!(one.run(&arguments).stdout, other.run(&arguments).stdout, "{format}");
    }
}

#[test]
fn project_without_variants_has_a_row_per_buildable_backend() {
    let rows = document(&project("").run(&["ci", "matrix", "--json"]));
    let names = names(&rows);
    for name in
        ["cpu-macos-15", "cuda-windows-2025", "rocm-debian-12", "metal-macos-15", "vulkan-ubuntu-24.04"]
    {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let dropped = rows["dropped"].as_array().unwrap();
    let metal = dropped.iter().find(|one| one["name"] == "metal-ubuntu-24.04").unwrap();
    assert!(metal["reasons"][0].as_str().unwrap().contains("[metal.platform]"), "{metal}");
}

#[test]
fn backends_that_run_without_a_gpu_are_set_up_and_tested() {
    let rows = document(&project("").run(&["ci", "matrix", "--json", "--variant", "vulkan"]));
    let ubuntu = row(&rows, "vulkan-ubuntu-24.04");
    assert_eq!(ubuntu["run"][1], json!(["test", "--backends", "cpu,vulkan"]));
    assert!(ubuntu["setup"][1].as_str().unwrap().starts_with("sudo apt-get install"));
    let windows = row(&rows, "vulkan-windows-2025");
    assert_eq!(windows["run"][1], json!(["test", "--backends", "cpu"]));
}

#[test]
fn impossible_explicit_rows_fail_with_planner_reasons() {
    for (lines, id) in [
        ("backends = [\"metal\"]\nimages = [\"ubuntu-24.04\"]", "metal.platform"),
        // Ubuntu 22.04 has no glslc package.
        ("backends = [\"vulkan\"]\nimages = [\"ubuntu-22.04\"]", "vk."),
        (
            "backends = [\"cuda\"]\nimages = [\"cuda-12.9-ubuntu-24.04\"]\narchs = { cuda = [\"35\"] }",
            "cuda.arch",
        ),
        (
            "backends = [\"cuda\"]\nimages = [\"cuda-12.4-ubuntu-22.04\"]\narchs = { cuda = [\"120\"] }",
            "cuda.arch",
        ),
        (
            "backends = [\"cuda\"]\nimages = [\"cuda-12.4-ubuntu-22.04\"]\ntoolkits = { cuda = [\"13.0\"] }",
            "ci.image-version",
        ),
        ("backends = [\"cuda\"]\ntoolkits = { cuda = [\"11.2\"] }", "toolkit."),
        ("backends = [\"cpu\"]\nimages = [\"ubuntu-18.04\"]", "ci.image-unknown"),
        // Neither version is the one in the container.
        (
            "backends = [\"cuda\"]\nimages = [\"cuda-12.4-ubuntu-22.04\"]\ntoolkits = { cuda = [\"12.8\", \"13.0\"] }",
            "ci.image-version",
        ),
    ] {
        let sandbox = project(&format!(
            "\n[[variants]]\nname = \"x\"\n{lines}\n[[variants]]\nname = \"cpu\"\nbackends = [\"cpu\"]\n"
        ));
        let ran = sandbox.run(&["ci", "matrix", "--format", "github"]);
        assert_eq!(ran.exit, Some(2), "{lines}: {ran:#?}");
        let error = ran.json();
        assert_eq!(error["error"]["id"], "ci.impossible");
        assert!(error["error"]["message"].as_str().unwrap().contains(id), "{lines}: {error:#}");
        let rows = document(&sandbox.run(&["ci", "matrix", "--json", "--allow-missing"]));
        assert!(names(&rows).iter().all(|name| name.starts_with("cpu-")), "{rows:#}");
        assert!(!rows["dropped"].as_array().unwrap().is_empty());
    }
}

#[test]
fn duplicate_job_names_are_rejected() {
    let table = |images: &str, versions: &str| {
        let lines = format!(
            "\n[[variants]]\nname = \"cuda\"\nbackends = [\"cpu\", \"cuda\"]\nimages = [{images}]\ntoolkits = {{ cuda = [{versions}] }}\n"
        );
        project(&lines).run(&["ci", "matrix", "--json"])
    };
    let twice = table("\"ubuntu-24.04\", \"ubuntu-24.04\"", "\"13.0\"");
    assert_eq!(twice.exit, Some(2));
    assert!(twice.json()["error"]["message"].as_str().unwrap().contains("[ci.same-name]"), "{twice:#?}");
    for images in ["\"ubuntu-24.04\", \"ubuntu-24.04\"", "\"nowhere\", \"nowhere\", \"nowhere\""] {
        let twice = table(images, "\"13.0\"").json();
        let message = twice["error"]["message"].as_str().unwrap();
        let mut lines: Vec<&str> = message.lines().collect();
        let count = lines.len();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), count, "a line is repeated: {message}");
        assert!(message.contains("the image is listed twice"), "{message}");
    }
    let rows =
        document(&table("\"cuda-12.4-ubuntu-22.04\", \"cuda-13.0-ubuntu-24.04\"", "\"12.4\", \"13.0\""));
    assert_eq!(names(&rows), ["cuda12.4-cuda-12.4-ubuntu-22.04", "cuda13.0-cuda-13.0-ubuntu-24.04"]);
}

#[test]
fn invalid_variants_are_reported_by_name() {
    for (lines, text) in [
        ("[[variants]]\nname = \"Big Name\"\nbackends = [\"cpu\"]", "`variants.name` is `Big Name`"),
        (
            "[[variants]]\nname = \"a\"\nbackends = [\"cpu\"]\n[[variants]]\nname = \"a\"\nbackends = [\"cpu\"]",
            "two variants",
        ),
        ("[[variants]]\nname = \"a\"\nbackends = []", "has no backends"),
        (
            "[[variants]]\nname = \"a\"\nbackends = [\"cpu\"]\narchs = { cuda = \"80\" }",
            "which is not one of its backends",
        ),
        (
            "[[variants]]\nname = \"a\"\nbackends = [\"cuda\"]\ntoolkits = { cuda = [\"new\"] }",
            "is not a version",
        ),
        ("[[variants]]\nname = \"a\"\nbackends = [\"gpu\"]", "gpu"),
        ("[[variants]]\nname = \"a\"\nbackends = [\"cpu\"]\nimage = \"x\"", "unknown field `image`"),
    ] {
        let ran = project(&format!("\n{lines}\n")).run(&["ci", "matrix"]);
        assert_eq!(ran.exit, Some(2), "{ran:#?}");
        assert!(ran.stderr.contains(text), "{lines}: {}", ran.stderr);
    }
}

#[test]
fn github_matrix_is_one_line_of_scalars() {
    let ran = project(TWO).run(&["ci", "matrix", "--format", "github"]);
    assert_eq!(ran.stdout.lines().count(), 1);
    let matrix = document(&ran);
    let include = matrix["include"].as_array().unwrap();
    assert_eq!(include.len(), 6);
    for row in include {
        assert!(row.as_object().unwrap().values().all(|value| value.is_string() || value.is_u64()), "{row}");
        assert!(!row["os"].as_str().unwrap().is_empty());
    }
}

#[test]
fn jobs_beyond_the_service_limit_are_split() {
    let variant = |number| {
        format!("\n[[variants]]\nname = \"v{number}\"\nbackends = [\"cpu\"]\nimages = [\"ubuntu-24.04\"]\n")
    };
    let lines: Vec<String> = (0..300).map(variant).collect();
    let sandbox = project(&lines.concat());
    for (format, most) in [("github", 256), ("gitlab", 200)] {
        let ran = sandbox.run(&["ci", "matrix", "--format", format]);
        assert_eq!(ran.exit, Some(2));
        assert!(
            ran.stdout.contains("ci.too-many-jobs") || ran.stderr.contains("ci.too-many-jobs"),
            "{ran:#?}"
        );
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(&format!("the limit is {most}")));
    }
    let part = |part: &str| document(&sandbox.run(&["ci", "matrix", "--format", "github", "--part", part]));
    let (first, second) = (part("1/2"), part("2/2"));
    let all: Vec<&str> = names(&first).into_iter().chain(names(&second)).collect();
    assert_eq!(all.len(), 300);
    assert_eq!((all[0], all[299]), ("v0-ubuntu-24.04", "v299-ubuntu-24.04"));
    // GitLab's file splits the jobs automatically.
    assert_eq!(sandbox.run(&["ci", "init", "--format", "gitlab"]).exit, Some(0));
    let file = sandbox.read(".gitlab/gpubuild.yml");
    assert!(
        file.contains("\ngpubuild-1:\n") && file.contains("\ngpubuild-2:\n") && !file.contains("gpubuild-3:")
    );
    assert_eq!(sandbox.run(&["ci", "init"]).exit, Some(2));
}

#[test]
fn ci_init_output_passes_verify_and_doctor() {
    for (service, file) in [("github", ".github/workflows/gpubuild.yml"), ("gitlab", ".gitlab/gpubuild.yml")]
    {
        let sandbox = project(&format!("{TWO}\n[ci]\ninstall = \"cargo install --path .\"\n"));
        assert_eq!(sandbox.run(&["ci", "verify"]).exit, Some(2));
        assert_eq!(sandbox.run(&["ci", "verify", "--format", service]).exit, Some(2));
        assert_eq!(sandbox.run(&["ci", "init", "--format", service]).exit, Some(0));
        assert_eq!(sandbox.run(&["ci", "verify"]).exit, Some(0));
        let text = sandbox.read(file);
        assert!(
            text.contains("cargo install --path .") && !text.contains('@') || service == "github",
            "{text}"
        );
        assert!(
            !text.contains("@install@") && !text.contains("@gpubuild@") && !text.contains("@jobs@"),
            "{text}"
        );
        let events: Result<Vec<_>, _> = saphyr_parser::Parser::new_from_str(&text).collect();
        assert!(events.unwrap().len() > 50, "{text}");
        // Changes of the workflow file and of the project are detected.
        sandbox.write(file, &text.replace("cargo install", "cargo  install"));
        let ran = sandbox.run(&["ci", "verify"]);
        assert_eq!(ran.exit, Some(1), "{ran:#?}");
        assert!(ran.stderr.contains("ci.drift") && ran.stderr.contains("cargo  install"), "{}", ran.stderr);
        assert_eq!(sandbox.run(&["ci", "init", "--format", service]).exit, Some(0));
        assert_eq!(sandbox.read(file), text);
        if service == "gitlab" {
            let toml = sandbox.read("gpubuild.toml");
            sandbox.write("gpubuild.toml", &toml.replace("\"ubuntu-22.04\"", "\"ubuntu-24.04\""));
            assert_eq!(sandbox.run(&["ci", "verify"]).exit, Some(1));
        } else {
            let ran = sandbox.run(&["doctor", "--file", file]);
            assert_eq!(ran.exit, Some(0), "{ran:#?}");
        }
    }
}

#[test]
fn workflow_packs_tags_only_if_a_row_packs() {
    for (service, file, tag) in [
        ("github", ".github/workflows/gpubuild.yml", "tags: [\"v*\"]"),
        ("gitlab", ".gitlab/gpubuild.yml", "if: $CI_COMMIT_TAG\n"),
    ] {
        let sandbox = project(TWO);
        assert_eq!(sandbox.run(&["ci", "init", "--format", service]).exit, Some(0));
        let without = sandbox.read(file);
        let toml = sandbox.read("gpubuild.toml");
        sandbox.write("gpubuild.toml", &format!("{toml}\n[binary]\npackage = \"app\"\n"));
        let ran = sandbox.run(&["ci", "verify"]);
        assert_eq!(ran.exit, Some(1), "adding a program changes the file: {ran:#?}");
        assert_eq!(sandbox.run(&["ci", "init", "--format", service]).exit, Some(0));
        assert_eq!(sandbox.run(&["ci", "verify"]).exit, Some(0));
        let with = sandbox.read(file);
        for part in [tag, "--pack", "GPUBUILD_SIGN", "packed/*", " pack --out release "] {
            assert!(with.contains(part), "{part}: {with}");
            assert!(!without.contains(part), "{part}: {without}");
        }
        for text in [&with, &without] {
            assert!(!text.contains("@pack@") && !text.contains("@else@"), "{text}");
            assert_eq!(text.matches(" ci run \"$ROW\"").count(), 1, "{text}");
            let events: Result<Vec<_>, _> = saphyr_parser::Parser::new_from_str(text).collect();
            assert!(events.is_ok(), "{text}");
        }
        if service == "github" {
            assert_eq!(sandbox.run(&["doctor", "--file", file]).exit, Some(0));
        }
    }
}

#[test]
fn foreign_files_are_not_replaced() {
    let sandbox = project(TWO);
    let file = ".github/workflows/gpubuild.yml";
    sandbox.write(file, "name: mine\n");
    let ran = sandbox.run(&["ci", "init"]);
    assert_eq!(ran.exit, Some(2));
    assert!(ran.stderr.contains("ci.not-ours"), "{}", ran.stderr);
    assert_eq!(sandbox.read(file), "name: mine\n");
    assert_eq!(sandbox.run(&["ci", "init", "--force"]).exit, Some(0));
    assert!(sandbox.read(file).contains("fromJSON"));
}

#[test]
fn large_files_are_not_replaced_or_compared() {
    let sandbox = project(TWO);
    let file = ".github/workflows/gpubuild.yml";
    sandbox.write(file, &"\n".repeat((4 << 20) + 1));
    let too_large = "gpubuild.yml`: it is larger than 4 MiB";
    sandbox.run(&["ci", "verify"]).fails(2, "ci.missing").says(&[too_large]);
    sandbox.run(&["ci", "init"]).fails(2, "ci.not-ours").says(&[too_large]);
    sandbox.write(file, &"\n".repeat(4 << 20));
    sandbox.run(&["ci", "verify"]).fails(1, "ci.drift").says(&["it has 4194304 lines instead of "]);
    assert_eq!(sandbox.run(&["ci", "init", "--force"]).exit, Some(0));
}

#[test]
fn ci_run_shows_commands_and_rejects_other_platforms() {
    let sandbox = project(TWO);
    let ran = sandbox.run(&["ci", "run", "cuda13.0-ubuntu-24.04", "--dry-run"]);
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    assert_eq!(
        ran.stdout.lines().collect::<Vec<_>>(),
        [
            "gpubuild ci preflight --variant cuda --toolkit cuda=13.0 --provision",
            "gpubuild build --variant cuda --toolkit cuda=13.0 --provision",
            "gpubuild test --backends cpu",
        ]
    );
    let ran = sandbox.run(&["ci", "run", "cuda13.0-ubuntu-24.04", "--dry-run", "--pack"]);
    ran.fails(2, "ci.no-pack").says(&["gpubuild.toml defines no program"]);
    let packed = project(PACKED);
    let ran = packed.run(&["ci", "run", "cpu-ubuntu-24.04", "--dry-run", "--pack"]);
    assert_eq!(
        ran.stdout.lines().last(),
        Some("gpubuild pack --variant cpu --label cpu --out release"),
        "{ran:#?}"
    );
    let ran = packed.run(&["ci", "run", "cpu-ubuntu-24.04", "--dry-run"]);
    assert!(!ran.stdout.contains("gpubuild pack"), "{ran:#?}");
    let ran = packed.run(&["ci", "run", "cpu-ubuntu-22.04", "--dry-run", "--pack"]);
    ran.fails(2, "ci.no-pack").says(&["`cpu-ubuntu-24.04` packs variant `cpu` for linux-x86_64"]);
    let ran = packed.run(&["ci", "run", "gpu-cuda13.0-ubuntu-24.04", "--dry-run", "--pack"]);
    ran.fails(2, "ci.no-pack").says(&["`gpu-cuda13.0` is not a valid label"]);
    let other = if cfg!(windows) { "cpu-ubuntu-22.04" } else { "cpu-windows-2022" };
    let ran = sandbox.run(&["ci", "run", other]);
    assert_eq!(ran.exit, Some(2));
    assert!(ran.stderr.contains("ci.other-platform"), "{}", ran.stderr);
    let ran = sandbox.run(&["ci", "run", "nothing"]);
    assert_eq!(ran.exit, Some(2));
    assert!(
        ran.stderr.contains("ci.unknown-job") && ran.stderr.contains("cpu-ubuntu-22.04"),
        "{}",
        ran.stderr
    );
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn ci_run_executes_a_row_and_reports_its_failure() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    let file = sandbox.read("gpubuild.toml");
    let lines = "\n[[variants]]\nname = \"cpu\"\nbackends = [\"cpu\"]\nimages = [\"debian-12\"]\n";
    sandbox.write("gpubuild.toml", &format!("{file}{lines}"));
    let ran = sandbox.run(&["ci", "run", "cpu-debian-12"]);
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    assert!(
        ran.stderr.contains("$ gpubuild build --variant cpu") && ran.stderr.contains("succeeded"),
        "{ran:#?}"
    );
    assert!(sandbox.exists(".gpubuild/adder/manifest.json"));
    sandbox.write("vendor/adder.c", "this is not C;\n");
    let ran = sandbox.run(&["ci", "run", "cpu-debian-12"]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    assert!(ran.stderr.contains("ci.job-failed"), "{}", ran.stderr);
}

#[test]
fn preflight_predicts_planner_errors_and_ignores_unknowns() {
    let sandbox = project("");
    let check = |host: &str, backends: &str| {
        let host = recorded(host);
        sandbox.run(&["ci", "preflight", "--json", "--host", &host, "--backends", backends])
    };
    let bad = check("doctor/cuda.host.gcc-too-new", "cuda");
    assert_eq!(bad.exit, Some(1), "{bad:#?}");
    assert_eq!(bad.json()["checks"][0]["id"], "cuda.host.gcc-too-new");
    assert_eq!(bad.json()["checks"][0]["outlook"], "bad");
    let good = document(&check("doctor/healthy-ubuntu-22.04-rtx4090", "cpu,cuda"));
    let outlooks: Vec<&str> =
        good["checks"].as_array().unwrap().iter().map(|one| one["outlook"].as_str().unwrap()).collect();
    // A recording does not include free disk space: that is unknown and does not stop the job.
    assert_eq!(outlooks, ["good", "unknown", "good"]);
}

#[cfg(unix)]
#[test]
fn workflow_file_is_not_written_through_a_linked_folder() {
    let sandbox = project("");
    let outside = tempfile::tempdir().unwrap();
    let link = sandbox.path(".github");
    std::os::unix::fs::symlink(outside.path(), &link).unwrap();
    let ran = sandbox.run(&["ci", "init", "--force"]);
    ran.fails(1, "file.link-refused").says(&["hint:", link.to_str().unwrap()]);
    assert!(!sandbox.exists(".github/workflows"), "the folder outside is unchanged");
}
