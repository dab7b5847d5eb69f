//! The script that runs a matrix as jobs of Slurm.

use std::fmt::Write as _;

use gpubuild_core::shell;
use gpubuild_plan::project::variant::CiTable;

use super::farm::{self, FarmGroup, FarmResources};
use super::image::Images;
use super::row::CiRow;
use super::rows::Rows;
use super::test_row::CiTestRow;

/// The largest array: Slurm's default `MaxArraySize` of 1001 allows the indexes 0 to 1000.
pub const LARGEST_ARRAY: usize = 1000;

/// The options that an image of the project requests for a row.
fn options<'a>(images: &'a Images, row: &CiRow) -> &'a [String] {
    images.get(&row.image).map(|image| image.requests.sbatch()).unwrap_or_default()
}

/// The rows of a platform in groups with the same resources and options.
#[must_use]
pub fn groups<'a>(rows: &'a Rows, platform: &str, images: &Images) -> Vec<FarmGroup<'a>> {
    let of_platform = rows.include.iter().filter(|row| row.platform == platform);
    farm::groups(of_platform, LARGEST_ARRAY, |row| options(images, row))
}

/// The script. It submits itself: one array job for each group, one job for each test of these rows, and a job that merges their packages.
#[must_use]
pub fn script(groups: &[FarmGroup<'_>], tests: &[CiTestRow], table: &CiTable, images: &Images) -> String {
    let (mut names, mut arrays, mut packing) = (String::new(), String::new(), Vec::new());
    for (index, group) in groups.iter().enumerate() {
        let rows = quoted(group.rows.iter().map(|row| row.name.as_str()));
        packing.extend(group.rows.iter().filter(|row| row.pack.is_some()).map(|row| row.name.as_str()));
        let _ = writeln!(names, "    {index}) rows=({rows}) ;;");
        let own = group.rows.first().map(|row| options(images, row)).unwrap_or_default();
        let _ = writeln!(
            arrays,
            "{}submit_rows {index} {} {}",
            own_options(own),
            group.rows.len() - 1,
            reserved(group.resources)
        );
    }
    let (mut tested, mut submitted) = (String::new(), String::new());
    let place = |test: &CiTestRow| {
        groups
            .iter()
            .enumerate()
            .find_map(|(group, one)| Some((group, one.rows.iter().position(|row| row.name == test.of)?)))
    };
    let placed = tests.iter().filter_map(|test| Some((test, place(test)?)));
    for (index, (test, (group, task))) in placed.enumerate() {
        let (name, of) = (shell::posix(&test.name), shell::posix(&test.of));
        let _ = writeln!(tested, "    {index}) test={name} of={of} ;;");
        let own = images.get(&test.image).map(|image| image.requests.sbatch_of_test()).unwrap_or_default();
        let _ = writeln!(
            submitted,
            "{}submit_test {index} {group} {task} {}",
            own_options(&own),
            reserved(farm::TEST)
        );
    }
    gpubuild_templates::SLURM
        .replace("@gpubuild@", table.command.as_deref().unwrap_or("gpubuild"))
        .replace("@packing@", &quoted(packing.into_iter()))
        .replace("@names@\n", &names)
        .replace("@tested@\n", &tested)
        .replace("@arrays@\n", &arrays)
        .replace("@tests@\n", &submitted)
}

fn quoted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(shell::posix).collect::<Vec<_>>().join(" ")
}

/// The line that sets the options of an image for the next job.
fn own_options(options: &[String]) -> String {
    if options.is_empty() {
        return String::new();
    }
    format!("own=({})\n", quoted(options.iter().map(String::as_str)))
}

fn reserved(resources: FarmResources) -> String {
    let FarmResources { cpus, memory_mib, minutes } = resources;
    format!("--cpus-per-task={cpus} --mem={memory_mib}M --time={minutes}")
}
