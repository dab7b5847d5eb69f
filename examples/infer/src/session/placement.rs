//! Distributes a model over devices: one device has all of it, or the CPU has the first layers and a GPU the
//! rest.

use super::memory::{Needs, Options, Room};
use crate::Error;
use crate::gk::Device;
use crate::model::tensors::{OUTPUT, OUTPUT_BIAS, OUTPUT_NORM, Role, Spec, TOKEN_EMBD};
use crate::model::{Config, Model};
use std::ops::Range;

/// A part of a model: layers `first .. end`. The output counts as one layer, after all others; the embedding
/// table belongs to layer 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first layer.
    pub first: u32,
    /// The layer after the last one.
    pub end: u32,
}

impl Span {
    /// The complete model.
    pub const WHOLE: Self = Self { first: 0, end: u32::MAX };

    pub(super) fn has_input(self) -> bool {
        self.first == 0
    }

    pub(super) fn has_output(self, config: &Config) -> bool {
        self.end > config.n_layer
    }

    /// Its layers without the output.
    pub(super) fn layers(self, config: &Config) -> Range<u32> {
        self.first..self.end.min(config.n_layer)
    }

    /// True if a device with this part needs a tensor.
    pub(super) fn holds(self, model: &Model, spec: &Spec) -> bool {
        if spec.role == Role::Host {
            return false;
        }
        match (spec.layer, spec.name.as_str()) {
            (Some(layer), _) => self.layers(model.config()).contains(&layer),
            (None, TOKEN_EMBD) => self.has_input() || (self.has_output(model.config()) && model.is_tied()),
            (None, OUTPUT | OUTPUT_NORM | OUTPUT_BIAS) => self.has_output(model.config()),
            // The file has been checked: there are no other tensors.
            (None, _) => false,
        }
    }

    /// A description such as "layers 3 to 7 and the output".
    #[must_use]
    pub fn describe(self, config: &Config) -> String {
        let layers = self.layers(config);
        let words = match layers.len() {
            0 => String::new(),
            1 => format!("layer {}", layers.start),
            _ => format!("layers {} to {}", layers.start, layers.end - 1),
        };
        match (self.has_output(config), words.is_empty()) {
            (false, _) => words,
            (true, true) => "the output".to_owned(),
            (true, false) => format!("{words} and the output"),
        }
    }
}

/// How much of a model a GPU gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuLayers {
    /// All of it, or an error.
    #[default]
    All,
    /// This many of the last layers, counting the output as one, like llama.cpp. The CPU gets the others.
    Last(u32),
    /// As many as fit in its memory.
    Fit,
}

impl std::str::FromStr for GpuLayers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "fit" | "auto" => Ok(Self::Fit),
            number => {
                number.parse().map(Self::Last).map_err(|_| "expected a number, `all` or `fit`".to_owned())
            }
        }
    }
}

/// True if the backend with this id computes on the CPU.
fn is_processor(id: &str) -> bool {
    matches!(id, "cpu" | "ref")
}

impl GpuLayers {
    /// The backend to request, and how much it gets: without any layer for a GPU it is the CPU.
    ///
    /// # Errors
    /// The named backend contradicts the number of layers.
    pub fn settle(self, backend: Option<&str>) -> Result<(Option<String>, Self), Error> {
        match (self, backend) {
            (Self::Last(0), None) => Ok((Some("cpu".to_owned()), Self::All)),
            (Self::Last(0), Some(id)) if is_processor(id) => Ok((Some(id.to_owned()), Self::All)),
            (Self::Last(0), Some(id)) => Err(Error::message(format!(
                "`--gpu-layers 0` leaves no layer for backend `{id}`\nhint: `--backend cpu` keeps all layers on the CPU"
            ))),
            (Self::Last(_) | Self::Fit, Some(id)) if is_processor(id) => Err(Error::message(format!(
                "backend `{id}` runs on the CPU: `--gpu-layers` has no effect there\nhint: omit it, or name a GPU backend"
            ))),
            (layers, backend) => Ok((backend.map(str::to_owned), layers)),
        }
    }

