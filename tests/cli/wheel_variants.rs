//! Variant wheels (PEP 825, PEP 850): installers select the variant that `gpubuild resolve` selects.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::RecordedHost;
use gpubuild_plan::machine;
use gpubuild_release::manifest::{ReleaseManifest, ReleasePlatform, ReleaseVariant};
use gpubuild_release::properties::properties;
use gpubuild_release::wheel::variant::{self, VariantProperties};
use gpubuild_release::{Devices, ReleaseMachine, ResolveRequest, manifest, resolve};
use serde_json::{Value, json};

use crate::resolve::{hosts, manifest_text, read, release};
use crate::support::{Sandbox, is_on_path, skip};

/// A recorded host with the documents that an installer has there.
struct Case {
    name: String,
    /// What `gpubuild resolve` selects.
    resolved: String,
    /// The variants whose platform tags fit, with the properties of the host in the place of plugins.
    document: Value,
    /// What installers compare: the newest CUDA release of the driver, and the architecture of the only GPU.
    cuda: Option<(String, String)>,
}

fn cuda(here: &ReleaseMachine) -> Option<(String, String)> {
    let seen = here.backends.get(&Backend::Cuda)?;
    let [device] = seen.devices.as_slice() else { return None };
    let arch: CudaArch = device.arch.as_deref()?.parse().ok()?;
    let capability = format!("{}.{}", arch.number / 10, arch.number % 10);
    Some((seen.translates.as_ref()?.release(), capability))
}

/// Whether the platform tag of a variant's wheel fits a machine: installers check it first.
fn has_tag(variant: &ReleaseVariant, machine: &ReleaseMachine) -> bool {
    match (&variant.libc, &machine.libc) {
        (Some(needs), Some((family, version))) => {
            needs.family == *family && version.as_ref().is_none_or(|version| needs.version <= *version)
        }
        (None, _) | (_, None) => true,
    }
}

fn wheels(platform: &ReleasePlatform, here: &ReleaseMachine, catalogue: &Catalogue) -> Value {
    let order = variant::backend_order(&platform.prefer);
    let fitting = platform.variants.iter().filter(|variant| has_tag(variant, here));
    let variants: BTreeMap<String, VariantProperties> = fitting
        .map(|variant| (variant.label.clone(), VariantProperties::of(variant, &order, catalogue)))
        .filter(|(_, properties)| !properties.is_empty())
        .collect();
    variant::document(&order, &variants)
}

/// Replaces plugins by the properties of a machine.
fn with_properties(mut document: Value, supported: &[String]) -> Value {
    let mut found: BTreeMap<&str, Vec<(&str, Vec<&str>)>> = BTreeMap::new();
    for line in supported {
        let parts: Vec<&str> = line.split(" :: ").collect();
        let [namespace, feature, value] = parts[..] else { panic!("{line}") };
        let features = found.entry(namespace).or_default();
        match features.iter_mut().find(|(name, _)| *name == feature) {
            Some((_, values)) => values.push(value),
            None => features.push((feature, vec![value])),
        }
    }
    for (namespace, provider) in document["providers"].as_object_mut().unwrap() {
        if provider.get("requires").is_none() {
            continue;
        }
        // A provider has at least one property.
        let features = found.remove(namespace.as_str()).unwrap_or_else(|| vec![("none", vec!["none"])]);
        let order: Vec<&str> = features.iter().map(|(name, _)| *name).collect();
        let values: BTreeMap<&str, Vec<&str>> = features.into_iter().collect();
        *provider = json!({ "static-properties": values, "feature-order": order });
    }
    assert!(found.is_empty(), "no provider: {found:?}");
    document
}

fn cases() -> Vec<Case> {
    let manifest: ReleaseManifest = manifest::read(manifest_text().as_bytes()).unwrap();
    let catalogue = Catalogue::embedded();
    let of = |(name, path): (String, PathBuf)| {
        let host = RecordedHost::parse(&name, &read(&path)).unwrap();
        let state = machine::inspect(&host, catalogue.clone());
        let here = ReleaseMachine::of(&state.facts, &state.matrix, &catalogue);
        let request = ResolveRequest {
            manifest: &manifest,
            machine: &here,
            devices: Devices::All,
            backend: None,
            variant: None,
            excluded: &[],
        };
        let resolved = resolve(&request).unwrap().label;
        let document = wheels(&manifest.platforms[&here.platform], &here, &catalogue);
        let document = with_properties(document, &properties(&here, &catalogue));
        Case { name, resolved, document, cuda: cuda(&here) }
    };
    hosts().into_iter().map(of).collect()
}

