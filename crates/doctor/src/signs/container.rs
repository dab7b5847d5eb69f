//! Signs about containers and WSL: what an image says that it wants, what the machine around it could give, and what a
//! machine has to start containers with.

use gpubuild_detect::finding::Evidence;
use gpubuild_host::{HostInfo, Os, ReadFiles, find_program, glob, library};

use super::SignContext;

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerSigns {
    /// What an image says that it wants.
    pub image: ContainerImage,
    /// That this runs unattended, to build or test something.
    pub ci: Option<Evidence>,
    /// Whether the PCI bus is visible at all: a card that is not on it then is not there.
    pub sees_bus: bool,
    /// Nodes of NVIDIA that are there.
    pub nvidia_nodes: Vec<Evidence>,
    /// What this machine starts containers with.
    pub engines: Engines,
    /// WSL.
    pub wsl: Wsl,
}

/// What the variables of NVIDIA's images and of NVIDIA's container toolkit say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerImage {
    /// `NVIDIA_VISIBLE_DEVICES`, as it is set.
    pub devices: Option<String>,
    /// `NVIDIA_DRIVER_CAPABILITIES`, as it is set.
    pub capabilities: Option<String>,
    /// A variable by which the image is one for CUDA.
    pub is_for_cuda: Option<Evidence>,
}

impl ContainerImage {
    /// Whether somebody asked for no GPU.
    #[must_use]
    pub fn wants_none(&self) -> bool {
        self.devices.as_deref().is_some_and(|devices| matches!(devices.trim(), "" | "void" | "none"))
    }

    /// Whether a capability is given. Without the variable it is `compute` and `utility`.
    #[must_use]
    pub fn has(&self, capability: &str) -> bool {
        let list = match self.capabilities.as_deref().map(str::trim) {
            None | Some("") => "compute,utility",
            Some(list) => list,
        };
        list.split(',').map(str::trim).any(|one| one == capability || one == "all")
    }
}

/// What this machine starts containers with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Engines {
    /// Docker's daemon.
    pub docker: Option<Evidence>,
    /// Whether it is Ubuntu's snap, which cannot start programs of the machine.
    pub is_snap: bool,
    /// Podman.
    pub podman: Option<Evidence>,
    /// NVIDIA's container toolkit.
    pub toolkit: Option<Evidence>,
    /// Its part that Docker calls for `--gpus`.
    pub hook: Option<Evidence>,
    /// Docker's configuration, and whether it knows NVIDIA's runtime.
    pub configuration: Option<(bool, Evidence)>,
    /// A description of the GPUs for every engine that reads CDI.
    pub cdi: Option<Evidence>,
}

/// WSL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wsl {
    /// `/dev/dxg`, behind which the GPU is.
    pub device: Option<Evidence>,
    /// The driver library that Windows puts there for NVIDIA's cards.
    pub cuda: Option<Evidence>,
    /// AMD's bridge from ROCm to that device.
    pub bridge: Option<Evidence>,
    /// ROCm's older runtime that was made for WSL.
    pub old_runtime: Option<Evidence>,
    /// Where the bridge is switched on.
    pub switched_on: Option<Evidence>,
}

/// Looks.
pub(super) fn gather(scene: &SignContext<'_>) -> ContainerSigns {
    let host = scene.host;
    if scene.facts.platform.os != Os::Linux {
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
        sees_bus: !host.list(&host.path("/sys/bus/pci/devices")).unwrap_or_default().is_empty(),
        nvidia_nodes: nodes.iter().map(|node| Evidence::file(node.as_str(), "present")).collect(),
        engines: if scene.facts.container.is_none() { engines(host) } else { Engines::default() },
        wsl: if scene.facts.wsl.is_some() { wsl(host) } else { Wsl::default() },
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
    // The program alone may be Podman's that is called so; with the daemon's socket it is Docker.
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
    let known = configurations.iter().find(|(knows, _)| *knows).or(configurations.first()).cloned();
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

/// Whether a configuration of Docker names NVIDIA's runtime.
fn configuration(file: &str, text: &str) -> (bool, Evidence) {
    let Ok(document) = serde_json::from_str::<serde_json::Value>(text) else {
        return (false, Evidence::file(file, "is no JSON"));
    };
    let runtimes = document.get("runtimes").and_then(serde_json::Value::as_object);
    let knows = runtimes.is_some_and(|runtimes| runtimes.keys().any(|name| name.starts_with("nvidia")));
    let default = document.get("default-runtime").and_then(serde_json::Value::as_str);
    let said = if knows { "knows the runtime `nvidia`" } else { "knows no runtime `nvidia`" };
    let default = default.map(|name| format!(", default is `{name}`")).unwrap_or_default();
    (knows, Evidence::file(file, format!("{said}{default}")))
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
            assert_eq!(image.wants_none(), none, "{devices}");
        }
    }

    #[test]
    fn docker_s_configuration_is_read() {
        let real = r#"{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}, "default-runtime": "nvidia"}"#;
        assert!(configuration("f", real).0);
        assert!(!configuration("f", r#"{"log-driver": "journald"}"#).0);
        assert_eq!(configuration("f", "{broken").1.value, "is no JSON");
    }

    #[test]
    fn a_machine_with_docker_and_the_toolkit() {
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
    fn the_bridge_can_be_switched_on_in_two_places() {
        let linux = || RecordedHost::builder(Os::Linux, Arch::X86_64);
        assert_eq!(wsl(&linux().build()).switched_on, None);
        assert!(wsl(&linux().env("HSA_ENABLE_DXG_DETECTION", "1").build()).switched_on.is_some());
        assert!(wsl(&linux().env("HSA_ENABLE_DXG_DETECTION", "0").build()).switched_on.is_none());
        let file = linux().file("/etc/rocm/rocm.conf", "[rocr]\nHSA_ENABLE_DXG_DETECTION = 1\n");
        assert!(wsl(&file.build()).switched_on.is_some());
    }
}
