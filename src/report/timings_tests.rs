use gpubuild_exec::exec::TreeState;
use gpubuild_exec::exec::launcher::statistics::LauncherOutcome;

use super::*;

const EVIL: &str = "CMakeFiles/x.dir/a\"'</script><script>alert(1)</script>@@DATA@@\u{2028}.c.o";

pub(super) fn recording() -> TimingRecording {
    let unit = |output: &str, start, end| TimedUnit {
        tree: "cpu".into(),
        output: output.into(),
        kind: "c",
        start,
        end,
        memory_bytes: Some(300 << 20),
        cache: Some(LauncherOutcome::Hit),
        seen: false,
    };
    TimingRecording {
        seconds: 75.0,
        trees: vec![TreeTime { id: "cpu".into(), state: Some(TreeState::Built) }],
        steps: vec![TimedStep {
            tree: "cpu".into(),
            kind: "build",
            name: "<b>build</b>".into(),
            start: 0.0,
            end: 7.0,
        }],
        units: vec![unit(EVIL, 0.0, 2.0), unit("b.c.o", 1.0, 6.0), unit("liba.a", 6.0, 7.0)],
        caches: vec![LauncherTotals {
            tree: "cpu".into(),
            launcher: "ccache".into(),
            hits: 2,
            misses: 1,
            other: 0,
        }],
        shared_store: SharedStoreTotals {
            hits: 1,
            saved: 2,
            downloaded: 1 << 20,
            uploaded: 1 << 21,
            seconds: 1.5,
        },
        messages: vec![TimedMessage { time: 1.0, text: "<img src=x onerror=alert(1)>".into() }],
        samples: vec![
            Sample { time: 0.0, bytes: 0, active: 0 },
            Sample { time: 1.0, bytes: 1 << 30, active: 2 },
        ],
        needs: vec![vec![], vec![], vec![0, 1]],
    }
}

const ABOUT: TimingsSubject<'_> = TimingsSubject { project: "infer", success: true, processors: Some(2) };

#[test]
fn hostile_names_stay_data_in_the_page() {
    let recording = recording();
    let document = TimingsReport::new(ABOUT, &recording);
    let page = document.render(TimingsForm::Page).unwrap();
    assert!(!page.contains("<script>alert") && !page.contains("<img src=x"));
    assert_eq!(page.matches("</script>").count(), 2, "one for the data, one for the code");
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["units"][0]["output"], EVIL);
    let alone: serde_json::Value =
        serde_json::from_str(&document.render(TimingsForm::Json).unwrap()).unwrap();
    assert_eq!(data, alone, "the page contains the complete document");
    for outside in ["http://", "https://", "src=", "@import", "url(h"] {
        let code = page.replace(data["units"][0]["output"].as_str().unwrap(), "");
        let code = code.replace("http://www.w3.org/2000/svg", "");
        assert!(!code.contains(outside) || outside == "src=", "the page loads nothing: {outside}");
    }
}

#[test]
fn summary_is_visible_without_javascript() {
    let recording = recording();
    let page = TimingsReport::new(ABOUT, &recording).render(TimingsForm::Page).unwrap();
    for text in
        ["1 min 15 s (succeeded)", "3, 8.0 s in total", "6.0 s in 2 files", "1.0 GiB", "2 of 3 from ccache"]
    {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn concurrent_units_are_in_different_rows_of_a_trace() {
    let recording = recording();
    let text = TimingsReport::new(ABOUT, &recording).render(TimingsForm::Trace).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let rows: Vec<u64> = events
        .iter()
        .filter(|event| event["ph"] == "X" && event["cat"] == "c")
        .map(|event| event["tid"].as_u64().unwrap())
        .collect();
    assert_eq!(rows, [1, 2, 1]);
    assert!(events.iter().any(|event| event["ph"] == "C" && event["args"]["MiB"] == 1024));
    assert!(events.iter().any(|event| event["ph"] == "M" && event["args"]["name"] == "cpu"));
}

#[test]
fn file_name_selects_the_format() {
    assert_eq!(TimingsForm::of("a/timings.html"), TimingsForm::Page);
    assert_eq!(TimingsForm::of("a.JSON"), TimingsForm::Json);
    assert_eq!(TimingsForm::of("a.trace.json"), TimingsForm::Trace);
    assert_eq!((duration(3.04), duration(3725.0)), ("3.0 s".to_owned(), "1 h 2 min".to_owned()));
}

#[test]
fn page_contains_nothing_that_looks_like_a_secret() {
    assert!(gpubuild_core::secret::redact(include_str!("timings.html")).kinds.is_empty());
}
