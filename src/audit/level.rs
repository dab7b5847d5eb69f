//! Compares the instruction sets that functions use with the allowed ones (P39: `SIGILL` on other processors). No I/O.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::isa::{AllowedFeatures, Processor};
use gpubuild_core::order::CollectSorted as _;

use super::code::{Code, Function};
use super::origin::CompileOrigin;

/// Percentage of vector functions from which on the complete file was compiled for more instruction sets, not single kernels.
const UNIFORM_PERCENT: usize = 80;
/// Minimum number of functions for which the percentage is meaningful.
const MIN_FUNCTIONS: usize = 8;

/// The functions that use more than the allowed instruction sets, by when they run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassifiedFunctions {
    /// Run on every processor.
    pub above: Vec<FeatureUse>,
    /// Intended for processors with more features, and the code queries the processor.
    pub dispatched: Vec<FeatureUse>,
    /// Possibly dispatched: the compiler flags are unknown, but the code queries the processor.
    pub perhaps: Vec<FeatureUse>,
    /// Intended for processors with more features, but nothing queries the processor.
    pub unguarded: Vec<FeatureUse>,
}

/// A function and the instruction sets that it uses beyond the allowed ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureUse {
    /// The member of the archive that contains the function.
    pub member: Option<String>,
    /// The name of the function.
    pub function: String,
    /// Ids of the additional instruction sets.
    pub features: BTreeSet<String>,
    /// The address of `instruction`.
    pub address: u64,
    /// An instruction of the newest of these sets, in assembler syntax.
    pub instruction: String,
}

/// The properties of a file that determine how its functions are classified.
pub struct CodeContext<'a> {
    /// The instruction sets of its processor.
    pub processor: &'a Processor,
    /// The instruction sets that code may use without a query of the processor.
    pub allowed: &'a AllowedFeatures,
    /// Whether this file or another one of the same tree queries the processor.
    pub queries_cpu: bool,
    /// Whether the file is a module, which a program loads after it has queried the processor.
    pub is_module: bool,
    /// Functions to skip, because they were classified in the archive that they were linked from.
    pub classified: &'a BTreeSet<String>,
}

/// The beginning of the names of atomic functions that compilers add for AArch64. They query the processor before they use `lse`
/// (`-moutline-atomics`).
const OUTLINE_ATOMICS: &str = "__aarch64_";

/// Classifies the functions that use more than the allowed instruction sets.
#[must_use]
pub fn classify(code: &Code, origin: &CompileOrigin, context: &CodeContext<'_>) -> ClassifiedFunctions {
    let mut classified = ClassifiedFunctions::default();
    let uniform = is_uniform(code, context);
    for function in &code.functions {
        if context.allowed.native || context.classified.contains(&function.name) {
            continue;
        }
        let Some(feature_use) = beyond(code, function, context.allowed) else { continue };
        let list = match origin {
            _ if is_clone(&function.name, context.processor)
                || function.name.starts_with(OUTLINE_ATOMICS) =>
            {
                &mut classified.dispatched
            }
            CompileOrigin::Own(own) if feature_use.features.iter().all(|id| own.features.contains(id)) => {
                if context.queries_cpu || context.is_module {
                    &mut classified.dispatched
                } else {
                    &mut classified.unguarded
                }
            }
            CompileOrigin::Common if context.is_module => &mut classified.dispatched,
            CompileOrigin::Own(_) | CompileOrigin::Common => &mut classified.above,
            // Without flags, the compiler uses additional instruction sets only in functions with a `target` attribute.
            CompileOrigin::Plain if context.queries_cpu => &mut classified.dispatched,
            CompileOrigin::Plain => &mut classified.unguarded,
            CompileOrigin::Unknown if !context.queries_cpu || uniform || is_startup(&function.name) => {
                &mut classified.above
            }
            CompileOrigin::Unknown => &mut classified.perhaps,
        };
        list.push(feature_use);
    }
    classified
}

fn beyond(code: &Code, function: &Function, allowed: &AllowedFeatures) -> Option<FeatureUse> {
    let more: BTreeMap<_, _> =
        function.features.iter().filter(|(id, _)| !allowed.features.contains(*id)).collect_map();
    // Show an instruction of the newest set: AVX-512, else approximately the set with the longest id.
    let (_, first) = more.iter().max_by_key(|(id, _)| (id.starts_with("avx512"), id.len()))?;
    Some(FeatureUse {
        member: code.member.clone(),
        function: function.name.clone(),
        features: more.keys().map(|id| (*id).clone()).collect(),
        address: first.address,
        instruction: first.text.clone(),
    })
}

