//! `gpubuild.build`, the build backend for pyproject.toml: pip builds and installs a project with it.
#![cfg(target_os = "linux")]

use std::path::Path;

use crate::pack_wheel::{ADD_ONE, project, with_cuda};
use crate::support::{RunResult, Sandbox, is_on_path, skip};

/// Runs an environment's Python with the backend and the command, as they are after `pip install gpubuild`.
fn python(project: &Sandbox, arguments: &[&str]) -> RunResult {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let command = Path::new(env!("CARGO_BIN_EXE_gpubuild")).parent().unwrap();
    let variables = format!(
        "export PATH={}:$PATH PYTHONPATH={} PYTHONDONTWRITEBYTECODE=1",
        command.display(),
        root.join("python").display()
    );
    let script = format!("{variables}; exec venv/bin/python \"$@\"");
    project.start(&[&["sh", "-c", &script, "python"], arguments].concat())
}

/// Installs without a network and without the backend's own wheel.
fn pip_install(project: &Sandbox, arguments: &[&str]) -> RunResult {
    let pip = ["-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation"];
    let settings = ["--config-settings", "backends=cpu", "--config-settings", "offline=true"];
    python(project, &[&pip[..], &settings, arguments].concat())
}

fn package() -> Option<Sandbox> {
    if !is_on_path("python3") {
        skip("python", "no python3");
        return None;
    }
    let project = project(ADD_ONE, "")?;
    if project.start(&["python3", "-m", "venv", "venv"]).exit != Some(0) {
        skip("pip", "python3 -m venv fails");
        return None;
    }
    Some(project)
}

const USE: &str = "import adder; print(adder.add(41), adder.__file__)";

#[test]
fn pip_builds_a_source_distribution_and_an_editable_installation() {
    let Some(project) = package() else { return };
    let ran = python(&project, &["-c", "import gpubuild.build as b; print(b.build_sdist('dist'))"]);
    assert_eq!(ran.succeeds().stdout, "my_adder-1.0.tar.gz\n");
    let archive = "dist/my_adder-1.0.tar.gz";
    let listed = project.start(&["tar", "tzf", archive]).succeeds().stdout.clone();
    let mut files: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix("my_adder-1.0/")).collect();
    files.sort_unstable();
    let expected = [
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "gpubuild.toml",
        "pyproject.toml",
        "python/adder/__init__.py",
        "python/adder/py.typed",
        "vendor/CMakeLists.txt",
        "vendor/adder.c",
    ];
    assert_eq!(files, expected);
    pip_install(&project, &[archive]).succeeds();
    let ran = python(&project, &["-c", USE]);
    let (sum, file) = ran.succeeds().stdout.split_once(' ').unwrap();
    assert!(sum == "42" && file.contains("site-packages"), "{ran:?}");

    pip_install(&project, &["--force-reinstall", "--editable", "."]).succeeds();
    let own = project.path("python/adder/__init__.py");
    let ran = python(&project, &["-c", USE]);
    assert_eq!(ran.succeeds().stdout, format!("42 {}\n", own.canonicalize().unwrap().display()));
    project.write("python/adder/__init__.py", "def add(x):\n    return 'edited'\n");
    assert!(python(&project, &["-c", USE]).succeeds().stdout.starts_with("edited "));
}

/// An isolated build has its wheels in a folder with a random name. It is passed on only if CMake may find a package in it.
#[test]
fn folders_of_wheels_without_cmake_packages_do_not_change_the_build() {
    let Some(project) = package() else { return };
    let ask = "import gpubuild.build as b; print(b._environment().get('CMAKE_PREFIX_PATH'))";
    assert_eq!(python(&project, &["-c", ask]).succeeds().stdout, "None\n");
    pip_install(&project, &["."]).succeeds();
    let packed = project.run(&["pack", "--format", "wheel", "--backends", "cpu", "--out", "dist"]);
    let built = &packed.succeeds().stderr;
    assert!(!built.contains("Building") && !built.contains("configuring"), "{built}");
    let site = "print(__import__('sysconfig').get_path('purelib'))";
    let site = python(&project, &["-c", site]).succeeds().stdout.trim().to_owned();
    for place in
        ["pybind11/share/cmake/pybind11/pybind11Config.cmake", "nanobind/cmake/nanobind-config.cmake"]
    {
        let file = format!("{site}/{place}");
        project.start(&["install", "-D", "/dev/null", &file]).succeeds();
        assert_eq!(python(&project, &["-c", ask]).succeeds().stdout, format!("{site}\n"));
        project.start(&["rm", &file]).succeeds();
    }
}

