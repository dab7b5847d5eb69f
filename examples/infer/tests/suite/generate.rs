//! Every linked backend that works here gives the same results as the reference, with little traffic.

use crate::common::{devices, devices_with, read, reference_device, session, tiny};
use infer::check::nmse;
use infer::gguf::TensorType;
use infer::gk::{Device, Fusion, OpenOptions, Precision};
use infer::model::Model;
use infer::session::{CacheType, LogitRows, Options, Output, Session};

fn model(kind: TensorType) -> Model {
    Model::from_gguf(read(tiny(kind).finish()).unwrap()).unwrap()
}

fn tokens(count: u32) -> Vec<u32> {
    (0..count).map(|place| place * 41 % 272).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// Backends may round activations to eight bits if weights are q8_0.
fn bound(kind: TensorType) -> f64 {
    if kind == TensorType::Q8_0 { 2e-3 } else { 1e-6 }
}

fn last_logits(session: &mut Session, tokens: &[u32]) -> Vec<f32> {
    session.reset();
    session.feed(tokens, Output::Logits).unwrap();
    session.logits(1).unwrap()
}

#[test]
fn logits_equal_the_reference() {
    let Some(truth) = reference_device() else { return };
    for kind in [TensorType::F32, TensorType::F16, TensorType::Q8_0] {
        let model = model(kind);
        let expected = wide(&last_logits(&mut session(&model, &truth), &tokens(100)));
        for device in devices() {
            let error = nmse(&last_logits(&mut session(&model, &device), &tokens(100)), &expected);
            assert!(error <= bound(kind), "{} {kind}: nmse {error}", device.backend_id());
        }
    }
}

#[test]
fn fused_ops_generate_the_same_tokens() {
    let opened = |fusion| {
        devices_with(OpenOptions {
            threads: 2,
            precision: Precision::Exact,
            fusion,
            ..OpenOptions::default()
        })
    };
    for (fused, plain) in opened(Fusion::On).iter().zip(&opened(Fusion::Off)) {
        for kind in [TensorType::F32, TensorType::F16, TensorType::Q8_0] {
            let model = model(kind);
            let layers = model.config().n_layer;
            let write = |device| {
                let mut session = session(&model, device);
                session.feed(&tokens(5), Output::Best).unwrap();
                let first = session.best().unwrap();
                let rest = session.generate(40).unwrap();
                let ops = session.ops(1, Output::Feedback).unwrap();
                (first, rest, ops)
            };
            let (got, expected) = (write(fused), write(plain));
            let id = fused.backend_id();
            assert_eq!((got.0, got.1), (expected.0, expected.1), "{id} {kind}");
            assert_eq!(expected.2, 14 * layers + 5, "{id}");
            let most = if id == "cpu" { 10 * layers + 4 } else { expected.2 };
            assert!(got.2 <= most, "{id}: {} ops", got.2);
        }
    }
}

#[test]
fn chunk_equals_its_tokens_one_by_one() {
    for device in devices() {
        for kind in [TensorType::F32, TensorType::Q8_0] {
            let mut session = session(&model(kind), &device);
            let chunk = last_logits(&mut session, &tokens(70));
            session.reset();
            for token in tokens(70) {
                session.feed(&[token], Output::Logits).unwrap();
            }
            let error = nmse(&session.logits(1).unwrap(), &wide(&chunk));
            assert!(error <= bound(kind), "{} {kind}: nmse {error}", device.backend_id());
        }
    }
}

#[test]
fn tokens_generated_on_the_device_equal_those_generated_through_the_host() {
    for device in devices() {
        let mut session = session(&model(TensorType::F32), &device);
        session.feed(&tokens(5), Output::Best).unwrap();
        let mut alone = vec![session.best().unwrap()];
        alone.extend(session.generate(20).unwrap());
        alone.extend(session.generate(1).unwrap());
        session.reset();
        session.feed(&tokens(5), Output::Best).unwrap();
        let mut guided = vec![session.best().unwrap()];
        while guided.len() < alone.len() {
            session.feed(&guided[guided.len() - 1..], Output::Best).unwrap();
            guided.push(session.best().unwrap());
        }
        assert_eq!(alone, guided, "{}", device.backend_id());
        assert_eq!(session.position(), 5 + 21);
    }
}

#[test]
fn greedy_text_is_the_same_on_every_backend() {
    let write = |device: &Device| {
        let mut session = session(&model(TensorType::F32), device);
        session.feed(&tokens(9), Output::Best).unwrap();
        let first = session.best().unwrap();
        [vec![first], session.generate(40).unwrap()].concat()
    };
    let Some(truth) = reference_device() else { return };
    let expected = write(&truth);
    for device in devices() {
        assert_eq!(write(&device), expected, "{}", device.backend_id());
    }
}

#[test]
fn candidates_are_the_best_logits() {
    for device in devices() {
        let mut session = session(&model(TensorType::Q8_0), &device);
        let mut logits: Vec<(u32, f32)> = (0..).zip(last_logits(&mut session, &tokens(7))).collect();
        logits.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        session.reset();
        session.feed(&tokens(7), Output::Candidates(40)).unwrap();
        assert_eq!(session.candidates(40).unwrap(), logits[..40], "{}", device.backend_id());
    }
}

#[test]
fn transfers_between_host_and_device_are_small() {
    for device in devices() {
        let id = device.backend_id();
        let mut session = session(&model(TensorType::Q8_0), &device);
        session.feed(&tokens(5), Output::Best).unwrap();
        session.best().unwrap();
        session.generate(1).unwrap();
        let start = device.traffic();
        for _ in 0..10 {
            session.generate(1).unwrap();
        }
        let greedy = device.traffic();
        // Ten steps up, ten ids down.
        assert_eq!((greedy.up - start.up, greedy.down - start.down), (10 * 16, 10 * 4), "{id}");
        session.feed(&[3], Output::Candidates(40)).unwrap();
        session.candidates(40).unwrap();
        let start = device.traffic();
        session.feed(&[3], Output::Candidates(40)).unwrap();
        session.candidates(40).unwrap();
        let sampled = device.traffic();
        // A step and an id up, forty ids and logits down.
        assert_eq!((sampled.up - start.up, sampled.down - start.down), (16 + 4, 40 * 8), "{id}");
    }
}

#[test]
fn model_that_does_not_fit_is_rejected_with_both_numbers() {
    for device in devices() {
        let options =
            Options { n_ctx: i32::MAX.unsigned_abs(), cache: CacheType::F16, logits: LogitRows::Last };
        let before = device.traffic();
        let error = Session::new(&model(TensorType::Q8_0), device.clone(), options).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("does not fit: it needs") && text.contains("free memory can be used"),
            "{text}"
        );
        assert!(text.contains("try `--ctx"), "{text}");
        assert_eq!(device.traffic(), before, "nothing was uploaded");
    }
}

