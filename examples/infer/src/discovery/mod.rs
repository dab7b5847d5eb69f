//! Selects a device, and reports why others were skipped.
//!
//! GPU backends are probed in a child process first: a driver that crashes, hangs or returns an invalid
//! answer becomes a one-line reason. A named backend is used or refused, and never replaced by another.

mod probe;
mod probing;

pub use probe::{Answer, Probed, examine};
pub use probing::ask;

use crate::Error;
use crate::gk::{self, Backend, Binding, Device, Fusion, Kind, OpenOptions, PREFERENCE, Precision};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// A child that has not answered by then is killed.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The requested backend and device.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Id of a backend; `None` = the best one available.
    pub backend: Option<String>,
    /// Index of a device of the backend.
    pub device: Option<u32>,
    /// Worker threads of `cpu`; 0 = one per fast core.
    pub threads: u32,
    /// Allows `cpu` to round activations, or not.
    pub precision: Precision,
    /// Use of fused ops in plans.
    pub fusion: Fusion,
    /// Where the threads of `cpu` may run.
    pub binding: Binding,
}

/// An opened device.
#[derive(Debug)]
pub struct Chosen<T = ()> {
    /// The device.
    pub device: Device,
    /// The result of `fits` for this device.
    pub found: T,
    /// Backends and devices of higher preference, each with the reason why it was skipped.
    pub skipped: Vec<(String, String)>,
}

impl Request {
    /// Opens the CPU, for layers that do not go to the GPU.
    ///
    /// # Errors
    /// The backend is not built into this program.
    pub fn open_processor(&self) -> Result<Device, Error> {
        const ID: &str = "cpu";
        let backend = Backend::named(ID).map_err(|why| {
            Error::message(format!("backend `{ID}`, for the layers that are not on the GPU: {why}"))
        })?;
        Ok(backend.open_first(self.options())?)
    }

    fn options(&self) -> OpenOptions {
        OpenOptions {
            threads: self.threads,
            precision: self.precision,
            fusion: self.fusion,
            binding: self.binding,
        }
    }
}

/// The error of a program without any kernels.
pub const NO_KERNELS: &str = "no kernels are linked into this program\nhint: `cargo run -- build --run` in the \
    root of the repository builds the kernels that this machine supports and runs a program with them";

/// Parses the value of `--backend`.
///
/// # Errors
/// No backend has this name; the message lists the valid ones.
pub fn parse_backend(text: &str) -> Result<Option<String>, String> {
    let text = text.trim().to_ascii_lowercase();
    match text.as_str() {
        "" | "auto" => Ok(None),
        "hip" => Ok(Some("rocm".to_owned())),
        id if PREFERENCE.contains(&id) || id == "ref" => Ok(Some(text)),
        _ => Err(format!("unknown backend; expected auto, {}, ref", PREFERENCE.join(", "))),
    }
}

const NOT_BUILT: &str = "not built into this program";

/// True for backends with a driver, which is probed in a child process first.
fn is_risky(id: &str) -> bool {
    !matches!(id, "cpu" | "ref")
}

/// The devices of a backend; `program` is this program, for the child process.
#[must_use]
pub fn look(id: &str, program: &Path) -> Answer {
    if !gk::linked().any(|linked| linked == id) {
        return Answer::failed(id, NOT_BUILT);
    }
    if is_risky(id) { ask(program, id, PROBE_TIMEOUT) } else { examine(id) }
}

/// The devices of a backend, probed in this process: a driver that crashes also crashes the program.
#[must_use]
pub fn look_here(id: &str) -> Answer {
    if gk::linked().any(|linked| linked == id) { examine(id) } else { Answer::failed(id, NOT_BUILT) }
}

/// A function that probes a backend.
pub type Look<'a> = &'a (dyn Fn(&str) -> Answer + Sync);

/// Opens the requested device, or the best one that `fits`. Probes backends in child processes of `program`.
///
/// # Errors
/// The named backend or device cannot be used, or none can; the message lists every reason.
pub fn choose<T>(
    request: &Request,
    program: &Path,
    fits: impl Fn(&Device) -> Result<T, Error>,
) -> Result<Chosen<T>, Error> {
    choose_with(request, &|id| look(id, program), fits)
}

