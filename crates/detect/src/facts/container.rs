//! Detects containers and WSL, in which only a part of the machine is visible.

use gpubuild_host::{Os, ReadFiles};

use super::{Fact, trimmed};
use crate::finding::Evidence;

/// Files that identify a kind of container. The variable `NVIDIA_VISIBLE_DEVICES` is not evidence, because users also set it outside.
const MARKERS: [(&str, &str); 6] = [
    ("/var/run/secrets/kubernetes.io", "kubernetes"),
    ("/run/.containerenv", "podman"),
    ("/.dockerenv", "docker"),
    ("/.singularity.d", "singularity"),
    ("/dev/lxd/sock", "lxc"),
    ("/dev/.lxc", "lxc"),
];
/// Variables that Singularity and Apptainer set.
const SINGULARITY: [&str; 4] =
    ["APPTAINER_CONTAINER", "APPTAINER_NAME", "SINGULARITY_CONTAINER", "SINGULARITY_NAME"];
/// Texts in control group names that identify a kind of container, the most specific first.
const GROUP_MARKERS: [(&str, &str); 5] = [
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("lxc", "lxc"),
    ("containerd", "other"),
];

pub(super) fn probe_container(host: &dyn ReadFiles) -> Option<Fact<String>> {
    if host.platform().os != Os::Linux {
        return None;
    }
    let fact = |value: &str, found_via: &str, evidence: Evidence| {
        Some(Fact { value: value.to_owned(), found_via: found_via.to_owned(), evidence: vec![evidence] })
    };
    if let Some(server) = host.env().get("KUBERNETES_SERVICE_HOST") {
        let evidence = Evidence::env("KUBERNETES_SERVICE_HOST", server);
        return fact("kubernetes", "env:KUBERNETES_SERVICE_HOST", evidence);
    }
    for variable in SINGULARITY {
        if let Some(image) = host.env().get(variable) {
            return fact("singularity", "env", Evidence::env(variable, image));
        }
    }
    for (path, kind) in MARKERS {
        if host.exists(&host.path(path)) {
            return fact(kind, "file", Evidence::file(path, "present"));
        }
    }
    if let Some(manager) = host.env().get("container") {
        return fact(known_kind(manager), "env:container", Evidence::env("container", manager));
    }
    if let Some(manager) = trimmed(host, "/run/systemd/container") {
        let evidence = Evidence::file("/run/systemd/container", manager.clone());
        return fact(known_kind(&manager), "file", evidence);
    }
    for path in ["/proc/1/cgroup", "/proc/self/cgroup"] {
        let kind = trimmed(host, path).as_deref().and_then(parse_groups);
        if let Some(kind) = kind {
            return fact(kind, "procfs", Evidence::file(path, kind));
        }
    }
    None
}

/// Maps the name of a container manager to a kind; `other` if it is unknown.
fn known_kind(manager: &str) -> &'static str {
    match manager {
        "docker" => "docker",
        "podman" => "podman",
        "lxc" | "lxc-libvirt" => "lxc",
        "singularity" | "apptainer" => "singularity",
        _ => "other",
    }
}

/// The kind of container, determined by control group names. Ignores system services (`/system.slice/docker.service`).
fn parse_groups(text: &str) -> Option<&'static str> {
    let groups: Vec<&str> = text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
    GROUP_MARKERS.iter().find_map(|(word, kind)| {
        let inside = groups.iter().any(|group| {
            group.split('/').any(|name| {
                name.starts_with(word) && !name.ends_with(".service") && !name.ends_with(".socket")
            })
        });
        inside.then_some(*kind)
    })
}

pub(super) fn probe_wsl(host: &dyn ReadFiles, kernel: Option<&str>) -> Option<Fact<u32>> {
    if host.platform().os != Os::Linux {
        return None;
    }
    let release = kernel?;
    let version = parse_wsl(release)?;
    let mut evidence = vec![Evidence::file("/proc/sys/kernel/osrelease", release)];
    if host.exists(&host.path("/dev/dxg")) {
        evidence.push(Evidence::file("/dev/dxg", "present"));
    }
    if let Some(name) = host.env().get("WSL_DISTRO_NAME") {
        evidence.push(Evidence::env("WSL_DISTRO_NAME", name));
    }
    Some(Fact { value: version, found_via: "procfs".to_owned(), evidence })
}

/// The WSL version, determined by the kernel release: `5.15.153.1-microsoft-standard-WSL2` is 2, `4.4.0-19041-Microsoft` is 1.
fn parse_wsl(release: &str) -> Option<u32> {
    let lower = release.to_lowercase();
    if !lower.contains("microsoft") {
        return None;
    }
    Some(if lower.starts_with("4.4.") && !lower.contains("wsl2") { 1 } else { 2 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, RecordedHost};

    fn check(host: RecordedHostBuilder, expected: Option<&str>) {
        let fact = probe_container(&host.build());
        assert_eq!(fact.as_ref().map(|fact| fact.value.as_str()), expected);
    }

    #[test]
    fn containers_are_detected_by_files_variables_and_groups() {
        let linux = || RecordedHost::builder(Os::Linux, Arch::X86_64);
        check(linux().file("/.dockerenv", ""), Some("docker"));
        check(linux().file("/run/.containerenv", "engine=\"podman\""), Some("podman"));
        check(linux().file("/.dockerenv", "").env("KUBERNETES_SERVICE_HOST", "10.0.0.1"), Some("kubernetes"));
        check(linux().env("container", "lxc"), Some("lxc"));
        check(linux().env("container", "systemd-nspawn"), Some("other"));
        check(linux().env("APPTAINER_CONTAINER", "/home/user/image.sif"), Some("singularity"));
        check(linux().directory("/.singularity.d"), Some("singularity"));
        check(linux().file("/proc/1/cgroup", "0::/kubepods/besteffort/pod1\n"), Some("kubernetes"));
        check(linux().file("/proc/self/cgroup", "1:name=systemd:/docker/4f2\n"), Some("docker"));
        check(linux().file("/proc/self/cgroup", "0::/system.slice/docker.service\n"), None);
        check(linux().file("/proc/self/cgroup", "0::/user.slice/user-1000.slice\n"), None);
        check(linux().env("NVIDIA_VISIBLE_DEVICES", "all"), None);
        check(linux(), None);
    }

    #[test]
    fn wsl_is_detected_by_the_kernel_release() {
        assert_eq!(parse_wsl("5.15.153.1-microsoft-standard-WSL2"), Some(2));
        assert_eq!(parse_wsl("4.4.0-19041-Microsoft"), Some(1));
        assert_eq!(parse_wsl("6.6.0-microsoft-custom"), Some(2));
        assert_eq!(parse_wsl("6.1.0-30-amd64"), None);
    }
}
