//! Runs the commands of steps.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::{Command, CommandOutput, Environment, HostInfo, Os, RunError, RunPrograms};

use super::command::{CommandKind, SetupCommand};

/// Time limit of a command: driver packages compile a kernel module, and SDKs are large downloads.
const DEADLINE: Duration = Duration::from_secs(4 * 60 * 60);

/// Variables that a shell sets itself.
const OWN_VARIABLES: [&str; 4] = ["_", "SHLVL", "PWD", "OLDPWD"];

/// Where the output of a command goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutputMode {
    /// To the terminal, which `sudo` needs to ask for a password.
    Terminal,
    /// It is captured; only the last line of a failed command is reported.
    Capture,
}

/// Why a command did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetupError {
    /// It failed.
    Failed(String),
    /// The user pressed Ctrl-C.
    Interrupted,
}

/// Runs commands one after the other, as one shell would: variables that a command sets are kept for later commands and for the
/// doctor. The user's own shell is not changed.
#[derive(Debug, Clone)]
pub struct SetupShell {
    env: Environment,
    changes: BTreeMap<String, Option<String>>,
    commands: Vec<String>,
}

impl SetupShell {
    /// A shell with an environment.
    #[must_use]
    pub fn new(env: &Environment) -> Self {
        Self { env: env.clone(), changes: BTreeMap::new(), commands: Vec::new() }
    }

    /// The environment after the commands so far.
    #[must_use]
    pub fn env(&self) -> &Environment {
        &self.env
    }

    /// The commands that changed variables. The user has to repeat them in a shell.
    #[must_use]
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// Runs a command.
    ///
    /// # Errors
    /// The command cannot be started, or fails.
    pub fn run<H: RunPrograms + HostInfo + ?Sized>(
        &mut self,
        host: &H,
        command: &SetupCommand,
        output: CommandOutputMode,
    ) -> Result<(), SetupError> {
        if command.kind == CommandKind::Shell {
            return self.change_variables(host, &command.command);
        }
        let mut child = self.child(host, &command.command);
        if output == CommandOutputMode::Terminal {
            child = child.on_terminal();
        }
        finish(host.run(&child)).map(drop)
    }

    /// Runs a command that changes variables, and reads them afterwards.
    fn change_variables<H: RunPrograms + HostInfo + ?Sized>(
        &mut self,
        host: &H,
        command: &str,
    ) -> Result<(), SetupError> {
        let script = format!("{{ {command}\n}} 1>&2\nenv -0");
        let mut child = self.child(host, &script);
        if command.starts_with("source ") {
            // Not every /bin/sh has it.
            "bash".clone_into(&mut child.argv[0]);
        }
        let output = finish(host.run(&child))?;
        let own_folder = own_folder(host).unwrap_or_default();
        let after = output.stdout.split('\0').filter_map(|entry| entry.split_once('='));
        let after: BTreeMap<&str, &str> = after
            .map(|(name, value)| {
                (name, if name == "PATH" { value.trim_end_matches(&own_folder) } else { value })
            })
            .collect_map();
        let before: Vec<String> = self.env.iter().map(|(name, _)| name.to_owned()).collect();
        let removed = before.iter().filter(|name| !after.contains_key(name.as_str()));
        let removed = removed.map(|name| (name.as_str(), None)).collect::<Vec<_>>();
        let set = after.iter().filter(|(name, value)| self.env.get_raw(name) != Some(**value));
        let set = set.map(|(name, value)| (*name, Some(*value))).collect::<Vec<_>>();
        for (name, value) in removed.into_iter().chain(set) {
            if !OWN_VARIABLES.contains(&name) {
                self.env = self.env.with(name, value);
                self.changes.insert(name.to_owned(), value.map(str::to_owned));
            }
        }
        self.commands.push(command.to_owned());
        Ok(())
    }

    fn child<H: HostInfo + ?Sized>(&self, host: &H, script: &str) -> Command {
        let child = match host.platform().os {
            Os::Windows => Command::new("powershell", DEADLINE).args(["-NoProfile", "-Command", script]),
            Os::Linux | Os::Macos => Command::new("/bin/sh", DEADLINE).args(["-e", "-c", script]),
        };
        let child = self.changes.iter().fold(child, |child, (name, value)| match value {
            Some(value) => child.env(name, value),
            None => child.env_remove(name),
        });
        // Remedies call `gpubuild`, which need not be on PATH.
        match (self.env.get("PATH"), own_folder(host)) {
            (Some(path), Some(folder)) => child.env("PATH", format!("{path}{folder}")),
            _ => child,
        }
    }
}

/// The folder of gpubuild's own program with the separator of PATH before it.
fn own_folder<H: HostInfo + ?Sized>(host: &H) -> Option<String> {
    let separator = if host.platform().os == Os::Windows { ';' } else { ':' };
    Some(format!("{separator}{}", host.own_program()?.parent()?))
}

fn finish(result: Result<CommandOutput, RunError>) -> Result<CommandOutput, SetupError> {
    match result {
        Ok(output) if output.success() => Ok(output),
        Ok(output) => {
            let mut lines = output.stderr.lines().chain(output.stdout.lines());
            let last = lines.rfind(|line| !line.trim().is_empty()).map(|line| format!(": {line}"));
            Err(SetupError::Failed(format!("{}{}", output.ending(), last.unwrap_or_default())))
        }
        Err(RunError::Interrupted) => Err(SetupError::Interrupted),
        Err(error) => Err(SetupError::Failed(error.to_string())),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use gpubuild_host::RealHost;

    use super::*;

    fn run(shell: &mut SetupShell, text: &str) -> Result<(), SetupError> {
        let command = SetupCommand::of(text, Os::Linux);
        shell.run(&RealHost::new(), &command, CommandOutputMode::Capture)
    }

    fn shell() -> SetupShell {
        let env = RealHost::new().env().with("GPUBUILD_A", None).with("GPUBUILD_B", None);
        SetupShell::new(&env)
    }

    #[test]
    fn variables_are_kept_for_later_commands_and_the_doctor() {
        let mut shell = shell();
        run(&mut shell, "export GPUBUILD_A='two words' GPUBUILD_B=$HOME").unwrap();
        assert_eq!(shell.env().get("GPUBUILD_A"), Some("two words"));
        assert_eq!(shell.env().get("GPUBUILD_B"), shell.env().get("HOME"));
        run(&mut shell, "test \"$GPUBUILD_A\" = 'two words'").unwrap();
        run(&mut shell, "unset GPUBUILD_A").unwrap();
        assert_eq!(shell.env().get_raw("GPUBUILD_A"), None);
        run(&mut shell, "test -z \"$GPUBUILD_A\"").unwrap();
        assert_eq!(shell.commands(), ["export GPUBUILD_A='two words' GPUBUILD_B=$HOME", "unset GPUBUILD_A"]);
        let before = shell.env().get("PATH").map(str::to_owned);
        run(&mut shell, "eval \"$(echo export GPUBUILD_B=c)\"").unwrap();
        assert_eq!(shell.env().get("PATH").map(str::to_owned), before, "gpubuild's folder is not kept");
    }

    #[test]
    fn failures_report_the_last_line() {
        let mut shell = shell();
        let failed = run(&mut shell, "echo reason >&2; exit 3");
        assert_eq!(failed, Err(SetupError::Failed("ended with status 3: reason".to_owned())));
        // A failing command changes nothing.
        let failed = run(&mut shell, "export GPUBUILD_A=1; false");
        assert!(matches!(failed, Err(SetupError::Failed(_))));
        assert_eq!((shell.env().get("GPUBUILD_A"), shell.commands().len()), (None, 0));
    }
}
