//! The document of `gpubuild ci images`, and its text.

use std::fmt::Write as _;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_plan::plan::bytes;
use gpubuild_release::ci::{CiImage, Images};
use serde::Serialize;

use super::Schema;
use super::rows;

/// The document of `ci images --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CiImagesReport<'a> {
    schema: Schema,
    /// The images, in the order of the table.
    images: Vec<ListedImage<'a>>,
}

/// A machine of a CI service, or a container on such a machine.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ListedImage<'a> {
    /// The id, for `images` in gpubuild.toml: `ubuntu-24.04`.
    id: &'a str,
    /// The platform: `linux-x86_64`.
    platform: String,
    /// The distribution: `ubuntu-24.04`.
    distribution: &'a str,
    /// The container in which the job runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a str>,
    /// The label of the GitHub runner; absent if no GitHub job runs on the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    github: Option<&'a str>,
    /// Container and machine at GitLab; absent if no GitLab job runs on the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    gitlab: Option<GitlabPlace<'a>>,
    /// Number of logical processors.
    cpus: u32,
    /// Memory in bytes.
    memory_bytes: u64,
    /// Free disk space in bytes.
    disk_bytes: u64,
    /// The toolkit in the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    toolkit: Option<ImageToolkit<'a>>,
    /// Whether variants that name no image are built on this one.
    default: bool,
}

/// Container and machine at GitLab.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GitlabPlace<'a> {
    /// The container.
    image: &'a str,
    /// The tag of the machine.
    tag: &'a str,
}

/// The toolkit in a container.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ImageToolkit<'a> {
    /// The backend that it is for.
    backend: Backend,
    /// Its version: `12.4.1`.
    version: &'a Version,
}

impl<'a> CiImagesReport<'a> {
    /// The document of these images.
    #[must_use]
    pub fn new(images: &'a Images) -> Self {
        Self {
            schema: Schema { name: "ci-images", version: 1 },
            images: images.iter().map(ListedImage::new).collect(),
        }
    }

    /// One line per image.
    #[must_use]
    pub fn text(&self) -> String {
        let width = rows::width(self.images.iter().map(|image| image.id.len()));
        let mut text = String::new();
        for image in &self.images {
            let default = if image.default { ", default" } else { "" };
            let (memory, disk) =
                (bytes::show_if_known(image.memory_bytes), bytes::show_if_known(image.disk_bytes));
            let _ = writeln!(
                text,
                "{:width$}  {}, {} processors, {memory} of memory, {disk} of disk: {}{default}",
                image.id,
                image.platform,
                image.cpus,
                image.place()
            );
        }
        text
    }
}

impl<'a> ListedImage<'a> {
    fn new(image: &'a CiImage) -> Self {
        let size = |text: &str| bytes::parse(text).unwrap_or_default();
        let toolkit = |holds: &'a gpubuild_release::ci::image::Holds| ImageToolkit {
            backend: holds.backend,
            version: &holds.version,
        };
        Self {
            id: &image.id,
            platform: image.platform(),
            distribution: &image.distribution,
            container: image.container.as_deref(),
            github: image.runner(),
            gitlab: image.gitlab().map(|(image, tag)| GitlabPlace { image, tag }),
            cpus: image.cpus,
            memory_bytes: size(&image.memory),
            disk_bytes: size(&image.disk),
            toolkit: image.holds.as_ref().map(toolkit),
            default: image.default,
        }
    }

    /// The container and the GitHub runner.
    fn place(&self) -> String {
        match (self.container, self.github) {
            (Some(container), Some(runner)) => format!("{container} on {runner}"),
            (Some(container), None) => container.to_owned(),
            (None, runner) => runner.unwrap_or_default().to_owned(),
        }
    }
}
