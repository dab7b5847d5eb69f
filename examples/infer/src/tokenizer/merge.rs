//! The merge loop that both tokenizer families share: repeatedly joins the best neighbouring pair.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;

/// A pair that can be merged.
struct Candidate {
    priority: f64,
    left: usize,
    right: usize,
    /// Total bytes of both symbols, to detect whether one of them has changed since.
    length: usize,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority.total_cmp(&other.priority).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

struct Symbol {
    range: Range<usize>,
    previous: Option<usize>,
    next: Option<usize>,
}

/// Splits `text` into its characters and repeatedly merges the pair with the highest priority, the leftmost
/// on ties. `priority` receives the left and the right half; `None` means that they never merge.
pub(super) fn merge(text: &str, mut priority: impl FnMut(&str, &str) -> Option<f64>) -> Vec<Range<usize>> {
    let mut symbols: Vec<Symbol> = Vec::new();
    for (start, character) in text.char_indices() {
        let index = symbols.len();
        if let Some(last) = symbols.last_mut() {
            last.next = Some(index);
        }
        let range = start..start + character.len_utf8();
        symbols.push(Symbol { range, previous: index.checked_sub(1), next: None });
    }
    let mut queue = BinaryHeap::new();
    let mut offer = |symbols: &[Symbol], queue: &mut BinaryHeap<Candidate>, left: Option<usize>| {
        let Some(left) = left else { return };
        let Some(right) = symbols[left].next else { return };
        let (a, b) = (&symbols[left].range, &symbols[right].range);
        if let Some(priority) = priority(&text[a.clone()], &text[b.clone()]) {
            queue.push(Candidate { priority, left, right, length: a.len() + b.len() });
        }
    };
    for index in 0..symbols.len() {
        offer(&symbols, &mut queue, Some(index));
    }
    while let Some(Candidate { left, right, length, .. }) = queue.pop() {
        let stale = symbols[left].range.is_empty()
            || symbols[left].next != Some(right)
            || symbols[left].range.len() + symbols[right].range.len() != length;
        if stale {
            continue;
        }
        symbols[left].range.end = symbols[right].range.end;
        symbols[right].range = 0..0;
        let next = symbols[right].next;
        symbols[left].next = next;
        if let Some(next) = next {
            symbols[next].previous = Some(left);
        }
        let previous = symbols[left].previous;
        offer(&symbols, &mut queue, previous);
        offer(&symbols, &mut queue, Some(left));
    }
    symbols.into_iter().map(|symbol| symbol.range).filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::merge;

    fn pieces(text: &str, table: &[(&str, f64)]) -> Vec<String> {
        let priority = |left: &str, right: &str| {
            let both = format!("{left}{right}");
            table.iter().find(|(name, _)| *name == both).map(|(_, score)| *score)
        };
        merge(text, priority).into_iter().map(|range| text[range].to_owned()).collect()
    }

    #[test]
    fn best_pair_first_then_leftmost() {
        assert_eq!(pieces("abc", &[("ab", 1.0), ("bc", 2.0)]), ["a", "bc"]);
        assert_eq!(pieces("aaa", &[("aa", 1.0)]), ["aa", "a"]);
        assert_eq!(pieces("abab", &[("ab", 1.0), ("abab", 0.5)]), ["abab"]);
        assert_eq!(pieces("", &[("ab", 1.0)]), Vec::<String>::new());
    }
}