/// pip, build and uv name the folder of an isolated build differently each time. What was compiled before is still valid.
#[test]
fn isolated_builds_have_the_same_paths_each_time() {
    let Some(project) = package() else { return };
    let environment = |name: &str, version: &str| {
        let site = format!("{name}/lib/site-packages");
        project.write(&format!("{site}/pybind11/pybind11Config.cmake"), version);
        project.write(&format!("{site}/pybind11-1.dist-info/RECORD"), name);
        project.write(&format!("{site}/gpubuild/build.py"), "raise SystemExit(name)");
        let ask = format!(
            "import sys, gpubuild.build as b; sys.path.append('{}'); e = b._environment(); \
             print(*(e.get(n) for n in ('PYTHONPATH', 'CMAKE_PREFIX_PATH', 'GPUBUILD_SITE_PACKAGES')))",
            project.path(&site).display()
        );
        python(&project, &["-c", &ask]).succeeds().stdout.clone()
    };
    let first = environment("pip-build-env-1", "1");
    let prefix = first.split(' ').nth(1).unwrap();
    assert!(first.starts_with(prefix) && prefix.contains("build-requires"), "{first}");
    assert!(Path::new(prefix).join("pybind11/pybind11Config.cmake").is_file(), "{first}");
    assert!(!Path::new(prefix).join("gpubuild").exists(), "{first}");
    for name in ["pip-build-env-2", "build-env-3", "builds-v0/.tmp4"] {
        assert_eq!(environment(name, "1"), first);
    }
    assert_ne!(environment("pip-build-env-1", "2"), first);
    let own = environment("environment", "1");
    assert!(own.contains("/environment/lib/site-packages") && !own.contains("build-requires"), "{own}");
}

#[test]
fn unknown_settings_and_failed_builds_are_errors() {
    let Some(project) = package() else { return };
    let build = |settings: &str| {
        python(&project, &["-c", &format!("import gpubuild.build as b; b.build_wheel('dist', {settings})")])
    };
    build("{'backend': 'cpu'}").says(&["unknown setting 'backend'", "backends, cuda-archs"]);
    build("{'variant': 'a\\n::error::b'}").says(&["'a\\n::error::b' of `variant` contains a control"]);
    let ran = build("{'backends': 'cpu,nothing'}");
    assert_ne!(ran.exit, Some(0));
    ran.says(&["[backend.unknown]", "failed with exit code 2"]);
    assert!(!project.exists("dist"));
}

/// As nanobind's wheel has it, beside its Python files; and as a wheel that names its folder in an entry point.
#[test]
fn cmake_finds_the_packages_of_wheels() {
    let Some(project) = package() else { return };
    let call = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let site = project.start(&["venv/bin/python", "-c", call]).succeeds().stdout.trim().to_owned();
    for (file, text) in [
        ("plain/cmake/plain-config.cmake", "set(plain_VALUE 20)\n"),
        ("named/share/inner/lib/cmake/named/named-config.cmake", "set(named_VALUE 22)\n"),
        ("named/__init__.py", ""),
        ("named-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: named\nVersion: 1\n"),
        ("named-1.dist-info/entry_points.txt", "[cmake.prefix]\nany = named.share.inner\n"),
    ] {
        project.write(&format!("{site}/{file}"), text);
    }
    let script = project.read("vendor/CMakeLists.txt");
    let packages = "find_package(plain CONFIG REQUIRED)\nfind_package(named CONFIG REQUIRED)\n\
        target_compile_definitions(adder PRIVATE PLAIN=${plain_VALUE} NAMED=${named_VALUE})\n";
    project.write("vendor/CMakeLists.txt", &format!("{script}{packages}"));
    project.write("vendor/adder.c", "int add_one(int x) { return PLAIN + NAMED + x; }\n");
    pip_install(&project, &["."]).succeeds();
    let ran = python(&project, &["-c", "import adder; print(adder.add(0))"]);
    assert_eq!(ran.succeeds().stdout, "42\n");
}

