//! The doctor command: modes, exit codes, and output files.

use serde_json::{Value, json};

use crate::support::{RunResult, Sandbox, is_on_path, recorded, skip};

fn ids(document: &Value) -> Vec<&str> {
    document["findings"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

#[test]
fn faulty_host_exits_with_1_and_lists_the_cause_first() {
    let sandbox = Sandbox::new();
    let host = recorded("ubuntu-24.04-nouveau");
    let ran = sandbox.run(&["doctor", "--json", "--host", &host]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    let document = ran.json();
    assert_eq!(document["schema"], json!({"name": "doctor", "version": 1}));
    assert_eq!(document["findings"][0]["id"], "nv.driver.nouveau", "{document:#}");
    assert_eq!(document["findings"][0]["severity"], "error");
    assert!(document["summary"]["errors"].as_u64().unwrap() >= 1);
    assert_eq!(sandbox.run(&["doctor", "--host", &host, "--fail-on", "never"]).exit, Some(0));
}

#[test]
fn only_and_skip_accept_ids_and_groups() {
    let sandbox = Sandbox::new();
    let host = recorded("ubuntu-24.04-nouveau");
    let run = |more: &[&str]| {
        let mut all = vec!["doctor", "--json", "--host", host.as_str()];
        all.extend(more);
        sandbox.run(&all)
    };
    assert_eq!(ids(&run(&["--only", "nv.driver.nouveau"]).json()), ["nv.driver.nouveau"]);
    assert!(ids(&run(&["--only", "nv.*"]).json()).iter().all(|id| id.starts_with("nv.")));
    assert!(!ids(&run(&["--skip", "nv.*"]).json()).iter().any(|id| id.starts_with("nv.")));
    let unknown = run(&["--only", "nv.nonsense"]);
    assert_eq!(unknown.exit, Some(2));
    assert!(unknown.stderr.contains("doctor.check-unknown"), "{}", unknown.stderr);
}

#[test]
fn diff_lists_causes_before_consequences() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("last.json").display().to_string();
    let keep = format!("--save={file}");
    let before = recorded("ubuntu-22.04-rtx4090");
    assert_eq!(sandbox.run(&["doctor", "--host", &before, &keep]).exit, Some(0));
    let same = sandbox.run(&["doctor", "--json", "--host", &before, "--diff", &file]).json();
    assert_eq!(same["changes"], json!([]));
    let after = recorded("ubuntu-24.04-nouveau");
    let changed = sandbox.run(&["doctor", "--json", "--host", &after, "--diff", &file]).json();
    let names: Vec<&str> =
        changed["changes"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.starts_with(&["driver.nouveau", "driver.nvidia", "system.cpu"]), "{names:?}");
    assert!(names.contains(&"chosen.cuda") && names.contains(&"finding.nv.driver.nouveau"), "{names:?}");
    sandbox.write("last.json", "{\"schema\": \"gpubuild.snapshot/9\", \"taken\": 0, \"values\": {}}");
    let newer = sandbox.run(&["doctor", "--host", &after, "--diff", &file]);
    assert_eq!(newer.exit, Some(2));
    assert!(newer.stderr.contains("doctor.snapshot-invalid"), "{}", newer.stderr);
}

#[test]
fn failed_save_prints_one_document() {
    let sandbox = Sandbox::new();
    sandbox.write("file", "");
    let save = format!("--save={}", sandbox.path("file/last.json").display());
    let ran = sandbox.run(&["doctor", "--json", "--host", &recorded("ubuntu-22.04-rtx4090"), &save]);
    assert_eq!(ran.json()["error"]["id"], "doctor.snapshot-unwritable");
}

#[test]
fn report_replays_as_its_host() {
    let sandbox = Sandbox::new();
    for name in ["ubuntu-22.04-rx7900xtx", "wsl2-nvidia", "windows-11-rtx4070", "macos-15-m3"] {
        let host = recorded(name);
        let file = sandbox.path(&format!("{name}.md")).display().to_string();
        let made = sandbox.run(&["report", &file, "--host", &host]);
        assert_eq!(made.exit, Some(0), "{made:#?}");
        let direct = sandbox.run(&["doctor", "--json", "--host", &host]).json();
        let replayed = sandbox.run(&["doctor", "--json", "--host", &file]).json();
        assert_eq!(ids(&direct), ids(&replayed), "{name}");
        assert_eq!(direct["summary"], replayed["summary"], "{name}");
    }
}

#[test]
fn fix_and_validate_are_rejected_on_a_recording() {
    let sandbox = Sandbox::new();
    let host = recorded("ubuntu-22.04-rtx4090");
    for (flag, id) in [("--fix", "doctor.fix-recorded"), ("--validate", "doctor.validate-recorded")] {
        let ran = sandbox.run(&["doctor", flag, "--host", &host]);
        assert_eq!(ran.exit, Some(2), "{ran:#?}");
        assert!(ran.stderr.contains(id), "{}", ran.stderr);
    }
}

/// A program cannot change the variables of the shell that started it.
#[cfg(unix)]
#[test]
fn fixes_of_variables_are_printed_and_not_run() {
    let sandbox = Sandbox::new();
    let fix = |arguments: &[&str]| {
        let command = ["doctor", "--only", "vk.sdk-path-wrong", "--fix"];
        let output =
            sandbox.command().env("VULKAN_SDK", "/nonexistent").args(command).args(arguments).output();
        RunResult::from(output.unwrap())
    };
    // Nothing is run, so nothing has to be confirmed.
    for arguments in [&[] as &[&str], &["--yes"], &["--quiet"]] {
        let ran = fix(arguments);
        assert_eq!(ran.exit, Some(1), "{ran:#?}");
        assert!(!ran.stderr.contains("done;"), "{ran:#?}");
        if arguments != ["--quiet"] {
            ran.says(&["run there:\n  unset VULKAN_SDK\n", "nothing was run"]);
        }
    }
}

#[test]
fn validate_runs_a_program_on_the_cpu() {
    if !is_on_path("cc") {
        skip("cc", "no cc");
        return;
    }
    let sandbox = Sandbox::new();
    let document = sandbox.run(&["doctor", "--validate", "--backends", "cpu", "--json"]).json();
    let outcome = &document["validation"][0];
    assert_eq!((&outcome["backend"], &outcome["ok"]), (&json!("cpu"), &json!(true)), "{document:#}");
}

#[test]
fn explain_covers_backends_and_ids_and_suggests_near_names() {
    let sandbox = Sandbox::new();
    let host = recorded("ubuntu-22.04-rtx4090");
    let cuda = sandbox.run(&["explain", "cuda", "--json", "--host", &host]).json();
    let requirements = cuda["requirements"].as_array().unwrap();
    let toolkit = requirements.iter().find(|one| one["id"] == "toolkit").unwrap();
    assert_eq!(toolkit["met"], true);
    assert!(
        toolkit["here"][0].as_str().unwrap().starts_with("12.4.1 in /usr/local/cuda-12.4"),
        "{toolkit:#}"
    );
    for backend in ["cpu", "rocm", "hip", "vulkan", "metal", "sycl", "opencl"] {
        let text = sandbox.run(&["explain", backend, "--host", &host]);
        assert_eq!(text.exit, Some(0), "{text:#?}");
        let is_command = |line: &str| line.contains("sudo ") || line.starts_with("  install ");
        let short = |line: &str| line.chars().count() <= 100 || is_command(line);
        assert!(text.stdout.lines().all(short), "{}", text.stdout);
    }
    let finding = sandbox.run(&["explain", "cpu.compiler-missing"]);
    assert!(finding.stdout.contains("sudo apt install build-essential"), "{}", finding.stdout);
    let error = sandbox.run(&["explain", "cache.off"]);
    assert!(error.stdout.contains("GPUBUILD_STORE=on"), "{}", error.stdout);
    let document = sandbox.run(&["explain", "cache.off", "--json"]).json();
    assert_eq!(document["id"], "cache.off");
    assert!(document["fix"].as_str().unwrap().contains("GPUBUILD_STORE=on"), "{document:#}");
    let misspelt = sandbox.run(&["explain", "cuda.toolkit.mising"]);
    assert_eq!(misspelt.exit, Some(2));
    assert!(misspelt.stderr.contains("did you mean `cuda.toolkit.missing`?"), "{}", misspelt.stderr);
    let unknown = sandbox.run(&["explain", "probe."]);
    assert_eq!(unknown.exit, Some(2));
    assert!(unknown.stderr.contains("probe.crashed"), "{}", unknown.stderr);
}

#[test]
fn native_architecture_without_a_gpu_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("src/CMakeLists.txt", "project(x)\n");
    let project = |archs: &str| {
        format!(
            "schema = 1\n[project]\nname = \"x\"\nsource = \"src\"\nprofile = \"ggml\"\n[backends.cuda]\narchs = {archs}\n"
        )
    };
    let host = recorded("doctor/healthy-builder-cuda-12.4");
    let folder = sandbox.path("").display().to_string();
    let look = |archs: &str| {
        sandbox.write("gpubuild.toml", &project(archs));
        sandbox.run(&["doctor", "--json", "--host", &host, "--project", &folder])
    };
    let native = look("\"native\"");
    assert_eq!(native.exit, Some(1), "{native:#?}");
    let document = native.json();
    assert_eq!(ids(&document)[0], "cuda.arch.native-no-gpu");
    assert_eq!(document["arch_plan"][0]["blocked"], "cuda.arch.native-no-gpu");
    let newer = look("[\"80\", \"120\"]").json();
    assert_eq!(ids(&newer)[0], "cuda.arch.too-new-for-toolkit");
    let fine = look("[\"80\", \"90\"]").json();
    assert_eq!(fine["summary"]["errors"], 0, "{fine:#}");
    assert_eq!(fine["arch_plan"][0]["origin"], "gpubuild.toml");
    assert_eq!(fine["arch_plan"][0]["built"][1]["arch"], "90");
}

#[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
fn recording(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn self_check_lists_stale_table_rows() {
    let sandbox = Sandbox::new();
    let host = recorded("arch-cuda");
    let same = sandbox.run(&["doctor", "--self-check", "--host", &host]);
    assert_eq!(same.exit, Some(0), "{same:#?}");
    let text = recording(&host).replace("__GNUC__ > 14", "__GNUC__ > 13");
    sandbox.write("other.toml", &text);
    let other = sandbox.path("other.toml").display().to_string();
    let stale = sandbox.run(&["doctor", "--self-check", "--json", "--host", &other]);
    assert_eq!(stale.exit, Some(1), "{stale:#?}");
    let document = stale.json();
    assert_eq!(document["stale"], 1);
    assert_eq!(document["comparisons"][0]["installed"], "up to 13");
}

#[test]
fn packages_are_listed_for_every_gpu() {
    let sandbox = Sandbox::new();
    let run = |name: &str| {
        let ran = sandbox.run(&["doctor", "--packages", "--json", "--host", &recorded(name)]);
        assert_eq!(ran.exit, Some(0), "{ran:#?}");
        let document = ran.json();
        assert_eq!(document["schema"], json!({"name": "packages", "version": 1}));
        document
    };
    let amd = run("ubuntu-22.04-rx7900xtx");
    assert_eq!(amd["gpus"][0]["torch"]["index"], "https://download.pytorch.org/whl/rocm7.2");
    assert_eq!(amd["gpus"][0]["cupy"]["package"], "cupy-rocm-7-0");
    let old = run("doctor/rocm.gfx803");
    assert_eq!(old["gpus"][0]["torch"]["package"], Value::Null);
    assert!(old["gpus"][0]["cupy"]["beside"].as_str().unwrap().contains("only through Vulkan"));
    let text = sandbox.run(&["doctor", "--packages", "--host", &recorded("ubuntu-22.04-h200")]);
    assert!(text.stdout.contains("PyTorch  pip install torch --index-url"), "{}", text.stdout);
    assert_eq!(sandbox.run(&["doctor", "--packages", "--resolvers"]).exit, Some(2));
}

#[test]
fn html_report_includes_findings_timings_and_bench_plot() {
    let sandbox = Sandbox::new();
    let host = recorded("doctor/cuda.host.gcc-too-new");
    sandbox.write("bench.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>");
    sandbox.write("timings.html", "<p>how long it took</p>");
    let ran = sandbox.run(&[
        "report",
        "--html",
        "page.html",
        "--host",
        &host,
        "--timings",
        "timings.html",
        "--bench",
        "bench.svg",
    ]);
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    let page = sandbox.read("page.html");
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("<code>cuda.host.gcc-too-new</code>"),
        "{page}"
    );
    assert!(
        page.contains("srcdoc=\"&lt;p&gt;how long it took") && page.contains("data:image/svg+xml;base64,")
    );
    // Without the inputs the page is smaller but valid; a missing file is an error.
    assert_eq!(sandbox.run(&["report", "--html", "small.html", "--host", &host]).exit, Some(0));
    assert!(!sandbox.read("small.html").contains("<iframe"));
    let ran = sandbox.run(&["report", "--html", "page.html", "--host", &host, "--bench", "gone.svg"]);
    assert_eq!(ran.exit, Some(2));
    assert!(ran.stderr.contains("report.unreadable") && ran.stderr.contains("gone.svg"), "{}", ran.stderr);
    assert_eq!(sandbox.run(&["report", "--html"]).exit, Some(2));
}

#[test]
fn explain_lists_commands_that_work_here() {
    let sandbox = Sandbox::new();
    let install = |backend: &str, system: &str, uid: u32| -> Vec<String> {
        let text = format!(
            "schema = \"gpubuild.host/1\"\n[platform]\nos = \"linux\"\narch = \"x86_64\"\n[env]\nPATH = \"/usr/bin\"\n\
             [process]\nuid = {uid}\n[[file]]\npath = \"/etc/os-release\"\ntext = '''\n{system}'''\n"
        );
        sandbox.write("host.toml", &text);
        let document = sandbox.run(&["explain", backend, "--json", "--host", "host.toml"]).json();
        let steps = document["install"].as_array().unwrap();
        steps.iter().map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    let debian = "ID=debian\nVERSION_ID=\"12\"\n";
    // The compiler is in Intel's repository, and Debian 12 has no package of the GPU's Level Zero driver.
    let steps = install("sycl", debian, 1000);
    assert_eq!(steps.len(), 4, "{steps:#?}");
    assert!(steps[1].contains("oneapi.gpg") && steps[3].starts_with("sudo apt update && "), "{steps:#?}");
    assert!(!steps[0].contains("libze-intel-gpu1"), "{steps:#?}");
    for backend in ["cpu", "cuda", "vulkan", "sycl", "opencl", "rocm"] {
        let steps = install(backend, debian, 0);
        assert!(!steps.is_empty() && !steps.iter().any(|step| step.contains("sudo")), "{steps:#?}");
    }
    let steps = install("vulkan", "ID=fedora\nVERSION_ID=42\nVARIANT_ID=silverblue\n", 1000);
    assert!(!steps.iter().any(|step| step.starts_with("sudo dnf")), "{steps:#?}");
}
