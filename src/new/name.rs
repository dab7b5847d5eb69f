//! Validates crate names. The rules of cargo, C++ and CMake apply, since the name is also used for a namespace and a target.

use super::NewError;

/// Maximum length of a name in the crates registry.
const MAX_LENGTH: usize = 64;

/// Strict and reserved keywords of all Rust editions.
const RUST: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// Keywords and types of C++ that are not Rust keywords.
const CPP: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "case",
    "catch",
    "char",
    "class",
    "compl",
    "concept",
    "consteval",
    "constexpr",
    "constinit",
    "default",
    "delete",
    "double",
    "explicit",
    "export",
    "float",
    "friend",
    "goto",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "requires",
    "short",
    "signed",
    "sizeof",
    "switch",
    "template",
    "this",
    "throw",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "void",
    "volatile",
    "xor",
    "xor_eq",
];

/// Crates of the Rust distribution.
const LIBRARIES: &[&str] = &["alloc", "core", "proc_macro", "proc-macro", "std", "test"];

/// Dependencies of generated crates, and the task runner that workspace templates add.
const TEMPLATE_CRATES: &[&str] = &["bindgen", "gpubuild", "xtask"];

/// Folders that cargo creates in `target`.
const FOLDERS: &[&str] = &["build", "deps", "examples", "incremental"];

/// Targets that every CMake project has.
const TARGETS: &[&str] = &["all", "clean", "depend", "help", "install", "package"];

/// File names that are reserved on Windows, with any extension.
const WINDOWS: &[&str] = &[
    "aux", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "con", "lpt1", "lpt2",
    "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9", "nul", "prn",
];

/// Checks the name of a crate.
///
/// # Errors
/// [`NewError::Name`] with the reason.
pub fn check(name: &str) -> Result<(), NewError> {
    match problem(name) {
        None => Ok(()),
        Some(why) => Err(NewError::Name { name: name.to_owned(), why }),
    }
}

fn problem(name: &str) -> Option<String> {
    let Some(first) = name.chars().next() else { return Some("it is empty".to_owned()) };
    let is_allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if let Some(invalid) = name.chars().find(|c| !is_allowed(c)) {
        let invalid = invalid.escape_debug();
        return Some(format!("`{invalid}` is not an ASCII letter, digit, `-` or `_`"));
    }
    if !first.is_ascii_alphabetic() {
        return Some("it does not start with a letter".to_owned());
    }
    if name.len() > MAX_LENGTH {
        return Some(format!(
            "it has {} characters, and the crates registry allows {MAX_LENGTH}",
            name.len()
        ));
    }
    let lower = name.to_ascii_lowercase();
    let kinds = [
        (RUST, "it is a Rust keyword"),
        (CPP, "it is a C++ keyword"),
        (LIBRARIES, "a library of Rust has this name"),
        (TEMPLATE_CRATES, "a crate that the template uses has this name"),
        (FOLDERS, "cargo uses a folder with this name in `target`"),
        (TARGETS, "every CMake project has a target with this name"),
        (WINDOWS, "it is a reserved file name on Windows"),
    ];
    let found = kinds.iter().find(|(list, _)| list.contains(&lower.as_str()));
    found.map(|(_, why)| (*why).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::diagnostic::Diagnostic;

    #[test]
    fn valid_names_are_accepted() {
        for name in ["a", "demo", "my-kernels", "x86_64", "Llama", "own-kernels", &"n".repeat(64)] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn invalid_names_are_rejected_with_the_reason() {
        for (name, why) in [
            ("", "it is empty"),
            ("9lives", "does not start with a letter"),
            ("-x", "does not start with a letter"),
            ("_x", "does not start with a letter"),
            ("a b", "` ` is not an ASCII letter"),
            ("a/b", "`/` is not an ASCII letter"),
            ("größe", "`ö` is not an ASCII letter"),
            ("a\nb", "`\\n` is not an ASCII letter"),
            ("fn", "Rust keyword"),
            ("gen", "Rust keyword"),
            ("Self", "Rust keyword"),
            ("double", "C++ keyword"),
            ("test", "library of Rust"),
            ("std", "library of Rust"),
            ("gpubuild", "that the template uses"),
            ("xtask", "that the template uses"),
            ("deps", "folder with this name"),
            ("install", "CMake project"),
            ("CON", "Windows"),
            (&"n".repeat(65), "registry allows 64"),
        ] {
            let error = check(name).unwrap_err();
            assert_eq!(error.id(), "new.name");
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