/// Installers take requirements from pyproject.toml, unless it says that builds add to them.
#[test]
fn requirements_that_a_build_adds_are_declared_as_dynamic() {
    if !is_on_path("python3") {
        skip("python", "no python3");
        return;
    }
    let Some(project) = with_cuda() else { return };
    if project.start(&["python3", "-m", "venv", "--without-pip", "venv"]).exit != Some(0) {
        skip("python", "python3 -m venv fails");
        return;
    }
    let build = || {
        let call =
            "import gpubuild.build as b; b.build_wheel('dist', {'backends': 'cpu', 'offline': 'true'})";
        python(&project, &["-c", call])
    };
    build().succeeds().says(&["nvidia-cuda-runtime-cu12>=12.4,<13", "dynamic = [\"dependencies\"]"]);
    let metadata = project.read("pyproject.toml");
    let dynamic =
        metadata.replace("version = \"1.0\"\n", "version = \"1.0\"\ndynamic = [\"dependencies\"]\n");
    project.write("pyproject.toml", &dynamic);
    let ran = build();
    assert!(!ran.succeeds().stderr.contains("dynamic"), "{ran:?}");
    python(&project, &["-c", "import gpubuild.build as b; b.build_sdist('dist')"]).succeeds();
    let info = project.start(&["tar", "xzOf", "dist/my_adder-1.0.tar.gz", "my_adder-1.0/PKG-INFO"]);
    assert!(info.succeeds().stdout.contains("\nDynamic: Requires-Dist\n"), "{info:?}");
}

/// uv resolves and calls the backend itself. `--no-build-isolation` uses the backend of the environment, as it is not on an index.
#[test]
fn uv_builds_a_source_distribution_and_a_wheel() {
    if !is_on_path("uv") {
        skip("uv", "no uv");
        return;
    }
    let Some(project) = package() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let command = Path::new(env!("CARGO_BIN_EXE_gpubuild")).parent().unwrap();
    let call = format!(
        "export PATH={}:$PATH PYTHONPATH={} PYTHONDONTWRITEBYTECODE=1; exec uv build --no-build-isolation --offline --no-cache \
            --python venv/bin/python \"$@\"",
        command.display(),
        root.join("python").display()
    );
    let build = |arguments: &[&str]| project.start(&[&["sh", "-c", &call, "uv"], arguments].concat());
    let settings = ["--config-setting", "backends=cpu", "--config-setting", "offline=true"];
    build(&settings).succeeds();
    assert!(project.exists("dist/my_adder-1.0.tar.gz"));
    let listed = project.start(&["sh", "-c", "ls dist/*.whl"]);
    let wheel = listed.succeeds().stdout.trim().to_owned();
    assert!(wheel.starts_with("dist/my_adder-1.0-py3-none-manylinux"), "{wheel}");
    python(&project, &["-m", "pip", "install", "--no-index", "--no-deps", &wheel]).succeeds();
    let ran = python(&project, &["-c", USE]);
    let (sum, file) = ran.succeeds().stdout.split_once(' ').unwrap();
    assert!(sum == "42" && file.contains("site-packages"), "{ran:?}");
    let ran = build(&["--wheel", "--config-setting", "backend=cpu"]);
    assert!(!ran.is_success(), "{ran:?}");
    ran.says(&["unknown setting 'backend'"]);
}
