//! Queries that a host with changes answers as the original host does.

/// Forwards the registry and the clock to the field `host`.
macro_rules! forward_registry_and_clock {
    ($name:ident) => {
        // Default implementations would return the values of a recorded host, so every method must be forwarded.
        #[deny(clippy::missing_trait_methods)]
        impl $crate::ReadRegistry for $name<'_> {
            fn registry_value(&self, key: &str, name: &str) -> Option<$crate::RegistryValue> {
                self.host.registry_value(key, name)
            }

            fn registry_keys(&self, key: &str) -> Vec<String> {
                self.host.registry_keys(key)
            }

            fn registry_values(&self, key: &str) -> Vec<(String, $crate::RegistryValue)> {
                self.host.registry_values(key)
            }

            fn visual_studio_tool(&self, name: &str) -> Option<$crate::HostPath> {
                self.host.visual_studio_tool(name)
            }
        }

        #[deny(clippy::missing_trait_methods)]
        impl $crate::Clock for $name<'_> {
            fn now(&self) -> u64 {
                self.host.now()
            }

            fn elapsed(&self) -> std::time::Duration {
                self.host.elapsed()
            }
        }
    };
}

/// Forwards what is not a file, an environment variable or a fact about the machine to the field `host`.
macro_rules! forward_to_host {
    ($name:ident) => {
        $crate::forward::forward_registry_and_clock!($name);

        #[deny(clippy::missing_trait_methods)]
        impl $crate::RunPrograms for $name<'_> {
            fn run(&self, command: &$crate::Command) -> Result<$crate::CommandOutput, $crate::RunError> {
                self.host.run(command)
            }

            fn run_lines(
                &self,
                command: &$crate::Command,
                on_line: &mut dyn FnMut($crate::OutputLine<'_>),
            ) -> Result<$crate::CommandOutput, $crate::RunError> {
                self.host.run_lines(command, on_line)
            }

            fn recorded_output(&self, command: &$crate::Command) -> Option<$crate::CommandOutput> {
                self.host.recorded_output(command)
            }
        }

        #[deny(clippy::missing_trait_methods)]
        impl $crate::ProbeLibraries for $name<'_> {
            fn probe(&self, id: &str, deadline: std::time::Duration) -> $crate::ProbeAnswer {
                self.host.probe(id, deadline)
            }

            fn probe_with(
                &self,
                id: &str,
                arguments: &[String],
                deadline: std::time::Duration,
            ) -> $crate::ProbeAnswer {
                self.host.probe_with(id, arguments, deadline)
            }
        }
    };
}
pub(crate) use forward_registry_and_clock;
pub(crate) use forward_to_host;
