//! Toolkits that a build installs first, and what nvcc is given: on recorded machines.

use serde_json::Value;

use crate::support::{Ran, Sandbox, recorded};

fn project() -> Sandbox {
    let sandbox = Sandbox::with_project("gk");
    for backend in ["cpu", "cuda", "vulkan"] {
        sandbox.write(&format!("vendor/src/{backend}/CMakeLists.txt"), "");
    }
    sandbox
}

fn plan(sandbox: &Sandbox, host: &str, arguments: &[&str]) -> Ran {
    let mut all = vec!["plan", "--json", "--backends", "cuda", "--host", host];
    all.extend(arguments);
    sandbox.run(&all)
}

#[track_caller]
fn planned(ran: &Ran) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    ran.json()
}

fn cache(plan: &Value, name: &str) -> String {
    plan["trees"][0]["cache"][name].as_str().unwrap_or_default().to_owned()
}

/// A recording with some of its text replaced, and more of it at its end.
fn variation(sandbox: &Sandbox, name: &str, changes: &[(&str, &str)], more: &str) -> String {
    let mut text = sandbox.read(&recorded(name));
    for (from, to) in changes {
        assert!(text.contains(from), "{name} has no `{from}`");
        text = text.replace(from, to);
    }
    let file = "machine.toml";
    sandbox.write(file, &format!("{text}\n{more}"));
    sandbox.path(file).to_str().unwrap().to_owned()
}

/// The copy that an installation leaves, in the words of a recording.
fn installed(release: &str, number: u32, gcc: u32) -> String {
    let root = format!("/home/user/.cache/gpubuild/toolkits/cuda-{release}");
    let file = |path: &str, rest: &str| format!("[[file]]\npath = '{root}/{path}'\n{rest}\n");
    [
        file("installed.json", "text = '{}'"),
        file("prefix/bin/nvcc", "kind = \"executable\""),
        file("prefix/include/cuda_runtime.h", ""),
        file("prefix/include/cuda_runtime_api.h", &format!("text = '#define CUDART_VERSION {number}'")),
        file("prefix/include/crt/host_config.h", &format!("text = '#if __GNUC__ > {gcc}'")),
        file("prefix/lib/libcudart_static.a", ""),
        file("prefix/lib64", "link = 'lib'"),
    ]
    .concat()
}

#[test]
fn a_plan_that_installs_has_the_flags_of_one_after_it() {
    let sandbox = project();
    let before = planned(&plan(&sandbox, &recorded("debian-12-llvmpipe"), &["--provision"]));
    let install = &before["provision"][0];
    assert_eq!(install["toolkit"], "cuda");
    assert_eq!(install["release"], "13.5");
    assert_eq!(install["backend"], "cuda");
    assert_eq!(install["root"], "/home/user/.cache/gpubuild/toolkits/cuda-13.5/prefix");
    assert!(install["download_bytes"].as_u64().unwrap() > 100_000_000, "{install}");
    assert!(install["because"].as_str().unwrap().contains("newest"), "{install}");

    let host = variation(&sandbox, "debian-12-llvmpipe", &[], &installed("13.5", 13050, 16));
    for arguments in [&[][..], &["--provision"]] {
        let after = planned(&plan(&sandbox, &host, arguments));
        assert!(after.get("provision").is_none(), "there is nothing to install: {after:#}");
        assert_eq!(after["trees"][0]["cache"], before["trees"][0]["cache"], "{arguments:?}");
    }
}

#[test]
fn without_the_flag_the_one_command_is_named() {
    let sandbox = project();
    let host = recorded("debian-12-llvmpipe");
    let ran = sandbox.run(&["plan", "--backends", "cuda", "--host", &host]);
    ran.fails(2, "plan.refused").says(&["gpubuild toolkit install cuda"]);
}

#[test]
fn a_project_may_ask_for_it_once_and_for_all() {
    let sandbox = project();
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}\n[toolkits]\nprovision = true\n"));
    let auto = |host: &str| planned(&sandbox.run(&["plan", "--json", "--host", &recorded(host)]));
    let with_card = auto("ubuntu-22.04-h200");
    assert!(with_card.get("provision").is_none(), "it has a toolkit: {with_card:#}");
    // `auto` installs nothing for a card that is not there.
    let without_card = auto("debian-12-llvmpipe");
    assert!(without_card.get("provision").is_none(), "{without_card:#}");
    let named = planned(&plan(&sandbox, &recorded("debian-12-llvmpipe"), &[]));
    assert_eq!(named["provision"][0]["release"], "13.5");

    let changes = [("/bin/nvcc", "/bin/other")];
    let bare = variation(&sandbox, "ubuntu-22.04-h200", &changes, "");
    let found = planned(&sandbox.run(&["plan", "--json", "--host", &bare]));
    assert_eq!(found["provision"][0]["release"], "13.0", "the driver is 580: {found:#}");
    assert_eq!(found["provision"][0]["passed_over"][0]["reasons"][0]["id"], "nv.ptx.too-new");
    assert_eq!(cache(&found, "CMAKE_CUDA_ARCHITECTURES"), "90-real;90-virtual");
}

