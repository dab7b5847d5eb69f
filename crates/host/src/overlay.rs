//! A host with different environment variables. All other queries are forwarded to the original host.

use super::forward::{forward_facts, forward_file_queries, forward_to_host};
use super::{Environment, HostInfo, InspectHost, ReadFiles};

/// A host with replaced environment variables.
pub struct Overlay<'a> {
    host: &'a dyn InspectHost,
    env: Environment,
}

impl<'a> Overlay<'a> {
    /// Replaces the environment of `host` with `env`.
    #[must_use]
    pub fn new(host: &'a dyn InspectHost, env: Environment) -> Self {
        Self { host, env }
    }
}

// Default implementations would return the values of a recorded host, so every method must be forwarded.
#[deny(clippy::missing_trait_methods)]
impl HostInfo for Overlay<'_> {
    forward_facts!();

    fn env(&self) -> &Environment {
        &self.env
    }
}

impl ReadFiles for Overlay<'_> {
    forward_file_queries!();
}

forward_to_host!(Overlay);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, HostInfo, Os, ReadFiles, RecordedHost, find_program};

    #[test]
    fn only_the_environment_differs() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("PATH", "/usr/bin")
            .executable("/usr/bin/nvcc")
            .executable("/opt/cuda/bin/nvcc")
            .build();
        let env = host.env().with("PATH", Some("/opt/cuda/bin:/usr/bin"));
        let overlay = Overlay::new(&host, env);
        assert_eq!(find_program(&host, "nvcc")[0].as_str(), "/usr/bin/nvcc");
        assert_eq!(find_program(&overlay, "nvcc")[0].as_str(), "/opt/cuda/bin/nvcc");
        assert!(overlay.is_file(&overlay.path("/usr/bin/nvcc")));
    }
}
