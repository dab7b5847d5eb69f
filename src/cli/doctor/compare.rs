//! `doctor --save` and `doctor --diff`: what changed since it worked.

use gpubuild_detect::id;
use gpubuild_doctor::snapshot::{DoctorSnapshot, SCHEMA, SnapshotChange, diff};
use gpubuild_exec::store;
use gpubuild_host::HostPath;

use crate::cli::{CommandContext, Failure, absolute};

/// Name of the snapshot that is meant when none is named.
const LAST: &str = "doctor/last.json";

/// The file of a snapshot: the one that was named, or the user's last one.
fn place(context: &CommandContext<'_>, file: &str) -> Result<HostPath, Failure> {
    if !file.is_empty() {
        return absolute(context, file);
    }
    let cache = gpubuild_host::folders::cache_folder(context.host).ok_or_else(|| {
        Failure::usage(id!("doctor.no-cache"), "no user folder to save a snapshot in")
            .hint("name a file, or set GPUBUILD_CACHE")
    })?;
    Ok(cache.join(LAST))
}

/// Keeps a snapshot.
pub(super) fn save(
    context: &CommandContext<'_>,
    file: &str,
    snapshot: &DoctorSnapshot,
) -> Result<(), Failure> {
    let path = place(context, file)?;
    store::write_json(context.host, &path, snapshot).map_err(|error| {
        Failure::negative(id!("doctor.snapshot-unwritable"), format!("failed to write `{path}`: {error}"))
    })?;
    context.printer.say(&format!("saved {} values in `{path}`", snapshot.values.len()));
    context.printer.hint("`gpubuild doctor --diff` shows what changed since");
    Ok(())
}

/// What changed since a snapshot that was kept.
pub(super) fn changes(
    context: &CommandContext<'_>,
    file: &str,
    now: &DoctorSnapshot,
) -> Result<Vec<SnapshotChange>, Failure> {
    let path = place(context, file)?;
    let text = context.host.read(&path).map_err(|error| {
        Failure::usage(id!("doctor.snapshot-unreadable"), format!("failed to read `{path}`: {error}"))
            .hint("`gpubuild doctor --save` makes one, best while everything works")
    })?;
    let before: DoctorSnapshot = serde_json::from_slice(&text).map_err(|error| {
        Failure::usage(id!("doctor.snapshot-invalid"), format!("`{path}` is not a snapshot: {error}"))
    })?;
    if before.schema != SCHEMA {
        let message = format!("`{path}` has the form `{}`, and this program reads `{SCHEMA}`", before.schema);
        return Err(Failure::usage(id!("doctor.snapshot-invalid"), message));
    }
    Ok(diff(&before, now))
}
