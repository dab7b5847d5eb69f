//! Computes the memory that a session needs on a device, before anything is allocated.

use super::placement::Span;
use super::state::{MAX_CANDIDATES, MAX_REPEAT};
use crate::Error;
use crate::gk::{Device, Kind};
use crate::model::tensors::Role;
use crate::model::{Config, Model};
use std::fmt;

/// Prompts go through the model in pieces of this many tokens.
pub const CHUNK: u32 = 64;
/// The same on a GPU with its own memory: fewer rows leave most of it idle.
const DISCRETE_CHUNK: u32 = 512;

/// Context size and outputs of a session.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Tokens that the cache holds.
    pub n_ctx: u32,
    /// Type of the cache.
    pub cache: CacheType,
    /// Rows of logits that can be read.
    pub logits: LogitRows,
}

impl Options {
    /// Tokens that a plan for prompts computes at once on a device.
    pub(super) fn chunk(self, kind: Kind) -> u32 {
        match (kind, self.logits) {
            (Kind::Discrete, LogitRows::Last) => self.n_ctx.clamp(CHUNK, DISCRETE_CHUNK),
            _ => CHUNK,
        }
    }

    /// The same options with the context lowered to the available memory; 0 if no context fits.
    ///
    /// # Errors
    /// Same as [`Needs::new`].
    pub fn fitted(self, model: &Model, device: &Device, room: Room) -> Result<Self, Error> {
        let n_ctx = Needs::new(model, device, self)?.longest_context(room, self.n_ctx);
        Ok(Self { n_ctx, ..self })
    }
}

/// Type of the key and value caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheType {
    /// Two bytes per element: the default.
    F16,
    /// Four bytes per element, for comparisons.
    F32,
}

/// Rows of logits that a session stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogitRows {
    /// The logits of the last token.
    Last,
    /// The logits of every token of a chunk.
    All,
}

impl LogitRows {
    pub(super) fn rows(self) -> u32 {
        match self {
            Self::Last => 1,
            Self::All => CHUNK,
        }
    }
}

/// Bytes that a session needs on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Weights, as the backend stores them.
    pub weights: u64,
    /// Grows with the context: key and value caches, the rope table.
    pub cache: u64,
    /// Activations, logits and ids.
    pub work: u64,
    /// Scratch memory of kernels: an estimate.
    pub scratch: u64,
    /// Memory of the driver: an estimate.
    pub overhead: u64,
}

/// Memory that drivers take for a context, code and queues, by backend. Published figures, rounded up; not
/// measured here.
const OVERHEAD: [(&str, u64); 6] = [
    ("cuda", 512 << 20),
    ("rocm", 512 << 20),
    ("sycl", 512 << 20),
    ("vulkan", 100 << 20),
    ("opencl", 100 << 20),
    ("metal", 100 << 20),
];

/// Memory that a session can use on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that are free.
    pub free: u64,
    /// Bytes of them that may be used.
    pub usable: u64,
}

/// Memory that is reserved for the rest of the machine.
const HOST_RESERVE: u64 = 256 << 20;

impl Room {
    /// Reserves 5 % of a discrete GPU, and 256 MiB of the main memory.
    #[must_use]
    pub fn new(free: u64, kind: Kind) -> Self {
        let usable = match kind {
            Kind::Discrete => free - free / 20,
            Kind::Cpu | Kind::Integrated | Kind::Software => free.saturating_sub(HOST_RESERVE),
        };
        Self { free, usable }
    }

    /// The available memory of a device, which is queried.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn on(device: &Device) -> Result<Self, Error> {
        let (free, _) = device.memory()?;
        Ok(Self::new(free, device.info().kind))
    }
}

/// Buffers are rounded up to multiples of this many bytes.
const STEP: u64 = 64;

fn round(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(STEP).unwrap_or(u64::MAX)
}

fn product(factors: &[u64]) -> u64 {
    round(factors.iter().fold(1, |product, factor| product.saturating_mul(*factor)))
}

impl Needs {
    /// Computes the needs of a model.
    ///
    /// # Errors
    /// The backend has no kernels for the type of a weight; the error names the tensor and the type.
    pub fn new(model: &Model, device: &Device, options: Options) -> Result<Self, Error> {
        Self::of(model, device, Span::WHOLE, options)
    }

