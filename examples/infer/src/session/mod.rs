//! A model on its devices: weights and caches stay there, token ids are uploaded, logits or ids downloaded.
//! If two devices share the model, the activations of the first are transferred to the second.

mod memory;
mod part;
mod placement;
mod plan;
mod state;
mod weights;

pub use memory::{CHUNK, CacheType, LogitRows, Needs, Options, Room, Size};
pub use placement::{GpuLayers, Placement, Share, Span, layers_that_fit, longest_context};
pub use plan::Output;
pub use state::{MAX_CANDIDATES, MAX_REPEAT};

use crate::Error;
use crate::gk::{Device, Fusion, Plan, PlanInfo, Step};
use crate::model::{Config, Model};
use part::Part;
use state::Results;

/// A loaded model with one text in its cache.
#[derive(Debug)]
pub struct Session {
    config: Config,
    options: Options,
    /// In the order of the layers; not empty, and the last part has the output.
    parts: Vec<Part>,
    position: u32,
    /// Positions of the cache that hold a token, of this text or of an earlier one.
    written: u32,
}

impl Session {
    /// Compares the needs of the model with the free memory of each device, allocates, and uploads.
    ///
    /// # Errors
    /// The model does not fit, a backend has no kernels for it, or a device fails.
    pub fn new(model: &Model, placement: impl Into<Placement>, options: Options) -> Result<Self, Error> {
        Self::with_progress(model, placement, options, &mut |_, _| ())
    }

    /// Same as [`Session::new`]; `progress` receives the uploaded and the total bytes of the weights.
    ///
    /// # Errors
    /// Same as [`Session::new`].
    pub fn with_progress(
        model: &Model,
        placement: impl Into<Placement>,
        options: Options,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, Error> {
        if options.n_ctx == 0 || i32::try_from(options.n_ctx).is_err() {
            return Err(Error::message(format!("a context of {} tokens is not possible", options.n_ctx)));
        }
        let placement = placement.into();
        let shares = placement.shares(model, options)?;
        for share in &shares {
            share.check(options.n_ctx)?;
        }
        let total = shares.iter().map(|share| share.needs.weights).sum();
        let (mut parts, mut before) = (Vec::new(), 0);
        for share in &shares {
            let mut progress = |done| progress(before + done, total);
            parts.push(Part::new(model, share.device.clone(), share.span, options, &mut progress)?);
            before += share.needs.weights;
        }
        Ok(Self { config: model.config().clone(), options, parts, position: 0, written: 0 })
    }

    fn last(&self) -> &Part {
        &self.parts[self.parts.len() - 1]
    }

    fn results(&self) -> &Results {
        let results = self.last().state.results.as_ref();
        results.unwrap_or_else(|| unreachable!("the last part has the output"))
    }

    /// The device; with two devices, the one with the output.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.last().device
    }

