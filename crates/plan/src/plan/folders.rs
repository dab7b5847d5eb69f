//! Refuses folders whose names CMake, or Ninja files that CMake writes, cannot represent.

use gpubuild_core::clean;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::{HostPath, PathRules};

use super::PlannedTree;
use super::make::PlanInputs;

/// The first path of a plan that CMake cannot handle, as a reason to refuse the plan.
pub(super) fn refuse(inputs: &PlanInputs<'_>, trees: &[PlannedTree]) -> Result<(), Vec<Reason>> {
    let own = trees.iter().flat_map(|tree| [("source folder", &tree.source), ("build folder", &tree.build)]);
    let used = |root: &HostPath| {
        let mut values = trees.iter().flat_map(|tree| tree.cache.values().chain(tree.env.values()));
        values.any(|value| value.starts_with(root.as_str()) || value.starts_with(&root.forward_slashes()))
    };
    let kits = inputs.kits.values().flatten().map(|kit| &kit.installation.root).filter(|root| used(root));
    let compilers =
        inputs.compilers.iter().flat_map(|one| [&one.c, &one.cxx]).flatten().filter(|path| used(path));
    let tools = [&inputs.tools.cmake, &inputs.tools.ninja].into_iter().flatten();
    let all = own
        .chain(kits.map(|root| ("toolkit", root)))
        .chain(compilers.map(|path| ("compiler", path)))
        .chain(tools.map(|path| ("build tool", path)));
    for (what, path) in all {
        if let Some(part) = unsupported(path) {
            let path = clean::line(path.as_str());
            let text = format!("the path `{path}` of the {what} contains {part}, which CMake cannot handle");
            let hint = "move or rename the folder; CMake accepts spaces and letters of all languages";
            return Err(vec![Reason::new(id!("plan.folder-unsupported"), text).hint(hint)]);
        }
    }
    Ok(())
}

/// The first part of a path that CMake 3.25 with Ninja fails on, in the source or in the build folder. `;` separates its lists, `|`
/// the dependencies in Ninja's files, and quotes and backslashes are not escaped in all files that CMake writes.
fn unsupported(path: &HostPath) -> Option<&'static str> {
    let text = path.as_str();
    let mut parts = vec![
        (";", "`;`"),
        ("\"", "`\"`"),
        ("|", "`|`"),
        ("$<", "`$<`"),
        ("${", "`${`"),
        ("\n", "a line break"),
        ("\r", "a line break"),
    ];
    if path.rules() == PathRules::Unix {
        parts.push(("\\", "`\\`"));
    }
    parts.into_iter().find_map(|(part, name)| text.contains(part).then_some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_cmake_fails_on_are_found() {
        let found = |rules, path| unsupported(&HostPath::new(rules, path));
        for (path, expected) in [
            ("/a;b", "`;`"),
            ("/a\"b", "`\"`"),
            ("/a|b", "`|`"),
            ("/a\\b", "`\\`"),
            ("/a$<1:x>b", "`$<`"),
            ("/a${X}b", "`${`"),
            ("/a\nb", "a line break"),
            ("/a\rb", "a line break"),
        ] {
            assert_eq!(found(PathRules::Unix, path), Some(expected), "{path:?}");
        }
        for path in ["/a b", "/a$b", "/a#b", "/a'b", "/a@X@b", "/a,b", "/a%b", "/a(b)", "/é"] {
            assert_eq!(found(PathRules::Unix, path), None, "{path:?}");
        }
        assert_eq!(found(PathRules::Windows, r"C:\a\b"), None);
    }
}
