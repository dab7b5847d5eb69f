//! Metadata values. Arrays and strings are not copied; only their positions in the file are stored.

use super::cursor::{Cursor, Located};
use super::error::Problem;

/// Type of a metadata value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// 8-bit unsigned.
    U8,
    /// 8-bit signed.
    I8,
    /// 16-bit unsigned.
    U16,
    /// 16-bit signed.
    I16,
    /// 32-bit unsigned.
    U32,
    /// 32-bit signed.
    I32,
    /// 32-bit floating point.
    F32,
    /// One byte, 0 or 1.
    Bool,
    /// Length and UTF-8.
    String,
    /// Element type, count, elements.
    Array,
    /// 64-bit unsigned.
    U64,
    /// 64-bit signed.
    I64,
    /// 64-bit floating point.
    F64,
}

impl ValueType {
    /// In the order of their numbers in a file.
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    pub(crate) fn from_id(id: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// The number of this type in a file.
    #[must_use]
    pub fn id(self) -> u32 {
        (0..).zip(Self::ALL).find(|(_, kind)| *kind == self).map_or(u32::MAX, |(id, _)| id)
    }

    /// Minimum size of a value of this type in bytes.
    pub(crate) fn least_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::String | Self::U64 | Self::I64 | Self::F64 => 8,
            Self::Array => 12,
        }
    }

    /// The name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 | Self::I8 | Self::U16 | Self::I16 | Self::U32 | Self::I32 | Self::U64 | Self::I64 => {
                "an integer"
            }
            Self::F32 | Self::F64 => "a real number",
            Self::Bool => "a boolean",
            Self::String => "a string",
            Self::Array => "an array",
        }
    }
}

/// A metadata value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Any integer type.
    Integer(i128),
    /// Any real type.
    Real(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    String(&'a str),
    /// Elements of one type, read on demand.
    Array {
        /// Type of the elements.
        element: ValueType,
        /// Number of elements.
        count: usize,
        /// Offset of the first element in the file.
        start: usize,
    },
}

/// Reads one value; checks the elements of an array and skips them.
pub(crate) fn read<'a>(cursor: &mut Cursor<'a>, kind: ValueType) -> Result<Value<'a>, Located> {
    Ok(match kind {
        ValueType::U8 => Value::Integer(u8::from_le_bytes(cursor.array()?).into()),
        ValueType::I8 => Value::Integer(i8::from_le_bytes(cursor.array()?).into()),
        ValueType::U16 => Value::Integer(u16::from_le_bytes(cursor.array()?).into()),
        ValueType::I16 => Value::Integer(i16::from_le_bytes(cursor.array()?).into()),
        ValueType::U32 => Value::Integer(cursor.u32()?.into()),
        ValueType::I32 => Value::Integer(i32::from_le_bytes(cursor.array()?).into()),
        ValueType::U64 => Value::Integer(cursor.u64()?.into()),
        ValueType::I64 => Value::Integer(i64::from_le_bytes(cursor.array()?).into()),
        ValueType::F32 => Value::Real(f32::from_le_bytes(cursor.array()?).into()),
        ValueType::F64 => Value::Real(f64::from_le_bytes(cursor.array()?)),
        ValueType::Bool => {
            let start = cursor.offset();
            match cursor.array()? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [other] => return Err((start, Problem::Boolean(other))),
            }
        }
        ValueType::String => Value::String(cursor.string()?),
        ValueType::Array => {
            let start = cursor.offset();
            let id = cursor.u32()?;
            let element = ValueType::from_id(id).ok_or((start, Problem::ValueType(id)))?;
            if element == ValueType::Array {
                return Err((start, Problem::NestedArray));
            }
            let count = cursor.count(element.least_bytes())?;
            let start = cursor.position();
            match element {
                ValueType::String | ValueType::Bool => {
                    for _ in 0..count {
                        read(cursor, element)?;
                    }
                }
                fixed => {
                    cursor.take(count as u64 * fixed.least_bytes())?;
                }
            }
            Value::Array { element, count, start }
        }
    })
}
