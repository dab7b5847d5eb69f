//! `gpubuild run`: the program that cargo built with the manifest, its arguments and exit code.

use crate::support::Sandbox;

/// A program that prints its arguments and exits with the number in its first argument.
fn with_program() -> Option<Sandbox> {
    let project = Sandbox::with_library()?;
    let table = project.read("gpubuild.toml") + "[binary]\npackage = \"app\"\nprofile = \"dev\"\n";
    project.write("gpubuild.toml", &table);
    project.write("app/Cargo.toml", "[package]\nname = \"app\"\nedition = \"2024\"\n[workspace]\n");
    project.write(
        "app/src/main.rs",
        "fn main() {\n    let words: Vec<String> = std::env::args().skip(1).collect();\n    \
         println!(\"{}\", words.join(\"|\"));\n    \
         if words.first().is_some_and(|word| word == \"abort\") { std::process::abort(); }\n    \
         std::process::exit(words.first().and_then(|word| word.parse().ok()).unwrap_or(0));\n}\n",
    );
    Some(project)
}

#[test]
fn arguments_and_exit_code_are_forwarded() {
    let Some(project) = with_program() else { return };
    project.run(&["run"]).fails(2, "run.nothing-built").says(&["hint: run `gpubuild build`"]);
    let built = project.run(&["build", "--offline"]);
    built.succeeds().says(&["program"]);
    assert_eq!(built.stdout, "");
    let ran = project.run(&["run", "--", "7", "--quiet", "two words"]);
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(7), "7|--quiet|two words\n"), "{ran:#?}");
    assert_eq!(project.run(&["run"]).succeeds().stdout, "\n");
    let ran = project.run(&["build", "--offline", "--run", "--", "3", "x"]);
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(3), "3|x\n"), "{ran:#?}");
    // As in shells, 128 + the number of the signal that ended the program.
    #[cfg(unix)]
    assert_eq!(project.run(&["run", "--", "abort"]).exit, Some(134));
    project.run(&["clean"]).succeeds();
    project.run(&["run"]).fails(2, "run.nothing-built");
}

#[test]
fn rust_compile_error_shows_its_location() {
    let Some(project) = with_program() else { return };
    project.write("app/src/main.rs", "fn main() {\n    let number: u32 = \"text\";\n}\n");
    project.run(&["build", "--offline"]).fails(1, "build.binary-failed").says(&[
        "src/main.rs:2:",
        "mismatched types",
        "cargo.log",
    ]);
    project.run(&["run"]).fails(2, "run.nothing-built");
}

#[test]
fn project_without_a_program_cannot_run() {
    let Some(project) = Sandbox::with_library() else { return };
    for arguments in [["run"].as_slice(), &["build", "--run"]] {
        project.run(arguments).fails(2, "run.no-binary").says(&["[binary] package"]);
    }
    assert!(!project.exists(".gpubuild"), "the error precedes the build");
}
