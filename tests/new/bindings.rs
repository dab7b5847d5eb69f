//! The templates with bindings, with small libraries in place of llama.cpp and whisper.cpp.

use std::path::Path;

use crate::recording;
use crate::server::{Server, files};
use crate::support::{Workspace, has_libclang, line};

const CMAKE: &str = include_str!("libraries/CMakeLists.txt.in");
const BACKEND_H: &str = include_str!("libraries/ggml-backend.h");
const GGML_C: &str = include_str!("libraries/ggml.c");
const LLAMA_H: &str = include_str!("libraries/llama.h");
const LLAMA_C: &str = include_str!("libraries/llama.c");
const WHISPER_H: &str = include_str!("libraries/whisper.h");
const WHISPER_C: &str = include_str!("libraries/whisper.c");

/// What the program made from the template `llama` prints without a model.
const LISTED: &str = "system: PLAYED = 1 |\nbuilt in: cpu\ndevice: CPU: CPU, played, 3 MiB free\n";

/// Serves a folder as an archive, and makes it the source of a project of this workspace. The server lives as long as the value.
fn publish(workspace: &Workspace, folder: &str, project: &str) -> Server {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in walkdir::WalkDir::new(workspace.path(folder)).sort_by_file_name() {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            let name = entry.path().strip_prefix(workspace.path(folder)).unwrap();
            builder.append_path_with_name(entry.path(), Path::new("top").join(name)).unwrap();
        }
    }
    let tar = builder.into_inner().unwrap();
    let archive = zstd::encode_all(&tar[..], 1).unwrap();
    let sha256 = gpubuild_exec::store::sha256(&archive);
    let server = Server::start(files(vec![("sources.tar.zst".to_owned(), archive)]));
    let source =
        format!("{{ url = \"{}\", sha256 = \"{sha256}\", strip = 1 }}", server.url("sources.tar.zst"));
    let file = format!("{project}/gpubuild.toml");
    let text = workspace.read(&file);
    let changed = text.lines().map(|line| match line.strip_prefix("source = ") {
        Some(_) => format!("source = {source}\n"),
        None => format!("{line}\n"),
    });
    workspace.write(&file, &changed.collect::<String>());
    server
}

/// The project that the template creates, with small sources on a server.
fn workspace(name: &str, header: &str, source: &str) -> Option<(Workspace, Server)> {
    let workspace = Workspace::new(&[]).filter(|_| has_libclang())?;
    let files = [
        ("CMakeLists.txt", CMAKE.replace('@', name)),
        ("ggml/include/ggml-backend.h", BACKEND_H.to_owned()),
        ("ggml/base.c", "int ggml_base_answer(void) { return 41; }\n".to_owned()),
        (
            "ggml/cpu.c",
            "int ggml_base_answer(void);\nint ggml_cpu_answer(void) { return ggml_base_answer() + 1; }\n"
                .to_owned(),
        ),
        ("ggml/ggml.c", GGML_C.to_owned()),
        (&format!("include/{name}.h"), header.to_owned()),
        (&format!("{name}.c"), source.to_owned()),
    ];
    for (file, text) in files {
        workspace.write(&format!("sources/{file}"), &text);
    }
    let project = format!("new-{name}");
    workspace.make(&[&project, "--template", name, "--offline"]);
    let server = publish(&workspace, "sources", &project);
    Some((workspace, server))
}

#[test]
fn llama_template_is_fetched_built_and_run() {
    let Some((workspace, server)) = workspace("llama", LLAMA_H, LLAMA_C) else { return };
    // A build script downloads nothing, and its error has the command that does.
    let missing = workspace.start("new-llama", "cargo", &["build"]);
    assert!(!missing.ok && missing.stderr.contains("[source.not-fetched]"), "{missing:#?}");
    assert!(missing.stderr.contains("gpubuild fetch --project "), "{missing:#?}");
    assert!(server.requests().is_empty());

    let done = workspace.follow("new-llama", "README.md");
    assert_eq!(done[1].1.stdout, LISTED);
    workspace.write("model.gguf", "GGUF");
    program_continues_texts(&workspace);
    workspace.is_in_order("new-llama");
    // `gpubuild build` builds the libraries and links the program with them only.
    let file = workspace
        .read("new-llama/gpubuild.toml")
        .replace("package = \".\"", "package = \".\"\nprofile = \"dev\"");
    workspace.write("new-llama/gpubuild.toml", &file);
    let built = workspace.gpubuild("new-llama", &["build", "--backends", "cpu", "--run"]);
    assert!(built.ok, "{built:#?}");
    assert_eq!(built.stdout, LISTED);
    // The sources in the repository replace those in the cache.
    let vendored = workspace.start("new-llama", "gpubuild", &["fetch", "--vendor", "third_party"]);
    assert!(vendored.ok, "{vendored:#?}");
    std::fs::remove_dir_all(workspace.path("cache/sources")).unwrap();
    let ran = workspace.start("new-llama", "cargo", &["run", "--quiet"]);
    assert_eq!(ran.stdout, LISTED, "{ran:#?}");
    assert_eq!(server.requests().len(), 1);
    // A feature whose backend cannot be built here does not prevent `cargo check`.
    let named = workspace.start("new-llama", "cargo", &["check", "--features", "metal"]);
    assert!(named.ok, "{named:#?}");
}

