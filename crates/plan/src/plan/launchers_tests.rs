use gpubuild_host::Os;

use super::*;
use crate::plan::Jobs;

fn launcher(id: &str, installed: bool) -> Launcher {
    let description =
        LauncherDescription::clone(Catalogue::embedded().get(id).unwrap().launcher.as_ref().unwrap());
    let program = installed.then(|| HostPath::new(gpubuild_host::PathRules::Unix, &format!("/usr/bin/{id}")));
    let install = Some(format!("get {id}"));
    Launcher {
        id: id.into(),
        program,
        description,
        has_hosts: false,
        has_config: false,
        scheduler: None,
        install,
    }
}

fn plan(backends: &[Backend]) -> Plan {
    let unix = |text| HostPath::new(gpubuild_host::PathRules::Unix, text);
    let tree = PlannedTree {
        abi: None,
        choices: Vec::new(),
        extra: Vec::new(),
        target: None,
        may_be_unknown: std::collections::BTreeSet::new(),
        shims: Vec::new(),
        id: "t".into(),
        backends: backends.to_vec(),
        generator: "Ninja".into(),
        source: unix("/p/src"),
        build: unix("/p/build"),
        cache: BTreeMap::new(),
        targets: Vec::new(),
        linkage: crate::project::Linkage::default(),
        modules: Vec::new(),
        folder: None,
        apart: None,
        farms: BTreeMap::new(),
        env: BTreeMap::new(),
        jobs: Jobs { total: 1, device: 1, is_fixed: false, reason: String::new() },
        named: Vec::new(),
    };
    Plan {
        packages: Vec::new(),
        with: Vec::new(),
        copy: None,
        extra: Vec::new(),
        origin: "test".into(),
        backends: backends.to_vec(),
        linkage: crate::project::Linkage::default(),
        loader: None,
        target: None,
        dropped: Vec::new(),
        provision: Vec::new(),
        fetch: Vec::new(),
        trees: vec![tree],
        binary: None,
        environment: None,
        notes: Vec::new(),
        warnings: Vec::new(),
    }
}

type AppliedLauncher = (BTreeMap<String, String>, BTreeMap<String, String>, Vec<String>);

/// Applies launchers to a plan for C, C++ and CUDA; returns the cache entries and variables of its tree and the plan's notes.
fn run(
    installed: &[&str],
    flag: Option<&str>,
    env: &[(&str, &str)],
    table: &str,
) -> Result<AppliedLauncher, LauncherError> {
    let known: Vec<Launcher> =
        ["ccache", "sccache", "distcc"].iter().map(|id| launcher(id, installed.contains(id))).collect();
    let (env, table) =
        (Environment::new(Os::Linux, env.iter().copied()), gpubuild_toml::from_str(table).unwrap());
    let root = HostPath::new(gpubuild_host::PathRules::Unix, "/p");
    let context = LauncherContext { launchers: &known, flag, env: &env, table: &table, root: &root };
    let mut plan = plan(&[Backend::Cpu, Backend::Cuda]);
    apply(&mut plan, &context)?;
    let tree = plan.trees.remove(0);
    Ok((tree.cache, tree.env, plan.notes))
}

fn entries(cache: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    let strip = |name: &'_ str| name.len() - "_COMPILER_LAUNCHER".len();
    cache.iter().map(|(name, value)| (&name["CMAKE_".len()..strip(name)], value.as_str())).collect()
}

#[test]
fn launchers_are_used_only_on_request() {
    let (cache, env, notes) = run(&["ccache"], None, &[], "").unwrap();
    assert!(cache.is_empty() && env.is_empty() && notes.is_empty(), "{cache:?} {notes:?}");
    let (cache, _, notes) = run(&["sccache"], None, &[("RUSTC_WRAPPER", "/usr/bin/sccache")], "").unwrap();
    assert!(cache.is_empty() && notes[0].contains("--launcher auto"), "{notes:?}");
}

#[test]
fn requests_are_resolved_per_language_in_order_of_precedence() {
    let table = "launcher = \"sccache\"\nlanguages = { cuda = \"none\" }\n";
    let all = ["ccache", "sccache"];
    let (cache, _, _) = run(&all, None, &[], table).unwrap();
    assert_eq!(entries(&cache), [("CXX", "/usr/bin/sccache"), ("C", "/usr/bin/sccache")]);
    let env = [("CMAKE_CXX_COMPILER_LAUNCHER", "ccache")];
    let (cache, _, notes) = run(&all, None, &env, table).unwrap();
    assert_eq!(entries(&cache), [("CXX", "/usr/bin/ccache"), ("C", "/usr/bin/sccache")]);
    assert!(notes.iter().any(|note| note.contains("CMAKE_CXX_COMPILER_LAUNCHER")), "{notes:?}");
    let (cache, _, _) = run(&all, Some("ccache"), &env, table).unwrap();
    assert_eq!(entries(&cache).len(), 3, "a flag applies to every language: {cache:?}");
    let (cache, _, _) = run(&all, Some("none"), &env, table).unwrap();
    assert!(cache.is_empty());
    let (cache, _, _) = run(&all, None, &[("GPUBUILD_LAUNCHER", "sccache"), env[0]], "").unwrap();
    assert!(entries(&cache).iter().all(|(_, value)| *value == "/usr/bin/sccache"));
}

