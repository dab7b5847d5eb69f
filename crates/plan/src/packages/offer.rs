//! Which set of packages a machine can install.

use gpubuild_detect::facts::Facts;
use gpubuild_detect::id;
use gpubuild_host::Os;

use super::set::{self, ManagerKind, PackageManager, PackageRow, PackageSet};
use crate::plan::provision::Objection;

/// A set that can be installed on a machine.
#[derive(Debug, Clone, Copy)]
pub struct PackageOffer<'a> {
    /// The set.
    pub set: &'a PackageSet,
    /// The row of the machine's distribution and release.
    pub row: &'a PackageRow,
    /// The package manager.
    pub kind: ManagerKind,
    /// Its description.
    pub manager: &'a PackageManager,
}

/// The set of a toolkit for a machine.
///
/// # Errors
/// Why it cannot be installed there, and what to do instead.
pub fn offer(facts: &Facts, toolkit: &str) -> Result<PackageOffer<'static>, Objection> {
    let set = set::set_of(toolkit).ok_or_else(|| {
        let known: Vec<&str> = set::all().iter().map(|set| set.toolkit.as_str()).collect();
        Objection {
            id: id!("toolkit.unknown"),
            text: format!("no distribution's packages are known for `{toolkit}`"),
            hint: Some(format!("known: {}", known.join(", "))),
        }
    })?;
    let refused =
        |text: String, hint: Option<String>| Objection { id: id!("toolkit.no-packages-here"), text, hint };
    let distributions = || {
        let mut known: Vec<&str> = set.distributions.iter().map(|row| row.id.as_str()).collect();
        known.dedup();
        format!("`{toolkit}` is installed from packages of {} only", known.join(", "))
    };
    if facts.platform.os != Os::Linux {
        return Err(refused(distributions(), None));
    }
    if let Some(system) = facts.system.filter(|_| facts.container.is_none()) {
        let text = format!("the package manager of {} is not described for `{toolkit}`", system.name);
        return Err(refused(text, Some(system.advice.clone())));
    }
    let distro = facts.distro.as_ref().map(|distro| &distro.value);
    let Some(distro) = distro.filter(|distro| set.distributions.iter().any(|row| row.id == distro.id)) else {
        return Err(refused(distributions(), None));
    };
    // Testing and unstable releases have no number; they are newer than every row.
    let version = distro.version.parse().ok();
    let row = (set.distributions.iter())
        .filter(|row| row.id == distro.id)
        .rfind(|row| version.as_ref().is_none_or(|version| row.since <= *version));
    let Some(row) = row else {
        let oldest =
            set.distributions.iter().find(|row| row.id == distro.id).map(|row| row.since.to_string());
        let text = format!(
            "`{toolkit}` is installed from packages of {} {} or newer, and this is {}",
            distro.id,
            oldest.unwrap_or_default(),
            distro.label()
        );
        return Err(refused(text, Some("build in a container of a newer release".to_owned())));
    };
    if let Some(why) = &row.why {
        return Err(refused(format!("`{toolkit}` on {}: {why}", distro.label()), row.instead.clone()));
    }
    let offer = |kind| PackageOffer { set, row, kind, manager: set::manager(kind) };
    row.manager.map(offer).ok_or_else(|| refused(distributions(), None))
}

/// The command that resolves a finding without root. `None` if the user is root and can run the package manager itself, if no set of
/// this machine resolves it, or if no installation with its package manager was ever tried.
#[must_use]
pub fn command(facts: &Facts, finding: &str) -> Option<String> {
    if facts.is_root {
        return None;
    }
    let set = set::all().iter().find(|set| set.fixes.iter().any(|id| *id == *finding))?;
    let kind = offer(facts, &set.toolkit).ok()?.kind;
    let is_tried = |row: &PackageRow| row.manager == Some(kind) && !row.tried.is_empty();
    set.distributions.iter().any(is_tried).then(|| format!("gpubuild toolkit install {}", set.toolkit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::facts;
    use gpubuild_host::RecordedHost;

    fn facts_of(os_release: &str, uid: u32) -> Facts {
        let text = format!(
            "schema = \"gpubuild.host/1\"\n[platform]\nos = \"linux\"\narch = \"x86_64\"\n[env]\nPATH = \"/usr/bin\"\n\
             [process]\nuid = {uid}\n[[file]]\npath = \"/etc/os-release\"\ntext = '''\n{os_release}'''\n"
        );
        facts::gather(&RecordedHost::parse("test.toml", &text).unwrap())
    }

    #[test]
    fn the_row_of_the_release_is_selected() {
        for (os_release, expected) in [
            ("ID=debian\nVERSION_ID=\"12\"\n", Ok("apt")),
            ("ID=debian\nVERSION_ID=\"14\"\n", Ok("apt")),
            ("ID=debian\n", Ok("apt")),
            ("ID=debian\nVERSION_ID=\"11\"\n", Err("debian 12 or newer")),
            ("ID=ubuntu\nVERSION_ID=\"22.04\"\n", Err("no glslc package")),
            ("ID=ubuntu\nVERSION_ID=\"24.04\"\n", Ok("apt")),
            ("ID=fedora\nVERSION_ID=41\n", Ok("dnf")),
            ("ID=arch\n", Err("packages of debian, ubuntu, fedora only")),
            ("", Err("packages of debian, ubuntu, fedora only")),
        ] {
            let found = offer(&facts_of(os_release, 1000), "vulkan");
            match (&found, expected) {
                (Ok(found), Ok(manager)) => assert_eq!(found.kind.id(), manager, "{os_release}"),
                (Err(objection), Err(part)) => {
                    assert!(objection.text.contains(part), "{os_release}: {}", objection.text);
                    assert_eq!(objection.id, "toolkit.no-packages-here");
                }
                _ => panic!("{os_release}: {found:?}"),
            }
        }
    }

    #[test]
    fn only_findings_of_the_set_get_the_command() {
        let debian = facts_of("ID=debian\nVERSION_ID=\"12\"\n", 1000);
        assert_eq!(command(&debian, "vk.glslc-missing").unwrap(), "gpubuild toolkit install vulkan");
        assert_eq!(command(&debian, "vk.icd-missing"), None);
        assert_eq!(command(&debian, "sycl.toolkit.missing"), None);
        let old = facts_of("ID=ubuntu\nVERSION_ID=\"22.04\"\n", 1000);
        assert_eq!(command(&old, "vk.glslc-missing"), None);
        // Installations with dnf were never tried.
        let fedora = facts_of("ID=fedora\nVERSION_ID=41\n", 1000);
        assert_eq!(command(&fedora, "vk.glslc-missing"), None);
        // Root runs apt itself.
        let root = facts_of("ID=debian\nVERSION_ID=\"12\"\n", 0);
        assert_eq!(command(&root, "vk.glslc-missing"), None);
    }
}
