//! The version of a Python package whose pyproject.toml lists `version` in `dynamic`, if a file contains it as text:
//!
//! 1. the file and the expression of scikit-build-core's provider `scikit_build_core.metadata.regex`;
//! 2. `__version__ = "…"` in the `__init__.py` of the package, unless another provider is set;
//! 3. `PKG-INFO`, which every source distribution has.
//!
//! Anything else would need Python code of a third party.

use gpubuild_core::text::python_package;
use gpubuild_host::{HostPath, ReadFiles};
use regex_lite::{Captures, Regex, RegexBuilder};
use serde::Deserialize;

/// The table of scikit-build-core, for messages.
const TABLE: &str = "[tool.scikit-build.metadata.version]";
/// The provider of scikit-build-core that needs no other package.
const PROVIDER: &str = "scikit_build_core.metadata.regex";
/// The provider's default expression. In Python it has a back reference to the first quotation mark instead of two cases.
const DEFAULT: &str =
    r#"(?i)^(?:__version__|VERSION)(?: ?: ?str)? *= *(?:'v?(?P<single>[^'\n]+)'|"v?(?P<double>[^"\n]+)")"#;
/// The attribute of a package.
const ATTRIBUTE: &str =
    r#"^__version__(?: ?: ?str)? *= *(?:'v?(?P<single>[^'\n]+)'|"v?(?P<double>[^"\n]+)")"#;

/// The largest file in which an expression of the project is searched, in bytes: a search takes time for each byte and each part of the
/// expression.
const LARGEST_INPUT: usize = 128 << 10;
/// The largest compiled expression of a project, in bytes.
const LARGEST_EXPRESSION: usize = 8 << 10;
/// The longest version, in bytes.
const LONGEST_VERSION: usize = 1 << 10;

#[derive(Default, Deserialize)]
struct PyProject {
    project: Option<DynamicProject>,
    tool: Option<ToolTables>,
}

#[derive(Default, Deserialize)]
struct DynamicProject {
    #[serde(default)]
    name: String,
    #[serde(default)]
    dynamic: Vec<String>,
}

#[derive(Deserialize)]
struct ToolTables {
    #[serde(rename = "scikit-build")]
    scikit_build: Option<ScikitTable>,
}

#[derive(Deserialize)]
struct ScikitTable {
    metadata: Option<MetadataProviders>,
}

#[derive(Deserialize)]
struct MetadataProviders {
    version: Option<VersionProvider>,
}

/// A provider with its settings.
#[derive(Deserialize)]
struct VersionProvider {
    #[serde(default)]
    provider: String,
    input: Option<String>,
    regex: Option<String>,
    result: Option<String>,
    remove: Option<String>,
}

/// Returns the version; `None` if it is not dynamic. `root` is the folder of pyproject.toml, `package` that of the Python package.
///
/// # Errors
/// No file contains the version. The text is the problem.
pub fn read(
    host: &dyn ReadFiles,
    root: &HostPath,
    package: Option<&str>,
    pyproject: &str,
) -> Result<Option<String>, String> {
    // An invalid file is reported by the reader of the other metadata.
    let file: PyProject = gpubuild_toml::from_str(pyproject).unwrap_or_default();
    let project = file.project.unwrap_or_default();
    if !project.dynamic.iter().any(|key| key == "version") {
        return Ok(None);
    }
    let provider = file.tool.and_then(|tool| tool.scikit_build?.metadata?.version);
    if let Some(provider) = provider.as_ref().filter(|one| one.provider == PROVIDER) {
        return of_provider(host, root, provider).map(Some);
    }
    let in_package = package.map(|package| format!("{package}/__init__.py")).filter(|_| provider.is_none());
    let attribute = in_package.as_ref().and_then(|path| {
        let text = host.read_text(&root.join(path)).ok()?;
        find_quoted(ATTRIBUTE, &text)
    });
    let of_sdist = || of_sdist(&host.read_text(&root.join("PKG-INFO")).ok()?, &project.name);
    if let Some(version) = attribute.or_else(of_sdist) {
        return Ok(Some(version));
    }
    Err(match (provider, in_package) {
        (Some(provider), _) => {
            format!("`version` is dynamic, and gpubuild does not run its provider `{}`", provider.provider)
        }
        (None, Some(path)) => format!("`version` is dynamic, and `{path}` has no line `__version__ = \"…\"`"),
        (None, None) => "`version` is dynamic, and no file is known that contains it".to_owned(),
    })
}

