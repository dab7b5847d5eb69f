//! Uploads the weights of a model, each once, in pieces.

use super::placement::Span;
use crate::Error;
use crate::gguf::TensorType;
use crate::gk::{Device, Tensor, Usage};
use crate::model::Model;
use crate::model::tensors::{Role, Spec};
use std::collections::HashMap;

/// Weights on a device, by tensor name.
#[derive(Debug)]
pub(super) struct Weights(HashMap<String, Tensor>);

/// Tensors share buffers up to this size, because some drivers limit the number of allocations.
const ARENA: u64 = 1 << 30;
/// Rows are uploaded in pieces of about this many bytes.
const PIECE: u64 = 16 << 20;

impl Weights {
    /// Allocates everything before uploading, so that a model that does not fit fails early.
    pub(super) fn upload(
        model: &Model,
        device: &Device,
        span: Span,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        let specs: Vec<(&Spec, u64)> = model
            .specs()
            .iter()
            .filter(|spec| span.holds(model, spec))
            .map(|spec| (spec, stored_bytes(spec, device)))
            .collect();
        let max_buffer = device.info().max_buffer;
        let mut tensors = HashMap::new();
        for group in arenas(&specs, ARENA.min(max_buffer)) {
            let bytes: u64 = group.iter().map(|(_, bytes)| bytes).sum();
            if bytes > max_buffer {
                return Err(Error::message(format!(
                    "tensor `{}` takes {bytes} bytes, but backend `{}` allocates at most {max_buffer} in one piece",
                    group[0].0.name,
                    device.backend_id()
                )));
            }
            let buffer = device.alloc(bytes, Usage::Weight)?;
            let mut offset = 0;
            for (spec, bytes) in group {
                let kind = if spec.role == Role::Vector { TensorType::F32 } else { spec.kind };
                tensors.insert(spec.name.clone(), Tensor::new(&buffer, offset, kind, spec.width, spec.rows));
                offset += bytes;
            }
        }
        let weights = Self(tensors);
        let mut done = 0;
        for (spec, bytes) in specs {
            weights.fill(model, device, spec, &mut |rows| {
                progress(done + bytes * u64::from(rows) / u64::from(spec.rows.max(1)));
            })?;
            done += bytes;
        }
        Ok(weights)
    }

    /// Uploads a tensor; `filled` receives the number of uploaded rows.
    fn fill(
        &self,
        model: &Model,
        device: &Device,
        spec: &Spec,
        filled: &mut dyn FnMut(u32),
    ) -> Result<(), Error> {
        let tensor = self.get(&spec.name);
        if spec.role == Role::Vector {
            tensor.write(&model.vector(spec))?;
            filled(spec.rows);
            return Ok(());
        }
        let row = spec.kind.row_bytes(spec.width.into()).unwrap_or(1).max(1);
        let rows = u32::try_from((PIECE / row).max(1)).unwrap_or(u32::MAX);
        let mut first = 0;
        while first < spec.rows {
            let count = rows.min(spec.rows - first);
            device.weight_put(tensor, &model.rows(spec, first, count), first.into())?;
            first += count;
            filled(first);
        }
        Ok(())
    }

    /// A required weight: the model was checked to have it.
    pub(super) fn get(&self, name: &str) -> &Tensor {
        self.find(name).unwrap_or_else(|| unreachable!("`{name}` was checked when the model was read"))
    }

    /// An optional weight.
    pub(super) fn find(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }
}

fn stored_bytes(spec: &Spec, device: &Device) -> u64 {
    match spec.role {
        Role::Matrix => device.weight_bytes(spec.kind, spec.width.into(), spec.rows.into()),
        Role::Vector | Role::Host => (u64::from(spec.width) * 4).next_multiple_of(64),
    }
}

/// Splits the tensors into groups of at most `limit` bytes; a larger tensor forms a group alone.
fn arenas<'a, 'b>(specs: &'b [(&'a Spec, u64)], limit: u64) -> Vec<&'b [(&'a Spec, u64)]> {
    let mut groups = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, (_, size)) in specs.iter().enumerate() {
        if index > start && bytes + size > limit {
            groups.push(&specs[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += size;
    }
    if start < specs.len() {
        groups.push(&specs[start..]);
    }
    groups
}
