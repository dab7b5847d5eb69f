//! Random changes to all kinds of inputs. What the store returns, in the same folder or in another clone, is what a build from scratch
//! gives, although neither CMake, Ninja nor a compiler notices some of the changes.

use gpubuild_core::Backend;
use gpubuild_exec::exec::{BuildError, TreeState};
use gpubuild_host::WriteFiles;
use gpubuild_samples::random::{cases, random};

use crate::support::{Project, project, store_in};

const LIST: &str = "cmake_minimum_required(VERSION 3.16)
project(s C ASM)
file(READ script.txt SCRIPT)
file(STRINGS plain.h PLAIN_LINE)
string(REGEX MATCH \"[0-9]\" PLAIN_NUMBER \"${PLAIN_LINE}\")
file(GLOB LISTED list/*.txt)
list(LENGTH LISTED COUNT)
configure_file(config.h.in config.h)
add_custom_command(OUTPUT made.h COMMAND sh -c \". ${CMAKE_SOURCE_DIR}/helper.sh\" > made.h VERBATIM)
add_library(s STATIC s.c made.h)
target_compile_definitions(s PRIVATE SCRIPT=${SCRIPT} COUNT=${COUNT} PLAIN_NUMBER=${PLAIN_NUMBER})
target_include_directories(s PRIVATE first second . ${CMAKE_BINARY_DIR})
add_library(t STATIC t.c)
target_compile_definitions(t PRIVATE FOLDER=\"${CMAKE_SOURCE_DIR}\")
add_library(u STATIC u.s u.c)
target_include_directories(u PRIVATE .)
";

const SOURCES: [(&str, &str); 6] = [
    ("CMakeLists.txt", LIST),
    (
        "s.c",
        "#include <plain.h>\n#include <config.h>\n#include <made.h>\n#include <shadowed.h>\n#define OPTIONAL 0\n\
         #if __has_include(<optional.h>)\n#include <optional.h>\n#endif\n\
         int s(void) { return (PLAIN == PLAIN_NUMBER ? PLAIN : 9) + 10 * (SCRIPT + 10 * (COUNT + 10 * (CONFIGURED + 10 * (GENERATED + 10 * (SHADOWED + 10 * OPTIONAL))))); }\n",
    ),
    ("second/shadowed.h", "#define SHADOWED 0\n"),
    (
        "t.c",
        "extern const char embedded[];\n\
         __asm__(\".globl embedded\\n.pushsection .rodata\\nembedded: .incbin \\\"\" FOLDER \"/embedded.txt\\\"\\n.popsection\");\n\
         int t(void) { return embedded[0] - '0'; }\n",
    ),
    ("u.s", ".globl assembled\n.data\nassembled: .include \"assembled.inc\"\n"),
    ("u.c", "extern const char assembled[];\nint u(void) { return assembled[0]; }\n"),
];

/// A file with one digit of the answer. Without text, the file does not exist.
type Input = (&'static str, fn(usize) -> Option<String>);

const INPUTS: [Input; 9] = [
    ("plain.h", |value| Some(format!("#define PLAIN {value}\n"))),
    ("script.txt", |value| Some(value.to_string())),
    // One more file is listed.
    ("list/a.txt", |value| (value > 0).then(String::new)),
    ("config.h.in", |value| Some(format!("#define CONFIGURED {value}\n"))),
    ("helper.sh", |value| Some(format!("echo '#define GENERATED {value}'\n"))),
    ("first/shadowed.h", |value| (value > 0).then(|| format!("#define SHADOWED {value}\n"))),
    ("optional.h", |value| (value > 0).then(|| format!("#undef OPTIONAL\n#define OPTIONAL {value}\n"))),
    ("embedded.txt", |value| Some(value.to_string())),
    ("assembled.inc", |value| Some(format!(".byte {value}\n"))),
];

/// Index of the input that lists files, of which there are at most two.
const LISTED: usize = 2;

fn build(project: &Project) -> Result<TreeState, BuildError> {
    Ok(project.build(vec![project.tree(&[Backend::Cpu], &["s", "t", "u"], &[])])?.state)
}

/// The digits that the libraries contain, in the order of the inputs.
fn answer(project: &Project) -> Vec<usize> {
    let main = project.path("main.c");
    let text = "#include <stdio.h>\nint s(void), t(void), u(void);\nint main(void) { printf(\"%d%d%07d\", u(), t(), s()); }\n";
    project.host.write(&main, text.as_bytes()).unwrap();
    let program = project.path("main");
    let libraries = ["s", "t", "u"].map(|name| project.path(&format!("build/cpu/lib{name}.a")));
    let libraries = libraries.iter().map(gpubuild_host::HostPath::as_str);
    project.output(
        &["cc", "-o", program.as_str(), main.as_str()].into_iter().chain(libraries).collect::<Vec<_>>(),
    );
    project.output(&[program.as_str()]).bytes().rev().map(|digit| usize::from(digit - b'0')).collect()
}

/// Sets an input in a project, with a time of modification unless it is the current one.
fn set(project: &Project, input: usize, value: usize, time: Option<&str>) {
    let (name, text) = INPUTS[input];
    match text(value) {
        Some(text) => {
            project.write(name, &text);
            if let Some(time) = time {
                project.output(&["touch", "-d", time, project.path("src").join(name).as_str()]);
            }
        }
        None => project.host.remove(&project.path("src").join(name)).unwrap(),
    }
}

fn set_in(projects: &[&Project], input: usize, value: usize, time: Option<&str>) {
    for project in projects {
        set(project, input, value, time);
    }
}

fn check(steps: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (Some(mut one), Some(mut two)) = (project(&SOURCES), project(&SOURCES)) else { return };
    for project in [&mut one, &mut two] {
        project.store = Some(store_in(&folder, &project.host));
        project.write("list/always.txt", "");
    }
    let (mut random, mut values) = (random(), [0; INPUTS.len()]);
    let expected = |values: [usize; INPUTS.len()]| {
        let mut expected = values.to_vec();
        expected[LISTED] = 1 + values[LISTED].min(1);
        expected
    };
    let mut restored = 0;
    for step in 0..=steps {
        if step == 0 {
            for input in 0..INPUTS.len() {
                set_in(&[&one, &two], input, 0, None);
            }
        } else {
            // At first each input once, with its other value.
            let input = if step <= INPUTS.len() { step - 1 } else { random(INPUTS.len()) };
            values[input] = if step <= INPUTS.len() { 1 } else { random(3) };
            let time = [None, None, Some("2020-01-01"), Some("2400-01-01")][random(4)];
            set_in(&[&one, &two], input, values[input], time);
        }
        if random(6) == 0 {
            one.write("plain.h", "#error broken\n");
            assert!(build(&one).is_err());
            set(&one, 0, values[0], None);
        }
        if (step <= INPUTS.len() || random(4) > 0) && build(&one).unwrap() == TreeState::Taken {
            assert_eq!(answer(&one), expected(values), "step {step}: a stale result was restored");
            restored += 1;
        }
        let is_fresh = step <= INPUTS.len() || random(2) == 0;
        if is_fresh {
            two.host.remove(&two.path("build")).unwrap();
        }
        if is_fresh || random(2) == 0 {
            let state = build(&two).unwrap();
            restored += usize::from(state == TreeState::Taken);
            // A build in an existing folder may miss a change, as Ninja does. Its result must not get into the store.
            if is_fresh || state == TreeState::Taken {
                assert_eq!(answer(&two), expected(values), "step {step}: another clone got a stale result");
            }
        }
    }
    assert!(restored > 0);
}

#[test]
fn random_changes_never_leave_stale_results_in_the_store() {
    check(12);
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn many_random_changes_never_leave_stale_results_in_the_store() {
    check(cases(60));
}
