//! The files that `gpubuild new` and `gpubuild ci init` write, as text.
//!
//! Part of gpubuild. The interface is not stable.

/// The workflow for GitHub, with placeholders.
pub const GITHUB: &str = include_str!("ci/github.yml");

/// The pipeline for GitLab, with placeholders.
pub const GITLAB: &str = include_str!("ci/gitlab.yml");

/// The script for Slurm, with placeholders.
pub const SLURM: &str = include_str!("ci/slurm.sh");

/// The documents for Kubernetes, with placeholders: the comment at the start.
pub const KUBERNETES_HEAD: &str = include_str!("ci/kubernetes-head.yml");
/// An Indexed Job.
pub const KUBERNETES_JOBS: &str = include_str!("ci/kubernetes-jobs.yml");
/// The script of a row.
pub const KUBERNETES_ROW: &str = include_str!("ci/kubernetes-row.sh");
/// The script of a job that tests.
pub const KUBERNETES_TEST: &str = include_str!("ci/kubernetes-test.sh");
/// The Job that merges the packages.
pub const KUBERNETES_MERGE: &str = include_str!("ci/kubernetes-merge.yml");
/// Its script.
pub const KUBERNETES_MERGE_SCRIPT: &str = include_str!("ci/kubernetes-merge.sh");

/// A project template.
#[derive(Debug, Clone, Copy)]
pub struct TemplateProject {
    /// Its id, such as `own-kernels`.
    pub id: &'static str,
    /// Contents of its template.toml.
    pub about: &'static str,
    /// Paths and contents of its files, with placeholders.
    pub files: &'static [(&'static str, &'static str)],
}

/// Embeds templates: `"id": ["file", …]`, in the order of `--list`. `"file" = "path"` is a file that templates share.
macro_rules! table {
    (@file $id:literal $file:literal) => { include_str!(concat!("new/", $id, "/", $file)) };
    (@file $id:literal $file:literal $path:literal) => { include_str!(concat!("new/", $path)) };
    ($($id:literal: [$($file:literal $(= $path:literal)?),* $(,)?]),* $(,)?) => {
        &[$(TemplateProject {
            id: $id,
            about: include_str!(concat!("new/", $id, "/template.toml")),
            files: &[$(($file, table!(@file $id $file $($path)?))),*],
        }),*]
    };
}

/// The templates of `gpubuild new`, in the order of `--list`.
pub const PROJECTS: &[TemplateProject] = table! {
    "own-kernels": [
        "Cargo.toml.in", "README.md", "build.rs", "gitignore.in", "gpubuild.toml", "kernels/CMakeLists.txt",
        "kernels/include/kernels.h", "kernels/src/axpy.comp", "kernels/src/cpu.cpp", "kernels/src/cuda.cu",
        "kernels/src/vulkan.cpp", "src/kernels.rs", "src/main.rs",
    ],
    "llama": [
        "Cargo.toml.in", "README.md", "build.rs", "gitignore.in", "gpubuild.lock", "gpubuild.toml",
        "src/devices.rs" = "ggml/devices.rs", "src/lib.rs", "src/main.rs",
    ],
    "whisper": [
        "Cargo.toml.in", "README.md", "build.rs", "gitignore.in", "gpubuild.lock", "gpubuild.toml", "src/audio.rs",
        "src/devices.rs" = "ggml/devices.rs", "src/lib.rs", "src/main.rs",
    ],
    "cpp-library": [
        "Cargo.toml.in", "README.md", "build.rs", "gitignore.in", "gpubuild.toml", "native/CMakeLists.txt",
        "native/include/library.h", "native/include/library.hpp", "native/src/c_api.cpp",
        "native/src/library.cpp", "src/lib.rs", "src/main.rs",
    ],
    "xtask": [
        "gitignore.in", "gpubuild.toml", "kernels/Cargo.toml.in", "kernels/build.rs",
        "kernels/native/CMakeLists.txt", "kernels/native/include/kernels.h", "kernels/native/src/cpu.cpp",
        "kernels/src/lib.rs", "xtask/Cargo.toml.in", "xtask/README.md", "xtask/src/main.rs",
    ],
};
