//! Renders lines as commands for a shell.

use gpubuild_core::shell;
use gpubuild_host::Os;

use super::AgreementLine;
use super::agree::ResolverChange;

/// The command of a line for a POSIX shell, or on Windows for PowerShell. It affects only that shell session. `None` if a value
/// contains characters that cannot be quoted.
#[must_use]
pub fn line_text(line: &AgreementLine, os: Os) -> Option<String> {
    if let Some(source) = &line.source {
        return Some(format!(". {}", shell::quote(os, source.as_str())?));
    }
    let one = |change: &ResolverChange| {
        Some(match (os, change) {
            (Os::Windows, ResolverChange::Set { name, value }) => {
                format!("$env:{name} = {}", literal(value)?)
            }
            (Os::Windows, ResolverChange::Prepend { name, value }) => {
                format!("$env:{name} = {} + ';' + $env:{name}", literal(value)?)
            }
            (Os::Windows, ResolverChange::Unset { name }) => format!("Remove-Item Env:{name}"),
            (_, ResolverChange::Set { name, value }) => format!("export {name}={}", shell::quote(os, value)?),
            (_, ResolverChange::Prepend { name, value }) => {
                format!("export {name}={}:\"${name}\"", shell::quote(os, value)?)
            }
            (_, ResolverChange::Unset { name }) => format!("unset {name}"),
        })
    };
    Some(line.changes.iter().map(one).collect::<Option<Vec<String>>>()?.join("; "))
}

/// A PowerShell string literal. In an assignment, PowerShell would run an unquoted word as a command.
fn literal(value: &str) -> Option<String> {
    let quoted = shell::quote(Os::Windows, value)?;
    Some(if quoted.starts_with('\'') { quoted } else { format!("'{quoted}'") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{HostPath, PathRules};

    #[test]
    fn values_are_quoted_in_every_shell() {
        let set = |value: &str| AgreementLine {
            source: None,
            changes: vec![ResolverChange::Set { name: "CUDA_HOME".to_owned(), value: value.to_owned() }],
        };
        for (os, value, expected) in [
            (Os::Linux, "/usr/local/cuda-12.4", "export CUDA_HOME=/usr/local/cuda-12.4"),
            (Os::Linux, "/opt/a b", "export CUDA_HOME='/opt/a b'"),
            (Os::Linux, "/$(reboot)`x`", "export CUDA_HOME='/$(reboot)`x`'"),
            (Os::Linux, "/a';reboot", r"export CUDA_HOME='/a'\'';reboot'"),
            (Os::Windows, r"C:\CUDA", r"$env:CUDA_HOME = 'C:\CUDA'"),
            (Os::Windows, "C:\\it's $x\u{2019}", "$env:CUDA_HOME = 'C:\\it''s $x\u{2019}\u{2019}'"),
            (Os::Windows, r"C:\a; reboot", r"$env:CUDA_HOME = 'C:\a; reboot'"),
        ] {
            assert_eq!(line_text(&set(value), os).as_deref(), Some(expected));
        }
        for os in [Os::Linux, Os::Windows] {
            assert_eq!(line_text(&set("/a\n;reboot"), os), None);
        }
    }

    #[test]
    fn prepending_keeps_the_list() {
        let prepend = AgreementLine {
            source: None,
            changes: vec![ResolverChange::Prepend {
                name: "PATH".to_owned(),
                value: "/opt/cuda/bin".to_owned(),
            }],
        };
        assert_eq!(line_text(&prepend, Os::Linux).unwrap(), "export PATH=/opt/cuda/bin:\"$PATH\"");
        assert_eq!(
            line_text(&prepend, Os::Windows).unwrap(),
            "$env:PATH = '/opt/cuda/bin' + ';' + $env:PATH"
        );
        let unset = AgreementLine {
            source: None,
            changes: vec![ResolverChange::Unset { name: "VULKAN_SDK".to_owned() }],
        };
        assert_eq!(line_text(&unset, Os::Macos).unwrap(), "unset VULKAN_SDK");
        assert_eq!(line_text(&unset, Os::Windows).unwrap(), "Remove-Item Env:VULKAN_SDK");
        let source = AgreementLine {
            source: Some(HostPath::new(PathRules::Unix, "/opt/intel/oneapi/setvars.sh")),
            changes: Vec::new(),
        };
        assert_eq!(line_text(&source, Os::Linux).unwrap(), ". /opt/intel/oneapi/setvars.sh");
    }
}
