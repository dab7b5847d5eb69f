//! Reads Ninja's files: the times at which outputs were built, and their dependencies.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;

use super::timings::TimedUnit;

/// Name of Ninja's log in a build folder.
pub const LOG: &str = ".ninja_log";

/// An output that Ninja built.
#[derive(Debug, Clone, PartialEq)]
pub struct NinjaOutput {
    /// The first output of the step.
    pub output: String,
    /// Start time in seconds after Ninja started.
    pub start: f64,
    /// End time in seconds after Ninja started.
    pub end: f64,
}

/// Parses the lines of a log that are not in `before`. A step with several outputs is returned once.
#[must_use]
pub fn parse_log(text: &str, before: &BTreeSet<String>) -> Vec<NinjaOutput> {
    let mut seen = BTreeSet::new();
    let fresh = text.lines().filter(|line| !line.starts_with('#') && !before.contains(*line));
    let built = fresh.filter_map(|line| {
        let mut fields = line.split('\t');
        let (start, end): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let (output, command) = (fields.nth(1)?, fields.next()?);
        let milliseconds = |value: u32| f64::from(value) / 1000.0;
        seen.insert((start, end, command.to_owned())).then(|| NinjaOutput {
            output: output.replace('\\', "/"),
            start: milliseconds(start),
            end: milliseconds(end.max(start)),
        })
    });
    built.collect()
}

/// A `build` statement of a `build.ninja`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    outputs: Vec<String>,
    inputs: Vec<String>,
}

/// Parses the `build` statements of a `build.ninja`.
#[must_use]
pub fn parse_edges(text: &str) -> Vec<Edge> {
    let joined = text.replace("$\r\n", "").replace("$\n", "");
    let statements = joined.lines().filter_map(|line| line.strip_prefix("build "));
    statements
        .filter_map(|statement| {
            let words = words(statement);
            let colon = words.iter().position(|word| word == ":")?;
            let plain = |word: &&String| !word.starts_with('|');
            let of = |words: &[String]| words.iter().filter(plain).cloned().collect::<Vec<String>>();
            // The first word after the colon is the rule.
            let inputs = of(words.get(colon + 2..).unwrap_or_default());
            Some(Edge { outputs: of(&words[..colon]), inputs })
        })
        .collect()
}

/// Splits a statement into words and resolves `$` escapes. The colon is a separate word.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut end = |word: &mut String| {
        if !word.is_empty() {
            words.push(std::mem::take(word));
        }
    };
    let mut letters = text.chars();
    let mut colons = 0;
    while let Some(letter) = letters.next() {
        match letter {
            '$' => word.extend(letters.next()),
            ' ' => end(&mut word),
            // Only the first unescaped colon ends the outputs. CMake escapes colons in names.
            ':' if colons == 0 => {
                colons += 1;
                end(&mut word);
                word.push(':');
                end(&mut word);
            }
            letter => word.push(letter),
        }
    }
    end(&mut word);
    words
}

/// Returns for each unit the units that had to be built before it. Dependencies through outputs that were not rebuilt are
/// followed.
#[must_use]
pub fn needs(units: &[TimedUnit], edges: &BTreeMap<String, Vec<Edge>>) -> Vec<Vec<usize>> {
    let mut needs = vec![Vec::new(); units.len()];
    for (tree, edges) in edges {
        let by_output: BTreeMap<&str, &Edge> = edges
            .iter()
            .flat_map(|edge| edge.outputs.iter().map(move |output| (output.as_str(), edge)))
            .collect_map();
        let built: BTreeMap<&str, usize> = (units.iter().enumerate())
            .filter(|(_, unit)| unit.tree == *tree)
            .map(|(index, unit)| (unit.output.as_str(), index))
            .collect_map();
        for (output, index) in &built {
            let mut open: Vec<&str> = inputs(&by_output, output);
            let mut seen = BTreeSet::new();
            while let Some(name) = open.pop().filter(|_| seen.len() < 100_000) {
                if !seen.insert(name) {
                    continue;
                }
                match by_output.get(name).and_then(|edge| first_built(edge, &built)) {
                    Some(other) if other != *index => needs[*index].push(other),
                    _ => open.extend(inputs(&by_output, name)),
                }
            }
            needs[*index].sort_indirect();
            needs[*index].dedup();
        }
    }
    needs
}

fn inputs<'a>(edges: &BTreeMap<&str, &'a Edge>, output: &str) -> Vec<&'a str> {
    edges.get(output).map(|edge| edge.inputs.iter().map(String::as_str).collect()).unwrap_or_default()
}

/// The unit of a step. The log may list the step under any of its outputs.
fn first_built(edge: &Edge, built: &BTreeMap<&str, usize>) -> Option<usize> {
    edge.outputs.iter().find_map(|output| built.get(output.as_str()).copied())
}

/// Returns the longest chain of dependent units by duration. Its total is a lower bound for the duration of a build with any
/// number of processors.
#[must_use]
pub fn critical_path(units: &[TimedUnit], needs: &[Vec<usize>]) -> Vec<usize> {
    // Dependencies end before their dependents, so in the order of end times each unit follows its dependencies.
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_indirect_by(|left, right| units[*left].end.total_cmp(&units[*right].end));
    let mut longest = vec![(0.0_f64, None); units.len()];
    for index in order {
        let before = needs.get(index).into_iter().flatten().copied();
        let best = before.max_by(|left, right| longest[*left].0.total_cmp(&longest[*right].0));
        longest[index] = (units[index].seconds() + best.map_or(0.0, |best| longest[best].0), best);
    }
    let mut at = (0..units.len()).max_by(|left, right| longest[*left].0.total_cmp(&longest[*right].0));
    let mut path = Vec::new();
    while let Some(index) = at.filter(|_| path.len() <= units.len()) {
        path.push(index);
        at = longest[index].1;
    }
    path.reverse();
    path
}
