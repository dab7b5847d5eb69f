use super::*;
use crate::exec::ninja::{critical_path, parse_edges, parse_log};

fn unit(output: &str, start: f64, end: f64) -> TimedUnit {
    let (tree, kind) = ("t".to_owned(), kind_of(output));
    TimedUnit { tree, output: output.into(), kind, start, end, memory_bytes: None, cache: None, seen: false }
}

#[test]
fn only_new_lines_of_the_ninja_log_are_parsed_and_steps_are_not_repeated() {
    let old = "# ninja log v5\n0\t900\t17\ta.o\tabc\n";
    let text = format!(
        "{old}5\t1500\t18\tb.o\tdef\n1500\t1600\t19\tgen.c\t123\n1500\t1600\t19\tgen.h\t123\nbroken\n7\tx\ty\n"
    );
    let before = old.lines().map(str::to_owned).collect();
    let outputs = parse_log(&text, &before);
    let shown: Vec<(&str, f64, f64)> =
        outputs.iter().map(|one| (one.output.as_str(), one.start, one.end)).collect();
    assert_eq!(shown, [("b.o", 0.005, 1.5), ("gen.c", 1.5, 1.6)]);
}

#[test]
fn critical_path_includes_dependencies_through_unbuilt_outputs() {
    let text = "rule CC\n  command = cc\nbuild a.o: CC /s/a$ b.c || order\nbuild b.o | b.d: CC b.c\nbuild lib.a: AR a.o b.o\n\
                build order: phony gen.h\nbuild gen.h: GEN\nbuild all: phony $\n  lib.a\nbuild c$:x.o: CC c.c | lib.a\n";
    let units = [
        unit("gen.h", 0.0, 1.0),
        unit("b.o", 0.0, 5.0),
        unit("a.o", 1.0, 5.5),
        unit("lib.a", 5.5, 6.0),
        unit("c:x.o", 6.0, 6.5),
    ];
    let edges = BTreeMap::from([("t".to_owned(), parse_edges(text))]);
    let needs = ninja::needs(&units, &edges);
    assert_eq!(needs, [vec![], vec![], vec![0], vec![1, 2], vec![3]]);
    assert_eq!(critical_path(&units, &needs), [0, 2, 3, 4]);
    assert_eq!(critical_path(&[], &[]), Vec::<usize>::new());
}

#[test]
fn kinds_and_sources_are_derived_from_object_names() {
    for (output, kind) in [
        ("CMakeFiles/x.dir/a.cpp.o", "cxx"),
        ("CMakeFiles/x.dir/a.c.obj", "c"),
        ("g/CMakeFiles/x.dir/k.cu.o", "cuda"),
        ("k.hip.o", "hip"),
        ("liba.a", "archive"),
        ("bin/libggml.so.0.9", "link"),
        ("build.ninja", "configure"),
        ("shaders/x.spv", "other"),
    ] {
        assert_eq!(kind_of(output), kind, "{output}");
    }
    assert!(is_object_of("g/CMakeFiles/x.dir/src/a.cpp.o", "/p/g/src/a.cpp"));
    assert!(is_object_of("CMakeFiles/x.dir/a.c.o", "a.c"));
    assert!(!is_object_of("CMakeFiles/x.dir/aa.c.o", "/p/a.c"));
    assert!(!is_object_of("liba.a", "/p/a.c"));
}

#[test]
fn unfinished_steps_end_with_the_build() {
    let host =
        gpubuild_host::RecordedHost::builder(gpubuild_host::Os::Linux, gpubuild_host::Arch::X86_64).build();
    let recorder = TimingRecorder::new(&host);
    let tree = || "cpu".to_owned();
    recorder.event(&BuildEvent::Configuring { tree: tree(), backends: Vec::new(), build: "/b".into() });
    recorder.event(&BuildEvent::Configured { tree: tree(), seconds: 1.0 });
    recorder.event(&BuildEvent::Compiling { tree: tree(), build: "/b".into(), jobs: 2 });
    recorder.event(&BuildEvent::Narrowed { tree: tree(), before: 2, jobs: 1, why: "Killed".into() });
    let recording = recorder.finish();
    let kinds: Vec<&str> = recording.steps.iter().map(|step| step.kind).collect();
    assert_eq!(kinds, ["configure", "build"]);
    assert!(recording.steps.iter().all(|step| step.end.is_finite() && step.end <= recording.seconds));
    assert_eq!(recording.messages.len(), 1);
    assert_eq!(recording.trees, [TreeTime { id: tree(), state: None }]);
}
