//! Element types by their GGUF ids, with their block sizes.

use std::fmt;

/// A known element type. The backend decides whether it supports the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorType(&'static Row);

#[derive(Debug, PartialEq, Eq)]
struct Row {
    id: u32,
    name: &'static str,
    elements: u64,
    bytes: u64,
}

const fn row(id: u32, name: &'static str, elements: u64, bytes: u64) -> Row {
    Row { id, name, elements, bytes }
}

/// Ids and block sizes of the GGUF specification.
static TYPES: [Row; 32] = [
    row(0, "f32", 1, 4),
    row(1, "f16", 1, 2),
    row(2, "q4_0", 32, 18),
    row(3, "q4_1", 32, 20),
    row(6, "q5_0", 32, 22),
    row(7, "q5_1", 32, 24),
    row(8, "q8_0", 32, 34),
    row(9, "q8_1", 32, 36),
    row(10, "q2_K", 256, 84),
    row(11, "q3_K", 256, 110),
    row(12, "q4_K", 256, 144),
    row(13, "q5_K", 256, 176),
    row(14, "q6_K", 256, 210),
    row(15, "q8_K", 256, 292),
    row(16, "iq2_xxs", 256, 66),
    row(17, "iq2_xs", 256, 74),
    row(18, "iq3_xxs", 256, 98),
    row(19, "iq1_s", 256, 50),
    row(20, "iq4_nl", 32, 18),
    row(21, "iq3_s", 256, 110),
    row(22, "iq2_s", 256, 82),
    row(23, "iq4_xs", 256, 136),
    row(24, "i8", 1, 1),
    row(25, "i16", 1, 2),
    row(26, "i32", 1, 4),
    row(27, "i64", 1, 8),
    row(28, "f64", 1, 8),
    row(29, "iq1_m", 256, 56),
    row(30, "bf16", 1, 2),
    row(34, "tq1_0", 256, 54),
    row(35, "tq2_0", 256, 66),
    row(39, "mxfp4", 32, 17),
];

impl TensorType {
    /// 32-bit floating point.
    pub const F32: Self = Self(&TYPES[0]);
    /// 16-bit floating point.
    pub const F16: Self = Self(&TYPES[1]);
    /// 18 bytes for 32 elements.
    pub const Q4_0: Self = Self(&TYPES[2]);
    /// 34 bytes for 32 elements.
    pub const Q8_0: Self = Self(&TYPES[6]);
    /// 144 bytes for 256 elements.
    pub const Q4_K: Self = Self(&TYPES[10]);
    /// 210 bytes for 256 elements.
    pub const Q6_K: Self = Self(&TYPES[12]);
    /// The upper half of 32-bit floating point.
    pub const BF16: Self = Self(&TYPES[28]);
    /// 32-bit integer.
    pub const I32: Self = Self(&TYPES[24]);

    /// Weight types that at least one backend and the random models support.
    pub const WEIGHTS: [Self; 7] =
        [Self::F32, Self::F16, Self::BF16, Self::Q8_0, Self::Q4_0, Self::Q4_K, Self::Q6_K];

    /// The weight type with this name, ignoring case.
    ///
    /// # Errors
    /// The name is unknown; the message lists the valid names.
    pub fn weight_named(name: &str) -> Result<Self, String> {
        let found = Self::WEIGHTS.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let names: Vec<String> =
                Self::WEIGHTS.iter().map(|kind| kind.name().to_ascii_lowercase()).collect();
            format!("use {}", names.join(", "))
        })
    }

    /// The type with this id.
    #[must_use]
    pub fn from_id(id: u32) -> Option<Self> {
        TYPES.iter().find(|row| row.id == id).map(Self)
    }

    /// The id in GGUF and in the kernel interface.
    #[must_use]
    pub fn id(self) -> u32 {
        self.0.id
    }

    /// The name, such as `q8_0`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Elements of one block; 1 for the plain types.
    #[must_use]
    pub fn block_elements(self) -> u64 {
        self.0.elements
    }

    /// Bytes of a row of `width` elements; `None` if the width is not a multiple of the block size, or on
    /// overflow.
    #[must_use]
    pub fn row_bytes(self, width: u64) -> Option<u64> {
        if width.is_multiple_of(self.0.elements) {
            (width / self.0.elements).checked_mul(self.0.bytes)
        } else {
            None
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_have_their_ids_and_names() {
        let pairs = [
            (TensorType::F32, 0, "f32"),
            (TensorType::F16, 1, "f16"),
            (TensorType::Q4_0, 2, "q4_0"),
            (TensorType::Q8_0, 8, "q8_0"),
            (TensorType::Q4_K, 12, "q4_K"),
            (TensorType::Q6_K, 14, "q6_K"),
            (TensorType::I32, 26, "i32"),
            (TensorType::BF16, 30, "bf16"),
        ];
        for (kind, id, name) in pairs {
            assert_eq!((kind.id(), kind.name()), (id, name));
        }
    }

    #[test]
    fn rows_are_complete_blocks() {
        assert_eq!(TensorType::Q8_0.row_bytes(64), Some(68));
        assert_eq!(TensorType::Q8_0.row_bytes(33), None);
        assert_eq!(TensorType::F32.row_bytes(u64::MAX), None);
    }
}
