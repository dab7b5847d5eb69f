//! Toolkits from the packages of a distribution.

use std::path::PathBuf;
use std::process::Command;

use crate::kill::{Victim, temporary_names};
use crate::repository::{Repository, link};
use crate::sandbox::{RunResult, Sandbox, on_path, requires, skip};

#[test]
fn packages_become_a_prefix_that_can_be_moved() {
    let Some(repository) = Repository::new() else { return };
    // The lists are empty, as in a container: gpubuild fills its own.
    repository.install(&[]).succeeds().says(&["vulkan 1.3.999.0 is installed"]);
    let content = |name: &str| std::fs::read_to_string(repository.prefix(name)).unwrap();
    assert!(content("lib/{triplet}/pkgconfig/vulkan.pc").starts_with("prefix=${pcfiledir}/../../..\n"));
    assert_eq!(content("lib/udev/rules"), "rule");
    assert_eq!(content("share/doc/spirv-headers/copyright"), "licence");
    assert_eq!(link(&repository.prefix("lib/{triplet}/libvulkan.so")), "libvulkan.so.1");
    let absolute = link(&repository.prefix("lib/{triplet}/libabsolute.so"));
    assert!(absolute.starts_with("../../lib/") && absolute.ends_with("/libvulkan.so.1"), "{absolute}");
    // Its target is a file of the system.
    assert_eq!(link(&repository.prefix("include/passwd")), "/etc/passwd");
    for absent in ["lib/evil", "share/man", "lib/{triplet}/libdangling.so"] {
        assert!(repository.prefix(absent).symlink_metadata().is_err(), "{absent}");
    }
    let list = repository.run(&["toolkit", "list", "--json"]).json();
    let names: Vec<&str> = list["installed"][0]["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["glslc", "libshaderc1", "libvulkan-dev", "libvulkan1", "spirv-headers"]);
    assert_eq!(
        list["packages"].as_array().unwrap().iter().find(|one| one["toolkit"] == "vulkan").unwrap()["available"],
        true
    );

    let moved = repository.path("moved");
    std::fs::rename(repository.path("cache/toolkits/vulkan-1.3.999.0"), &moved).unwrap();
    let glslc = Command::new(moved.join("prefix/bin/glslc")).arg("x").output().unwrap();
    assert_eq!(String::from_utf8(glslc.stdout).unwrap(), "shaderc x\n");
}

#[test]
fn an_installation_is_found_verified_and_removed() {
    let Some(repository) = Repository::new() else { return };
    repository.update();
    repository.install(&[]).succeeds();
    // Without apt and dpkg, because an installed toolkit needs neither.
    let mut again = repository.command(&["toolkit", "install", "vulkan"]);
    RunResult::from(again.env("PATH", "/nonexistent").output().unwrap())
        .succeeds()
        .says(&["is already installed"]);
    let detect = repository.run(&["detect", "--backends", "vulkan", "--json"]).json();
    let build = &detect["backends"][0]["build"];
    assert_eq!(build["toolkits"][0]["found_via"], serde_json::json!(["gpubuild"]), "{build:#}");
    assert_eq!(
        (build["toolkits"][0]["version"].as_str(), build["toolkits"][0]["chosen"].as_bool()),
        (Some("1.3.999"), Some(true))
    );
    let env = repository.run(&["toolkit", "env", "vulkan"]);
    assert!(env.succeeds().stdout.contains("export VULKAN_SDK="), "{env:#?}");
    // It is the only toolkit, so its name may be left out.
    assert_eq!(repository.run(&["toolkit", "env"]).succeeds().stdout, env.stdout);
    repository.run(&["toolkit", "verify"]).succeeds();
    std::fs::write(repository.prefix("include/vulkan/vulkan.h"), "changed").unwrap();
    std::fs::remove_file(repository.prefix("lib/{triplet}/libvulkan.so")).unwrap();
    let verify = repository.run(&["toolkit", "verify", "vulkan"]);
    assert_eq!(verify.exit, Some(1));
    for id in ["toolkit.file-changed", "toolkit.link-wrong"] {
        assert!(verify.stdout.contains(id), "{verify:#?}");
    }
    repository.run(&["toolkit", "remove", "vulkan"]).succeeds();
    repository.run(&["toolkit", "env"]).fails(2, "toolkit.not-installed").says(&["gpubuild toolkit list"]);
    repository.holds_nothing();
}

#[test]
fn a_package_that_differs_from_the_list_is_rejected() {
    let Some(repository) = Repository::new() else { return };
    repository.update();
    let file = std::fs::read_dir(repository.path("repo")).unwrap().map(|one| one.unwrap().path());
    let file = file.into_iter().find(|path| path.display().to_string().contains("/glslc_")).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 600;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    repository.install(&[]).fails(1, "toolkit.package-changed").says(&["Hash Sum mismatch"]);
    repository.holds_nothing();
}

#[test]
fn packages_that_the_release_lacks_are_named() {
    let Some(repository) = Repository::new() else { return };
    repository.remove("glslc");
    repository.install(&[]).fails(1, "toolkit.package-missing").says(&["Unable to locate package glslc"]);
    repository.holds_nothing();
}

#[test]
fn dependencies_that_cannot_be_resolved_are_named() {
    let Some(repository) = Repository::new() else { return };
    repository.remove("libshaderc1");
    repository.update();
    repository.install(&[]).fails(1, "toolkit.package-conflict").says(&["glslc : Depends: libshaderc1"]);
    repository.holds_nothing();
}

#[test]
fn offline_uses_only_packages_with_the_right_hash() {
    let Some(repository) = Repository::new() else { return };
    repository.update();
    repository.install(&["--offline"]).fails(1, "fetch.offline").says(&["glslc_2023.2-1_"]);
    std::fs::rename(repository.path("repo"), repository.path("mirror")).unwrap();
    let glslc = || -> PathBuf {
        let mut files = std::fs::read_dir(repository.path("mirror")).unwrap().map(|one| one.unwrap().path());
        files.find(|path| path.display().to_string().contains("/glslc_")).unwrap()
    };
    let good = std::fs::read(glslc()).unwrap();
    std::fs::write(glslc(), b"another package").unwrap();
    repository
        .install(&["--offline", "--find-links", "mirror"])
        .fails(1, "fetch.offline")
        .says(&["offline: glslc_"]);
    std::fs::write(glslc(), good).unwrap();
    repository.install(&["--offline", "--find-links", "mirror"]).succeeds();
    repository.run(&["toolkit", "verify"]).succeeds();
}

#[test]
fn missing_programs_are_named() {
    let Some(repository) = Repository::new() else { return };
    let bin = repository.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(on_path("apt-get").unwrap(), bin.join("apt-get")).unwrap();
    let mut install = repository.command(&["toolkit", "install", "vulkan"]);
    RunResult::from(install.env("PATH", &bin).output().unwrap())
        .fails(2, "toolkit.tool-missing")
        .says(&["`dpkg-deb` was not found", "the package `dpkg`"]);
}

#[test]
fn killed_installations_leave_nothing_partial() {
    let Some(repository) = Repository::new() else { return };
    repository.update();
    let folders: Vec<PathBuf> = vec![repository.path("cache")];
    let install = || repository.command(&["toolkit", "install", "vulkan"]);
    let mut victim = Victim::new(23, folders.clone(), &mut install());
    let mut round = 0;
    while victim.needs_more(3, round) {
        round += 1;
        repository.run(&["toolkit", "remove", "vulkan"]).succeeds();
        victim.kill(&mut install());
        if repository.path("cache/toolkits/vulkan-1.3.999.0").exists() {
            repository.run(&["toolkit", "verify"]).succeeds();
        } else {
            repository.holds_nothing();
        }
        RunResult::from(install().output().unwrap()).succeeds();
        repository.run(&["toolkit", "verify"]).succeeds();
        assert_eq!(temporary_names(&folders), Vec::<PathBuf>::new(), "round {round}");
    }
}

#[test]
fn hosts_without_a_set_are_refused_with_another_way() {
    let Some(sandbox) = Sandbox::new() else { return };
    let on = |os: &str, release: &str, toolkit: &str| {
        let text = format!(
            "schema = \"gpubuild.host/1\"\n[platform]\nos = \"{os}\"\narch = \"x86_64\"\n[env]\nHOME = \"/home/u\"\n"
        );
        let file = format!("[[file]]\npath = \"/etc/os-release\"\ntext = '''{release}'''\n");
        let text = if os == "windows" { text } else { text + &file };
        sandbox.write("machine.toml", &text);
        sandbox.run(&["toolkit", "install", toolkit, "--dry-run", "--host", "machine.toml"])
    };
    let id = "toolkit.no-packages-here";
    on("linux", "ID=arch\n", "vulkan").fails(2, id).says(&["debian, ubuntu, fedora only", "sudo pacman -S"]);
    on("linux", "ID=ubuntu\nVERSION_ID=\"22.04\"\n", "vulkan")
        .fails(2, id)
        .says(&["no glslc package", "Ubuntu 24.04"]);
    on("linux", "ID=debian\nVERSION_ID=11\n", "vulkan").fails(2, id).says(&["debian 12 or newer"]);
    on("linux", "ID=ubuntu\nVERSION_ID=\"25.10\"\n", "rocm").fails(2, id).says(&[
        "its hipcc is 7.0",
        "install ROCm from AMD's repository",
        "`gpubuild toolkit lock rocm@7.14`",
    ]);
    on("windows", "", "opencl").fails(2, id).says(&["packages of debian, ubuntu, fedora only"]);
    let preview = on("linux", "ID=fedora\nVERSION_ID=41\n", "vulkan");
    assert!(preview.succeeds().stdout.contains("glslc"), "{preview:#?}");
    let usage = |arguments: &[&str]| sandbox.run(&[&["toolkit", "install"], arguments].concat());
    for toolkit in ["vulkan", "cuda@13.0"] {
        usage(&[toolkit, "--from", "mirror", "--dry-run"])
            .fails(2, "usage.conflict")
            .says(&["`--find-links`"]);
    }
    usage(&["cuda", "--cuda-archs", "foo", "--dry-run"]).fails(2, "cuda.arch.invalid");
    if Repository::new().is_some() {
        usage(&["vulkan@1.3"]).fails(2, "toolkit.unknown-release").says(&["the distribution determines"]);
        usage(&["vulkan", "--with", "mesa"]).fails(2, "toolkit.unknown-component");
    }
}

/// The distribution's own packages: 3.4 MiB.
#[test]
fn the_distributions_own_packages_compile_shaders() {
    if !requires("network") {
        skip("network", "GPUBUILD_REQUIRE does not name network");
        return;
    }
    let Some(repository) = Repository::new() else { return };
    let run = |arguments: &[&str]| {
        let mut command = repository.command(arguments);
        RunResult::from(command.env_remove("APT_CONFIG").output().unwrap())
    };
    run(&["toolkit", "install", "vulkan"]).succeeds();
    run(&["toolkit", "verify"]).succeeds();
    let installed = run(&["toolkit", "list", "--json"]).json();
    let root = PathBuf::from(installed["installed"][0]["root"].as_str().unwrap());
    let moved = repository.path("moved prefix");
    std::fs::rename(root, &moved).unwrap();
    let shader = repository.path("a.comp");
    std::fs::write(&shader, "#version 450\nvoid main() {}\n").unwrap();
    let glslc = Command::new(moved.join("bin/glslc"))
        .arg(&shader)
        .arg("-o")
        .arg(repository.path("a.spv"))
        .output()
        .unwrap();
    assert!(glslc.status.success(), "{glslc:?}");
    assert_eq!(std::fs::read(repository.path("a.spv")).unwrap()[..4], [3, 2, 0x23, 7]);
}
