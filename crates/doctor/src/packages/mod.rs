//! Selects Python packages (PyTorch, CuPy and ONNX Runtime) for the GPUs, the driver and the ROCm release of a machine. Pure; the
//! data is in `toolkits/tables/packages.toml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::{Facts, Gpu, Vendor};
use gpubuild_detect::json;
use gpubuild_detect::matrix::{Matrix, Probes};
use gpubuild_detect::toolkit::description::Risk;
use gpubuild_detect::toolkit::{Catalogue, Inventory};
use gpubuild_host::{Arch, Os};
use gpubuild_toolkits::tables;
use serde::{Deserialize, Serialize};

static TABLE: OnceLock<PackageTable> = OnceLock::new();

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageTable {
    #[serde(rename = "schema")]
    _schema: u32,
    torch: Vec<PackageLine>,
    cupy: Vec<PackageLine>,
    onnxruntime: Vec<PackageLine>,
    instead: Vec<Instead>,
    cpu: PackageCpu,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageLine {
    id: String,
    vendor: Vendor,
    on: Vec<Os>,
    #[serde(default)]
    machine: Vec<Arch>,
    #[serde(default)]
    archs: Vec<String>,
    from: Option<String>,
    #[serde(default)]
    ids: Vec<String>,
    #[serde(default)]
    driver: BTreeMap<Os, Version>,
    release: Option<Version>,
    below: Option<Version>,
    package: String,
    index: Option<String>,
    versions: String,
    source: String,
    beside: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Instead {
    product: Product,
    vendor: Vendor,
    /// Only for boards with an integrated NVIDIA GPU (Jetson).
    #[serde(default)]
    jetson: bool,
    text: String,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Product {
    Torch,
    Cupy,
    #[serde(rename = "onnxruntime")]
    OnnxRuntime,
    /// For GPUs that neither PyTorch nor CuPy supports.
    Both,
}

impl Product {
    fn label(self) -> &'static str {
        match self {
            Self::Torch => "PyTorch",
            Self::Cupy | Self::Both => "CuPy",
            Self::OnnxRuntime => "ONNX Runtime",
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageCpu {
    torch: String,
    index: String,
    cupy: String,
    onnxruntime: String,
    source: String,
}

/// The embedded table. A test verifies that it parses.
fn table() -> &'static PackageTable {
    TABLE.get_or_init(|| {
        gpubuild_toml::from_static(tables::PACKAGES)
            .expect("toolkits/tables/packages.toml is valid, as a test verifies")
    })
}

/// Recommended packages for a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PackageChoice {
    /// Name of the GPU; `processor` without one.
    pub gpu: String,
    /// Number of identical GPUs.
    pub count: usize,
    /// Architecture of the GPU: `sm_89`, `gfx1100`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// PyTorch package.
    pub torch: Advice,
    /// CuPy package.
    pub cupy: Advice,
    /// ONNX Runtime package.
    pub onnxruntime: Advice,
}

/// A package, or the reason why no package fits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advice {
    /// Requirement for pip; `None` if no package fits.
    pub package: Option<String>,
    /// URL of the index, if it is not PyPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// Command that installs the package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Environment variables to set at run time.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Further requirements, one phrase each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Reason for the package, or why no package fits.
    pub why: String,
    /// An alternative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Source of the table row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Input of the selection.
#[derive(Clone, Copy)]
struct PackageContext<'a> {
    facts: &'a Facts,
    inventory: &'a Inventory,
    catalogue: &'a Catalogue,
    matrix: &'a Matrix,
    /// CUDA version that the driver reported.
    cuda: Option<&'a Version>,
}

/// Packages for every GPU of a machine, with identical GPUs merged; packages for the processor without a GPU.
#[must_use]
pub fn choose(
    facts: &Facts,
    inventory: &Inventory,
    catalogue: &Catalogue,
    matrix: &Matrix,
    probes: &Probes,
) -> Vec<PackageChoice> {
    let cuda = probes.get(&Backend::Cuda).and_then(|answer| cuda_version(&answer.answer));
    let context = PackageContext { facts, inventory, catalogue, matrix, cuda: cuda.as_ref() };
    let mut choices: Vec<PackageChoice> = Vec::new();
    for gpu in gpus(facts, matrix) {
        let choice = context.choice(gpu);
        let is_same = |known: &&mut PackageChoice| (&known.gpu, &known.arch) == (&choice.gpu, &choice.arch);
        match choices.iter_mut().find(is_same) {
            Some(known) => known.count += 1,
            None => choices.push(choice),
        }
    }
    if choices.is_empty() { vec![processor()] } else { choices }
}

/// The CUDA version in a driver's answer; 12060 is 12.6.
fn cuda_version(answer: &str) -> Option<Version> {
    let document = json::parse(answer)?;
    let number = document.get("driver_version")?.as_u64().filter(|number| *number >= 1000)?;
    Some(Version::of_cuda_number(number))
}

/// GPUs of vendors that packages exist for, as the drivers report them. For AMD GPUs the facts from files are used, because the
/// driver's answer reflects `HSA_OVERRIDE_GFX_VERSION`.
fn gpus<'a>(facts: &'a Facts, matrix: &'a Matrix) -> Vec<&'a Gpu> {
    let has_packages = |gpu: &&Gpu| {
        matches!(gpu.vendor, Vendor::Nvidia | Vendor::Amd | Vendor::Intel | Vendor::Apple | Vendor::Qualcomm)
    };
    let from_files = |gpu: &'a Gpu| {
        let same = |known: &&Gpu| known.vendor == Vendor::Amd && gpu.pci.is_some() && known.pci == gpu.pci;
        facts.gpus.iter().find(same).unwrap_or(gpu)
    };
    let verdicts = [Backend::Cuda, Backend::Rocm, Backend::Metal, Backend::Sycl, Backend::Vulkan];
    let mut all: Vec<&Gpu> = Vec::new();
    for backend in verdicts {
        let devices = matrix.verdict(backend).devices.iter().filter(has_packages).map(from_files);
        let fresh: Vec<&Gpu> =
            devices.filter(|gpu| !all.iter().any(|known| known.vendor == gpu.vendor)).collect();
        all.extend(fresh);
    }
    all
}

fn processor() -> PackageChoice {
    let cpu = &table().cpu;
    let why = "no GPU was found".to_owned();
    PackageChoice {
        gpu: "processor".to_owned(),
        count: 1,
        arch: None,
        torch: Advice {
            package: Some(cpu.torch.clone()),
            command: Some(command(&cpu.torch, Some(&cpu.index))),
            index: Some(cpu.index.clone()),
            why: why.clone(),
            source: Some(cpu.source.clone()),
            ..Advice::default()
        },
        cupy: Advice { why: format!("{why}: use {}", cpu.cupy), ..Advice::default() },
        onnxruntime: Advice {
            package: Some(cpu.onnxruntime.clone()),
            command: Some(command(&cpu.onnxruntime, None)),
            why,
            ..Advice::default()
        },
    }
}

fn command(package: &str, index: Option<&str>) -> String {
    // Versions and extras contain characters that are special in a shell.
    let plain = package.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let package = if plain { package.to_owned() } else { format!("\"{package}\"") };
    match index {
        Some(index) => format!("pip install {package} --index-url {index}"),
        None => format!("pip install {package}"),
    }
}

/// Why a row does not fit a GPU.
enum PackageRefusal {
    /// The row is for other GPUs or systems.
    NotApplicable,
    /// The row is for this GPU, but this requirement is not met.
    Unmet(String),
}

impl PackageContext<'_> {
    fn choice(&self, gpu: &Gpu) -> PackageChoice {
        let mut torch = self.advise(&table().torch, Product::Torch, gpu);
        let mut cupy = self.advise(&table().cupy, Product::Cupy, gpu);
        let mut onnxruntime = self.advise(&table().onnxruntime, Product::OnnxRuntime, gpu);
        let neither = torch.package.is_none() && cupy.package.is_none();
        let all = [
            (&mut torch, Product::Torch),
            (&mut cupy, Product::Cupy),
            (&mut onnxruntime, Product::OnnxRuntime),
        ];
        for (advice, product) in all {
            let fits = |row: &&Instead| {
                row.vendor == gpu.vendor
                    && (!row.jetson || is_board(gpu))
                    && (row.product == product
                        || (neither && row.product == Product::Both && product != Product::OnnxRuntime))
            };
            if advice.package.is_none() {
                advice.beside = table().instead.iter().find(fits).map(|row| row.text.clone());
            }
        }
        PackageChoice { gpu: gpu.name.clone(), count: 1, arch: gpu.arch.clone(), torch, cupy, onnxruntime }
    }

    fn advise(&self, rows: &[PackageLine], product: Product, gpu: &Gpu) -> Advice {
        let mut unmet: Option<String> = None;
        for row in rows {
            match self.fits(row, gpu, gpu.arch.as_deref()) {
                Ok(needs) => return advice(row, gpu, gpu.arch.as_deref(), needs),
                Err(PackageRefusal::Unmet(why)) => {
                    unmet.get_or_insert(why);
                }
                Err(PackageRefusal::NotApplicable) => {}
            }
        }
        if let Some(advice) = self.as_related_arch(rows, gpu) {
            return advice;
        }
        let name = gpu.arch.as_deref().unwrap_or(&gpu.name);
        let none = || format!("{} has no build for {name} on this system", product.label());
        Advice { why: unmet.unwrap_or_else(none), ..Advice::default() }
    }

    /// Packages for an AMD GPU that can run the code of a related architecture with `HSA_OVERRIDE_GFX_VERSION`.
    fn as_related_arch(&self, rows: &[PackageLine], gpu: &Gpu) -> Option<Advice> {
        if self.facts.platform.os != Os::Linux || gpu.vendor != Vendor::Amd {
            return None;
        }
        let stand_in = self.catalogue.for_backend(Backend::Rocm)?.stand_in(gpu.arch.as_deref()?)?;
        let to = stand_in.to.as_deref().filter(|_| stand_in.risk < Risk::High)?;
        let (row, needs) = rows.iter().find_map(|row| Some((row, self.fits(row, gpu, Some(to)).ok()?)))?;
        let mut advice = advice(row, gpu, Some(to), needs);
        let digits = to.trim_start_matches("gfx");
        let (major, rest) = digits.split_at(digits.len().saturating_sub(2));
        let numbers: Vec<String> =
            rest.chars().filter_map(|c| c.to_digit(16)).map(|n| n.to_string()).collect();
        advice
            .variables
            .insert("HSA_OVERRIDE_GFX_VERSION".to_owned(), format!("{major}.{}", numbers.join(".")));
        advice.why = format!(
            "{} has code for {to}, which the GPU can run with `HSA_OVERRIDE_GFX_VERSION`; versions: {}",
            row.id, row.versions
        );
        Some(advice)
    }

    /// Whether a row fits a GPU with architecture `arch`: its further requirements, or why it does not fit.
    fn fits(&self, row: &PackageLine, gpu: &Gpu, arch: Option<&str>) -> Result<Vec<String>, PackageRefusal> {
        let platform = self.facts.platform;
        let here =
            row.on.contains(&platform.os) && (row.machine.is_empty() || row.machine.contains(&platform.arch));
        if row.vendor != gpu.vendor || !here || is_board(gpu) || !is_for(row, gpu, arch) {
            return Err(PackageRefusal::NotApplicable);
        }
        let mut needs = Vec::new();
        if let Some(floor) = row.driver.get(&self.driver_os()) {
            match self.driver(gpu.vendor) {
                Some(driver) if driver < *floor => {
                    let text = format!("driver {driver} is older than {floor}, which {} requires", row.id);
                    return Err(PackageRefusal::Unmet(text));
                }
                Some(_) => {}
                None => match (self.cuda, self.cuda_of(floor)) {
                    (Some(cuda), Some(wanted)) if cuda.major() < wanted.major() => {
                        let text =
                            format!("the driver supports CUDA {cuda}, and {} requires {wanted}", row.id);
                        return Err(PackageRefusal::Unmet(text));
                    }
                    (Some(_), Some(_)) => {}
                    _ => needs.push(format!("driver {floor} or newer")),
                },
            }
        }
        if let Some(release) = &row.release {
            let installed = self.inventory.chosen("rocm").and_then(|copy| copy.version());
            let fits = |version: &Version| {
                version.major() == release.major() && row.below.as_ref().is_none_or(|below| version < below)
            };
            if !installed.is_some_and(fits) {
                needs.push(format!("the ROCm {release} libraries"));
            }
        }
        Ok(needs)
    }

    /// Under WSL the Windows driver has_packages, with its version numbers.
    fn driver_os(&self) -> Os {
        if self.facts.wsl.is_some() { Os::Windows } else { self.facts.platform.os }
    }

    /// The CUDA version that the minimum driver of a row supports.
    fn cuda_of(&self, driver: &Version) -> Option<&Version> {
        // Windows drivers have other numbers; the major version is enough to select the Linux driver of the same CUDA release.
        let linux = if driver.major() < 500 {
            "450.80.02"
        } else if driver.major() < 580 {
            "525.60.13"
        } else {
            "580"
        };
        let driver = linux.parse().ok()?;
        self.catalogue.for_backend(Backend::Cuda)?.newest_for_driver(&driver)
    }

    fn driver(&self, vendor: Vendor) -> Option<Version> {
        let kernel = self.facts.drivers.iter().find(|driver| driver.vendor == vendor);
        let known = kernel.and_then(|driver| driver.version.as_ref()).map(|fact| fact.value.clone());
        known.or_else(|| {
            self.matrix.verdict(Backend::Cuda).driver.clone().filter(|_| vendor == Vendor::Nvidia)
        })
    }
}

