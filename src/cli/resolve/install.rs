//! `gpubuild resolve --python --install`: installs the selected Python packages into a virtual environment.

use gpubuild_detect::id;
use gpubuild_detect::matrix::install_command;
use gpubuild_detect::toolkit::InstalledTools;
use gpubuild_doctor::packages::{Advice, PackageChoice};
use gpubuild_exec::python::Network;
use gpubuild_host::HostPath;
use gpubuild_toolchain::venv::environment::{VenvCreator, VirtualEnvironment, adopt};
use gpubuild_toolchain::venv::packages::{self, IndexedPackage, InstalledPackage};
use gpubuild_toolchain::venv::{VenvProblem, WheelTable};

use crate::cli::machine::MachineState;
use crate::cli::project::open_project;
use crate::cli::{CommandContext, Failure, absolute, venv};
use crate::report::packages::InstalledPart;

/// The products that `--install` accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PythonProduct {
    /// PyTorch.
    Torch,
    /// CuPy.
    Cupy,
    /// ONNX Runtime.
    Onnxruntime,
}

impl PythonProduct {
    const ALL: [Self; 3] = [Self::Torch, Self::Cupy, Self::Onnxruntime];

    fn label(self) -> &'static str {
        match self {
            Self::Torch => "PyTorch",
            Self::Cupy => "CuPy",
            Self::Onnxruntime => "ONNX Runtime",
        }
    }

    fn advice(self, choice: &PackageChoice) -> &Advice {
        match self {
            Self::Torch => &choice.torch,
            Self::Cupy => &choice.cupy,
            Self::Onnxruntime => &choice.onnxruntime,
        }
    }
}

/// Installs the packages of the products, or of all that fit if none is named.
pub(super) fn run(
    context: &CommandContext<'_>,
    machine: &MachineState,
    choices: &[PackageChoice],
    (products, folder): (&[PythonProduct], Option<&str>),
) -> Result<InstalledPart, Failure> {
    let failure = |problem: &VenvProblem| venv::failure(machine, problem);
    let named = !products.is_empty();
    let products = if named { products } else { &PythonProduct::ALL };
    let mut wanted = Vec::new();
    for product in products {
        match package(*product, choices) {
            Ok(Some(package)) => wanted.push(package),
            Ok(None) if !named => {}
            Ok(None) => {
                let why =
                    choices.first().map(|choice| product.advice(choice).why.clone()).unwrap_or_default();
                let problem = VenvProblem::refused(id!("venv.no-package"));
                return Err(failure(&problem.value("product", product.label()).value("why", why)));
            }
            Err(problem) => return Err(failure(&problem)),
        }
    }
    let folder = environment_folder(context, folder)?;
    let tools = InstalledTools::of(&machine.inventory);
    let network = Network::from_env(context.host.env());
    let environment =
        environment(context, machine, &folder, (&tools, network)).map_err(|problem| failure(&problem))?;
    for package in &wanted {
        context.printer.status(&format!("installing {} into {folder}", package.requirement));
    }
    let installed = packages::install(context.host, &environment, &tools, network, &wanted);
    let installed: Vec<InstalledPackage> = installed.map_err(|problem| failure(&problem))?;
    Ok(InstalledPart::new(folder.as_str(), &installed))
}

/// The package of a product for all GPUs; `None` if a GPU has none.
fn package(product: PythonProduct, choices: &[PackageChoice]) -> Result<Option<IndexedPackage>, VenvProblem> {
    let mut builds: Vec<IndexedPackage> = Vec::new();
    for choice in choices {
        let advice = product.advice(choice);
        let Some(requirement) = advice.package.clone() else { return Ok(None) };
        let build = IndexedPackage { requirement, index: advice.index.clone() };
        if !builds.contains(&build) {
            builds.push(build);
        }
    }
    if builds.len() > 1 {
        let name = |build: &IndexedPackage| build.index.clone().unwrap_or_else(|| build.requirement.clone());
        let names: Vec<String> = builds.iter().map(name).collect();
        return Err(VenvProblem::refused(id!("venv.packages-differ"))
            .value("product", product.label())
            .value("builds", names.join(", ")));
    }
    Ok(builds.pop())
}

/// The folder of `--venv`, else of the project's `[python]`, else the active environment, else `.venv`.
fn environment_folder(context: &CommandContext<'_>, named: Option<&str>) -> Result<HostPath, Failure> {
    if let Some(folder) = named {
        return absolute(context, folder);
    }
    let project = match open_project(context, None) {
        Ok(project) => Some(project),
        Err(failure) if failure.id == "project.not-found" => None,
        Err(failure) => return Err(failure),
    };
    if let Some(project) =
        project.filter(|project| project.file.python.as_ref().is_some_and(|table| table.venv.is_some()))
    {
        return Ok(venv::project_folder(&project));
    }
    absolute(context, context.host.env().get("VIRTUAL_ENV").unwrap_or(".venv"))
}

/// Adopts the environment, or creates it.
fn environment(
    context: &CommandContext<'_>,
    machine: &MachineState,
    folder: &HostPath,
    (tools, network): (&InstalledTools, Network),
) -> Result<VirtualEnvironment, VenvProblem> {
    let table = WheelTable::embedded();
    if let Some(environment) = adopt(context.host, folder, &table.python)? {
        return Ok(environment);
    }
    let install = install_command(&machine.facts, &table.environment);
    let install = install.as_deref();
    VenvCreator { host: context.host, tools, python: None, network, install }.create(folder, &table.python)
}
