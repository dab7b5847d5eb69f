//! Errors of a build.

use gpubuild_core::backend::Backend;
use gpubuild_core::shell::word;
use gpubuild_core::text::quoted;
use gpubuild_detect::diagnostic::{self, Diagnostic, DiagnosticId};
use gpubuild_detect::finding::Finding;
use gpubuild_detect::id;
use gpubuild_host::{HostPath, RunError, WriteFiles};

use crate::event::FirstError;
use crate::store::files::TooManyFiles;

/// Why a build failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The user pressed Ctrl-C.
    #[error("interrupted; finished files are kept, and the next build resumes from them")]
    Interrupted,
    /// CMake failed to configure a tree.
    #[error("CMake failed to configure `{tree}`: {error}")]
    Configure {
        /// Id of the tree.
        tree: String,
        /// The first root error.
        error: Box<FirstError>,
        /// The causes recognised in the output, root cause first.
        causes: Vec<Finding>,
        /// Path of the full log.
        log: String,
    },
    /// A compiler, linker or other step failed.
    #[error("failed to build `{tree}`: {error}")]
    Compile {
        /// Id of the tree.
        tree: String,
        /// The first root error.
        error: Box<FirstError>,
        /// The causes recognised in the output, root cause first.
        causes: Vec<Finding>,
        /// Path of the full log.
        log: String,
    },
    /// Cargo failed to build the program.
    #[error("cargo failed to build `{package}`: {error}")]
    Binary {
        /// Folder of the package.
        package: String,
        /// The first root error.
        error: Box<FirstError>,
        /// The causes recognised in the output, root cause first.
        causes: Vec<Finding>,
        /// Path of the full log.
        log: String,
    },
    /// Cache entries that the project neither declares nor reads.
    #[error("the project in `{folder}` does not know {}", quoted(.names))]
    UnusedEntries {
        /// The source folder.
        folder: String,
        /// The entries.
        names: Vec<String>,
        /// The most similar option of the project by entry, if there is one.
        near: std::collections::BTreeMap<String, String>,
    },
    /// A patch that does not match the sources.
    #[error("the patch `{patch}` does not apply to `{folder}`: {why}")]
    Patch {
        /// The patch.
        patch: String,
        /// The source folder.
        folder: String,
        /// The file and hunk that failed.
        why: String,
    },
    /// Two libraries define the same symbol.
    #[error("`{symbol}` is defined in both `{first}` and `{second}`{}", and_more(*.more))]
    Duplicate {
        /// The first symbol.
        symbol: String,
        /// The first library.
        first: String,
        /// The second library.
        second: String,
        /// Number of other duplicate symbols.
        more: usize,
    },
    /// A linked library or package calls a function of a module.
    #[error("`{caller}` calls `{symbol}`, which is in the module `{module}`{}", and_more_called(*.more))]
    ModuleCalled {
        /// The function.
        symbol: String,
        /// File name of the module.
        module: String,
        /// The library or package that calls it.
        caller: String,
        /// Number of other functions of modules that it calls.
        more: usize,
    },
    /// The build succeeded but lacks a part of the plan.
    #[error("`{tree}` was built without errors, but {what}")]
    Incomplete {
        /// Id of the tree.
        tree: String,
        /// The missing part, as a clause.
        what: String,
    },
    /// The build folder contains a symbolic link.
    #[error("{0}")]
    Link(#[from] gpubuild_host::links::LinkRefused),
    /// A pipe, socket or device in the place of a file that a program of the build opens.
    #[error(
        "`{path}` is a pipe, a socket or a device, not a regular file; the build would wait for it without end"
    )]
    NotRegular {
        /// Its path.
        path: String,
    },
    /// The source folder has too many files, or links that lead to too many.
    #[error("`{folder}` has too many files: {TooManyFiles}")]
    TooManyFiles {
        /// The source folder.
        folder: String,
    },
    /// Two projects cannot be combined in one program.
    #[error("{0}")]
    Together(#[from] super::together::TogetherError),
    /// CMake's file API reply for a tree is missing or malformed.
    #[error("{0}")]
    FileApi(#[from] crate::cmake::file_api::FileApiError),
    /// A required tool is neither installed nor downloaded.
    #[error("{tool} is required but was not found")]
    NoTool {
        /// Name of the tool: `CMake`.
        tool: String,
    },
    /// A program for another platform cannot be built.
    #[error("{0}")]
    Cross(#[from] super::cross::CrossError),
    /// A tool could not be downloaded.
    #[error("{0}")]
    Fetch(#[from] crate::python::WheelFetchError),
    /// A backend of the project needs a download, which offline mode forbids.
    #[error("the project's backend `{extra}` needs to download {what}, which is not possible offline")]
    Offline {
        /// Its id in the profile.
        extra: String,
        /// What it downloads.
        what: String,
    },
    /// A program could not be started or timed out.
    #[error("{0}")]
    Run(RunError),
    /// The disk is full.
    #[error("no space left on the disk that holds `{path}`")]
    DiskFull {
        /// The path that was being written.
        path: String,
    },
    /// The disk with the temporary files of compilers is full.
    #[error("no space left on the disk that holds `{path}`, where compilers write temporary files")]
    NoTemporarySpace {
        /// The folder of the temporary files.
        path: String,
    },
    /// The file system has free space, but no free inodes.
    #[error("the file system that holds `{path}` has no free inodes, so no file can be created")]
    NoInodes {
        /// The path that was being written.
        path: String,
    },
    /// An operation on a file or folder failed.
    #[error("failed to {what} `{path}`: {message}")]
    Io {
        /// The operation: `write`, `read`, `lock`.
        what: &'static str,
        /// The path.
        path: String,
        /// The message of the operating system.
        message: String,
        /// The error kind, which selects the id.
        kind: std::io::ErrorKind,
    },
    /// Planning without the failed backend is not possible.
    #[error("{0}")]
    Replan(String),
    /// The run-time libraries cannot be installed.
    #[error("{}", .0.message)]
    Runtime(Box<RuntimeError>),
}

/// Why the run-time libraries of a build cannot be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeError {
    /// Its id.
    pub id: DiagnosticId,
    /// The problem.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
    /// The findings that describe it.
    pub findings: Vec<Finding>,
    /// What stopped the installation.
    pub kind: RuntimeErrorKind,
}

/// What stopped the installation of run-time libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeErrorKind {
    /// The configuration or the machine rules it out; nothing was changed.
    Refused,
    /// It failed.
    Failed,
    /// The user pressed Ctrl-C.
    Interrupted,
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", as are {more} more symbols") }
}

