//! A model whose first layers are on the CPU and whose last ones are on another device: the same text and
//! logits, one transfer per pass, and the estimated memory on both.

use crate::common::{answers, devices_with};
use crate::forward::{all_logits, bound, model, recipes, session, small, tokens, wide};
use crate::oracle::compare_texts;
use crate::requirements::skip;
use infer::check::nmse;
use infer::estimate_memory_split;
use infer::gguf::TensorType;
use infer::gk::{Device, Kind, OpenOptions, Precision, Traffic};
use infer::model::{Model, Recipe};
use infer::session::{
    CHUNK, CacheType, GpuLayers, LogitRows, Needs, Options, Output, Placement, Room, Session, Span,
    layers_that_fit, longest_context,
};
use std::process::Command;

const LAYERS: u32 = 4;
const GIVEN: u32 = 70;
const WRITTEN: u32 = 40;
const OPTIONS: Options = Options { n_ctx: 128, cache: CacheType::F32, logits: LogitRows::All };

/// The CPU with every other device that works here, all with exact arithmetic; the reference is one of them.
fn pairs() -> Vec<(Device, Device)> {
    let mut devices =
        devices_with(OpenOptions { threads: 1, precision: Precision::Exact, ..OpenOptions::default() });
    let Some(place) = devices.iter().position(|device| device.backend_id() == "cpu") else {
        return Vec::new();
    };
    let processor = devices.remove(place);
    devices.into_iter().map(|device| (processor.clone(), device)).collect()
}

fn recipe(name: &str, kind: TensorType) -> Recipe {
    let (_, recipe) = recipes(kind).into_iter().find(|(known, _)| *known == name).unwrap();
    Recipe { n_layer: LAYERS, ..small(&recipe) }
}

fn split(model: &Model, (processor, gpu): &(Device, Device), layers: u32) -> Placement {
    Placement::split(model, processor.clone(), gpu.clone(), layers).unwrap()
}

fn write(session: &mut Session, given: &[u32]) -> Vec<u32> {
    session.reset();
    session.feed(given, Output::Best).unwrap();
    let first = session.best().unwrap();
    [vec![first], session.generate(WRITTEN - 1).unwrap()].concat()
}

/// Two tied models, for which both devices need the table, and one of a type that they store differently.
#[test]
fn split_model_generates_the_text_of_a_complete_one() {
    let cases = [
        ("llama", TensorType::Q8_0),
        ("qwen2, tied, output bias", TensorType::F32),
        ("qwen3, wide heads, tied", TensorType::F32),
    ];
    let given = tokens(GIVEN);
    for pair in pairs() {
        for (name, kind) in cases {
            let recipe = recipe(name, kind);
            let model = model(&recipe);
            let mut whole = session(&model, &pair.1);
            let expected = write(&mut whole, &given);
            let all = [given.as_slice(), &expected].concat();
            let exact = wide(&all_logits(&mut whole, &all));
            for layers in 0..=LAYERS + 1 {
                let who = format!("{name} {kind}, {layers} layers on {}", pair.1.backend_id());
                let mut cut = Session::new(&model, split(&model, &pair, layers), OPTIONS).unwrap();
                let expects_cut = (1..=LAYERS).contains(&layers);
                assert_eq!(cut.gpu_layers(), expects_cut.then_some(layers), "{who}");
                let computed = all_logits(&mut cut, &all);
                let error = nmse(&computed, &exact);
                assert!(error <= bound(TensorType::F32), "{who}: nmse {error}");
                let written = write(&mut cut, &given);
                let logits = [computed.as_slice()];
                println!(
                    "{who}: nmse {error:.1e}, {}",
                    compare_texts(&written, &expected, given.len(), &logits, &exact)
                );
            }
        }
    }
}

fn crossed(before: Traffic, device: &Device) -> (u64, u64) {
    let now = device.traffic();
    (now.up - before.up, now.down - before.down)
}

#[test]
fn only_activations_cross_the_split_once_per_pass() {
    let recipe = recipe("llama", TensorType::F32);
    let (model, row) = (model(&recipe), u64::from(recipe.n_embd) * 4);
    for pair in pairs() {
        let (processor, gpu) = &pair;
        let id = gpu.backend_id();
        for layers in [2, LAYERS] {
            let mut cut = Session::new(&model, split(&model, &pair, layers), OPTIONS).unwrap();
            let start = (processor.traffic(), gpu.traffic());
            cut.feed(&tokens(GIVEN), Output::Best).unwrap();
            // Two chunks: a step and ids up, all rows across, nothing to read yet.
            let rows = u64::from(GIVEN) * row;
            assert_eq!(crossed(start.0, processor), (2 * 16 + u64::from(GIVEN) * 4, rows), "{id}");
            assert_eq!(crossed(start.1, gpu), (2 * 16 + rows, 0), "{id}");
            cut.best().unwrap();
            let start = (processor.traffic(), gpu.traffic());
            cut.generate(10).unwrap();
            assert_eq!(crossed(start.0, processor), (10 * (16 + 4), 10 * row), "{id}");
            assert_eq!(crossed(start.1, gpu), (10 * (16 + row), 10 * 4), "{id}");
            let start = (processor.traffic(), gpu.traffic());
            cut.feed(&[3], Output::Candidates(40)).unwrap();
            cut.candidates(40).unwrap();
            assert_eq!(crossed(start.0, processor), (16 + 4, row), "{id}");
            assert_eq!(crossed(start.1, gpu), (16 + row, 40 * 8), "{id}");
        }
        // If only the output is on the other device, a chunk whose output is not requested is not
        // transferred.
        let mut cut = Session::new(&model, split(&model, &pair, 1), OPTIONS).unwrap();
        let start = gpu.traffic();
        cut.feed(&tokens(GIVEN), Output::Best).unwrap();
        assert_eq!(crossed(start, gpu), (16 + u64::from(GIVEN - CHUNK) * row, 0), "{id}");
    }
}

