//! A part of a model on its device: weights, caches, activations and plans.

use super::memory::Options;
use super::placement::Span;
use super::plan::{Builder, Output};
use super::state::State;
use super::weights::Weights;
use crate::Error;
use crate::gk::{Device, Plan, Step};
use crate::model::{Config, Model};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Part {
    pub(super) device: Device,
    pub(super) span: Span,
    weights: Weights,
    pub(super) state: State,
    plans: BTreeMap<(u32, Output), Plan>,
}

impl Part {
    /// Allocates, then uploads; `progress` receives the uploaded bytes of the weights.
    pub(super) fn new(
        model: &Model,
        device: Device,
        span: Span,
        options: Options,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        let state = State::new(model, &device, span, options)?;
        let weights = Weights::upload(model, &device, span, progress)?;
        Ok(Self { device, span, weights, state, plans: BTreeMap::new() })
    }

    /// True if this part has to compute something for an output.
    pub(super) fn works(&self, config: &Config, output: Output) -> bool {
        !self.span.layers(config).is_empty() || output != Output::Nothing
    }

    /// Builds a plan unless it exists.
    pub(super) fn prepare(&mut self, config: &Config, rows: u32, output: Output) -> Result<(), Error> {
        if !self.plans.contains_key(&(rows, output)) {
            let (weights, state) = (&self.weights, &self.state);
            let builder = Builder { config, span: self.span, weights, state, rows };
            let plan = self.device.plan(&builder.build(output))?;
            self.plans.insert((rows, output), plan);
        }
        Ok(())
    }

    /// A plan that was built.
    pub(super) fn plan(&self, rows: u32, output: Output) -> Option<&Plan> {
        self.plans.get(&(rows, output))
    }

    /// Removes all plans; new ones use the current settings of the device.
    pub(super) fn forget_plans(&mut self) {
        self.plans.clear();
    }

    /// Runs a plan, and builds it first if necessary.
    pub(super) fn run(
        &mut self,
        config: &Config,
        (rows, output): (u32, Output),
        step: Step,
        repeat: u32,
    ) -> Result<(), Error> {
        self.prepare(config, rows, output)?;
        Ok(self.device.run(&self.plans[&(rows, output)], step, repeat)?)
    }
}
