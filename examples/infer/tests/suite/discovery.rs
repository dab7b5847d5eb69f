//! Drivers that crash, hang or talk nonsense become reasons.

use infer::discovery::parse_backend;

#[test]
fn names_are_checked() {
    assert_eq!(parse_backend("auto"), Ok(None));
    assert_eq!(parse_backend("HIP"), Ok(Some("rocm".to_owned())));
    assert!(parse_backend("vulcan").unwrap_err().contains("there are auto, cuda, rocm, metal, vulkan"));
}

#[test]
fn what_is_not_linked_says_so() {
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
    fn everything_that_goes_wrong_is_a_reason() {
        assert_eq!(reason("crash"), "its driver crashed (signal 11): driver: assertion failed");
        assert_eq!(reason("leave"), "its driver ended the probe with code 7: cannot open device");
        assert!(reason("garbage").starts_with("the probe gave no readable answer"));
        assert!(reason("empty").starts_with("the probe gave no readable answer"));
        assert_eq!(reason("other"), "the probe answered for `cuda`");
        assert_eq!(reason("noise"), "too old: 1.0");
        let absent = ask(Path::new("/nonexistent/program"), "cuda", Duration::from_secs(1));
        assert!(absent.why.unwrap().starts_with("the probe cannot be started"));
    }

    #[test]
    fn a_hang_is_cut() {
        let start = Instant::now();
        let answer = play("hang", Duration::from_millis(200));
        assert_eq!(answer.why.as_deref(), Some("its driver did not answer within 0.2 s"));
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn endless_talk_is_cut() {
        // The reader stops after its limit; the child then blocks, dies of the closed pipe, or runs out of time.
        let answer = play("endless", Duration::from_secs(5));
        assert!(answer.why.is_some());
    }

    #[test]
    fn a_good_answer_is_read() {
        let answer = play("good", Duration::from_secs(20));
        assert_eq!((answer.why, answer.devices[0].info.name.as_str()), (None, "Card"));
    }
}
