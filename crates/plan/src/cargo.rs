//! The folder and the configuration files of cargo.

use gpubuild_host::{HostInfo, HostPath, Os, ReadFiles};

/// The folder of cargo's configuration and cache.
#[must_use]
pub fn home(host: &dyn HostInfo) -> Option<HostPath> {
    let env = host.env();
    if let Some(folder) = env.get("CARGO_HOME") {
        return Some(host.path(folder)).filter(HostPath::is_absolute);
    }
    let home = if host.platform().os == Os::Windows { "USERPROFILE" } else { "HOME" };
    Some(host.path(env.get(home)?).join(".cargo"))
}

/// The configuration files that cargo reads for a folder, those with the highest precedence first.
#[must_use]
pub fn config_files(host: &dyn ReadFiles, folder: &HostPath) -> Vec<HostPath> {
    let mut folders = Vec::new();
    let mut above = Some(folder.clone());
    while let Some(folder) = above {
        folders.push(folder.join(".cargo"));
        above = folder.parent();
    }
    folders.extend(home(host).filter(|home| !folders.contains(home)));
    let file_of = |folder: HostPath| {
        let names = ["config", "config.toml"].map(|name| folder.join(name));
        names.into_iter().find(|file| host.is_file(file))
    };
    folders.into_iter().filter_map(file_of).collect()
}
