//! The instruction set of code against the promised one (P39: `SIGILL` on other processors). Pure.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::isa::{Processor, Promise};

use super::code::{Code, Function};
use super::origin::ToolchainOrigin;

/// If more than this part of the computing functions uses an instruction set, the whole file was compiled with it, not single kernels.
const MOST_OF_THEM: usize = 80;
/// Of fewer functions no part is worth telling.
const ENOUGH: usize = 8;

/// What becomes of the functions of a file that go beyond the promise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// Everybody runs these.
    pub above: Vec<Use>,
    /// These are there for processors that have more, and something asks the processor.
    pub dispatched: Vec<Use>,
    /// Sources whose flags are unknown, as far as their level can be determined.
    pub perhaps: Vec<Use>,
    /// Compiled for more on purpose, and nothing asks the processor.
    pub unguarded: Vec<Use>,
}

/// A function and what it uses beyond the promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// Member of the archive.
    pub member: Option<String>,
    /// The function.
    pub function: String,
    /// Ids of the instruction sets.
    pub features: BTreeSet<String>,
    /// Address and text of the instruction that shows it.
    pub address: u64,
    /// The instruction.
    pub instruction: String,
}

/// What is known around a piece of code.
pub struct Surroundings<'a> {
    /// The instruction sets of its processor.
    pub processor: &'a Processor,
    /// What may be used everywhere.
    pub promise: &'a Promise,
    /// Where the processor is asked, in this code or what belongs to it.
    pub asks: bool,
    /// Whether it is loaded while a program runs, by who has asked the processor.
    pub is_module: bool,
    /// Functions of archives that were judged there.
    pub judged: &'a BTreeSet<String>,
}

/// Judges the functions of some code.
#[must_use]
pub fn judge(code: &Code, origin: &ToolchainOrigin, around: &Surroundings<'_>) -> Judged {
    let mut judged = Judged::default();
    let everywhere = is_everywhere(code, around);
    for function in &code.functions {
        if around.promise.native || around.judged.contains(&function.name) {
            continue;
        }
        let Some(one) = beyond(code, function, around.promise) else { continue };
        let list = match origin {
            _ if is_clone(&function.name, around.processor) => &mut judged.dispatched,
            ToolchainOrigin::Own(own) if one.features.iter().all(|id| own.features.contains(id)) => {
                if around.asks || around.is_module { &mut judged.dispatched } else { &mut judged.unguarded }
            }
            ToolchainOrigin::Common if around.is_module => &mut judged.dispatched,
            ToolchainOrigin::Own(_) | ToolchainOrigin::Common => &mut judged.above,
            // The compiler uses more in a function than its flags allow only where the function says so.
            ToolchainOrigin::Plain if around.asks => &mut judged.dispatched,
            ToolchainOrigin::Plain => &mut judged.unguarded,
            ToolchainOrigin::Unknown if !around.asks || everywhere || is_first(&function.name) => {
                &mut judged.above
            }
            ToolchainOrigin::Unknown => &mut judged.perhaps,
        };
        list.push(one);
    }
    judged
}

fn beyond(code: &Code, function: &Function, promise: &Promise) -> Option<Use> {
    let more: BTreeMap<_, _> =
        function.features.iter().filter(|(id, _)| !promise.features.contains(*id)).collect();
    // The instruction of the set that fewest have: sets are listed from the oldest.
    let (_, sight) = more.iter().max_by_key(|(id, _)| (id.starts_with("avx512"), id.len()))?;
    Some(Use {
        member: code.member.clone(),
        function: function.name.clone(),
        features: more.keys().map(|id| (*id).clone()).collect(),
        address: sight.address,
        instruction: sight.text.clone(),
    })
}

/// Whether so many functions that compute use more that the whole was compiled for it.
fn is_everywhere(code: &Code, around: &Surroundings<'_>) -> bool {
    let more = |function: &&Function| {
        function.vector && function.features.keys().any(|id| !around.promise.features.contains(id))
    };
    let count = code.functions.iter().filter(more).count();
    count >= ENOUGH && count * 100 >= code.vector * MOST_OF_THEM
}

