//! Other conditions of the machine that CUDA depends on: NVSwitches and their manager, suspend, groups, Jetson.

use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::Evidence;
use gpubuild_host::{ReadFiles, glob};

use crate::signs::SignContext;

const PCI: &str = "/sys/bus/pci/devices";
const MANAGER: &str = "nv-fabricmanager";
const UNIT: &str = "nvidia-fabricmanager.service";

/// Files of APT for these repositories.
const REPOSITORIES: [&str; 3] = [
    "/etc/apt/sources.list.d/cuda-*",
    "/etc/apt/sources.list.d/nvidia-driver*",
    "/etc/apt/sources.list.d/graphics-drivers*",
];

/// Other observations about the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct System {
    /// NVSwitches and their manager.
    pub fabric: Fabric,
    /// How often the machine was suspended since it was started, if the kernel reports it.
    pub suspends: Option<(u64, Evidence)>,
    /// Whether the driver preserves GPU memory during suspend, if it reports that.
    pub keeps_memory: Option<bool>,
    /// `nvidia_uvm`, the module behind `/dev/nvidia-uvm`, if it is loaded.
    pub uvm: Option<Evidence>,
    /// Whether a repository besides the distribution's has packages of the driver: NVIDIA's, or that of `graphics-drivers`.
    pub own_repository: bool,
    /// First line of a Jetson's Linux for Tegra release file.
    pub tegra: Option<Evidence>,
}

/// NVSwitches and their manager.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fabric {
    /// All NVSwitches.
    pub switches: Vec<Evidence>,
    /// The manager's program or systemd unit, if it is installed.
    pub installed: Option<Evidence>,
    /// The link that starts it at boot.
    pub enabled: Option<Evidence>,
    /// The file that shows that it is running.
    pub running: Option<Evidence>,
}

pub(super) fn gather(context: &SignContext<'_>) -> System {
    let host = context.host;
    let has_gpu = context.facts.gpus.iter().any(|gpu| gpu.vendor == Vendor::Nvidia);
    let fabric = if has_gpu { fabric(host) } else { Fabric::default() };
    System {
        fabric,
        suspends: suspends(host),
        keeps_memory: parameter(host, "PreserveVideoMemoryAllocations").map(|value| value == "1"),
        uvm: first(host, &["/sys/module/nvidia_uvm"]),
        own_repository: has_gpu && REPOSITORIES.iter().any(|pattern| !glob(host, pattern).is_empty()),
        tegra: tegra(host),
    }
}

/// Treats NVIDIA's bridges on a machine with compute GPUs as NVSwitches. Old chipsets have such bridges too, but no compute GPUs.
fn fabric(host: &dyn ReadFiles) -> Fabric {
    let text = |address: &str, name: &str| {
        let path = host.path(PCI).join(address).join(name);
        host.read_text(&path).unwrap_or_default().trim().to_lowercase()
    };
    let devices = host.list(&host.path(PCI)).unwrap_or_default();
    let of_nvidia: Vec<(String, String)> = devices
        .into_iter()
        .filter(|address| text(address, "vendor") == "0x10de")
        .map(|address| (text(&address, "class"), address))
        .collect();
    let has_compute = of_nvidia.iter().any(|(class, _)| class.starts_with("0x0302"));
    let mut switches: Vec<Evidence> = of_nvidia
        .iter()
        .filter(|(class, _)| has_compute && class.starts_with("0x0680"))
        .map(|(class, address)| {
            Evidence::file(format!("{PCI}/{address}"), format!("NVSwitch, class {class}"))
        })
        .collect();
    if switches.is_empty() {
        switches.extend(first(host, &["/dev/nvidia-nvswitchctl"]));
    }
    let wanted = glob(host, &format!("/etc/systemd/system/*.wants/{UNIT}"));
    Fabric {
        installed: first(
            host,
            &[
                &format!("/usr/bin/{MANAGER}"),
                &format!("/usr/sbin/{MANAGER}"),
                &format!("/usr/local/bin/{MANAGER}"),
                &format!("/lib/systemd/system/{UNIT}"),
                &format!("/usr/lib/systemd/system/{UNIT}"),
                &format!("/etc/systemd/system/{UNIT}"),
            ],
        ),
        enabled: wanted.first().map(|link| Evidence::file(link.as_str(), "present")),
        running: first(
            host,
            &[
                &format!("/run/nvidia-fabricmanager/{MANAGER}.pid"),
                &format!("/var/run/nvidia-fabricmanager/{MANAGER}.pid"),
                &format!("/var/run/{MANAGER}.pid"),
            ],
        ),
        switches,
    }
}

