//! Deserializes values from the binary encoding.

use serde_core::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde_core::forward_to_deserialize_any;

use crate::bytes::{ByteReader, Inserted, Tag};
use crate::{TomlError, lazy};

/// The names with which `toml::Spanned` requests a value and its span.
mod spanned {
    pub(super) const NAME: &str = "$__serde_spanned_private_Spanned";
    pub(super) const START: &str = "$__serde_spanned_private_start";
    pub(super) const END: &str = "$__serde_spanned_private_end";
    pub(super) const VALUE: &str = "$__serde_spanned_private_value";
}

pub(crate) fn read<T: DeserializeOwned>(mut reader: ByteReader<'_>) -> Result<T, TomlError> {
    T::deserialize(&mut reader)
}

/// The error for a value of an unexpected type. Not generic, so that it is compiled only once.
fn mismatch(reader: &mut ByteReader<'_>, tag: Tag, expected: &dyn Expected) -> TomlError {
    let found = match tag {
        Tag::False => Ok(Unexpected::Bool(false)),
        Tag::True => Ok(Unexpected::Bool(true)),
        Tag::Integer => reader.integer().map(Unexpected::Signed),
        Tag::Float => reader.float().map(Unexpected::Float),
        Tag::String => reader.text().map(Unexpected::Str),
        Tag::Array => Ok(Unexpected::Seq),
        Tag::Table => Ok(Unexpected::Map),
    };
    found.map_or_else(|error| error, |found| TomlError::invalid_type(found, expected))
}

// There is a function per kind of value, so that each visitor is compiled only for the kind that it requests. With `any` for all kinds,
// the generated code would be several times larger.

fn any<'de, V: Visitor<'de>>(reader: &mut ByteReader<'de>, visitor: V) -> Result<V::Value, TomlError> {
    match reader.tag()? {
        Tag::False => visitor.visit_bool(false),
        Tag::True => visitor.visit_bool(true),
        Tag::Integer => visitor.visit_i64(reader.integer()?),
        Tag::Float => visitor.visit_f64(reader.float()?),
        Tag::String => visitor.visit_borrowed_str(reader.text()?),
        Tag::Array => items(reader, visitor),
        Tag::Table => {
            let kind = table_end(reader)?;
            entries(reader, kind, visitor)
        }
    }
}

fn boolean<'de, V: Visitor<'de>>(reader: &mut ByteReader<'de>, visitor: V) -> Result<V::Value, TomlError> {
    match reader.tag()? {
        Tag::False => visitor.visit_bool(false),
        Tag::True => visitor.visit_bool(true),
        tag => Err(mismatch(reader, tag, &visitor)),
    }
}

fn integer<'de, V: Visitor<'de>>(reader: &mut ByteReader<'de>, visitor: V) -> Result<V::Value, TomlError> {
    match reader.tag()? {
        Tag::Integer => visitor.visit_i64(reader.integer()?),
        tag => Err(mismatch(reader, tag, &visitor)),
    }
}

fn float<'de, V: Visitor<'de>>(reader: &mut ByteReader<'de>, visitor: V) -> Result<V::Value, TomlError> {
    match reader.tag()? {
        Tag::Integer => visitor.visit_i64(reader.integer()?),
        Tag::Float => visitor.visit_f64(reader.float()?),
        tag => Err(mismatch(reader, tag, &visitor)),
    }
}

fn text<'de, V: Visitor<'de>>(reader: &mut ByteReader<'de>, visitor: V) -> Result<V::Value, TomlError> {
    match reader.tag()? {
        Tag::String => visitor.visit_borrowed_str(reader.text()?),
        tag => Err(mismatch(reader, tag, &visitor)),
    }
}

fn array<'de, V: Visitor<'de>>(reader: &mut ByteReader<'de>, visitor: V) -> Result<V::Value, TomlError> {
    match reader.tag()? {
        Tag::Array => items(reader, visitor),
        tag => Err(mismatch(reader, tag, &visitor)),
    }
}

