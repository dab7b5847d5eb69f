//! What the kernel reports about AMD GPUs: the order of their nodes, the module, and access to the nodes.

use std::time::Duration;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::search::natural_order;
use gpubuild_host::{Command, HostPath, InspectHost, Os, ReadFiles, RunPrograms};

/// Observations about the kernel's driver for AMD GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KfdSigns {
    /// GPUs in the order of `kfd`, which is the order in which programs see them.
    pub nodes: Vec<KfdNode>,
    /// Whether `amdgpu` is present, as a module or built into the kernel.
    pub has_amdgpu: bool,
    /// The file that shows that `amdgpu` is built into the kernel, so that `lsmod` does not list it.
    pub built_in: Option<String>,
    /// What prevents `amdgpu` from being loaded: a file or the kernel's command line, and the line or parameter in it.
    pub blocked_by: Option<(String, String)>,
    /// Whether `/dev/kfd` can be opened.
    pub kfd_opens: bool,
    /// Path of `lsmod`.
    pub lsmod: Option<HostPath>,
    /// Whether the recorded output of `rocminfo` says that the module is not loaded.
    pub rocminfo_reports_not_loaded: bool,
}

/// A GPU in the topology of `kfd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KfdNode {
    /// Number of the node in the topology folder.
    pub number: u32,
    /// PCI address.
    pub address: String,
}

pub(super) fn gather(host: &dyn InspectHost) -> KfdSigns {
    if host.platform().os != Os::Linux {
        return KfdSigns::default();
    }
    let has = |path: &str| host.exists(&host.path(path));
    let programs = ["/bin/lsmod", "/sbin/lsmod", "/usr/bin/lsmod", "/usr/sbin/lsmod"];
    let has_amdgpu = has("/sys/module/amdgpu");
    KfdSigns {
        nodes: nodes(host),
        has_amdgpu,
        built_in: built_in(host).filter(|_| has_amdgpu),
        blocked_by: blocked_by(host),
        kfd_opens: host.open_device(&host.path("/dev/kfd")).is_ok(),
        lsmod: programs.iter().map(|path| host.path(path)).find(|path| host.exists(path)),
        rocminfo_reports_not_loaded: rocminfo_reports_not_loaded(host),
    }
}

/// Reads recorded output only; starts no process.
fn rocminfo_reports_not_loaded(host: &dyn RunPrograms) -> bool {
    let output = host.recorded_output(&Command::new("rocminfo", Duration::from_secs(7)));
    output.is_some_and(|output| {
        format!("{}{}", output.stdout, output.stderr).to_lowercase().contains("not loaded")
    })
}

/// Finds `nomodeset` or an entry that excludes the module.
fn blocked_by(host: &dyn ReadFiles) -> Option<(String, String)> {
    let line = host.read_text(&host.path("/proc/cmdline")).unwrap_or_default();
    let parameters =
        ["nomodeset", "modprobe.blacklist=amdgpu", "module_blacklist=amdgpu", "amdgpu.modeset=0"];
    if let Some(found) = parameters.iter().find(|known| line.split_whitespace().any(|one| one == **known)) {
        return Some(("/proc/cmdline".to_owned(), (*found).to_owned()));
    }
    ["/etc/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf"]
        .iter()
        .flat_map(|pattern| gpubuild_host::glob(host, pattern))
        .find_map(|file| {
            let text = host.read_text(&file).ok()?;
            let is_it = |line: &&str| line.split_whitespace().eq(["blacklist", "amdgpu"]);
            Some((file.to_string(), text.lines().find(is_it)?.trim().to_owned()))
        })
}

fn nodes(host: &dyn ReadFiles) -> Vec<KfdNode> {
    const FOLDER: &str = "/sys/class/kfd/kfd/topology/nodes";
    let mut names = host.list(&host.path(FOLDER)).unwrap_or_default();
    names.sort_indirect_by(|left, right| natural_order(left, right));
    names
        .iter()
        .filter_map(|name| {
            let number = name.parse().ok()?;
            let text = host.read_text(&host.path(FOLDER).join(name).join("properties")).ok()?;
            Some(KfdNode { number, address: address(&text)? })
        })
        .collect()
}

/// The PCI address in the properties of a node; `None` for a processor.
fn address(text: &str) -> Option<String> {
    let value = |wanted: &str| {
        text.lines().find_map(|line| line.trim().strip_prefix(wanted)?.trim().parse::<u64>().ok())
    };
    value("gfx_target_version ").filter(|version| *version > 0)?;
    let location = value("location_id ").unwrap_or(0);
    Some(format!(
        "{:04x}:{:02x}:{:02x}.{:x}",
        value("domain ").unwrap_or(0),
        location >> 8 & 0xff,
        location >> 3 & 0x1f,
        location & 0x7
    ))
}

/// The file that shows that `amdgpu` is built into the kernel.
fn built_in(host: &dyn ReadFiles) -> Option<String> {
    let release = host.read_text(&host.path("/proc/sys/kernel/osrelease")).ok()?;
    let list = format!("/lib/modules/{}/modules.builtin", release.trim());
    if host.read_text(&host.path(&list)).is_ok_and(|text| text.contains("/amdgpu.ko")) {
        return Some(list);
    }
    let loaded = host.read_text(&host.path("/proc/modules")).ok().filter(|text| !text.trim().is_empty())?;
    let listed = loaded.lines().any(|line| line.split_whitespace().next() == Some("amdgpu"));
    let has_others = loaded.lines().any(|line| !line.starts_with("nvidia"));
    (!listed && has_others).then(|| "/proc/modules".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_nodes_have_no_address() {
        let gpu = "cpu_cores_count 0\nlocation_id 768\ndomain 0\ngfx_target_version 110000\n";
        assert_eq!(address(gpu).as_deref(), Some("0000:03:00.0"));
        assert_eq!(address("cpu_cores_count 16\ngfx_target_version 0\n"), None);
        assert_eq!(address(""), None);
    }
}
