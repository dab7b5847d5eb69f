//! Drivers that crash, hang or return invalid answers become reasons.

use infer::discovery::parse_backend;

#[test]
fn names_are_checked() {
    assert_eq!(parse_backend("auto"), Ok(None));
    assert_eq!(parse_backend("HIP"), Ok(Some("rocm".to_owned())));
    assert!(parse_backend("vulcan").unwrap_err().contains("expected auto, cuda, rocm, metal, vulkan"));
}

#[test]
fn backends_that_are_not_linked_are_reported() {
    let answer = infer::discovery::look("metal", std::path::Path::new("/nonexistent"));
    assert_eq!(answer.why.as_deref(), Some("not built into this program"));
}

#[cfg(unix)]
mod children {
    use infer::discovery::{Answer, ask};
    use std::path::Path;
    use std::time::{Duration, Instant};

    fn play(part: &str, timeout: Duration) -> Answer {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/probe.sh");
        ask(&program, part, timeout)
    }

    fn reason(part: &str) -> String {
        let answer = play(part, Duration::from_secs(20));
        assert_eq!((answer.backend.as_str(), answer.devices.len()), (part, 0));
        answer.why.expect("a reason")
    }

    #[test]
    fn every_probe_failure_is_a_reason() {
        assert_eq!(reason("crash"), "its driver crashed (signal 11): driver: assertion failed");
        assert_eq!(reason("leave"), "its driver ended the probe with code 7: cannot open device");
        assert!(reason("garbage").starts_with("the probe returned an invalid answer"));
        assert!(reason("empty").starts_with("the probe returned an invalid answer"));
        assert_eq!(reason("other"), "the probe answered for `cuda`");
        assert_eq!(reason("noise"), "too old: 1.0");
        let absent = ask(Path::new("/nonexistent/program"), "cuda", Duration::from_secs(1));
        assert!(absent.why.unwrap().starts_with("cannot start the probe"));
    }

    #[test]
    fn hanging_probe_times_out() {
        let start = Instant::now();
        let answer = play("hang", Duration::from_millis(200));
        assert_eq!(answer.why.as_deref(), Some("its driver did not answer within 0.2 s"));
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn endless_output_is_limited() {
        // The reader stops at its limit; the child then blocks, dies of the closed pipe, or times out.
        let answer = play("endless", Duration::from_secs(5));
        assert!(answer.why.is_some());
    }

    #[test]
    fn valid_answer_is_accepted() {
        let answer = play("good", Duration::from_secs(20));
        assert_eq!((answer.why, answer.devices[0].info.name.as_str()), (None, "Card"));
    }
}