fn of_provider(host: &dyn ReadFiles, root: &HostPath, provider: &VersionProvider) -> Result<String, String> {
    let input = provider.input.as_deref().ok_or_else(|| format!("{TABLE} has no `input`"))?;
    let text = host
        .read_text(&root.join(input))
        .map_err(|error| format!("`{input}`, the `input` of {TABLE}: {error}"))?
        .replace("\r\n", "\n");
    if text.len() > LARGEST_INPUT {
        return Err(format!("`{input}`, the `input` of {TABLE}, is larger than {} KiB", LARGEST_INPUT >> 10));
    }
    let missing = || format!("nothing in `{input}` matches the `regex` of {TABLE}");
    let result = provider.result.as_deref().unwrap_or("{value}");
    let found = match provider.regex.as_deref() {
        None if result == "{value}" => checked(find_quoted(DEFAULT, &text).ok_or_else(missing)?)?,
        None => return Err(format!("`result` of {TABLE} needs `regex`")),
        Some(pattern) => {
            let regex = compile(pattern, "regex")?;
            expand(result, &regex.captures(&text).ok_or_else(missing)?)?
        }
    };
    match provider.remove.as_deref().filter(|pattern| !pattern.is_empty()) {
        Some(pattern) => Ok(compile(pattern, "remove")?.replace_all(&found, "").into_owned()),
        None => Ok(found),
    }
}

/// Compiles an expression of Python. scikit-build-core uses the multi-line mode for `regex` only.
fn compile(pattern: &str, key: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .multi_line(key == "regex")
        .size_limit(LARGEST_EXPRESSION)
        .build()
        .map_err(|error| format!("gpubuild cannot use `{key}` of {TABLE}: {error}"))
}

/// A version that is not too long.
fn checked(version: String) -> Result<String, String> {
    if version.len() > LONGEST_VERSION {
        return Err(format!("the version that {TABLE} finds is longer than {LONGEST_VERSION} bytes"));
    }
    Ok(version)
}

/// The value between quotation marks.
fn find_quoted(pattern: &str, text: &str) -> Option<String> {
    let regex = RegexBuilder::new(pattern).multi_line(true).build().expect("the expression is a constant");
    let captures = regex.captures(text)?;
    let value = captures.name("single").or_else(|| captures.name("double"))?;
    Some(value.as_str().to_owned())
}

/// Replaces `{name}`, `{}` and `{0}`, the first group, in a result, as Python's `str.format` does, without format specifications.
fn expand(result: &str, captures: &Captures<'_>) -> Result<String, String> {
    let unusable = |what: &str| format!("`result` of {TABLE} {what}");
    let (mut text, mut rest, mut next) = (String::new(), result, 0_usize);
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let (brace, after) = rest[at..].split_at(1);
        if let Some(after) = after.strip_prefix(brace) {
            text.push_str(brace);
            rest = after;
            continue;
        }
        let (name, after) =
            after.split_once('}').filter(|_| brace == "{").ok_or_else(|| unusable("has a single brace"))?;
        let group = if name.is_empty() {
            next += 1;
            captures.get(next)
        } else if let Ok(number) = name.parse::<usize>() {
            number.checked_add(1).and_then(|number| captures.get(number))
        } else {
            captures.name(name)
        };
        let group =
            group.ok_or_else(|| unusable(&format!("has `{{{name}}}`, which no group of `regex` matches")))?;
        text = checked(text + group.as_str())?;
        rest = after;
    }
    checked(text + rest)
}

