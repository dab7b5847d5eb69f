//! `build --timings`: records a real build and opens the page in a real browser.

use std::time::Duration;

use gpubuild::report::timings::{TimingsForm, TimingsReport, TimingsSubject};
use gpubuild_core::Backend;
use gpubuild_exec::exec::timings::{TimedMessage, TimedUnit, TimingRecorder, TimingRecording};
use gpubuild_host::{Command, CommandOutput, ReadFiles, RunPrograms, WriteFiles, find_program};

use crate::support::{Project, plan, project};

pub(crate) const SLOW: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(s C CXX)\n\
         add_custom_command(OUTPUT made.h COMMAND ${CMAKE_COMMAND} -E touch made.h)\n\
         add_library(t-core STATIC one.c slow.cpp made.h)\n\
         target_include_directories(t-core PRIVATE ${CMAKE_CURRENT_BINARY_DIR})\n",
    ),
    ("one.c", "#include <made.h>\nint one(void) { return 1; }\n"),
    (
        "slow.cpp",
        "#include <regex>\nbool slow(const char* t) { return std::regex_match(t, std::regex(\"a*\")); }\n",
    ),
];

pub(crate) fn recorded(project: &Project) -> TimingRecording {
    let recorder = TimingRecorder::new(&project.host);
    std::thread::scope(|scope| {
        scope.spawn(|| recorder.watch());
        let tree = project.tree(&[Backend::Cpu], &["t-core"], &[]);
        let result = project.build_to(&plan(vec![tree]), None, &|event| recorder.event(event));
        recorder.end();
        result.unwrap();
    });
    recorder.finish()
}

#[test]
fn timings_record_files_steps_memory_and_critical_path() {
    let Some(project) = project(SLOW) else { return };
    let recording = recorded(&project);
    let unit = |end: &str| {
        let found = recording.units.iter().find(|unit| unit.output.ends_with(end));
        found.unwrap_or_else(|| panic!("no {end} in {:?}", recording.units))
    };
    let (slow, archive) = (unit("slow.cpp.o"), unit("libt-core.a"));
    assert_eq!(
        (slow.kind, archive.kind, unit("one.c.o").kind, unit("made.h").kind),
        ("cxx", "archive", "c", "other")
    );
    assert!(slow.end <= archive.start + 0.01 && archive.end <= recording.seconds, "{slow:?} {archive:?}");
    let kinds: Vec<&str> = recording.steps.iter().map(|step| step.kind).collect();
    assert_eq!(kinds, ["configure", "build", "collect"]);
    let build = &recording.steps[1];
    assert!(build.start <= slow.start + 0.01 && archive.end <= build.end + 0.01, "{build:?} {slow:?}");
    if cfg!(target_os = "linux") {
        let memory = slow.memory_bytes.unwrap_or_default();
        assert!(memory > 20 << 20, "a C++ compiler takes more than {memory} bytes");
        assert!(recording.samples.iter().any(|sample| sample.active > 0), "{:?}", recording.samples);
    }
    let about = TimingsSubject { project: "slow", success: true, processors: Some(2) };
    let document = serde_json::to_value(TimingsReport::new(about, &recording)).unwrap();
    let path = document["critical_path"]["units"].as_array().unwrap();
    let names: Vec<&str> = path
        .iter()
        .map(|index| recording.units[usize::try_from(index.as_u64().unwrap()).unwrap()].output.as_str())
        .collect();
    assert!(names.last().is_some_and(|name| name.ends_with("libt-core.a")), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with("slow.cpp.o")), "{names:?}");
}

/// Runs a headless browser and checks that it reports no errors. Prints why and returns `None` if no browser is
/// installed.
pub(crate) fn browse(project: &Project, arguments: &[String]) -> Option<CommandOutput> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let Some(browser) = names.iter().find_map(|name| find_program(&project.host, name).into_iter().next())
    else {
        crate::requirements::skip("chromium", "no Chromium");
        return None;
    };
    let profile = format!("--user-data-dir={}", project.path("profile"));
    let fixed =
        ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", &profile];
    let command = Command::new(browser.as_str(), Duration::from_secs(120)).args(fixed).args(arguments);
    let output = project.host.run(&command).unwrap();
    assert!(output.success(), "{output:?}");
    let complaints: Vec<&str> =
        output.stderr.lines().filter(|line| line.contains("CONSOLE") || line.contains("Uncaught")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    Some(output)
}

#[test]
fn timing_page_renders_hostile_file_names_without_errors() {
    let Some(project) = project(SLOW) else { return };
    let mut recording = recorded(&project);
    let evil = "we\"ird' </script><script>document.title='broken'</script><img src=x onerror=\"console.error(1)\">.c.o";
    let mut unit: TimedUnit = recording.units[0].clone();
    unit.output = evil.to_owned();
    recording.units.push(unit);
    recording.needs.push(Vec::new());
    recording.messages.push(TimedMessage { time: 1.0, text: evil.to_owned() });
    let about = TimingsSubject { project: "slow <b>project</b>", success: true, processors: Some(2) };
    let text = TimingsReport::new(about, &recording).render(TimingsForm::Page).unwrap();
    let page = project.path("timings.html");
    project.host.write(&page, text.as_bytes()).unwrap();
    let (address, picture) = (format!("file://{page}"), project.path("page.png"));
    let dump = ["--dump-dom".to_owned(), address.clone()];
    let Some(dom) = browse(&project, &dump) else { return };
    let dom = dom.stdout;
    assert!(dom.contains("<title>slow &lt;b&gt;project&lt;/b&gt;: "), "the title is unchanged");
    let (_, table) = dom.split_once("<tbody id=\"rows\">").unwrap();
    assert_eq!(table.matches("<tr ").count(), recording.units.len(), "one row per file");
    assert!(table.contains("&lt;img src=x onerror="), "the name is escaped: {table}");
    assert!(dom.matches("class=\"bar").count() >= recording.units.len(), "one bar per file");
    assert!(!dom.contains("<img src=\"x\""), "the name is not interpreted as HTML");
    let screenshot = [format!("--screenshot={picture}"), "--window-size=1400,1000".to_owned(), address];
    browse(&project, &screenshot);
    let bytes = project.host.read(&picture).unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "{} bytes", bytes.len());
}
