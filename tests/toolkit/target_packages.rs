//! Toolkits for another platform from the packages of a distribution.

use std::path::PathBuf;
use std::process::Command;

use crate::kill::{Victim, temporary_names};
use crate::repository::{Repository, link};
use crate::sandbox::{RunResult, requires, skip};

/// A repository with the packages of another platform, and Rust's name of the platform.
fn repository() -> Option<(Repository, String)> {
    let repository = Repository::new()?;
    let target = repository.add_target();
    Some((repository, target))
}

/// A path in the installation for a target; `{triplet}` is that of the target.
fn prefix(repository: &Repository, target: &str, name: &str) -> PathBuf {
    let folder = repository.path(&format!("cache/toolkits/{target}/vulkan-1.3.999.0/prefix"));
    folder.join(name.replace("{triplet}", &target.replace("-unknown", "")))
}

#[test]
fn libraries_are_of_the_target_and_programs_of_this_machine() {
    let Some((repository, target)) = repository() else { return };
    let installed = repository.install(&["--target", &target, "--json"]).succeeds().json();
    assert_eq!(installed["installed"]["target"], target.as_str());
    let path = |name: &str| prefix(&repository, &target, name);
    let content = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    assert_eq!(content("lib/{triplet}/libvulkan.so.1"), "loader of the target");
    assert_eq!(link(&path("lib/{triplet}/libvulkan.so")), "libvulkan.so.1");
    assert!(content("lib/{triplet}/pkgconfig/vulkan.pc").starts_with("prefix=${pcfiledir}/../../..\n"));
    // Neither the C library nor programs of dependencies are unpacked.
    for absent in ["lib/evil", "bin/helper"] {
        assert!(!path(absent).exists(), "{absent}");
    }
    let mut names: Vec<String> = Vec::new();
    for package in installed["installed"]["packages"].as_array().unwrap() {
        names.push(package["name"].as_str().unwrap().to_owned());
    }
    assert_eq!(names, ["glslc", "libshaderc1", "libvulkan-dev", "libvulkan1", "spirv-headers"]);
    // The compiler runs here, with its own library, and the installation can be moved.
    let moved = repository.path("moved");
    std::fs::rename(repository.path(&format!("cache/toolkits/{target}/vulkan-1.3.999.0")), &moved).unwrap();
    let glslc = Command::new(moved.join("prefix/bin/glslc")).arg("x").output().unwrap();
    assert_eq!(String::from_utf8(glslc.stdout).unwrap(), "shaderc x\n");
}

#[test]
fn installations_for_a_target_are_apart_from_those_of_this_machine() {
    let Some((repository, target)) = repository() else { return };
    let install = |more: &[&str]| repository.install(&[&["--target", &target, "--json"], more].concat());
    install(&[]).succeeds();
    // Without apt and dpkg, because an installed toolkit needs neither.
    let mut again = repository.command(&["toolkit", "install", "vulkan", "--target", &target, "--json"]);
    let again = RunResult::from(again.env("PATH", "/nonexistent").output().unwrap());
    assert_eq!(again.succeeds().json()["state"], "unchanged");
    repository.run(&["toolkit", "verify", "vulkan"]).fails(2, "toolkit.not-installed").says(&[&target]);
    let detected = repository.run(&["detect", "--backends", "vulkan", "--json"]).json().to_string();
    assert!(!detected.contains(&target), "{detected}");
    let list = repository.run(&["toolkit", "list", "--json"]).json();
    assert_eq!(list["installed"][0]["target"], target.as_str());
    let vulkan = list["packages"].as_array().unwrap().iter().find(|one| one["toolkit"] == "vulkan").unwrap();
    assert_eq!(vulkan["installed"], false, "{vulkan:#}");

    repository.install(&[]).succeeds();
    let verified = |more: &[&str]| {
        let verify = repository.run(&[&["toolkit", "verify", "--json"], more].concat());
        verify.succeeds().json()["toolkits"].as_array().unwrap().len()
    };
    assert_eq!((verified(&[]), verified(&["--target", &target]), verified(&["--target", "host"])), (2, 1, 1));
    let env = repository.run(&["toolkit", "env", "vulkan", "--target", &target]);
    let folder = prefix(&repository, &target, "lib/{triplet}/pkgconfig").display().to_string();
    assert!(env.succeeds().stdout.contains(&folder), "{env:#?}");

    std::fs::write(prefix(&repository, &target, "lib/{triplet}/libvulkan.so.1"), "changed").unwrap();
    let verify = repository.run(&["toolkit", "verify", "vulkan", "--target", &target]);
    assert_eq!((verify.exit, verify.stdout.contains("toolkit.file-changed")), (Some(1), true), "{verify:#?}");
    repository.run(&["toolkit", "remove", "vulkan", "--target", &target]).succeeds();
    assert!(!prefix(&repository, &target, "").exists());
    repository.run(&["toolkit", "verify", "vulkan"]).succeeds();
}

