//! `source` of `[project]`: a folder, or a download that `gpubuild fetch` stores in the cache.
//!
//! ```text
//! gpubuild.toml    Source: what the user wrote
//! gpubuild.lock    LockedSource: the exact version and its hash
//! locate           (reads only) -> the folder with the sources, in the vendored folder or in the cache
//! ```

pub mod locate;
pub mod lock;
mod table;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};

pub use self::table::SourceForm;
use self::table::SourceTable;
pub(super) use self::table::is_inner;

/// Value of `source`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder, relative to gpubuild.toml.
    Folder(String),
    /// Sources that `gpubuild fetch` downloads.
    Fetched(FetchedSource),
}

/// Downloaded sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedSource {
    /// Where they come from.
    pub origin: SourceOrigin,
    /// Folder with the top-level CMakeLists.txt, relative to the downloaded folder.
    pub path: Option<String>,
}

/// Where sources are downloaded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceOrigin {
    /// A crate of crates.io, or of the registry that replaces it in cargo's configuration.
    Crate {
        /// Name of the crate.
        name: String,
        /// Version requirement, in cargo's notation.
        requirement: String,
    },
    /// The source distribution of a package of the Python package index that pip or uv is configured to use.
    Pypi {
        /// Name of the package.
        name: String,
        /// The exact version.
        version: String,
    },
    /// A commit of a git repository.
    Git {
        /// URL of the repository.
        url: String,
        /// The full hash of the commit.
        rev: String,
        /// Whether submodules are fetched as well.
        submodules: bool,
    },
    /// An archive.
    Url {
        /// URL of the archive.
        url: String,
        /// Its hash.
        sha256: String,
        /// Number of leading path components to remove.
        strip: usize,
    },
}

impl SourceOrigin {
    /// The origin in messages: `llama-cpp-sys-2 =0.1.161`.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Crate { name, requirement } => format!("crate {name} {requirement}"),
            Self::Pypi { name, version } => format!("{name} {version} from PyPI"),
            Self::Git { url, rev, .. } => format!("{url} at {}", &rev[..rev.len().min(12)]),
            Self::Url { url, .. } => url.split(['?', '#']).next().unwrap_or(url).to_owned(),
        }
    }
}

struct SourceVisitor;

impl<'de> Visitor<'de> for SourceVisitor {
    type Value = Source;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a folder, or a table with `crate`, `pypi`, `git` or `url`")
    }

    fn visit_str<E: de::Error>(self, folder: &str) -> Result<Source, E> {
        Ok(Source::Folder(folder.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Source, A::Error> {
        let table = SourceTable::deserialize(MapAccessDeserializer::new(map))?;
        table.checked().map(Source::Fetched).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SourceVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Document {
        source: Source,
    }

    fn parsed(value: &str) -> Result<Source, String> {
        let document = gpubuild_toml::from_str::<Document>(&format!("source = {value}\n"));
        document.map(|document| document.source).map_err(|error| error.to_string())
    }

    #[test]
    fn all_kinds_are_parsed() {
        assert_eq!(parsed("\"vendor/gk\"").unwrap(), Source::Folder("vendor/gk".to_owned()));
        let Source::Fetched(found) =
            parsed(r#"{ crate = "x-sys", version = "=0.1.2", path = "native/x" }"#).unwrap()
        else {
            panic!("not fetched")
        };
        assert_eq!(found.path.as_deref(), Some("native/x"));
        let expected = SourceOrigin::Crate { name: "x-sys".into(), requirement: "=0.1.2".into() };
        assert_eq!(found.origin, expected);
        let rev = "A".repeat(40);
        let Source::Fetched(found) =
            parsed(&format!(r#"{{ git = "https://h/x", rev = "{rev}", submodules = true }}"#)).unwrap()
        else {
            panic!("not fetched")
        };
        let (url, rev) = ("https://h/x".to_owned(), rev.to_lowercase());
        assert_eq!(found.origin, SourceOrigin::Git { url, rev, submodules: true });
        assert!(parsed(r#"{ pypi = "x", version = "==1.2.post1" }"#).is_ok());
        let sha = "0".repeat(64);
        assert!(parsed(&format!(r#"{{ url = "https://h/x.tar.gz", sha256 = "{sha}", strip = 1 }}"#)).is_ok());
    }

    #[test]
    fn mistakes_are_named_with_their_fix() {
        let (rev, sha) = ("a".repeat(40), "0".repeat(64));
        for (value, expected) in [
            ("1".to_owned(), "a folder, or a table"),
            ("{ }".to_owned(), "one of `crate`, `pypi`, `git` and `url`"),
            (r#"{ crate = "x", pypi = "y", version = "1" }"#.to_owned(), "one of `crate`"),
            (r#"{ crate = "x" }"#.to_owned(), "`version` is missing"),
            (r#"{ crate = "../x", version = "1" }"#.to_owned(), "`crate` is `../x`"),
            (r#"{ crate = "x", version = "1", rev = "a" }"#.to_owned(), "`rev` does not belong to `crate`"),
            (r#"{ pypi = "x", version = ">=1" }"#.to_owned(), "exact version"),
            (r#"{ git = "https://h/x", rev = "v1.0" }"#.to_owned(), "git ls-remote https://h/x v1.0"),
            (format!(r#"{{ git = "--upload-pack=x", rev = "{rev}" }}"#), "`git` is"),
            (format!(r#"{{ git = "https://me:secret@h/x", rev = "{rev}" }}"#), "credentials"),
            (r#"{ url = "https://h/x.tar.gz", sha256 = "12" }"#.to_owned(), "64 hexadecimal digits"),
            (format!(r#"{{ url = "ftp://h/x", sha256 = "{sha}" }}"#), "`https://`"),
            (r#"{ crate = "x", version = "1", path = "../up" }"#.to_owned(), "`path` is"),
            (r#"{ crate = "x", version = "1", paht = "y" }"#.to_owned(), "paht"),
        ] {
            let shown = parsed(&value).unwrap_err();
            assert!(shown.contains(expected) && shown.contains("line 1"), "{value}: {shown}");
            assert!(
                !shown.lines().any(|line| line.contains("secret") && !line.contains("source =")),
                "{shown}"
            );
        }
    }
}
