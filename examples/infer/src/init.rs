//! The way in for other programs: which devices there are, one of them opened, and what a model takes on it.

use crate::Error;
use crate::discovery::{self, Answer, Chosen, Request};
use crate::gk::{Device, PREFERENCE};
use crate::model::Model;
use crate::session::{GpuLayers, Needs, Options, Placement};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;

/// Which backend to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// The first that works, in this order: CUDA, ROCm, Metal, Vulkan, SYCL, OpenCL, CPU. Devices that only pose as GPUs are
    /// passed over.
    #[default]
    Auto,
    /// NVIDIA's cards.
    Cuda,
    /// AMD's cards.
    Rocm,
    /// Apple's processors.
    Metal,
    /// Cards of all makers.
    Vulkan,
    /// Intel's cards.
    Sycl,
    /// Whatever has a driver for it.
    OpenCl,
    /// The processor.
    Cpu,
    /// The processor in float64, one thread: slow and right.
    Reference,
}

impl Preference {
    /// The id of the backend; `None` for [`Preference::Auto`].
    #[must_use]
    pub fn id(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Cuda => Some("cuda"),
            Self::Rocm => Some("rocm"),
            Self::Metal => Some("metal"),
            Self::Vulkan => Some("vulkan"),
            Self::Sycl => Some("sycl"),
            Self::OpenCl => Some("opencl"),
            Self::Cpu => Some("cpu"),
            Self::Reference => Some("ref"),
        }
    }

    fn request(self) -> Request {
        Request { backend: self.id().map(str::to_owned), ..Request::default() }
    }
}

/// This program, if it answers probes.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// For the first line of `main` in a program that wants broken drivers to be found in a child process. Where this process is
/// such a child, the answer that it has to print before it ends; otherwise `None`, and from then on the functions of this
/// module start this program again to ask about drivers.
///
/// Without this call they ask in the process itself: a driver that crashes or hangs then does that to the program.
///
/// ```
/// if let Some(answer) = infer::answer_probe() {
///     println!("{answer}");
///     return;
/// }
/// // The program.
/// ```
#[must_use]
pub fn answer_probe() -> Option<String> {
    let arguments: Vec<String> = std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    if let [_, command, id] = arguments.as_slice()
        && command == "__probe"
    {
        return serde_json::to_string(&discovery::examine(id)).ok();
    }
    if let Ok(program) = std::env::current_exe() {
        // A second call finds the same program.
        PROGRAM.get_or_init(|| program);
    }
    None
}

fn look(id: &str) -> Answer {
    match PROGRAM.get() {
        Some(program) => discovery::look(id, program),
        None => discovery::look_here(id),
    }
}

/// All backends in the order of [`Preference::Auto`], each with its devices or the reason why it cannot be used. Memory is in
/// bytes. Takes as long as the slowest driver, ten seconds at most where [`answer_probe`] was called.
///
/// ```
/// for backend in infer::discover() {
///     match &backend.why {
///         Some(why) => println!("{}: {why}", backend.backend),
///         None => println!("{}: {} devices", backend.backend, backend.devices.len()),
///     }
/// }
/// assert_eq!(infer::discover().len(), 7);
/// ```
#[must_use]
pub fn discover() -> Vec<Answer> {
    thread::scope(|scope| {
        let threads = PREFERENCE.map(|id| (id, scope.spawn(move || look(id))));
        threads
            .into_iter()
            .map(|(id, thread)| thread.join().unwrap_or_else(|_| Answer::failed(id, "the probe failed")))
            .collect()
    })
}

/// Opens the preferred device, whatever memory it has left. What comes before it stands in [`Chosen::skipped`].
///
/// ```
/// use infer::{Preference, init};
///
/// match init(Preference::Cpu) {
///     Ok(chosen) => println!("{}: {} bytes free", chosen.device.info().name, chosen.device.info().memory_free),
///     Err(error) => println!("{error}"),
/// }
/// ```
///
/// # Errors
/// The named backend cannot be used, or with [`Preference::Auto`] none can: every reason. Nothing takes the place of a backend
/// that was named.
pub fn init(preference: Preference) -> Result<Chosen, Error> {
    discovery::choose_with(&preference.request(), &look, |_: &Device| Ok(()))
}

