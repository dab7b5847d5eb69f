//! Linux systems that are images or declared by a configuration, from `toolkits/tables/systems.toml`.

use std::sync::OnceLock;

use gpubuild_host::search::star_matches;
use gpubuild_host::{InspectHost, Os};
use gpubuild_toml::Lazy;
use gpubuild_toolkits::tables;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SystemTable {
    /// Distributions with a package manager.
    plain: Vec<String>,
    /// Programs that change a system with a package manager.
    programs: Vec<String>,
    system: Lazy<Vec<ImageSystem>>,
}

/// A system into which packages are not installed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageSystem {
    /// Its id, which tables of remedies use as a key.
    pub id: String,
    /// Its name, for messages.
    pub name: String,
    #[serde(default)]
    ids: Vec<String>,
    #[serde(default)]
    variants: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    /// Patterns for the kernel release of systems whose os-release is that of another distribution.
    #[serde(default)]
    kernels: Vec<String>,
    /// Whether nothing is built on it: the tools are missing by design.
    #[serde(default)]
    pub appliance: bool,
    /// The command that adds `{packages}` to the next image.
    pub layer: Option<String>,
    /// The command that updates the image.
    pub upgrade: Option<String>,
    /// The command that changes the kernel's arguments.
    pub kargs: Option<String>,
    /// The command that creates a container for build tools.
    pub create: Option<String>,
    /// The command that runs `{command}` in that container.
    pub enter: Option<String>,
    /// How the system is changed, as the end of a sentence.
    pub advice: String,
    /// The commands if those of a package manager were left out.
    pub fallback: Vec<String>,
    /// Where this is documented.
    pub source: String,
}

/// The embedded table. A test parses it.
fn table() -> &'static SystemTable {
    static TABLE: OnceLock<SystemTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        gpubuild_toml::from_static(tables::SYSTEMS).expect("toolkits/tables/systems.toml is tested")
    })
}

/// All rows of the table.
#[must_use]
pub fn rows() -> &'static [ImageSystem] {
    &table().system
}

/// The image-based system of a host. `None` for systems with a package manager.
pub(super) fn probe(host: &dyn InspectHost) -> Option<&'static ImageSystem> {
    if host.platform().os != Os::Linux {
        return None;
    }
    let release = super::os::release_file(host).map(|(_, text)| text).unwrap_or_default();
    let value = |name: &str| super::os::release_value(&release, name).unwrap_or_default().to_lowercase();
    let (id, variant) = (value("ID"), value("VARIANT_ID"));
    let is_ostree = || host.exists(&host.path("/run/ostree-booted"));
    let is_one = |patterns: &[String], text: &str| patterns.iter().any(|pattern| star_matches(pattern, text));
    let kernel = super::os::probe_kernel(host).map(|fact| fact.value).unwrap_or_default();
    if let Some(system) = table().system.iter().find(|system| is_one(&system.kernels, &kernel)) {
        return Some(system);
    }
    if variant.is_empty() && table().plain.contains(&id) && !is_ostree() {
        return None;
    }
    table().system.iter().find(|system| {
        is_one(&system.ids, &id)
            || (!variant.is_empty() && is_one(&system.variants, &variant))
            || system.files.iter().any(|file| host.exists(&host.path(file)))
    })
}

impl ImageSystem {
    /// Translates commands for a system with a package manager. `build` selects the container for build tools.
    #[must_use]
    pub fn translate(&self, commands: &[String], build: bool) -> TranslatedCommands {
        let mut translated = TranslatedCommands::default();
        let container = self.create.as_ref().zip(self.enter.as_ref()).filter(|_| build);
        for command in commands {
            if !is_of_package_manager(command) {
                translated.commands.push(command.clone());
            } else if let Some((create, enter)) = container {
                if translated.commands.iter().all(|known| known != create) {
                    translated.commands.push(create.clone());
                }
                translated.commands.push(enter.replace("{command}", command));
            } else if let Some(other) = self.layered(command) {
                translated.reboot = true;
                if translated.commands.iter().all(|known| *known != other) {
                    translated.commands.push(other);
                }
            } else {
                translated.omitted = true;
            }
        }
        // On an appliance, what precedes and follows an installation has no use without it: the repository, the restart.
        if translated.omitted && (translated.commands.is_empty() || self.appliance) {
            translated.commands.clone_from(&self.fallback);
        }
        translated
    }