/// The version in the `PKG-INFO` of a source distribution, if it is the one of this project.
fn of_sdist(text: &str, name: &str) -> Option<String> {
    let text = text.replace("\r\n", "\n");
    let header = text.split("\n\n").next().unwrap_or_default();
    let field = |key: &str| header.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let is_own = python_package(field("Name:")?) == python_package(name);
    field("Version:").filter(|_| is_own).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, HostInfo as _, Os, RecordedHost};

    /// The version of a project with these lines for scikit-build-core and these files.
    fn version(table: &str, files: &[(&str, &str)]) -> Result<Option<String>, String> {
        let mut host = RecordedHost::builder(Os::Linux, Arch::X86_64);
        for (path, text) in files {
            host = host.file(&format!("/p/{path}"), text);
        }
        let host = host.build();
        let text = format!("[project]\nname = \"My_Pkg\"\ndynamic = [\"version\"]\n{table}");
        read(&host, &host.path("/p"), Some("src/my"), &text)
    }

    const SCIKIT: &str = "[tool.scikit-build.metadata.version]\nprovider = \"scikit_build_core.metadata";

    fn provided(settings: &str, file: &str) -> Result<String, String> {
        let table = format!("{SCIKIT}.regex\"\ninput = \"v.py\"\n{settings}");
        version(&table, &[("v.py", file)]).map(Option::unwrap_or_default)
    }

    #[test]
    fn default_expression_is_that_of_scikit_build_core() {
        for (file, expected) in [
            ("import x\n__version__ = \"0.3.36\"\n", "0.3.36"),
            ("__version__: str = 'v1.0'\n", "1.0"),
            ("a\r\nversion='2.0'\r\n", "2.0"),
            ("x__version__ = \"1\"\n__version__ = \"2\"", "2"),
        ] {
            assert_eq!(provided("", file).as_deref(), Ok(expected), "{file:?}");
        }
        for file in ["__version__ = version()\n", " __version__ = \"1\"\n", "__version__ = \"1'\n", ""] {
            assert!(provided("", file).unwrap_err().contains("nothing in `v.py` matches"), "{file:?}");
        }
    }

    #[test]
    fn expressions_and_results_of_a_project_are_used() {
        let header = "#define MAJOR 4\n#define MINOR 12\n";
        let regex = r"regex = '''MAJOR (?P<major>\d+)\s+#define MINOR (\d+)$'''";
        for (result, expected) in [
            ("result = \"{major}.{1}\"", "4.12"),
            ("result = \"{}.{}.0{{x}}\"", "4.12.0{x}"),
            ("result = \"{major}.{1}rc1\"\nremove = \"rc.*\"", "4.12"),
        ] {
            assert_eq!(provided(&format!("{regex}\n{result}"), header).as_deref(), Ok(expected), "{result}");
        }
        let words = r"regex = '__version__\s*=\s*.(?P<value>[\w.+-]+).'";
        assert_eq!(provided(words, "__version__ = '4.12'").as_deref(), Ok("4.12"));
        // The form in scikit-build-core's documentation.
        let verbose = r"regex = '''(?sx) \#define \s+ MAJOR \s+ (\d+) .*? \#define \s+ MINOR \s+ (\d+)'''";
        assert_eq!(provided(&format!("{verbose}\nresult = '{{}}.{{}}'"), header).as_deref(), Ok("4.12"));
        for (settings, message) in [
            (regex.to_owned(), "`{value}`, which no group"),
            (format!("{regex}\nresult = \"{{major\""), "single brace"),
            (format!("{regex}\nresult = \"{{99999999999999999999}}\""), "no group"),
            (format!("{regex}\nresult = \"{{{}}}\"", usize::MAX), "no group"),
            ("regex = '''(?<=V)(?P<value>1)'''".to_owned(), "gpubuild cannot use `regex`"),
            ("result = \"{value}.1\"".to_owned(), "needs `regex`"),
        ] {
            let error = provided(&settings, header).unwrap_err();
            assert!(error.contains(message), "{settings}: {error}");
        }
    }

    #[test]
    fn expressions_that_would_take_long_are_refused() {
        let stars = "(?:a*)*".repeat(100);
        let counted = "(?:(?:a{1,100}){1,100}){1,10}b";
        for pattern in [&stars[..], counted] {
            let error = provided(&format!("regex = '''{pattern}'''"), "aaaa").unwrap_err();
            assert!(error.contains("size limit"), "{error}");
            let settings = format!("regex = '(?P<value>a)'\nremove = '''{pattern}'''");
            assert!(provided(&settings, "aaaa").unwrap_err().contains("gpubuild cannot use `remove`"));
        }
        let long = "a".repeat(LARGEST_INPUT + 1);
        assert!(provided("", &long).unwrap_err().contains("is larger than 128 KiB"));
        let any = "regex = '(?P<value>a+)'";
        let version = "a".repeat(LONGEST_VERSION);
        assert_eq!(provided(any, &version), Ok(version.clone()));
        let quoted = format!("__version__ = '{version}a'");
        for (settings, file) in [
            (any.to_owned(), format!("{version}a")),
            (format!("{any}\nresult = '{{value}}{{value}}'"), version),
            (format!("{any}\nresult = '{{value}}{}'", "b".repeat(LONGEST_VERSION)), "a".to_owned()),
            (String::new(), quoted),
        ] {
            assert!(provided(&settings, &file).unwrap_err().contains("longer than 1024 bytes"), "{settings}");
        }
    }

    #[test]
    fn files_are_read_in_their_order_and_other_providers_are_refused() {
        let init = ("src/my/__init__.py", "__version__ = \"1.0\"\n");
        let sdist = ("PKG-INFO", "Metadata-Version: 2.4\nName: my.pkg\nVersion: 2.0\n\nVersion: 9\n");
        assert_eq!(version("", &[init, sdist]), Ok(Some("1.0".to_owned())));
        let other = format!("{SCIKIT}.setuptools_scm\"\n");
        assert_eq!(version(&other, &[init, sdist]), Ok(Some("2.0".to_owned())));
        assert!(version(&other, &[init]).unwrap_err().contains("does not run its provider `scikit_build"));
        let without = ("src/my/__init__.py", "from ._version import version as __version__\n");
        assert_eq!(version("", &[without, sdist]), Ok(Some("2.0".to_owned())));
        let of_another = ("PKG-INFO", "Name: other\nVersion: 2.0\n");
        let error = version("", &[without, of_another]).unwrap_err();
        assert!(error.contains("`src/my/__init__.py` has no line"), "{error}");
        assert!(version(&format!("{SCIKIT}.regex\"\n"), &[]).unwrap_err().contains("has no `input`"));
        assert!(
            provided("", "x").is_err()
                && version(&format!("{SCIKIT}.regex\"\ninput = \"a\"\n"), &[]).is_err()
        );
    }

    #[test]
    fn plain_versions_are_not_read_from_files() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).build();
        for text in ["[project]\nname = \"a\"\nversion = \"1\"\n", "[project", ""] {
            assert_eq!(read(&host, &host.path("/p"), None, text), Ok(None), "{text}");
        }
    }
}
