//! How a service gets access to a GPU.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;

use crate::file::text::{SourceText, sanitize};
use crate::file::yaml::{YamlNode, YamlValue};

/// A service with the services that it extends.
pub(super) struct ComposeService<'a> {
    /// The service itself first.
    chain: Vec<&'a YamlNode>,
    /// Whether it extends a service in another file, whose settings are unknown.
    pub(super) extends_other_file: bool,
}

impl<'a> ComposeService<'a> {
    pub(super) fn new(document: &'a YamlNode, name: &str) -> Self {
        const MAX_CHAIN: usize = 16;
        let mut service = Self { chain: Vec::new(), extends_other_file: false };
        let mut next = Some(name.to_owned());
        while let Some(name) = next.take() {
            let Some(node) = document.at(&["services", &name]).filter(|_| service.chain.len() < MAX_CHAIN)
            else {
                break;
            };
            service.chain.push(node);
            if let Some(extends) = node.get("extends") {
                service.extends_other_file |= extends.get("file").is_some();
                next = extends.text().or_else(|| extends.text_of("service")).map(str::to_owned);
                next = next.filter(|_| extends.get("file").is_none());
            }
        }
        service
    }

    /// The value of a key in the first service of the chain that has it.
    pub(super) fn get(&self, key: &str) -> Option<&'a YamlNode> {
        self.chain.iter().find_map(|node| node.get(key))
    }

    /// The values of a key in all services of the chain.
    pub(super) fn all(&self, key: &str) -> Vec<&'a YamlNode> {
        self.chain.iter().filter_map(|node| node.get(key)).collect()
    }

    fn at(&self, path: &[&str]) -> Option<&'a YamlNode> {
        self.chain.iter().find_map(|node| node.at(path))
    }
}

/// The GPU access of a service.
#[derive(Debug, Default)]
pub(super) struct DeviceAccess {
    /// The line that requests NVIDIA GPUs.
    pub(super) nvidia: Option<usize>,
    /// The line of `runtime: nvidia`.
    pub(super) legacy: Option<usize>,
    /// The line of a reservation that Compose rejects; zero if it is in a wrong place.
    pub(super) invalid_reservation: Option<usize>,
    /// Whether the request includes the graphics capability.
    pub(super) has_graphics: bool,
    /// Whether AMD GPUs are requested by driver, runtime or CDI name.
    pub(super) amd: bool,
    /// The device nodes of the service.
    pub(super) nodes: DeviceNodes,
    pub(super) is_privileged: bool,
    /// The line of `group_add`.
    pub(super) groups: Option<usize>,
    /// The user of the container.
    pub(super) user: Option<String>,
}

/// The device nodes that ROCm, Vulkan and SYCL need.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DeviceNodes {
    /// `/dev/kfd`.
    pub(super) kfd: bool,
    /// `/dev/dri`.
    pub(super) dri: bool,
}

impl DeviceAccess {
    pub(super) fn of(service: &ComposeService<'_>) -> Self {
        let mut access = Self {
            is_privileged: service.get("privileged").and_then(YamlNode::text) == Some("true"),
            groups: service.get("group_add").map(|node| node.line),
            user: service.get("user").and_then(YamlNode::text).map(str::to_owned),
            ..Self::default()
        };
        access.nodes.kfd = access.is_privileged;
        access.nodes.dri = access.is_privileged;
        if let Some(gpus) = service.get("gpus") {
            access.nvidia = Some(gpus.line);
            access.requests(gpus.items().iter().map(AsRef::as_ref));
        }
        if let Some(runtime) = service.get("runtime") {
            match runtime.text() {
                Some("nvidia") => {
                    access.nvidia = Some(runtime.line);
                    access.legacy = Some(runtime.line);
                }
                Some("amd") => access.amd = true,
                _ => {}
            }
        }
        let reservations = service.at(&["deploy", "resources", "reservations"]);
        if let Some(devices) = reservations.and_then(|node| node.get("devices")) {
            if devices.items().iter().any(|device| device.get("capabilities").is_some()) {
                access.nvidia = access.nvidia.or(Some(devices.line));
                // With a reservation, `runtime: nvidia` is redundant.
                access.legacy = None;
            } else {
                access.invalid_reservation = Some(devices.line);
            }
            access.requests(devices.items().iter().map(AsRef::as_ref));
        }
        if let Some(generic) = reservations.and_then(|node| node.get("generic_resources")) {
            access.nvidia = access.nvidia.or(Some(generic.line));
        }
        if misplaced(service).is_some() {
            access.invalid_reservation = access.invalid_reservation.or(Some(0));
        }
        for node in service.all("devices").into_iter().flat_map(YamlNode::items) {
            let text = node.text().or_else(|| node.text_of("source")).unwrap_or_default();
            access.nodes.kfd |= text.starts_with("/dev/kfd");
            access.nodes.dri |= text.starts_with("/dev/dri");
            access.amd |= text.starts_with("amd.com/gpu");
            if text.starts_with("nvidia.com/gpu")
                || text.starts_with("/dev/nvidia")
                || text.starts_with("/dev/dxg")
            {
                access.nvidia = access.nvidia.or(Some(node.line));
            }
        }
        access
    }

