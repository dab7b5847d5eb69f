//! Sorting with little code. The standard library's sort is compiled again for every type and comparison, also where items are collected
//! into a sorted map. The methods here sort positions, with code that is compiled once, and then move the items; or they insert items one
//! by one. That suits collections that are short or filled once.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Stable sorting, as the methods of slices without `indirect` do it.
pub trait SortIndirect<T> {
    /// Sorts the items.
    fn sort_indirect(&mut self)
    where
        T: Ord;

    /// Sorts with a comparison.
    fn sort_indirect_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts by a key, which is computed for each comparison.
    fn sort_indirect_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
}

impl<T> SortIndirect<T> for [T] {
    fn sort_indirect(&mut self)
    where
        T: Ord,
    {
        self.sort_indirect_by(T::cmp);
    }

    fn sort_indirect_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let order = sorted(self.len(), &mut |left, right| compare(&self[left], &self[right]));
        for (left, right) in swaps(order) {
            self.swap(left, right);
        }
    }

    fn sort_indirect_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.sort_indirect_by(|left, right| key(left).cmp(&key(right)));
    }
}

/// The positions of the items in ascending order.
fn sorted(length: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|left, right| compare(*left, *right));
    order
}

/// The swaps that bring the item at `order[n]` to position `n`, for every `n`: each cycle of the permutation, from its start.
fn swaps(mut order: Vec<usize>) -> Vec<(usize, usize)> {
    let mut swaps = Vec::new();
    for start in 0..order.len() {
        let mut here = start;
        while order[here] != start {
            let from = order[here];
            swaps.push((here, from));
            order[here] = here;
            here = from;
        }
        order[here] = here;
    }
    swaps
}

/// Sorted maps and sets of the items of an iterator, as `collect` makes them.
pub trait CollectSorted: Iterator + Sized {
    /// A sorted set.
    fn collect_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = BTreeSet::new();
        set.extend(self);
        set
    }

    /// A sorted map. The last of several values of a key is kept.
    fn collect_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        map.extend(self);
        map
    }
}

impl<I: Iterator> CollectSorted for I {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_are_sorted_as_the_standard_library_sorts_them(items in prop::collection::vec((0u8..20, any::<u16>()), 0..200)) {
            let (mut ours, mut theirs) = (items.clone(), items.clone());
            ours.sort_indirect();
            theirs.sort_unstable();
            prop_assert_eq!(&ours, &theirs);

            prop_assert_eq!(items.iter().collect_set(), items.iter().collect::<BTreeSet<_>>());
            prop_assert_eq!(items.iter().copied().collect_map(), items.iter().copied().collect::<BTreeMap<_, _>>());

            let (mut ours, mut theirs) = (items.clone(), items);
            ours.sort_indirect_by_key(|(key, _)| std::cmp::Reverse(*key));
            theirs.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
            prop_assert_eq!(ours, theirs, "equal keys keep their order");
        }
    }
}