/// Whether a compiler made it as one of several versions of a function: `dot.avx2`, `dot.arch_haswell`.
fn is_clone(name: &str, processor: &Processor) -> bool {
    let plain = |piece: &str| piece.replace('_', "-");
    name.split('.').skip(1).any(|piece| {
        piece.starts_with("arch_")
            || processor.find(piece).is_some()
            || processor.find(&plain(piece)).is_some()
    })
}

/// Whether every start of the program runs it.
fn is_first(name: &str) -> bool {
    matches!(name, "main" | "_start" | "_init" | "WinMain" | "DllMain")
        || name.starts_with("_GLOBAL__sub_I_")
        || name.starts_with("__cxx_global_var_init")
}

#[cfg(test)]
mod tests {
    use super::super::code::CodeSighting;
    use super::*;
    use gpubuild_core::isa;

    fn function(name: &str, features: &[&str]) -> Function {
        let sight = || CodeSighting { address: 16, text: "vaddps".into() };
        let features = features.iter().map(|id| ((*id).to_owned(), sight())).collect();
        Function { name: name.into(), features, vector: true }
    }

    fn check(name: &str, origin: &ToolchainOrigin, asks: bool, is_module: bool, expected: &str) {
        let code = Code { functions: vec![function(name, &["avx2"])], vector: 1, ..Code::default() };
        let processor = isa::table().processor("x86_64").unwrap();
        let around = Surroundings {
            processor,
            promise: &Promise::default(),
            asks,
            is_module,
            judged: &BTreeSet::new(),
        };
        let judged = judge(&code, origin, &around);
        let found = [
            ("above", judged.above.len()),
            ("dispatched", judged.dispatched.len()),
            ("perhaps", judged.perhaps.len()),
            ("unguarded", judged.unguarded.len()),
        ];
        let found: Vec<&str> = found.iter().filter(|(_, count)| *count > 0).map(|(name, _)| *name).collect();
        assert_eq!(found, [expected], "{name} {origin:?} {asks} {is_module}");
    }

    #[test]
    fn code_for_everybody_is_told_from_code_that_is_chosen() {
        let own = ToolchainOrigin::Own(isa::table().processor("x86_64").unwrap().flags(["-mavx2"]));
        let less = ToolchainOrigin::Own(isa::table().processor("x86_64").unwrap().flags(["-mavx"]));
        check("dot", &own, true, false, "dispatched");
        check("dot", &own, false, false, "unguarded");
        check("dot", &own, false, true, "dispatched");
        check("dot", &less, true, false, "above");
        check("dot", &ToolchainOrigin::Common, true, false, "above");
        check("dot", &ToolchainOrigin::Common, false, true, "dispatched");
        check("dot", &ToolchainOrigin::Plain, true, false, "dispatched");
        check("dot", &ToolchainOrigin::Plain, false, false, "unguarded");
        check("dot", &ToolchainOrigin::Unknown, true, false, "perhaps");
        check("dot", &ToolchainOrigin::Unknown, false, false, "above");
        check("main", &ToolchainOrigin::Unknown, true, false, "above");
        check("dot.avx2", &ToolchainOrigin::Unknown, false, false, "dispatched");
        check("dot.arch_haswell", &ToolchainOrigin::Common, false, false, "dispatched");
    }

    #[test]
    fn a_file_whose_code_all_uses_more_was_compiled_so() {
        let functions: Vec<Function> = (0..9).map(|n| function(&format!("f{n}"), &["avx2"])).collect();
        let mut code = Code { functions, vector: 10, ..Code::default() };
        let processor = isa::table().processor("x86_64").unwrap();
        let none = BTreeSet::new();
        let promise = Promise::default();
        let around =
            Surroundings { processor, promise: &promise, asks: true, is_module: false, judged: &none };
        assert_eq!(judge(&code, &ToolchainOrigin::Unknown, &around).above.len(), 9);
        code.vector = 30;
        assert_eq!(judge(&code, &ToolchainOrigin::Unknown, &around).perhaps.len(), 9);
        let native = Promise { native: true, ..Promise::default() };
        let around = Surroundings { promise: &native, ..around };
        assert_eq!(judge(&code, &ToolchainOrigin::Unknown, &around), Judged::default());
    }
}
