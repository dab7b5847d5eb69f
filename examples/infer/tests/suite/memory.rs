//! The estimate equals what is allocated, the check is enforced, and the context is lowered on request.

use crate::common::{answers, devices_of_one_thread as devices};
use crate::forward::{model, recipes};
use crate::requirements::skip;
use infer::discovery::Probed;
use infer::gguf::TensorType;
use infer::gk::Kind;
use infer::session::{CacheType, LogitRows, Options, Room, Session};
use infer::{Preference, estimate_memory};
use std::process::{Command, Output};

#[test]
fn a_session_allocates_what_was_estimated() {
    for device in devices() {
        for (name, recipe) in recipes(TensorType::Q8_0) {
            let model = model(&recipe);
            for (cache, logits, n_ctx) in
                [(CacheType::F16, LogitRows::Last, 77), (CacheType::F32, LogitRows::All, 256)]
            {
                let options = Options { n_ctx, cache, logits };
                let before = device.allocated();
                let session = Session::new(&model, device.clone(), options).unwrap();
                let needs = estimate_memory(&model, &device, options).unwrap();
                let allocated = device.allocated() - before;
                assert_eq!(needs.allocated(), allocated, "{name} on {}", device.backend_id());
                assert!(needs.total() >= allocated);
                drop(session);
                assert_eq!(device.allocated(), before, "everything is released");
            }
        }
    }
}

#[test]
fn a_lowered_context_fits_and_is_the_longest() {
    for device in devices() {
        let (_, recipe) = recipes(TensorType::F16).swap_remove(0);
        let model = model(&recipe);
        let options = |n_ctx| Options { n_ctx, cache: CacheType::F16, logits: LogitRows::Last };
        let needs = |n_ctx| estimate_memory(&model, &device, options(n_ctx)).unwrap();
        // The memory that 1000 tokens need.
        let room = Room { free: u64::MAX, usable: needs(1000).total() };
        let lowered = options(100_000).fitted(&model, &device, room).unwrap().n_ctx;
        assert_eq!(lowered, 1000 - 1000 % 64, "{}", device.backend_id());
        assert!(needs(lowered).check(room, lowered).is_ok());
        assert!(needs(lowered + 64).check(room, lowered + 64).is_err());
        assert_eq!(options(500).fitted(&model, &device, room).unwrap().n_ctx, 500);
    }
}

/// Discrete GPUs and the CPU have different reserves: the device reports its kind.
#[test]
fn device_kind_determines_the_reserve() {
    for device in devices() {
        let kind = device.info().kind;
        let expected = match device.backend_id() {
            "cpu" | "ref" => [Kind::Cpu].as_slice(),
            _ => &[Kind::Discrete, Kind::Integrated, Kind::Software],
        };
        assert!(expected.contains(&kind), "{}: {kind:?}", device.backend_id());
        let room = Room::on(&device).unwrap();
        assert_eq!(room, Room::new(room.free, kind), "{}", device.backend_id());
    }
}

#[test]
fn named_preferences_are_not_replaced() {
    assert_eq!(Preference::default(), Preference::Auto);
    // Probes the drivers in one thread before several threads use them.
    assert_eq!(answers().len(), infer::gk::linked().count());
    for answer in infer::discover() {
        let working = |device: &Probed| device.why.is_none();
        if answer.backend == "cpu" && answer.devices.iter().any(working) {
            assert_eq!(infer::init(Preference::Cpu).unwrap().device.backend_id(), "cpu");
            let chosen = infer::init(Preference::Auto).unwrap();
            assert!(chosen.skipped.iter().all(|(_, why)| !why.is_empty()));
        }
    }
    // Metal exists only on Apple systems.
    if !infer::gk::linked().any(|id| id == "metal") {
        assert!(infer::init(Preference::Metal).is_err());
    }
}

fn infer(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_infer"))
        .args(args)
        .env_remove("INFER_BACKEND")
        .env_remove("INFER_THREADS")
        .output()
        .unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The number after a phrase.
fn number(text: &str, words: &str) -> u32 {
    let rest = text.split_once(words).unwrap_or_else(|| panic!("{words}: {text}")).1;
    rest.split(|character: char| !character.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn a_random_model_is_written_and_its_context_lowered() {
    if infer::gk::linked().next().is_none() {
        skip("cpu", "no kernels are linked");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("random.gguf");
    let file = path.to_str().unwrap();
    let written =
        infer(&["random-model", file, "--arch", "qwen3", "--type", "q8_0", "--layers", "1", "--seed", "3"]);
    assert!(written.status.success(), "{written:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file remains");
    let run = ["run", "--model", file, "--backend", "ref", "--prompt", "a", "--tokens", "2"];
    let plain = infer(&run);
    assert!(plain.status.success() && told(&plain).contains("memory: "), "{plain:?}");
    // A cache of a billion tokens takes half a terabyte.
    let long = [&run[..], &["--ctx", "1000000000"]].concat();
    let refused = infer(&long);
    assert_eq!(refused.status.code(), Some(1));
    let fits = number(&told(&refused), "try `--ctx ");
    assert!(fits > 256 && told(&refused).contains("`--fit-ctx`"), "{refused:?}");
    let strange = infer(&["random-model", file, "--arch", "mamba"]);
    assert_eq!(strange.status.code(), Some(2));
    assert!(told(&strange).contains("use llama, qwen2, qwen3"), "{strange:?}");
    let impossible = infer(&["random-model", file, "--width", "100", "--type", "q4_k"]);
    assert_eq!(impossible.status.code(), Some(1));
    assert!(told(&impossible).contains("not a multiple of q4_K blocks"), "{impossible:?}");
}
