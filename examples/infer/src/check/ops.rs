//! Runs each op on a device and on the reference, with the same random numbers.

use super::{Row, nmse};
use crate::gguf::TensorType;
use crate::gk::{Device, Error, Op, OpCode, Step, Tensor, Usage};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const F32: TensorType = TensorType::F32;
const I32: TensorType = TensorType::I32;

/// Creates tensors on one device; the same calls give the same numbers on every device.
struct Fixture<'a> {
    device: &'a Device,
    random: Xoshiro256PlusPlus,
}

impl<'a> Fixture<'a> {
    fn new(device: &'a Device) -> Self {
        Self { device, random: Xoshiro256PlusPlus::seed_from_u64(2026) }
    }

    fn noise(&mut self, count: u32) -> Vec<f32> {
        let mut number = || {
            // Sixteen bits are exact in f32; the range is -2 .. 2.
            let bits = u16::try_from(self.random.next_u32() >> 16).unwrap_or(u16::MAX);
            f32::from(bits) / 16384.0 - 2.0
        };
        (0..count).map(|_| number()).collect()
    }

    fn alloc(&self, kind: TensorType, width: u32, rows: u32, usage: Usage) -> Result<Tensor, Error> {
        let bytes =
            kind.row_bytes(width.into()).unwrap_or(0).saturating_mul(rows.into()).next_multiple_of(64);
        Ok(Tensor::new(&self.device.alloc(bytes, usage)?, 0, kind, width, rows))
    }

    fn output(&self, kind: TensorType, width: u32, rows: u32) -> Result<Tensor, Error> {
        self.alloc(kind, width, rows, Usage::State)
    }

    fn input(&mut self, width: u32, rows: u32) -> Result<Tensor, Error> {
        let tensor = self.output(F32, width, rows)?;
        tensor.write(&self.noise(width * rows))?;
        Ok(tensor)
    }

    fn weight(&mut self, kind: TensorType, width: u32, rows: u32) -> Result<Tensor, Error> {
        let values = self.noise(width * rows);
        let bytes = match kind.name() {
            "q8_0" => values.chunks_exact(32).flat_map(q8_0_block).collect(),
            "f16" => values.iter().flat_map(|value| half::f16::from_f32(*value).to_le_bytes()).collect(),
            _ => bytemuck::cast_slice(&values).to_vec(),
        };
        let stored = self.device.weight_bytes(kind, width.into(), rows.into()).max(64);
        let tensor = Tensor::new(&self.device.alloc(stored, Usage::Weight)?, 0, kind, width, rows);
        self.device.weight_put(&tensor, &bytes, 0)?;
        Ok(tensor)
    }

    fn run(&self, ops: &[Op], tokens: u32, position: u32) -> Result<(), Error> {
        let plan = self.device.plan(ops)?;
        self.device.run(&plan, Step { tokens, position, run: 0 }, 1)
    }
}

/// Quantises 32 numbers to a scale and bytes.
fn q8_0_block(values: &[f32]) -> Vec<u8> {
    let scale = half::f16::from_f32(values.iter().fold(0.0_f32, |most, value| most.max(value.abs())) / 127.0);
    let mut bytes = scale.to_le_bytes().to_vec();
    let divisor = scale.to_f32().max(f32::MIN_POSITIVE);
    #[expect(clippy::cast_possible_truncation, reason = "rounded and clamped to a byte")]
    bytes.extend(
        values.iter().flat_map(|value| ((value / divisor).round().clamp(-127.0, 127.0) as i8).to_le_bytes()),
    );
    bytes
}

type Case = (&'static str, f64, fn(&mut Fixture<'_>) -> Result<Vec<f32>, Error>);

/// Error bounds: most ops only add in another order; backends may round the input of q8_0 products to eight
/// bits.
const EXACT: f64 = 0.0;
const SUM: f64 = 1e-9;
const HALF: f64 = 1e-6;
const INT8: f64 = 1e-4;

