//! Paths of the examined host, whose platform can differ from the machine that gpubuild runs on.

use std::{fmt, io};

use serde::{Serialize, Serializer};
use typed_path::{Utf8TypedPath, Utf8UnixPath, Utf8WindowsPath};

/// The path syntax of a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathRules {
    /// `/usr/bin`, case-sensitive.
    Unix,
    /// `C:\Windows`, both separators, case-insensitive.
    Windows,
}

impl PathRules {
    /// The separator of normalized paths.
    #[must_use]
    pub fn separator(self) -> char {
        match self {
            Self::Unix => '/',
            Self::Windows => '\\',
        }
    }
}

/// A path on a host: text that follows the rules of the host's platform.
///
/// A path of the real host that is not UTF-8 is refused with [`NotUtf8Path`] (docs/guide/first-steps.md).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPath {
    text: String,
    rules: PathRules,
}

/// A path that is not UTF-8. It has no [`HostPath`], because its text with replaced characters would name another file.
#[derive(Debug, thiserror::Error)]
#[error("the path {0} is not UTF-8")]
pub struct NotUtf8Path(String);

impl NotUtf8Path {
    /// Refuses a path. The message shows it with escaped bytes.
    #[expect(clippy::unnecessary_debug_formatting, reason = "it escapes bytes, which Display replaces")]
    pub(crate) fn of(path: &std::path::Path) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, Self(format!("{path:?}")))
    }

    /// The path that caused an error, quoted and with escaped bytes.
    #[must_use]
    pub fn cause(error: &io::Error) -> Option<&str> {
        error.get_ref()?.downcast_ref::<Self>().map(|path| path.0.as_str())
    }
}

impl HostPath {
    /// Creates a path from text. With Windows rules, `/` becomes `\`.
    #[must_use]
    pub fn new(rules: PathRules, text: &str) -> Self {
        let text = match rules {
            PathRules::Unix => text.to_owned(),
            PathRules::Windows => text.replace('/', "\\"),
        };
        Self { text, rules }
    }

    /// The text as shown to users and passed to programs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text with `/` on every platform, as CMake expects it.
    #[must_use]
    pub fn forward_slashes(&self) -> String {
        match self.rules {
            PathRules::Unix => self.text.clone(),
            PathRules::Windows => self.text.replace('\\', "/"),
        }
    }

    /// The path as a `std` type. Only valid for paths of the real host.
    #[must_use]
    pub fn as_std(&self) -> &std::path::Path {
        std::path::Path::new(&self.text)
    }

    /// The path syntax that this path follows.
    #[must_use]
    pub fn rules(&self) -> PathRules {
        self.rules
    }

    /// Joins this path with `relative`, which may use `/` on every platform. An absolute `relative` replaces this path.
    #[must_use]
    pub fn join(&self, relative: &str) -> Self {
        // Fast path: every run joins thousands of paths.
        let plain = match self.rules {
            PathRules::Unix => {
                !self.text.is_empty() && !self.text.ends_with('/') && !relative.starts_with('/')
            }
            // The library resolves `.` and `..` on Windows.
            PathRules::Windows => {
                self.is_normalized()
                    && !relative.starts_with(['/', '\\', '.'])
                    && ![":", "/.", r"\."].iter().any(|part| relative.contains(part))
            }
        };
        if !plain || relative.is_empty() {
            let relative = Self::new(self.rules, relative).text;
            return Self { text: self.typed().join(relative).into_string(), rules: self.rules };
        }
        let mut text = String::with_capacity(self.text.len() + 1 + relative.len());
        text.push_str(&self.text);
        text.push(self.rules.separator());
        match self.rules {
            PathRules::Unix => text.push_str(relative),
            PathRules::Windows => text.push_str(&relative.replace('/', "\\")),
        }
        Self { text, rules: self.rules }
    }