    /// Computes the needs of a part of the model.
    ///
    /// # Errors
    /// Same as [`Needs::new`].
    pub fn of(model: &Model, device: &Device, span: Span, options: Options) -> Result<Self, Error> {
        let config = model.config();
        let mut weights = 0_u64;
        for spec in model.specs().iter().filter(|spec| span.holds(model, spec)) {
            let bytes = match spec.role {
                Role::Vector | Role::Host => product(&[spec.width.into(), 4]),
                Role::Matrix => device.weight_bytes(spec.kind, spec.width.into(), spec.rows.into()),
            };
            if bytes == 0 {
                return Err(Error::message(format!(
                    "backend `{}` has no kernels for {} weights: tensor `{}` of model `{}`",
                    device.backend_id(),
                    spec.kind,
                    spec.name,
                    config.name
                )));
            }
            weights = weights.saturating_add(bytes);
        }
        let n_ctx = u64::from(options.n_ctx);
        let element = match options.cache {
            CacheType::F16 => 2,
            CacheType::F32 => 4,
        };
        let layer = product(&[config.kv_width().into(), n_ctx, element]);
        let rotations = product(&[config.n_rot.into(), n_ctx, 4]);
        let cache = layer.saturating_mul(2 * span.layers(config).len() as u64).saturating_add(rotations);
        let overhead =
            OVERHEAD.iter().find(|(id, _)| *id == device.backend_id()).map_or(0, |(_, bytes)| *bytes);
        let chunk = options.chunk(device.info().kind);
        let (work, scratch) = (buffers(config, span, options, chunk), scratch(config, chunk));
        Ok(Self { weights, cache, work, scratch, overhead })
    }

    /// Bytes that a session allocates: everything but the estimates for kernels and drivers.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        self.weights.saturating_add(self.cache).saturating_add(self.work)
    }

    /// The total in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.fixed().saturating_add(self.cache)
    }

    /// The part that does not grow with the context.
    fn fixed(&self) -> u64 {
        let kernels = self.scratch.saturating_add(self.overhead);
        self.weights.saturating_add(self.work).saturating_add(kernels)
    }

    /// The longest context that fits, given these needs at a context of `n_ctx` tokens; 0 = none.
    #[must_use]
    pub fn longest_context(&self, room: Room, n_ctx: u32) -> u32 {
        let left = room.usable.saturating_sub(self.fixed());
        if self.cache == 0 {
            return 0;
        }
        let fits = u128::from(left) * u128::from(n_ctx) / u128::from(self.cache);
        let fits = u32::try_from(fits).unwrap_or(u32::MAX).min(n_ctx);
        // Buffers are rounded up, so a few tokens are left out, which also gives round numbers.
        if fits == n_ctx { fits } else { fits - fits % STEP_OF_CONTEXT }
    }

    /// Compares the needs with the memory of a device.
    ///
    /// # Errors
    /// The model does not fit; the error has both numbers and suggests what to reduce.
    pub fn check(&self, room: Room, n_ctx: u32) -> Result<(), Error> {
        self.check_as("the model", room, n_ctx)
    }

    pub(super) fn check_as(&self, what: &str, room: Room, n_ctx: u32) -> Result<(), Error> {
        if self.total() <= room.usable {
            return Ok(());
        }
        let remedy = match self.longest_context(room, n_ctx) {
            0 => "a smaller or more quantised model is needed".to_owned(),
            fits => format!("a context of {fits} tokens fits, try `--ctx {fits}` or `--fit-ctx`"),
        };
        Err(Error::message(format!(
            "{what} does not fit: it needs {} ({self} at a context of {n_ctx}) and {} of {} free memory can be used; {remedy}",
            Size(self.total()),
            Size(room.usable),
            Size(room.free),
        )))
    }
}

/// Lowered contexts are multiples of this.
const STEP_OF_CONTEXT: u32 = 64;

/// Bytes of activations, logits and ids that a part allocates.
fn buffers(config: &Config, span: Span, options: Options, chunk: u32) -> u64 {
    let row = |width: u32| product(&[width.into(), chunk.into(), 4]);
    let small = |count: u32| product(&[count.into(), 4]);
    let activations = [
        2_u64.saturating_mul(row(config.n_embd)),
        2_u64.saturating_mul(row(config.q_width())),
        2_u64.saturating_mul(row(config.kv_width())),
        2_u64.saturating_mul(row(config.n_ff)),
        small(chunk),
    ];
    let results = [
        product(&[config.n_vocab.into(), options.logits.rows().into(), 4]),
        small(1),
        small(MAX_REPEAT),
        2 * small(MAX_CANDIDATES.min(config.n_vocab)),
    ];
    let results = results.iter().filter(|_| span.has_output(config));
    activations.iter().chain(results).copied().fold(0, u64::saturating_add)
}

