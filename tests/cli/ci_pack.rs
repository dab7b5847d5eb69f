//! Which CI jobs pack, and with which arguments.

use serde_json::json;

use crate::ci::{PACKED, TWO, document, project, row};

#[test]
fn first_row_of_each_label_and_platform_packs() {
    let rows = document(&project(PACKED).run(&["ci", "matrix", "--json"]));
    let packing: Vec<(&str, String)> = rows["include"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| {
            let arguments: Vec<&str> =
                row["pack"].as_array()?.iter().map(|argument| argument.as_str().unwrap()).collect();
            Some((row["name"].as_str().unwrap(), arguments.join(" ")))
        })
        .collect();
    let cuda = "pack --variant cuda --toolkit cuda=13.0 --provision --label cuda13.0 --out release";
    let expected = [
        ("cpu-ubuntu-24.04", "pack --variant cpu --label cpu --out release"),
        ("cpu-windows-2022", "pack --variant cpu --label cpu --out release"),
        (
            "cuda12.4-cuda-12.4-ubuntu-22.04",
            "pack --variant cuda --toolkit cuda=12.4 --label cuda12.4 --out release",
        ),
        ("cuda13.0-ubuntu-24.04", cuda),
        ("cuda13.0-ubuntu-24.04-arm", cuda),
        ("cuda13.0-windows-2025", cuda),
    ];
    assert_eq!(packing, expected.map(|(name, arguments)| (name, arguments.to_owned())));
    // A row whose name prevents packing says why; rows on other systems of a packed variant do not.
    for (name, text) in [
        ("cuda13.0-cuda-13.0-ubuntu-24.04", "variant `cuda` is already packed as `cuda13.0`"),
        ("gpu-cuda13.0-ubuntu-24.04", "`gpu-cuda13.0` is not a valid label"),
    ] {
        let warnings = &row(&rows, name)["warnings"];
        assert!(warnings[0].as_str().unwrap().contains(text), "{name}: {warnings}");
    }
    assert!(row(&rows, "cpu-ubuntu-22.04")["warnings"].is_null());
    // A project without a program packs nothing, and its rows do not mention it.
    let rows = document(&project(TWO).run(&["ci", "matrix", "--json"]));
    assert!(rows["include"].as_array().unwrap().iter().all(|row| row["pack"].is_null()));
    assert!(row(&rows, "cpu-ubuntu-22.04")["warnings"].is_null());
}

#[test]
fn projects_that_publish_libraries_pack_them() {
    let packed = |lines: &str| project(&format!("{TWO}{lines}"));
    let sandbox = packed("[pack]\nlibraries = true\nversion = \"1.2\"\n");
    let rows = document(&sandbox.run(&["ci", "matrix", "--json"]));
    let expected = ["pack", "--variant", "cpu", "--libraries", "--label", "cpu", "--out", "release"];
    for name in ["cpu-ubuntu-22.04", "cpu-windows-2022"] {
        assert_eq!(row(&rows, name)["pack"], json!(expected), "{name}");
    }
    assert_eq!(row(&rows, "cuda13.0-ubuntu-24.04")["pack"][6], "--libraries", "{rows:#}");
    for (service, file) in [("github", ".github/workflows/gpubuild.yml"), ("gitlab", ".gitlab/gpubuild.yml")]
    {
        sandbox.run(&["ci", "init", "--format", service]).succeeds();
        let text = sandbox.read(file);
        assert!(text.contains("--pack}") && text.contains(" pack --out release "), "{text}");
    }

    // The version is that of the cargo package, if there is one.
    let sandbox = packed("[binary]\npackage = \"app\"\n[pack]\nlibraries = true\n");
    let rows = document(&sandbox.run(&["ci", "matrix", "--json"]));
    assert_eq!(row(&rows, "cpu-ubuntu-22.04")["pack"], json!(expected));
    let sandbox = packed("[pack]\nlibraries = true\n");
    let rows = document(&sandbox.run(&["ci", "matrix", "--json"]));
    let row = row(&rows, "cpu-ubuntu-22.04");
    assert!(row["pack"].is_null() && row["warnings"][0].as_str().unwrap().contains("version"), "{row:#}");
    let run = ["ci", "run", "cpu-ubuntu-22.04", "--pack", "--dry-run"];
    sandbox.run(&run).fails(2, "ci.no-pack").says(&["set `version` in [pack]"]);
    project(TWO).run(&run).fails(2, "ci.no-pack").says(&["`[pack] libraries = true`"]);
}
