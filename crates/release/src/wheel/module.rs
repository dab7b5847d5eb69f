//! The Python version and ABI of extension modules, from their file names. Pure.

use object::read::{NameOrOrdinal, Object as _};

/// The Python version and ABI that a wheel requires.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModuleAbi {
    /// One version: the Python tag `cp311` and the ABI tag `cp311`.
    Exact(String, String),
    /// The stable ABI of CPython 3.
    Stable,
}

/// The ABI that the name of an extension module contains, as `EXT_SUFFIX` of Python has it; `None` for other libraries.
#[must_use]
pub fn abi_of(name: &str) -> Option<ModuleAbi> {
    let (_, rest) = name.split_once('.')?;
    let (tag, end) = rest.rsplit_once('.')?;
    if !matches!(end, "so" | "pyd" | "dylib") {
        return None;
    }
    let mut parts = tag.split('-');
    match (parts.next()?, parts.next()) {
        ("abi3", None) => Some(ModuleAbi::Stable),
        ("cpython", Some(version)) => cpython(version),
        (pypy, Some(abi)) if pypy.starts_with("pypy") => {
            let python = format!("pp{}", digits(&pypy[4..])?);
            Some(ModuleAbi::Exact(python, format!("{pypy}_{abi}")))
        }
        // Windows: `cp311-win_amd64`.
        (version, Some(_)) => cpython(version.strip_prefix("cp")?),
        _ => None,
    }
}

/// `311` or `313t`, whose letter denotes the free-threaded build.
fn cpython(version: &str) -> Option<ModuleAbi> {
    let number = version.trim_end_matches('t');
    Some(ModuleAbi::Exact(format!("cp{}", digits(number)?), format!("cp{version}")))
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// Whether a library is an extension module: it exports a function that Python calls on import.
#[must_use]
pub fn is_module(data: &[u8]) -> bool {
    let Ok(file) = object::read::File::parse(data) else { return false };
    let Ok(exports) = file.exports() else { return false };
    exports.filter_map(Result::ok).any(|export| match export.name() {
        // Mach-O adds an underscore.
        NameOrOrdinal::Name(name) => name.starts_with(b"PyInit_") || name.starts_with(b"_PyInit_"),
        NameOrOrdinal::Ordinal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules_contain_their_abi() {
        let exact = |python: &str, abi: &str| Some(ModuleAbi::Exact(python.to_owned(), abi.to_owned()));
        for (name, abi) in [
            ("_core.cpython-311-x86_64-linux-gnu.so", exact("cp311", "cp311")),
            ("_core.cpython-313t-x86_64-linux-gnu.so", exact("cp313", "cp313t")),
            ("_core.cpython-311-darwin.so", exact("cp311", "cp311")),
            ("_core.cp312-win_amd64.pyd", exact("cp312", "cp312")),
            ("_core.pypy310-pp73-x86_64-linux-gnu.so", exact("pp310", "pypy310_pp73")),
            ("_core.abi3.so", Some(ModuleAbi::Stable)),
            ("libadder.so", None),
            ("libllama.so.0", None),
            ("libfoo.bar-baz.so", None),
            ("adder.dll", None),
        ] {
            assert_eq!(abi_of(name), abi, "{name}");
        }
    }
}
