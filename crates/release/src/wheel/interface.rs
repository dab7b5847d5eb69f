//! Libraries that use the C++ interface of another package, such as PyTorch's, which changes with its releases. Pure.

use gpubuild_core::text::python_package;
use gpubuild_plan::project::profile::WheelPackage;
use object::read::{Object as _, ObjectSymbol as _};

use super::project::PythonProject;

/// Prefixes of mangled names: virtual tables, type information and guards.
const TABLES: [&str; 5] = ["TV", "TI", "TS", "TT", "GV"];
/// Qualifiers of member functions in mangled names.
const QUALIFIERS: [char; 5] = ['r', 'V', 'K', 'R', 'O'];

/// A library that uses the C++ interface of a package of which the wheel does not require one release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpinnedInterface {
    /// The library's path in the wheel.
    pub library: String,
    /// The package: `torch`.
    pub package: String,
}

/// The libraries, as path and content, that use interfaces of packages whose releases the project does not limit.
pub(super) fn unpinned(
    packages: &[WheelPackage],
    project: &PythonProject,
    libraries: &[(&str, &[u8])],
) -> Vec<UnpinnedInterface> {
    let with_interface = packages.iter().filter(|package| !package.unstable.is_empty());
    let unlimited =
        with_interface.filter(|package| !project.dependencies.iter().any(|one| limits(one, &package.wheel)));
    let found = unlimited.flat_map(|package| {
        let users = libraries.iter().filter(|(_, data)| imports(data, &package.unstable));
        users.map(|(path, _)| UnpinnedInterface {
            library: (*path).to_owned(),
            package: package.wheel.clone(),
        })
    });
    found.collect()
}

/// Whether a requirement excludes later releases of a package: `torch==2.9.*`, `torch<2.10`.
fn limits(requirement: &str, package: &str) -> bool {
    let requirement = requirement.split(';').next().unwrap_or_default().trim();
    let end = requirement.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'));
    let (name, rest) = requirement.split_at(end.unwrap_or(requirement.len()));
    let conditions = rest.trim_start().strip_prefix('[').and_then(|extras| extras.split_once(']'));
    let conditions = conditions.map_or(rest, |(_, conditions)| conditions).trim();
    let is_upper = |condition: &str| match condition.trim().strip_prefix("~=") {
        // `~=2.9` allows 2.10, `~=2.9.0` does not.
        Some(version) => version.split('.').count() > 2,
        None => condition.trim().starts_with(['=', '<']),
    };
    python_package(name) == python_package(package)
        && (conditions.starts_with('@') || conditions.trim_start_matches('(').split(',').any(is_upper))
}

/// Whether a library needs a symbol in one of these C++ namespaces from another one.
fn imports(data: &[u8], namespaces: &[String]) -> bool {
    let Ok(file) = object::read::File::parse(data) else { return false };
    let needed = file.dynamic_symbols().filter(|symbol| symbol.is_undefined() && !symbol.is_weak());
    let names = needed.filter_map(|symbol| symbol.name().ok());
    names.filter_map(namespace).any(|name| namespaces.iter().any(|other| other == name))
}

/// The outermost namespace of a mangled name (Itanium C++ ABI): `at` of `_ZNK2at6Tensor3dimEv`.
fn namespace(symbol: &str) -> Option<&str> {
    let name = symbol.trim_start_matches('_').strip_prefix('Z')?;
    let name = TABLES.iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name);
    let name = name.strip_prefix('N')?.trim_start_matches(QUALIFIERS);
    let digits = name.find(|c: char| !c.is_ascii_digit())?;
    let (length, rest) = name.split_at(digits);
    rest.get(..length.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_start_with_their_namespace() {
        for (symbol, expected) in [
            ("_ZN2at4_ops10mul_Scalar4callERKNS_6TensorERKN3c106ScalarE", Some("at")),
            ("_ZNK3c1010TensorImpl15decref_pyobjectEv", Some("c10")),
            ("_ZNR5torch7Library5_implEPKcONS_11CppFunctionE", Some("torch")),
            ("_ZTVN3c105ErrorE", Some("c10")),
            ("__ZN2at5emptyEv", Some("at")),
            ("_ZNSt6localeC1Ev", None),
            ("_ZTVN10__cxxabiv117__class_type_infoE", Some("__cxxabiv1")),
            ("_Znwm", None),
            ("_ZN99ab", None),
            ("_ZN", None),
            ("_ZN184467440737095516160a", None),
            ("aoti_torch_get_dtype", None),
            ("", None),
        ] {
            assert_eq!(namespace(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn limits_exclude_later_releases() {
        for one in [
            "torch==2.9.*",
            "Torch (==2.9.1)",
            "torch>=2.9,<2.10",
            "torch ~= 2.9.0",
            "torch[x]<3",
            "torch@https://a",
        ] {
            assert!(limits(one, "torch"), "{one}");
        }
        for one in ["torch", "torch>=2.10", "torch~=2.9", "torch!=2.8", "torchvision==0.24", "x; torch<2"] {
            assert!(!limits(one, "torch"), "{one}");
        }
    }
}
