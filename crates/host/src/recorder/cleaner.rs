//! Removes what identifies a person or a machine, and secrets, from a recording.

use std::sync::Arc;

use super::redact::{self, Redaction};
use super::secrets::Secrets;
use super::serials::{self, Serials};
use crate::recorded::{CommandResult, RecordedCommand, RecordedEntry, RecordedKey};
use crate::{CommandOutput, RegistryValue};

/// Binary files up to this size in bytes are recorded completely. Larger ones are reduced to lines that contain a version.
const LARGEST_BINARY: usize = 256 << 10;
/// The beginnings of such lines.
const VERSION_LINES: [&str; 2] = ["GNU C Library (", "Version "];

/// Removes user names, machine names, identifying numbers and secrets from recorded data.
pub(super) struct Cleaner {
    pub(super) names: Redaction,
    pub(super) serials: Serials,
    pub(super) secrets: Secrets,
}

impl Cleaner {
    pub(super) fn text(&mut self, place: &str, text: &str) -> String {
        self.names.text(&self.serials.text(&self.secrets.text(place, text)))
    }

    pub(super) fn path(&mut self, path: &str) -> String {
        self.text("paths", path)
    }

    pub(super) fn command(&mut self, command: RecordedCommand) -> RecordedCommand {
        let program = command.argv.first().cloned().unwrap_or_default();
        let place = format!("command {}", self.path(&program));
        let argv = self.secrets.arguments(&place, &command.argv);
        let argv = argv.iter().map(|argument| self.names.text(&self.serials.text(argument))).collect();
        let result = match command.result {
            CommandResult::Hangs => CommandResult::Hangs,
            CommandResult::Ended(output) => CommandResult::Ended(CommandOutput {
                stdout: self.text(&place, &output.stdout),
                stderr: self.text(&place, &output.stderr),
                ..output
            }),
        };
        RecordedCommand { argv, result }
    }

    pub(super) fn key(&mut self, recorded: RecordedKey) -> RecordedKey {
        let key = self.text("registry keys", &recorded.key);
        let value = recorded.value.map(|(name, value)| {
            let place = format!("registry key {key}");
            let text = if serials::is_label(&name) { "0".to_owned() } else { self.text(&place, &value.text) };
            (self.text(&place, &name), RegistryValue { kind: value.kind, text })
        });
        RecordedKey { key, value }
    }

    pub(super) fn entry(&mut self, path: &str, place: &str, entry: RecordedEntry) -> RecordedEntry {
        match entry {
            RecordedEntry::Link(target) => RecordedEntry::Link(self.path(&target)),
            RecordedEntry::File { content: Some(content), executable, open_error, owner } => {
                let mut content = self.content(place, &content);
                content = content.map(|content| match path {
                    "/etc/group" => redact::groups(&content),
                    "/proc/cmdline" => redact::kernel_parameters(&content),
                    path if serials::is_serial_file(path) => Arc::from(&b"0\n"[..]),
                    _ => content,
                });
                RecordedEntry::File { content, executable, open_error, owner }
            }
            other => other,
        }
    }

    fn content(&mut self, place: &str, content: &[u8]) -> Option<Arc<[u8]>> {
        if let Ok(text) = std::str::from_utf8(content) {
            return Some(Arc::from(self.text(place, text).into_bytes()));
        }
        if content.len() > LARGEST_BINARY {
            let lines = version_lines(content);
            return (!lines.is_empty()).then(|| Arc::from(self.text(place, &lines).into_bytes()));
        }
        let masked = self.secrets.bytes(place, content);
        let content = masked.as_deref().unwrap_or(content);
        (!self.names.occurs_in(content) && !Serials::occur_in(content)).then(|| Arc::from(content))
    }
}

/// Extracts the texts in a binary file that contain a version.
fn version_lines(content: &[u8]) -> String {
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~');
    content
        .split(|byte| !is_text(byte))
        .filter_map(|line| std::str::from_utf8(line).ok())
        .filter(|line| VERSION_LINES.iter().any(|start| line.starts_with(start)))
        .fold(String::new(), |lines, line| lines + line + "\n")
}
