//! `gpubuild fetch` and `gpubuild update`: download the sources and tools of a project, and pin the version of the sources.

use gpubuild_detect::id;
use gpubuild_host::HostPath;
use gpubuild_sources::LockPolicy;

use super::build::NetworkArguments;
use super::project::project_file;
use super::sources;
use super::tools::{self, Tool};
use super::{CommandContext, Exit, Failure, absolute};
use crate::report::fetch::{FetchReport, FetchedTool, ProjectSource};

/// Arguments of `fetch`.
#[derive(Debug, clap::Args)]
pub struct FetchArguments {
    /// Copy the sources into a folder of the project, and set `vendor` in gpubuild.toml to it
    #[arg(long, value_name = "DIR")]
    vendor: Option<String>,
    /// Download only these tools, separated by commas, into gpubuild's cache, without a project
    #[arg(long, value_enum, value_name = "TOOL", value_delimiter = ',', conflicts_with_all = ["vendor", "locked", "project"])]
    tool: Vec<Tool>,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    common: LockArguments,
}

/// Arguments of `update`.
#[derive(Debug, clap::Args)]
pub struct UpdateArguments {
    #[command(flatten)]
    common: LockArguments,
}

#[derive(Debug, clap::Args)]
struct LockArguments {
    /// Fail if gpubuild.lock is missing or out of date
    #[arg(long)]
    locked: bool,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl FetchArguments {
    /// Whether standard output is one JSON document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.common.json
    }
}

impl UpdateArguments {
    /// Whether standard output is one JSON document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.common.json
    }
}

/// Downloads the sources that gpubuild.lock pins, and the tools that this machine lacks.
pub fn run(arguments: &FetchArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    if !arguments.tool.is_empty() {
        let network = arguments.network.network(context.host);
        let tools = tools::fetch_named(context, &arguments.tool, network)?;
        return print(&[], tools, arguments.common.json, context);
    }
    let policy = if arguments.common.locked { LockPolicy::Locked } else { LockPolicy::Keep };
    let network = arguments.network.network(context.host);
    let folder = arguments.common.project.as_deref();
    if let Some(vendor) = &arguments.vendor {
        let file = project_file(context, folder)?;
        // The sources must be available before the file refers to a copy of them.
        sources::ensure(context, folder, network, policy)?;
        set_vendor(context, &file, &absolute(context, vendor)?)?;
    }
    let done = sources::ensure(context, folder, network, policy)?;
    let tools = tools::fetch_missing(context, folder, network)?;
    print(&done, tools, arguments.common.json, context)
}

/// Pins the newest versions that gpubuild.toml allows, and downloads them.
pub fn update(arguments: &UpdateArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    if arguments.common.locked {
        let message = "`gpubuild update` changes gpubuild.lock, which `--locked` does not allow";
        return Err(Failure::usage(id!("source.locked"), message)
            .hint("`gpubuild fetch --locked` checks that it is up to date"));
    }
    let network = gpubuild_exec::python::Network::from_env(context.host.env());
    let done = sources::ensure(context, arguments.common.project.as_deref(), network, LockPolicy::Update)?;
    print(&done, Vec::new(), arguments.common.json, context)
}

fn print(
    done: &[ProjectSource],
    tools: Vec<FetchedTool>,
    json: bool,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    let document = FetchReport::new(done, tools);
    if json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(Exit::Done)
}

/// Sets `vendor` in a project file, and keeps everything else as it is written.
fn set_vendor(context: &CommandContext<'_>, file: &HostPath, folder: &HostPath) -> Result<(), Failure> {
    let root = file.parent().unwrap_or_else(|| file.clone());
    let (folder, host) = (folder.normalized(), context.host);
    if folder.key() == root.key() || !folder.is_inside(&root) {
        let message = format!("`{folder}` is not a folder below `{root}`");
        return Err(Failure::usage(id!("usage.no-folder"), message)
            .hint("vendored sources belong to the project: use a folder such as `third_party`"));
    }
    if host.exists(&folder) && !host.is_dir(&folder) {
        return Err(Failure::usage(id!("usage.no-folder"), format!("`{folder}` is not a folder"))
            .hint("use a folder of the project, such as `third_party`"));
    }
    let relative = folder.forward_slashes()[root.forward_slashes().len()..].trim_matches('/').to_owned();
    let failed = |error: String| {
        Failure::negative(id!("source.write-failed"), format!("failed to change `{file}`: {error}"))
    };
    let text = host.read_text(file).map_err(|error| failed(error.to_string()))?;
    let mut document: toml_edit::DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| failed(error.to_string()))?;
    if document["project"].get("vendor").and_then(toml_edit::Item::as_str) == Some(&relative) {
        return Ok(());
    }
    document["project"]["vendor"] = toml_edit::value(&relative);
    host.write(file, document.to_string().as_bytes()).map_err(|error| failed(error.to_string()))?;
    context.printer.status(&format!("set `vendor = \"{relative}\"` in {file}"));
    Ok(())
}