#[test]
fn auto_selects_an_installed_cache_but_no_distributor() {
    let (cache, _, _) = run(&["sccache", "distcc"], Some("auto"), &[], "").unwrap();
    assert_eq!(entries(&cache)[0].1, "/usr/bin/sccache");
    let (cache, _, notes) = run(&["distcc"], Some("auto"), &[], "").unwrap();
    assert!(cache.is_empty() && notes[0].contains("get ccache"), "{notes:?}");
}

#[test]
fn missing_launcher_is_an_error_for_a_flag_and_a_note_for_a_file() {
    let error = run(&[], Some("ccache"), &[], "").unwrap_err();
    assert_eq!(error.id(), "launcher.missing");
    assert!(error.hint().unwrap().contains("get ccache"));
    let (cache, _, notes) = run(&[], None, &[], "launcher = \"ccache\"\n").unwrap();
    assert!(cache.is_empty() && notes[0].contains("not installed"), "{notes:?}");
    let error = run(&[], None, &[], "launcher = \"cache\"\n").unwrap_err();
    assert_eq!(error.id(), "launcher.unknown");
    let hint = error.hint().unwrap();
    assert_eq!(
        hint,
        "use `auto`, `none`, one of ccache, sccache, distcc, sccache-dist, ccache+distcc, or a path"
    );
    let error = run(&["sccache", "distcc"], Some("sccache+distcc"), &[], "").unwrap_err();
    assert_eq!(error.id(), "launcher.unknown", "sccache cannot run another launcher");
}

#[test]
fn cache_is_combined_with_distributor_and_shared_storage() {
    let table = "launcher = \"ccache+distcc\"\nremote = \"redis://cache:6379\"\n";
    let hosts = [("DISTCC_HOSTS", "one two")];
    let (cache, env, notes) = run(&["ccache", "distcc"], None, &hosts, table).unwrap();
    assert_eq!(cache["CMAKE_C_COMPILER_LAUNCHER"], "/usr/bin/ccache");
    assert_eq!(env["CCACHE_PREFIX"], "/usr/bin/distcc");
    assert_eq!(env["CCACHE_REMOTE_STORAGE"], "redis://cache:6379");
    assert_eq!(
        (env["CCACHE_BASEDIR"].as_str(), env["CCACHE_STATSLOG"].as_str()),
        ("/p", "/p/build/gpubuild/launcher.log")
    );
    assert!(notes.iter().all(|note| !note.contains("DISTCC_HOSTS")), "{notes:?}");
    let own = [("CCACHE_SECONDARY_STORAGE", "redis://:secret@mine")];
    let (_, env, notes) = run(&["ccache", "distcc"], None, &own, table).unwrap();
    assert!(!env.contains_key("CCACHE_REMOTE_STORAGE"), "variables of the user are kept: {env:?}");
    assert!(notes.iter().any(|note| note.contains("DISTCC_HOSTS is not set")), "{notes:?}");
    let (_, _, notes) =
        run(&["ccache"], None, &[], "launcher = \"ccache\"\nremote = \"ftp://cache\"\n").unwrap();
    assert!(notes.iter().any(|note| note.contains("`ftp`")), "{notes:?}");
    let (_, env, notes) =
        run(&["ccache"], None, &[], "launcher = \"ccache\"\nremote = \"s3://bucket\"\n").unwrap();
    assert!(notes.iter().all(|note| !note.contains("s3")), "it is the shared build store: {notes:?}");
    assert!(!env.contains_key("CCACHE_REMOTE_STORAGE"), "{env:?}");
}

#[test]
fn distributors_support_c_and_cxx_and_paths_are_used_as_is() {
    let (cache, _, notes) = run(&["distcc"], Some("distcc"), &[], "").unwrap();
    assert_eq!(entries(&cache).len(), 2, "{cache:?}");
    assert!(notes.iter().any(|note| note.starts_with("CUDA is not compiled through distcc")), "{notes:?}");
    let (cache, _, _) = run(&[], Some("/opt/my/ccache"), &[], "").unwrap();
    assert_eq!(entries(&cache)[0].1, "/opt/my/ccache");
}