#[test]
fn type_without_kernels_is_rejected_by_name() {
    let q5_0 = TensorType::from_id(6).unwrap();
    for device in devices() {
        let options = Options { n_ctx: 16, cache: CacheType::F16, logits: LogitRows::Last };
        let error = Session::new(&model(q5_0), device.clone(), options).unwrap_err().to_string();
        let expected = format!(
            "backend `{}` has no kernels for q5_0 weights: tensor `token_embd.weight`",
            device.backend_id()
        );
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn impossible_requests_are_errors() {
    for device in devices() {
        let mut session = session(&model(TensorType::F32), &device);
        let refuse = |session: &mut Session, tokens: &[u32]| {
            session.feed(tokens, Output::Best).unwrap_err().to_string()
        };
        assert!(refuse(&mut session, &[]).contains("no token to start from"));
        assert!(refuse(&mut session, &tokens(129)).contains("129 tokens do not fit"));
        assert!(refuse(&mut session, &[272]).contains("token 272 is outside the vocabulary of 272"));
        session.feed(&tokens(128), Output::Best).unwrap();
        assert_eq!(session.room(), 0);
        assert!(session.generate(1).is_err());
    }
}

#[test]
fn the_embedded_model_passes_its_check() {
    use infer::check::{Reference, compare_model, compare_ops};
    let Some(truth) = reference_device() else { return };
    let gguf = infer::default_model::open().unwrap();
    let tokenizer = infer::tokenizer::Tokenizer::from_gguf(&gguf).unwrap();
    let model = Model::from_gguf(gguf).unwrap();
    let reference = Reference::parse(infer::default_model::REFERENCE).unwrap();
    for device in devices() {
        let options = Options { n_ctx: 256, cache: CacheType::F16, logits: LogitRows::All };
        let mut session = Session::new(&model, device.clone(), options).unwrap();
        let mut rows = compare_ops(&device, &truth);
        rows.extend(compare_model(&reference, &tokenizer, &mut session).unwrap());
        rows.retain(|row| !row.ok);
        assert_eq!(rows, [], "{}", device.backend_id());
    }
}
