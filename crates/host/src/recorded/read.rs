//! Parses a recording, with the position of every error.

use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use gpubuild_core::backend::Backend;
use toml::Spanned;

use super::format::{
    self, CommandTable, FileTable, FileTableKind, OwnerTable, ProbeTable, RegistryTable, RegistryText,
};
use super::{
    CommandResult, HostRecording, RecordedCommand, RecordedEntry, RecordedFile, RecordedKey, RecordingError,
};
use crate::{CommandOutput, HostPath, Os, Owner, Platform, ProbeAnswer, RegistryType, RegistryValue};

/// A recording with the positions of its files and registry keys, for errors that are only found after parsing.
pub(super) struct Read {
    pub(super) recording: HostRecording,
    pub(super) file_spans: Vec<Range<usize>>,
    pub(super) key_spans: Vec<Range<usize>>,
}

/// An error with its position and a hint.
struct ParseError {
    span: Range<usize>,
    what: String,
    hint: &'static str,
}

fn fail<T>(span: Range<usize>, what: impl Into<String>, hint: &'static str) -> Result<T, ParseError> {
    Err(ParseError { span, what: what.into(), hint })
}

pub(super) fn read(file: &str, text: &str) -> Result<Read, RecordingError> {
    let document = format::parse(file, text)?;
    let locate =
        |error: ParseError| RecordingError::new(file, text, Some(error.span), error.what, error.hint);
    let platform = Platform { os: document.platform.os, arch: document.platform.arch };
    let mut recording = HostRecording::new(platform);
    recording.env = document.env;
    recording.identity = document.process.map(Into::into).unwrap_or_default();
    let mut file_spans = Vec::new();
    for table in document.file {
        let span = table.get_ref().path.span();
        recording.files.push(read_file(platform, table).map_err(locate)?);
        file_spans.push(span);
    }
    for table in document.command {
        recording.commands.push(read_command(table).map_err(locate)?);
    }
    for table in document.probe {
        let probe = read_probe(table, &recording.probes).map_err(locate)?;
        recording.probes.push(probe);
    }
    let mut key_spans = Vec::new();
    for table in document.registry {
        let span = table.get_ref().key.span();
        recording.registry.push(read_registry(platform, table).map_err(locate)?);
        key_spans.push(span);
    }
    Ok(Read { recording, file_spans, key_spans })
}

fn read_file(platform: Platform, table: Spanned<FileTable>) -> Result<RecordedFile, ParseError> {
    let table_span = table.span();
    let table = table.into_inner();
    let path_span = table.path.span();
    let path = HostPath::new(platform.path_rules(), table.path.get_ref());
    if !super::tree::is_absolute(&path) {
        let hint = match platform.os {
            Os::Windows => r"write it with its drive: 'C:\…'",
            Os::Linux | Os::Macos => "write it from the root: \"/…\"",
        };
        return fail(path_span, format!("`{path}` is not an absolute path on {}", platform.os.id()), hint);
    }
    if path.as_str().split(['/', '\\']).any(|name| name == "..") {
        return fail(path_span, format!("`{path}` contains `..`"), "write the file's real path");
    }
    let entry = read_entry(table_span, table)?;
    Ok(RecordedFile { path: path.as_str().to_owned(), entry })
}

fn read_entry(table_span: Range<usize>, table: FileTable) -> Result<RecordedEntry, ParseError> {
    let has_content = table.text.is_some() || table.base64.is_some();
    let owner = table.owner.map(|OwnerTable { uid, gid }| Owner { uid, gid });
    if let Some(target) = table.link {
        if has_content || table.kind.is_some() || table.open_error.is_some() {
            return fail(
                table_span,
                "a `link` entry has other keys",
                "record the target as a separate file, and keep only `path` and `link` here",
            );
        }
        if target.is_empty() {
            return fail(table_span, "the `link` is empty", "write the target path");
        }
        return Ok(RecordedEntry::Link(target));
    }
    if table.text.is_some() && table.base64.is_some() {
        return fail(table_span, "the file has both `text` and `base64`", "keep one of them");
    }
    let kind = table.kind.unwrap_or_default();
    if has_content && matches!(kind, FileTableKind::Directory | FileTableKind::Device) {
        return fail(table_span, "only files can have `text` or `base64`", "remove them, or remove `kind`");
    }
    let content = match (table.text, table.base64) {
        (Some(text), _) => Some(text.into_bytes()),
        (None, Some(encoded)) => Some(decode(&encoded)?),
        (None, None) => None,
    };
    let open_error = table.open_error;
    Ok(match kind {
        FileTableKind::Directory => RecordedEntry::Directory { open_error, owner },
        FileTableKind::Device => RecordedEntry::Device { open_error, owner },
        FileTableKind::File | FileTableKind::Executable => RecordedEntry::File {
            content: content.map(Arc::from),
            executable: kind == FileTableKind::Executable,
            open_error,
            owner,
        },
    })
}