fn table<'de, V: Visitor<'de>>(reader: &mut ByteReader<'de>, visitor: V) -> Result<V::Value, TomlError> {
    let kind = table_start(reader, &visitor)?;
    entries(reader, kind, visitor)
}

/// Reads the start of a table. Not generic, so that it is compiled only once.
fn table_start(reader: &mut ByteReader<'_>, expected: &dyn Expected) -> Result<EntryKind, TomlError> {
    match reader.tag()? {
        Tag::Table => table_end(reader),
        tag => Err(mismatch(reader, tag, expected)),
    }
}

fn table_end(reader: &mut ByteReader<'_>) -> Result<EntryKind, TomlError> {
    let end = reader.end()?;
    Ok(EntryKind::Table { end, key: end })
}

fn items<'de, V: Visitor<'de>>(reader: &mut ByteReader<'de>, visitor: V) -> Result<V::Value, TomlError> {
    let end = reader.end()?;
    let value = visitor.visit_seq(Items { reader: &mut *reader, end })?;
    reader.skip_to(end);
    Ok(value)
}

/// The only call of `visit_map`, in which the compiler places the code of each structure.
fn entries<'de, V: Visitor<'de>>(
    reader: &mut ByteReader<'de>,
    kind: EntryKind,
    visitor: V,
) -> Result<V::Value, TomlError> {
    let value = visitor.visit_map(TableEntries { reader: &mut *reader, kind })?;
    if let EntryKind::Table { end, .. } = kind {
        reader.skip_to(end);
    }
    Ok(value)
}

macro_rules! deserialize_methods {
    ($($method:ident: $read:ident,)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TomlError> {
            let span = self.span();
            match $read(self, visitor) {
                Err(error) => Err(error.at(span)),
                value => value,
            }
        })*
    };
}

