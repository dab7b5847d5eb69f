//! The rows for a cluster, in groups that need the same resources, the longest first.

use gpubuild_core::order::SortIndirect as _;

use super::row::{CiRow, MIN_TIMEOUT_MINUTES};

/// The time limit in minutes of a row whose time is unknown: the longest that GitHub gives a job.
pub const UNKNOWN_MINUTES: u64 = 360;
/// The shortest time limit in minutes. Other limits are this one, doubled until they suffice, so that similar rows share a group.
const SHORTEST_MINUTES: u64 = MIN_TIMEOUT_MINUTES;

/// What a scheduler reserves for a job that only tests, unless its image requests more.
pub const TEST: FarmResources = FarmResources { cpus: 2, memory_mib: 4096, minutes: MIN_TIMEOUT_MINUTES };

/// What a scheduler reserves for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FarmResources {
    /// Processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Time limit in minutes.
    pub minutes: u64,
}

impl FarmResources {
    fn of(row: &CiRow) -> Self {
        let needs = &row.needs;
        Self {
            cpus: needs.jobs.max(1),
            memory_mib: needs.memory_bytes.div_ceil(1 << 20),
            minutes: needs.timeout_minutes.map_or(UNKNOWN_MINUTES, limit),
        }
    }
}

/// The time limit of the group for a time.
fn limit(minutes: u64) -> u64 {
    let mut limit = SHORTEST_MINUTES;
    while limit < minutes {
        limit *= 2;
    }
    limit
}

/// Rows that are submitted together, as one array job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarmGroup<'a> {
    /// The resources of each row.
    pub resources: FarmResources,
    /// The rows, in the order of [`longest_first`].
    pub rows: Vec<&'a CiRow>,
}

/// The rows in groups with the same resources and the same key, at most `largest` in each. The groups are in the order of their first
/// rows.
pub fn groups<'a, K: PartialEq>(
    rows: impl Iterator<Item = &'a CiRow>,
    largest: usize,
    key: impl Fn(&'a CiRow) -> K,
) -> Vec<FarmGroup<'a>> {
    let mut groups: Vec<FarmGroup<'a>> = Vec::new();
    for row in longest_first(rows) {
        let resources = FarmResources::of(row);
        let fits = |group: &&mut FarmGroup<'a>| {
            group.resources == resources
                && group.rows.len() < largest
                && group.rows[0].is_last == row.is_last
                && key(group.rows[0]) == key(row)
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.rows.push(row),
            None => groups.push(FarmGroup { resources, rows: vec![row] }),
        }
    }
    groups
}

/// Orders rows by their expected time, so that no long row starts last. Rows of unknown time are first; equal rows keep their order. All
/// rows that are marked to be last follow the others.
pub fn longest_first<'a>(rows: impl Iterator<Item = &'a CiRow>) -> Vec<&'a CiRow> {
    let mut rows: Vec<&CiRow> = rows.collect();
    let expected = |row: &&CiRow| match row.needs.cpu_seconds {
        0 => u64::MAX,
        seconds => seconds,
    };
    rows.sort_indirect_by_key(|row| (row.is_last, std::cmp::Reverse(expected(row))));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::row::RowNeeds;

    fn row(name: &str, platform: &str, cpu_seconds: u64, jobs: u32, minutes: Option<u64>) -> CiRow {
        let needs = RowNeeds {
            jobs,
            cpu_seconds,
            memory_bytes: u64::from(jobs) << 30,
            timeout_minutes: minutes,
            ..RowNeeds::default()
        };
        CiRow { name: name.to_owned(), platform: platform.to_owned(), needs, ..CiRow::default() }
    }

    fn names<'a>(group: &FarmGroup<'a>) -> Vec<&'a str> {
        group.rows.iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn rows_are_grouped_by_resources_longest_first() {
        let rows = [
            row("short", "a", 10, 4, Some(20)),
            row("other key", "b", 900, 4, Some(20)),
            row("unknown", "a", 0, 4, None),
            row("long", "a", 4000, 4, Some(67)),
            row("as long", "a", 4000, 4, Some(67)),
            row("longer", "a", 4100, 4, Some(70)),
            row("narrow", "a", 20, 2, Some(20)),
        ];
        let groups = groups(rows.iter(), 1000, |row| &row.platform);
        let lists: Vec<_> = groups.iter().map(names).collect();
        let long = vec!["longer", "long", "as long"];
        assert_eq!(lists, [vec!["unknown"], long, vec!["other key"], vec!["narrow"], vec!["short"]]);
        let minutes: Vec<_> = groups.iter().map(|group| group.resources.minutes).collect();
        assert_eq!(minutes, [UNKNOWN_MINUTES, 80, 20, 20, 20]);
        assert_eq!(groups[1].resources, FarmResources { cpus: 4, memory_mib: 4096, minutes: 80 });
    }

    #[test]
    fn rows_that_are_last_follow_shorter_rows_in_groups_of_their_own() {
        let mut rows = [
            row("long", "", 900, 4, Some(20)),
            row("unknown", "", 0, 4, None),
            row("changed", "", 20, 4, Some(20)),
            row("changed too", "", 30, 4, Some(20)),
        ];
        rows[0].is_last = true;
        rows[1].is_last = true;
        let groups = groups(rows.iter(), 1000, |_| "");
        let lists: Vec<_> = groups.iter().map(names).collect();
        assert_eq!(lists, [vec!["changed too", "changed"], vec!["unknown"], vec!["long"]]);
    }

    #[test]
    fn large_groups_are_split() {
        let rows: Vec<CiRow> = (0..25).map(|number| row(&number.to_string(), "", 60, 4, None)).collect();
        let sizes: Vec<_> = groups(rows.iter(), 10, |_| "").iter().map(|group| group.rows.len()).collect();
        assert_eq!(sizes, [10, 10, 5]);
    }
}
