//! Compares logits of this program, of the float64 reference, and of llama.cpp, which is built from a pinned
//! source distribution. Skipped unless `GPUBUILD_REQUIRE` names `projects`, because it takes minutes.

use crate::common::reference_device;
use crate::forward::{all_logits, model, recipes, session, tokens, wide};
use crate::requirements::skip;
use crate::sdist;
use infer::check::nmse;
use infer::gguf::TensorType;
use infer::gk::{Backend, Device, OpenOptions};
use infer::model::Recipe;
use infer::session::{MAX_REPEAT, Output, Session};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Number of prompt tokens and of generated tokens.
const GIVEN: u32 = 33;
const WRITTEN: u32 = 200;

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
}

fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oracle");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The program that runs llama.cpp: its CPU backend, static, for this machine. Built once; `GPUBUILD_ORACLE`
/// names one that was linked with another build.
fn oracle() -> PathBuf {
    if let Some(program) = std::env::var_os("GPUBUILD_ORACLE") {
        return program.into();
    }
    let (source, build) = (sdist::llama(), scratch().join("build"));
    let mut configure = Command::new("cmake");
    configure
        .arg("-S")
        .arg(&source)
        .arg("-B")
        .arg(&build)
        .args(["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF"]);
    configure.args([
        "-DGGML_NATIVE=ON",
        "-DGGML_OPENMP=OFF",
        "-DGGML_LLAMAFILE=OFF",
        "-DLLAMA_BUILD_COMMON=OFF",
    ]);
    for part in ["TESTS", "TOOLS", "EXAMPLES", "SERVER"] {
        configure.arg(format!("-DLLAMA_BUILD_{part}=OFF"));
    }
    run(&mut configure);
    run(Command::new("cmake").arg("--build").arg(&build).args(["--target", "llama", "-j2"]));
    let (object, program) = (scratch().join("oracle.o"), scratch().join("oracle"));
    let mut compile = Command::new("cc");
    compile
        .args(["-c", "-O1", "-Wall"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/oracle.c"));
    compile.arg("-o").arg(&object);
    compile.args(["include", "ggml/include"].map(|folder| format!("-I{}", source.join(folder).display())));
    run(&mut compile);
    let mut link = Command::new("c++");
    link.arg(&object).args(
        ["src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a"]
            .map(|file| build.join(file)),
    );
    run(link.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program));
    program
}

/// The result of llama.cpp for a model.
struct Answer {
    written: Vec<u32>,
    /// After each given or generated token.
    logits: Vec<f32>,
}

fn ask(program: &Path, file: &Path, given: &[u32]) -> Answer {
    let out = file.with_extension("logits");
    let mut command = Command::new(program);
    command.arg(file).arg(&out).arg(WRITTEN.to_string()).args(given.iter().map(u32::to_string));
    run(&mut command);
    let bytes = std::fs::read(&out).unwrap();
    let word = |four: &[u8]| u32::from_le_bytes(four.try_into().unwrap());
    let words: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
    assert_eq!(words[..2], [GIVEN, WRITTEN]);
    let (written, logits) = words[3..].split_at(WRITTEN as usize);
    assert_eq!(logits.len(), (GIVEN + WRITTEN) as usize * words[2] as usize);
    Answer { written: written.to_vec(), logits: logits.iter().map(|bits| f32::from_bits(*bits)).collect() }
}

/// Greedy text of this program.
fn write(session: &mut Session, given: &[u32]) -> Vec<u32> {
    session.reset();
    session.feed(given, Output::Best).unwrap();
    let mut written = vec![session.best().unwrap()];
    while written.len() < WRITTEN as usize {
        let missing = WRITTEN - u32::try_from(written.len()).unwrap();
        written.extend(session.generate(missing.min(MAX_REPEAT)).unwrap());
    }
    written
}

/// Describes how far two greedy texts agree. Where they diverge, the margin between the two best tokens must
/// be below four times the error. `exact` and `computed` are the logits after each of `given` tokens, and the
/// text.
pub(crate) fn compare_texts(
    ours: &[u32],
    theirs: &[u32],
    given: usize,
    computed: &[&[f32]],
    exact: &[f64],
) -> String {
    let Some(place) = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs) else {
        return format!("{} tokens equal", ours.len());
    };
    let vocabulary = exact.len() / (given + theirs.len());
    let row = (given - 1 + place) * vocabulary..(given + place) * vocabulary;
    let exact = &exact[row.clone()];
    let error = |found: &[f32]| {
        found.iter().zip(exact).map(|(found, exact)| (f64::from(*found) - exact).abs()).fold(0.0, f64::max)
    };
    let error = computed.iter().map(|logits| error(&logits[row.clone()])).fold(0.0, f64::max);
    let mut sorted = exact.to_vec();
    sorted.sort_by(|left, right| right.total_cmp(left));
    let margin = sorted[0] - sorted[1];
    assert!(margin < 4.0 * error, "texts diverge at token {place} by {margin} at an error of {error}");
    format!("{place} tokens equal, then a margin of {margin:.1e} at an error of {error:.1e}")
}

