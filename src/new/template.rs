//! The templates: `templates/new/<id>/`, embedded. A further one is a folder there and a line in the table below.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;

/// A template.
#[derive(Debug)]
pub struct Template {
    /// What `--template` names.
    pub id: &'static str,
    /// Its `template.toml`.
    pub about: About,
    /// Its files: the name in the folder, and the text with placeholders.
    pub files: &'static [(&'static str, &'static str)],
}

/// The form of `template.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// One line for people.
    pub title: String,
    /// Backends that it has something for, `cpu` first.
    pub backends: Vec<Backend>,
    /// What its commands need beside Rust.
    #[serde(default)]
    pub needs: Vec<String>,
    /// What its crate is called unless somebody says otherwise; without it, like the folder.
    pub name: Option<String>,
    /// The commands that build and run it, in their order.
    pub command: Vec<Command>,
    /// Files that have another name in a project.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// What a workspace gets into which it goes; without it, it makes a folder of its own.
    pub workspace: Option<Workspace>,
}

/// A command and what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// As it is typed in the folder of the project.
    pub run: String,
    /// What it does.
    pub what: String,
}

/// What a workspace gets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// Its new members.
    pub members: Vec<String>,
    /// Aliases for `.cargo/config.toml`.
    #[serde(default)]
    pub alias: BTreeMap<String, String>,
    /// Files that stay as they are where they are there already.
    #[serde(default)]
    pub optional: Vec<String>,
}

struct Embedded {
    id: &'static str,
    about: &'static str,
    files: &'static [(&'static str, &'static str)],
}

/// `"id": ["file", …]`, in the order of `--list`.
macro_rules! table {
    ($($id:literal: [$($file:literal),* $(,)?]),* $(,)?) => {
        &[$(Embedded {
            id: $id,
            about: include_str!(concat!("../../templates/new/", $id, "/template.toml")),
            files: &[$(($file, include_str!(concat!("../../templates/new/", $id, "/", $file)))),*],
        }),*]
    };
}

const TABLE: &[Embedded] = table! {
    "own-kernels": [
        "Cargo.toml.in", "README.md", "build.rs", "gitignore.in", "gpubuild.toml", "kernels/CMakeLists.txt",
        "kernels/include/kernels.h", "kernels/src/axpy.comp", "kernels/src/cpu.cpp", "kernels/src/cuda.cu",
        "kernels/src/vulkan.cpp", "src/kernels.rs", "src/main.rs",
    ],
    "llama": [
        "Cargo.toml.in", "README.md", "build.rs", "gitignore.in", "gpubuild.toml", "src/lib.rs",
        "src/main.rs",
    ],
    "whisper": [
        "Cargo.toml.in", "README.md", "build.rs", "gitignore.in", "gpubuild.toml", "src/lib.rs",
        "src/main.rs",
    ],
    "cpp-library": [
        "Cargo.toml.in", "README.md", "build.rs", "gitignore.in", "gpubuild.toml", "native/CMakeLists.txt",
        "native/include/library.h", "native/include/library.hpp", "native/src/c_api.cpp",
        "native/src/library.cpp", "src/lib.rs", "src/main.rs",
    ],
    "xtask": [
        "gitignore.in", "gpubuild.toml", "kernels/Cargo.toml.in", "kernels/build.rs",
        "kernels/native/CMakeLists.txt", "kernels/native/include/kernels.h", "kernels/native/src/cpu.cpp",
        "kernels/src/lib.rs", "xtask/Cargo.toml.in", "xtask/README.md", "xtask/src/main.rs",
    ],
};

/// All templates.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "a test reads the embedded descriptions")]
pub fn templates() -> &'static [Template] {
    static TEMPLATES: OnceLock<Vec<Template>> = OnceLock::new();
    TEMPLATES.get_or_init(|| {
        let read = |one: &Embedded| Template {
            id: one.id,
            about: toml::from_str(one.about).expect("templates/new/*/template.toml are tested"),
            files: one.files,
        };
        TABLE.iter().map(read).collect()
    })
}

/// The template of this name.
///
/// # Errors
/// There is none.
pub fn find(name: Option<&str>) -> Result<&'static Template, super::NewError> {
    let name = name.ok_or(super::NewError::NoTemplate)?;
    let found = templates().iter().find(|one| one.id == name);
    found.ok_or_else(|| super::NewError::Template { name: name.to_owned() })
}
