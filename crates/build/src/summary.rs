//! The backends of this machine, for programs and task runners.

use gpubuild_core::Backend;
use gpubuild_detect::summary::{BackendSummary, summary};
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{InspectHost, RealHost};
use gpubuild_plan::machine;

/// Which backends a program can use on this machine: one line each, with the device or the reason, and the recommended one, as in
/// `gpubuild detect --summary`, but without the doctor's checks. Reads files and the environment; loads no driver and starts no program.
///
/// ```no_run
/// eprintln!("{}", gpubuild_build::backend_summary());
/// ```
#[must_use]
pub fn backend_summary() -> BackendSummary {
    of_host(&RealHost::new())
}

fn of_host(host: &dyn InspectHost) -> BackendSummary {
    let state = machine::inspect(host, Catalogue::embedded());
    summary(&state.facts, &state.matrix, &Backend::ALL)
}

#[cfg(test)]
mod tests {
    use gpubuild_detect::summary::BackendState;
    use gpubuild_host::RecordedHost;

    use super::*;

    fn recorded(name: &str) -> BackendSummary {
        let path = format!("{}/../../tests/hosts/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        #[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
        let text = std::fs::read_to_string(path).unwrap();
        of_host(&RecordedHost::parse(name, &text).unwrap())
    }

    #[test]
    fn every_backend_has_one_line() {
        let summary = recorded("ubuntu-22.04-h200");
        assert_eq!(summary.lines.len(), Backend::ALL.len());
        assert_eq!(summary.recommended, Backend::Cuda);
        let text = summary.to_string();
        assert_eq!(text.lines().count(), Backend::ALL.len() + 1);
        let cuda = text.lines().find(|line| line.starts_with("cuda")).unwrap();
        assert!(
            cuda.starts_with("cuda     ready    ") && cuda.contains("H200") && cuda.contains("driver"),
            "{text}"
        );
        assert_eq!(text.lines().last(), Some("recommended: cuda"));
    }

    #[test]
    fn states_follow_the_verdicts() {
        let nouveau = recorded("ubuntu-24.04-nouveau");
        let state = |backend| nouveau.lines.iter().find(|line| line.backend == backend).unwrap();
        assert_eq!(state(Backend::Cuda).state, BackendState::Blocked);
        assert!(state(Backend::Cuda).detail.contains("nouveau"), "{nouveau}");
        assert_eq!(state(Backend::Metal).state, BackendState::Absent);
        assert!(nouveau.lines.iter().all(|line| !line.detail.is_empty()), "{nouveau}");
    }
}