/// Opens the preferred device that a model fits with this context: the needs are computed anew for each, since backends keep
/// weights in different layouts. Of a card a twentieth is left alone, of the memory of a processor 256 MiB.
///
/// ```
/// use infer::model::Model;
/// use infer::session::{CacheType, LogitRows, Options};
/// use infer::{Preference, init_with_memory_check};
///
/// let model = Model::from_gguf(infer::default_model::open()?)?;
/// // A cache of two thousand million tokens fits nowhere.
/// let options = Options { n_ctx: 2_000_000_000, cache: CacheType::F32, logits: LogitRows::Last };
/// assert!(init_with_memory_check(Preference::Auto, &model, options).is_err());
/// # Ok::<(), infer::Error>(())
/// ```
///
/// # Errors
/// As [`init`]; a device that is too small says how much is missing, and which context fits.
pub fn init_with_memory_check(
    preference: Preference,
    model: &Model,
    options: Options,
) -> Result<Chosen, Error> {
    discovery::choose_with(&preference.request(), &look, |device: &Device| {
        Placement::from(device.clone()).check(model, options)
    })
}

/// As [`init_with_memory_check`], with some of the layers on the processor: as many as are asked for, or as many as the memory
/// of the GPU does not hold. The devices and their parts stand in [`Chosen::found`], for [`Session::new`]; both are checked.
///
/// [`Session::new`]: crate::session::Session::new
///
/// ```
/// use infer::model::Model;
/// use infer::session::{CacheType, GpuLayers, LogitRows, Options, Session};
/// use infer::{Preference, init_split_with_memory_check};
///
/// let model = Model::from_gguf(infer::default_model::open()?)?;
/// let options = Options { n_ctx: 128, cache: CacheType::F16, logits: LogitRows::Last };
/// // The whole model on a GPU that holds it, a part where there is less room, and all on the processor without one.
/// if let Ok(chosen) = init_split_with_memory_check(Preference::Auto, &model, options, GpuLayers::Fit) {
///     let session = Session::new(&model, chosen.found, options)?;
///     println!("{:?} layers on the GPU, the others on the processor", session.gpu_layers());
/// }
/// # Ok::<(), infer::Error>(())
/// ```
///
/// # Errors
/// As [`init_with_memory_check`]; a number of layers that the model does not have, or for a backend that is the processor.
pub fn init_split_with_memory_check(
    preference: Preference,
    model: &Model,
    options: Options,
    gpu_layers: GpuLayers,
) -> Result<Chosen<Placement>, Error> {
    let (backend, gpu_layers) = gpu_layers.settle(preference.id())?;
    let request = Request { backend, ..preference.request() };
    discovery::choose_with(&request, &look, |device: &Device| {
        let placement = gpu_layers.place(model, device, || request.open_processor(), options)?;
        placement.check(model, options)?;
        Ok(placement)
    })
}

/// Bytes that a model takes on a device with a context of `options.n_ctx` tokens. Weights, caches and activations are what a
/// session allocates, to the byte; what kernels and drivers take for themselves is estimated.
///
/// ```
/// use infer::model::Model;
/// use infer::session::{CacheType, LogitRows, Options};
/// use infer::{Preference, estimate_memory, init};
///
/// let model = Model::from_gguf(infer::default_model::open()?)?;
/// if let Ok(chosen) = init(Preference::Cpu) {
///     let options = |n_ctx| Options { n_ctx, cache: CacheType::F16, logits: LogitRows::Last };
///     let short = estimate_memory(&model, &chosen.device, options(128))?;
///     let long = estimate_memory(&model, &chosen.device, options(256))?;
///     assert_eq!(long.cache, 2 * short.cache);
///     assert_eq!(long.weights, short.weights);
///     println!("{} bytes: {long}", long.total());
/// }
/// # Ok::<(), infer::Error>(())
/// ```
///
/// # Errors
/// The backend has no kernels for the type of a weight.
pub fn estimate_memory(model: &Model, device: &Device, options: Options) -> Result<Needs, Error> {
    Needs::new(model, device, options)
}

/// The same for each part of a model that is split, in the order of the layers.
///
/// ```
/// use infer::model::Model;
/// use infer::session::{CacheType, LogitRows, Options, Placement};
/// use infer::{Preference, estimate_memory_split, init};
///
/// let model = Model::from_gguf(infer::default_model::open()?)?;
/// if let (Ok(first), Ok(second)) = (init(Preference::Cpu), init(Preference::Auto)) {
///     let placement = Placement::split(&model, first.device, second.device, 2)?;
///     let options = Options { n_ctx: 128, cache: CacheType::F16, logits: LogitRows::Last };
///     for ((device, span), needs) in
///         placement.parts().iter().zip(estimate_memory_split(&model, &placement, options)?)
///     {
///         println!("{} on {}: {} bytes", span.describe(model.config()), device.backend_id(), needs.total());
///     }
/// }
/// # Ok::<(), infer::Error>(())
/// ```
///
/// # Errors
/// As [`estimate_memory`].
pub fn estimate_memory_split(
    model: &Model,
    placement: &Placement,
    options: Options,
) -> Result<Vec<Needs>, Error> {
    placement.parts().iter().map(|(device, span)| Needs::of(model, device, *span, options)).collect()
}