/// The planner finds the libraries of the target and the compiler of this machine, and Zig compiles.
#[test]
fn the_planner_passes_them_to_cmake() {
    let Some((repository, target)) = repository() else { return };
    write_project(&repository);
    let plan =
        |target: &str| repository.run(&["plan", "--json", "--backends", "cpu,vulkan", "--target", target]);
    // The toolkit of this machine does not help.
    repository.install(&[]).succeeds();
    let refused = plan(&target);
    assert_eq!(refused.exit, Some(2), "{refused:#?}");
    refused.says(&["cross.toolkit-missing", &format!("gpubuild toolkit install vulkan --target {target}")]);
    repository.install(&["--target", &target]).succeeds();
    for name in [target.clone(), format!("{target}.2.28")] {
        let plan = plan(&name).succeeds().json();
        assert_eq!(plan["target"]["compilers"], "zig", "{plan:#}");
        let cache = &plan["trees"][0]["cache"];
        let path = |name: &str| prefix(&repository, &target, name).canonicalize().unwrap();
        for (entry, expected) in [
            ("Vulkan_INCLUDE_DIR", path("include")),
            ("Vulkan_LIBRARY", prefix(&repository, &target, "lib/{triplet}/libvulkan.so")),
            ("Vulkan_GLSLC_EXECUTABLE", path("bin/glslc")),
            ("CMAKE_PREFIX_PATH", path("")),
        ] {
            let expected = expected.display().to_string();
            assert_eq!(cache[entry].as_str(), Some(expected.trim_end_matches('/')), "{entry}: {cache:#}");
        }
        // Zig's settings let CMake search below roots only.
        let roots = cache["CMAKE_FIND_ROOT_PATH"].as_str().unwrap();
        let prefix = cache["CMAKE_PREFIX_PATH"].as_str().unwrap();
        assert_eq!(roots.split(';').nth(1), Some(prefix), "{roots}");
    }
}

#[test]
fn packages_for_a_target_need_package_lists_for_it() {
    let Some((repository, target)) = repository() else { return };
    let offline = ["--target", &target, "--offline"];
    repository.install(&offline).fails(1, "fetch.offline").says(&["package lists", &target]);
    repository.install(&["--target", &target]).succeeds();
    repository.run(&["toolkit", "remove", "vulkan", "--target", &target]).succeeds();
    // Later calls use the lists of the first one.
    std::fs::rename(repository.path("repo"), repository.path("mirror")).unwrap();
    repository.install(&offline).fails(1, "fetch.offline").says(&["libvulkan-dev_1%3a1.3.999.0-1_"]);
    repository.install(&[&offline[..], &["--find-links", "mirror"]].concat()).succeeds();
    repository.run(&["toolkit", "verify"]).succeeds();
}

#[test]
fn packages_that_do_not_exist_for_a_target_are_named() {
    let Some((repository, target)) = repository() else { return };
    repository.remove("libvulkan1");
    repository.install(&["--target", &target]).fails(1, "toolkit.package-missing").says(&["libvulkan1:"]);
    repository
        .run(&["toolkit", "install", "rocm", "--target", &target])
        .fails(2, "cross.toolkit-unsupported")
        .says(&["hipcc was never tried"]);
    let other = ["toolkit", "install", "vulkan", "--target", "x86_64-pc-windows-gnu"];
    repository
        .run(&other)
        .fails(2, "cross.toolkit-unsupported")
        .says(&["vulkan for aarch64-unknown-linux-gnu"]);
    repository.holds_nothing();
}

#[test]
fn killed_installations_for_a_target_leave_nothing_partial() {
    let Some((repository, target)) = repository() else { return };
    let folders: Vec<PathBuf> = vec![repository.path("cache")];
    let install = || repository.command(&["toolkit", "install", "vulkan", "--target", &target]);
    let mut victim = Victim::new(23, folders.clone(), &mut install());
    let mut round = 0;
    while victim.needs_more(3, round) {
        round += 1;
        repository.run(&["toolkit", "remove", "vulkan", "--target", &target]).succeeds();
        victim.kill(&mut install());
        repository.run(&["toolkit", "verify"]).succeeds();
        RunResult::from(install().output().unwrap()).succeeds();
        repository.run(&["toolkit", "verify", "--target", &target]).succeeds();
        assert_eq!(temporary_names(&folders), Vec::<PathBuf>::new(), "round {round}");
    }
}

