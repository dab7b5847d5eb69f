//! Why a build did not come to its end.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::finding::Finding;
use gpubuild_detect::id;

use crate::event::FirstError;

/// Why a build did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Ctrl-C.
    #[error("interrupted; what is built so far stays, and the next build goes on from there")]
    Interrupted,
    /// CMake did not configure a tree.
    #[error("CMake failed to configure `{tree}`: {error}")]
    Configure {
        /// Tree.
        tree: String,
        /// The first real error.
        error: Box<FirstError>,
        /// The causes that the output shows, the root cause first.
        causes: Vec<Finding>,
        /// The whole log.
        log: String,
    },
    /// A compiler, linker or other step failed.
    #[error("failed to build `{tree}`: {error}")]
    Compile {
        /// Tree.
        tree: String,
        /// The first real error.
        error: Box<FirstError>,
        /// The causes that the output shows, the root cause first.
        causes: Vec<Finding>,
        /// The whole log.
        log: String,
    },
    /// The program failed to build.
    #[error("cargo failed to build `{package}`: {error}")]
    Binary {
        /// Folder of the package.
        package: String,
        /// The first real error.
        error: Box<FirstError>,
        /// The causes that the output shows, the root cause first.
        causes: Vec<Finding>,
        /// The whole log.
        log: String,
    },
    /// Cache entries that mean nothing to the project.
    #[error("the project in `{folder}` does not know {}", quoted(.names))]
    UnusedEntries {
        /// The source folder.
        folder: String,
        /// The entries.
        names: Vec<String>,
        /// The option of the project that is most like an entry, where one is.
        near: std::collections::BTreeMap<String, String>,
    },
    /// A patch that was made for other sources.
    #[error("the patch `{patch}` does not apply to `{folder}`: {why}")]
    Patch {
        /// The patch.
        patch: String,
        /// The source folder.
        folder: String,
        /// File and hunk.
        why: String,
    },
    /// Two libraries define the same symbol.
    #[error("`{symbol}` is defined in both `{first}` and `{second}`{}", and_more(*.more))]
    Duplicate {
        /// The first symbol.
        symbol: String,
        /// A library.
        first: String,
        /// The other.
        second: String,
        /// How many further symbols.
        more: usize,
    },
    /// Something that is linked calls a function of a module.
    #[error("`{caller}` calls `{symbol}`, which lies in the module `{module}`{}", and_more_called(*.more))]
    ModuleCalled {
        /// The function.
        symbol: String,
        /// File name of the module.
        module: String,
        /// The library or package that calls it.
        caller: String,
        /// How many further functions.
        more: usize,
    },
    /// A build that said it succeeded left out what was asked for.
    #[error("`{tree}` was built without error, but {what}")]
    Incomplete {
        /// Tree.
        tree: String,
        /// What is missing.
        what: String,
    },
    /// A link in the build folder.
    #[error("{0}")]
    Link(#[from] gpubuild_host::links::LinkRefused),
    /// Another project does not go into the same program.
    #[error("{0}")]
    Together(#[from] super::together::TogetherError),
    /// CMake's answer about a tree.
    #[error("{0}")]
    FileApi(#[from] crate::cmake::file_api::FileApiError),
    /// A tool that is needed is neither here nor fetched.
    #[error("{tool} is needed and there is none")]
    NoTool {
        /// `CMake`.
        tool: String,
    },
    /// A tool could not be fetched.
    #[error("{0}")]
    Fetch(#[from] crate::python::WheelFetchError),
    /// A backend of the project downloads something, and may not.
    #[error("the backend `{extra}` of the project downloads {what}, and may not offline")]
    Offline {
        /// Its id in the profile.
        extra: String,
        /// What it downloads.
        what: String,
    },
    /// A program could not be started or did not end.
    #[error("{0}")]
    Run(gpubuild_host::RunError),
    /// The disk is full.
    #[error("no space left on the disk that holds `{path}`")]
    DiskFull {
        /// What was being written.
        path: String,
    },
    /// A file or folder.
    #[error("failed to {what} `{path}`: {message}")]
    Io {
        /// `write`, `read`, `lock`.
        what: &'static str,
        /// The path.
        path: String,
        /// What the system said.
        message: String,
        /// Which kind of failure.
        kind: std::io::ErrorKind,
    },
    /// There is no plan without the backend that failed.
    #[error("{0}")]
    Replan(String),
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", and so are {more} further symbols") }
}

fn and_more_called(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", and {more} further functions of modules") }
}

