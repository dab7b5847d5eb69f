//! Texts of descriptions that apply to some platforms only.

use std::fmt;

use gpubuild_host::{Arch, Os, Platform};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::facts::is_on;

/// A path or value with placeholders, optionally only for some platforms. In a description, it is the text alone, or a table.
#[derive(Debug, Clone)]
pub struct PlatformText {
    text: String,
    on: Vec<Os>,
    arch: Option<Arch>,
}

impl PlatformText {
    /// The text, if it applies to `platform`.
    #[must_use]
    pub fn on(&self, platform: Platform) -> Option<&str> {
        let applies = is_on(&self.on, platform.os) && self.arch.is_none_or(|arch| arch == platform.arch);
        applies.then_some(self.text.as_str())
    }

    /// The text as written, whether or not it applies to this platform.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<'de> Deserialize<'de> for PlatformText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlatformTextVisitor)
    }
}

struct PlatformTextVisitor;

impl<'de> Visitor<'de> for PlatformTextVisitor {
    type Value = PlatformText;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string, or a table with `path` and optionally `on` and `arch`")
    }

    fn visit_str<E>(self, text: &str) -> Result<PlatformText, E> {
        Ok(PlatformText { text: text.to_owned(), on: Vec::new(), arch: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PlatformText, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            path: String,
            #[serde(default)]
            on: Vec<Os>,
            arch: Option<Arch>,
        }
        let Table { path, on, arch } = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(PlatformText { text: path, on, arch })
    }
}