fn and_more_called(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", and {more} more functions in modules") }
}

/// Cargo's message about crates of gpubuild that the registry does not have.
const UNPUBLISHED: &str = "no matching package named `gpubuild-";

impl BuildError {
    /// Wraps an I/O error of the operation `what` on `path`. A full disk becomes [`Self::DiskFull`].
    pub fn io(what: &'static str, path: &impl ToString, error: &std::io::Error) -> Self {
        if has_no_space(error) {
            return Self::DiskFull { path: path.to_string() };
        }
        Self::Io { what, path: path.to_string(), message: error.to_string(), kind: error.kind() }
    }

    /// The source folder cannot be listed.
    pub(super) fn walk((path, error): (HostPath, std::io::Error)) -> Self {
        if TooManyFiles::is(&error) {
            return Self::TooManyFiles { folder: path.to_string() };
        }
        Self::io("read the folder", &path, &error)
    }

    /// The disk that holds a path is full.
    pub(super) fn full(host: &dyn WriteFiles, path: &HostPath) -> Self {
        let folder = path.to_string();
        match host.free_files(path) {
            Some(0) => Self::NoInodes { path: folder },
            _ => Self::DiskFull { path: folder },
        }
    }

    /// The causes recognised in the output of the failed program, root cause first.
    #[must_use]
    pub fn causes(&self) -> &[Finding] {
        match self {
            Self::Configure { causes, .. } | Self::Compile { causes, .. } | Self::Binary { causes, .. } => {
                causes
            }
            _ => &[],
        }
    }
}