impl BuildError {
    /// An error of the operating system, and what was tried on what.
    pub fn io(what: &'static str, path: &impl ToString, error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::StorageFull {
            return Self::DiskFull { path: path.to_string() };
        }
        Self::Io { what, path: path.to_string(), message: error.to_string(), kind: error.kind() }
    }

    /// The causes that the output of the failing program shows, the root cause first.
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
            Self::Incomplete { .. } => id!("build.incomplete"),
            Self::FileApi(_) => id!("cmake.file-api"),
            Self::NoTool { .. } => id!("build.tool-missing"),
            Self::Fetch(error) => error.id(),
            Self::Offline { .. } => id!("build.offline"),
            Self::Run(_) => id!("build.program-failed"),
            Self::DiskFull { .. } => id!("disk.full"),
            Self::Io { kind: std::io::ErrorKind::PermissionDenied, .. } => id!("file.denied"),
            Self::Io { kind: std::io::ErrorKind::ReadOnlyFilesystem, .. } => id!("disk.read-only"),
            Self::Io { .. } => id!("file.failed"),
            Self::Replan(_) => id!("plan.refused"),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Configure { error, log, .. }
            | Self::Compile { error, log, .. }
            | Self::Binary { error, log, .. } => Some(if is_disk_full(&error.message) {
                "free some space and build again; finished files are kept".to_owned()
            } else if error.message.starts_with(ALONE) {
                format!(
                    "build where more memory or swap is, or for fewer architectures: it was tried with one compiler at \
                     a time; the whole log is `{log}`"
                )
            } else if is_out_of_memory(&error.message) {
                format!("build with fewer compilers at once: `--jobs 1`; the whole log is `{log}`")
            } else {
                format!("the whole log is `{log}`")
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
                "make it anew for these sources, or give it `optional = true` if newer ones do without it"
                    .to_owned(),
            ),
            Self::Duplicate { .. } => Some(
                "a program can hold one of the two: share the library, or build one of them shared"
                    .to_owned(),
            ),
            Self::ModuleCalled { .. } => Some(
                "a module is opened while the program runs and cannot be linked: ask the project's registry for what it \
                 offers, or build with `linkage = \"shared\"` or `\"static\"`"
                    .to_owned(),
            ),
            Self::Link(error) => error.hint(),
            Self::Together(error) => error.hint(),
            Self::NoTool { tool } => {
                Some(format!("install {tool}, or build without `--offline` to have it fetched"))
            }
            Self::Fetch(error) => error.hint(),
            Self::Offline { extra, .. } => Some(format!(
                "build it once without `--offline`: then it lies in the build folder; or leave `{extra}` out of `extra`"
            )),
            Self::DiskFull { .. } => {
                Some("free some space and build again; finished files are kept".to_owned())
            }
            Self::Io { kind: std::io::ErrorKind::PermissionDenied, path, .. } => {
                Some(format!("look at its owner and mode: `ls -ld {path}`"))
            }
            _ => None,
        }
    }
}

/// Whether a line says that the disk is full, in the words of Unix or Windows.
pub(super) fn is_disk_full(message: &str) -> bool {
    message.contains("No space left on device") || message.contains("not enough space on the disk")
}

/// How the error begins that is left when one compiler at a time is killed as well.
pub(super) const ALONE: &str = "a compiler ran out of memory, also without any other beside it";

fn is_out_of_memory(message: &str) -> bool {
    ["Killed", "out of memory", "out of heap space", "cannot allocate memory"]
        .iter()
        .any(|word| message.contains(word))
}

/// The backends of a shared tree that an error points at, among those that may be left out. All of them if it points at
/// none: better a smaller build than none.
#[must_use]
pub fn culprits(candidates: &[Backend], error: &BuildError) -> Vec<Backend> {
    let (BuildError::Configure { error, .. } | BuildError::Compile { error, .. }) = error else {
        return candidates.to_vec();
    };
    let texts = [error.step.as_deref(), error.file.as_deref(), Some(error.message.as_str())];
    for text in texts.into_iter().flatten() {
        let pointed: Vec<Backend> =
            candidates.iter().copied().filter(|backend| names(text, *backend)).collect();
        if !pointed.is_empty() {
            return pointed;
        }
    }
    candidates.to_vec()
}

/// Whether a path, target or message speaks of a backend: one of its words as a part between other characters.
#[must_use]
pub fn names(text: &str, backend: Backend) -> bool {
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
    fn the_failed_step_names_the_backend() {
        let both = [Backend::Cuda, Backend::Vulkan];
        let error = compile("src/vulkan/CMakeFiles/gk-vulkan.dir/v.c.o", "/usr/include/cuda.h", "no");
        assert_eq!(culprits(&both, &error), [Backend::Vulkan]);
        let error = compile("x.o", "/src/ggml-cuda/a.cu", "no");
        assert_eq!(culprits(&both, &error), [Backend::Cuda]);
        let error = compile("x.o", "/src/a.c", "could NOT find Vulkan");
        assert_eq!(culprits(&both, &error), [Backend::Vulkan]);
        assert_eq!(culprits(&both, &compile("x.o", "/src/core.c", "syntax")), both);
    }

    #[test]
    fn messages_read_well() {
        let error = BuildError::UnusedEntries {
            folder: "/s".into(),
            names: vec!["A".into(), "B".into()],
            near: [("A".into(), "C".into())].into(),
        };
        assert!(error.hint().unwrap().starts_with("did you mean `C` for `A`?"));
        assert_eq!(error.to_string(), "the project in `/s` does not know `A`, `B`");
        let error =
            BuildError::Duplicate { symbol: "f".into(), first: "a".into(), second: "b".into(), more: 2 };
        assert_eq!(error.to_string(), "`f` is defined in both `a` and `b`, and so are 2 further symbols");
        assert_eq!(compile("s", "f", "c++: Killed signal").id(), "build.out-of-memory");
    }
}