/// The program with the small model, which writes the next letters of the alphabet, and what it refuses.
fn program_continues_texts(workspace: &Workspace) {
    let model = workspace.path("model.gguf");
    let run = |arguments: &[&str]| {
        let all = [&["run", "--quiet", "--", "--model", model.to_str().unwrap()], arguments].concat();
        workspace.start("new-llama", "cargo", &all)
    };
    let ran = run(&["--prompt", "abcde", "--tokens", "4"]);
    assert_eq!((ran.ok, ran.stdout.as_str()), (true, "abcdefghi\n"), "{ran:#?}");
    assert_eq!(line(&ran.stderr, "device: "), "CPU (no GPU was found; built in: cpu)");
    assert_eq!(line(&ran.stderr, "model: "), "played F32, 4 bytes");
    assert!(!ran.stderr.contains("played: loading"), "{ran:#?}");
    // The model ends the text itself.
    let ran = run(&["--prompt", "xy", "--device", "cpu", "--verbose"]);
    assert!(!ran.ok && ran.stderr.contains("66 tokens do not fit into the context of 32"), "{ran:#?}");
    assert!(ran.stderr.contains("played: loading"), "{ran:#?}");
    let ran = run(&["--prompt", "xy", "--tokens", "9", "--device", "CPU"]);
    assert_eq!(ran.stdout, "xyz\n", "{ran:#?}");
    for (arguments, error) in [
        (&["--device", "vulkan"][..], "no device `vulkan`: built in: cpu; devices: CPU"),
        (&["--tokens", "many"], "`--tokens many` is not a number"),
        (&["--tokens"], "`--tokens` needs a value"),
        (&["--prompt", ""], "the prompt is empty"),
        (&["--what"], "unknown argument `--what`"),
        (&["--model", "nowhere.gguf"], "cannot load `nowhere.gguf`"),
    ] {
        let ran = run(arguments);
        assert!(!ran.ok && ran.stderr.contains(&format!("error: {error}")), "{error}: {ran:#?}");
        assert!(ran.stdout.is_empty() || error.contains("empty"), "{ran:#?}");
    }
}

#[test]
fn whisper_template_is_fetched_built_and_run() {
    let Some((workspace, _server)) = workspace("whisper", WHISPER_H, WHISPER_C) else { return };
    let done = workspace.follow("new-whisper", "README.md");
    let listed = LISTED.replace("\nbuilt in", "\nlanguages: 2\nbuilt in");
    assert_eq!(done[1].1.stdout, listed);
    let model = workspace.path("model.bin");
    workspace.write("model.bin", "model");
    let run = |arguments: &[&str]| {
        let all = [&["run", "--quiet", "--", "--model", model.to_str().unwrap()], arguments].concat();
        workspace.start("new-whisper", "cargo", &all)
    };
    let ran = run(&[]);
    assert_eq!(line(&ran.stdout, "model: "), "1 tokens, 2 audio and 3 text layers", "{ran:#?}");
    assert!(!ran.stderr.contains("played: loading"), "{ran:#?}");
    for (name, rate, channels) in [("stereo.wav", 16_000, 2), ("fast.wav", 44_100, 1)] {
        recording::write(&workspace.path(name), rate, channels);
    }
    let [stereo, fast] =
        ["stereo.wav", "fast.wav"].map(|name| workspace.path(name).to_str().unwrap().to_owned());
    // The small library says how many samples it got and their largest value, in two segments.
    let ran = run(&["--audio", &stereo, "--verbose"]);
    assert_eq!(
        ran.stdout, "[00:00.00 - 00:01.00] 16000 samples\n[01:01.00 - 01:02.50] up to 250 in en\n",
        "{ran:#?}"
    );
    assert!(ran.stderr.contains("played: loading"), "{ran:#?}");
    for (arguments, error) in [
        (&["--audio", &fast][..], "`ffmpeg -i INPUT -ar 16000 -ac 1 output.wav`"),
        (&["--audio", model.to_str().unwrap()], "cannot read `"),
        (&["--audio", &stereo, "--language", "xx"], "unknown language `xx`"),
        (
            &["--audio", &stereo, "--language", "de"],
            "the model is for English only, and cannot transcribe `de`",
        ),
        (&["--device", "vulkan"], "no device `vulkan`: built in: cpu; devices: CPU"),
        (&["--audio"], "`--audio` needs a value"),
        (&["--model", "nowhere.bin"], "cannot load `nowhere.bin`"),
    ] {
        let ran = run(arguments);
        assert!(!ran.ok && ran.stderr.contains("error: ") && ran.stderr.contains(error), "{error}: {ran:#?}");
        assert!(ran.stdout.is_empty(), "{ran:#?}");
    }
    workspace.is_in_order("new-whisper");
}
