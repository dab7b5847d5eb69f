//! The environment variables by which programs find an installation, formatted for shells.

use std::fmt::Write as _;

use gpubuild_core::shell::{fish, powershell};
use gpubuild_core::{clean, shell};
use gpubuild_host::{Environment, HostPath, Os};
use gpubuild_plan::packages::{self, LayoutVariable};

use super::error::ProvisionError;
use super::kit;
use super::state::Prefix;

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvFormat {
    /// A POSIX shell: `eval "$(gpubuild toolkit env)"`
    Sh,
    /// Fish: `gpubuild toolkit env --format fish | source`
    Fish,
    /// PowerShell: `gpubuild toolkit env --format powershell | Out-String | Invoke-Expression`
    Powershell,
    /// Lines for the file in `GITHUB_ENV`
    Github,
    /// JSON
    Json,
}

/// An environment variable of an installation.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvSetting {
    /// Name of the variable.
    pub name: String,
    /// Value to set or prepend.
    pub value: String,
    /// Whether to prepend the value instead of replacing the variable's value.
    pub prepend: bool,
}

/// The variables of an installation.
#[must_use]
pub fn settings(installation: &Prefix, os: Os) -> Vec<EnvSetting> {
    let toolkit = &installation.record.toolkit;
    let env = if installation.record.packages.is_empty() {
        kit::embedded().kits.get(toolkit).map(|kit| &kit.env)
    } else {
        packages::set_of(toolkit).map(|set| &set.env)
    };
    let Some(env) = env else { return Vec::new() };
    let lib = installation.record.lib.as_deref().unwrap_or("lib");
    let value = |path: &str| -> HostPath {
        let path = kit::on(path, os).replace("{lib}", lib);
        if path.is_empty() { installation.root.clone() } else { installation.root.join(&path) }
    };
    let setting = |variable: &LayoutVariable| EnvSetting {
        name: variable.name.clone(),
        value: value(&variable.path).to_string(),
        prepend: variable.prepend,
    };
    env.iter().map(setting).collect()
}

/// Formats the variables. `env` is the current environment; it is needed for `GITHUB_ENV`, which has no expansion.
///
/// # Errors
/// A path cannot be quoted safely.
pub fn lines(
    settings: &[EnvSetting],
    format: EnvFormat,
    os: Os,
    env: &Environment,
) -> Result<String, ProvisionError> {
    let separator = if os == Os::Windows { ';' } else { ':' };
    let mut text = String::new();
    for EnvSetting { name, value, prepend } in settings {
        let splits = *prepend && format != EnvFormat::Json && value.contains(separator) && os != Os::Windows;
        if splits || clean::line(value) != *value {
            return Err(ProvisionError::Unsafe { path: clean::line(value).into_owned() });
        }
        let quoted =
            |os: Os| shell::quote(os, value).ok_or_else(|| ProvisionError::Unsafe { path: value.clone() });
        let written = match (format, prepend) {
            (EnvFormat::Sh, false) => writeln!(text, "export {name}={}", quoted(Os::Linux)?),
            (EnvFormat::Sh, true) => {
                writeln!(text, "export {name}={}\"${{{name}:+{separator}${name}}}\"", quoted(Os::Linux)?)
            }
            (EnvFormat::Fish, false) => writeln!(text, "set -gx {name} {}", fish(value)),
            (EnvFormat::Fish, true) => writeln!(text, "set -gx --path --prepend {name} {}", fish(value)),
            (EnvFormat::Powershell, false) => writeln!(text, "$env:{name} = {}", powershell(value)),
            (EnvFormat::Powershell, true) => writeln!(
                text,
                "$env:{name} = {} + $(if ($env:{name}) {{ '{separator}' + $env:{name} }})",
                powershell(value)
            ),
            (EnvFormat::Github, true) if env.get(name).is_some_and(|now| !now.is_empty()) => {
                let now = env.get(name).unwrap_or_default();
                if now.contains(['\n', '\r']) {
                    return Err(ProvisionError::Unsafe { path: name.clone() });
                }
                writeln!(text, "{name}={value}{separator}{now}")
            }
            (EnvFormat::Github, _) => writeln!(text, "{name}={value}"),
            (EnvFormat::Json, _) => Ok(()),
        };
        // Writing to a string does not fail.
        let _ = written;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(format: EnvFormat, value: &str, env: &[(&str, &str)]) -> Result<String, ProvisionError> {
        let env = Environment::new(Os::Linux, env.iter().copied());
        let set = |name: &str, prepend| EnvSetting { name: name.into(), value: value.into(), prepend };
        lines(&[set("CUDA_PATH", false), set("PATH", true)], format, Os::Linux, &env)
    }

    #[test]
    fn values_are_quoted_for_each_shell() {
        let bad = "/a b/it's$(x)";
        for (format, expected) in [
            (
                EnvFormat::Sh,
                "export CUDA_PATH='/a b/it'\\''s$(x)'\nexport PATH='/a b/it'\\''s$(x)'\"${PATH:+:$PATH}\"\n",
            ),
            (
                EnvFormat::Fish,
                "set -gx CUDA_PATH '/a b/it\\'s$(x)'\nset -gx --path --prepend PATH '/a b/it\\'s$(x)'\n",
            ),
            (
                EnvFormat::Powershell,
                "$env:CUDA_PATH = '/a b/it''s$(x)'\n$env:PATH = '/a b/it''s$(x)' + $(if ($env:PATH) { ':' + $env:PATH })\n",
            ),
            (EnvFormat::Github, "CUDA_PATH=/a b/it's$(x)\nPATH=/a b/it's$(x):/usr/bin\n"),
        ] {
            assert_eq!(shown(format, bad, &[("PATH", "/usr/bin")]).unwrap(), expected);
        }
    }

    #[test]
    fn unquotable_values_are_refused() {
        for format in [EnvFormat::Sh, EnvFormat::Fish, EnvFormat::Powershell, EnvFormat::Github] {
            assert!(shown(format, "/a\nB=c", &[]).is_err(), "{format:?}");
            assert!(shown(format, "/a:/b", &[]).is_err(), "{format:?}");
        }
        assert!(shown(EnvFormat::Github, "/a", &[("PATH", "/x\nB=c")]).is_err());
    }
}