/// The supported variants in the order of PEP 825, the best first.
fn ordered(document: &Value) -> Vec<String> {
    let list = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    let position = |list: &[String], one: &str| list.iter().position(|other| other == one);
    let namespaces = list(&document["default-priorities"]["namespace"]);
    let rank = |properties: &Value| -> Option<Vec<[usize; 3]>> {
        let mut keys = Vec::new();
        for (namespace, features) in properties.as_object()? {
            let provider = &document["providers"][namespace];
            let order = list(&provider["feature-order"]);
            for (feature, values) in features.as_object()? {
                let known = list(provider["static-properties"].get(feature)?);
                let best = list(values).iter().filter_map(|value| position(&known, value)).min()?;
                keys.push([position(&namespaces, namespace)?, position(&order, feature)?, best]);
            }
        }
        keys.sort_unstable();
        // A variant that has all properties of another and more precedes it.
        keys.push([usize::MAX; 3]);
        Some(keys)
    };
    let variants = document["variants"].as_object().unwrap();
    let mut fitting: Vec<(Vec<[usize; 3]>, &String)> =
        variants.iter().filter_map(|(label, properties)| Some((rank(properties)?, label))).collect();
    fitting.sort();
    let labels = fitting.into_iter().map(|(_, label)| label.clone());
    labels.chain([variant::NULL.to_owned()]).collect()
}

/// The choices as lines: `host = variant`, and what `gpubuild resolve` selects if that differs.
fn lines(cases: &[Case], choices: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (case, choice) in cases.iter().zip(choices) {
        let is_listed = case.document["variants"].get(&case.resolved).is_some();
        let resolved = if is_listed { case.resolved.as_str() } else { variant::NULL };
        let _ = write!(text, "{} = {}", case.name, choice[0]);
        if choice[0] != resolved {
            let _ = write!(text, ", but resolve selects {resolved}");
        }
        text.push('\n');
    }
    text
}

/// The expected choices were reviewed line by line. `GPUBUILD_UPDATE_HOSTS=1` rewrites the file.
#[test]
fn installers_select_the_variant_of_resolve_on_recorded_hosts() {
    let cases = cases();
    let choices: Vec<Vec<String>> = cases.iter().map(|case| ordered(&case.document)).collect();
    let found = lines(&cases, &choices);
    let file = release().join("wheel-variants.txt");
    #[expect(clippy::disallowed_methods, reason = "a test updates its own files on request")]
    if std::env::var_os("GPUBUILD_UPDATE_HOSTS").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    assert_eq!(found, read(&file).replace("\r\n", "\n"));
}

/// The Python that has variantlib.
pub(crate) fn variantlib() -> Option<String> {
    if !is_on_path("variantlib") {
        skip("variantlib", "no variantlib");
        return None;
    }
    let script = Sandbox::new().start(&["sh", "-c", "head -n 1 \"$(command -v variantlib)\""]);
    Some(script.succeeds().stdout.trim().trim_start_matches("#!").to_owned())
}

#[test]
#[cfg(unix)]
fn variantlib_selects_the_same_variants() {
    const SCRIPT: &str = "import json, sys\nfrom variantlib.api import get_variants_by_priority\n\
        documents = json.load(open(sys.argv[1]))\n\
        print(json.dumps([[v.label for v in get_variants_by_priority(variants_json=d)] for d in documents]))\n";
    let Some(python) = variantlib() else { return };
    let cases = cases();
    let sandbox = Sandbox::new();
    let documents: Vec<&Value> = cases.iter().map(|case| &case.document).collect();
    sandbox.write("documents.json", &serde_json::to_string(&documents).unwrap());
    let ran = sandbox.start(&[&python, "-c", SCRIPT, "documents.json"]);
    let choices: Vec<Vec<String>> = serde_json::from_str(&ran.succeeds().stdout).unwrap();
    assert!(cases.len() >= 100 && choices.len() == cases.len());
    for (case, choice) in cases.iter().zip(&choices) {
        assert_eq!(*choice, ordered(&case.document), "{}", case.name);
    }
}

/// uv has its own implementation of the proposal and of NVIDIA's provider.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn uv_selects_the_same_variants_for_cuda() {
    const WRITE: &str = r#"
import json, os, sys, zipfile
document = json.load(open(sys.argv[1]))
os.mkdir("dist")
for label, properties in document["variants"].items():
    with zipfile.ZipFile("dist/demo-1.0-py3-none-any-%s.whl" % label, "w") as wheel:
        info = "demo-1.0.dist-info/"
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "variant.json", json.dumps(dict(document, variants={label: properties})))
        wheel.writestr(info + "RECORD", "")