/// Whether so many vector functions use additional instruction sets that the complete file must have been compiled for them.
fn is_uniform(code: &Code, context: &CodeContext<'_>) -> bool {
    let more = |function: &&Function| {
        function.vector && function.features.keys().any(|id| !context.allowed.features.contains(id))
    };
    let count = code.functions.iter().filter(more).count();
    count >= MIN_FUNCTIONS && count * 100 >= code.vector * UNIFORM_PERCENT
}

/// Whether the function is a clone that the compiler generated for one processor: `dot.avx2`, `dot.arch_haswell`.
fn is_clone(name: &str, processor: &Processor) -> bool {
    let with_dashes = |piece: &str| piece.replace('_', "-");
    name.split('.').skip(1).any(|piece| {
        piece.starts_with("arch_")
            || processor.find(piece).is_some()
            || processor.find(&with_dashes(piece)).is_some()
    })
}

/// Whether the function runs at every start of the program.
fn is_startup(name: &str) -> bool {
    matches!(name, "main" | "_start" | "_init" | "WinMain" | "DllMain")
        || name.starts_with("_GLOBAL__sub_I_")
        || name.starts_with("__cxx_global_var_init")
}

#[cfg(test)]
mod tests {
    use super::super::code::FirstUse;
    use super::*;
    use gpubuild_core::isa;

    fn function(name: &str, features: &[&str]) -> Function {
        let first = || FirstUse { address: 16, text: "vaddps".into() };
        let features = features.iter().map(|id| ((*id).to_owned(), first())).collect();
        Function { name: name.into(), features, vector: true }
    }

    fn check(name: &str, origin: &CompileOrigin, queries_cpu: bool, is_module: bool, expected: &str) {
        let code = Code { functions: vec![function(name, &["avx2"])], vector: 1, ..Code::default() };
        let processor = isa::table().processor("x86_64").unwrap();
        let context = CodeContext {
            processor,
            allowed: &AllowedFeatures::default(),
            queries_cpu,
            is_module,
            classified: &BTreeSet::new(),
        };
        let classified = classify(&code, origin, &context);
        let found = [
            ("above", classified.above.len()),
            ("dispatched", classified.dispatched.len()),
            ("perhaps", classified.perhaps.len()),
            ("unguarded", classified.unguarded.len()),
        ];
        let found: Vec<&str> = found.iter().filter(|(_, count)| *count > 0).map(|(name, _)| *name).collect();
        assert_eq!(found, [expected], "{name} {origin:?} {queries_cpu} {is_module}");
    }

    #[test]
    fn functions_are_classified_by_flags_and_cpu_queries() {
        let own = CompileOrigin::Own(isa::table().processor("x86_64").unwrap().flags(["-mavx2"]));
        let less = CompileOrigin::Own(isa::table().processor("x86_64").unwrap().flags(["-mavx"]));
        check("dot", &own, true, false, "dispatched");
        check("dot", &own, false, false, "unguarded");
        check("dot", &own, false, true, "dispatched");
        check("dot", &less, true, false, "above");
        check("dot", &CompileOrigin::Common, true, false, "above");
        check("dot", &CompileOrigin::Common, false, true, "dispatched");
        check("dot", &CompileOrigin::Plain, true, false, "dispatched");
        check("dot", &CompileOrigin::Plain, false, false, "unguarded");
        check("dot", &CompileOrigin::Unknown, true, false, "perhaps");
        check("dot", &CompileOrigin::Unknown, false, false, "above");
        check("main", &CompileOrigin::Unknown, true, false, "above");
        check("dot.avx2", &CompileOrigin::Unknown, false, false, "dispatched");
        check("dot.arch_haswell", &CompileOrigin::Common, false, false, "dispatched");
        check("__aarch64_cas1_relax", &CompileOrigin::Unknown, false, false, "dispatched");
    }

    #[test]
    fn file_with_uniform_instruction_sets_was_compiled_for_them() {
        let functions: Vec<Function> = (0..9).map(|n| function(&format!("f{n}"), &["avx2"])).collect();
        let mut code = Code { functions, vector: 10, ..Code::default() };
        let processor = isa::table().processor("x86_64").unwrap();
        let none = BTreeSet::new();
        let allowed = AllowedFeatures::default();
        let context = CodeContext {
            processor,
            allowed: &allowed,
            queries_cpu: true,
            is_module: false,
            classified: &none,
        };
        assert_eq!(classify(&code, &CompileOrigin::Unknown, &context).above.len(), 9);
        code.vector = 30;
        assert_eq!(classify(&code, &CompileOrigin::Unknown, &context).perhaps.len(), 9);
        let native = AllowedFeatures { native: true, ..AllowedFeatures::default() };
        let context = CodeContext { allowed: &native, ..context };
        assert_eq!(classify(&code, &CompileOrigin::Unknown, &context), ClassifiedFunctions::default());
    }
}
