//! The script that runs a matrix as jobs of Slurm.

use std::fmt::Write as _;

use gpubuild_core::shell;
use gpubuild_plan::project::variant::CiTable;

use super::farm::FarmGroup;

/// The largest array: Slurm's default `MaxArraySize` of 1001 allows the indexes 0 to 1000.
pub const LARGEST_ARRAY: usize = 1000;

/// The script. It submits itself: one array job for each group, and a job that merges their packages.
#[must_use]
pub fn script(groups: &[FarmGroup<'_>], table: &CiTable) -> String {
    let quoted = |names: Vec<&str>| names.into_iter().map(shell::posix).collect::<Vec<_>>().join(" ");
    let mut names = String::new();
    let mut arrays = String::new();
    let mut packing = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let rows = quoted(group.rows.iter().map(|row| row.name.as_str()).collect());
        packing.extend(group.rows.iter().filter(|row| row.pack.is_some()).map(|row| row.name.as_str()));
        let _ = writeln!(names, "    {index}) rows=({rows}) ;;");
        let _ = writeln!(
            arrays,
            "submit_rows {index} {} --cpus-per-task={} --mem={}M --time={}",
            group.rows.len() - 1,
            group.resources.cpus,
            group.resources.memory_mib,
            group.resources.minutes
        );
    }
    gpubuild_templates::SLURM
        .replace("@gpubuild@", table.command.as_deref().unwrap_or("gpubuild"))
        .replace("@packing@", &quoted(packing))
        .replace("@names@\n", &names)
        .replace("@arrays@\n", &arrays)
}
