//! What preflight predicts for recorded hosts, including those with seeded faults.

use std::fmt::Write as _;
use std::path::Path;

use gpubuild_core::Backend;
use gpubuild_detect::matrix::Readiness;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{HostInfo, RealHost, RecordedHost};
use gpubuild_plan::machine;
use gpubuild_plan::plan::make::MissingBackend;
use gpubuild_plan::plan::request::{BackendRequest, BackendSelection};
use gpubuild_plan::planning::{self, PlanRequest};
use gpubuild_plan::project;
use gpubuild_plan::project::Linkage;
use gpubuild_release::ci::preflight::{self, Outlook};

use crate::resolve::{hosts, read};
use crate::support::Sandbox;

/// A request for one backend.
fn request_for(backend: Backend) -> BackendRequest {
    BackendRequest {
        selection: BackendSelection::Named(vec![backend]),
        origin: "a test".to_owned(),
        without: Vec::new(),
    }
}

/// `tests/ci/preflight.txt` has what preflight predicts for every recorded host before compiling: the id of the
/// expected failure per backend. Hosts with a seeded fault are named after its finding. `GPUBUILD_UPDATE_HOSTS=1`
/// rewrites the file.
#[test]
fn preflight_predicts_every_seeded_fault() {
    let sandbox = Sandbox::with_project("gk");
    for backend in ["cpu", "cuda", "rocm", "metal", "vulkan", "sycl", "opencl"] {
        sandbox.write(&format!("vendor/src/{backend}/CMakeLists.txt"), "");
    }
    let real = RealHost::new();
    let file = real.path(sandbox.path("gpubuild.toml").to_str().unwrap());
    let project = project::load(&real, &file).unwrap();
    let catalogue = Catalogue::embedded();
    let (mut found, mut predicted) = (String::new(), 0);
    for (name, path) in hosts() {
        let host = RecordedHost::parse(&name, &read(&path)).unwrap();
        let machine = machine::inspect(&host, catalogue.clone());
        let mut line = Vec::new();
        for verdict in &machine.matrix.verdicts {
            let request = request_for(verdict.backend);
            let plan_request = PlanRequest {
                host: &host,
                machine: &machine,
                project: &project,
                request: &request,
                linkage: Linkage::Static,
                missing: MissingBackend::Refuse,
                jobs: None,
                cross: None,
                cuda_archs: None,
                native: false,
                provision: None,
            };
            let plan = planning::plan(&plan_request);
            let checks = preflight::check(&host, &machine.facts, &project.build_root, plan.as_ref());
            let bad: Vec<&str> = checks
                .iter()
                .filter(|check| check.outlook == Outlook::Bad)
                .map(|check| check.id.as_str())
                .collect();
            // Preflight never stops a buildable backend, and always stops one that `detect` reports as blocked.
            let is_ready = verdict.build == Readiness::Ready;
            assert!(!(is_ready && plan.is_ok() && !bad.is_empty()), "{name}: {bad:?}");
            // The bundled OpenCL kernels have no build requirements.
            let needs_nothing = verdict.backend == Backend::Opencl;
            assert!(
                is_ready || needs_nothing || !bad.is_empty(),
                "{name}: {} is {:?}",
                verdict.backend,
                verdict.build
            );
            let own = name.strip_prefix("doctor/").unwrap_or(&name);
            predicted += usize::from(bad.iter().any(|id| own.starts_with(id)));
            // A toolkit that was never installed is not a fault.
            line.extend(bad.iter().filter(|id| !is_absent(id)).map(|id| format!("{} {id}", verdict.backend)));
        }
        assert_eq!(host.counts().processes, 0, "{name}: no process is started");
        let _ = writeln!(found, "{name} = {}", line.join(", "));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ci/preflight.txt");
    #[expect(clippy::disallowed_methods, reason = "a test updates its own files on request")]
    if std::env::var_os("GPUBUILD_UPDATE_HOSTS").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    assert_eq!(found, read(&file).replace("\r\n", "\n"));
    assert!(predicted >= 20, "only {predicted} seeded faults");
}

fn is_absent(id: &str) -> bool {
    id.ends_with(".toolkit.missing")
        || id == "plan.toolkit-missing"
        || id.ends_with(".platform")
        || id == "vk.sdk-missing"
}
