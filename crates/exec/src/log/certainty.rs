//! How certain it is that a line of a log is an error.

/// How certain a line is an error. The first line of the most certain kind is the guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    /// The format of a compiler, a linker, CMake or rustc.
    Format,
    /// An exception, a panic, or a line that begins with the word for error.
    Word,
    /// A sentence that says that something failed.
    Sentence,
    /// The same in a warning.
    Warning,
    /// A tool that repeats that another one failed.
    Echo,
    /// A sentence that a program prints as information.
    Hint,
}
