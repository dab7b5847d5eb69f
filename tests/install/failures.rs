//! Forced failures: none of them silently installs another variant.

use serde_json::{Value, json};

use crate::release::{Release, Variant, blob, key_pair, signed, tool};
use crate::support::{RunResult, Sandbox, recorded};

/// Expected result of a case.
enum End {
    /// Exit status and error id; the previous version stays installed.
    Refused(i32, &'static str),
    /// Installs this variant after a warning with these texts.
    FallsBack(&'static str, &'static [&'static str]),
}

struct Case {
    what: &'static str,
    release: Release,
    host: &'static str,
    arguments: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// Changes the files before the installation.
    before: fn(&Sandbox),
    end: End,
}

use End::{FallsBack, Refused};

const FAILED: &str = "[install.start-failed]";
const RTX: &str = "ubuntu-22.04-rtx4090";
const NOUVEAU: &str = "ubuntu-24.04-nouveau";
const BARE: &str = "debian-12-bare";

fn case(what: &'static str, release: Release, host: &'static str, end: End) -> Case {
    Case { what, release, host, arguments: &[], env: &[], before: |_| {}, end }
}

/// A release whose most specific CUDA variant has another program.
fn with_program(content: &[u8]) -> Release {
    let mut release = Release::wide("cuda", "cuda", "vulkan");
    release.variants[2].layers[1][0].1 = content.to_vec();
    release
}

fn starts() -> Vec<Case> {
    let wide = Release::wide;
    vec![
        case(
            "the most specific variant fails",
            wide("", "cuda", "vulkan"),
            RTX,
            FallsBack("cuda", &[FAILED, "`cuda_sm89` does not work with cuda", "no device for cuda"]),
        ),
        case(
            "both CUDA variants fail",
            wide("", "", "vulkan"),
            RTX,
            FallsBack(
                "vulkan",
                &[FAILED, "`cuda` does not work with cuda", "cuda is available but not used"],
            ),
        ),
        case(
            "all GPU variants fail",
            wide("", "", ""),
            RTX,
            FallsBack("cpu", &[FAILED, "vulkan is available but not used", "cuda is available but not used"]),
        ),
        case(
            "no variant works",
            Release::new(
                "1",
                1,
                vec![Variant { layers: vec![vec![("bin/tool".into(), tool("x", ""))]], ..Variant::cpu("x") }],
            ),
            BARE,
            Refused(1, "resolve.nothing"),
        ),
        case("an empty program", with_program(b""), RTX, FallsBack("cuda", &[FAILED])),
        case("an invalid executable", with_program(b"\x7fELF garbage"), RTX, FallsBack("cuda", &[FAILED])),
        case("a missing interpreter", with_program(b"#!/nowhere/sh\n"), RTX, FallsBack("cuda", &[FAILED])),
        case(
            "a program that is killed",
            with_program(b"#!/bin/sh\nkill -9 $$\n"),
            RTX,
            FallsBack("cuda", &[FAILED, "signal 9"]),
        ),
        case(
            "a program that removes its own folder",
            with_program(b"#!/bin/sh\nrm -r \"${0%/*}\"\n"),
            RTX,
            FallsBack("cuda", &[FAILED, "removed the program"]),
        ),
        case(
            "a crash",
            with_program(b"#!/bin/sh\nkill -SEGV $$\n"),
            RTX,
            FallsBack("cuda", &[FAILED, "signal 11"]),
        ),
        case(
            "it prints success and fails",
            with_program(b"#!/bin/sh\necho ok\nexit 1\n"),
            RTX,
            FallsBack("cuda", &[FAILED, "status 1"]),
        ),
        case(
            "it runs on the CPU instead",
            with_program(b"#!/bin/sh\n[ \"$3\" = cpu ]\n"),
            RTX,
            FallsBack("cuda", &[FAILED]),
        ),
        case(
            "a missing library",
            with_program(b"#!/bin/sh\necho 'libcudart.so.12: cannot open' >&2; exit 127\n"),
            RTX,
            FallsBack("cuda", &[FAILED, "libcudart.so.12"]),
        ),
    ]
}

/// More cases, with other programs or requests.
fn more_starts() -> Vec<Case> {
    let wide = Release::wide;
    let mut cases = Vec::new();
    let hanging = with_program(b"#!/bin/sh\nsleep 60\n");
    cases.push(Case {
        arguments: &["--start-timeout", "1"],
        ..case("it hangs", hanging, RTX, FallsBack("cuda", &[FAILED, "within 1 s"]))
    });
    let data = {
        let mut release = wide("cuda", "cuda", "vulkan");
        let program = release.variants[2].layers[1][0].1.clone();
        release.variants[2].layers[1] = vec![("share/tool".to_owned(), program)];
        release.variants[2].start["program"] = json!("share/tool");
        release
    };
    cases.push(case("a program that is not executable", data, RTX, FallsBack("cuda", &[FAILED])));
    for (what, arguments, id) in [
        ("the most specific variant fails with --strict", &["--strict"][..], "install.start-failed"),
        ("the requested variant fails", &["--variant", "cuda_sm89"], "install.start-failed"),
        (
            "the requested variant fails for the requested backend",
            &["--variant", "cuda_sm89", "--backend", "cuda"],
            "install.start-failed",
        ),
    ] {
        cases.push(Case { arguments, ..case(what, wide("", "cuda", "vulkan"), RTX, Refused(1, id)) });
    }
    cases.push(Case {
        arguments: &["--backend", "cuda"],
        ..case(
            "all variants of the requested backend fail",
            wide("", "", "vulkan"),
            RTX,
            Refused(1, "resolve.asked-unfit"),
        )
    });
    cases.push(Case {
        arguments: &["--backend", "cuda"],
        ..case(
            "one variant of the requested backend fails",
            wide("", "cuda", ""),
            RTX,
            FallsBack("cuda", &[FAILED]),
        )
    });
    cases.push(Case {
        env: &[("GPUBUILD_VARIANT", "vulkan")],
        ..case(
            "the variant in the environment fails",
            wide("cuda", "cuda", ""),
            RTX,
            Refused(1, "install.start-failed"),
        )
    });
    cases.push(Case {
        before: |sandbox| sandbox.write("home/.config/gpubuild/config.toml", "variant = \"cuda\"\n"),
        ..case(
            "the variant in the configuration fails",
            wide("cuda", "", "vulkan"),
            RTX,
            Refused(1, "install.start-failed"),
        )
    });
    cases
}

fn choices() -> Vec<Case> {
    let good = || Release::wide("cuda", "cuda", "vulkan");
    let mut cases = vec![
        case(
            "an unsuitable driver",
            good(),
            NOUVEAU,
            FallsBack("vulkan", &["cuda is available but not used", "[nv.driver.nouveau]"]),
        ),
        case(
            "no variant for the GPU",
            Release::new("1", 1, vec![Variant::cpu("cpu")]),
            RTX,
            FallsBack("cpu", &["cuda is available but not used", "[resolve.not-built]"]),
        ),
        case(
            "code for another GPU",
            Release::new("1", 1, vec![Variant::cpu("cpu"), Variant::cuda("cuda", &["90"], false, "cuda")]),
            RTX,
            FallsBack("cpu", &["cuda is available but not used", "[nv.no-kernel-image]"]),
        ),
    ];
    for (what, arguments, host, exit, id) in [
        ("an unsuitable driver with --strict", &["--strict"][..], NOUVEAU, 1, "install.fallback"),
        ("an unknown variant", &["--variant", "gone"], RTX, 1, "resolve.unknown-variant"),
        ("an unsuitable variant", &["--variant", "cuda"], BARE, 1, "resolve.asked-unfit"),
        ("a backend without hardware", &["--backend", "cuda"], BARE, 1, "resolve.asked-unfit"),
        ("a backend without a variant", &["--backend", "opencl"], RTX, 1, "resolve.asked-unfit"),
        ("a backend with an unsuitable driver", &["--backend", "cuda"], NOUVEAU, 1, "resolve.asked-unfit"),
        ("another name", &["--name", "other"], RTX, 1, "manifest.other-name"),
        ("an invalid key", &["--key", "abc"], RTX, 2, "manifest.key-invalid"),
        ("no manifest", &["--manifest", "gone"], RTX, 2, "manifest.unreadable"),
        ("a folder below a file", &["--to", "release/manifest.json/x"], RTX, 1, "install.unwritable"),
    ] {
        cases.push(Case { arguments, ..case(what, good(), host, Refused(exit, id)) });
    }
    cases.push(Case {
        env: &[("GPUBUILD_BACKEND", "gpu")],
        ..case("an unknown backend", good(), RTX, Refused(2, "backend.unknown"))
    });
    cases.push(Case {
        env: &[("GPUBUILD_VARIANT", "gone")],
        ..case("an unknown variant in a variable", good(), RTX, Refused(1, "resolve.unknown-variant"))
    });
    cases.push(Case {
        before: |sandbox| sandbox.write("home/.config/gpubuild/config.toml", "backend = \"rocm\"\n"),
        ..case(
            "a backend in the configuration without hardware",
            good(),
            RTX,
            Refused(1, "resolve.asked-unfit"),
        )
    });
    cases.push(Case {
        before: |sandbox| sandbox.write("home/.config/gpubuild/config.toml", "backend = \"gpu\"\n"),
        ..case("an unknown backend in the configuration", good(), RTX, Refused(2, "config.invalid"))
    });
    let windows = "windows-11-rtx4070";
    cases.push(case("another platform", good(), windows, Refused(2, "install.other-platform")));
    cases.push(Case {
        arguments: &["--no-start"],
        ..case("no variant for the platform", good(), windows, Refused(1, "resolve.no-platform"))
    });
    cases
}

/// Changes the entry of a variant in the manifest.
fn change(sandbox: &Sandbox, label: &str, change: impl Fn(&mut Value)) {
    let mut manifest: Value = serde_json::from_str(&sandbox.read("release/manifest.json")).unwrap();
    let variants = manifest["platforms"]["linux-x86_64"]["variants"].as_array_mut().unwrap();
    change(variants.iter_mut().find(|one| one["label"] == label).unwrap());
    sandbox.write("release/manifest.json", manifest.to_string());
}

fn contents() -> Vec<Case> {
    let good = || Release::wide("cuda", "cuda", "vulkan");
    let mut cases = Vec::new();
    let mut add = |what, id, before: fn(&Sandbox)| {
        cases.push(Case { before, ..case(what, good(), RTX, Refused(1, id)) });
    };
    add("a layer is missing", "layer.missing", |sandbox| {
        change(sandbox, "cuda_sm89", |one| one["layers"][1]["sha256"] = json!("0".repeat(64)));
    });
    add("a layer has another size", "layer.changed", |sandbox| {
        change(sandbox, "cuda_sm89", |one| one["layers"][1]["size"] = json!(7));
    });
    add("a layer has other bytes", "layer.changed", |sandbox| {
        // All variants share the first layer.
        let path = blob(sandbox, "release", 0);
        let name = format!("release/blobs/sha256/{}", path.file_name().unwrap().to_str().unwrap());
        sandbox.write(&name, vec![0; usize::try_from(path.metadata().unwrap().len()).unwrap()]);
    });
    add("a layer is larger than declared", "archive.size", |sandbox| {
        change(sandbox, "cuda_sm89", |one| one["layers"][0]["unpacked"] = json!(10));
    });
    add("a layer is smaller than declared", "archive.size", |sandbox| {
        change(sandbox, "cuda_sm89", |one| one["layers"][0]["unpacked"] = json!(100_000));
    });
    add("a duplicate layer", "archive.same-name", |sandbox| {
        change(sandbox, "cuda_sm89", |one| {
            let first = one["layers"][0].clone();
            one["layers"].as_array_mut().unwrap().push(first);
        });
    });
    add("the declared program is missing", "install.no-program", |sandbox| {
        change(sandbox, "cuda_sm89", |one| one["start"]["program"] = json!("bin/other"));
    });
    add("insufficient disk space", "install.no-space", |sandbox| {
        change(sandbox, "cuda_sm89", |one| one["layers"][0]["unpacked"] = json!(1_u64 << 60));
    });
    cases
}

fn run(case: &Case) {
    let sandbox = Sandbox::new();
    Release::new("0.0.1", 0, vec![Variant::cpu("before")]).write(&sandbox, "old");
    sandbox.install(&["--manifest", "old"]).done();
    let before = sandbox.tree("to");
    case.release.write(&sandbox, "release");
    (case.before)(&sandbox);
    let host = recorded(case.host);
    let mut arguments = vec!["install", "--json", "--host", &host];
    for usual in [["--to", "to"], ["--manifest", "release"]] {
        if !case.arguments.contains(&usual[0]) {
            arguments.extend(usual);
        }
    }
    arguments.extend(case.arguments);
    let ran: RunResult = sandbox.run_with(case.env, &arguments);
    match case.end {
        Refused(exit, id) => {
            assert_eq!(ran.exit, Some(exit), "{}: {ran:#?}", case.what);
            ran.refused(exit, id);
            assert_eq!(sandbox.tree("to"), before, "{}", case.what);
            assert_eq!(sandbox.installed(), "before\n");
        }
        FallsBack(label, texts) => {
            let done = ran.done();
            assert_eq!(done["label"], label, "{}: {ran:#?}", case.what);
            assert!(
                done["fallback"] != json!(null) || done["tried"] != json!(null),
                "{}: {ran:#?}",
                case.what
            );
            assert!(ran.stderr.contains("warning:"), "{}: {ran:#?}", case.what);
            ran.says(texts);
            assert_eq!(sandbox.installed(), format!("{label}\n"), "{}", case.what);
        }
    }
}

#[test]
fn no_failure_falls_back_silently() {
    let cases: Vec<Case> = [starts(), more_starts(), choices(), contents()].into_iter().flatten().collect();
    assert!(cases.len() >= 40, "{}", cases.len());
    for case in &cases {
        run(case);
    }
}

#[test]
fn untrusted_manifest_changes_nothing() {
    let (sandbox, pair, other) = (Sandbox::new(), key_pair(), key_pair());
    Release::plain("1.0.0", 5).write_signed(&sandbox, "release", &pair);
    let key = pair.pk.to_base64();
    sandbox.install(&["--key", &key]).done();
    let before = sandbox.tree("to");
    let publish = |id: &str, serial: u64, signer: Option<&minisign::KeyPair>, change: fn(&mut Value)| {
        Release::plain("2.0.0", serial).write_changed(&sandbox, "release", change);
        match signer {
            Some(signer) => {
                let text = sandbox.read("release/manifest.json");
                sandbox.write("release/manifest.json.minisig", signed(signer, &text));
            }
            None => sandbox.remove("release/manifest.json.minisig"),
        }
        sandbox.install(&["--key", &key]).refused(1, id);
        assert_eq!(sandbox.tree("to"), before, "{id}");
    };
    publish("manifest.other-key", 6, Some(&other), |_| {});
    publish("manifest.older", 4, Some(&pair), |_| {});
    publish("manifest.replaced", 5, Some(&pair), |_| {});
    publish("manifest.expired", 6, Some(&pair), |manifest| manifest["expires"] = json!(1));
    publish("manifest.unsigned", 6, None, |_| {});
    sandbox.write("release/manifest.json.minisig", "no signature");
    sandbox.install(&["--key", &key]).refused(1, "manifest.signature-invalid");
    Release::plain("2.0.0", 6).write_signed(&sandbox, "release", &pair);
    sandbox.write("release/manifest.json", sandbox.read("release/manifest.json").replace("2.0.0", "9.9.9"));
    sandbox.install(&["--key", &key]).refused(1, "manifest.changed");
    assert_eq!(sandbox.tree("to"), before);
}

#[test]
fn failed_rollback_is_reported() {
    let sandbox = Sandbox::new();
    let back =
        |more: &[&str]| sandbox.run(&[&["install", "--rollback", "--to", "to", "--json"], more].concat());
    back(&[]).refused(2, "install.not-installed");
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    sandbox.install(&[]).done();
    back(&[]).refused(1, "install.no-previous");
    Release::plain("2.0.0", 2).write(&sandbox, "release");
    sandbox.install(&[]).done();
    let (name, _) = sandbox
        .tree("to/versions")
        .into_iter()
        .find(|(name, _)| name.starts_with("1.0.0") && name.ends_with("bin/tool"))
        .unwrap();
    sandbox.write(&format!("to/versions/{name}"), "#!/bin/sh\nexit 1\n");
    back(&[]).refused(1, "install.start-failed");
    assert_eq!(sandbox.installed(), "2.0.0\n");
    back(&["--no-start"]);
    assert_eq!(sandbox.installed(), "");
}
