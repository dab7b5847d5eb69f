//! Probes a backend in this process: lists its devices, opens each, and runs a tiny plan with a known result
//! on it.

use crate::gguf::TensorType;
use crate::gk::{Backend, Device, DeviceInfo, Error, Op, OpCode, OpenOptions, Step, Tensor, Usage};
use serde::{Deserialize, Serialize};

/// The answer of a backend. If `why` is set, it cannot be used at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Id of the backend.
    pub backend: String,
    /// Reason why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its devices.
    #[serde(default)]
    pub devices: Vec<Probed>,
}

/// A device and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    /// Index in the backend's own order.
    pub index: u32,
    /// The device's description.
    #[serde(flatten)]
    pub info: DeviceInfo,
    /// Reason why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Answer {
    /// An answer that consists of one reason.
    #[must_use]
    pub fn failed(backend: &str, why: impl Into<String>) -> Self {
        Self { backend: backend.to_owned(), why: Some(why.into()), devices: Vec::new() }
    }
}

/// Probes a backend in this process.
#[must_use]
pub fn examine(id: &str) -> Answer {
    let backend = match Backend::named(id) {
        Ok(backend) => backend,
        Err(why) => return Answer::failed(id, why),
    };
    let infos = match backend.devices() {
        Ok(infos) if infos.is_empty() => return Answer::failed(id, "its driver offers no device"),
        Ok(infos) => infos,
        Err(error) if error.detail.is_empty() => return Answer::failed(id, error.status.to_string()),
        Err(error) => return Answer::failed(id, format!("{}: {}", error.status, error.detail)),
    };
    let devices = (0..).zip(infos).map(|(index, info)| {
        let solved = backend
            .open(index, info.clone(), OpenOptions { threads: 1, ..OpenOptions::default() })
            .and_then(|device| solve(&device));
        let why = match solved {
            Ok(true) => None,
            Ok(false) => Some("returned a wrong result in a small test".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        Probed { index, info, why }
    });
    Answer { backend: id.to_owned(), why: None, devices: devices.collect() }
}

/// Multiplies a 3 x 32 matrix by a vector and finds the largest result. All numbers are small integers, so
/// that every correct device gives the same bits.
fn solve(device: &Device) -> Result<bool, Error> {
    const WIDTH: u8 = 32;
    const EXPECTED: [f32; 3] = [496.0, -496.0, 992.0];
    let width = u32::from(WIDTH);
    let matrix: Vec<f32> = [1.0, -1.0, 2.0]
        .into_iter()
        .flat_map(|row: f32| std::iter::repeat_n(row, usize::from(WIDTH)))
        .collect();
    let vector: Vec<f32> = (0..WIDTH).map(f32::from).collect();
    let weight_bytes = device.weight_bytes(TensorType::F32, width.into(), 3).max(64);
    let weight = Tensor::new(&device.alloc(weight_bytes, Usage::Weight)?, 0, TensorType::F32, width, 3);
    let state = |kind: TensorType, columns: u32| -> Result<Tensor, Error> {
        Ok(Tensor::new(&device.alloc(128, Usage::State)?, 0, kind, columns, 1))
    };
    let (input, output, best) =
        (state(TensorType::F32, width)?, state(TensorType::F32, 3)?, state(TensorType::I32, 1)?);
    device.weight_put(&weight, bytemuck::cast_slice(&matrix), 0)?;
    input.write(&vector)?;
    let plan = device.plan(&[
        Op::new(OpCode::MatMul, &output, &[&weight, &input]),
        Op::new(OpCode::ArgMax, &best, &[&output]),
    ])?;
    device.run(&plan, Step { tokens: 1, position: 0, run: 0 }, 1)?;
    let (values, best): (Vec<f32>, Vec<i32>) = (output.read(3)?, best.read(1)?);
    // Backends that round the input to eight bits are accurate to about a hundredth.
    let close = values.iter().zip(EXPECTED).all(|(value, expected)| (value - expected).abs() < 5.0);
    Ok(close && best == [2])
}
