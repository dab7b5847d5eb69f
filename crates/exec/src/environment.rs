//! `venv.json` in a project's build folder records the Python environment and which of its libraries were verified. `link`,
//! `build` and build scripts read it. It exists only if an environment was created.

use std::collections::BTreeMap;

use gpubuild_core::version::Version;
use gpubuild_host::{HostPath, Os, ReadFiles, WriteFiles};
use gpubuild_plan::artifacts::manifest_path;
use serde::{Deserialize, Serialize};

use crate::store::files::{self, FileSnapshot};
use crate::store::{self};

/// Name of the file in the build folder.
pub const FILE_NAME: &str = "venv.json";

const SCHEMA: u32 = 1;

/// Versions that the loaded libraries report, as returned by the child process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// `cudaRuntimeGetVersion`: 12090 for 12.9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cudart: Option<u64>,
    /// `cublasGetProperty`: major, minor, patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cublas: Option<[u64; 3]>,
}

impl Answers {
    /// Returns the versions as text, by the key of the wheel table.
    #[must_use]
    pub fn versions(&self) -> BTreeMap<&'static str, String> {
        let cudart = self.cudart.map(|number| Version::of_cuda_number(number).to_string());
        let cublas = self.cublas.map(|[major, minor, patch]| format!("{major}.{minor}.{patch}"));
        [("cudart", cudart), ("cublas", cublas)]
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }
}

/// A project's environment and the state of its libraries when they were verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenvRecord {
    schema: u32,
    /// The environment's folder.
    pub environment: String,
    /// The CUDA release, such as `12.9`.
    pub cuda: String,
    /// Wheel versions by package name.
    pub wheels: BTreeMap<String, String>,
    /// Library folders in search order.
    pub folders: Vec<String>,
    /// Size and time stamps of every library when it was loaded.
    pub libraries: FileSnapshot,
    /// The versions that the libraries reported.
    pub answers: Answers,
}

impl VenvRecord {
    /// Records the current state of the libraries, which the caller has just verified.
    #[must_use]
    pub fn new(host: &dyn ReadFiles, environment: &HostPath, cuda: &str, libraries: &[HostPath]) -> Self {
        let mut folders: Vec<String> = Vec::new();
        for folder in libraries.iter().filter_map(HostPath::parent) {
            if !folders.iter().any(|known| known == folder.as_str()) {
                folders.push(folder.to_string());
            }
        }
        Self {
            schema: SCHEMA,
            environment: environment.to_string(),
            cuda: cuda.to_owned(),
            wheels: BTreeMap::new(),
            folders,
            libraries: files::snapshot(host, libraries.iter().map(HostPath::as_str)),
            answers: Answers::default(),
        }
    }

    /// Reads the record of a build folder; `None` if it is missing or has another schema.
    #[must_use]
    pub fn read(host: &dyn ReadFiles, build_root: &HostPath) -> Option<Self> {
        store::read_json::<Self>(host, &build_root.join(FILE_NAME)).filter(|record| record.schema == SCHEMA)
    }

    /// Writes the record unless the file already has the same content, because build scripts watch it. Build scripts that
    /// ran before the file existed watch only the manifest, so the first write also rewrites the manifest unchanged.
    pub fn write(&self, host: &dyn WriteFiles, build_root: &HostPath) -> std::io::Result<()> {
        if Self::read(host, build_root).as_ref() == Some(self) {
            return Ok(());
        }
        let file = build_root.join(FILE_NAME);
        let is_first = !host.is_file(&file);
        store::write_json(host, &file, self)?;
        let manifest = manifest_path(build_root);
        if is_first && let Ok(bytes) = host.read(&manifest) {
            host.write(&manifest, &bytes)?;
        }
        Ok(())
    }

    /// Whether every library is unchanged since it was loaded.
    #[must_use]
    pub fn is_current(&self, host: &dyn ReadFiles) -> bool {
        files::unchanged(host, &self.libraries)
    }
}

/// Returns the folders for the run-time search path of a project's programs, and a message if they cannot be used. `$ORIGIN`
/// comes first: libraries next to the program take precedence, so a packed program needs no environment.
#[must_use]
pub fn search_path(host: &dyn ReadFiles, build_root: &HostPath) -> (Vec<String>, Option<String>) {
    let Some(record) = VenvRecord::read(host, build_root) else { return (Vec::new(), None) };
    if host.platform().os != Os::Linux || record.folders.is_empty() {
        return (Vec::new(), None);
    }
    if let Some(folder) = record.folders.iter().find(|folder| !host.is_dir(&host.path(folder))) {
        let message = format!("`{folder}` no longer exists: run `gpubuild venv` again");
        return (Vec::new(), Some(message));
    }
    if let Some(folder) = record.folders.iter().find(|folder| !fits_search_path(folder)) {
        let message = format!(
            "`{folder}` cannot be used in a run-time search path: loaders split it at `:` and expand `$`"
        );
        return (Vec::new(), Some(message));
    }
    let mut folders = vec!["$ORIGIN".to_owned()];
    folders.extend(record.folders);
    (folders, None)
}

/// Whether a loader interprets a folder literally. Loaders split lists at colons (in variables also at semicolons) and
/// expand `$ORIGIN`, `$LIB` and `$PLATFORM`.
#[must_use]
pub fn fits_search_path(folder: &str) -> bool {
    !folder.contains([':', ';', '$', '\n', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, HostInfo, RecordedHost};

    fn host(folder: &str, with_folder: bool) -> RecordedHost {
        let record = format!(
            r#"{{"schema":1,"environment":"/v","cuda":"12.9","wheels":{{}},"folders":[{folder:?}],"libraries":{{}},"answers":{{}}}}"#
        );
        let builder = RecordedHost::builder(Os::Linux, Arch::X86_64).file("/b/venv.json", &record);
        if with_folder { builder.directory(folder).build() } else { builder.build() }
    }

    #[test]
    fn environment_folders_follow_the_folder_of_the_program() {
        let path = |folder: &str, exists: bool| {
            let host = host(folder, exists);
            search_path(&host, &host.path("/b"))
        };
        assert_eq!(path("/v/lib", true), (vec!["$ORIGIN".into(), "/v/lib".into()], None));
        let (folders, why) = path("/v/lib", false);
        assert!(folders.is_empty() && why.unwrap().contains("run `gpubuild venv` again"));
        let (folders, why) = path("/v:w/lib", true);
        assert!(folders.is_empty() && why.unwrap().contains("cannot be used"));
        let empty = RecordedHost::builder(Os::Linux, Arch::X86_64).build();
        assert_eq!(search_path(&empty, &empty.path("/b")), (Vec::new(), None));
    }
}