const CASES: [Case; 16] = [
    ("embed q8_0", SUM, |fixture| {
        let (table, ids, output) = (
            fixture.weight(TensorType::Q8_0, 64, 20)?,
            fixture.output(I32, 3, 1)?,
            fixture.output(F32, 64, 3)?,
        );
        ids.write(&[19, 0, 7])?;
        fixture.run(&[Op::new(OpCode::Embed, &output, &[&table, &ids])], 3, 0)?;
        output.read(192)
    }),
    ("rmsnorm", SUM, |fixture| {
        let (input, weight, output) =
            (fixture.input(96, 3)?, fixture.input(96, 1)?, fixture.output(F32, 96, 3)?);
        fixture.run(&[Op::new(OpCode::RmsNorm, &output, &[&input, &weight]).real(1e-5)], 3, 0)?;
        output.read(288)
    }),
    ("matmul f32, 1 token", SUM, |fixture| matmul(fixture, F32, 1)),
    ("matmul f16, 9 tokens", HALF, |fixture| matmul(fixture, TensorType::F16, 9)),
    ("matmul q8_0, 1 token", INT8, |fixture| matmul(fixture, TensorType::Q8_0, 1)),
    ("matmul q8_0, 9 tokens", INT8, |fixture| matmul(fixture, TensorType::Q8_0, 9)),
    ("matmul q8_0, bias, accumulate", INT8, |fixture| {
        let (weight, input) = (fixture.weight(TensorType::Q8_0, 64, 48)?, fixture.input(64, 2)?);
        let (bias, output) = (fixture.input(48, 1)?, fixture.input(48, 2)?);
        fixture.run(
            &[Op::new(OpCode::MatMul, &output, &[&weight, &input]).bias(&bias).accumulate()],
            2,
            0,
        )?;
        output.read(96)
    }),
    ("rope", SUM, |fixture| {
        let (input, table, output) =
            (fixture.input(64, 3)?, fixture.input(16, 8)?, fixture.output(F32, 64, 3)?);
        fixture.run(&[Op::new(OpCode::Rope, &output, &[&input, &table]).integers(&[2, 32, 16])], 3, 4)?;
        output.read(192)
    }),
    ("norm and rope of heads, halves", SUM, |fixture| {
        let (input, weight) = (fixture.input(64, 3)?, fixture.input(32, 1)?);
        let (table, output) = (fixture.input(16, 8)?, fixture.output(F32, 64, 3)?);
        let norm = Op::new(OpCode::RmsNorm, &output, &[&input, &weight]).real(1e-5);
        let rope = Op::new(OpCode::Rope, &output, &[&output, &table]).integers(&[2, 32, 16]).neox();
        fixture.run(&[norm, rope], 3, 4)?;
        output.read(192)
    }),
    ("kv_write, attention", HALF, attention),
    ("swiglu, silu", HALF, |fixture| {
        let (a, b, output) = (fixture.input(80, 2)?, fixture.input(80, 2)?, fixture.output(F32, 80, 2)?);
        fixture.run(
            &[Op::new(OpCode::SwiGlu, &output, &[&a, &b]), Op::new(OpCode::Silu, &output, &[&output])],
            2,
            0,
        )?;
        output.read(160)
    }),
    ("add one row, mul", SUM, |fixture| {
        let (a, b, row, output) = (
            fixture.input(80, 2)?,
            fixture.input(80, 2)?,
            fixture.input(80, 1)?,
            fixture.output(F32, 80, 2)?,
        );
        fixture.run(
            &[Op::new(OpCode::Add, &output, &[&a, &row]), Op::new(OpCode::Mul, &output, &[&output, &b])],
            2,
            0,
        )?;
        output.read(160)
    }),
    ("softmax", HALF, |fixture| {
        let (input, output) = (fixture.input(300, 2)?, fixture.output(F32, 300, 2)?);
        fixture.run(&[Op::new(OpCode::SoftMax, &output, &[&input]).real(0.5)], 2, 0)?;
        output.read(600)
    }),
    ("argmax", EXACT, |fixture| {
        let (input, best) = (fixture.input(1000, 3)?, fixture.output(I32, 3, 1)?);
        fixture.run(&[Op::new(OpCode::ArgMax, &best, &[&input])], 3, 0)?;
        Ok(small(&best.read::<i32>(3)?))
    }),
    ("topk", EXACT, |fixture| {
        let (input, ids, values) =
            (fixture.input(1000, 1)?, fixture.output(I32, 40, 1)?, fixture.output(F32, 40, 1)?);
        fixture.run(&[Op::top_k(&ids, &input, &values)], 1, 0)?;
        Ok([small(&ids.read::<i32>(40)?), values.read(40)?].concat())
    }),
    ("copy f16, step", EXACT, |fixture| {
        let (input, half, output) =
            (fixture.input(64, 1)?, fixture.output(TensorType::F16, 64, 1)?, fixture.output(F32, 64, 1)?);
        let (id, token, history) =
            (fixture.output(I32, 1, 1)?, fixture.output(I32, 1, 1)?, fixture.output(I32, 4, 1)?);
        fixture.run(
            &[
                Op::new(OpCode::Copy, &half, &[&input]),
                Op::new(OpCode::Copy, &output, &[&half]),
                Op::new(OpCode::ArgMax, &id, &[&output]),
                Op::step(&id, &token, Some(&history)),
            ],
            1,
            0,
        )?;
        let ids = [token.read::<i32>(1)?, history.read(4)?].concat();
        Ok([output.read(64)?, small(&ids)].concat())
    }),
];

