//! The toolkit descriptions: embedded ones, and files in a folder of the user.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_toolkits::DESCRIPTIONS;

use super::description::{Description, ReasonText, Root, ToolkitKind};

/// All toolkit descriptions, by id.
#[derive(Debug, Clone)]
pub struct Catalogue {
    descriptions: BTreeMap<String, Description>,
}

/// Why a description cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// The folder or one of its files cannot be read.
    #[error("failed to read `{place}`: {message}")]
    Read {
        /// The path of the folder or file.
        place: String,
        /// The operating system's message.
        message: String,
    },
    /// The file is not valid TOML, or its keys are not those of a description.
    #[error("`{place}` is not a toolkit description\n{message}")]
    Syntax {
        /// The path of the file.
        place: String,
        /// The error, with the line and a caret.
        message: String,
    },
    /// The keys are valid, but a value is not, or contradicts another one.
    #[error("`{place}` is not a toolkit description: {message}")]
    Meaning {
        /// The path of the file.
        place: String,
        /// The problem.
        message: String,
    },
}

impl Catalogue {
    /// Parses the embedded descriptions.
    ///
    /// # Panics
    /// An embedded file is invalid; a test rules this out.
    #[must_use]
    pub fn embedded() -> Self {
        let mut catalogue = Self { descriptions: BTreeMap::new() };
        for (name, bytes) in DESCRIPTIONS {
            let description: Description = gpubuild_toml::from_static(bytes)
                .unwrap_or_else(|error| panic!("toolkits/{name}.toml: {error}"));
            catalogue.descriptions.insert(description.id.clone(), description);
        }
        catalogue
    }

    /// Adds the `*.toml` files in a folder. A file whose id is already known replaces that description.
    ///
    /// # Errors
    /// The folder or a file cannot be read, or a file is not a description.
    pub fn add_folder(&mut self, host: &dyn ReadFiles, folder: &HostPath) -> Result<(), CatalogueError> {
        let read = |place: &HostPath, error: std::io::Error| CatalogueError::Read {
            place: place.to_string(),
            message: error.to_string(),
        };
        for name in host.list(folder).map_err(|error| read(folder, error))? {
            let path = folder.join(&name);
            if path.as_std().extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) {
                let text = host.read_text(&path).map_err(|error| read(&path, error))?;
                self.add(path.as_str(), &text)?;
            }
        }
        Ok(())
    }

    /// Parses and adds a description. `place` is its path in errors.
    ///
    /// # Errors
    /// The text is not a description.
    pub fn add(&mut self, place: &str, text: &str) -> Result<(), CatalogueError> {
        let description = parse(place, text)?;
        self.descriptions.insert(description.id.clone(), description);
        Ok(())
    }

    /// Finds a description by id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Description> {
        self.descriptions.get(id)
    }

    /// All descriptions, ordered by id.
    pub fn iter(&self) -> impl Iterator<Item = &Description> {
        self.descriptions.values()
    }

    /// The description of a backend's SDK; `None` for the CPU.
    #[must_use]
    pub fn for_backend(&self, backend: Backend) -> Option<&Description> {
        self.iter().find(|one| one.kind == ToolkitKind::Sdk && one.backends.contains(&backend))
    }

    /// The text of a reason, by id.
    #[must_use]
    pub fn reason(&self, id: &str) -> Option<&ReasonText> {
        self.iter().find_map(|description| description.reasons.get(id))
    }

    /// All descriptions that provide a role, or whose id is equal to it.
    pub fn with_role<'a>(&'a self, role: &'a str) -> impl Iterator<Item = &'a Description> {
        self.iter().filter(move |one| one.id == role || one.provides.as_deref() == Some(role))
    }
}

fn parse(place: &str, text: &str) -> Result<Description, CatalogueError> {
    let description: Description = gpubuild_toml::from_str(text)
        .map_err(|error| CatalogueError::Syntax { place: place.to_owned(), message: error.to_string() })?;
    check(&description).map_err(|message| CatalogueError::Meaning { place: place.to_owned(), message })?;
    Ok(description)
}