/// Where each language is compiled, with sccache and distcc installed.
fn farms(flag: &str, env: &[(&str, &str)], has_config: bool) -> BTreeMap<String, PlannedFarm> {
    let known: Vec<Launcher> = ["ccache", "sccache", "distcc"]
        .iter()
        .map(|id| Launcher { has_config, ..launcher(id, true) })
        .collect();
    let (env, table) = (Environment::new(Os::Linux, env.iter().copied()), CacheTable::default());
    let root = HostPath::new(gpubuild_host::PathRules::Unix, "/p");
    let context =
        LauncherContext { launchers: &known, flag: Some(flag), env: &env, table: &table, root: &root };
    let mut plan = plan(&[Backend::Cpu, Backend::Cuda]);
    apply(&mut plan, &context).unwrap();
    plan.trees.remove(0).farms
}

#[test]
fn plan_says_which_languages_are_distributed() {
    let conf = [("SCCACHE_CONF", "/etc/sccache.toml")];
    let all = farms("sccache-dist", &conf, false);
    assert_eq!(all.keys().collect::<Vec<_>>(), ["C", "CUDA", "CXX"]);
    assert!(all.values().all(|farm| farm.required && farm.local.is_none()), "{all:?}");
    assert_eq!(all["C"].status, ["/usr/bin/sccache", "--dist-status"]);
    assert!(farms("sccache-dist", &[], true).values().all(|farm| farm.local.is_none()));
    assert!(farms("sccache", &conf, false).values().all(|farm| !farm.required), "it may be only a cache");
    assert_eq!(farms("sccache", &[], false), BTreeMap::new());
    assert_eq!(farms("ccache", &conf, false), BTreeMap::new());

    let hosts = [("DISTCC_HOSTS", "one two")];
    for name in ["distcc", "ccache+distcc"] {
        let all = farms(name, &hosts, false);
        assert_eq!((&all["C"].local, &all["CXX"].local), (&None, &None));
        assert_eq!(all["C"].status, ["/usr/bin/distcc", "-j"]);
        assert_eq!(all["CUDA"].local.as_deref(), Some(format!("{name} distributes only C and C++").as_str()));
    }
}

#[test]
fn plan_says_why_a_language_is_not_distributed() {
    let why = |flag: &str, env: &[(&str, &str)]| farms(flag, env, false)["C"].local.clone().unwrap();
    assert_eq!(why("distcc", &[]), "DISTCC_HOSTS is not set");
    assert!(why("sccache-dist", &[]).contains("neither SCCACHE_CONF nor ~/.config/sccache/config"));
    assert_eq!(
        why("sccache-dist", &[("SCCACHE_CONF", "sccache.toml")]),
        "SCCACHE_CONF must be an absolute path"
    );
}

#[test]
fn scheduler_is_asked_at_the_port_after_its_own() {
    let asked = |env: &[(&str, &str)], file: Option<&str>| {
        let scheduler = file.and_then(|text| assigned(text, "ICECC_SCHEDULER_HOST"));
        let known = [Launcher { scheduler, ..launcher("icecream", true) }];
        let (env, table) = (Environment::new(Os::Linux, env.iter().copied()), CacheTable::default());
        let root = HostPath::new(gpubuild_host::PathRules::Unix, "/p");
        let context =
            LauncherContext { launchers: &known, flag: Some("icecc"), env: &env, table: &table, root: &root };
        let mut plan = plan(&[Backend::Cpu]);
        apply(&mut plan, &context).unwrap();
        plan.trees.remove(0).farms.remove("C").unwrap().scheduler.map(|question| question.address)
    };
    let file = "# ICECC_SCHEDULER_HOST=\"no\"\nICECC_SCHEDULER_HOST=\"farm\"\n";
    for (env, file, expected) in [
        (&[][..], None, None),
        (&[], Some("ICECC_SCHEDULER_HOST=\"\"\nICECC_SCHEDULER_HOST_2=x\n"), None),
        (&[], Some(file), Some("farm:8766")),
        (&[("USE_SCHEDULER", "10.0.0.1:9000")], Some(file), Some("10.0.0.1:9001")),
        (&[("ICECC_SCHEDULER", "[::1]:9000"), ("USE_SCHEDULER", "b")], None, Some("[::1]:9001")),
        (&[("ICECC_SCHEDULER", "")], Some(file), Some("farm:8766")),
        // Only a port: the daemon searches for the scheduler.
        (&[("ICECC_SCHEDULER", ":9000")], Some(file), None),
        (&[("ICECC_SCHEDULER", "a:65535")], None, None),
        (&[("ICECC_SCHEDULER", "a:99999999999")], None, None),
        (&[("ICECC_SCHEDULER", "a\n::error::b:1")], None, None),
        (&[("ICECC_SCHEDULER", "$(id)")], None, None),
        (&[("ICECC_SCHEDULER", &"a".repeat(254))], None, None),
    ] {
        assert_eq!(asked(env, file).as_deref(), expected, "{env:?} {file:?}");
    }
}
