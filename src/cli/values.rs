//! Option values for enums of library crates, which do not depend on clap.

/// Defines an enum of option values and its conversion into a library enum with the same variants.
macro_rules! values {
    ($name:ident for $of:path { $($(#[$doc:meta])* $variant:ident),* $(,)? }) => {
        #[doc = concat!("The option values of [`", stringify!($of), "`].")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
        pub enum $name {
            $($(#[$doc])* $variant),*
        }

        impl From<$name> for $of {
            fn from(value: $name) -> Self {
                match value {
                    $($name::$variant => Self::$variant),*
                }
            }
        }
    };
}

values!(Linkage for gpubuild_plan::project::Linkage {
    /// Static libraries: the program contains everything
    Static,
    /// Shared libraries that the program links
    Shared,
    /// Shared libraries, with each backend as a module that the program loads at run time
    Dynamic,
});

values!(Shell for gpubuild_toolchain::venv::shell::Shell {
    /// sh, bash, zsh: for `eval`.
    Sh,
    /// fish: for `source`.
    Fish,
    /// PowerShell: for `Invoke-Expression`.
    Powershell,
    /// Lines for the file that `GITHUB_ENV` names.
    Github,
});

values!(Variables for gpubuild_toolchain::provision::env::EnvFormat {
    /// A POSIX shell: `eval "$(gpubuild toolkit env)"`
    Sh,
    /// Fish: `gpubuild toolkit env --format fish | source`
    Fish,
    /// PowerShell: `gpubuild toolkit env --format powershell | Out-String | Invoke-Expression`
    Powershell,
    /// Lines for the file that `GITHUB_ENV` names
    Github,
    /// JSON
    Json,
});