fn compare(program: &Path, name: &str, recipe: &Recipe, device: &Device, truth: &Device) {
    let file = scratch().join(format!("{}-{}.gguf", name.replace([',', ' '], "-"), recipe.kind));
    std::fs::write(&file, recipe.write().unwrap().finish()).unwrap();
    let given = tokens(GIVEN);
    let answer = ask(program, &file, &given);
    let model = model(recipe);
    let all = [given.as_slice(), &answer.written].concat();
    let exact = wide(&all_logits(&mut session(&model, truth), &all));
    let mut session = session(&model, device);
    let computed = all_logits(&mut session, &all);
    let (ours, theirs) = (nmse(&computed, &exact), nmse(&answer.logits, &exact));
    let between = nmse(&computed, &wide(&answer.logits));
    let texts = compare_texts(
        &write(&mut session, &given),
        &answer.written,
        given.len(),
        &[&computed, &answer.logits],
        &exact,
    );
    let kind = recipe.kind;
    println!(
        "{name:26} {kind:5} nmse: ours {ours:.1e}, llama.cpp {theirs:.1e}, between {between:.1e}; {texts}"
    );
    assert!(ours <= 1.5 * theirs + 1e-7, "{name} {kind}: ours {ours}, llama.cpp {theirs}");
    if kind == TensorType::F32 {
        assert!(between <= 1e-8, "{name} {kind}: {between} between ours and llama.cpp");
    }
}

/// Compares all recipes of one type.
fn compare_type(kind: TensorType) {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    if !sdist::wanted() {
        return;
    }
    let (Some(truth), Ok(cpu)) = (reference_device(), Backend::named("cpu")) else {
        skip("cpu", "backend cpu is not linked");
        return;
    };
    let device = cpu.open_first(OpenOptions { threads: 1, ..OpenOptions::default() }).unwrap();
    let program = PROGRAM.get_or_init(oracle);
    for (name, recipe) in recipes(kind) {
        compare(program, name, &recipe, &device, &truth);
    }
}

#[test]
fn f32_logits_are_those_of_llama_cpp() {
    compare_type(TensorType::F32);
}

#[test]
fn f16_logits_are_as_near_as_those_of_llama_cpp() {
    compare_type(TensorType::F16);
}

#[test]
fn bf16_logits_are_as_near_as_those_of_llama_cpp() {
    compare_type(TensorType::BF16);
}

#[test]
fn q8_0_logits_are_as_near_as_those_of_llama_cpp() {
    compare_type(TensorType::Q8_0);
}

#[test]
fn q4_0_logits_are_as_near_as_those_of_llama_cpp() {
    compare_type(TensorType::Q4_0);
}

#[test]
fn q4_k_logits_are_as_near_as_those_of_llama_cpp() {
    compare_type(TensorType::Q4_K);
}

#[test]
fn q6_k_logits_are_as_near_as_those_of_llama_cpp() {
    compare_type(TensorType::Q6_K);
}
