//! `doctor --save` and `doctor --diff`: saves a snapshot of the machine and compares the machine with it.

use gpubuild_detect::id;
use gpubuild_doctor::snapshot::{DoctorSnapshot, SCHEMA, SnapshotChange, diff};
use gpubuild_exec::store;
use gpubuild_host::HostPath;

use crate::cli::document::check_replaceable;
use crate::cli::{CommandContext, Failure, absolute};

/// The default snapshot, relative to the cache folder.
const DEFAULT_FILE: &str = "doctor/last.json";

/// The path of a snapshot. An empty name means the default snapshot.
fn snapshot_path(context: &CommandContext<'_>, file: &str) -> Result<HostPath, Failure> {
    if !file.is_empty() {
        return absolute(context, file);
    }
    let cache = gpubuild_host::folders::cache_folder(context.host).ok_or_else(|| {
        Failure::usage(id!("doctor.no-cache"), "the user's cache folder for snapshots is unknown")
            .hint("specify a file, or set GPUBUILD_CACHE")
    })?;
    Ok(cache.join(DEFAULT_FILE))
}

/// Writes a snapshot.
pub(super) fn save(
    context: &CommandContext<'_>,
    file: &str,
    snapshot: &DoctorSnapshot,
) -> Result<(), Failure> {
    let path = snapshot_path(context, file)?;
    check_replaceable(context, &path, |text| text.contains("gpubuild.snapshot/"))?;
    store::write_json(context.host, &path, snapshot)
        .map_err(|error| Failure::file(id!("doctor.snapshot-unwritable"), "write", &path, &error))?;
    context.printer.status(&format!("saved {} values in `{path}`", snapshot.values.len()));
    context.printer.hint("`gpubuild doctor --diff` shows what changed since");
    Ok(())
}

/// The changes since a saved snapshot.
pub(super) fn changes(
    context: &CommandContext<'_>,
    file: &str,
    now: &DoctorSnapshot,
) -> Result<Vec<SnapshotChange>, Failure> {
    let path = snapshot_path(context, file)?;
    let text = context.host.read(&path).map_err(|error| {
        Failure::usage(id!("doctor.snapshot-unreadable"), format!("failed to read `{path}`: {error}"))
            .hint("save one with `gpubuild doctor --save` while everything works")
    })?;
    let before: DoctorSnapshot = serde_json::from_slice(&text).map_err(|error| {
        Failure::usage(id!("doctor.snapshot-invalid"), format!("`{path}` is not a snapshot: {error}"))
    })?;
    if before.schema != SCHEMA {
        let message = format!(
            "`{path}` has the schema `{}`, but this version of gpubuild reads `{SCHEMA}`",
            before.schema
        );
        return Err(Failure::usage(id!("doctor.snapshot-invalid"), message));
    }
    Ok(diff(&before, now))
}
