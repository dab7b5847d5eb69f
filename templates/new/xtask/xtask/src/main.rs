//! The tasks of this workspace: `cargo xtask TASK`.

use std::path::Path;
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask build [--backends LIST] [ARGS]    build the kernels, then `cargo build --workspace ARGS`
cargo xtask test  [--backends LIST] [ARGS]    build the kernels, then `cargo test --workspace ARGS`";

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Vec<String>) -> Result<(), String> {
    let task = if arguments.is_empty() {
        "help".to_owned()
    } else {
        arguments.remove(0)
    };
    match task.as_str() {
        "build" | "test" => {
            kernels(&mut arguments)?;
            cargo(&task, &arguments)
        }
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        other => Err(format!("unknown task `{other}`\n{HELP}")),
    }
}

/// Builds the kernels for the backends of a leading `--backends LIST`, or those in gpubuild.toml.
fn kernels(arguments: &mut Vec<String>) -> Result<(), String> {
    let mut task = gpubuild_build::Task::new(root().to_string_lossy());
    if arguments.first().is_some_and(|word| word == "--backends") {
        if arguments.len() < 2 {
            return Err("`--backends` needs a list such as `cpu,cuda`".to_owned());
        }
        task = task.backends(&arguments[1]);
        arguments.drain(..2);
    }
    let built = task.build().map_err(|error| error.full_message())?;
    let backends: Vec<&str> = built.manifest.backends.iter().map(|one| one.id()).collect();
    eprintln!("built kernels for {}", backends.join(", "));
    Ok(())
}

/// Runs cargo for the complete workspace.
fn cargo(task: &str, arguments: &[String]) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([task, "--workspace"]).args(arguments);
    let status = command
        .current_dir(root())
        .status()
        .map_err(|error| format!("failed to start cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("cargo {task} failed: {status}"))
    }
}

/// The folder of the workspace.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}
