//! The `files` of `gpubuild audit --json`: properties and requirements of every file, with or without findings.

use gpubuild_plan::plan::bytes;
use serde::Serialize;

/// An audited file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuditedFile {
    /// Its path.
    pub path: String,
    /// Kind of file: `static`, `shared`, `module`, `executable`, `object`.
    pub kind: String,
    /// The CMake target that built it, if a manifest lists the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Architecture of its machine code: `x86_64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// Instruction sets of its code, if they can be determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isa: Option<Isa>,
    /// Architectures of its device code: `sm_90`, `compute_90`, `gfx942`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_code: Vec<String>,
    /// Shared libraries that it needs, as it names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needed: Vec<String>,
    /// Its run-time search path for libraries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rpath: Vec<String>,
    /// The oldest glibc version that it runs with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// The oldest `GLIBCXX` symbol version of libstdc++ that it runs with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibcxx: Option<String>,
    /// The oldest `CXXABI` symbol version of libstdc++ that it runs with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cxxabi: Option<String>,
    /// C runtimes that its objects require: `/MT`, `/MD`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<String>,
}

/// Instruction sets of a file, compared with those that it may require.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Isa {
    /// What it may require: a level, `native`, or a level and additional sets.
    pub promised: String,
    /// Where that is declared: options of the project, `--cpu`, gpubuild.toml; empty for the baseline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub promised_by: Vec<String>,
    /// Additional sets in code that runs on every processor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<String>,
    /// Additional sets in code that is selected at run time if the processor supports them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dispatched: Vec<String>,
}

/// A file as text: one line for the file, and one per kind of requirement.
pub(super) fn lines(file: &AuditedFile) -> Vec<String> {
    let machine = file.machine.as_deref().unwrap_or("no machine code");
    let mut page = vec![format!("{}: {} for {machine}, {}", file.path, file.kind, bytes::show(file.bytes))];
    if let Some(isa) = &file.isa {
        let by = if isa.promised_by.is_empty() {
            String::new()
        } else {
            format!(" ({})", isa.promised_by.join(", "))
        };
        page.push(format!("  required  {}{by}", isa.promised));
        let sets = [("above it", &isa.above), ("chosen", &isa.dispatched)];
        let sets = sets.iter().filter(|(_, sets)| !sets.is_empty());
        page.extend(sets.map(|(name, sets)| format!("  {name:<9} {}", sets.join(" "))));
    }
    let libraries = [("GLIBC", &file.glibc), ("GLIBCXX", &file.glibcxx), ("CXXABI", &file.cxxabi)];
    let libraries: Vec<String> = libraries
        .iter()
        .filter_map(|(name, version)| Some(format!("{name}_{}", version.as_ref()?)))
        .collect();
    let rows = [
        ("kernels", &file.device_code),
        ("needs", &file.needed),
        ("at least", &libraries),
        ("rpath", &file.rpath),
        ("runtime", &file.runtimes),
    ];
    let rows = rows.iter().filter(|(_, values)| !values.is_empty());
    page.extend(rows.map(|(name, values)| format!("  {name:<9} {}", values.join(" "))));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_a_line_per_kind_of_requirement() {
        let isa = Isa { promised: "x86-64".into(), dispatched: vec!["avx2".into()], ..Isa::default() };
        let file = AuditedFile {
            path: "/b/libgk.so".into(),
            kind: "shared".into(),
            machine: Some("x86_64".into()),
            bytes: 2048,
            isa: Some(isa),
            glibc: Some("2.34".into()),
            ..AuditedFile::default()
        };
        assert_eq!(
            lines(&file),
            [
                "/b/libgk.so: shared for x86_64, 2.0 KiB",
                "  required  x86-64",
                "  chosen    avx2",
                "  at least  GLIBC_2.34"
            ]
        );
    }
}
