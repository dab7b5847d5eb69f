//! `gpubuild bench`: rounds, failures, a plot, and which backend to use.

use crate::support::Sandbox;

/// A program that prints the JSON of `infer bench`, faster in each round, or fails as its arguments request.
const PROGRAM: &str = r##"
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    assert_eq!(arguments[0], "measure");
    assert!(arguments.iter().any(|argument| argument == "--json"));
    let counter = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("rounds");
    let round = std::fs::read_to_string(&counter).map_or(0, |text| text.len());
    std::fs::write(&counter, "x".repeat(round + 1)).unwrap();
    if arguments.iter().any(|argument| argument == "crash") {
        eprintln!("no device: nothing answered");
        std::process::exit(1);
    }
    if arguments.iter().any(|argument| argument == "nonsense") {
        println!("12 tokens per second");
        return;
    }
    let speed = |best: usize| format!(r#"{{"best_tokens_per_second":{best}.0,"worst_tokens_per_second":{best}.0}}"#);
    println!(
        r#"{{"schema":{{"name":"infer-bench","version":1}},"device":{{"name":"Chip","kind":"cpu"}},"model":"m","prompt":{},"decode":{},"fraction":0.9}}"#,
        speed(100 + round), speed(10 + round)
    );
}
"##;

fn with_program(bench: &str) -> Option<Sandbox> {
    let project = Sandbox::with_library()?;
    let table = project.read("gpubuild.toml") + "[binary]\npackage = \"app\"\nprofile = \"dev\"\n" + bench;
    project.write("gpubuild.toml", &table);
    project.write("app/Cargo.toml", "[package]\nname = \"app\"\nedition = \"2024\"\n[workspace]\n");
    project.write("app/src/main.rs", PROGRAM);
    Some(project)
}

#[test]
fn backends_are_interleaved_and_the_best_round_is_reported() {
    let Some(project) = with_program("bench = [\"measure\"]\n") else { return };
    project.run(&["bench"]).fails(2, "bench.nothing-built").says(&["hint: run `gpubuild build`"]);
    project.run(&["build", "--offline"]).succeeds();
    let plot = project.path("plot.svg");
    let ran = project.run(&["bench", "--rounds", "2", "--svg", plot.to_str().unwrap()]);
    let text = ran.succeeds().stdout.clone();
    assert!(text.contains("101 (100 to 101)") && text.contains("11.0 (10.0 to 11.0)"), "{text}");
    assert!(
        text.contains("use `cpu`: no other backend ran") && text.contains("limited by the memory bandwidth"),
        "{text}"
    );
    assert!(project.read("plot.svg").starts_with("<svg "));
    let json = project.run(&["bench", "--rounds", "1", "--json"]).succeeds().json();
    assert_eq!(json["schema"]["name"], "bench");
    assert_eq!(json["backends"][0]["decode"]["best_tokens_per_second"], 12.0);
    project.run(&["bench", "--rounds", "1", "--svg", "plot.svg"]).succeeds();
    project.run(&["bench", "--rounds", "1", "--svg", "gpubuild.toml"]).fails(2, "file.not-ours");
}

#[test]
fn failing_backend_is_reported_with_its_last_output() {
    let Some(project) = with_program("bench = [\"measure\"]\n") else { return };
    project.run(&["build", "--offline"]).succeeds();
    let ran = project.run(&["bench", "--", "crash"]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    assert!(
        ran.stdout.contains("no device: nothing answered") && ran.stdout.contains("no backend ran"),
        "{ran:#?}"
    );
    assert_eq!(project.read("app/rounds").len(), 1, "a failed backend is not run again");
    let ran = project.run(&["bench", "--", "nonsense"]);
    assert_eq!(ran.exit, Some(1));
    assert!(ran.stdout.contains("invalid output"), "{ran:#?}");
    project
        .run(&["bench", "--backends", "vulkan"])
        .fails(2, "bench.not-built")
        .says(&["build --backends vulkan"]);
    let below_a_file = project.path("app/src/main.rs/plot.svg");
    project
        .run(&["bench", "--rounds", "1", "--svg", below_a_file.to_str().unwrap()])
        .fails(1, "bench.unwritable");
}

#[test]
fn program_without_a_bench_command_is_not_started() {
    let Some(project) = with_program("") else { return };
    project.run(&["bench"]).fails(2, "bench.none").says(&["bench = [\"bench\"]"]);
    let Some(project) = Sandbox::with_library() else { return };
    project.run(&["bench"]).fails(2, "bench.no-binary");
}
