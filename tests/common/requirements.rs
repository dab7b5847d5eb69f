//! What a test needs beside Rust, and what happens where it is missing: the test is skipped with a line on standard error, or
//! fails if `GPUBUILD_REQUIRE` names the requirement. `tests/cli/required.rs` compares the names with `.ci/run`.
#![allow(clippy::disallowed_methods, reason = "a test reads its own settings")]

use std::io::Write as _;

/// Requirements that `.ci/run` always names.
pub(crate) const IN_CI: &[&str] = &[
    "aarch64",
    "apt",
    "auditwheel",
    "bash",
    "cc",
    "ccache",
    "chromium",
    "clangd",
    "cmake",
    "cpu",
    "distcc",
    "docker-registry",
    "flock",
    "gcc",
    "git",
    "glibc",
    "hip",
    "libclang",
    "make",
    "mingw",
    "moto",
    "network",
    "nginx",
    "opencl",
    "openssl",
    "pip",
    "pkg-config",
    "python",
    "readelf",
    "redis",
    "rustc",
    "rustfmt",
    "sccache",
    "strace",
    "unix",
    "uv",
    "variantlib",
    "vulkan",
];

/// Requirements that `.ci/run` names only on some machines, or never, with the reason.
pub(crate) const EXCEPTIONS: &[(&str, &str)] = &[
    ("avx", "depends on the processor"),
    ("chroot", "only for root in a system that allows mounting"),
    ("cross", "only if rustup can add the target"),
    ("cuda", "no runner has the device"),
    ("cuda-wheels", "downloads 230 to 620 MB"),
    ("dnf", "only for root, or a user with namespaces, in a system that allows mounting"),
    ("icecream", "only for root, and `.ci/run` does not install its daemons"),
    ("metal", "no runner has the device"),
    ("mount", "only for root in a system that allows mounting"),
    ("no-libclang-path", "`LIBCLANG_PATH` is the user's choice"),
    ("nvcc", "`CUDA_PATH` has to name a CUDA Toolkit"),
    ("projects", "a separate step, which builds for many minutes"),
    ("rocm", "no runner has the device"),
    ("ref", "the reference is linked or not, and has no driver"),
    ("root", "only for root in a system that allows mounting"),
    ("sccache-dist", "no package; compiling it takes many minutes"),
    ("sccache-redis", "the sccache of Debian 12 is built without Redis"),
    ("sycl", "a separate step, with a compiler from wheels"),
    (
        "tools-on-path-only",
        "`.ci/run` has CMake outside PATH as well; its first step fetches CMake and Ninja",
    ),
    ("torch", "PyTorch is not a package of Debian 12"),
    ("wine", "only for the programs of the tests with Zig"),
    ("zig", "downloads 90 MB and compiles C libraries for minutes"),
];

/// Prints why a test, or a part of it, is skipped, or panics if `GPUBUILD_REQUIRE` names the requirement.
#[track_caller]
pub(crate) fn skip(what: &str, why: &str) {
    assert!(!requires(what), "GPUBUILD_REQUIRE names {what}: {why}");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    // Unlike `eprintln!`, this is shown for tests that pass.
    let _ = writeln!(std::io::stderr(), "{test}: skipped: {why} (requirement `{what}`)");
}

/// Whether `GPUBUILD_REQUIRE`, a comma-separated list, names a requirement.
#[track_caller]
pub(crate) fn requires(what: &str) -> bool {
    assert!(is_known(what), "{what} is not listed in tests/common/requirements.rs");
    std::env::var("GPUBUILD_REQUIRE").is_ok_and(|list| list.split(',').any(|item| item.trim() == what))
}

/// Whether a requirement is in one of the two lists.
pub(crate) fn is_known(what: &str) -> bool {
    IN_CI.contains(&what) || EXCEPTIONS.iter().any(|(name, reason)| *name == what && !reason.is_empty())
}