fn decode(encoded: &Spanned<String>) -> Result<Vec<u8>, ParseError> {
    let compact: String = encoded.get_ref().split_whitespace().collect();
    base64::engine::general_purpose::STANDARD.decode(compact).or_else(|error| {
        let what = format!("invalid base64: {}", error.to_string().to_lowercase());
        fail(encoded.span(), what, "use the output of `base64 FILE`, or use `text`")
    })
}

fn read_command(table: Spanned<CommandTable>) -> Result<RecordedCommand, ParseError> {
    let table_span = table.span();
    let table = table.into_inner();
    if table.argv.get_ref().first().is_none_or(String::is_empty) {
        return fail(
            table.argv.span(),
            "`argv` has no program",
            "write the program first: [\"nvcc\", \"--version\"]",
        );
    }
    let endings = [table.exit.is_some(), table.hang, table.signal.is_some()];
    if endings.into_iter().filter(|is_set| *is_set).count() > 1 {
        return fail(
            table_span,
            "a program can have only one of `exit`, `signal` and `hang`",
            "keep one of them; if all are omitted, it exits with status 0",
        );
    }
    let result = if table.hang {
        CommandResult::Hangs
    } else {
        CommandResult::Ended(CommandOutput {
            stdout: table.stdout,
            stderr: table.stderr,
            exit: if table.signal.is_some() { None } else { Some(table.exit.unwrap_or(0)) },
            signal: table.signal,
        })
    };
    Ok(RecordedCommand { argv: table.argv.into_inner(), result })
}

fn read_probe(
    table: Spanned<ProbeTable>,
    known: &[(String, ProbeAnswer)],
) -> Result<(String, ProbeAnswer), ParseError> {
    let table = table.into_inner();
    let id = table.id.get_ref();
    let span = table.id.span();
    if !Backend::ALL.iter().any(|backend| backend.id() == id && *backend != Backend::Cpu) {
        return fail(
            span,
            format!("`{id}` is not a backend with a probe"),
            "use one of cuda, rocm, vulkan, opencl, sycl, metal",
        );
    }
    if known.iter().any(|(other, _)| other == id) {
        return fail(span, format!("the probe of `{id}` is recorded twice"), "keep one of them");
    }
    let answer = ProbeAnswer { status: table.status, error: table.error, answer: table.answer };
    Ok((table.id.into_inner(), answer))
}

fn read_registry(platform: Platform, table: Spanned<RegistryTable>) -> Result<RecordedKey, ParseError> {
    let table_span = table.span();
    let table = table.into_inner();
    if platform.os != Os::Windows {
        let what = format!("{} has no registry", platform.os.id());
        return fail(table_span, what, "remove `[[registry]]`, or set `os = \"windows\"`");
    }
    let Some(value) = table.value else {
        if table.name.is_some() {
            return fail(
                table_span,
                "the `name` has no `value`",
                "add `value`, or omit `name` for a key without values",
            );
        }
        return Ok(RecordedKey { key: table.key.into_inner(), value: None });
    };
    let span = value.span();
    let (kind, text) = match (table.kind, value.into_inner()) {
        (RegistryType::Dword, RegistryText::Text(text)) => match number(&text) {
            Some(number) => (RegistryType::Dword, number.to_string()),
            None => {
                return fail(span, format!("`{text}` is not a number"), "write 1 or 0x1, or omit `type`");
            }
        },
        (_, RegistryText::Number(number)) => (RegistryType::Dword, number.to_string()),
        (_, RegistryText::Texts(texts)) => (RegistryType::MultiSz, texts.join("\n")),
        (kind, RegistryText::Text(text)) => (kind, text),
    };
    let value = Some((table.name.unwrap_or_default(), RegistryValue { kind, text }));
    Ok(RecordedKey { key: table.key.into_inner(), value })
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
