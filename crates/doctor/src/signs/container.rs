//! Signs of containers and WSL: what an image requests, what the host provides, and which container engines a machine has.

use gpubuild_detect::finding::Evidence;
use gpubuild_detect::json;
use gpubuild_host::{HostInfo, Os, ReadFiles, find_program, glob, library};

use super::SignContext;

/// Observations about containers and WSL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerSigns {
    /// What the image requests.
    pub image: ContainerImage,
    /// Evidence that this is a CI job.
    pub ci: Option<Evidence>,
    /// Whether the PCI bus is visible. If it is, a GPU that is not on it is not present.
    pub has_pci_bus: bool,
    /// NVIDIA device nodes.
    pub nvidia_nodes: Vec<Evidence>,
    /// Container engines of this machine; empty in a container.
    pub engines: Engines,
    /// Observations about WSL.
    pub wsl: Wsl,
}

/// The variables of NVIDIA's images and of NVIDIA's container toolkit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerImage {
    /// Value of `NVIDIA_VISIBLE_DEVICES`.
    pub devices: Option<String>,
    /// Value of `NVIDIA_DRIVER_CAPABILITIES`.
    pub capabilities: Option<String>,
    /// A variable that shows that the image is for CUDA.
    pub is_for_cuda: Option<Evidence>,
}

impl ContainerImage {
    /// Whether the variables request a container without GPUs.
    #[must_use]
    pub fn requests_no_gpu(&self) -> bool {
        self.devices.as_deref().is_some_and(|devices| matches!(devices.trim(), "" | "void" | "none"))
    }

    /// Whether a driver capability is enabled. The default is `compute` and `utility`.
    #[must_use]
    pub fn has(&self, capability: &str) -> bool {
        let list = match self.capabilities.as_deref().map(str::trim) {
            None | Some("") => "compute,utility",
            Some(list) => list,
        };
        list.split(',').map(str::trim).any(|one| one == capability || one == "all")
    }
}

/// The container engines of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Engines {
    /// Docker's daemon or its socket.
    pub docker: Option<Evidence>,
    /// Whether Docker is Ubuntu's snap, which cannot start programs of the host.
    pub is_snap: bool,
    /// Podman.
    pub podman: Option<Evidence>,
    /// NVIDIA's container toolkit.
    pub toolkit: Option<Evidence>,
    /// The hook of the container toolkit, which Docker runs for `--gpus`.
    pub hook: Option<Evidence>,
    /// Docker's configuration file, and whether it defines NVIDIA's runtime.
    pub configuration: Option<(bool, Evidence)>,
    /// A CDI specification of the GPUs, for engines that support CDI.
    pub cdi: Option<Evidence>,
}

/// Observations about WSL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wsl {
    /// `/dev/dxg`, the device node of the GPU.
    pub device: Option<Evidence>,
    /// The driver library that Windows provides for NVIDIA GPUs.
    pub cuda: Option<Evidence>,
    /// AMD's library that connects ROCm to that device (`librocdxg.so`).
    pub bridge: Option<Evidence>,
    /// ROCm's older runtime for WSL.
    pub old_runtime: Option<Evidence>,
    /// Where that library is enabled.
    pub switched_on: Option<Evidence>,
}

