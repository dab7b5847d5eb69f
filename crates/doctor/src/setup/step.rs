//! A step: the remedy of one finding.

use gpubuild_core::{Os, backend::Backend, clean};
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Finding, Findings, Severity};
use serde::Serialize;

use super::command::{CommandKind, SetupCommand};

/// The remedy of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetupStep {
    /// Id of the finding.
    pub id: DiagnosticId,
    /// The affected backend, if it is a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// Severity of the finding.
    pub severity: Severity,
    /// The problem, in one line.
    pub summary: String,
    /// What the problem means, from the catalogue of findings.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The fix, in one sentence.
    pub fix: String,
    /// The commands, in order.
    pub commands: Vec<SetupCommand>,
    /// What the fix requires beside the commands: `host`, `windows`, `admin`, `relogin`, `reboot`.
    pub needs: Vec<String>,
    /// Who runs the commands.
    #[serde(flatten)]
    pub mode: StepMode,
}

/// Who runs the commands of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", content = "manual", rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum StepMode {
    /// gpubuild, as the current user.
    User,
    /// gpubuild; at least one command asks for root.
    Root,
    /// The user.
    Manual(ManualReason),
}

/// Why gpubuild does not run the commands of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ManualReason {
    /// The remedy has no commands.
    NoCommand,
    /// They run on the host of the container, or in Windows outside of WSL.
    Outside,
    /// They need an administrator's prompt.
    Administrator,
    /// They have placeholders.
    Example,
    /// They end or replace the user's session.
    Session,
    /// They change variables of the user's shell, which a program cannot do on Windows.
    Shell,
}

impl ManualReason {
    /// The reason as a sentence without a period.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::NoCommand => "no command does this",
            Self::Outside => "these commands run outside of this system",
            Self::Administrator => "these commands need an administrator's prompt",
            Self::Example => "these commands have parts that you have to replace",
            Self::Session => "these commands end or replace your session",
            Self::Shell => "these commands change the variables of your shell",
        }
    }
}

impl SetupStep {
    /// The step that fixes a finding. `findings` provides its explanation.
    #[must_use]
    pub fn of(finding: &Finding, findings: &Findings, os: Os) -> Self {
        let remedy = &finding.remedy;
        // What cannot be shown exactly is not run either.
        let shown: Option<Vec<&str>> =
            remedy.commands.iter().map(|command| clean::command(command)).collect();
        let commands: Vec<SetupCommand> =
            shown.unwrap_or_default().into_iter().map(|text| SetupCommand::of(text, os)).collect();
        let mode = mode(&commands, &remedy.needs, os);
        Self {
            id: finding.id,
            backend: finding.backend,
            severity: finding.severity,
            summary: finding.summary.clone(),
            why: findings.get(&finding.id).map(|entry| entry.meaning.clone()).unwrap_or_default(),
            fix: remedy.text.clone(),
            commands,
            needs: remedy.needs.iter().filter(|need| *need != "sudo").cloned().collect(),
            mode,
        }
    }

    /// What has to happen before the effect of the commands can be seen: `reboot` or `relogin`.
    #[must_use]
    pub fn waits_for(&self) -> Option<&str> {
        self.needs.iter().map(String::as_str).find(|need| matches!(*need, "reboot" | "relogin"))
    }

    /// Whether a finding is the one that this step fixes.
    #[must_use]
    pub fn fixes(&self, finding: &Finding) -> bool {
        finding.id == self.id && finding.backend == self.backend
    }
}

/// A remedy is run completely or not at all.
fn mode(commands: &[SetupCommand], needs: &[String], os: Os) -> StepMode {
    let has = |kind: CommandKind| commands.iter().any(|command| command.kind == kind);
    let needs = |what: &str| needs.iter().any(|need| need == what);
    if commands.is_empty() {
        StepMode::Manual(ManualReason::NoCommand)
    } else if has(CommandKind::Outside) || needs("host") || needs("windows") {
        StepMode::Manual(ManualReason::Outside)
    } else if needs("admin") {
        StepMode::Manual(ManualReason::Administrator)
    } else if has(CommandKind::Example) {
        StepMode::Manual(ManualReason::Example)
    } else if has(CommandKind::Session) {
        StepMode::Manual(ManualReason::Session)
    } else if has(CommandKind::Shell) && os == Os::Windows {
        StepMode::Manual(ManualReason::Shell)
    } else if has(CommandKind::Root) {
        StepMode::Root
    } else {
        StepMode::User
    }
}