os.rename(sys.argv[1], "dist/demo-1.0-variants.json")
"#;
    if !is_on_path("uv") || !is_on_path("python3") {
        skip("uv", "no uv or no python3");
        return;
    }
    let manifest: ReleaseManifest = manifest::read(manifest_text().as_bytes()).unwrap();
    let platform = &manifest.platforms["linux-x86_64"];
    let document = wheels(platform, &ReleaseMachine::default(), &Catalogue::embedded());
    let sandbox = Sandbox::new();
    sandbox.write("document.json", &document.to_string());
    sandbox.start(&["python3", "-c", WRITE, "document.json"]).succeeds();
    sandbox.start(&["uv", "venv", "-q", "--offline", "venv"]).succeeds();
    // uv does not know that devices of systems on a chip only run their own code.
    let cases = cases().into_iter().filter(|case| case.document["variants"].get("cuda13_sm120").is_some());
    let choices = cases.filter_map(|case| Some((case.cuda.clone()?, ordered(&case.document).remove(0))));
    let chosen: BTreeMap<(String, String), String> =
        choices.filter(|(_, label)| label.starts_with("cuda")).collect();
    assert!(chosen.len() >= 10, "{chosen:?}");
    let script = "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION=$1 NV_VARIANT_PROVIDER_FORCE_SM_ARCH=$2 \
        uv pip install -q --offline --no-cache --no-index --find-links dist --python venv/bin/python --reinstall \
        --preview-features wheel-variants demo && cat venv/lib/python3*/site-packages/demo-1.0.dist-info/variant.json";
    for ((release, capability), label) in chosen {
        let ran = sandbox.start(&["sh", "-c", script, "sh", &release, &capability]);
        let found: Value = serde_json::from_str(&ran.succeeds().stdout).unwrap();
        let found: Vec<&String> = found["variants"].as_object().unwrap().keys().collect();
        assert_eq!(found, [&label], "CUDA {release}, GPU {capability}");
    }
}

#[cfg(target_os = "linux")]
mod packed {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::variantlib;
    use crate::pack::pack;
    use crate::pack_wheel::{ADD_ONE, project};
    use crate::support::{Sandbox, is_on_path, skip};

    /// A project whose code is for processors of level 2.
    fn package() -> Option<Sandbox> {
        let project = project(ADD_ONE, "")?;
        let table = project.read("gpubuild.toml");
        project.write("gpubuild.toml", &format!("{table}[audit]\ncpu = \"x86-64-v2\"\n"));
        cfg!(target_arch = "x86_64").then_some(project)
    }

    fn pack_variant(project: &Sandbox) -> (Value, PathBuf) {
        let arguments =
            ["--format", "wheel", "--out", "dist", "--backends", "cpu", "--label", "v2", "--json"];
        let ran = pack(project, &[&arguments[..], &["--wheel-variants"]].concat());
        let document = ran.succeeds().json();
        let path = project.path("dist").join(document["wheels"][0]["file"].as_str().unwrap());
        (document, path)
    }

    #[test]
    fn variant_wheels_have_a_label_and_properties() {
        let Some(project) = package() else { return };
        let (document, path) = pack_variant(&project);
        let wheel = &document["wheels"][0];
        assert!(path.to_str().unwrap().ends_with("_x86_64-v2.whl"), "{wheel}");
        assert_eq!(
            (&wheel["variant"], &document["variants"]),
            (&json!("v2"), &json!("my_adder-1.0-variants.json"))
        );
        assert_eq!(wheel["variant_properties"], json!(["x86_64 :: level :: v2"]));
        let list: Value = serde_json::from_str(&project.read("dist/my_adder-1.0-variants.json")).unwrap();
        assert_eq!(list["variants"], json!({"v2": {"x86_64": {"level": ["v2"]}}}));
        if is_on_path("python3") {
            let script = "import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).read('my_adder-1.0.dist-info/variant.json').decode())";
            let ran = project.start(&["python3", "-c", script, path.to_str().unwrap()]);
            assert_eq!(serde_json::from_str::<Value>(&ran.succeeds().stdout).unwrap(), list);
        } else {
            skip("python", "no python3");
        }
        // The setting is the same as the option. A wheel for every machine has no label.
        let table = project.read("gpubuild.toml").replace("cpu = \"x86-64-v2\"\n", "");
        project.write("gpubuild.toml", &table.replace("[python]\n", "[python]\nvariants = \"label\"\n"));
        let plain = ["--format", "wheel", "--out", "dist", "--backends", "cpu", "--json"];
        let ran = pack(&project, &plain);
        let document = ran.succeeds().json();
        assert!(document["wheels"][0]["file"].as_str().unwrap().ends_with("_x86_64.whl"), "{document}");
        assert!(
            document.get("variants").is_none() && document["wheels"][0].get("variant_properties").is_none()
        );
    }

