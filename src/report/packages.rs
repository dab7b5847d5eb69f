//! The document of `gpubuild doctor --packages`: the Python packages for the GPUs of a machine.

use std::fmt::Write as _;

use gpubuild_core::clean;
use gpubuild_doctor::packages::{Advice, PackageChoice};
use gpubuild_toolchain::venv::packages::InstalledPackage;
use serde::Serialize;

use super::Schema;
use super::detect_text::Tone;
use super::words::wrap;

/// Maximum width of a line.
const WIDTH: usize = 100;

/// The document of `doctor --packages --json` and `resolve --python --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PackagesReport {
    schema: Schema,
    /// The packages for each GPU, or for the CPU of a machine without a GPU.
    pub gpus: Vec<PackageChoice>,
    /// Properties of wheel variants that fit the machine (`--properties`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variant_properties: Vec<String>,
    /// What was installed (`resolve --python --install`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed: Option<InstalledPart>,
}

/// An environment and the packages that were installed into it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InstalledPart {
    /// Folder of the environment.
    environment: String,
    /// The packages.
    packages: Vec<InstalledEntry>,
}

/// A package after the installation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InstalledEntry {
    /// Its name.
    package: String,
    /// Its version.
    version: String,
    /// `present`, `installed` or `replaced`.
    state: &'static str,
}

impl InstalledPart {
    /// The result of an installation.
    #[must_use]
    pub fn new(environment: &str, packages: &[InstalledPackage]) -> Self {
        let entry = |package: &InstalledPackage| InstalledEntry {
            package: package.name.clone(),
            version: package.version.clone(),
            state: match &package.before {
                None => "installed",
                Some(before) if *before == package.version => "present",
                Some(_) => "replaced",
            },
        };
        Self { environment: environment.to_owned(), packages: packages.iter().map(entry).collect() }
    }

    /// The folder, then one line per package.
    #[must_use]
    pub fn text(&self) -> String {
        let line =
            |entry: &InstalledEntry| format!("\n  {} {} {}", entry.package, entry.version, entry.state);
        self.environment.clone() + &self.packages.iter().map(line).collect::<String>()
    }
}

impl PackagesReport {
    /// The document of these choices.
    #[must_use]
    pub fn new(gpus: Vec<PackageChoice>) -> Self {
        let schema = Schema { name: "packages", version: 1 };
        Self { schema, gpus, variant_properties: Vec::new(), installed: None }
    }
}

/// The document as text.
#[must_use]
pub fn text(document: &PackagesReport, paint: &dyn Fn(Tone, &str) -> String) -> String {
    let mut out = String::new();
    for choice in &document.gpus {
        if !out.is_empty() {
            out.push('\n');
        }
        let count = if choice.count > 1 { format!("{} x ", choice.count) } else { String::new() };
        let name = clean::line(&choice.gpu);
        let arch = choice.arch.as_ref().map(|arch| format!(" ({})", clean::line(arch))).unwrap_or_default();
        let _ = writeln!(out, "{}", paint(Tone::Strong, &format!("{count}{name}{arch}")));
        advice(&mut out, "PyTorch", &choice.torch, paint);
        advice(&mut out, "CuPy", &choice.cupy, paint);
        advice(&mut out, "ONNX", &choice.onnxruntime, paint);
    }
    if !document.variant_properties.is_empty() {
        let _ = writeln!(out, "\nproperties of wheel variants that suit this machine");
    }
    for property in &document.variant_properties {
        let _ = writeln!(out, "  {property}");
    }
    out
}

fn advice(out: &mut String, product: &str, advice: &Advice, paint: &dyn Fn(Tone, &str) -> String) {
    let command = match &advice.command {
        Some(command) => paint(Tone::Good, command),
        None => paint(Tone::Bad, "none"),
    };
    let _ = writeln!(out, "  {product:<9}{command}");
    let variables = advice.variables.iter().map(|(name, value)| format!("set {name}={value}"));
    let needs = advice.needs.iter().map(|need| format!("needs {need}"));
    let beside = advice
        .beside
        .iter()
        .map(|text| if advice.command.is_some() { format!("or {text}") } else { text.clone() });
    let lines = std::iter::once(advice.why.clone()).chain(variables).chain(needs).chain(beside);
    for line in lines {
        for part in wrap(&clean::line(&line), WIDTH - 11) {
            let _ = writeln!(out, "{:11}{part}", "");
        }
    }
}