    /// The parent folder; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if let Some((folder, _)) = self.split_name() {
            return Some(Self { text: folder.to_owned(), rules: self.rules });
        }
        self.typed().parent().map(|parent| Self { text: parent.as_str().to_owned(), rules: self.rules })
    }

    /// The last component.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        if let Some((_, name)) = self.split_name() {
            return Some(name);
        }
        match self.rules {
            PathRules::Unix => Utf8UnixPath::new(&self.text).file_name(),
            PathRules::Windows => Utf8WindowsPath::new(&self.text).file_name(),
        }
    }

    /// Whether the path is absolute. On Windows, this requires a drive or share and a root.
    #[must_use]
    pub fn is_absolute(&self) -> bool {
        self.typed().is_absolute()
    }

    /// The path without `.` and `..`, computed without accessing the file system.
    #[must_use]
    pub fn normalized(&self) -> Self {
        if self.is_normalized() {
            return self.clone();
        }
        Self { text: self.typed().normalize().into_string(), rules: self.rules }
    }

    /// Whether this is certainly a normalized absolute path below a root. Fast, because every run normalizes thousands of paths.
    pub(crate) fn is_normalized(&self) -> bool {
        let text = self.text.as_bytes();
        let separator = match self.rules {
            PathRules::Unix => b'/',
            PathRules::Windows => b'\\',
        };
        let is_rooted = match self.rules {
            PathRules::Unix => text.starts_with(b"/"),
            PathRules::Windows => {
                text.first().is_some_and(u8::is_ascii_alphabetic) && text[1..].starts_with(br":\")
            }
        };
        // Names such as `.cache` are normal, and occur in every home folder.
        let is_name = |at: usize| match text.get(at) {
            None => false,
            Some(b'.') => text.get(at + 1).is_some_and(|next| *next != separator && *next != b'.'),
            Some(first) => *first != separator,
        };
        is_rooted && (0..text.len()).all(|at| text[at] != separator || is_name(at + 1))
    }

    /// The parent folder and the last name of a path that is certainly normalized.
    fn split_name(&self) -> Option<(&str, &str)> {
        let root = match self.rules {
            PathRules::Unix => "/".len(),
            PathRules::Windows => r"C:\".len(),
        };
        let last = self.is_normalized().then(|| self.text.rfind(self.rules.separator()))??;
        Some((&self.text[..last.max(root)], &self.text[last + 1..]))
    }

    /// Whether `folder` is this path or an ancestor of it. Compares text by the platform's case rules.
    #[must_use]
    pub fn is_inside(&self, folder: &Self) -> bool {
        if self.is_normalized() && folder.is_normalized() {
            let (path, folder) = (self.key(), folder.key());
            let rest = path.strip_prefix(folder.as_str());
            return rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(self.rules.separator()));
        }
        match self.rules {
            PathRules::Unix => Utf8UnixPath::new(&self.text).starts_with(&folder.text),
            PathRules::Windows => {
                Utf8WindowsPath::new(&self.text.to_lowercase()).starts_with(folder.text.to_lowercase())
            }
        }
    }

    /// Text for comparing paths: normalized, and case-folded on Windows.
    #[must_use]
    pub fn key(&self) -> String {
        let normal = self.normalized().text;
        match self.rules {
            PathRules::Unix => normal,
            PathRules::Windows => normal.to_lowercase(),
        }
    }

    fn typed(&self) -> Utf8TypedPath<'_> {
        match self.rules {
            PathRules::Unix => Utf8TypedPath::unix(&self.text),
            PathRules::Windows => Utf8TypedPath::windows(&self.text),
        }
    }
}

impl fmt::Display for HostPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

#[cfg(feature = "schema")]
gpubuild_core::string_schema!(HostPath);

impl Serialize for HostPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_paths_work_on_any_platform() {
        let root =
            HostPath::new(PathRules::Windows, "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v12.4");
        assert_eq!(
            root.join("bin/nvcc.exe").as_str(),
            r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.4\bin\nvcc.exe"
        );
        assert_eq!(root.file_name(), Some("v12.4"));
        assert!(root.is_absolute());
        assert!(root.is_inside(&HostPath::new(PathRules::Windows, r"c:\program files")));
        assert!(!root.is_inside(&HostPath::new(PathRules::Windows, r"c:\program")));
        assert_eq!(root.parent().unwrap().file_name(), Some("CUDA"));
    }

    /// The fast paths give what `typed_path` gives.
    #[test]
    fn fast_paths_agree_with_the_library() {
        let texts = [
            "", "/", "/a", "/a/b", "/a/b/", "/a//b", "/a/./b", "/a/../b", "/.a", "/a/.b", "/a/.b/c",
            "/a/..b", "/a/.", "/a/..", "a/b", "C:", "C:/", "C:/a",
        ];
        let more = [
            "C:/a/b",
            "c:/a/../b",
            "C:/a/",
            "C:/a//b",
            "C:a",
            "//server/share/a",
            "//?/C:/a",
            "C:/.a",
            "C:/a/.b/c",
            "C:/a/..",
            "C:/a/.",
            "é:/a",
            "1:/a",
        ];
        for (rules, text) in [PathRules::Unix, PathRules::Windows]
            .into_iter()
            .flat_map(|rules| texts.iter().chain(&more).map(move |text| (rules, *text)))
        {
            let path = HostPath::new(rules, text);
            let typed = path.typed();
            assert_eq!(path.normalized().as_str(), typed.normalize().as_str(), "{path}");
            assert_eq!(
                path.parent().as_ref().map(HostPath::as_str),
                typed.parent().as_ref().map(typed_path::Utf8TypedPath::as_str),
                "{path}"
            );
            assert_eq!(path.file_name(), typed.file_name(), "{path}");
            for folder in ["/", "/a", "/a/b", "C:/", "C:/a", "c:/A", "C:/a/b", "C:/aa"] {
                let folder = HostPath::new(rules, folder);
                let inside = match rules {
                    PathRules::Unix => Utf8UnixPath::new(path.as_str()).starts_with(folder.as_str()),
                    PathRules::Windows => Utf8WindowsPath::new(&path.as_str().to_lowercase())
                        .starts_with(folder.as_str().to_lowercase()),
                };
                assert_eq!(path.is_inside(&folder), inside, "{path} in {folder}");
            }
            for relative in ["", "a", "a/b", "/a", "..", ".", "C:/b", "C:b", "a:b", "//server/share"] {
                let text = HostPath::new(rules, relative).text;
                assert_eq!(path.join(relative).as_str(), typed.join(text).as_str(), "{path} and {relative}");
            }
        }
    }

    #[test]
    fn unix_paths_are_case_sensitive() {
        let path = HostPath::new(PathRules::Unix, "/opt/rocm/lib/../bin");
        assert_eq!(path.normalized().as_str(), "/opt/rocm/bin");
        assert!(!path.is_inside(&HostPath::new(PathRules::Unix, "/OPT")));
        assert_eq!(HostPath::new(PathRules::Unix, "/").parent(), None);
        assert_eq!(path.join("/usr").as_str(), "/usr");
    }
}