    /// The command that has the effect of a package manager's command on the next image.
    fn layered(&self, command: &str) -> Option<String> {
        let words: Vec<&str> = command.split_whitespace().filter(|word| *word != "sudo").collect();
        let url = words.iter().find(|word| {
            word.contains("https://") && word.rsplit_once('.').is_some_and(|(_, end)| end == "repo")
        });
        if let (Some(url), Some(_)) = (url, &self.kargs) {
            let url = &url[url.find("https://")?..];
            let name = url.rsplit('/').next()?;
            return Some(format!("sudo curl -fsSL -o /etc/yum.repos.d/{name} {url}"));
        }
        if words.first() == Some(&"grubby") {
            let arguments = words.iter().find_map(|word| word.strip_prefix("--args='"))?;
            let rest = words.iter().skip_while(|word| !word.starts_with("--args=")).skip(1).copied();
            let all = std::iter::once(arguments)
                .chain(rest)
                .map(|word| format!("--append={}", word.trim_matches('\'')));
            return Some(format!("{} {}", self.kargs.as_ref()?, all.collect::<Vec<_>>().join(" ")));
        }
        match words.get(1).copied() {
            Some("install") => {
                let packages: Vec<&str> =
                    words[2..].iter().copied().filter(|word| !word.starts_with('-')).collect();
                Some(self.layer.as_ref()?.replace("{packages}", &packages.join(" ")))
            }
            Some("update" | "upgrade" | "dup") => self.upgrade.clone(),
            _ => None,
        }
    }
}

/// The result of [`ImageSystem::translate`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranslatedCommands {
    /// The commands for this system.
    pub commands: Vec<String>,
    /// Whether commands were left out because the system has no equivalent.
    pub omitted: bool,
    /// Whether the next image has to be started.
    pub reboot: bool,
}

/// Whether a command changes the installed packages, the initial file system or the kernel's arguments of a mutable system.
fn is_of_package_manager(command: &str) -> bool {
    if command.contains("# on the host") || command.contains("# in Windows") {
        return false;
    }
    let first = command.split_whitespace().find(|word| *word != "sudo").unwrap_or_default();
    table().programs.iter().any(|program| program == first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, RecordedHost};

    fn system(release: &str) -> Option<&'static str> {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).file("/etc/os-release", release).build();
        probe(&host).map(|system| system.id.as_str())
    }

    #[test]
    fn systems_are_recognised_by_os_release() {
        for (release, expected) in [
            ("ID=fedora\nVARIANT_ID=silverblue\n", Some("ostree")),
            ("ID=fedora\nVARIANT_ID=workstation\n", None),
            ("ID=bazzite\nID_LIKE=\"fedora\"\nVARIANT_ID=bazzite-nvidia\n", Some("ublue")),
            ("ID=fedora\nVARIANT_ID=bluefin-dx\n", Some("ublue")),
            ("ID=nixos\n", Some("nixos")),
            ("ID=guix\n", Some("guix")),
            ("ID=steamos\nID_LIKE=arch\nVARIANT_ID=steamdeck\n", Some("steamos")),
            ("ID=talos\n", Some("talos")),
            ("ID=\"opensuse-microos\"\n", Some("microos")),
            ("ID=ubuntu\nVERSION_ID=\"24.04\"\n", None),
        ] {
            assert_eq!(system(release), expected, "{release}");
        }
        for row in rows() {
            let is_plain = |pattern: &String| table().plain.iter().any(|id| star_matches(pattern, id));
            assert!(!row.ids.iter().any(is_plain), "{}", row.id);
            assert!(row.files.iter().all(|file| file == "/run/ostree-booted"), "{}", row.id);
        }
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).file("/run/ostree-booted", "").build();
        assert_eq!(probe(&host).map(|system| system.id.as_str()), Some("ostree"));
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n")
            .file("/proc/sys/kernel/osrelease", "6.6.44-production+truenas\n")
            .build();
        assert_eq!(probe(&host).map(|system| system.id.as_str()), Some("truenas"));
    }

    #[test]
    fn commands_are_translated() {
        let row = |id: &str| rows().iter().find(|row| row.id == id).unwrap();
        let translate =
            |id: &str, build, command: &str| row(id).translate(&[command.to_owned()], build).commands;
        assert_eq!(
            translate(
                "ostree",
                false,
                "sudo dnf install --allowerasing akmod-nvidia xorg-x11-drv-nvidia-cuda"
            ),
            ["sudo rpm-ostree install akmod-nvidia xorg-x11-drv-nvidia-cuda"]
        );
        assert_eq!(
            translate("ostree", true, "sudo dnf install gcc-c++"),
            ["toolbox create --assumeyes build", "toolbox run --container build sudo dnf install gcc-c++"]
        );
        assert_eq!(
            translate(
                "ostree",
                false,
                "sudo grubby --update-kernel=ALL --args='rd.driver.blacklist=nouveau a=b'"
            ),
            ["sudo rpm-ostree kargs --append=rd.driver.blacklist=nouveau --append=a=b"]
        );
        assert_eq!(
            translate("ostree", false, "sudo dnf config-manager --add-repo https://x.example/cuda.repo"),
            ["sudo curl -fsSL -o /etc/yum.repos.d/cuda.repo https://x.example/cuda.repo"]
        );
        assert_eq!(translate("nixos", false, "sudo apt install gcc"), ["sudo nixos-rebuild switch"]);
        assert_eq!(translate("steamos", false, "unset CC"), ["unset CC"]);
        for system in rows() {
            assert!(!system.advice.is_empty() && !system.source.is_empty(), "{}", system.id);
            assert_eq!(system.create.is_some(), system.enter.is_some(), "{}", system.id);
        }
    }
}
