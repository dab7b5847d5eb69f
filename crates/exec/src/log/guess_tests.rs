//! Tests of guesses by components, verbs and context.

use gpubuild_detect::id;

use super::*;

fn ids(log: &str) -> Vec<DiagnosticId> {
    Signatures::embedded().read(log.as_bytes()).causes.into_iter().map(|cause| cause.id).collect()
}

#[test]
fn context_decides_what_a_sentence_means() {
    for (first, expected) in [
        ("using the vkCreate functions", "vk.icd-missing"),
        ("using the OpenCL interface", "ocl.no-icd"),
        ("using cublas", "cuda.no-device"),
        ("using nothing", "cuda.no-device"),
    ] {
        assert_eq!(ids(&format!("{first}\nsolver: no compatible accelerator detected\n")), [expected]);
    }
    // A word that is only a device has no meaning in a log about no backend.
    assert_eq!(ids("solver: failed to enumerate any devices\n"), Vec::<DiagnosticId>::new());
}

#[test]
fn verbs_need_a_negation_or_a_failure() {
    for (line, is_failure) in [
        ("viewer: the swapchain could not be properly created", true),
        ("viewer: instance creation failed", true),
        ("viewer: the instance was created", false),
        ("viewer: InstanceCreationFailed", true),
    ] {
        let found = ids(&format!("viewer: Vulkan 1.3\n{line}\n"));
        assert_eq!(found.first().copied() == Some(id!("vk.icd-missing")), is_failure, "{line}: {found:?}");
    }
}

#[test]
fn error_of_a_component_precedes_what_follows_from_it() {
    let log = "[gfx]: Vulkan 1.0\n[gfx]: error: no usable graphics adapter detected\nIllegal instruction (core dumped)\n";
    assert_eq!(ids(log), ["vk.icd-missing"]);
    assert_eq!(ids("./a.out: starts\nIllegal instruction (core dumped)\n"), ["build.illegal-instruction"]);
}

#[test]
fn exceptions_count_far_from_the_end_and_other_lines_do_not() {
    let rest = "\tat viewer.Main.main(Main.java:1)\n".repeat(40);
    let line = "java.lang.IllegalStateException: no usable graphics adapter detected\n";
    assert_eq!(ids(&format!("{line}{rest}")), ["vk.icd-missing"]);
    let line = "note that no usable graphics adapter was detected\n";
    assert_eq!(ids(&format!("{line}{rest}")), Vec::<DiagnosticId>::new());
}