#[test]
fn full_context_is_an_error_and_can_be_rewound() {
    let model = model(&recipe("llama", TensorType::F32));
    for pair in pairs() {
        let id = pair.1.backend_id();
        let mut cut = Session::new(&model, split(&model, &pair, 3), OPTIONS).unwrap();
        let text = tokens(100);
        cut.feed(&text, Output::Best).unwrap();
        cut.best().unwrap();
        let first = cut.generate(28).unwrap();
        assert_eq!((cut.room(), first.len()), (0, 28), "{id}");
        assert!(cut.generate(1).unwrap_err().to_string().contains("0 fit"), "{id}");
        assert!(cut.feed(&[1], Output::Best).unwrap_err().to_string().contains("do not fit"), "{id}");
        // Everything after this position is recomputed on both devices and overwrites the old values.
        cut.rewind(50);
        cut.feed(&text[50..], Output::Best).unwrap();
        cut.best().unwrap();
        assert_eq!(cut.generate(28).unwrap(), first, "{id}");
        cut.rewind(20);
        cut.feed(&[7, 8, 9], Output::Logits).unwrap();
        let rewound = cut.logits(1).unwrap();
        cut.reset();
        cut.feed(&[&text[..20], &[7, 8, 9]].concat(), Output::Logits).unwrap();
        let error = nmse(&rewound, &wide(&cut.logits(1).unwrap()));
        assert!(error <= bound(TensorType::F32), "{id}: nmse {error}");
    }
}

#[test]
fn both_devices_allocate_what_was_estimated() {
    for (processor, gpu) in pairs() {
        for name in ["llama", "qwen2, tied, output bias"] {
            let model = model(&recipe(name, TensorType::Q8_0));
            for layers in [1, 3, LAYERS] {
                let before = [processor.allocated(), gpu.allocated()];
                let placement = Placement::split(&model, processor.clone(), gpu.clone(), layers).unwrap();
                let session = Session::new(&model, placement.clone(), OPTIONS).unwrap();
                let needs = estimate_memory_split(&model, &placement, OPTIONS).unwrap();
                let allocated = [processor.allocated() - before[0], gpu.allocated() - before[1]];
                let estimated = [needs[0].allocated(), needs[1].allocated()];
                assert_eq!(allocated, estimated, "{name}, {layers} layers on {}", gpu.backend_id());
                drop(session);
                assert_eq!([processor.allocated(), gpu.allocated()], before, "everything is released");
            }
        }
    }
}

#[test]
fn as_many_layers_as_fit_are_chosen() {
    let model = model(&recipe("llama", TensorType::F16));
    for (processor, gpu) in pairs() {
        let needs = |layers| {
            let placement = Placement::split(&model, processor.clone(), gpu.clone(), layers).unwrap();
            let (device, span) = placement.parts().last().unwrap().clone();
            Needs::of(&model, &device, span, OPTIONS).unwrap().total()
        };
        let fit = |usable| layers_that_fit(&model, &gpu, OPTIONS, Room { free: usable, usable }).unwrap();
        for layers in 1..=LAYERS + 1 {
            assert_eq!(fit(needs(layers)), layers, "{}", gpu.backend_id());
            assert_eq!(fit(needs(layers) - 1), layers - 1, "{}", gpu.backend_id());
        }
        assert_eq!((fit(0), fit(u64::MAX)), (0, LAYERS + 1));
    }
}

