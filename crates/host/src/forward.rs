//! Queries that a host with changes answers as the original host does.

/// In an implementation of `HostInfo`: forwards everything but the environment to the field `host`.
macro_rules! forward_facts {
    () => {
        fn platform(&self) -> $crate::Platform {
            self.host.platform()
        }

        fn own_program(&self) -> Option<$crate::HostPath> {
            self.host.own_program()
        }

        fn identity(&self) -> &$crate::Identity {
            self.host.identity()
        }

        fn current_dir(&self) -> std::io::Result<$crate::HostPath> {
            self.host.current_dir()
        }

        fn counts(&self) -> $crate::HostCounts {
            self.host.counts()
        }

        fn path(&self, text: &str) -> $crate::HostPath {
            self.host.path(text)
        }
    };
}

/// In an implementation of `ReadFiles`: forwards everything but inputs that the user names to the field `host`.
macro_rules! forward_file_queries {
    () => {
        fn stat(&self, path: &$crate::HostPath) -> std::io::Result<$crate::Stat> {
            self.host.stat(path)
        }

        fn canonical(&self, path: &$crate::HostPath) -> std::io::Result<$crate::HostPath> {
            self.host.canonical(path)
        }

        fn read_link(&self, path: &$crate::HostPath) -> std::io::Result<String> {
            self.host.read_link(path)
        }

        fn read(&self, path: &$crate::HostPath) -> std::io::Result<Vec<u8>> {
            self.host.read(path)
        }

        fn read_up_to(&self, path: &$crate::HostPath, limit: u64) -> std::io::Result<Vec<u8>> {
            self.host.read_up_to(path, limit)
        }

        fn read_start(&self, path: &$crate::HostPath, limit: usize) -> std::io::Result<Vec<u8>> {
            self.host.read_start(path, limit)
        }

        fn read_part(&self, path: &$crate::HostPath, start: u64, limit: usize) -> std::io::Result<Vec<u8>> {
            self.host.read_part(path, start, limit)
        }

        fn open(&self, path: &$crate::HostPath) -> std::io::Result<Box<dyn std::io::Read + Send>> {
            self.host.open(path)
        }

        fn search_folders(&self, search_path: &str) -> std::sync::Arc<Vec<$crate::HostPath>> {
            self.host.search_folders(search_path)
        }

        fn list(&self, folder: &$crate::HostPath) -> std::io::Result<Vec<String>> {
            self.host.list(folder)
        }

        fn has_unlisted(&self, folder: &$crate::HostPath) -> std::io::Result<bool> {
            self.host.has_unlisted(folder)
        }

        fn open_device(&self, path: &$crate::HostPath) -> std::io::Result<()> {
            self.host.open_device(path)
        }

        fn is_same_file(&self, one: &$crate::HostPath, other: &$crate::HostPath) -> bool {
            self.host.is_same_file(one, other)
        }

        fn read_text(&self, path: &$crate::HostPath) -> std::io::Result<String> {
            self.host.read_text(path)
        }

        fn list_matching(&self, folder: &$crate::HostPath, pattern: &str) -> std::io::Result<Vec<String>> {
            self.host.list_matching(folder, pattern)
        }

        fn exists(&self, path: &$crate::HostPath) -> bool {
            self.host.exists(path)
        }

        fn is_file(&self, path: &$crate::HostPath) -> bool {
            self.host.is_file(path)
        }

        fn is_dir(&self, path: &$crate::HostPath) -> bool {
            self.host.is_dir(path)
        }
    };
}

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
pub(crate) use forward_facts;
pub(crate) use forward_file_queries;
pub(crate) use forward_registry_and_clock;
pub(crate) use forward_to_host;
