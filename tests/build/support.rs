//! Projects in temporary folders, and plans for them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use gpubuild_core::Backend;
use gpubuild_exec::exec::{
    self, BuildBinary, BuildError, BuildEvent, BuildJob, BuildOutcome, InstalledTools, Replan, Sink,
};
use gpubuild_exec::python::Network;
use gpubuild_exec::store::settings::Store;
use gpubuild_host::{Host, HostInfo, HostPath, ReadFiles, RealHost, RunPrograms, WriteFiles, find_program};
use gpubuild_plan::plan::{Jobs, Plan, PlannedTree};
use gpubuild_plan::project::CacheAccess;

use crate::requirements::skip;

/// A project in a temporary folder.
pub(crate) struct Project {
    pub(crate) host: RealHost,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) tools: InstalledTools,
    /// All events of the builds so far.
    pub(crate) events: Mutex<Vec<BuildEvent>>,
    /// The shared store, if any.
    pub(crate) store: Option<Store>,
}

/// Creates a project with these files. Prints why and returns `None` if CMake, Ninja or a C compiler is missing;
/// panics if `GPUBUILD_REQUIRE` names `cmake`.
pub(crate) fn project(files: &[(&str, &str)]) -> Option<Project> {
    let host = RealHost::new();
    let found = |name: &str| find_program(&host, name).into_iter().next();
    let (cmake, ninja, cc) = (found("cmake"), found("ninja"), found("cc"));
    if cmake.is_none() || ninja.is_none() || cc.is_none() {
        skip("cmake", "no CMake, Ninja or C compiler");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let project = Project {
        host,
        folder,
        tools: InstalledTools { cmake, ninja, ..InstalledTools::default() },
        events: Mutex::default(),
        store: None,
    };
    for (name, text) in files {
        project.write(name, text);
    }
    Some(project)
}

impl Project {
    pub(crate) fn path(&self, name: &str) -> HostPath {
        // CMake resolves symlinks in the path of the temporary folder.
        let root = self.host.canonical(&self.host.path(self.folder.path().to_str().unwrap())).unwrap();
        root.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        self.host.write(&self.path(&format!("src/{name}")), text.as_bytes()).unwrap();
    }

    pub(crate) fn tree(&self, backends: &[Backend], targets: &[&str], cache: &[(&str, &str)]) -> PlannedTree {
        let id = backends.iter().map(|backend| backend.id()).collect::<Vec<_>>().join("-");
        let mut entries = BTreeMap::from([("CMAKE_BUILD_TYPE".to_owned(), "Release".to_owned())]);
        entries.extend(cache.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        PlannedTree {
            build: self.path("build").join(&id),
            id,
            backends: backends.to_vec(),
            generator: "Ninja".into(),
            source: self.path("src"),
            cache: entries,
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
            linkage: gpubuild_plan::project::Linkage::Static,
            modules: Vec::new(),
            folder: None,
            apart: None,
            farms: BTreeMap::new(),
            choices: Vec::new(),
            shims: Vec::new(),
            extra: Vec::new(),
            target: None,
            may_be_unknown: std::collections::BTreeSet::new(),
            abi: None,
            env: BTreeMap::new(),
            jobs: Jobs { total: 2, device: 1, is_fixed: false, reason: String::new() },
            named: Vec::new(),
        }
    }

    pub(crate) fn build(&self, trees: Vec<PlannedTree>) -> Result<BuildOutcome, BuildError> {
        self.build_with(trees, None)
    }

    pub(crate) fn build_with(
        &self,
        trees: Vec<PlannedTree>,
        replan: Option<Replan<'_>>,
    ) -> Result<BuildOutcome, BuildError> {
        self.build_all(&plan(trees), replan)
    }

    pub(crate) fn build_plan(&self, plan: &Plan) -> Result<BuildOutcome, BuildError> {
        self.build_all(plan, None)
    }

    fn build_all(&self, plan: &Plan, replan: Option<Replan<'_>>) -> Result<BuildOutcome, BuildError> {
        self.build_to(plan, replan, &|event| self.events.lock().unwrap().push(event.clone()))
    }

    pub(crate) fn build_to(
        &self,
        plan: &Plan,
        replan: Option<Replan<'_>>,
        sink: Sink<'_>,
    ) -> Result<BuildOutcome, BuildError> {
        self.build_on(&self.host, plan, replan, sink)
    }

    /// Builds on another host.
    pub(crate) fn build_on(
        &self,
        host: &dyn Host,
        plan: &Plan,
        replan: Option<Replan<'_>>,
        sink: Sink<'_>,
    ) -> Result<BuildOutcome, BuildError> {
        let job = BuildJob {
            host,
            project: "test".into(),
            root: self.path("build"),
            lock: exec::folder::lock_path(&self.path("build")),
            tools: self.tools.clone(),
            network: Network::Offline,
            direct: None,
            binary: BuildBinary::No,
            replan,
            explain: None,
            runtime: None,
            store: self.store.clone(),
            remote: None,
            sink,
        };
        exec::build(&job, plan)
    }

    /// Runs a program and returns its output; panics with its errors if it fails.
    pub(crate) fn output(&self, argv: &[&str]) -> String {
        let command = gpubuild_host::Command::new(argv[0], std::time::Duration::from_secs(120))
            .args(argv[1..].iter().copied());
        let output = self.host.run(&command).unwrap();
        assert!(output.success(), "{argv:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }
}

pub(crate) fn plan(trees: Vec<PlannedTree>) -> Plan {
    let mut backends: Vec<Backend> = trees.iter().flat_map(|tree| tree.backends.clone()).collect();
    backends.sort();
    Plan {
        environment: None,
        packages: Vec::new(),
        provision: Vec::new(),
        origin: "test".into(),
        backends,
        linkage: gpubuild_plan::project::Linkage::Static,
        loader: None,
        target: None,
        with: Vec::new(),
        dropped: Vec::new(),
        fetch: Vec::new(),
        extra: Vec::new(),
        copy: None,
        trees,
        binary: None,
        notes: Vec::new(),
        warnings: Vec::new(),
    }
}

/// An empty store in a temporary folder.
pub(crate) fn store_in(folder: &tempfile::TempDir, host: &dyn HostInfo) -> Store {
    let root = host.path(folder.path().to_str().unwrap()).join("v1");
    Store { root, access: CacheAccess::On, limit: 1 << 30 }
}
