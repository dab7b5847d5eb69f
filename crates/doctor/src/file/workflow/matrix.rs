//! The combinations of a job's matrix.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::file::yaml::YamlNode;

/// One combination: matrix values by name.
pub type Combination = BTreeMap<String, Rc<YamlNode>>;

/// GitHub's limit of combinations per job.
const MAX_COMBINATIONS: usize = 256;

/// The combinations of a matrix, at least one. Values that are only known at run time are omitted.
#[must_use]
pub fn combinations(matrix: Option<&YamlNode>) -> Vec<Combination> {
    let Some(matrix) = matrix else { return vec![Combination::new()] };
    let mut list = vec![Combination::new()];
    let mut names: Vec<&str> = Vec::new();
    for pair in matrix.pairs().iter().filter(|pair| !matches!(pair.key.as_str(), "include" | "exclude")) {
        let values = pair.node.items();
        if values.is_empty() {
            continue;
        }
        names.push(&pair.key);
        let mut next = Vec::new();
        for combination in &list {
            for value in values {
                if next.len() < MAX_COMBINATIONS {
                    let mut combination = combination.clone();
                    combination.insert(pair.key.clone(), Rc::clone(value));
                    next.push(combination);
                }
            }
        }
        list = next;
    }
    let entries = |key: &str| matrix.get(key).map(YamlNode::items).unwrap_or_default();
    for entry in entries("exclude") {
        let matches = |combination: &Combination| {
            entry
                .pairs()
                .iter()
                .all(|pair| combination.get(&pair.key).is_some_and(|value| same(value, &pair.node)))
        };
        list.retain(|combination| !matches(combination));
    }
    let original = if names.is_empty() { 0 } else { list.len() };
    if names.is_empty() && !entries("include").is_empty() {
        list.clear();
    }
    for entry in entries("include") {
        let mut was_merged = false;
        for combination in &mut list[..original.min(MAX_COMBINATIONS)] {
            let is_compatible = entry
                .pairs()
                .iter()
                .filter(|pair| names.contains(&pair.key.as_str()))
                .all(|pair| combination.get(&pair.key).is_some_and(|value| same(value, &pair.node)));
            if is_compatible {
                was_merged = true;
                for pair in entry.pairs() {
                    combination.insert(pair.key.clone(), Rc::clone(&pair.node));
                }
            }
        }
        if !was_merged && list.len() < MAX_COMBINATIONS {
            list.push(entry.pairs().iter().map(|pair| (pair.key.clone(), Rc::clone(&pair.node))).collect());
        }
    }
    if list.is_empty() { vec![Combination::new()] } else { list }
}

fn same(left: &YamlNode, right: &YamlNode) -> bool {
    left.text().is_some() && left.text() == right.text()
}

/// The value at a path such as `os` or `config.cuda`.
#[must_use]
pub fn value<'a>(combination: &'a Combination, path: &str) -> Option<&'a YamlNode> {
    let mut parts = path.split('.');
    let first = combination.get(parts.next()?)?;
    parts.try_fold(first.as_ref(), |node, key| node.get(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::yaml::parse;

    fn shown(text: &str) -> Vec<String> {
        let node = parse(text).unwrap().remove(0);
        let describe = |combination: &Combination| {
            let values: Vec<String> = combination
                .iter()
                .map(|(name, node)| format!("{name}={}", node.text().unwrap_or("{}")))
                .collect();
            values.join(" ")
        };
        combinations(Some(&node)).iter().map(describe).collect()
    }

    #[test]
    fn combinations_follow_githubs_rules() {
        assert_eq!(
            shown("os: [a, b]\ncuda: [1, 2]\nexclude:\n  - os: b\n    cuda: 2\n"),
            ["cuda=1 os=a", "cuda=2 os=a", "cuda=1 os=b"]
        );
        assert_eq!(
            shown("os: [a, b]\ninclude:\n  - os: a\n    x: 1\n  - os: c\n    y: 2\n"),
            ["os=a x=1", "os=b", "os=c y=2"]
        );
        assert_eq!(shown("include:\n  - os: a\n  - os: b\n"), ["os=a", "os=b"]);
        assert_eq!(shown("os: ${{ fromJSON(x) }}\n"), [""]);
        assert_eq!(shown("config:\n  - {os: a, cuda: 1}\n"), ["config={}"]);
        let large: String =
            (0..8).map(|index| format!("k{index}: [1, 2, 3, 4]\n")).collect::<Vec<_>>().concat();
        assert_eq!(shown(&large).len(), MAX_COMBINATIONS);
    }
}