    /// Places a model on a device and, if that does not get all layers, on the CPU, which `processor` opens.
    ///
    /// # Errors
    /// More layers than the model has, a number of layers for a CPU, or not even the output fits.
    pub fn place(
        self,
        model: &Model,
        device: &Device,
        processor: impl FnOnce() -> Result<Device, Error>,
        options: Options,
    ) -> Result<Placement, Error> {
        let on_processor = is_processor(device.backend_id());
        let count = match self {
            Self::Fit if !on_processor => {
                let count = layers_that_fit(model, device, options, Room::on(device)?)?;
                if count == 0 {
                    return Err(Error::message("not even the output of the model fits in its memory"));
                }
                count
            }
            Self::Last(_) if on_processor => {
                return Err(Error::message("it is the CPU, and `--gpu-layers` requires a GPU"));
            }
            Self::All | Self::Fit => return Ok(device.clone().into()),
            Self::Last(count) => count,
        };
        if count == layers(model) {
            return Ok(device.clone().into());
        }
        Placement::split(model, processor()?, device.clone(), count)
    }
}

/// Layers of a model, including the output.
fn layers(model: &Model) -> u32 {
    model.config().n_layer.saturating_add(1)
}

/// The last `count` layers.
fn last(model: &Model, count: u32) -> Span {
    match layers(model).saturating_sub(count) {
        0 => Span::WHOLE,
        first => Span { first, end: u32::MAX },
    }
}

/// Number of last layers that fit a device, counting the output as one; 0 if not even the output fits.
///
/// # Errors
/// The backend has no kernels for the type of a weight.
pub fn layers_that_fit(model: &Model, device: &Device, options: Options, room: Room) -> Result<u32, Error> {
    let fits = |count| -> Result<bool, Error> {
        Ok(Needs::of(model, device, last(model, count), options)?.total() <= room.usable)
    };
    // Needs never decrease with more layers.
    let (mut least, mut most) = (0, layers(model));
    while least < most {
        let middle = most - (most - least) / 2;
        if fits(middle)? {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    Ok(least)
}

/// A model on one device or two. A [`Device`] converts to a placement of the complete model.
#[derive(Debug, Clone)]
pub struct Placement(Vec<(Device, Span)>);

impl From<Device> for Placement {
    fn from(device: Device) -> Self {
        Self(vec![(device, Span::WHOLE)])
    }
}

impl Placement {
    /// The last `gpu_layers` layers, counting the output as one, on the second device, and the others with
    /// the embedding table on the first.
    ///
    /// # Errors
    /// The model has fewer layers.
    pub fn split(model: &Model, processor: Device, gpu: Device, gpu_layers: u32) -> Result<Self, Error> {
        let all = layers(model);
        match all.checked_sub(gpu_layers) {
            None => Err(Error::message(format!(
                "{gpu_layers} layers cannot be put on a GPU: model `{}` has {}, and the output counts as one more\n\
                 hint: `--gpu-layers` takes up to {all}, or `all`",
                model.config().name,
                all - 1
            ))),
            Some(0) => Ok(gpu.into()),
            Some(_) if gpu_layers == 0 => Ok(processor.into()),
            Some(cut) => Ok(Self(vec![
                (processor, Span { first: 0, end: cut }),
                (gpu, Span { first: cut, end: u32::MAX }),
            ])),
        }
    }

    /// Devices and their parts, in the order of the layers.
    #[must_use]
    pub fn parts(&self) -> &[(Device, Span)] {
        &self.0
    }

    /// Compares the needs of each part with the memory of its device.
    ///
    /// # Errors
    /// A part does not fit, or an error of [`Placement::shares`].
    pub fn check(&self, model: &Model, options: Options) -> Result<(), Error> {
        self.shares(model, options)?.iter().try_for_each(|share| share.check(options.n_ctx))
    }

    /// The needs of each part, and the current free memory of its device.
    ///
    /// # Errors
    /// Same as [`Needs::of`], or a device does not answer.
    pub fn shares(&self, model: &Model, options: Options) -> Result<Vec<Share<'_>>, Error> {
        let mut shares = Vec::new();
        let mut beside = Needs::default();
        // From the last to the first: a GPU without dedicated memory reduces the memory of the CPU.
        for (device, span) in self.0.iter().rev() {
            let needs = Needs::of(model, device, *span, options)?;
            shares.push(Share { device, span: *span, needs, beside, room: Room::on(device)? });
            if device.info().kind != crate::gk::Kind::Discrete {
                beside = needs;
            }
        }
        shares.reverse();
        Ok(shares)
    }
}

/// The needs of a part of a model on its device.
#[derive(Debug, Clone, Copy)]
pub struct Share<'a> {
    /// The device.
    pub device: &'a Device,
    /// The part.
    pub span: Span,
    /// Memory that the part needs.
    pub needs: Needs,
    /// Memory that the other part needs on the same device memory.
    pub beside: Needs,
    /// Memory of the device.
    pub room: Room,
}