/// Scratch memory, the maximum over all backends: activations rounded to 16 bits, and partial results of split
/// attention.
fn scratch(config: &Config, chunk: u32) -> u64 {
    const SPLITS: u64 = 64;
    let widest = u64::from(config.n_embd.max(config.n_ff).max(config.q_width()));
    let rounded = u64::from(chunk).saturating_mul(2 * widest + 4);
    let partial =
        u64::from(config.n_head).saturating_mul(SPLITS).saturating_mul(u64::from(config.d_head) + 2);
    round(rounded).saturating_add(round(partial.saturating_mul(4)))
}

impl std::ops::Add for Needs {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            weights: self.weights.saturating_add(other.weights),
            cache: self.cache.saturating_add(other.cache),
            work: self.work.saturating_add(other.work),
            scratch: self.scratch.saturating_add(other.scratch),
            overhead: self.overhead.saturating_add(other.overhead),
        }
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { weights, cache, work, scratch, overhead } = *self;
        let work = work.saturating_add(scratch);
        write!(formatter, "weights {}, cache {}, work {}", Size(weights), Size(cache), Size(work))?;
        if overhead == 0 { Ok(()) } else { write!(formatter, ", driver about {}", Size(overhead)) }
    }
}

/// Formats bytes for people.
#[derive(Debug, Clone, Copy)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(formatter, "{} bytes", self.0);
        }
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(formatter, "{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_contains_both_numbers_and_a_remedy() {
        let needs = Needs { weights: 1 << 30, cache: 1 << 30, work: 1 << 20, scratch: 0, overhead: 1 << 20 };
        let card = |free| Room::new(free, Kind::Discrete);
        assert!(needs.check(card(4 << 30), 4096).is_ok());
        let text = needs.check(card(2 << 30), 4096).unwrap_err().to_string();
        assert!(text.contains("needs 2.0 GiB") && text.contains("driver about 1.0 MiB"), "{text}");
        assert!(text.contains("1.9 GiB of 2.0 GiB free"), "{text}");
        assert!(text.contains("--ctx 3648"), "{text}");
        let text = needs.check(card(1 << 30), 4096).unwrap_err().to_string();
        assert!(text.contains("smaller or more quantised"), "{text}");
    }

    #[test]
    fn suggested_context_fits() {
        let needs = |n_ctx: u64| Needs {
            weights: 1 << 30,
            cache: n_ctx * 131_072,
            work: 1 << 20,
            scratch: 0,
            overhead: 0,
        };
        for free in [2 << 30, 3 << 30, (1 << 30) + (300 << 20)] {
            let room = Room::new(free, Kind::Cpu);
            let fits = needs(32_768).longest_context(room, 32_768);
            assert!(needs(fits.into()).check(room, fits).is_ok());
            assert!(needs(u64::from(fits) + 64).check(room, fits + 64).is_err());
        }
        assert_eq!(needs(4096).longest_context(Room::new(1 << 30, Kind::Cpu), 4096), 0);
        assert_eq!(needs(100).longest_context(Room::new(8 << 30, Kind::Cpu), 100), 100);
    }

    #[test]
    fn memory_is_reserved_for_the_rest_of_the_machine() {
        assert_eq!(Room::new(1 << 30, Kind::Cpu).usable, (1 << 30) - (256 << 20));
        assert_eq!(Room::new(1 << 20, Kind::Integrated).usable, 0);
        assert_eq!(Room::new(2000, Kind::Discrete).usable, 1900);
    }

    #[test]
    fn hostile_sizes_saturate() {
        let needs = Needs { weights: u64::MAX, cache: u64::MAX, work: 7, scratch: 0, overhead: 1 };
        assert_eq!(needs.total(), u64::MAX);
        let room = Room::new(u64::MAX, Kind::Discrete);
        assert!(needs.check(room, u32::MAX).is_err());
        assert_eq!(needs.longest_context(room, u32::MAX), 0);
    }
}