impl Diagnostic for BuildError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Interrupted => id!("build.interrupted"),
            Self::Configure { error, .. } | Self::Compile { error, .. } | Self::Binary { error, .. }
                if is_disk_full(&error.message) =>
            {
                id!("disk.full")
            }
            Self::Configure { .. } => id!("build.configure-failed"),
            Self::Compile { error, .. } if is_out_of_memory(&error.message) => id!("build.out-of-memory"),
            Self::Compile { .. } => id!("build.compile-failed"),
            Self::Binary { .. } => id!("build.binary-failed"),
            Self::UnusedEntries { .. } => id!("project.option-unused"),
            Self::Patch { .. } => id!("project.patch-failed"),
            Self::Duplicate { .. } => id!("build.duplicate-symbol"),
            Self::ModuleCalled { .. } => id!("build.module-called"),
            Self::Together(error) => error.id(),
            Self::Link(error) => error.id(),
            Self::NotRegular { .. } => id!("build.not-regular"),
            Self::TooManyFiles { .. } => id!("build.too-many-files"),
            Self::Incomplete { .. } => id!("build.incomplete"),
            Self::FileApi(_) => id!("cmake.file-api"),
            Self::NoTool { .. } => id!("build.tool-missing"),
            Self::Fetch(error) => error.id(),
            Self::Offline { .. } => id!("build.offline"),
            Self::Run(_) => id!("build.program-failed"),
            Self::DiskFull { .. } | Self::NoTemporarySpace { .. } | Self::NoInodes { .. } => id!("disk.full"),
            Self::Io { kind: std::io::ErrorKind::PermissionDenied, .. } => id!("file.denied"),
            Self::Io { kind: std::io::ErrorKind::ReadOnlyFilesystem, .. } => id!("disk.read-only"),
            Self::Io { .. } => id!("file.failed"),
            Self::Replan(_) => id!("plan.refused"),
            Self::Runtime(error) => error.id,
            Self::Cross(error) => error.id(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Configure { error, log, .. }
            | Self::Compile { error, log, .. }
            | Self::Binary { error, log, .. } => Some(if is_disk_full(&error.message) {
                "free some space and build again; finished files are kept".to_owned()
            } else if error.message.starts_with(OUT_OF_MEMORY_ALONE) {
                format!(
                    "add memory or swap, or build for fewer architectures: running one compiler at a time did not \
                     help; the full log is `{log}`"
                )
            } else if is_out_of_memory(&error.message) {
                format!("build with fewer parallel compilers: `--jobs 1`; the full log is `{log}`")
            } else if error.message.contains(UNPUBLISHED) {
                "gpubuild's crates are not in this registry: write the folder of a checkout in Cargo.toml, \
                 `gpubuild-build = { path = \"CHECKOUT/crates/build\" }`, as `gpubuild new --gpubuild-path CHECKOUT` does"
                    .to_owned()
            } else {
                format!("the full log is `{log}`")
            }),
            Self::UnusedEntries { near, .. } if near.is_empty() => {
                Some("correct the names under `options` in gpubuild.toml, or remove them".to_owned())
            }
            Self::UnusedEntries { near, .. } => {
                let near: Vec<String> =
                    near.iter().map(|(from, to)| format!("`{to}` for `{from}`")).collect();
                Some(format!(
                    "did you mean {}? correct the names under `options` in gpubuild.toml",
                    near.join(", ")
                ))
            }
            Self::Patch { .. } => Some(
                "recreate it for these sources, or set `optional = true` if newer sources do not need it"
                    .to_owned(),
            ),
            Self::Duplicate { .. } => Some(
                "a program can link only one of the two: share the library, or build one of them as a shared library"
                    .to_owned(),
            ),
            Self::ModuleCalled { .. } => Some(
                "a module is loaded at run time and cannot be linked: call it through the project's registry, or build \
                 with `linkage = \"shared\"` or `\"static\"`"
                    .to_owned(),
            ),
            Self::Run(RunError::NotFound { program }) if program == "cargo" => {
                Some("install Rust (https://rustup.rs), or build the libraries only: `--no-binary`".to_owned())
            }
            Self::Link(error) => error.hint(),
            Self::NotRegular { .. } => Some("remove it, or move it out of the folder".to_owned()),
            Self::TooManyFiles { .. } => Some(
                "remove links to folders that are not part of the sources, or set `source` to a smaller folder"
                    .to_owned(),
            ),
            Self::Together(error) => error.hint(),
            Self::Runtime(error) => error.hint.clone(),
            Self::Cross(error) => error.hint(),
            Self::NoTool { tool } => {
                Some(format!("install {tool}, or build without `--offline` to download it"))
            }
            Self::Fetch(error) => error.hint(),
            Self::Offline { extra, .. } => Some(format!(
                "build once without `--offline` to keep the download in the build folder, or remove `{extra}` from `extra`"
            )),
            Self::DiskFull { .. } => Some(
                "free some space and build again; finished files are kept; if `df` shows free space, `df -i` shows whether the inodes \
                 are used up"
                    .to_owned(),
            ),
            Self::NoTemporarySpace { .. } => Some(
                "free some space there, or set TMPDIR to a folder on another disk, and build again; finished files are kept"
                    .to_owned(),
            ),
            Self::NoInodes { path } => {
                Some(format!("remove files that are no longer needed; `df -i {}` shows the use", word(path, "DIR")))
            }
            Self::Io { kind: std::io::ErrorKind::PermissionDenied, path, .. } => {
                Some(format!("check its owner and mode: `ls -ld {}`", word(path, "FILE")))
            }
            Self::Io { kind, .. } => Some(diagnostic::file_hint(*kind).to_owned()),
            _ => None,
        }
    }
}

