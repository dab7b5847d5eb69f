//! Binaries on recorded machines: how the loader resolves their libraries, and which findings result.

use std::collections::BTreeMap;

use gpubuild_detect::facts;
use gpubuild_detect::finding::{Finding, Findings, Severity};
use gpubuild_detect::matrix::Probes;
use gpubuild_detect::toolkit::{self, Catalogue};
use gpubuild_host::recorded::RecordedHostBuilder;
use gpubuild_host::{Arch, Os, RecordedHost};
use gpubuild_object::graph::EdgeTarget;
use gpubuild_samples::{Elf, bundles, fat_binary, mach_o, pe, ptx, sass, universal};

use super::{Examined, examine};
use crate::{DiagnosisCase, Filter, MachineSigns};

mod gpus;
mod libraries;
mod systems;

const LIB: &str = "/usr/lib/x86_64-linux-gnu";
const APP: &str = "/opt/app/bin/app";

/// An examined file on a machine.
struct BinarySample {
    examined: Examined,
    findings: Vec<Finding>,
}

fn examine_at(host: RecordedHostBuilder, path: &str) -> BinarySample {
    let host = host.build();
    let catalogue = Catalogue::embedded();
    let facts = facts::gather(&host);
    let inventory = toolkit::probe(&host, &catalogue);
    let probes = Probes::new();
    let matrix = gpubuild_plan::offer::evaluate(&facts, &inventory, &catalogue, &probes);
    let signs = MachineSigns::default();
    let case = DiagnosisCase {
        facts: &facts,
        inventory: &inventory,
        catalogue: &catalogue,
        matrix: &matrix,
        probes: &probes,
        signs: &signs,
        env: gpubuild_host::HostInfo::env(&host),
        asked: None,
        project: None,
    };
    let examined = examine(&host, &case, &gpubuild_host::HostInfo::path(&host, path)).unwrap();
    let findings = crate::diagnose_binary(&case, &Findings::embedded(), &examined, &Filter::default());
    BinarySample { examined, findings }
}

impl BinarySample {
    /// Ids of all findings, in order.
    fn ids(&self) -> Vec<&str> {
        self.findings.iter().map(|finding| finding.id.as_str()).collect()
    }

    /// Ids of errors and warnings.
    fn faults(&self) -> Vec<&str> {
        let problems = self.findings.iter().filter(|finding| finding.severity < Severity::Info);
        problems.map(|finding| finding.id.as_str()).collect()
    }

    fn finding(&self, id: &str) -> &Finding {
        self.findings
            .iter()
            .find(|finding| finding.id == id)
            .unwrap_or_else(|| panic!("{id} of {:?}", self.ids()))
    }

    /// Name and place of every library that is searched for: its path, or the result of the search without one.
    fn places(&self) -> BTreeMap<&str, String> {
        let graph = &self.examined.graph;
        graph
            .links
            .iter()
            .map(|link| {
                let place = match &link.target {
                    EdgeTarget::Loaded(index) => graph.objects[*index].path.to_string(),
                    other => format!("{other:?}"),
                };
                (link.needed.name.as_str(), place)
            })
            .collect()
    }

    fn place(&self, name: &str) -> String {
        self.places().get(name).cloned().unwrap_or_default()
    }
}

/// Debian 12 with its C and C++ libraries.
fn linux() -> RecordedHostBuilder {
    let libc = Elf::library("libc.so.6").version_definitions(&["GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.36"]);
    let banner = (".rodata", b"GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\n".to_vec());
    let libc = Elf { sections: vec![banner], ..libc };
    let library = |name: &'static str| Elf::library(name).needed(&["libc.so.6"]);
    RecordedHost::builder(Os::Linux, Arch::X86_64)
        .file("/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n")
        .env("PATH", "/usr/bin")
        .link("/lib", "usr/lib")
        .link("/lib64", "usr/lib64")
        .bytes("/usr/lib64/ld-linux-x86-64.so.2", &Elf::library("ld-linux-x86-64.so.2").build())
        .bytes(&format!("{LIB}/libc.so.6"), &libc.build())
        .bytes(
            &format!("{LIB}/libm.so.6"),
            &library("libm.so.6").version_definitions(&["GLIBC_2.29"]).build(),
        )
        .bytes(
            &format!("{LIB}/libstdc++.so.6.0.30"),
            &library("libstdc++.so.6").version_definitions(&["GLIBCXX_3.4", "GLIBCXX_3.4.30"]).build(),
        )
        .link(&format!("{LIB}/libstdc++.so.6"), "libstdc++.so.6.0.30")
}

/// The same with the device nodes of NVIDIA's driver.
fn nodes() -> RecordedHostBuilder {
    linux().device("/dev/nvidiactl").device("/dev/nvidia0").device("/dev/nvidia-uvm")
}

/// The same with a GPU and its driver.
fn nvidia(set: &str, driver: &str) -> RecordedHostBuilder {
    nodes()
        .env("GPUBUILD_SET", set)
        .bytes(
            &format!("{LIB}/libcuda.so.{driver}"),
            &Elf::library("libcuda.so.1").needed(&["libc.so.6"]).build(),
        )
        .link(&format!("{LIB}/libcuda.so.1"), &format!("libcuda.so.{driver}"))
}

fn app(host: RecordedHostBuilder, file: &Elf) -> BinarySample {
    examine_at(host.bytes(APP, &file.build()), APP)
}
