//! Option values for enums of the libraries, which do not depend on clap.

/// An enum of the words, and its conversion.
macro_rules! words {
    ($name:ident for $of:path { $($(#[$doc:meta])* $variant:ident),* $(,)? }) => {
        #[doc = concat!("The words for [`", stringify!($of), "`].")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
        pub enum $name {
            $($(#[$doc])* $variant),*
        }

        impl From<$name> for $of {
            fn from(word: $name) -> Self {
                match word {
                    $($name::$variant => Self::$variant),*
                }
            }
        }
    };
}

words!(Linkage for gpubuild_plan::project::Linkage {
    /// Static libraries: the program contains everything
    Static,
    /// Shared libraries that the program links
    Shared,
    /// Shared libraries, with each backend as a module that the program loads at run time
    Dynamic,
});

words!(Shell for gpubuild_toolchain::venv::shell::Shell {
    /// sh, bash, zsh: for `eval`.
    Sh,
    /// fish: for `source`.
    Fish,
    /// PowerShell: for `Invoke-Expression`.
    Powershell,
    /// Lines for the file that `GITHUB_ENV` names.
    Github,
});

words!(Variables for gpubuild_toolchain::provision::env::EnvFormat {
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
