//! The parts of Zig's wheel that Zig links statically.

use serde::Deserialize;

use super::{Target, table};

/// A part of Zig's wheel that is linked statically.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticPart {
    /// Its name: `libc++`.
    pub name: String,
    /// Its folder, relative to that of Zig.
    pub folder: String,
    /// Its licence file, relative to the folder of Zig.
    pub file: String,
    /// Its licence as an SPDX expression.
    pub licence: Option<String>,
    /// What it is linked with.
    #[serde(default, rename = "with")]
    condition: PartUse,
    /// Endings of Zig's names of the targets that have it; all if empty.
    #[serde(default)]
    targets: Vec<String>,
}

/// What a part is linked with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PartUse {
    /// Everything.
    #[default]
    All,
    /// Code in C++.
    Cxx,
    /// Code that unwinds the stack.
    Unwinding,
}

/// The code that Zig links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkedCode {
    /// Only C.
    C,
    /// C and Rust.
    Rust,
    /// C++, with or without others.
    Cxx,
}

/// The parts that Zig links into a program or a shared library for a target.
pub fn static_parts(target: &Target, code: LinkedCode) -> impl Iterator<Item = &'static StaticPart> {
    let zig = target.row().map(|row| row.zig.as_str()).unwrap_or_default();
    let is_linked = move |part: &&StaticPart| match part.condition {
        PartUse::All => true,
        PartUse::Unwinding => code != LinkedCode::C,
        PartUse::Cxx => code == LinkedCode::Cxx,
    };
    let is_of_target = move |part: &&StaticPart| {
        part.targets.is_empty() || part.targets.iter().any(|end| zig.ends_with(end.as_str()))
    };
    table().part.iter().filter(is_linked).filter(is_of_target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_depend_on_the_target_and_the_code() {
        let parts = |triple: &str, code| -> Vec<&str> {
            static_parts(&Target::of_triple(triple), code).map(|part| part.name.as_str()).collect()
        };
        let musl = parts("x86_64-unknown-linux-musl", LinkedCode::Cxx);
        assert_eq!(musl, ["compiler_rt", "libunwind", "libc++", "libc++abi", "musl"]);
        let windows = parts("x86_64-pc-windows-gnu", LinkedCode::Rust);
        assert_eq!(windows, ["compiler_rt", "libunwind", "mingw-w64"]);
        assert_eq!(parts("aarch64-unknown-linux-gnu", LinkedCode::C), ["compiler_rt", "glibc"]);
        assert_eq!(parts("aarch64-apple-darwin", LinkedCode::C), ["compiler_rt"]);
    }
}