#[test]
fn what_suits_nothing_is_refused_with_its_reason() {
    let sandbox = project();
    let refused = |host: &str, arguments: &[&str], id: &str| {
        let mut all = vec!["plan", "--backends", "cuda", "--provision", "--host", host];
        all.extend(arguments);
        let ran = sandbox.run(&all);
        ran.fails(2, "plan.refused").says(&[id]);
        assert!(!ran.stderr.contains("toolkit install"), "it would be refused as well: {}", ran.stderr);
    };
    let bare = recorded("debian-12-llvmpipe");
    refused(&recorded("fedora-41-hybrid"), &[], "nv.driver.too-old");
    refused(&bare, &["--cuda-archs", "70"], "cuda.arch.dropped-by-toolkit");
    refused(&bare, &["--cuda-archs", "999"], "cuda.arch.too-new-for-toolkit");
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}\n[backends.cuda]\ntoolkit = \">=12.4, <13\"\n"));
    refused(&bare, &[], "toolkit.version-unmet");
}

#[test]
fn a_requirement_that_nothing_here_meets_is_a_toolkit_that_is_missing() {
    let sandbox = project();
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}\n[backends.cuda]\ntoolkit = \">=13.1\"\n"));
    let host = recorded("debian-12-own-cuda");
    sandbox
        .run(&["plan", "--backends", "cuda", "--host", &host])
        .fails(2, "plan.refused")
        .says(&["toolkit.version-unmet"]);
    let found = planned(&plan(&sandbox, &host, &["--provision"]));
    assert_eq!(found["provision"][0]["release"], "13.5");
    assert!(cache(&found, "CMAKE_CUDA_COMPILER").contains("cuda-13.5"), "{found:#}");
}

#[test]
fn architectures_come_from_the_flag_the_variable_or_the_project() {
    let sandbox = project();
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}\n[backends.cuda]\narchs = [\"86\"]\n"));
    let env = |line: &str| {
        let home = "HOME = '/home/user'";
        variation(&sandbox, "debian-12-own-cuda", &[(home, &format!("{home}\n{line}"))], "")
    };
    let archs = |host: &str, arguments: &[&str]| {
        cache(&planned(&plan(&sandbox, host, arguments)), "CMAKE_CUDA_ARCHITECTURES")
    };
    let plain = env("");
    assert_eq!(archs(&plain, &[]), "86");
    assert_eq!(archs(&plain, &["--cuda-archs", "sm_90a,8.0-real"]), "80-real;90a");
    assert_eq!(
        archs(&plain, &["--cuda-archs", "all-major"]),
        "75-real;80-real;90-real;100-real;110-real;120-real;120-virtual"
    );
    let named = env("CUDAARCHS = '89-real;90'");
    assert_eq!(archs(&named, &[]), "89-real;90");
    assert_eq!(archs(&named, &["--cuda-archs", "75"]), "75");
}

#[test]
fn an_unknown_architecture_is_refused_with_those_that_are_known() {
    let sandbox = project();
    let host = recorded("debian-12-own-cuda");
    for (list, id) in [
        ("999", "cuda.arch.too-new-for-toolkit"),
        ("101", "cuda.arch.too-new-for-toolkit"),
        ("70", "cuda.arch.dropped-by-toolkit"),
        ("sm_9x", "cuda.arch.invalid"),
        ("gfx90a", "cuda.arch.invalid"),
        ("", "cuda.arch.invalid"),
        (",;", "cuda.arch.invalid"),
    ] {
        let ran = sandbox.run(&["plan", "--backends", "cuda", "--host", &host, "--cuda-archs", list]);
        ran.fails(2, "plan.refused").says(&[id, "knows 75, 80, 86", "120, 121"]);
    }
}

#[test]
fn nvcc_gets_the_newest_host_compiler_that_it_takes() {
    let sandbox = project();
    let gcc = |major: u32| {
        format!(
            "[[file]]\npath = '/usr/bin/gcc-{major}'\nkind = \"executable\"\n\
             [[file]]\npath = '/usr/bin/g++-{major}'\nkind = \"executable\"\n\
             [[file]]\npath = '/usr/lib/gcc/x86_64-linux-gnu/{major}'\nkind = \"directory\"\n"
        )
    };
    let host = |limit: &str, more: &str| {
        variation(&sandbox, "debian-12-own-cuda", &[("__GNUC__ > 15", limit)], more)
    };
    let compiler = |host: &str| cache(&planned(&plan(&sandbox, host, &[])), "CMAKE_CUDA_HOST_COMPILER");
    // The one that builds the rest, while it fits.
    assert_eq!(compiler(&host("__GNUC__ > 15", &gcc(13))), "/usr/bin/g++");
    // It is 12, and the toolkit takes up to 11: of 9, 10 and 13 the newest inside.
    let several = [gcc(9), gcc(10), gcc(13)].concat();
    assert_eq!(compiler(&host("__GNUC__ > 11", &several)), "/usr/bin/g++-10");
    // None inside: refused, with the window and where it stands.
    let ran = sandbox.run(&["plan", "--backends", "cuda", "--host", &host("__GNUC__ > 11", &gcc(13))]);
    ran.fails(2, "plan.refused").says(&["cuda.host.gcc-too-new", "up to 11", "host_config.h", "GCC 11"]);
    // Who names one in the words of CMake or nvcc is heard.
    let home = "HOME = '/home/user'";
    let named = [(home, "HOME = '/home/user'\nCUDAHOSTCXX = '/opt/bin/g++-11'")];
    let named = variation(&sandbox, "debian-12-own-cuda", &named, "");
    let found = planned(&plan(&sandbox, &named, &[]));
    assert_eq!(cache(&found, "CMAKE_CUDA_HOST_COMPILER"), "/opt/bin/g++-11");
    assert!(found["notes"].to_string().contains("CUDAHOSTCXX"), "{found:#}");
}