fn matmul(fixture: &mut Fixture<'_>, kind: TensorType, tokens: u32) -> Result<Vec<f32>, Error> {
    let (weight, input, output) =
        (fixture.weight(kind, 96, 50)?, fixture.input(96, tokens)?, fixture.output(F32, 50, tokens)?);
    fixture.run(&[Op::new(OpCode::MatMul, &output, &[&weight, &input])], tokens, 0)?;
    output.read(50 * tokens as usize)
}

/// Five tokens, then two more that see all seven; four query heads share two key heads.
fn attention(fixture: &mut Fixture<'_>) -> Result<Vec<f32>, Error> {
    let cache = |fixture: &Fixture<'_>| fixture.output(TensorType::F16, 64, 16);
    let (keys_cache, values_cache, output) = (cache(fixture)?, cache(fixture)?, fixture.output(F32, 128, 5)?);
    let (keys, values, queries) = (fixture.input(64, 5)?, fixture.input(64, 5)?, fixture.input(128, 5)?);
    let ops = [
        Op::new(OpCode::KvWrite, &keys_cache, &[&keys, &values, &values_cache]).integers(&[2, 32]),
        Op::new(OpCode::Attention, &output, &[&queries, &keys_cache, &values_cache])
            .integers(&[4, 2, 32])
            .real(0.176),
    ];
    fixture.run(&ops, 5, 0)?;
    let first: Vec<f32> = output.read(640)?;
    fixture.run(&ops, 2, 5)?;
    Ok([first, output.read(256)?].concat())
}

/// Small integers as exact f32.
fn small(ids: &[i32]) -> Vec<f32> {
    ids.iter().map(|id| i16::try_from(*id).map_or(f32::NAN, f32::from)).collect()
}

/// Runs all cases on `device` and compares them with `truth`.
#[must_use]
pub fn compare_ops(device: &Device, truth: &Device) -> Vec<Row> {
    let compare = |(name, bound, case): &Case| {
        let expected = match case(&mut Fixture::new(truth)) {
            Ok(expected) => expected.into_iter().map(f64::from).collect::<Vec<f64>>(),
            Err(error) => return Row::failed(*name, &error),
        };
        match case(&mut Fixture::new(device)) {
            Ok(values) => Row::error(*name, nmse(&values, &expected), *bound),
            Err(error) => Row::failed(*name, &error),
        }
    };
    CASES.iter().map(compare).collect()
}