    fn requests<'a>(&mut self, list: impl Iterator<Item = &'a YamlNode>) {
        for request in list {
            let capabilities = request.get("capabilities").map(YamlNode::one_or_many).unwrap_or_default();
            let has = |name: &str| capabilities.iter().any(|one| one.text() == Some(name));
            self.has_graphics |= has("graphics") || has("all") || has("display");
            self.amd |= request.text_of("driver") == Some("amd") || has("amdgpu");
        }
    }

    /// Whether the service gets access to any GPU.
    pub(super) fn is_any(&self) -> bool {
        self.nvidia.is_some() || self.amd || (self.nodes.dri && !self.is_privileged) || self.nodes.kfd
    }
}

/// The line and the path of a reservation in a place that Compose does not read.
fn misplaced(service: &ComposeService<'_>) -> Option<(usize, &'static str)> {
    let wrong: [(&[&str], &str); 6] = [
        (&["deploy", "resources", "limits", "devices"], "deploy.resources.limits.devices"),
        (&["deploy", "reservations", "devices"], "deploy.reservations.devices"),
        (&["resources", "reservations", "devices"], "resources.reservations.devices"),
        (&["deploy", "resources", "devices"], "deploy.resources.devices"),
        (&["deploy", "resources", "device_requests"], "deploy.resources.device_requests"),
        (&["device_requests"], "device_requests"),
    ];
    wrong.into_iter().find_map(|(path, name)| Some((service.at(path)?.line, name)))
}

/// Reports reservations that Compose rejects.
pub(super) fn check_reservations(
    source: &SourceText,
    service: &ComposeService<'_>,
    name: &str,
    drafts: &mut Vec<FindingDraft>,
) {
    let name = sanitize(name);
    let broken = |line: usize, why: String, fix: String| {
        let draft = source.draft(id!("file.reservation"), Severity::Error, line);
        let draft = draft.backend(Backend::Cuda).affects(Affects::Run);
        draft.summary(format!("Compose rejects the devices of service `{name}`: {why}")).fix(fix)
    };
    if let Some((line, path)) = misplaced(service) {
        drafts.push(broken(
            line,
            format!("`{path}` is not a valid location"),
            format!("move the list in line {line} to `deploy.resources.reservations.devices`"),
        ));
    }
    let Some(devices) = service.at(&["deploy", "resources", "reservations", "devices"]) else { return };
    if devices.items().is_empty() && !devices.pairs().is_empty() {
        drafts.push(broken(
            devices.line,
            "`devices` must be a list".to_owned(),
            format!("start line {} with `- `", devices.line),
        ));
    }
    for device in devices.items() {
        match device.get("capabilities") {
            None => drafts.push(broken(
                device.line,
                "`capabilities` is missing".to_owned(),
                format!("add `capabilities: [gpu]` to the device in line {}", device.line),
            )),
            Some(node) if matches!(node.value, YamlValue::Text { .. }) => {
                let text = node.text().unwrap_or_default();
                drafts.push(broken(
                    node.line,
                    "`capabilities` must be a list".to_owned(),
                    format!(
                        "change line {} to `capabilities: [{}]`",
                        node.line,
                        sanitize(if text.is_empty() { "gpu" } else { text })
                    ),
                ));
            }
            Some(_) => {}
        }
        if let (Some(count), Some(ids)) = (device.get("count"), device.get("device_ids")) {
            drafts.push(broken(
                ids.line,
                "`count` and `device_ids` are mutually exclusive".to_owned(),
                format!("delete `count` in line {} to use exactly the listed devices", count.line),
            ));
        }
        if let Some(id) =
            device.get("device_ids").map(YamlNode::items).unwrap_or_default().iter().find(|id| id.is_number())
        {
            let text = id.text().unwrap_or_default();
            drafts.push(broken(
                id.line,
                format!("`device_ids` must be strings, but `{text}` is a number"),
                format!("write `'{text}'` in line {}", id.line),
            ));
        }
    }
}