/// Whether a disk or quota has no space for a file.
pub(super) fn has_no_space(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

/// Whether a line contains the message of Unix or Windows for a full disk.
pub(super) fn is_disk_full(message: &str) -> bool {
    message.contains("No space left on device") || message.contains("not enough space on the disk")
}

/// Start of the error message if even a single compiler at a time runs out of memory.
pub(super) const OUT_OF_MEMORY_ALONE: &str =
    "a compiler ran out of memory even without other compilers in parallel";

fn is_out_of_memory(message: &str) -> bool {
    ["Killed", "out of memory", "out of heap space", "cannot allocate memory"]
        .iter()
        .any(|word| message.contains(word))
}

/// Returns the backends of a shared tree that an error concerns, among the candidates that may be omitted. If the error
/// mentions none of them, returns all candidates, because a smaller build is better than none.
#[must_use]
pub fn failed_backends(candidates: &[Backend], error: &BuildError) -> Vec<Backend> {
    let (BuildError::Configure { error, .. } | BuildError::Compile { error, .. }) = error else {
        return candidates.to_vec();
    };
    let texts = [error.step.as_deref(), error.file.as_deref(), Some(error.message.as_str())];
    for text in texts.into_iter().flatten() {
        let mentioned: Vec<Backend> =
            candidates.iter().copied().filter(|backend| mentions(text, *backend)).collect();
        if !mentioned.is_empty() {
            return mentioned;
        }
    }
    candidates.to_vec()
}

/// Whether a path, target or message mentions a backend: one of the backend's words as a complete alphanumeric part.
#[must_use]
pub fn mentions(text: &str, backend: Backend) -> bool {
    let words: &[&str] = match backend {
        Backend::Cpu => &["cpu"],
        Backend::Cuda => &["cuda", "nvcc", "cudart", "cublas", "cudatoolkit"],
        Backend::Rocm => &["rocm", "hip", "hipcc", "amdhip64", "rocblas", "hipblas"],
        Backend::Metal => &["metal", "metallib"],
        Backend::Vulkan => &["vulkan", "glslc", "spirv"],
        Backend::Sycl => &["sycl", "icpx"],
        Backend::Opencl => &["opencl"],
    };
    let lower = text.to_ascii_lowercase();
    lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        let bare = word.strip_prefix("lib").unwrap_or(word);
        words.contains(&word) || words.contains(&bare)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(step: &str, file: &str, message: &str) -> BuildError {
        let error = FirstError {
            file: Some(file.to_owned()),
            step: Some(step.to_owned()),
            message: message.to_owned(),
            ..FirstError::default()
        };
        BuildError::Compile { tree: "t".into(), error: Box::new(error), causes: Vec::new(), log: "l".into() }
    }

    #[test]
    fn failed_step_determines_the_backend() {
        let both = [Backend::Cuda, Backend::Vulkan];
        let error = compile("src/vulkan/CMakeFiles/gk-vulkan.dir/v.c.o", "/usr/include/cuda.h", "no");
        assert_eq!(failed_backends(&both, &error), [Backend::Vulkan]);
        let error = compile("x.o", "/src/ggml-cuda/a.cu", "no");
        assert_eq!(failed_backends(&both, &error), [Backend::Cuda]);
        let error = compile("x.o", "/src/a.c", "could NOT find Vulkan");
        assert_eq!(failed_backends(&both, &error), [Backend::Vulkan]);
        assert_eq!(failed_backends(&both, &compile("x.o", "/src/core.c", "syntax")), both);
    }

    #[test]
    fn programs_without_cargo_or_its_crates_get_a_hint() {
        let message = "no matching package named `gpubuild-build` found".to_owned();
        let error = Box::new(FirstError { message, ..FirstError::default() });
        let error = BuildError::Binary { package: "p".into(), error, causes: Vec::new(), log: "l".into() };
        assert!(error.hint().unwrap().contains("gpubuild new --gpubuild-path"));
        let error = BuildError::Run(RunError::NotFound { program: "cargo".into() });
        assert!(error.hint().unwrap().contains("--no-binary"));
    }

    #[test]
    fn messages_and_hints_are_readable() {
        let error = BuildError::UnusedEntries {
            folder: "/s".into(),
            names: vec!["A".into(), "B".into()],
            near: [("A".into(), "C".into())].into(),
        };
        assert!(error.hint().unwrap().starts_with("did you mean `C` for `A`?"));
        assert_eq!(error.to_string(), "the project in `/s` does not know `A`, `B`");
        let error =
            BuildError::Duplicate { symbol: "f".into(), first: "a".into(), second: "b".into(), more: 2 };
        assert_eq!(error.to_string(), "`f` is defined in both `a` and `b`, as are 2 more symbols");
        assert_eq!(compile("s", "f", "c++: Killed signal").id(), "build.out-of-memory");
    }
}
