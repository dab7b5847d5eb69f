//! The reply of CMake's file API, as `build` reads it.

use gpubuild_exec::cmake::file_api::read;
use gpubuild_exec::cmake::fragments::{FragmentContext, link_items};
use gpubuild_host::recorded::{HostRecording, RecordedEntry, RecordedFile};
use gpubuild_host::{Arch, HostInfo as _, Os, Platform, RecordedHost};

use super::output::check_text;

/// What precedes the name of each file in an input.
const MARK: &str = "\n=== ";

/// Reads a reply and the link line of each target. The input consists of files: a line `=== NAME`, then the content.
pub fn run(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut is_accepted = false;
    for (os, build) in [(Os::Linux, "/build"), (Os::Windows, r"C:\build")] {
        let mut recording = HostRecording::new(Platform { os, arch: Arch::X86_64 });
        recording.files = files(text, build);
        let Ok(host) = RecordedHost::new(recording) else { continue };
        let build = host.path(build);
        match read(&host, &build, "Release") {
            Ok(reply) => {
                let context = FragmentContext { build: &build, os };
                for target in &reply.targets {
                    let _ = link_items(context, &reply, target);
                }
                assert!(reply.inputs.is_sorted() && reply.scripts.len() <= reply.inputs.len());
                is_accepted = true;
            }
            Err(error) => check_text(&error.to_string()),
        }
    }
    is_accepted
}

/// The files of an input, in the reply folder.
fn files(text: &str, build: &str) -> Vec<RecordedFile> {
    let text = format!("\n{text}");
    let parts = text.split(MARK).skip(1).map(|part| part.split_once('\n').unwrap_or((part, "")));
    parts
        .map(|(name, content)| RecordedFile {
            path: format!("{build}/.cmake/api/v1/reply/{}", name.trim_end()),
            entry: RecordedEntry::file(Some(content.as_bytes())),
        })
        .collect()
}
