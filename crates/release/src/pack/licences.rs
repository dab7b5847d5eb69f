//! Collects licence files: of the project, of the crates in its program, and of third-party libraries.

use std::fmt::Write as _;

use gpubuild_exec::export::is_licence;
use gpubuild_host::{HostPath, ReadFiles, WriteFiles};

use super::PackError;
use super::layer::{LayerKind, LayerPiece};
use super::origin::LibraryPackage;
use super::package::CargoPackage;

/// The collected licence files.
#[derive(Debug, Default)]
pub struct Licences {
    /// The licence files.
    pub pieces: Vec<LayerPiece>,
    /// Third-party libraries without licence files.
    pub without: Vec<String>,
}

impl Licences {
    /// Adds the licence files in a folder of the project or of a crate.
    pub fn of_folder(&mut self, host: &dyn ReadFiles, folder: &HostPath, name: &str) {
        let mut names = host.list(folder).unwrap_or_default();
        names.retain(|file| is_licence(file) && host.is_file(&folder.join(file)));
        for file in names {
            self.add(&format!("{name}/{file}"), folder.join(&file));
        }
    }

    /// Adds the licence files of a program's crates, and a list of all crates, which is written to `list`.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn of_crates(
        &mut self,
        host: &dyn WriteFiles,
        package: &CargoPackage,
        list: &HostPath,
    ) -> Result<(), PackError> {
        let mut text = String::from("Crates in the program, with their licences.\n\n");
        for one in &package.crates {
            let licence = one.licence.as_deref().unwrap_or("not specified");
            let _ = writeln!(text, "{} {}: {licence}", one.name, one.version);
            self.of_folder(host, &one.folder, &format!("crates/{}-{}", one.name, one.version));
        }
        host.write(list, text.as_bytes()).map_err(|error| PackError::io("write", list, &error))?;
        self.add("crates.txt", list.clone());
        Ok(())
    }

    /// Adds the licence files of a third-party library, from its wheel or from the distribution's package.
    pub fn of_library(&mut self, name: &str, package: Option<&LibraryPackage>) {
        let files = package.map(|package| package.licences.as_slice()).unwrap_or_default();
        if files.is_empty() {
            self.without.push(name.to_owned());
        }
        for (package, file) in
            package.iter().flat_map(|package| files.iter().map(move |file| (package, file)))
        {
            let Some(last) = file.file_name() else { continue };
            self.add(&format!("{}/{last}", package.folder), file.clone());
        }
    }

    /// Adds one file.
    pub fn add(&mut self, name: &str, from: HostPath) {
        let path = format!("share/licences/{name}");
        // Some crates contain the same file in upper and lower case.
        if !self.pieces.iter().any(|piece| piece.path.eq_ignore_ascii_case(&path)) {
            self.pieces.push(LayerPiece { path, from, executable: false, part: LayerKind::Licences });
        }
    }
}
