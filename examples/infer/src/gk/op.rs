//! Tensors and ops as values. `gk.h` documents what each op computes.

use super::{Buffer, Error, sys};
use crate::gguf::TensorType;

/// A typed slice of a buffer. `ne[0]` is contiguous; unused dimensions are 1.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// The memory.
    pub buffer: Buffer,
    /// Bytes from the start of the buffer, a multiple of 64.
    pub offset: u64,
    /// Type of the elements.
    pub kind: TensorType,
    /// Elements in each dimension.
    pub ne: [u32; 4],
}

impl Tensor {
    /// A tensor of one or two dimensions.
    #[must_use]
    pub fn new(buffer: &Buffer, offset: u64, kind: TensorType, width: u32, rows: u32) -> Self {
        Self { buffer: buffer.clone(), offset, kind, ne: [width, rows, 1, 1] }
    }

    /// Copies elements to the start of the tensor.
    ///
    /// # Errors
    /// They do not fit, or the device failed.
    pub fn write<T: bytemuck::NoUninit>(&self, source: &[T]) -> Result<(), Error> {
        self.buffer.write(self.offset, source)
    }

    /// Copies the first `count` elements from the device.
    ///
    /// # Errors
    /// The tensor is too small, or the device failed.
    pub fn read<T: bytemuck::Pod>(&self, count: usize) -> Result<Vec<T>, Error> {
        let mut values = vec![T::zeroed(); count];
        self.buffer.read(self.offset, &mut values)?;
        Ok(values)
    }

    pub(super) fn raw(&self) -> sys::gk_tensor {
        sys::gk_tensor {
            buffer: self.buffer.as_ptr(),
            offset: self.offset,
            type_: self.kind.id(),
            row_stride: 0,
            ne: self.ne,
        }
    }
}

/// The operation of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "`gk.h` documents them")]
pub enum OpCode {
    Embed,
    RmsNorm,
    MatMul,
    Rope,
    KvWrite,
    Attention,
    SwiGlu,
    Silu,
    Add,
    Mul,
    SoftMax,
    ArgMax,
    TopK,
    Copy,
    Step,
}

impl OpCode {
    fn raw(self) -> sys::gk_op_code {
        match self {
            Self::Embed => sys::GK_OP_EMBED,
            Self::RmsNorm => sys::GK_OP_RMSNORM,
            Self::MatMul => sys::GK_OP_MATMUL,
            Self::Rope => sys::GK_OP_ROPE,
            Self::KvWrite => sys::GK_OP_KV_WRITE,
            Self::Attention => sys::GK_OP_ATTENTION,
            Self::SwiGlu => sys::GK_OP_SWIGLU,
            Self::Silu => sys::GK_OP_SILU,
            Self::Add => sys::GK_OP_ADD,
            Self::Mul => sys::GK_OP_MUL,
            Self::SoftMax => sys::GK_OP_SOFTMAX,
            Self::ArgMax => sys::GK_OP_ARGMAX,
            Self::TopK => sys::GK_OP_TOPK,
            Self::Copy => sys::GK_OP_COPY,
            Self::Step => sys::GK_OP_STEP,
        }
    }

    /// The name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::RmsNorm => "rmsnorm",
            Self::MatMul => "matmul",
            Self::Rope => "rope",
            Self::KvWrite => "kv_write",
            Self::Attention => "attention",
            Self::SwiGlu => "swiglu",
            Self::Silu => "silu",
            Self::Add => "add",
            Self::Mul => "mul",
            Self::SoftMax => "softmax",
            Self::ArgMax => "argmax",
            Self::TopK => "topk",
            Self::Copy => "copy",
            Self::Step => "step",
        }
    }
}

/// One op of a plan.
#[derive(Debug, Clone)]
pub struct Op {
    /// The operation.
    pub code: OpCode,
    flags: u32,
    tag: u32,
    /// The result, then the operands in the order of the interface.
    operands: [Option<Tensor>; 4],
    integers: [i32; 4],
    reals: [f32; 4],
}

impl Op {
    /// An op with a result and the operands `a`, `b`, `c`, of which the last may be missing.
    #[must_use]
    pub fn new(code: OpCode, result: &Tensor, operands: &[&Tensor]) -> Self {
        let mut slots = [Some(result.clone()), None, None, None];
        for (slot, operand) in slots[1..].iter_mut().zip(operands) {
            *slot = Some((*operand).clone());
        }
        Self { code, flags: 0, tag: 0, operands: slots, integers: [0; 4], reals: [0.0; 4] }
    }

    /// Ends a decode plan: `id` becomes the next token in `tokens`.
    #[must_use]
    pub fn step(id: &Tensor, tokens: &Tensor, history: Option<&Tensor>) -> Self {
        Self {
            code: OpCode::Step,
            flags: 0,
            tag: 0,
            operands: [history.cloned(), Some(id.clone()), Some(tokens.clone()), None],
            integers: [0; 4],
            reals: [0.0; 4],
        }
    }

    /// The largest elements of each row of `input`, as many as `ids` has room for; `values` receives their
    /// values.
    #[must_use]
    pub fn top_k(ids: &Tensor, input: &Tensor, values: &Tensor) -> Self {
        let mut op = Self::new(OpCode::TopK, ids, &[input]).integers(&[ids.ne[0]]);
        op.operands[3] = Some(values.clone());
        op
    }

    /// Sets the integer parameters.
    #[must_use]
    pub fn integers(mut self, integers: &[u32]) -> Self {
        for (slot, value) in self.integers.iter_mut().zip(integers) {
            *slot = i32::try_from(*value).unwrap_or(-1);
        }
        self
    }

    /// Sets the real parameter.
    #[must_use]
    pub fn real(mut self, value: f32) -> Self {
        self.reals[0] = value;
        self
    }

    /// Sets a number of the caller's choice, shown in error messages.
    #[must_use]
    pub fn tag(mut self, tag: u32) -> Self {
        self.tag = tag;
        self
    }

    /// Adds the result to the existing content.
    #[must_use]
    pub fn accumulate(mut self) -> Self {
        self.flags |= sys::GK_ACCUMULATE;
        self
    }

    /// Adds a bias (operand `c` of matmul).
    #[must_use]
    pub fn bias(mut self, bias: &Tensor) -> Self {
        self.flags |= sys::GK_BIAS;
        self.operands[3] = Some(bias.clone());
        self
    }

    /// Rotates pairs whose elements are half of the rotated part apart (rope).
    #[must_use]
    pub fn neox(mut self) -> Self {
        self.flags |= sys::GK_NEOX;
        self
    }

    /// Computes only the last used row, into row 0.
    #[must_use]
    pub fn last_row(mut self) -> Self {
        self.flags |= sys::GK_LAST_ROW;
        self
    }

    pub(super) fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        self.operands.iter().flatten().map(|tensor| &tensor.buffer)
    }

    pub(super) fn raw(&self) -> sys::gk_op {
        let empty =
            sys::gk_tensor { buffer: std::ptr::null_mut(), offset: 0, type_: 0, row_stride: 0, ne: [0; 4] };
        let operand = |index: usize| self.operands[index].as_ref().map_or(empty, Tensor::raw);
        sys::gk_op {
            code: u16::try_from(self.code.raw()).unwrap_or(0),
            flags: u16::try_from(self.flags).unwrap_or(u16::MAX),
            tag: self.tag,
            dst: operand(0),
            a: operand(1),
            b: operand(2),
            c: operand(3),
            d: empty,
            i: self.integers,
            f: self.reals,
        }
    }
}
