//! The library's entry points: list devices, open one, and estimate the memory of a model on it.

use crate::Error;
use crate::discovery::{self, Answer, Chosen, Request};
use crate::gk::{Device, PREFERENCE};
use crate::model::Model;
use crate::session::{GpuLayers, Needs, Options, Placement};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;

/// The backend to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// The first that works, in this order: CUDA, ROCm, Metal, Vulkan, SYCL, OpenCL, CPU. Skips software
    /// devices.
    #[default]
    Auto,
    /// NVIDIA GPUs.
    Cuda,
    /// AMD GPUs.
    Rocm,
    /// Apple GPUs.
    Metal,
    /// GPUs of all vendors.
    Vulkan,
    /// Intel GPUs.
    Sycl,
    /// Any device with an OpenCL driver.
    OpenCl,
    /// The CPU.
    Cpu,
    /// The CPU in float64, one thread: slow and exact.
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

/// The path of this program, if it answers probes.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Makes the functions of this module probe drivers in child processes. Call it first in `main`: in such a child it
/// returns the answer to print before exiting, otherwise `None`.
///
/// Without this call drivers are probed in the process itself, which a driver can crash or hang.
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

/// All backends in the order of [`Preference::Auto`], each with its devices or the reason why it cannot be used. Memory
/// is in bytes. Takes as long as the slowest driver, at most ten seconds if [`answer_probe`] was called.
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

/// Opens the preferred device, regardless of its free memory. [`Chosen::skipped`] lists what was tried before.
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
/// The named backend cannot be used, or with [`Preference::Auto`] none can; the message lists every reason. A named
/// backend is never replaced by another.
pub fn init(preference: Preference) -> Result<Chosen, Error> {
    discovery::choose_with(&preference.request(), &look, |_: &Device| Ok(()))
}

/// Opens the preferred device that a model fits with this context. The needs are computed for each device, because
/// backends store weights in different layouts. Reserves 5 % of a discrete GPU's memory, and 256 MiB of the main memory.
///
/// ```
/// use infer::model::Model;
/// use infer::session::{CacheType, LogitRows, Options};
/// use infer::{Preference, init_with_memory_check};
///
/// let model = Model::from_gguf(infer::default_model::open()?)?;
/// // A cache of two billion tokens fits nowhere.
/// let options = Options { n_ctx: 2_000_000_000, cache: CacheType::F32, logits: LogitRows::Last };
/// assert!(init_with_memory_check(Preference::Auto, &model, options).is_err());
/// # Ok::<(), infer::Error>(())
/// ```
///
/// # Errors
/// Same as [`init`]; for a device that is too small the reason says how much is missing, and which context fits.
pub fn init_with_memory_check(
    preference: Preference,
    model: &Model,
    options: Options,
) -> Result<Chosen, Error> {
    discovery::choose_with(&preference.request(), &look, |device: &Device| {
        Placement::from(device.clone()).check(model, options)
    })
}

/// Same as [`init_with_memory_check`], with some of the layers on the CPU: the requested number, or those that do not fit
/// on the GPU. [`Chosen::found`] has the devices and their parts for [`Session::new`]; the memory of both is checked.
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
/// // All of the model on a GPU if it fits, a part if it does not, and everything on the CPU without a GPU.
/// if let Ok(chosen) = init_split_with_memory_check(Preference::Auto, &model, options, GpuLayers::Fit) {
///     let session = Session::new(&model, chosen.found, options)?;
///     println!("{:?} layers on the GPU, the others on the CPU", session.gpu_layers());
/// }
/// # Ok::<(), infer::Error>(())
/// ```
///
/// # Errors
/// Same as [`init_with_memory_check`]; more layers than the model has, or a number of layers for a CPU backend.
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

/// Bytes that a model needs on a device with a context of `options.n_ctx` tokens. Weights, caches and activations are
/// exactly what a session allocates; the memory of kernels and drivers is estimated.
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

/// Same as [`estimate_memory`] for each part of a split model, in the order of the layers.
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
/// Same as [`estimate_memory`].
pub fn estimate_memory_split(
    model: &Model,
    placement: &Placement,
    options: Options,
) -> Result<Vec<Needs>, Error> {
    placement.parts().iter().map(|(device, span)| Needs::of(model, device, *span, options)).collect()
}
