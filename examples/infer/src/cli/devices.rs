//! `infer devices`: lists every backend with its devices, or the reason why it cannot be used.

use super::printer::{Printer, table};
use super::{Failure, program};
use crate::Error;
use crate::discovery::{self, Answer};
use crate::gk::{Evidence, Kind, PREFERENCE};
use crate::session::Size;
use clap::Args;
use serde::Serialize;
use std::thread;

#[derive(Debug, Clone, Copy, Args)]
pub(super) struct DevicesArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Schema {
    name: &'static str,
    version: u32,
}

#[derive(Serialize)]
struct Report {
    schema: Schema,
    backends: Vec<Entry>,
    /// The device that `infer run` would use.
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen: Option<Choice>,
}

#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    answer: Answer,
    /// How its kernels were tested, for the architecture of its first device here.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence>,
}

impl Entry {
    fn new(answer: Answer) -> Self {
        let arch = answer.devices.first().map_or("", |device| &device.info.arch);
        let evidence = Evidence::of(&answer.backend, arch);
        Self { answer, evidence }
    }
}

#[derive(Serialize, PartialEq)]
struct Choice {
    backend: String,
    index: u32,
}

/// Probes one backend and prints the answer on stdout; runs in the child process of a probe.
pub(super) fn probe(id: &str, printer: &mut Printer) -> Result<(), Failure> {
    printer.answer(&to_json(&discovery::examine(id), false)?)
}

fn to_json(value: &impl Serialize, pretty: bool) -> Result<String, Error> {
    let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    text.map(|text| text + "\n").map_err(|error| Error::message(format!("cannot write JSON: {error}")))
}

pub(super) fn devices(args: DevicesArgs, printer: &mut Printer) -> Result<(), Failure> {
    let program = program()?;
    let backends: Vec<Answer> = thread::scope(|scope| {
        let program = &program;
        let ask = |id: &'static str| move || discovery::look(id, program);
        let threads: Vec<_> = PREFERENCE.map(|id| (id, scope.spawn(ask(id)))).into_iter().collect();
        let join = |(id, thread): (&str, thread::ScopedJoinHandle<'_, Answer>)| {
            thread.join().unwrap_or_else(|_| Answer::failed(id, "the probe failed"))
        };
        threads.into_iter().map(join).collect()
    });
    let chosen = choice(&backends);
    if args.json {
        let backends = backends.into_iter().map(Entry::new).collect();
        let report = Report { schema: Schema { name: "infer-devices", version: 1 }, backends, chosen };
        return printer.answer(&to_json(&report, true)?);
    }
    printer.answer(&text(&backends, chosen.as_ref()))
}

/// The first usable device in order of preference: discrete GPUs first, software devices never.
fn choice(backends: &[Answer]) -> Option<Choice> {
    let usable = |answer: &Answer| {
        let mut devices: Vec<_> = answer.devices.iter().filter(|device| device.why.is_none()).collect();
        devices.retain(|device| device.info.kind != Kind::Software);
        devices.sort_by_key(|device| device.info.kind != Kind::Discrete);
        devices.first().map(|device| Choice { backend: answer.backend.clone(), index: device.index })
    };
    backends.iter().find_map(usable)
}

fn text(backends: &[Answer], chosen: Option<&Choice>) -> String {
    let mut rows = vec![
        ["", "backend", "device", "name", "memory free", "kernels", "state"].map(str::to_owned).to_vec(),
    ];
    for answer in backends {
        let evidence =
            |arch: &str| Evidence::of(&answer.backend, arch).map_or("", Evidence::words).to_owned();
        if let Some(why) = &answer.why {
            rows.push(vec![
                String::new(),
                answer.backend.clone(),
                "-".to_owned(),
                String::new(),
                String::new(),
                evidence(""),
                why.clone(),
            ]);
        }
        for device in &answer.devices {
            let this = Choice { backend: answer.backend.clone(), index: device.index };
            let state = match (&device.why, device.info.kind) {
                (Some(why), _) => why.clone(),
                (None, Kind::Software) => "works, but runs on the CPU; used only when named".to_owned(),
                (None, _) => "works".to_owned(),
            };
            rows.push(vec![
                if chosen == Some(&this) { "*" } else { "" }.to_owned(),
                answer.backend.clone(),
                device.index.to_string(),
                super::run::describe(&device.info),
                Size(device.info.memory_free).to_string(),
                evidence(&device.info.arch),
                state,
            ]);
        }
    }
    let mut text = table(&rows);
    if chosen.is_none() {
        text.push_str("\nno usable device\n");
    }
    if crate::gk::linked().next().is_none() {
        text.push_str(discovery::NO_KERNELS);
        text.push('\n');
    }
    text
}