/// Same as [`choose`], with a custom probe.
///
/// # Errors
/// Same as [`choose`].
pub fn choose_with<T>(
    request: &Request,
    look: Look<'_>,
    fits: impl Fn(&Device) -> Result<T, Error>,
) -> Result<Chosen<T>, Error> {
    if gk::linked().next().is_none() {
        return Err(Error::message(NO_KERNELS));
    }
    let mut skipped = Vec::new();
    if let Some(id) = &request.backend {
        return match try_backend(id, request, look, &fits, &mut skipped) {
            Some(chosen) => Ok(Chosen { skipped: Vec::new(), ..chosen }),
            None => Err(Error::message(format!(
                "backend `{id}` was requested and cannot be used\n{}{}",
                list(&skipped),
                instead(id, look)
            ))),
        };
    }
    for id in PREFERENCE {
        if let Some(chosen) = try_backend(id, request, look, &fits, &mut skipped) {
            return Ok(Chosen { skipped, ..chosen });
        }
    }
    Err(Error::message(format!("no usable backend\n{}", list(&skipped))))
}

/// A hint with the backends that work here, for an error about one that does not.
fn instead(id: &str, look: Look<'_>) -> String {
    let others: Vec<&str> = PREFERENCE.into_iter().filter(|other| *other != id).collect();
    let answers: Vec<Answer> = thread::scope(|scope| {
        let threads: Vec<_> = others.iter().map(|other| scope.spawn(|| look(other))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let works = |answer: &&Answer| answer.devices.iter().any(|device| device.why.is_none());
    let in_hardware = |answer: &&Answer| {
        answer.devices.iter().any(|device| device.why.is_none() && device.info.kind != Kind::Software)
    };
    let (fast, slow): (Vec<&Answer>, Vec<&Answer>) = answers.iter().filter(works).partition(in_hardware);
    let slow = slow.iter().map(|answer| format!("{} (on the CPU)", answer.backend));
    let working: Vec<String> = fast.iter().map(|answer| answer.backend.clone()).chain(slow).collect();
    if working.is_empty() {
        return "\nhint: no other backend of this program works here".to_owned();
    }
    format!(
        "\nhint: these work here: {}; `--backend auto` uses the first with enough memory",
        working.join(", ")
    )
}

fn list(skipped: &[(String, String)]) -> String {
    let lines: Vec<String> = reasons(skipped).iter().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// The reasons as lines; backends that are not in this program share one line.
#[must_use]
pub fn reasons(skipped: &[(String, String)]) -> Vec<String> {
    let (absent, present): (Vec<_>, Vec<_>) = skipped.iter().partition(|(_, why)| why == NOT_BUILT);
    let mut lines: Vec<String> = present.iter().map(|(who, why)| format!("{who}: {why}")).collect();
    if !absent.is_empty() {
        let names: Vec<&str> = absent.iter().map(|(who, _)| who.as_str()).collect();
        lines.push(format!("{}: {NOT_BUILT}", names.join(", ")));
    }
    lines
}

/// Opens the best device of a backend, or adds the reason why none can be used.
fn try_backend<T>(
    id: &str,
    request: &Request,
    look: Look<'_>,
    fits: &impl Fn(&Device) -> Result<T, Error>,
    skipped: &mut Vec<(String, String)>,
) -> Option<Chosen<T>> {
    let answer = look(id);
    if let Some(why) = answer.why {
        skipped.push((id.to_owned(), why));
        return None;
    }
    let mut devices = answer.devices;
    if let Some(index) = request.device {
        devices.retain(|device| device.index == index);
        if devices.is_empty() {
            skipped.push((id.to_owned(), format!("it has no device {index}")));
        }
    }
    // Discrete GPUs before integrated ones; within a kind the order of the driver.
    devices.sort_by_key(|device| match device.info.kind {
        Kind::Discrete => 0,
        Kind::Integrated => 1,
        Kind::Cpu => 2,
        Kind::Software => 3,
    });
    for device in devices {
        let who = format!("{id} device {} ({})", device.index, device.info.name);
        match try_device(id, &device, request, fits) {
            Ok((device, found)) => return Some(Chosen { device, found, skipped: Vec::new() }),
            Err(why) => skipped.push((who, why)),
        }
    }
    None
}

fn try_device<T>(
    id: &str,
    probed: &Probed,
    request: &Request,
    fits: &impl Fn(&Device) -> Result<T, Error>,
) -> Result<(Device, T), String> {
    if let Some(why) = &probed.why {
        return Err(why.clone());
    }
    if probed.info.kind == Kind::Software && request.backend.is_none() {
        return Err(format!(
            "runs on the CPU, where backend `cpu` is faster; `--backend {id}` uses it anyway"
        ));
    }
    let backend = Backend::named(id)?;
    let device = backend
        .open(probed.index, probed.info.clone(), request.options())
        .map_err(|error| error.to_string())?;
    let found = fits(&device).map_err(|error| error.to_string())?;
    Ok((device, found))
}
