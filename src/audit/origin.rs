//! The compiler flags of each object, from the manifest. No I/O.
//!
//! The flags distinguish code for every processor from code for certain processors. Sources with separate flags (`kernels_avx2.c` with
//! `-mavx2`) are intended to be selected at run time. Sources with the flags that all sources share are not.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::isa::{AllowedFeatures, Processor};
use gpubuild_core::order::CollectSorted as _;
use gpubuild_plan::artifacts::{BuiltTree, CompileGroup};

/// How an object was compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileOrigin {
    /// The flags are unknown.
    Unknown,
    /// Without flags that allow more than the baseline. Only `target` attributes of functions can allow more.
    Plain,
    /// With flags that allow features which not all sources may use.
    Own(AllowedFeatures),
    /// With flags that all sources share, or for the processor of the build machine.
    Common,
}

/// The compile groups of a tree.
pub struct Origins<'a> {
    tree: &'a BuiltTree,
    processor: &'a Processor,
    /// The features that the flags of all groups allow, by language.
    common: BTreeMap<&'a str, BTreeSet<String>>,
}

impl<'a> Origins<'a> {
    /// The compile groups of a tree with code for a processor.
    #[must_use]
    pub fn new(tree: &'a BuiltTree, processor: &'a Processor) -> Self {
        let languages: BTreeSet<&str> =
            tree.compile.iter().map(|group| group.language.as_str()).collect_set();
        let common = languages.iter().map(|language| {
            let of_language = |group: &&CompileGroup| group.language == *language;
            let sources: usize =
                tree.compile.iter().filter(of_language).map(|group| group.sources.len()).sum();
            // The only source of a language is compared with the sources of the other languages.
            let is_alone = sources < 2 && languages.len() > 1;
            let groups = tree.compile.iter().filter(|group| is_alone || of_language(group));
            (*language, shared(processor, groups))
        });
        let common = common.collect();
        Self { tree, processor, common }
    }

    /// How the member of a target's archive was compiled: `kernels_avx2.c.o`.
    #[must_use]
    pub fn of_member(&self, target: &str, member: &str) -> CompileOrigin {
        let source = member.strip_suffix(".o").or_else(|| member.strip_suffix(".obj")).unwrap_or(member);
        let has = |group: &&CompileGroup| group.sources.iter().any(|known| known == source);
        let named: Vec<&CompileGroup> = self.tree.compile.iter().filter(has).collect();
        let own: Vec<&CompileGroup> = named.iter().copied().filter(|group| group.target == target).collect();
        // Object libraries become part of archives under their own names.
        self.of_groups(if own.is_empty() { &named } else { &own })
    }

    /// How the code of a linked target was compiled. Separate flags of any group take precedence over common flags.
    #[must_use]
    pub fn of_target(&self, target: &str) -> CompileOrigin {
        let groups: Vec<_> = self.tree.compile.iter().filter(|group| group.target == target).collect();
        self.of_groups(&groups)
    }

    fn of_groups(&self, groups: &[&CompileGroup]) -> CompileOrigin {
        let mut own = AllowedFeatures::default();
        let mut origin = CompileOrigin::Unknown;
        for group in groups {
            let allowed = allowed(self.processor, group);
            let common = self.common.get(group.language.as_str());
            let shared = |feature: &String| common.is_some_and(|common| common.contains(feature));
            if allowed.native {
                return CompileOrigin::Common;
            }
            if allowed.features.iter().any(|feature| !shared(feature)) {
                own.add(&allowed);
            } else if !allowed.features.is_empty() {
                origin = CompileOrigin::Common;
            } else if origin == CompileOrigin::Unknown {
                origin = CompileOrigin::Plain;
            }
        }
        if own.is_baseline() { origin } else { CompileOrigin::Own(own) }
    }
}

/// The features that the flags of all groups allow.
fn shared<'a>(processor: &Processor, groups: impl Iterator<Item = &'a CompileGroup>) -> BTreeSet<String> {
    let each = groups.map(|group| allowed(processor, group).features);
    each.reduce(|left, right| left.intersection(&right).cloned().collect()).unwrap_or_default()
}

fn allowed(processor: &Processor, group: &CompileGroup) -> AllowedFeatures {
    processor.flags(group.flags.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_core::isa;

    fn group(target: &str, flags: &str, sources: &str) -> CompileGroup {
        let list = |text: &str| text.split_ascii_whitespace().map(str::to_owned).collect();
        CompileGroup {
            target: target.into(),
            language: "C".into(),
            flags: list(flags),
            sources: list(sources),
        }
    }

    fn check(groups: Vec<CompileGroup>, member: &str, expected: &str) {
        let tree = BuiltTree { compile: groups, ..super::super::tests::tree() };
        let origins = Origins::new(&tree, isa::table().processor("x86_64").unwrap());
        let name = match origins.of_member("gk", member) {
            CompileOrigin::Unknown => "unknown",
            CompileOrigin::Plain => "plain",
            CompileOrigin::Own(_) => "own",
            CompileOrigin::Common => "common",
        };
        assert_eq!(name, expected, "{member}");
    }

    #[test]
    fn sources_with_separate_flags_are_distinguished() {
        let groups = || vec![group("gk", "", "a.c b.c"), group("gk", "-mavx2", "kernels_avx2.c")];
        check(groups(), "a.c.o", "plain");
        check(groups(), "kernels_avx2.c.o", "own");
        check(groups(), "kernels_avx2.c.obj", "own");
        check(groups(), "other.c.o", "unknown");
        // A separate target counts like a separate file.
        check(vec![group("x", "", "a.c"), group("y", "-mavx2", "fast.c")], "fast.c.o", "own");
    }

    #[test]
    fn flags_that_all_sources_share_are_common() {
        check(vec![group("gk", "-mavx2", "a.c b.c")], "a.c.o", "common");
        let groups = || vec![group("gk", "-mavx2", "a.c"), group("gk", "-mavx2 -mavx512f", "b.c")];
        check(groups(), "a.c.o", "common");
        check(groups(), "b.c.o", "own");
        check(vec![group("gk", "", "a.c"), group("gk", "-march=native", "b.c")], "b.c.o", "common");
    }
}
