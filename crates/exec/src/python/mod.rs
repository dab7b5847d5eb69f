//! Installs [pinned wheels](gpubuild_plan::wheels) with uv or pip.
//!
//! [`mod@install`] puts them into a folder or an environment, [`mod@fetch`] puts tools that the machine lacks (CMake, Ninja)
//! into gpubuild's own cache. Settings of uv and pip apply. No Python environment of the user is changed unless it was named
//! as the target.

pub mod error;
pub mod fetch;
pub mod install;
pub mod said;

pub use error::{PipInstallError, WheelFetchError};
pub use fetch::fetch;
pub use install::{InstallTarget, Options, install};

use gpubuild_host::Environment;

/// Whether anything may be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Yes.
    Allowed,
    /// No: `--offline`, `GPUBUILD_OFFLINE` or `CARGO_NET_OFFLINE`.
    Offline,
}

impl Network {
    /// What the environment says, in our word and in cargo's.
    #[must_use]
    pub fn from_env(env: &Environment) -> Self {
        let is_set =
            |name: &str| env.get(name).is_some_and(|value| !matches!(value, "0" | "false" | "no" | "off"));
        if is_set("GPUBUILD_OFFLINE") || is_set("CARGO_NET_OFFLINE") { Self::Offline } else { Self::Allowed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::Os;

    #[test]
    fn offline_is_said_in_two_words() {
        let network =
            |name: &str, value: &str| Network::from_env(&Environment::new(Os::Linux, [(name, value)]));
        assert_eq!(network("GPUBUILD_OFFLINE", "1"), Network::Offline);
        assert_eq!(network("CARGO_NET_OFFLINE", "true"), Network::Offline);
        assert_eq!(network("CARGO_NET_OFFLINE", "false"), Network::Allowed);
        assert_eq!(network("OTHER", "1"), Network::Allowed);
    }
}
