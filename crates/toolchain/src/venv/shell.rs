//! Formats the loader's search path variable for shells and for GitHub workflows. Pure.

use gpubuild_core::shell::{fish, posix, powershell};
use gpubuild_host::Os;

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// sh, bash, zsh; for `eval`.
    Sh,
    /// fish; for `source`.
    Fish,
    /// PowerShell; for `Invoke-Expression`.
    Powershell,
    /// Lines for the file in `GITHUB_ENV`.
    Github,
}

/// The variable with the search path of a platform's loader.
#[must_use]
pub fn variable(os: Os) -> &'static str {
    match os {
        Os::Windows => "PATH",
        Os::Macos => "DYLD_LIBRARY_PATH",
        Os::Linux => "LD_LIBRARY_PATH",
    }
}

/// Prepends folders to the variable. `now` is its current value; it is needed for GitHub, which has no expansion.
#[must_use]
pub fn setting(shell: Shell, os: Os, folders: &[String], now: Option<&str>) -> String {
    let name = variable(os);
    let separator = if os == Os::Windows { ";" } else { ":" };
    let list = folders.join(separator);
    match shell {
        Shell::Sh => {
            format!("export {name}={}\"${{{name}:+{separator}${name}}}\"\n", posix(&list))
        }
        Shell::Fish => {
            let words: Vec<String> = folders.iter().map(|folder| fish(folder)).collect();
            format!("set -gx --path {name} {} ${name}\n", words.join(" "))
        }
        Shell::Powershell => {
            let list = powershell(&list);
            format!(
                "$env:{name} = {list} + $(if ($env:{name}) {{ '{separator}' + $env:{name} }} else {{ '' }})\n"
            )
        }
        Shell::Github => {
            let before = now.filter(|now| !now.is_empty()).map(|now| format!("{separator}{now}"));
            let value = list + &before.unwrap_or_default();
            // The value must not contain the delimiter line.
            let mut end = "gpubuild_end".to_owned();
            while value.lines().any(|line| line == end) {
                end.push('_');
            }
            format!("{name}<<{end}\n{value}\n{end}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIAL: &str = "/a b/$(id)/it's `x` \"q\" \\ \u{2019}";

    #[test]
    fn folders_are_prepended_to_the_current_value() {
        let folders = ["/v/a".to_owned(), "/v/b".to_owned()];
        for (shell, text) in [
            (Shell::Sh, "export LD_LIBRARY_PATH='/v/a:/v/b'\"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"\n"),
            (Shell::Fish, "set -gx --path LD_LIBRARY_PATH '/v/a' '/v/b' $LD_LIBRARY_PATH\n"),
            (Shell::Github, "LD_LIBRARY_PATH<<gpubuild_end\n/v/a:/v/b:/old\ngpubuild_end\n"),
        ] {
            assert_eq!(setting(shell, Os::Linux, &folders, Some("/old")), text);
        }
        let folders = [r"C:\v\bin".to_owned()];
        assert_eq!(
            setting(Shell::Powershell, Os::Windows, &folders, None),
            "$env:PATH = 'C:\\v\\bin' + $(if ($env:PATH) { ';' + $env:PATH } else { '' })\n"
        );
    }

    #[test]
    fn folders_with_special_characters_are_quoted() {
        let folders = [SPECIAL.to_owned()];
        let shown = |shell| setting(shell, Os::Linux, &folders, None);
        assert!(
            shown(Shell::Sh)
                .starts_with("export LD_LIBRARY_PATH='/a b/$(id)/it'\\''s `x` \"q\" \\ \u{2019}'\"")
        );
        assert!(shown(Shell::Fish).contains(r#"'/a b/$(id)/it\'s `x` "q" \\ "#));
        assert!(shown(Shell::Powershell).contains("it''s `x` \"q\" \\ \u{2019}\u{2019}' + "));
        let folders = ["/v\ngpubuild_end\nEVIL=1".to_owned()];
        let text = setting(Shell::Github, Os::Linux, &folders, None);
        assert!(
            text.starts_with("LD_LIBRARY_PATH<<gpubuild_end_\n") && text.ends_with("EVIL=1\ngpubuild_end_\n")
        );
    }
}
