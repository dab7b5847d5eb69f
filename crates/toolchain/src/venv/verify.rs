//! Loads installed libraries in a child process and queries their versions. A crash, a timeout or an unexpected version is
//! a problem.

use std::time::Duration;

use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Evidence, EvidenceKind};
use gpubuild_detect::id;
use gpubuild_exec::environment::Answers;
use gpubuild_host::{HostPath, Platform, ProbeLibraries, ProbeStatus};

use super::problem::VenvProblem;
use super::table::WheelRow;

/// Long enough to load cublasLt, which has 750 MB, from a slow disk.
const DEADLINE: Duration = Duration::from_secs(120);

/// Id of the host probe.
pub const PROBE: &str = "cuda-runtime";

/// Paths of the wheels' libraries in `site-packages`, in load order.
#[must_use]
pub fn libraries(site: &HostPath, wheels: &[&WheelRow], platform: Platform) -> Vec<HostPath> {
    let of_wheel = |wheel: &&WheelRow| {
        let folder = wheel.folder(platform).map(|folder| site.join(&folder));
        let libraries = wheel.libraries(platform.os).iter();
        libraries.filter_map(|library| Some(folder.as_ref()?.join(library))).collect::<Vec<_>>()
    };
    wheels.iter().flat_map(of_wheel).collect()
}

/// Loads the libraries in a child process and compares their versions with the table.
///
/// # Errors
/// The child crashed, timed out or failed, or a library reports an unexpected version.
pub fn verify(
    host: &dyn ProbeLibraries,
    libraries: &[HostPath],
    wheels: &[&WheelRow],
) -> Result<Answers, VenvProblem> {
    let paths: Vec<String> = libraries.iter().map(ToString::to_string).collect();
    let answer = host.probe_with(PROBE, &paths, DEADLINE);
    let broken = |how: &str, error: &str| {
        VenvProblem::failed(id!("venv.not-loadable"))
            .value("how", how)
            .value("error", error)
            .evidence(Evidence::new(EvidenceKind::Dlopen, paths.join(" "), error))
    };
    match answer.status {
        ProbeStatus::Ok => {}
        ProbeStatus::Failed => return Err(broken("cannot be loaded", &answer.error)),
        ProbeStatus::Crashed => return Err(broken("crash the program that loads them", &answer.error)),
        ProbeStatus::Timeout => return Err(broken("do not finish loading", &answer.error)),
    }
    let answers: Answers = serde_json::from_str(&answer.answer)
        .map_err(|error| broken("returned an invalid answer", &error.to_string()))?;
    let versions = answers.versions();
    for wheel in wheels {
        let (Some(asks), Some(expected)) = (wheel.asks, &wheel.answers) else { continue };
        let found = versions.get(asks.key()).map(String::as_str).unwrap_or_default();
        if found.parse::<Version>().ok().as_ref() != Some(expected) {
            return Err(VenvProblem::failed(id!("venv.wrong-version"))
                .value("package", wheel.package.as_str())
                .value("version", wheel.version.as_str())
                .value("expected", expected.as_str())
                .value("found", if found.is_empty() { "nothing" } else { found }));
        }
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::venv::WheelTable;
    use gpubuild_detect::diagnostic::DiagnosticId;
    use gpubuild_host::{Arch, HostInfo, Os, ProbeAnswer, RecordedHost};

    fn run(answer: ProbeAnswer) -> Result<Answers, (DiagnosticId, String)> {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).probe_answer(PROBE, answer).build();
        let release = &WheelTable::embedded().releases[0];
        let wheels: Vec<&WheelRow> = release.wheels.iter().filter(|wheel| wheel.usual).collect();
        let libraries = libraries(&host.path("/v"), &wheels, host.platform());
        assert_eq!(libraries[0].as_str(), "/v/nvidia/cuda_runtime/lib/libcudart.so.12");
        assert_eq!(libraries[1].file_name(), Some("libcublasLt.so.12"));
        verify(&host, &libraries, &wheels).map_err(|problem| {
            (problem.draft.id, problem.draft.values.into_values().collect::<Vec<_>>().join(" "))
        })
    }

    fn answered(answer: &str) -> ProbeAnswer {
        ProbeAnswer { status: ProbeStatus::Ok, error: String::new(), answer: answer.to_owned() }
    }

    #[test]
    fn expected_versions_are_returned_and_others_refused() {
        let answers = run(answered(r#"{"cudart":12090,"cublas":[12,9,2]}"#)).unwrap();
        assert_eq!(
            answers.versions(),
            BTreeMap::from([("cudart", "12.9".into()), ("cublas", "12.9.2".into())])
        );
        let (id, values) = run(answered(r#"{"cudart":12080,"cublas":[12,9,2]}"#)).unwrap_err();
        assert_eq!(id, "venv.wrong-version");
        assert!(values.contains("12.9 12.8") && values.contains("nvidia-cuda-runtime-cu12"), "{values}");
        assert!(run(answered(r#"{"cudart":12090}"#)).unwrap_err().1.contains("nothing"));
        assert!(run(answered("3")).unwrap_err().1.contains("invalid answer"));
    }

    #[test]
    fn crashes_and_timeouts_are_problems() {
        for (status, how) in [
            (ProbeStatus::Failed, "cannot be loaded"),
            (ProbeStatus::Crashed, "crash the program"),
            (ProbeStatus::Timeout, "do not finish"),
        ] {
            let answer = ProbeAnswer { status, error: "why".into(), answer: String::new() };
            let (id, values) = run(answer).unwrap_err();
            assert_eq!(id, "venv.not-loadable");
            assert!(values.contains(how) && values.contains("why"), "{values}");
        }
    }
}