/// The release is unknown before the installation, so that only the build installs, and not its preview.
#[test]
fn a_build_installs_what_it_lacks() {
    let Some((repository, target)) = repository() else { return };
    write_project(&repository);
    let build = |more: &[&str]| {
        let arguments = ["build", "--backends", "cpu,vulkan", "--no-binary", "--provision"];
        repository.command(&[&arguments[..], more].concat())
    };
    let run = |command: &mut Command| RunResult::from(command.output().unwrap());
    run(&mut build(&["--target", &target, "--dry-run"])).says(&["cross.toolkit-missing"]);
    run(&mut build(&["--target", &target, "--offline"])).fails(1, "fetch.offline").says(&["package lists"]);
    assert!(!prefix(&repository, &target, "").exists());
    let cc = ["CC", "CXX"].map(|name| format!("{name}_{}", target.replace('-', "_")));
    // A compiler that fails: the toolkit is installed before the project is configured.
    let mut command = build(&["--target", &target]);
    let failed = run(command.env(&cc[0], "/bin/false").env(&cc[1], "/bin/false"));
    failed.says(&["installing vulkan 1.3.999.0"]);
    assert_ne!(failed.exit, Some(0), "{failed:#?}");
    repository.run(&["toolkit", "verify", "vulkan", "--target", &target]).succeeds();

    // The same for this machine, with all programs of the system but glslc.
    let bin = repository.path("bin");
    std::fs::create_dir(&bin).unwrap();
    for program in std::fs::read_dir("/usr/bin").unwrap().map(|one| one.unwrap()) {
        if program.file_name() != "glslc" {
            std::os::unix::fs::symlink(program.path(), bin.join(program.file_name())).unwrap();
        }
    }
    let mut command = build(&[]);
    run(command.env("PATH", &bin)).succeeds().says(&["installing vulkan 1.3.999.0"]);
    repository.run(&["toolkit", "verify", "vulkan", "--target", "host"]).succeeds();
}

/// A project that uses Vulkan's headers.
fn write_project(repository: &Repository) {
    std::fs::create_dir(repository.path("src")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(repository.path(name), text).unwrap();
    write(
        "src/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.19)\nproject(p C)\noption(USE_VULKAN \"\" OFF)\nadd_library(p STATIC p.c)\n\
         add_library(p-vulkan STATIC vulkan.c)\ntarget_include_directories(p-vulkan PRIVATE ${Vulkan_INCLUDE_DIR})\n",
    );
    write("src/p.c", "int one(void) { return 1; }\n");
    write(
        "src/vulkan.c",
        "#include <vulkan/vulkan_core.h>\nint version(void) { return VK_HEADER_VERSION; }\n",
    );
    let backends = "[backends.cpu]\n[backends.vulkan]\noptions = { USE_VULKAN = \"ON\" }\n";
    write(
        "gpubuild.toml",
        &format!(
            "schema = 1\n[project]\nname = \"p\"\nsource = \"src\"\ntargets = [\"p-vulkan\"]\n{backends}"
        ),
    );
}

/// The distribution's own packages of another architecture: 2.0 MiB, and package lists of 18 MB.
#[test]
fn the_distributions_own_packages_of_another_architecture_are_linked() {
    if !requires("network") {
        skip("network", "GPUBUILD_REQUIRE does not name network");
        return;
    }
    let Some((repository, target)) = repository() else { return };
    for toolkit in ["vulkan", "opencl"] {
        let mut install = repository.command(&["toolkit", "install", toolkit, "--target", &target, "--json"]);
        let installed = RunResult::from(install.env_remove("APT_CONFIG").output().unwrap()).json();
        let root = PathBuf::from(installed["installed"]["root"].as_str().unwrap());
        let name = if toolkit == "vulkan" { "libvulkan.so" } else { "libOpenCL.so" };
        let library = root.join("lib").join(target.replace("-unknown", "")).join(name);
        // e_machine of the ELF header: EM_AARCH64 or EM_X86_64.
        let machine = if target.starts_with("aarch64") { 0xb7 } else { 0x3e };
        assert_eq!(std::fs::read(library).unwrap()[18..20], [machine, 0]);
    }
    repository.run(&["toolkit", "verify"]).succeeds();
}