#[test]
fn part_that_does_not_fit_its_device_is_rejected() {
    let model = model(&recipe("llama", TensorType::F16));
    for pair in pairs() {
        let id = pair.1.backend_id();
        let placement = split(&model, &pair, 2);
        let mut shares = placement.shares(&model, OPTIONS).unwrap();
        assert!(shares.iter().all(|share| share.check(OPTIONS.n_ctx).is_ok()));
        // A GPU without dedicated memory reduces the memory of the CPU.
        let own = pair.1.info().kind == Kind::Discrete;
        assert_eq!(shares[0].beside, if own { Needs::default() } else { shares[1].needs });
        assert_eq!(longest_context(&shares, OPTIONS.n_ctx), OPTIONS.n_ctx);
        for (place, name) in [(0, "cpu"), (1, id)] {
            let room = shares[place].room;
            let needs = shares[place].needs + shares[place].beside;
            let tight = |usable| Room { free: usable, usable };
            shares[place].room = tight(needs.total());
            assert!(shares[place].check(OPTIONS.n_ctx).is_ok(), "{id}");
            shares[place].room = tight(needs.total() - 1);
            let said = shares[place].check(OPTIONS.n_ctx).unwrap_err().to_string();
            assert!(said.contains(&format!("the part of the model on `{name}` does not fit")), "{said}");
            assert_eq!(said.contains("--gpu-layers fit"), !["cpu", "ref"].contains(&name), "{said}");
            // Half of the cache must go, and so must half of the context.
            shares[place].room = tight(needs.total() - needs.cache / 2);
            assert_eq!(longest_context(&shares, OPTIONS.n_ctx), OPTIONS.n_ctx / 2, "{id}");
            shares[place].room = room;
        }
    }
}

#[test]
fn impossible_layer_counts_are_rejected() {
    let model = model(&recipe("llama", TensorType::F32));
    for (processor, gpu) in pairs() {
        let error =
            Placement::split(&model, processor.clone(), gpu.clone(), LAYERS + 2).unwrap_err().to_string();
        assert!(
            error.contains("6 layers cannot be put on a GPU: model") && error.contains("up to 5"),
            "{error}"
        );
        let on_processor = GpuLayers::Last(2).place(&model, &processor, || Ok(gpu.clone()), OPTIONS);
        assert!(on_processor.unwrap_err().to_string().contains("requires a GPU"));
        let whole = GpuLayers::Fit.place(&model, &processor, || Ok(gpu.clone()), OPTIONS).unwrap();
        assert_eq!(whole.parts().iter().map(|(_, span)| *span).collect::<Vec<_>>(), [Span::WHOLE]);
    }
}

fn infer(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_infer"));
    let output = command.args(args).env_remove("INFER_BACKEND").env_remove("INFER_THREADS").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn command_line_rejects_meaningless_layer_counts() {
    if infer::gk::linked().next().is_none() {
        skip("cpu", "no kernels are linked");
        return;
    }
    for (args, code, expected) in [
        (&["--backend", "cpu", "--gpu-layers", "3"][..], 1, "backend `cpu` runs on the CPU"),
        (&["--backend", "ref", "-ngl", "fit"], 1, "`--gpu-layers` has no effect there"),
        (&["--backend", "vulkan", "--n-gpu-layers", "0"], 1, "leaves no layer for backend `vulkan`"),
        (&["--gpu-layers", "many"], 2, "expected a number, `all` or `fit`"),
    ] {
        for command in [&["run"][..], &["chat", "--template", "chatml"], &["bench"], &["check"]] {
            let (status, out, said) = infer(&[command, args].concat());
            assert_eq!((status, out.as_str()), (Some(code), ""), "{command:?} {args:?}: {said}");
            assert!(said.contains(expected), "{command:?} {args:?}: {said}");
        }
    }
    let (status, _, said) = infer(&["run", "--backend", "ref", "-ngl", "0", "--tokens", "1"]);
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn command_line_splits_the_embedded_model() {
    let model = Model::from_gguf(infer::default_model::open().unwrap()).unwrap();
    let layers = model.config().n_layer;
    for answer in answers().iter().filter(|answer| !["cpu", "ref"].contains(&answer.backend.as_str())) {
        let id = answer.backend.as_str();
        if !answer.devices.iter().any(|device| device.why.is_none()) {
            skip(id, &format!("no {id}"));
            continue;
        }
        let run = ["run", "--backend", id, "--tokens", "12"];
        let (_, whole, said) = infer(&run);
        assert_eq!(said.matches("memory").count(), 1, "{said}");
        let count = layers.to_string();
        for number in ["1", "2", count.as_str()] {
            let (status, text, said) = infer(&[&run[..], &["-ngl", number]].concat());
            assert_eq!((status, &text), (Some(0), &whole), "{id}, {number} layers: {said}");
            assert!(said.contains("memory of cpu, layer"), "{said}");
            assert!(said.contains(&format!("memory of {id}, ")) && said.contains("the output: "), "{said}");
        }
        // The complete model fits.
        for word in ["fit", "all", &(layers + 1).to_string()] {
            let (_, text, said) = infer(&[&run[..], &["--gpu-layers", word]].concat());
            assert_eq!((text, said.contains("memory of")), (whole.clone(), false), "{id} {word}: {said}");
        }
        let (status, _, said) = infer(&[&run[..], &["-ngl", &(layers + 2).to_string()]].concat());
        assert_eq!(status, Some(1));
        assert!(said.contains(&format!("`--gpu-layers` takes up to {}", layers + 1)), "{said}");
    }
}
