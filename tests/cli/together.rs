//! Two projects in one program, where the second uses a library of the first.

use crate::support::{Sandbox, is_on_path, skip};

const CORE: &str =
    "int core_calls = 0;\nint core_version(void) { core_calls++; return SIZE * 10 + core_calls; }\n";

/// A project with its own library and a `core`, its own or another project's.
fn project(sandbox: &Sandbox, name: &str, size: u32, more: &str) {
    let upper = name.to_uppercase();
    sandbox.write(
        &format!("{name}/src/CMakeLists.txt"),
        &format!(
            "cmake_minimum_required(VERSION 3.24)\nproject({name} C)\noption({upper}_USE_SYSTEM_CORE \"\" OFF)\n\
             if({upper}_USE_SYSTEM_CORE)\n  find_package(core REQUIRED)\n  add_library(core ALIAS core::core)\nelse()\n  \
             add_library(core STATIC core.c)\n  target_include_directories(core PUBLIC include)\n  \
             target_compile_definitions(core PUBLIC SIZE={size})\nendif()\n\
             add_library({name} STATIC {name}.c)\ntarget_link_libraries({name} PUBLIC core)\n"
        ),
    );
    sandbox.write(&format!("{name}/src/core.c"), CORE);
    sandbox.write(&format!("{name}/src/include/core.h"), "int core_version(void);\n");
    sandbox.write(
        &format!("{name}/src/{name}.c"),
        &format!("#include <core.h>\nint {name}_answer(void) {{ return core_version() * 1000 + SIZE; }}\n"),
    );
    let head =
        format!("schema = 1\n[project]\nname = \"{name}\"\nsource = \"src\"\ntargets = [\"{name}\"]\n");
    sandbox.write(&format!("{name}/gpubuild.toml"), &(head + more));
}

/// Two projects; `talk` is linked with `hear` into one program.
fn two(more: &str) -> Option<Sandbox> {
    for tool in ["cmake", "ninja", "cc"] {
        if !is_on_path(tool) {
            skip("cmake", &format!("no {tool}"));
            return None;
        }
    }
    let sandbox = Sandbox::new();
    project(&sandbox, "hear", 3, "");
    project(&sandbox, "talk", 2, more);
    // `talk` must not build its own copy.
    sandbox.remove("talk/src/core.c");
    sandbox.remove("talk/src/include/core.h");
    Some(sandbox)
}

const SHARED: &str = "options = { TALK_USE_SYSTEM_CORE = \"ON\" }\n[[with]]\nproject = \"../hear\"\nsame_symbols = \"shared\"\nlibrary = \"core\"\n";

#[test]
fn project_builds_on_the_library_of_another() {
    let Some(sandbox) = two(SHARED) else { return };
    let refused = sandbox.run(&["build", "--project", "talk", "--backends", "cpu"]);
    refused.fails(2, "plan.refused").says(&[
        "symbols.other-not-built",
        "libraries of `hear` are required",
        "gpubuild build --project",
    ]);
    sandbox.run(&["build", "--project", "hear", "--backends", "cpu"]).succeeds();

    let refused = sandbox.run(&["build", "--project", "talk", "--backends", "vulkan"]);
    refused.fails(2, "plan.refused").says(&[
        "symbols.shared-without-backend",
        "built without vulkan",
        "cpu,vulkan",
    ]);

    let plan = sandbox.run(&["plan", "--project", "talk", "--backends", "cpu"]);
    plan.succeeds();
    assert!(plan.stdout.contains("`core` comes from `hear`"), "{plan:#?}");
    sandbox.run(&["build", "--project", "talk", "--backends", "cpu"]).succeeds();
    let line = sandbox.run(&["link", "--project", "talk", "--format", "plain"]);
    line.succeeds();
    assert_eq!(line.stdout.matches("libcore.a").count(), 1, "{}", line.stdout);
    sandbox.write(
        "main.c",
        "#include <stdio.h>\nint talk_answer(void);\nint hear_answer(void);\n\
         int main(void) { printf(\"%d \", talk_answer()); printf(\"%d\\n\", hear_answer()); return 0; }\n",
    );
    let mut cc = vec!["cc", "main.c", "-o", "program"];
    cc.extend(line.stdout.split_whitespace());
    sandbox.start(&cc).succeeds();
    // Both count their calls in the one library of size 3.
    let program = sandbox.path("program");
    assert_eq!(sandbox.start(&[program.to_str().unwrap()]).stdout, "31003 32003\n");

    let again = sandbox.run(&["build", "--project", "talk", "--backends", "cpu", "--message-format", "json"]);
    assert!(again.stdout.contains("\"state\":\"unchanged\""), "{}", again.stdout);
}

#[test]
fn shared_library_must_be_specified() {
    let Some(sandbox) = two(&SHARED.replace("library = \"core\"\n", "")) else { return };
    sandbox.run(&["build", "--project", "hear", "--backends", "cpu"]).succeeds();
    let refused = sandbox.run(&["build", "--project", "talk", "--backends", "cpu"]);
    refused.fails(2, "plan.refused").says(&["symbols.not-shareable", "library = \"NAME\""]);
}