    /// All devices, in the order of their layers.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.parts.iter().map(|part| &part.device)
    }

    /// Layers on the second device, counting the output as one; `None` with a single device.
    #[must_use]
    pub fn gpu_layers(&self) -> Option<u32> {
        let [_, gpu] = self.parts.as_slice() else { return None };
        Some(self.config.n_layer + 1 - gpu.span.first)
    }

    /// Tokens in the cache.
    #[must_use]
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Tokens that still fit in the context.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.options.n_ctx - self.position
    }

    /// Removes all but the first tokens of the text.
    pub fn rewind(&mut self, position: u32) {
        self.position = self.position.min(position);
    }

    /// Removes the text.
    pub fn reset(&mut self) {
        self.position = 0;
    }

    /// Continues after the first `position` tokens in the cache, including those of earlier texts; for
    /// measurements.
    ///
    /// # Errors
    /// The cache never held that many tokens.
    pub fn seek(&mut self, position: u32) -> Result<(), Error> {
        if position > self.written {
            return Err(Error::message(format!(
                "the cache has {} tokens, so position {position} does not exist",
                self.written
            )));
        }
        self.position = position;
        Ok(())
    }

    /// Enables or disables fused ops in new plans.
    pub fn set_fusion(&mut self, fusion: Fusion) {
        for part in &mut self.parts {
            part.device.set_fusion(fusion);
            part.forget_plans();
        }
    }

    fn advance(&mut self, tokens: u32) {
        self.position += tokens;
        self.written = self.written.max(self.position);
    }

    /// Feeds tokens, a chunk at a time; computes `output` for the last chunk.
    ///
    /// # Errors
    /// No tokens, more than fit in the cache, or the device fails.
    pub fn feed(&mut self, tokens: &[u32], output: Output) -> Result<(), Error> {
        let count = tokens.len();
        if tokens.is_empty() {
            return Err(Error::message("the prompt is empty: no token to start from"));
        }
        if count as u64 > u64::from(self.room()) {
            return Err(Error::message(format!(
                "{count} tokens do not fit: {} of the {} of this context are in use; increase `--ctx`",
                self.position, self.options.n_ctx
            )));
        }
        if let Some(unknown) = tokens.iter().find(|id| **id >= self.config.n_vocab) {
            return Err(Error::message(format!(
                "token {unknown} is outside the vocabulary of {}",
                self.config.n_vocab
            )));
        }
        let chunks = tokens.chunks(self.chunk() as usize);
        let last = chunks.len() - 1;
        for (index, chunk) in chunks.enumerate() {
            self.parts[0].state.tokens.write(chunk)?;
            self.run(chunk.len(), if index == last { output } else { Output::Nothing })?;
        }
        Ok(())
    }

    fn run(&mut self, tokens: usize, output: Output) -> Result<(), Error> {
        let count = u32::try_from(tokens).unwrap_or(u32::MAX);
        let rows = self.rows_for(count);
        let step = Step { tokens: count, position: self.position, run: 0 };
        let last = self.parts.len() - 1;
        for index in 0..=last {
            let output = if index == last { output } else { Output::Nothing };
            let (before, rest) = self.parts.split_at_mut(index);
            let part = &mut rest[0];
            if !part.works(&self.config, output) {
                continue;
            }
            if let Some(before) = before.last() {
                let stream = before.state.stream.read::<f32>(tokens * self.config.n_embd as usize)?;
                part.state.stream.write(&stream)?;
            }
            part.run(&self.config, (rows, output), step, 1)?;
        }
        self.advance(step.tokens);
        Ok(())
    }

    /// Tokens of a prompt that are computed at once.
    #[must_use]
    pub fn chunk(&self) -> u32 {
        let chunks = self.parts.iter().map(|part| self.options.chunk(part.device.info().kind));
        chunks.min().unwrap_or(CHUNK)
    }

    /// Rows of the plans for prompts and single tokens: a plan with many rows is slow for few tokens.
    #[must_use]
    pub fn plan_rows(&self) -> [u32; 4] {
        [1, 8, CHUNK, self.chunk()]
    }

    /// Rows of the plan for this many tokens.
    fn rows_for(&self, tokens: u32) -> u32 {
        let [.., most] = self.plan_rows();
        self.plan_rows().into_iter().find(|rows| tokens <= *rows).unwrap_or(most)
    }

    /// Builds the plans for an output unless they exist. Calling it early excludes this from measured times.
    ///
    /// # Errors
    /// The backend refuses an op.
    pub fn prepare(&mut self, rows: u32, output: Output) -> Result<(), Error> {
        let Some((last, others)) = self.parts.split_last_mut() else { return Ok(()) };
        for part in &mut *others {
            part.prepare(&self.config, rows, Output::Nothing)?;
        }
        // If another device has the embedding table, an id has to go through the host.
        let output = if output == Output::Feedback && !others.is_empty() { Output::Best } else { output };
        if last.works(&self.config, output) { last.prepare(&self.config, rows, output) } else { Ok(()) }
    }

    /// Ops of the prepared plan for this number of rows and output, counting a fused op as one; with two
    /// devices, of the last.
    #[must_use]
    pub fn ops(&self, rows: u32, output: Output) -> Option<u32> {
        self.last().plan(rows, output).map(Plan::ops)
    }

    /// How the prepared plan for this number of rows and output is run; with two devices, on the last.
    ///
    /// # Errors
    /// The backend fails.
    pub fn plan_info(&self, rows: u32, output: Output) -> Result<Option<PlanInfo>, Error> {
        Ok(self.last().plan(rows, output).map(Plan::info).transpose()?)
    }

    /// The token that [`Output::Best`] computed. It becomes the input of [`Session::generate`].
    ///
    /// # Errors
    /// The device fails.
    pub fn best(&mut self) -> Result<u32, Error> {
        let id = self.results().next.read::<u32>(1)?[0];
        self.parts[0].state.tokens.write(&[id])?;
        Ok(id)
    }

    /// Generates `count` tokens greedily, each from the previous one; on a single device without the host in
    /// between. `count` is at most [`MAX_REPEAT`] and must fit in the cache.
    ///
    /// # Errors
    /// The device fails, or the tokens do not fit.
    pub fn generate(&mut self, count: u32) -> Result<Vec<u32>, Error> {
        if count > self.room().min(MAX_REPEAT) || count == 0 {
            return Err(Error::message(format!("cannot generate {count} tokens, only {} fit", self.room())));
        }
        let [part] = self.parts.as_mut_slice() else {
            return (0..count).map(|_| self.run(1, Output::Best).and_then(|()| self.best())).collect();
        };
        let step = Step { tokens: 1, position: self.position, run: 0 };
        part.run(&self.config, (1, Output::Feedback), step, count)?;
        self.advance(count);
        Ok(self.results().history.read(count as usize)?)
    }

    /// The candidates that [`Output::Candidates`] computed: ids and logits, best first.
    ///
    /// # Errors
    /// The device fails.
    pub fn candidates(&self, count: u32) -> Result<Vec<(u32, f32)>, Error> {
        let results = self.results();
        let count = count.min(results.top_ids.ne[0]) as usize;
        let ids = results.top_ids.read::<u32>(count)?;
        Ok(ids.into_iter().zip(results.top_values.read::<f32>(count)?).collect())
    }

    /// Logits of the first `rows` rows of the last run.
    ///
    /// # Errors
    /// The device fails, or the session stores fewer rows.
    pub fn logits(&self, rows: usize) -> Result<Vec<f32>, Error> {
        Ok(self.results().logits.read(rows * self.config.n_vocab as usize)?)
    }
}
