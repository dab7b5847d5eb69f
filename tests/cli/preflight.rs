//! What preflight foresees on the recorded machines, the seeded broken ones among them.

use std::fmt::Write as _;
use std::path::Path;

use gpubuild_core::Backend;
use gpubuild_detect::matrix::Readiness;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{HostInfo, RealHost, RecordedHost};
use gpubuild_plan::look;
use gpubuild_plan::plan::make::MissingBackend;
use gpubuild_plan::plan::request::{BackendRequest, BackendSelection};
use gpubuild_plan::planning::{self, PlanRequest};
use gpubuild_plan::project;
use gpubuild_plan::project::Linkage;
use gpubuild_release::ci::preflight::{self, Outlook};

use crate::resolve::{hosts, read};
use crate::support::Sandbox;

/// Backends that a machine of somebody may be asked to build.
fn asked(backend: Backend) -> BackendRequest {
    BackendRequest {
        selection: BackendSelection::Named(vec![backend]),
        origin: "a test".to_owned(),
        without: Vec::new(),
    }
}

/// `tests/ci/preflight.txt` has, for every recorded machine, what preflight says before anything is compiled: the id of what
/// will go wrong, by backend. Those that are ill are called after their illness. `GPUBUILD_UPDATE_HOSTS=1` writes it anew.
#[test]
fn every_seeded_machine_is_foreseen() {
    let sandbox = Sandbox::with_project("gk");
    for backend in ["cpu", "cuda", "rocm", "metal", "vulkan", "sycl", "opencl"] {
        sandbox.write(&format!("vendor/src/{backend}/CMakeLists.txt"), "");
    }
    let real = RealHost::new();
    let file = real.path(sandbox.path("gpubuild.toml").to_str().unwrap());
    let project = project::load(&real, &file).unwrap();
    let catalogue = Catalogue::embedded();
    let (mut found, mut foreseen) = (String::new(), 0);
    for (name, path) in hosts() {
        let host = RecordedHost::parse(&name, &read(&path)).unwrap();
        let sight = look::look(&host, catalogue.clone());
        let mut line = Vec::new();
        for verdict in &sight.matrix.verdicts {
            let request = asked(verdict.backend);
            let wish = PlanRequest {
                host: &host,
                sight: &sight,
                project: &project,
                request: &request,
                linkage: Linkage::Static,
                missing: MissingBackend::Refuse,
                jobs: None,
                cuda_archs: None,
                native: false,
                provision: None,
            };
            let plan = planning::plan(&wish);
            let checks = preflight::foresee(&host, &sight.facts, &project.build_root, plan.as_ref());
            let bad: Vec<&str> = checks
                .iter()
                .filter(|check| check.outlook == Outlook::Bad)
                .map(|check| check.id.as_str())
                .collect();
            // What can be built is never stopped, and what `detect` says can't be is.
            let is_ready = verdict.build == Readiness::Ready;
            assert!(!(is_ready && plan.is_ok() && !bad.is_empty()), "{name}: {bad:?}");
            // Our kernels for OpenCL need nothing of a machine to be built.
            let needs_nothing = verdict.backend == Backend::Opencl;
            assert!(
                is_ready || needs_nothing || !bad.is_empty(),
                "{name}: {} is {:?}",
                verdict.backend,
                verdict.build
            );
            let own = name.strip_prefix("doctor/").unwrap_or(&name);
            foreseen += usize::from(bad.iter().any(|id| own.starts_with(id)));
            // A toolkit that was never there is no illness of the machine.
            line.extend(bad.iter().filter(|id| !is_absent(id)).map(|id| format!("{} {id}", verdict.backend)));
        }
        assert_eq!(host.counts().processes, 0, "{name}: no program is started");
        let _ = writeln!(found, "{name} = {}", line.join(", "));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ci/preflight.txt");
    #[expect(clippy::disallowed_methods, reason = "a test writes its own files when it is told to")]
    if std::env::var_os("GPUBUILD_UPDATE_HOSTS").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    assert_eq!(found, read(&file).replace("\r\n", "\n"));
    assert!(foreseen >= 20, "only {foreseen} seeded illnesses");
}

fn is_absent(id: &str) -> bool {
    id.ends_with(".toolkit.missing")
        || id == "plan.toolkit-missing"
        || id.ends_with(".platform")
        || id == "vk.sdk-missing"
}
