//! A model on a device: weights and caches stay there, token ids go up, logits or ids come down.

mod memory;
mod plan;
mod state;
mod weights;

pub use memory::{CHUNK, CacheType, LogitRows, Needs, Options, Room, Size};
pub use plan::Output;
pub use state::{MAX_CANDIDATES, MAX_REPEAT};

use crate::Error;
use crate::gk::{Device, Kind, Plan, Step};
use crate::model::{Config, Model};
use state::State;
use std::collections::BTreeMap;
use weights::Weights;

/// A loaded model with one text in its cache.
#[derive(Debug)]
pub struct Session {
    device: Device,
    config: Config,
    options: Options,
    weights: Weights,
    state: State,
    plans: BTreeMap<(u32, Output), Plan>,
    position: u32,
}

impl Session {
    /// Compares what the model needs with the free memory, allocates, uploads.
    ///
    /// # Errors
    /// It does not fit, the backend has no kernels for it, or the device fails.
    pub fn new(model: &Model, device: Device, max_buffer: u64, options: Options) -> Result<Self, Error> {
        Self::with_progress(model, device, max_buffer, options, &mut |_, _| ())
    }

    /// As [`Session::new`]; `progress` is told how many bytes of the weights are there, and of how many.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn with_progress(
        model: &Model,
        device: Device,
        max_buffer: u64,
        options: Options,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, Error> {
        if options.n_ctx == 0 || i32::try_from(options.n_ctx).is_err() {
            return Err(Error::message(format!("a context of {} tokens is not possible", options.n_ctx)));
        }
        // What kind a device is was a question when it was chosen; by now its backend says enough.
        let kind = if matches!(device.backend_id(), "cpu" | "ref") { Kind::Cpu } else { Kind::Discrete };
        Needs::new(model, &device, options)?.check(Room::on(&device, kind)?, options.n_ctx)?;
        let state = State::new(model, &device, options)?;
        let weights = Weights::upload(model, &device, max_buffer, progress)?;
        let config = model.config().clone();
        Ok(Self { device, config, options, weights, state, plans: BTreeMap::new(), position: 0 })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Tokens in the cache.
    #[must_use]
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Tokens that still fit.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.options.n_ctx - self.position
    }

    /// Forgets all but the first tokens of the text.
    pub fn rewind(&mut self, position: u32) {
        self.position = self.position.min(position);
    }

    /// Forgets the text.
    pub fn reset(&mut self) {
        self.position = 0;
    }

    /// Feeds tokens, a chunk at a time; `output` is made for the last chunk.
    ///
    /// # Errors
    /// No tokens, more than fit in the cache, or the device fails.
    pub fn feed(&mut self, tokens: &[u32], output: Output) -> Result<(), Error> {
        let count = tokens.len();
        if tokens.is_empty() {
            return Err(Error::message("there is no token to start from: the prompt is empty"));
        }
        if count as u64 > u64::from(self.room()) {
            return Err(Error::message(format!(
                "{count} tokens do not fit: {} of the {} of this context are in use; a larger `--ctx` helps",
                self.position, self.options.n_ctx
            )));
        }
        if let Some(stranger) = tokens.iter().find(|id| **id >= self.config.n_vocab) {
            return Err(Error::message(format!(
                "token {stranger} is outside the vocabulary of {}",
                self.config.n_vocab
            )));
        }
        let chunks = tokens.chunks(CHUNK as usize);
        let last = chunks.len() - 1;
        for (index, chunk) in chunks.enumerate() {
            self.state.tokens.write(chunk)?;
            self.run(chunk.len(), if index == last { output } else { Output::Nothing })?;
        }
        Ok(())
    }

    fn run(&mut self, tokens: usize, output: Output) -> Result<(), Error> {
        let rows = if tokens == 1 { 1 } else { CHUNK };
        self.prepare(rows, output)?;
        let tokens = u32::try_from(tokens).unwrap_or(CHUNK);
        let step = Step { tokens, position: self.position, run: 0 };
        self.device.run(&self.plans[&(rows, output)], step, 1)?;
        self.position += tokens;
        Ok(())
    }

    /// Builds a plan unless it is there. Doing so early keeps it out of measured times.
    ///
    /// # Errors
    /// The backend refuses an op.
    pub fn prepare(&mut self, rows: u32, output: Output) -> Result<(), Error> {
        if !self.plans.contains_key(&(rows, output)) {
            let builder =
                plan::Builder { config: &self.config, weights: &self.weights, state: &self.state, rows };
            let plan = self.device.plan(&builder.build(output))?;
            self.plans.insert((rows, output), plan);
        }
        Ok(())
    }

    /// The token that [`Output::Best`] found. It becomes the input of [`Session::generate`].
    ///
    /// # Errors
    /// The device fails.
    pub fn best(&mut self) -> Result<u32, Error> {
        let id = self.state.next.read::<u32>(1)?[0];
        self.state.tokens.write(&[id])?;
        Ok(id)
    }

    /// Generates `count` tokens greedily, each from the one before, without the host in between. At most
    /// [`MAX_REPEAT`] and what fits in the cache.
    ///
    /// # Errors
    /// The device fails, or there is no room.
    pub fn generate(&mut self, count: u32) -> Result<Vec<u32>, Error> {
        if count > self.room().min(MAX_REPEAT) || count == 0 {
            return Err(Error::message(format!("{count} tokens cannot be generated, {} fit", self.room())));
        }
        self.prepare(1, Output::Feedback)?;
        let step = Step { tokens: 1, position: self.position, run: 0 };
        self.device.run(&self.plans[&(1, Output::Feedback)], step, count)?;
        self.position += count;
        Ok(self.state.history.read(count as usize)?)
    }

    /// The candidates that [`Output::Candidates`] found: ids and logits, best first.
    ///
    /// # Errors
    /// The device fails.
    pub fn candidates(&self, count: u32) -> Result<Vec<(u32, f32)>, Error> {
        let count = count.min(self.state.top_ids.ne[0]) as usize;
        let ids = self.state.top_ids.read::<u32>(count)?;
        Ok(ids.into_iter().zip(self.state.top_values.read::<f32>(count)?).collect())
    }

    /// Logits of the first `rows` rows that the last run left.
    ///
    /// # Errors
    /// The device fails, or the session keeps fewer rows.
    pub fn logits(&self, rows: usize) -> Result<Vec<f32>, Error> {
        Ok(self.state.logits.read(rows * self.config.n_vocab as usize)?)
    }
}
