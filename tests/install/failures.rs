//! Forced failures: none of them ends in another variant without a word.

use serde_json::{Value, json};

use crate::release::{Release, Variant, blob, key_pair, signed, tool};
use crate::support::{Ran, World, recorded};

/// How a case has to end.
enum End {
    /// Exit status and id; what was installed before stays.
    Refused(i32, &'static str),
    /// This variant, after a warning with these words.
    Loud(&'static str, &'static [&'static str]),
}

struct Case {
    what: &'static str,
    release: Release,
    host: &'static str,
    arguments: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// What is done to the world before.
    before: fn(&World),
    end: End,
}

use End::{Loud, Refused};

const FAILED: &str = "[install.start-failed]";
const RTX: &str = "ubuntu-22.04-rtx4090";
const NOUVEAU: &str = "ubuntu-24.04-nouveau";
const BARE: &str = "debian-12-bare";

fn case(what: &'static str, release: Release, host: &'static str, end: End) -> Case {
    Case { what, release, host, arguments: &[], env: &[], before: |_| {}, end }
}

/// The first variant for CUDA has another program.
fn with_program(content: &[u8]) -> Release {
    let mut release = Release::wide("cuda", "cuda", "vulkan");
    release.variants[2].layers[1][0].1 = content.to_vec();
    release
}

fn starts() -> Vec<Case> {
    let wide = Release::wide;
    vec![
        case(
            "the narrow one fails",
            wide("", "cuda", "vulkan"),
            RTX,
            Loud("cuda", &[FAILED, "`cuda_sm89` does not work with cuda", "no device for cuda"]),
        ),
        case(
            "both for CUDA fail",
            wide("", "", "vulkan"),
            RTX,
            Loud("vulkan", &[FAILED, "`cuda` does not work with cuda", "cuda is here and not used"]),
        ),
        case(
            "all for GPUs fail",
            wide("", "", ""),
            RTX,
            Loud("cpu", &[FAILED, "vulkan is here and not used", "cuda is here and not used"]),
        ),
        case(
            "none works",
            Release::new(
                "1",
                1,
                vec![Variant { layers: vec![vec![("bin/tool".into(), tool("x", ""))]], ..Variant::cpu("x") }],
            ),
            BARE,
            Refused(1, "resolve.nothing"),
        ),
        case("no program at all", with_program(b""), RTX, Loud("cuda", &[FAILED])),
        case("a program for nobody", with_program(b"\x7fELF garbage"), RTX, Loud("cuda", &[FAILED])),
        case(
            "an interpreter that is missing",
            with_program(b"#!/nowhere/sh\n"),
            RTX,
            Loud("cuda", &[FAILED]),
        ),
        case(
            "a program that is killed",
            with_program(b"#!/bin/sh\nkill -9 $$\n"),
            RTX,
            Loud("cuda", &[FAILED, "signal 9"]),
        ),
        case(
            "a crash",
            with_program(b"#!/bin/sh\nkill -SEGV $$\n"),
            RTX,
            Loud("cuda", &[FAILED, "signal 11"]),
        ),
        case(
            "it says that all is well and fails",
            with_program(b"#!/bin/sh\necho ok\nexit 1\n"),
            RTX,
            Loud("cuda", &[FAILED, "status 1"]),
        ),
        case(
            "it runs on the processor instead",
            with_program(b"#!/bin/sh\n[ \"$3\" = cpu ]\n"),
            RTX,
            Loud("cuda", &[FAILED]),
        ),
        case(
            "a library that is missing",
            with_program(b"#!/bin/sh\necho 'libcudart.so.12: cannot open' >&2; exit 127\n"),
            RTX,
            Loud("cuda", &[FAILED, "libcudart.so.12"]),
        ),
    ]
}

/// The same, with something else about the program or the question.
fn more_starts() -> Vec<Case> {
    let wide = Release::wide;
    let mut cases = Vec::new();
    let hanging = with_program(b"#!/bin/sh\nsleep 60\n");
    cases.push(Case {
        arguments: &["--start-timeout", "1"],
        ..case("it hangs", hanging, RTX, Loud("cuda", &[FAILED, "within 1 s"]))
    });
    let data = {
        let mut release = wide("cuda", "cuda", "vulkan");
        let program = release.variants[2].layers[1][0].1.clone();
        release.variants[2].layers[1] = vec![("share/tool".to_owned(), program)];
        release.variants[2].start["program"] = json!("share/tool");
        release
    };
    cases.push(case("a program that may not be started", data, RTX, Loud("cuda", &[FAILED])));
    for (what, arguments, id) in [
        ("the narrow one fails, and strict", &["--strict"][..], "install.start-failed"),
        ("the variant fails that was asked for", &["--variant", "cuda_sm89"], "install.start-failed"),
        (
            "it fails for the backend that was asked for",
            &["--variant", "cuda_sm89", "--backend", "cuda"],
            "install.start-failed",
        ),
    ] {
        cases.push(Case { arguments, ..case(what, wide("", "cuda", "vulkan"), RTX, Refused(1, id)) });
    }
    cases.push(Case {
        arguments: &["--backend", "cuda"],
        ..case(
            "all fail for the backend that was asked for",
            wide("", "", "vulkan"),
            RTX,
            Refused(1, "resolve.asked-unfit"),
        )
    });
    cases.push(Case {
        arguments: &["--backend", "cuda"],
        ..case("one of them fails", wide("", "cuda", ""), RTX, Loud("cuda", &[FAILED]))
    });
    cases.push(Case {
        env: &[("GPUBUILD_VARIANT", "vulkan")],
        ..case(
            "the variant fails that a variable names",
            wide("cuda", "cuda", ""),
            RTX,
            Refused(1, "install.start-failed"),
        )
    });
    cases.push(Case {
        before: |world| world.write("home/.config/gpubuild/config.toml", "variant = \"cuda\"\n"),
        ..case(
            "the variant fails that the configuration names",
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
            "a driver that can't",
            good(),
            NOUVEAU,
            Loud("vulkan", &["cuda is here and not used", "[nv.driver.nouveau]"]),
        ),
        case(
            "nothing for the card",
            Release::new("1", 1, vec![Variant::cpu("cpu")]),
            RTX,
            Loud("cpu", &["cuda is here and not used", "[resolve.not-built]"]),
        ),
        case(
            "code for another card",
            Release::new("1", 1, vec![Variant::cpu("cpu"), Variant::cuda("cuda", &["90"], false, "cuda")]),
            RTX,
            Loud("cpu", &["cuda is here and not used", "[nv.no-kernel-image]"]),
        ),
    ];
    for (what, arguments, host, exit, id) in [
        ("a driver that can't, and strict", &["--strict"][..], NOUVEAU, 1, "install.fallback"),
        ("an unknown variant", &["--variant", "gone"], RTX, 1, "resolve.unknown-variant"),
        ("a variant that does not suit", &["--variant", "cuda"], BARE, 1, "resolve.asked-unfit"),
        ("a backend that is not here", &["--backend", "cuda"], BARE, 1, "resolve.asked-unfit"),
        ("a backend that is in no variant", &["--backend", "opencl"], RTX, 1, "resolve.asked-unfit"),
        ("a backend whose driver can't", &["--backend", "cuda"], NOUVEAU, 1, "resolve.asked-unfit"),
        ("another name", &["--name", "other"], RTX, 1, "manifest.other-name"),
        ("a key that is none", &["--key", "abc"], RTX, 2, "manifest.key-invalid"),
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
        before: |world| world.write("home/.config/gpubuild/config.toml", "backend = \"rocm\"\n"),
        ..case(
            "a backend of the configuration that is not here",
            good(),
            RTX,
            Refused(1, "resolve.asked-unfit"),
        )
    });
    cases.push(Case {
        before: |world| world.write("home/.config/gpubuild/config.toml", "backend = \"gpu\"\n"),
        ..case("an unknown backend in the configuration", good(), RTX, Refused(2, "config.invalid"))
    });
    let windows = "windows-11-rtx4070";
    cases.push(case("another platform", good(), windows, Refused(2, "install.other-platform")));
    cases.push(Case {
        arguments: &["--no-start"],
        ..case("nothing for the platform", good(), windows, Refused(1, "resolve.no-platform"))
    });
    cases
}

/// Changes one variant's entry in the manifest.
fn change(world: &World, label: &str, change: impl Fn(&mut Value)) {
    let mut manifest: Value = serde_json::from_str(&world.read("release/manifest.json")).unwrap();
    let variants = manifest["platforms"]["linux-x86_64"]["variants"].as_array_mut().unwrap();
    change(variants.iter_mut().find(|one| one["label"] == label).unwrap());
    world.write("release/manifest.json", manifest.to_string());
}

fn contents() -> Vec<Case> {
    let good = || Release::wide("cuda", "cuda", "vulkan");
    let mut cases = Vec::new();
    let mut add = |what, id, before: fn(&World)| {
        cases.push(Case { before, ..case(what, good(), RTX, Refused(1, id)) });
    };
    add("a layer is missing", "layer.missing", |world| {
        change(world, "cuda_sm89", |one| one["layers"][1]["sha256"] = json!("0".repeat(64)));
    });
    add("a layer has another size", "layer.changed", |world| {
        change(world, "cuda_sm89", |one| one["layers"][1]["size"] = json!(7));
    });
    add("a layer has other bytes", "layer.changed", |world| {
        // The first layer is everybody's.
        let path = blob(world, "release", 0);
        let name = format!("release/blobs/sha256/{}", path.file_name().unwrap().to_str().unwrap());
        world.write(&name, vec![0; usize::try_from(path.metadata().unwrap().len()).unwrap()]);
    });
    add("a layer is larger inside", "archive.size", |world| {
        change(world, "cuda_sm89", |one| one["layers"][0]["unpacked"] = json!(10));
    });
    add("a layer is smaller inside", "archive.size", |world| {
        change(world, "cuda_sm89", |one| one["layers"][0]["unpacked"] = json!(100_000));
    });
    add("a layer twice", "archive.same-name", |world| {
        change(world, "cuda_sm89", |one| {
            let first = one["layers"][0].clone();
            one["layers"].as_array_mut().unwrap().push(first);
        });
    });
    add("no program where it should be", "install.no-program", |world| {
        change(world, "cuda_sm89", |one| one["start"]["program"] = json!("bin/other"));
    });
    add("more than the disk has", "install.no-space", |world| {
        change(world, "cuda_sm89", |one| one["layers"][0]["unpacked"] = json!(1_u64 << 60));
    });
    cases
}

fn run(case: &Case) {
    let world = World::new();
    Release::new("0.0.1", 0, vec![Variant::cpu("before")]).write(&world, "old");
    world.install(&["--manifest", "old"]).done();
    let before = world.tree("to");
    case.release.write(&world, "release");
    (case.before)(&world);
    let host = recorded(case.host);
    let mut arguments = vec!["install", "--json", "--host", &host];
    for usual in [["--to", "to"], ["--manifest", "release"]] {
        if !case.arguments.contains(&usual[0]) {
            arguments.extend(usual);
        }
    }
    arguments.extend(case.arguments);
    let ran: Ran = world.run_with(case.env, &arguments);
    match case.end {
        Refused(exit, id) => {
            assert_eq!(ran.exit, Some(exit), "{}: {ran:#?}", case.what);
            ran.refused(exit, id);
            assert_eq!(world.tree("to"), before, "{}", case.what);
            assert_eq!(world.installed(), "before\n");
        }
        Loud(label, words) => {
            let done = ran.done();
            assert_eq!(done["label"], label, "{}: {ran:#?}", case.what);
            assert!(
                done["fallback"] != json!(null) || done["tried"] != json!(null),
                "{}: {ran:#?}",
                case.what
            );
            assert!(ran.stderr.contains("warning:"), "{}: {ran:#?}", case.what);
            ran.says(words);
            assert_eq!(world.installed(), format!("{label}\n"), "{}", case.what);
        }
    }
}

#[test]
fn no_failure_ends_in_another_variant_without_a_word() {
    let cases: Vec<Case> = [starts(), more_starts(), choices(), contents()].into_iter().flatten().collect();
    assert!(cases.len() >= 40, "{}", cases.len());
    for case in &cases {
        run(case);
    }
}

#[test]
fn what_is_not_believed_changes_nothing() {
    let (world, pair, other) = (World::new(), key_pair(), key_pair());
    Release::plain("1.0.0", 5).write_signed(&world, "release", &pair);
    let key = pair.pk.to_base64();
    world.install(&["--key", &key]).done();
    let before = world.tree("to");
    let publish = |id: &str, serial: u64, signer: Option<&minisign::KeyPair>, change: fn(&mut Value)| {
        Release::plain("2.0.0", serial).write_changed(&world, "release", change);
        match signer {
            Some(signer) => {
                let text = world.read("release/manifest.json");
                world.write("release/manifest.json.minisig", signed(signer, &text));
            }
            None => world.remove("release/manifest.json.minisig"),
        }
        world.install(&["--key", &key]).refused(1, id);
        assert_eq!(world.tree("to"), before, "{id}");
    };
    publish("manifest.other-key", 6, Some(&other), |_| {});
    publish("manifest.older", 4, Some(&pair), |_| {});
    publish("manifest.replaced", 5, Some(&pair), |_| {});
    publish("manifest.expired", 6, Some(&pair), |manifest| manifest["expires"] = json!(1));
    publish("manifest.unsigned", 6, None, |_| {});
    world.write("release/manifest.json.minisig", "no signature");
    world.install(&["--key", &key]).refused(1, "manifest.signature-invalid");
    Release::plain("2.0.0", 6).write_signed(&world, "release", &pair);
    world.write("release/manifest.json", world.read("release/manifest.json").replace("2.0.0", "9.9.9"));
    world.install(&["--key", &key]).refused(1, "manifest.changed");
    assert_eq!(world.tree("to"), before);
}

#[test]
fn going_back_fails_loudly_too() {
    let world = World::new();
    let back =
        |more: &[&str]| world.run(&[&["install", "--rollback", "--to", "to", "--json"], more].concat());
    back(&[]).refused(2, "install.not-installed");
    Release::plain("1.0.0", 1).write(&world, "release");
    world.install(&[]).done();
    back(&[]).refused(1, "install.no-previous");
    Release::plain("2.0.0", 2).write(&world, "release");
    world.install(&[]).done();
    let (name, _) = world
        .tree("to/versions")
        .into_iter()
        .find(|(name, _)| name.starts_with("1.0.0") && name.ends_with("bin/tool"))
        .unwrap();
    world.write(&format!("to/versions/{name}"), "#!/bin/sh\nexit 1\n");
    back(&[]).refused(1, "install.start-failed");
    assert_eq!(world.installed(), "2.0.0\n");
    back(&["--no-start"]);
    assert_eq!(world.installed(), "");
}