impl Share<'_> {
    /// Compares the needs with the memory of the device.
    ///
    /// # Errors
    /// The part does not fit; the error has both numbers and suggests what to reduce.
    pub fn check(&self, n_ctx: u32) -> Result<(), Error> {
        let id = self.device.backend_id();
        let what = if self.span == Span::WHOLE {
            "the model".to_owned()
        } else {
            format!("the part of the model on `{id}`")
        };
        let fewer = if is_processor(id) {
            ""
        } else {
            "; `--gpu-layers fit` keeps the layers that do not fit on the CPU"
        };
        (self.needs + self.beside)
            .check_as(&what, self.room, n_ctx)
            .map_err(|error| Error::message(format!("{error}{fewer}")))
    }
}

/// The longest context that fits all devices, given the shares at `n_ctx` tokens; 0 = none.
#[must_use]
pub fn longest_context(shares: &[Share<'_>], n_ctx: u32) -> u32 {
    let fits = |share: &Share<'_>| (share.needs + share.beside).longest_context(share.room, n_ctx);
    shares.iter().map(fits).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layer_arguments_are_parsed() {
        for (text, expected) in [
            ("all", GpuLayers::All),
            ("fit", GpuLayers::Fit),
            ("auto", GpuLayers::Fit),
            ("0", GpuLayers::Last(0)),
            ("99", GpuLayers::Last(99)),
        ] {
            assert_eq!(text.parse(), Ok(expected));
        }
        for text in ["", "-1", "1.5", "most", "4294967296"] {
            assert!(text.parse::<GpuLayers>().is_err(), "{text}");
        }
    }

    #[test]
    fn layers_and_backends_agree() {
        let settle = |layers: GpuLayers, backend| layers.settle(backend).ok();
        let named = |id: &str| Some(id.to_owned());
        assert_eq!(settle(GpuLayers::Last(0), None), Some((named("cpu"), GpuLayers::All)));
        assert_eq!(settle(GpuLayers::Last(0), Some("ref")), Some((named("ref"), GpuLayers::All)));
        assert_eq!(settle(GpuLayers::Last(0), Some("cuda")), None);
        assert_eq!(settle(GpuLayers::Last(1), Some("cuda")), Some((named("cuda"), GpuLayers::Last(1))));
        assert_eq!(settle(GpuLayers::Last(1), Some("cpu")), None);
        assert_eq!(settle(GpuLayers::Fit, Some("cpu")), None);
        assert_eq!(settle(GpuLayers::All, Some("cpu")), Some((named("cpu"), GpuLayers::All)));
        assert_eq!(settle(GpuLayers::Fit, None), Some((None, GpuLayers::Fit)));
    }

    #[test]
    fn parts_are_described_with_their_layers() {
        let config = Model::random(crate::model::RandomSize(1_000_000), crate::gguf::TensorType::F16);
        let config = Config { n_layer: 8, ..config.config().clone() };
        let describe = |first, end| Span { first, end }.describe(&config);
        assert_eq!(describe(0, 1), "layer 0");
        assert_eq!(describe(0, 5), "layers 0 to 4");
        assert_eq!(describe(5, u32::MAX), "layers 5 to 7 and the output");
        assert_eq!(describe(8, u32::MAX), "the output");
    }
}