/// Checks constraints that the types do not express.
fn check(description: &Description) -> Result<(), String> {
    let ok_id = |id: &str| {
        !id.is_empty() && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    if !ok_id(&description.id) {
        return Err(format!(
            "`id = \"{}\"` may only contain lowercase letters, digits and `-`",
            description.id
        ));
    }
    for (index, root) in description.roots.iter().enumerate() {
        check_root(root).map_err(|problem| format!("entry {} of `roots` {problem}", index + 1))?;
    }
    if description.kind == ToolkitKind::Sdk && !description.parts.values().any(|part| part.marker) {
        return Err("no part has `marker = true`, so copies cannot be recognised".to_owned());
    }
    for source in &description.version {
        let sources = [
            source.file.is_some() && (source.json.is_some() == source.text.is_empty()),
            source.path.is_some(),
            source.entry.is_some(),
            !source.args.is_empty(),
        ];
        if sources.iter().filter(|given| **given).count() != 1 {
            return Err(
                "a `version` source needs exactly one of `file` with `json` or `text`, `path`, `entry`, `args`"
                    .to_owned(),
            );
        }
    }
    if let Some(wheel) = &description.wheel {
        let is_sum = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if let Some(file) = wheel.files.iter().find(|file| !is_sum(&file.sha256)) {
            return Err(format!("the sha256 of `{}` is not 64 hexadecimal digits", file.name));
        }
    }
    Ok(())
}

fn check_root(root: &Root) -> Result<(), &'static str> {
    let kinds = [
        root.env.is_some(),
        root.prefix_env.is_some(),
        !root.program.is_empty(),
        root.own.is_some(),
        root.known.is_some(),
        root.registry.is_some(),
        root.visual_studio.is_some(),
    ];
    if kinds.iter().filter(|given| **given).count() != 1 {
        return Err(
            "needs exactly one of `env`, `prefix_env`, `program`, `own`, `known`, `registry`, `visual_studio`",
        );
    }
    if root.registry.is_some() != root.value.is_some() {
        return Err("needs `value` if and only if it has `registry`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_core::template;

    #[test]
    fn embedded_descriptions_are_complete() {
        let catalogue = Catalogue::embedded();
        assert_eq!(catalogue.iter().count(), DESCRIPTIONS.len());
        for (name, _) in DESCRIPTIONS {
            let description = catalogue.get(name).unwrap_or_else(|| panic!("{name}.toml has another id"));
            assert_eq!(check(description), Ok(()), "{name}");
            assert!(!description.install.is_empty(), "{name} has no install instructions");
            for need in &description.build.tools {
                assert!(catalogue.with_role(&need.role).next().is_some(), "{name} needs `{}`", need.role);
            }
            let entries = description.cmake.values().chain(description.cmake_own.values());
            for part in entries.flat_map(|entry| template::placeholders(entry.text())) {
                let known = part == "root" || part == "program" || description.parts.contains_key(part);
                assert!(known, "`cmake` of {name} uses `{part}`, which is not a part");
            }
        }
        for backend in Backend::ALL.into_iter().filter(|backend| *backend != Backend::Cpu) {
            assert!(catalogue.for_backend(backend).is_some(), "{backend}");
        }
    }

    #[test]
    fn every_id_in_a_description_has_a_text() {
        let catalogue = Catalogue::embedded();
        for description in catalogue.iter() {
            let runtime = description.runtime.iter();
            let drivers = runtime.clone().filter_map(|runtime| runtime.drivers.as_ref());
            let ids = (description.missing.iter())
                .chain(&description.root_invalid)
                .chain(&description.devices_dropped)
                .chain(description.compiler_outside.values())
                .chain(&description.hardware.driver_missing)
                .chain(description.hardware.wrong_drivers.values())
                .chain(description.parts.values().filter_map(|part| part.missing.as_ref()))
                .chain(description.build.tools.iter().map(|need| &need.missing))
                .chain(description.compatibility.libc.iter().map(|row| &row.id))
                .chain(description.compatibility.device.iter().map(|row| &row.id))
                .chain(drivers.flat_map(|one| {
                    one.missing.iter().chain(one.missing_in_container.values()).chain(&one.software_only)
                }))
                .chain(runtime.flat_map(|one| {
                    (one.loader_missing.iter())
                        .chain(&one.container)
                        .chain(&one.container_denied)
                        .chain(&one.mismatch)
                        .chain(&one.too_old)
                        .chain(&one.device_unsupported)
                        .chain(one.nodes.iter().flat_map(|node| node.missing.iter().chain([&node.denied])))
                }));
            for id in ids {
                assert!(catalogue.reason(id).is_some(), "{} has no text for `{id}`", description.id);
            }
        }
    }

    #[test]
    fn tables_are_sorted_and_every_row_has_a_source() {
        for description in Catalogue::embedded().iter() {
            let tables = &description.compatibility;
            assert!(tables.arch.is_sorted_by_key(|row| &row.since), "{}", description.id);
            assert!(tables.driver.is_sorted_by_key(|row| &row.since), "{}", description.id);
            assert!(tables.branch.is_sorted_by_key(|row| &row.driver), "{}", description.id);
            assert!(tables.ptx.is_sorted_by_key(|row| &row.version), "{}", description.id);
            assert!(tables.kernel.is_sorted_by_key(|row| &row.driver), "{}", description.id);
            assert!(tables.support.is_sorted_by_key(|row| (row.on, &row.since)), "{}", description.id);
            let sources = (tables.arch.iter().map(|row| &row.source))
                .chain(tables.host_compiler.iter().map(|row| &row.source))
                .chain(tables.driver.iter().map(|row| &row.source))
                .chain(tables.branch.iter().map(|row| &row.source))
                .chain(tables.ptx.iter().map(|row| &row.source))
                .chain(tables.libc.iter().map(|row| &row.source))
                .chain(tables.device.iter().map(|row| &row.source))
                .chain(tables.names.iter().map(|row| &row.source))
                .chain(tables.stand_in.iter().map(|row| &row.source))
                .chain(tables.kernel.iter().map(|row| &row.source))
                .chain(tables.support.iter().map(|row| &row.source))
                .chain(tables.last.iter().map(|row| &row.source));
            assert!(sources.into_iter().all(|source| !source.is_empty()), "{}", description.id);
        }
    }

    #[test]
    fn every_supported_platform_has_a_pinned_wheel() {
        let catalogue = Catalogue::embedded();
        for tool in ["cmake", "ninja"] {
            let wheel = catalogue.get(tool).unwrap().wheel.as_ref().unwrap();
            for platform in [
                ["manylinux", "x86_64"],
                ["manylinux", "aarch64"],
                ["musllinux", "x86_64"],
                ["musllinux", "aarch64"],
                ["macosx", "universal2"],
                ["win", "amd64"],
                ["win", "arm64"],
            ] {
                let has = |name: &str| platform.iter().all(|word| name.contains(word));
                assert!(wheel.files.iter().any(|file| has(&file.name)), "{tool} for {platform:?}");
            }
        }
    }

    #[test]
    fn errors_contain_the_file_and_entry() {
        let error = |text: &str| Catalogue::embedded().add("mine.toml", text).unwrap_err().to_string();
        let head = "id = \"mine\"\nname = \"Mine\"\nkind = \"sdk\"\nfamily = \"mine\"\n";
        let unknown = error(&format!("{head}colour = 1\n"));
        assert!(unknown.contains("`mine.toml`") && unknown.contains("colour"), "{unknown}");
        assert!(error(head).contains("marker = true"));
        let roots =
            format!("{head}[[roots]]\nenv = \"A\"\nknown = \"/b\"\n[parts.x]\nmarker = true\npaths = []\n");
        assert!(error(&roots).contains("entry 1 of `roots` needs exactly one of"), "{}", error(&roots));
        let versions = format!("{head}[[version]]\nfile = \"x\"\n[parts.x]\nmarker = true\npaths = []\n");
        assert!(error(&versions).contains("exactly one of `file`"), "{}", error(&versions));
    }

    #[test]
    fn a_user_description_replaces_an_embedded_one() {
        let mut catalogue = Catalogue::embedded();
        let text = "id = \"uv\"\nname = \"other\"\nkind = \"tool\"\nfamily = \"uv\"\n";
        catalogue.add("uv.toml", text).unwrap();
        assert_eq!(catalogue.get("uv").unwrap().name, "other");
    }
}
