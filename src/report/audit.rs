//! The `files` of `gpubuild audit --json`: what every file is and needs, whether or not there is something to say about it.

use gpubuild_plan::plan::bytes;
use serde::Serialize;

/// A file that was audited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuditedFile {
    /// Path.
    pub path: String,
    /// `static`, `shared`, `module`, `executable`, `object`.
    pub kind: String,
    /// The target that made it, where a manifest tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Size.
    pub bytes: u64,
    /// Instruction sets of its code, where they can be determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isa: Option<Isa>,
    /// Architectures of the device code in it: `sm_90`, `compute_90`, `gfx942`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_code: Vec<String>,
    /// Libraries that it names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needed: Vec<String>,
    /// Folders that it has libraries searched in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rpath: Vec<String>,
    /// The oldest C library that it runs with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// The oldest version of `libstdc++`'s symbols that it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibcxx: Option<String>,
    /// The same of the C++ ABI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cxxabi: Option<String>,
    /// C runtimes that its objects ask for: `/MT`, `/MD`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<String>,
}

/// Instruction sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Isa {
    /// What was promised: a level, `native`, or a level and what goes beyond it.
    pub promised: String,
    /// Who promises it: options of the project, `--cpu`, gpubuild.toml; nothing where it is the baseline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub promised_by: Vec<String>,
    /// Sets beyond the promise that every processor runs into.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<String>,
    /// Sets beyond it in code that is chosen when the processor has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dispatched: Vec<String>,
}

/// A file for people: one line, and further ones for what it needs.
pub(super) fn lines(file: &AuditedFile) -> Vec<String> {
    let machine = file.machine.as_deref().unwrap_or("no machine code");
    let mut page = vec![format!("{}: {} for {machine}, {}", file.path, file.kind, bytes::show(file.bytes))];
    if let Some(isa) = &file.isa {
        let by = if isa.promised_by.is_empty() {
            String::new()
        } else {
            format!(" ({})", isa.promised_by.join(", "))
        };
        page.push(format!("  promised  {}{by}", isa.promised));
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
    fn a_file_has_a_line_per_fact() {
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
                "  promised  x86-64",
                "  chosen    avx2",
                "  at least  GLIBC_2.34"
            ]
        );
    }
}
