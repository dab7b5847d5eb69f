//! Runs CMake: its command lines, the initial-cache file, the probe target that is injected without changing a project's
//! sources, and the reader of the file API.
//!
//! Paths, link lines and compilers are always those that CMake reports.

pub mod file_api;
pub mod fragments;
pub mod initial_cache;
pub mod inject;
pub mod progress;
pub mod unused;

use std::time::Duration;

use gpubuild_host::{Command, HostPath, WriteFiles};
use gpubuild_plan::plan::PlannedTree;

/// The oldest CMake that reads `CMAKE_PROJECT_TOP_LEVEL_INCLUDES`, which the probe needs.
pub const OLDEST: &str = "3.24";

/// Time limit for configuring. Projects that download or compile tools while configuring need many minutes.
const CONFIGURE_DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Time limit for a build. CUDA projects with many architectures build for hours.
const BUILD_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// The folder for gpubuild's files in a build tree.
#[must_use]
pub fn own_folder(tree: &PlannedTree) -> HostPath {
    own_folder_in(&tree.build)
}

/// Like [`own_folder`], for the path of a build tree.
#[must_use]
pub fn own_folder_in(build: &HostPath) -> HostPath {
    build.join("gpubuild")
}

/// What to keep of an earlier configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigureStart<'a> {
    /// The cache, because only input files of the configuration changed, except for these entries: scripts set them again. CMake would
    /// keep the default of an option that has another one now, and packages and programs that others precede.
    Keep(&'a [String]),
    /// Discard the cache and the compiler checks (`--fresh`), because options, compilers or the environment changed.
    Fresh,
}

/// Writes the files that CMake reads while configuring: query, initial cache, shims and injected script.
///
/// # Errors
/// CMake cannot store an entry (`InvalidInput`), or a file could not be written.
pub fn write_inputs(host: &dyn WriteFiles, tree: &PlannedTree) -> std::io::Result<()> {
    let own = own_folder(tree);
    let script = own.join("inject.cmake");
    let cache = initial_cache::with_include(&tree.cache, &script.forward_slashes());
    let text = initial_cache::render(&cache)
        .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidInput, error.to_string()))?;
    host.write(&file_api::query_path(&tree.build), file_api::QUERY.as_bytes())?;
    host.write(&own.join("initial-cache.cmake"), text.as_bytes())?;
    for shim in &tree.shims {
        host.write(&shim_folder(tree).join(&shim.header), shim.text.as_bytes())?;
    }
    host.write(&script, inject::script(tree).as_bytes())
}

/// The folder of the shims of a tree, which comes before the toolkits in the include path.
#[must_use]
pub fn shim_folder(tree: &PlannedTree) -> HostPath {
    own_folder(tree).join("shims")
}

/// Returns the command that configures a tree.
#[must_use]
pub fn configure_command(cmake: &HostPath, tree: &PlannedTree, start: ConfigureStart<'_>) -> Command {
    let mut command = Command::new(cmake.as_str(), CONFIGURE_DEADLINE)
        .args(["-S", tree.source.as_str(), "-B", tree.build.as_str(), "-G", tree.generator.as_str()])
        .arg("-C")
        .arg(own_folder(tree).join("initial-cache.cmake").as_str());
    match start {
        ConfigureStart::Fresh => command = command.arg("--fresh"),
        ConfigureStart::Keep(except) => {
            // The names are patterns.
            let is_plain = |name: &&String| {
                !name.is_empty()
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.+".contains(&byte))
            };
            let others = except.iter().filter(|name| !tree.cache.contains_key(*name)).filter(is_plain);
            command = command.args(others.map(|name| format!("-U{name}")));
        }
    }
    with_tree_env(command, tree)
}

/// How many compilers may run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parallelism<'a> {
    /// A fixed number.
    Jobs(u32),
    /// As many as a jobserver allows; the value for `MAKEFLAGS`.
    Pool(&'a str),
}

/// Returns the command that builds the named targets of a tree; all targets if `targets` is empty.
#[must_use]
pub fn build_command(
    cmake: &HostPath,
    tree: &PlannedTree,
    targets: &[String],
    parallelism: Parallelism<'_>,
) -> Command {
    let mut command = Command::new(cmake.as_str(), BUILD_DEADLINE).args(["--build", tree.build.as_str()]);
    command = match parallelism {
        Parallelism::Jobs(jobs) => command.args(["--parallel", &jobs.max(1).to_string()]),
        // Ninja ignores the jobserver if it is given a number, and CMake passes this variable as a number.
        Parallelism::Pool(flags) => command.env("MAKEFLAGS", flags).env_remove("CMAKE_BUILD_PARALLEL_LEVEL"),
    };
    if is_multi_config(&tree.generator) {
        command = command.args(["--config", configuration(tree)]);
    }
    if !targets.is_empty() {
        command = command.arg("--target").args(targets.iter().map(String::as_str));
    }
    with_tree_env(command, tree).env("NINJA_STATUS", progress::STATUS_FORMAT)
}

/// Whether a generator builds several configurations from one tree.
#[must_use]
pub fn is_multi_config(generator: &str) -> bool {
    generator.contains("Multi-Config") || generator.starts_with("Visual Studio") || generator == "Xcode"
}

/// The configuration to build and to read from the file API: the plan's `CMAKE_BUILD_TYPE`, or `Release`.
#[must_use]
pub fn configuration(tree: &PlannedTree) -> &str {
    tree.cache.get("CMAKE_BUILD_TYPE").map_or("Release", String::as_str)
}

fn with_tree_env(mut command: Command, tree: &PlannedTree) -> Command {
    for (name, value) in &tree.env {
        command = command.env(name, value);
    }
    // Variables that would change the configuration without being in the plan.
    for name in ["CMAKE_GENERATOR", "CMAKE_GENERATOR_PLATFORM", "CMAKE_GENERATOR_TOOLSET", "DESTDIR"] {
        if !tree.env.contains_key(name) {
            command = command.env_remove(name);
        }
    }
    // The plan sets launchers through the cache. A launcher that the plan omits must not be read from the environment.
    for language in gpubuild_plan::plan::launchers::LANGUAGES {
        command = command.env_remove(gpubuild_plan::plan::launchers::entry(language));
    }
    command.env("CLICOLOR_FORCE", "0").env("CMAKE_COLOR_DIAGNOSTICS", "OFF").env("LC_ALL", "C.UTF-8")
}