fn first(host: &dyn ReadFiles, places: &[&str]) -> Option<Evidence> {
    let place = places.iter().find(|place| host.exists(&host.path(place)))?;
    Some(Evidence::file(*place, "present"))
}

fn suspends(host: &dyn ReadFiles) -> Option<(u64, Evidence)> {
    let place = "/sys/power/suspend_stats/success";
    let count = host.read_text(&host.path(place)).ok()?.trim().parse().ok()?;
    Some((count, Evidence::file(place, format!("{count}"))))
}

/// A parameter of the loaded module: `PreserveVideoMemoryAllocations: 0`.
fn parameter(host: &dyn ReadFiles, wanted: &str) -> Option<String> {
    let text = host.read_text(&host.path("/proc/driver/nvidia/params")).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == wanted).then(|| value.trim().to_owned())
    })
}

fn tegra(host: &dyn ReadFiles) -> Option<Evidence> {
    let place = "/etc/nv_tegra_release";
    let text = host.read_text(&host.path(place)).ok()?;
    let line = text.lines().next().unwrap_or_default().trim_start_matches("# ");
    Some(Evidence::file(place, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, Os, RecordedHost};

    fn device(host: RecordedHostBuilder, address: &str, class: &str) -> RecordedHostBuilder {
        host.file(&format!("{PCI}/{address}/class"), &format!("{class}\n"))
            .file(&format!("{PCI}/{address}/vendor"), "0x10de\n")
    }

    #[test]
    fn bridges_on_a_machine_with_compute_gpus_are_switches() {
        let linux = || RecordedHost::builder(Os::Linux, Arch::X86_64);
        let hgx = device(device(linux(), "0000:05:00.0", "0x068000"), "0000:1b:00.0", "0x030200");
        assert_eq!(fabric(&hgx.clone().build()).switches.len(), 1);
        let managed = fabric(
            &hgx.opaque("/usr/bin/nv-fabricmanager")
                .link(
                    "/etc/systemd/system/multi-user.target.wants/nvidia-fabricmanager.service",
                    "/lib/systemd/system/nvidia-fabricmanager.service",
                )
                .file("/run/nvidia-fabricmanager/nv-fabricmanager.pid", "812\n")
                .opaque("/lib/systemd/system/nvidia-fabricmanager.service")
                .build(),
        );
        assert!(managed.installed.is_some() && managed.enabled.is_some() && managed.running.is_some());
        // A chipset of 2006 with its network device, and a display GPU.
        let old = device(device(linux(), "0000:00:0a.0", "0x068000"), "0000:01:00.0", "0x030000");
        assert_eq!(fabric(&old.build()).switches, []);
    }

    #[test]
    fn suspend_count_and_driver_parameters_are_read() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/sys/power/suspend_stats/success", "3\n")
            .file(
                "/proc/driver/nvidia/params",
                "ResmanDebugLevel: 4294967295\nPreserveVideoMemoryAllocations: 0\n",
            )
            .build();
        assert_eq!(suspends(&host).unwrap().0, 3);
        assert_eq!(parameter(&host, "PreserveVideoMemoryAllocations").as_deref(), Some("0"));
    }
}