/// An integrated NVIDIA GPU, which is on no PCI bus: a Jetson, whose libraries have their own releases.
fn is_board(gpu: &Gpu) -> bool {
    gpu.vendor == Vendor::Nvidia && gpu.integrated == Some(true)
}

/// The package of a row for a GPU that runs the code of `arch`.
fn advice(row: &PackageLine, gpu: &Gpu, arch: Option<&str>, needs: Vec<String>) -> Advice {
    let own = gpu.arch.as_deref();
    let code = own.and_then(|own| match gpu.vendor {
        Vendor::Nvidia => row.archs.iter().rfind(|arch| runs(arch, own)).map(|arch| format!("sm_{arch}")),
        _ => row.archs.iter().find(|arch| *arch == own).cloned(),
    });
    let reason = match (code, &row.from, own) {
        (Some(code), ..) => format!("{} has code for {code}", row.id),
        (None, Some(from), Some(_)) => {
            format!(
                "{} supports compute capability {}.{} and newer",
                row.id,
                number(from) / 10,
                number(from) % 10
            )
        }
        (None, _, None) if gpu.vendor == Vendor::Nvidia => {
            format!("{} is for the newest GPUs; the architecture of this one is unknown", row.id)
        }
        _ => format!("{} is for {}", row.id, own.unwrap_or(&gpu.name)),
    };
    let package = row.package.replace("{gpu}", arch.unwrap_or_default());
    Advice {
        command: Some(command(&package, row.index.as_deref())),
        package: Some(package),
        index: row.index.clone(),
        variables: BTreeMap::new(),
        needs,
        why: format!("{reason}; versions: {}", row.versions),
        beside: row.beside.clone(),
        source: Some(row.source.clone()),
    }
}

/// Whether a row is for a GPU.
fn is_for(row: &PackageLine, gpu: &Gpu, arch: Option<&str>) -> bool {
    if !row.ids.is_empty() {
        let id = gpu.ids.map(|(_, device)| format!("{device:04x}"));
        return id.is_some_and(|id| row.ids.iter().any(|first| id.starts_with(first)));
    }
    let Some(arch) = arch else {
        // For an NVIDIA GPU of unknown architecture only the driver decides.
        return gpu.vendor == Vendor::Nvidia || row.archs.is_empty();
    };
    match (gpu.vendor, &row.from) {
        (Vendor::Nvidia, Some(from)) => number(arch) >= number(from),
        (Vendor::Nvidia, None) => row.archs.iter().any(|built| runs(built, arch)),
        _ => row.archs.is_empty() || row.archs.iter().any(|built| built == arch),
    }
}

/// Whether machine code for one compute capability runs on another: the same major version, and not newer.
fn runs(built: &str, on: &str) -> bool {
    let (built, on) = (number(built), number(on));
    built / 10 == on / 10 && built <= on
}

/// Number of a compute capability: 90 for `sm_90a` and for `90`.
fn number(arch: &str) -> u32 {
    let digits = arch.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic());
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests;