pub(super) fn gather(context: &SignContext<'_>) -> ContainerSigns {
    let host = context.host;
    if context.facts.platform.os != Os::Linux {
        return ContainerSigns::default();
    }
    let names =
        ["CI", "GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "BUILDKITE", "TF_BUILD", "TEAMCITY_VERSION"];
    let ci = names.iter().find_map(|name| {
        let value = host.env().get(name).filter(|value| !matches!(*value, "0" | "false"))?;
        Some(Evidence::env(*name, value))
    });
    let nodes = glob(host, "/dev/nvidia*");
    ContainerSigns {
        image: image(host),
        ci,
        has_pci_bus: !host.list(&host.path("/sys/bus/pci/devices")).unwrap_or_default().is_empty(),
        nvidia_nodes: nodes.iter().map(|node| Evidence::file(node.as_str(), "present")).collect(),
        engines: if context.facts.container.is_none() { engines(host) } else { Engines::default() },
        wsl: if context.facts.wsl.is_some() { wsl(host) } else { Wsl::default() },
    }
}

fn image(host: &dyn HostInfo) -> ContainerImage {
    let value = |name: &str| host.env().get_raw(name).map(str::to_owned);
    let devices = value("NVIDIA_VISIBLE_DEVICES");
    let named = devices.as_ref().map(|list| Evidence::env("NVIDIA_VISIBLE_DEVICES", list));
    let others = ["NVIDIA_REQUIRE_CUDA", "NV_CUDA_CUDART_VERSION", "CUDA_VERSION"];
    let by_version = others.iter().find_map(|name| Some(Evidence::env(*name, value(name)?)));
    ContainerImage {
        devices,
        capabilities: value("NVIDIA_DRIVER_CAPABILITIES"),
        is_for_cuda: named.or(by_version),
    }
}

fn engines(host: &dyn ReadFiles) -> Engines {
    let home = host.env().get("HOME").unwrap_or("/nonexistent").to_owned();
    let program = |name: &str| {
        let fixed = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/nvidia/toolkit"];
        let known = fixed.iter().map(|folder| host.path(folder).join(name)).find(|path| host.is_file(path));
        known.or_else(|| find_program(host, name).into_iter().next())
    };
    let there = |path: &str| host.exists(&host.path(path)).then(|| Evidence::file(path, "present"));
    let found = |name: &str| program(name).map(|path| Evidence::file(path.as_str(), "present"));
    // `docker` alone can be Podman's wrapper; with the daemon's socket it is Docker.
    let by_socket = || {
        let sockets = ["/run/docker.sock", "/var/run/docker.sock"];
        found("docker").and_then(|_| sockets.iter().find_map(|socket| there(socket)))
    };
    let native = found("dockerd").or_else(|| there(&format!("{home}/bin/dockerd"))).or_else(by_socket);
    let snap = there("/snap/bin/docker").or_else(|| there("/var/snap/docker"));
    let files = [
        "/etc/docker/daemon.json".to_owned(),
        format!("{home}/.config/docker/daemon.json"),
        "/var/snap/docker/current/config/daemon.json".to_owned(),
    ];
    let configurations: Vec<(bool, Evidence)> = files
        .iter()
        .filter_map(|file| Some(configuration(file, &host.read_text(&host.path(file)).ok()?)))
        .collect();
    let known = configurations.iter().find(|(defined, _)| *defined).or(configurations.first()).cloned();
    let descriptions =
        ["/etc/cdi/nvidia*", "/var/run/cdi/nvidia*", "/run/cdi/nvidia*", "/var/run/cdi/*nvidia*"];
    let cdi = descriptions.iter().flat_map(|pattern| glob(host, pattern)).next();
    Engines {
        is_snap: native.is_none() && snap.is_some(),
        docker: native.or(snap),
        podman: found("podman"),
        toolkit: ["nvidia-ctk", "nvidia-container-runtime", "nvidia-container-cli", "nvidia-docker"]
            .iter()
            .find_map(|name| found(name)),
        hook: found("nvidia-container-runtime-hook").or_else(|| found("nvidia-container-toolkit")),
        configuration: known,
        cdi: cdi.map(|path| Evidence::file(path.as_str(), "present")),
    }
}

/// Whether a Docker configuration defines NVIDIA's runtime.
fn configuration(file: &str, text: &str) -> (bool, Evidence) {
    let Some(document) = json::parse(text) else {
        return (false, Evidence::file(file, "not JSON"));
    };
    let runtimes = document.get("runtimes").and_then(serde_json::Value::as_object);
    let defined = runtimes.is_some_and(|runtimes| runtimes.keys().any(|name| name.starts_with("nvidia")));
    let default = document.get("default-runtime").and_then(serde_json::Value::as_str);
    let runtime =
        if defined { "defines the runtime `nvidia`" } else { "does not define the runtime `nvidia`" };
    let default = default.map(|name| format!(", default is `{name}`")).unwrap_or_default();
    (defined, Evidence::file(file, format!("{runtime}{default}")))
}

fn wsl(host: &dyn ReadFiles) -> Wsl {
    let there = |path: &str| host.exists(&host.path(path)).then(|| Evidence::file(path, "present"));
    let bridge = library::find(host, "librocdxg.so")
        .or_else(|| library::find(host, "librocdxg.so.1"))
        .or_else(|| glob(host, "/opt/rocm*/lib/librocdxg.so*").into_iter().next());
    let variable = "HSA_ENABLE_DXG_DETECTION";
    let by_env = host.env().get(variable).filter(|value| value.trim() == "1");
    let file = "/etc/rocm/rocm.conf";
    let by_file = host.read_text(&host.path(file)).ok().and_then(|text| {
        let switched = |line: &&str| {
            line.split_once('=').is_some_and(|(name, value)| name.trim() == variable && value.trim() == "1")
        };
        text.lines().find(switched).map(|line| Evidence::file(file, line.trim()))
    });
    Wsl {
        device: there("/dev/dxg"),
        cuda: there("/usr/lib/wsl/lib/libcuda.so.1"),
        bridge: bridge.map(|path| Evidence::file(path.as_str(), "present")),
        old_runtime: there("/var/lib/dpkg/info/hsa-runtime-rocr4wsl-amdgpu.list"),
        switched_on: by_env.map(|value| Evidence::env(variable, value)).or(by_file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, RecordedHost};

    #[test]
    fn capabilities_have_a_default() {
        let image = |capabilities: Option<&str>| ContainerImage {
            capabilities: capabilities.map(str::to_owned),
            ..ContainerImage::default()
        };
        assert!(image(None).has("compute") && !image(None).has("graphics"));
        assert!(image(Some("")).has("utility"));
        assert!(image(Some("all")).has("graphics"));
        assert!(image(Some("compute, graphics")).has("graphics") && !image(Some("graphics")).has("compute"));
        for (devices, none) in [("void", true), ("none", true), ("", true), ("all", false), ("0", false)] {
            let image = ContainerImage { devices: Some(devices.to_owned()), ..ContainerImage::default() };
            assert_eq!(image.requests_no_gpu(), none, "{devices}");
        }
    }

    #[test]
    fn docker_configuration_is_parsed() {
        let real = r#"{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}, "default-runtime": "nvidia"}"#;
        assert!(configuration("f", real).0);
        assert!(!configuration("f", r#"{"log-driver": "journald"}"#).0);
        assert_eq!(configuration("f", "{broken").1.value, "not JSON");
    }

    #[test]
    fn docker_and_the_container_toolkit_are_found() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .executable("/usr/bin/dockerd")
            .executable("/usr/bin/nvidia-ctk")
            .file("/var/run/cdi/nvidia.yaml", "cdiVersion: 0.5.0\n")
            .build();
        let seen = engines(&host);
        assert!(seen.docker.is_some() && !seen.is_snap && seen.toolkit.is_some() && seen.cdi.is_some());
        assert_eq!(seen.hook, None);
        let snap = RecordedHost::builder(Os::Linux, Arch::X86_64).executable("/snap/bin/docker").build();
        assert!(engines(&snap).is_snap);
    }

    #[test]
    fn rocm_bridge_is_enabled_by_variable_or_file() {
        let linux = || RecordedHost::builder(Os::Linux, Arch::X86_64);
        assert_eq!(wsl(&linux().build()).switched_on, None);
        assert!(wsl(&linux().env("HSA_ENABLE_DXG_DETECTION", "1").build()).switched_on.is_some());
        assert!(wsl(&linux().env("HSA_ENABLE_DXG_DETECTION", "0").build()).switched_on.is_none());
        let file = linux().file("/etc/rocm/rocm.conf", "[rocr]\nHSA_ENABLE_DXG_DETECTION = 1\n");
        assert!(wsl(&file.build()).switched_on.is_some());
    }
}
