//! What a crate may be called: cargo's rules, and those of C++ and CMake, since the name becomes a namespace and a target.

use super::NewError;

/// The longest name that crates.io takes.
const LONGEST: usize = 64;

/// Keywords of Rust, those of every edition and those that are reserved.
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

/// Crates that come with Rust, and one that every test links.
const LIBRARIES: &[&str] = &["alloc", "core", "proc_macro", "proc-macro", "std", "test"];

/// What generated crates depend on, and the crate that every workspace template brings.
const OURS: &[&str] = &["bindgen", "gpubuild", "xtask"];

/// Folders of cargo's `target`.
const FOLDERS: &[&str] = &["build", "deps", "examples", "incremental"];

/// Targets that every CMake project has.
const TARGETS: &[&str] = &["all", "clean", "depend", "help", "install", "package"];

/// File names that Windows does not take, whatever the extension.
const WINDOWS: &[&str] = &[
    "aux", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "con", "lpt1", "lpt2",
    "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9", "nul", "prn",
];

/// Refuses names that a crate cannot have.
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
    let Some(first) = name.chars().next() else { return Some("a name has at least one letter".to_owned()) };
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if let Some(strange) = name.chars().find(|c| !is_plain(c)) {
        let shown = strange.escape_debug();
        return Some(format!("`{shown}` is not among letters, digits, `-` and `_`"));
    }
    if !first.is_ascii_alphabetic() {
        return Some("it starts with a letter".to_owned());
    }
    if name.len() > LONGEST {
        return Some(format!("it has {} letters, and crates.io takes {LONGEST}", name.len()));
    }
    let lower = name.to_ascii_lowercase();
    let kinds = [
        (RUST, "it is a keyword of Rust"),
        (CPP, "it is a keyword of C++"),
        (LIBRARIES, "a library of Rust is called that"),
        (OURS, "a crate that the new one needs is called that"),
        (FOLDERS, "cargo has a folder of that name in `target`"),
        (TARGETS, "every CMake project has a target of that name"),
        (WINDOWS, "Windows has no files of that name"),
    ];
    let found = kinds.iter().find(|(list, _)| list.contains(&lower.as_str()));
    found.map(|(_, why)| (*why).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::diagnostic::Diagnostic;

    #[test]
    fn ordinary_names_are_taken() {
        for name in ["a", "demo", "my-kernels", "x86_64", "Llama", "own-kernels", &"n".repeat(64)] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_that_break_something_are_refused_with_the_reason() {
        for (name, why) in [
            ("", "at least one letter"),
            ("9lives", "starts with a letter"),
            ("-x", "starts with a letter"),
            ("_x", "starts with a letter"),
            ("a b", "` ` is not among"),
            ("a/b", "`/` is not among"),
            ("größe", "`ö` is not among"),
            ("a\nb", "`\\n` is not among"),
            ("fn", "keyword of Rust"),
            ("gen", "keyword of Rust"),
            ("Self", "keyword of Rust"),
            ("double", "keyword of C++"),
            ("test", "library of Rust"),
            ("std", "library of Rust"),
            ("gpubuild", "that the new one needs"),
            ("xtask", "that the new one needs"),
            ("deps", "folder of that name"),
            ("install", "CMake project"),
            ("CON", "Windows"),
            (&"n".repeat(65), "crates.io takes 64"),
        ] {
            let error = check(name).unwrap_err();
            assert_eq!(error.id(), "new.name");
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