    #[test]
    fn labels_and_lists_that_do_not_fit_are_refused() {
        let Some(project) = package() else { return };
        let arguments = ["--format", "wheel", "--out", "dist", "--backends", "cpu", "--wheel-variants"];
        let with_label = |label: &str| pack(&project, &[&arguments[..], &["--label", label]].concat());
        with_label("null").fails(2, "pack.label");
        with_label("V2").fails(2, "pack.label");
        pack(&project, &["--out", "dist", "--wheel-variants"])
            .fails(2, "usage.conflict")
            .says(&["--wheel-variants"]);
        assert_eq!(pack(&project, &[&arguments[..], &["--single"]].concat()).exit, Some(2));
        project.write("dist/my_adder-1.0-variants.json", "{}");
        with_label("v2").fails(1, "wheel.variants").says(&["`$schema` differs"]);
        assert_eq!(project.start(&["ls", "dist"]).succeeds().stdout, "my_adder-1.0-variants.json\n");
    }

    #[test]
    fn variantlib_reads_the_wheels() {
        let Some(python) = variantlib() else { return };
        let Some(project) = package() else { return };
        let (_, path) = pack_variant(&project);
        let own: Value = serde_json::from_str(&project.read("dist/my_adder-1.0-variants.json")).unwrap();
        let ran = project.start(&["variantlib", "analyze-wheel", "-i", path.to_str().unwrap()]);
        ran.succeeds();
        assert!(ran.stdout.contains("x86_64 :: level :: v2"), "{ran:?}");
        project.remove("dist/my_adder-1.0-variants.json");
        project.start(&["variantlib", "generate-index-json", "-d", "dist"]).succeeds();
        let mut theirs: Value =
            serde_json::from_str(&project.read("dist/my_adder-1.0-variants.json")).unwrap();
        theirs["$schema"] = own["$schema"].clone();
        assert_eq!(theirs, own);
        // The provider of gpubuild's own namespace.
        let script = "import json, sys\nfrom variantlib.api import validate_variant, VariantDescription, VariantProperty\n\
            from variantlib.plugins.loader import PluginLoader\nfrom variantlib.variants_json import VariantsJson\n\
            info = VariantsJson(json.load(open(sys.argv[1])))\n\
            for value in ('vulkan', 'steam'):\n    \
                found = validate_variant(VariantDescription([VariantProperty('gpubuild', 'backend', value)]), info)\n    \
                print(value, found.is_valid(allow_unknown_plugins=False))\n\
            with PluginLoader(info, filter_plugins=['gpubuild']) as loader:\n    \
                print([c for c in loader.get_supported_configs() if c != 'gpubuild'])\n";
        let root = env!("CARGO_MANIFEST_DIR");
        let command = std::path::Path::new(env!("CARGO_BIN_EXE_gpubuild")).parent().unwrap();
        let call = format!(
            "export PATH={}:$PATH PYTHONPATH={root}/python PYTHONDONTWRITEBYTECODE=1; exec \"$@\"",
            command.display()
        );
        let list = "dist/my_adder-1.0-variants.json";
        let ran = project.start(&["sh", "-c", &call, "sh", &python, "-c", script, list]);
        assert_eq!(ran.succeeds().stdout, "vulkan True\nsteam False\n['gpubuild_order']\n");
    }

    /// uv has its own implementation of the proposal, and providers for NVIDIA and x86-64.
    #[test]
    fn uv_installs_the_variant_that_fits() {
        if !is_on_path("uv") || !is_on_path("python3") {
            skip("uv", "no uv or no python3");
            return;
        }
        let Some(project) = package() else { return };
        if !project
            .start(&["sh", "-c", "grep -qw sse4_2 /proc/cpuinfo && grep -qw popcnt /proc/cpuinfo"])
            .is_success()
        {
            return;
        }
        let (_, path) = pack_variant(&project);
        project.start(&["uv", "venv", "-q", "--offline", "venv"]).succeeds();
        let install =
            ["uv", "pip", "install", "--offline", "--no-cache", "--no-index", "--find-links", "dist"];
        let python = ["--python", "venv/bin/python", "my-adder"];
        let preview = ["--preview-features", "wheel-variants"];
        let ran = project.start(&[&install[..], &preview, &python].concat());
        ran.succeeds();
        let label = "import importlib.metadata as m, json; print(list(json.loads(m.distribution('my-adder').read_text('variant.json'))['variants']))";
        let ran = project.start(&["venv/bin/python", "-c", label]);
        assert_eq!(ran.succeeds().stdout, "['v2']\n");
        let ran = project.start(&["venv/bin/python", "-c", "import adder; print(adder.add(41))"]);
        assert_eq!(ran.succeeds().stdout, "42\n");
        // Tools that do not know the proposal do not install variant wheels.
        let known = project.start(&[&install[..], &["--reinstall"], &python].concat());
        assert!(!known.is_success() && path.exists(), "{known:?}");
    }
}
