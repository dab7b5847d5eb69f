//! Paths in the spelling of the host that is looked at, which need not be the one we run on.

use std::fmt;

use serde::{Serialize, Serializer};
use typed_path::{Utf8TypedPath, Utf8UnixPath, Utf8WindowsPath};

/// How a platform writes paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathRules {
    /// `/usr/bin`, case matters.
    Unix,
    /// `C:\Windows`, both separators, case does not matter.
    Windows,
}

/// A path of a host: text with the rules of its platform.
///
/// Text that is not UTF-8 is out of scope (docs/limitations.md).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPath {
    text: String,
    rules: PathRules,
}

impl HostPath {
    /// A path as written; on Windows `/` becomes `\`.
    #[must_use]
    pub fn new(rules: PathRules, text: &str) -> Self {
        let text = match rules {
            PathRules::Unix => text.to_owned(),
            PathRules::Windows => text.replace('/', "\\"),
        };
        Self { text, rules }
    }

    /// The text, as it is shown and given to programs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text with `/` on every platform, as CMake wants it.
    #[must_use]
    pub fn forward_slashes(&self) -> String {
        match self.rules {
            PathRules::Unix => self.text.clone(),
            PathRules::Windows => self.text.replace('\\', "/"),
        }
    }

    /// As the path type of the machine that we run on. Only the real host may use it.
    #[must_use]
    pub fn as_std(&self) -> &std::path::Path {
        std::path::Path::new(&self.text)
    }

    /// The rules that this path follows.
    #[must_use]
    pub fn rules(&self) -> PathRules {
        self.rules
    }

    /// This path followed by `relative` (written with `/`); an absolute one replaces it.
    #[must_use]
    pub fn join(&self, relative: &str) -> Self {
        let ordinary = !self.text.is_empty() && !self.text.ends_with('/');
        if self.rules == PathRules::Unix && ordinary && !relative.is_empty() && !relative.starts_with('/') {
            // Nearly every path, hundreds in each run.
            return Self { text: [self.as_str(), relative].join("/"), rules: self.rules };
        }
        let relative = Self::new(self.rules, relative);
        Self { text: self.typed().join(relative.text).into_string(), rules: self.rules }
    }

    /// The folder above, `None` at the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.typed().parent().map(|parent| Self { text: parent.as_str().to_owned(), rules: self.rules })
    }

    /// The last name.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        match self.rules {
            PathRules::Unix => Utf8UnixPath::new(&self.text).file_name(),
            PathRules::Windows => Utf8WindowsPath::new(&self.text).file_name(),
        }
    }

    /// Whether it starts at a root (on Windows: a drive or a share and a root).
    #[must_use]
    pub fn is_absolute(&self) -> bool {
        self.typed().is_absolute()
    }

    /// Without `.` and `..`, by text alone.
    #[must_use]
    pub fn normalized(&self) -> Self {
        Self { text: self.typed().normalize().into_string(), rules: self.rules }
    }

    /// Whether `folder` is this path or above it, by text alone and by the case rules of the platform.
    #[must_use]
    pub fn is_inside(&self, folder: &Self) -> bool {
        match self.rules {
            PathRules::Unix => Utf8UnixPath::new(&self.text).starts_with(&folder.text),
            PathRules::Windows => {
                Utf8WindowsPath::new(&self.text.to_lowercase()).starts_with(folder.text.to_lowercase())
            }
        }
    }

    /// A text under which two spellings of one path compare equal (case folded on Windows, normalized).
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

impl Serialize for HostPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_paths_work_anywhere() {
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

    #[test]
    fn unix_paths_keep_their_case() {
        let path = HostPath::new(PathRules::Unix, "/opt/rocm/lib/../bin");
        assert_eq!(path.normalized().as_str(), "/opt/rocm/bin");
        assert!(!path.is_inside(&HostPath::new(PathRules::Unix, "/OPT")));
        assert_eq!(HostPath::new(PathRules::Unix, "/").parent(), None);
        assert_eq!(path.join("/usr").as_str(), "/usr");
    }
}