impl<'de> Deserializer<'de> for &mut ByteReader<'de> {
    type Error = TomlError;

    deserialize_methods! {
        deserialize_any: any,
        deserialize_ignored_any: any,
        deserialize_bool: boolean,
        deserialize_u8: integer,
        deserialize_u16: integer,
        deserialize_u32: integer,
        deserialize_u64: integer,
        deserialize_u128: integer,
        deserialize_i8: integer,
        deserialize_i16: integer,
        deserialize_i32: integer,
        deserialize_i64: integer,
        deserialize_i128: integer,
        deserialize_f32: float,
        deserialize_f64: float,
        deserialize_char: text,
        deserialize_str: text,
        deserialize_string: text,
        deserialize_identifier: text,
        deserialize_seq: array,
        deserialize_map: table,
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TomlError> {
        let span = self.span();
        // A missing value is a missing key, so there always is a value here.
        visitor.visit_some(self).map_err(|error| error.at(span))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TomlError> {
        if name == lazy::NAME && self.is_embedded() {
            return visitor.visit_bytes(self.raw_value()?);
        }
        let span = self.span();
        visitor.visit_newtype_struct(self).map_err(|error| error.at(span))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TomlError> {
        let span = self.span();
        let kind = if name == spanned::NAME {
            Ok(EntryKind::Spanned(EntryPart::Start))
        } else {
            table_start(self, &visitor)
        };
        kind.and_then(|kind| entries(self, kind, visitor)).map_err(|error| error.at(span))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TomlError> {
        let span = self.span();
        let result = match self.peek()? {
            Tag::String => visitor.visit_enum(Variant { reader: self, content: VariantContent::None }),
            Tag::Table => {
                self.tag()?;
                let end = self.end()?;
                visitor.visit_enum(Variant { reader: self, content: VariantContent::Until(end) })
            }
            _ => Err(TomlError::custom("expected a string or a table")),
        };
        result.map_err(|error| error.at(span))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, TomlError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, TomlError> {
        self.deserialize_seq(visitor)
    }

    forward_to_deserialize_any! { bytes byte_buf unit unit_struct }
}

struct Items<'a, 'de> {
    reader: &'a mut ByteReader<'de>,
    end: usize,
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = TomlError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, TomlError> {
        if self.reader.is_at(self.end) { Ok(None) } else { seed.deserialize(&mut *self.reader).map(Some) }
    }
}

/// The entries of a table, or of the pseudo-table that `toml::Spanned` requests. A single type, because visitors are compiled for each
/// `MapAccess` type.
struct TableEntries<'a, 'de> {
    reader: &'a mut ByteReader<'de>,
    kind: EntryKind,
}

#[derive(Clone, Copy)]
enum EntryKind {
    /// The positions of the table's end and of the current key.
    Table {
        end: usize,
        key: usize,
    },
    Spanned(EntryPart),
}

#[derive(Clone, Copy)]
enum EntryPart {
    Start,
    End,
    Value,
    Done,
}

impl TableEntries<'_, '_> {
    /// Moves to the next key. Returns false at the end.
    fn advance(&mut self) -> bool {
        match &mut self.kind {
            EntryKind::Table { end, .. } if self.reader.is_at(*end) => return false,
            EntryKind::Table { key, .. } => *key = self.reader.position(),
            EntryKind::Spanned(part) => {
                let name = match part {
                    EntryPart::Start => spanned::START,
                    EntryPart::End => spanned::END,
                    EntryPart::Value => spanned::VALUE,
                    EntryPart::Done => return false,
                };
                self.reader.insert(Inserted::Text(name));
            }
        }
        true
    }

    /// Moves to the value of the current key.
    fn value(&mut self) {
        if let EntryKind::Spanned(part) = &mut self.kind {
            let span = self.reader.span().unwrap_or_default();
            *part = match part {
                EntryPart::Start => {
                    self.reader.insert(Inserted::Number(span.start));
                    EntryPart::End
                }
                EntryPart::End => {
                    self.reader.insert(Inserted::Number(span.end));
                    EntryPart::Value
                }
                EntryPart::Value | EntryPart::Done => EntryPart::Done,
            };
        }
    }

    fn key(&self) -> Option<&str> {
        match self.kind {
            EntryKind::Table { key, .. } => self.reader.text_at(key),
            EntryKind::Spanned(_) => None,
        }
    }
}

impl<'de> MapAccess<'de> for TableEntries<'_, 'de> {
    type Error = TomlError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TomlError> {
        if self.advance() { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, TomlError> {
        self.value();
        match seed.deserialize(&mut *self.reader) {
            Err(error) => Err(error.below(self.key())),
            value => value,
        }
    }
}

/// An enum variant: its name, or a table whose only key is its name.
struct Variant<'a, 'de> {
    reader: &'a mut ByteReader<'de>,
    content: VariantContent,
}

#[derive(Clone, Copy)]
enum VariantContent {
    None,
    Until(usize),
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = TomlError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), TomlError> {
        if let VariantContent::Until(end) = self.content
            && self.reader.is_at(end)
        {
            return Err(TomlError::invalid_length(0, &"a table with one key"));
        }
        Ok((seed.deserialize(&mut *self.reader)?, self))
    }
}

impl<'de> Variant<'_, 'de> {
    /// Reads the content after the name.
    fn content<T>(
        self,
        read: impl FnOnce(&mut ByteReader<'de>) -> Result<T, TomlError>,
    ) -> Result<T, TomlError> {
        let VariantContent::Until(end) = self.content else {
            return Err(TomlError::invalid_type(
                Unexpected::UnitVariant,
                &"a table with the variant's content",
            ));
        };
        let value = read(&mut *self.reader)?;
        if self.reader.is_at(end) {
            Ok(value)
        } else {
            Err(TomlError::invalid_length(2, &"a table with one key"))
        }
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = TomlError;

    fn unit_variant(self) -> Result<(), TomlError> {
        match self.content {
            VariantContent::None => Ok(()),
            VariantContent::Until(_) => {
                Err(TomlError::invalid_type(Unexpected::Map, &"only the name of the variant"))
            }
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, TomlError> {
        self.content(|reader| seed.deserialize(reader))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, TomlError> {
        self.content(|reader| reader.deserialize_seq(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TomlError> {
        self.content(|reader| reader.deserialize_map(visitor))
    }
}
