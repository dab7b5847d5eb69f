//! Where code comes from: which objects were compiled for which instruction set, as the manifest knows it. Pure.
//!
//! This tells code that every processor runs from code that is there for some of them. Sources with flags of their own
//! (`kernels_avx2.c` with `-mavx2`) are meant to be chosen at run time; flags that all sources share are not.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::isa::{Processor, Promise};
use gpubuild_plan::artifacts::{BuiltTree, CompileGroup};

/// How an object was compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolchainOrigin {
    /// Unknown.
    Unknown,
    /// Without any flag that allows more: what is more was asked for function by function.
    Plain,
    /// With flags for a level of its own.
    Own(Promise),
    /// With flags that everything else was compiled with as well, or for the build machine's processor.
    Common,
}

/// The compile groups of a tree.
pub struct Origins<'a> {
    tree: &'a BuiltTree,
    processor: &'a Processor,
    /// Per language what the flags of all groups allow.
    common: BTreeMap<&'a str, BTreeSet<String>>,
}

impl<'a> Origins<'a> {
    /// Of a tree whose code is for a processor.
    #[must_use]
    pub fn new(tree: &'a BuiltTree, processor: &'a Processor) -> Self {
        let languages: BTreeSet<&str> = tree.compile.iter().map(|group| group.language.as_str()).collect();
        let common = languages.iter().map(|language| {
            let of_language = |group: &&CompileGroup| group.language == *language;
            let sources: usize =
                tree.compile.iter().filter(of_language).map(|group| group.sources.len()).sum();
            // A source that is the only one of its language is compared with the sources of the other languages.
            let is_alone = sources < 2 && languages.len() > 1;
            let groups = tree.compile.iter().filter(|group| is_alone || of_language(group));
            (*language, shared(processor, groups))
        });
        let common = common.collect();
        Self { tree, processor, common }
    }

    /// How the member of a target's archive was compiled: `kernels_avx2.c.o`.
    #[must_use]
    pub fn of_member(&self, target: &str, member: &str) -> ToolchainOrigin {
        let source = member.strip_suffix(".o").or_else(|| member.strip_suffix(".obj")).unwrap_or(member);
        let has = |group: &&CompileGroup| group.sources.iter().any(|known| known == source);
        let named: Vec<&CompileGroup> = self.tree.compile.iter().filter(has).collect();
        let own: Vec<&CompileGroup> = named.iter().copied().filter(|group| group.target == target).collect();
        // Object libraries become part of archives under their own names.
        self.of_groups(if own.is_empty() { &named } else { &own })
    }

    /// How the code of a linked target was compiled, as far as it can be determined for the complete target.
    #[must_use]
    pub fn of_target(&self, target: &str) -> ToolchainOrigin {
        let groups: Vec<_> = self.tree.compile.iter().filter(|group| group.target == target).collect();
        self.of_groups(&groups)
    }

    fn of_groups(&self, groups: &[&CompileGroup]) -> ToolchainOrigin {
        let mut own = Promise::default();
        let mut origin = ToolchainOrigin::Unknown;
        for group in groups {
            let allowed = allowed(self.processor, group);
            let common = self.common.get(group.language.as_str());
            let shared = |feature: &String| common.is_some_and(|common| common.contains(feature));
            if allowed.native {
                return ToolchainOrigin::Common;
            }
            if allowed.features.iter().any(|feature| !shared(feature)) {
                own.add(&allowed);
            } else if !allowed.features.is_empty() {
                origin = ToolchainOrigin::Common;
            } else if origin == ToolchainOrigin::Unknown {
                origin = ToolchainOrigin::Plain;
            }
        }
        if own.is_baseline() { origin } else { ToolchainOrigin::Own(own) }
    }
}

/// The features that the flags of all groups allow.
fn shared<'a>(processor: &Processor, groups: impl Iterator<Item = &'a CompileGroup>) -> BTreeSet<String> {
    let each = groups.map(|group| allowed(processor, group).features);
    each.reduce(|left, right| left.intersection(&right).cloned().collect()).unwrap_or_default()
}

fn allowed(processor: &Processor, group: &CompileGroup) -> Promise {
    processor.flags(group.flags.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_core::isa;

    fn group(target: &str, flags: &str, sources: &str) -> CompileGroup {
        let words = |text: &str| text.split_ascii_whitespace().map(str::to_owned).collect();
        CompileGroup {
            target: target.into(),
            language: "C".into(),
            flags: words(flags),
            sources: words(sources),
        }
    }

    fn check(groups: Vec<CompileGroup>, member: &str, expected: &str) {
        let tree = BuiltTree { compile: groups, ..super::super::tests::tree() };
        let origins = Origins::new(&tree, isa::table().processor("x86_64").unwrap());
        let name = match origins.of_member("gk", member) {
            ToolchainOrigin::Unknown => "unknown",
            ToolchainOrigin::Plain => "plain",
            ToolchainOrigin::Own(_) => "own",
            ToolchainOrigin::Common => "common",
        };
        assert_eq!(name, expected, "{member}");
    }

    #[test]
    fn sources_with_flags_of_their_own_are_told_from_the_others() {
        let groups = || vec![group("gk", "", "a.c b.c"), group("gk", "-mavx2", "kernels_avx2.c")];
        check(groups(), "a.c.o", "plain");
        check(groups(), "kernels_avx2.c.o", "own");
        check(groups(), "kernels_avx2.c.obj", "own");
        check(groups(), "other.c.o", "unknown");
        // A separate target counts like a separate file.
        check(vec![group("x", "", "a.c"), group("y", "-mavx2", "fast.c")], "fast.c.o", "own");
    }

    #[test]
    fn flags_that_all_share_make_no_level_of_their_own() {
        check(vec![group("gk", "-mavx2", "a.c b.c")], "a.c.o", "common");
        let groups = || vec![group("gk", "-mavx2", "a.c"), group("gk", "-mavx2 -mavx512f", "b.c")];
        check(groups(), "a.c.o", "common");
        check(groups(), "b.c.o", "own");
        check(vec![group("gk", "", "a.c"), group("gk", "-march=native", "b.c")], "b.c.o", "common");
    }
}
