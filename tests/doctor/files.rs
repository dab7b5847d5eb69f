//! Input files of the doctor: `tests/files/faulty/ID/…` report that finding first, `tests/files/healthy/` none.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_detect::finding::{Finding, Findings, Severity};
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_doctor::file::{self, InputFile, UnreadableInput};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

/// Every file below a folder, sorted, with its relative path.
fn below(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = walkdir::WalkDir::new(root)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let name = entry.path().strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn examine(files: &[InputFile]) -> Result<Vec<Finding>, UnreadableInput> {
    let catalogue = Catalogue::embedded();
    let findings = Findings::embedded();
    let mut examination = file::examine(files, catalogue.get("cuda").unwrap());
    if !examination.unreadable.is_empty() {
        return Err(examination.unreadable.remove(0));
    }
    Ok(examination.drafts.iter().map(|draft| file::to_finding(draft, &findings)).collect())
}

fn one(name: &str, text: &str) -> Result<Vec<Finding>, UnreadableInput> {
    examine(&[InputFile { name: name.to_owned(), bytes: text.as_bytes().to_vec() }])
}

fn shown(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let locations: Vec<&str> = finding.evidence.iter().map(|evidence| evidence.place.as_str()).collect();
        let severity = format!("{:?}", finding.severity).to_lowercase();
        let (id, summary, fix) = (&finding.id, &finding.summary, &finding.remedy.text);
        writeln!(text, "  {severity} {id} at {}\n    {summary}\n    fix: {fix}", locations.join(", "))
            .unwrap();
    }
    text
}

#[test]
fn faulty_files_report_their_finding_first() {
    let files = below(&folder().join("faulty"));
    assert!(files.len() >= 40, "{} files", files.len());
    let mut all = String::new();
    let mut wrong = Vec::new();
    for (path, bytes) in files {
        let (id, name) = path.split_once('/').unwrap();
        let findings = match examine(&[InputFile { name: name.to_owned(), bytes }]) {
            Ok(findings) => findings,
            Err(error) => vec![file::to_finding(
                &file::not_checked(error.name(), &error.to_string(), error.hint()),
                &Findings::embedded(),
            )],
        };
        if findings.first().map(|finding| finding.id.as_str()) != Some(id) {
            wrong.push(format!("{path}:\n{}", shown(&findings)));
        }
        let known = Findings::embedded();
        for finding in &findings {
            assert!(known.get(&finding.id).is_some(), "{} has no entry", finding.id);
        }
        write!(all, "{path}\n{}", shown(&findings)).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    insta::assert_snapshot!(all);
}

#[test]
fn healthy_files_have_no_findings() {
    let files = below(&folder().join("healthy"));
    assert!(files.len() >= 6);
    for (path, bytes) in files {
        let findings = examine(&[InputFile { name: path.clone(), bytes }]).unwrap();
        assert!(findings.is_empty(), "{path}:\n{}", shown(&findings));
    }
}

#[test]
fn every_file_finding_has_an_example() {
    let shown: Vec<String> = below(&folder().join("faulty"))
        .into_iter()
        .map(|(path, _)| path.split('/').next().unwrap().to_owned())
        .collect();
    for (family, id, _) in Findings::embedded().iter() {
        assert!(family.family != "files" || shown.iter().any(|known| known == id), "{id}");
    }
}

#[test]
fn files_of_a_project_are_checked_together() {
    let input = |name: &str, text: &str| InputFile { name: name.to_owned(), bytes: text.as_bytes().to_vec() };
    let base = input("app/compose.yaml", "services:\n  llm:\n    image: vllm/vllm-openai:v0.6.3\n");
    let gpu = input("app/compose.gpu.yaml", "services:\n  llm:\n    gpus: all\n");
    let elsewhere = input("other/compose.gpu.yaml", "services:\n  llm:\n    gpus: all\n");
    assert_eq!(examine(std::slice::from_ref(&base)).unwrap().len(), 1);
    assert_eq!(examine(&[base.clone(), gpu]).unwrap(), []);
    assert_eq!(examine(&[base, elsewhere]).unwrap().len(), 1);

    let dockerfile =
        input("./app/docker/Dockerfile", "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nCMD [\"x\"]\n");
    let built = input(
        "app/compose.yaml",
        "services:\n  a:\n    build: {context: ., dockerfile: docker/Dockerfile}\n",
    );
    let found = examine(&[dockerfile, built]).unwrap();
    assert_eq!(found.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["ctr.no-gpus-flag"]);
}

#[test]
fn crlf_and_byte_order_mark_are_accepted() {
    let text = "\u{feff}FROM nvidia/cuda:latest\r\nRUN apt-get update && \\\r\n  apt-get install -y nvidia-driver-535\r\n";
    let found = one("Dockerfile", text).unwrap();
    let locations: Vec<(&str, &str)> =
        found.iter().map(|one| (one.id.as_str(), one.evidence[0].place.as_str())).collect();
    assert_eq!(locations, [("file.image-tag", "Dockerfile:1"), ("file.driver-in-image", "Dockerfile:3")]);
}

#[test]
fn unsupported_files_are_rejected_with_a_reason() {
    for (name, bytes, expected) in [
        ("Dockerfile", &b"\x7fELF\x02\x01\x01\0\0\0"[..], "is not a text file"),
        ("Dockerfile", b"\xff\xfe\x00F\x00R", "is not a text file"),
        ("Dockerfile", b"", "it has no `FROM`"),
        ("Dockerfile", b"#!/bin/sh\necho hello\n", "line 2: `echo` is not a Dockerfile instruction"),
        ("compose.yaml", b"", "it is empty"),
        ("compose.yaml", b"a: [1, 2\n", "line "),
        ("compose.yaml", b"just: text\n", "it has no `services`"),
        ("compose.yaml", b"services: *nothing\n", "unknown anchor"),
        (".github/workflows/x.yml", b"on: push\n", "it has no `jobs`"),
        ("deployment.yaml", b"apiVersion: v1\nkind: {{ .Values.kind }}\n  a: b\n", "`{{`"),
        (".devcontainer.json", b"[1, 2]", "the top-level value is not an object"),
        ("notes.txt", b"hello\n", "is not a supported kind of file"),
        ("deep.yaml", &[b"services: ".as_slice(), &b"[".repeat(5000)].concat(), "line 1"),
    ] {
        let error = examine(&[InputFile { name: name.to_owned(), bytes: bytes.to_vec() }]).unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
        assert!(error.hint().is_some() && error.id().starts_with("file."));
    }
}

#[test]
fn hostile_files_terminate_quickly() {
    let laughs = |open: &str, close: &str| {
        let mut text = format!("services:\n  a0: &a0 {open}x: 1{close}\n");
        for level in 1..30 {
            let names: Vec<String> = (0..9).map(|index| format!("k{index}: *a{}", level - 1)).collect();
            writeln!(text, "  a{level}: &a{level} {{{}}}", names.join(", ")).unwrap();
        }
        text
    };
    let large = "x".repeat(10 << 20);
    let many_services: String =
        (0..60_000).map(|index| format!("  s{index}: *x\n")).collect::<Vec<_>>().concat();
    let many_jobs: String =
        (0..20_000).map(|index| format!("  j{index}: {{}}\n")).collect::<Vec<_>>().concat();
    let matrix: String =
        (0..40).map(|index| format!("        k{index}: [1, 2, 3, 4, 5, 6]\n")).collect::<Vec<_>>().concat();
    let script = format!("          nvcc $({}\n", "a ".repeat(1000)).repeat(200);
    for (name, text) in [
        ("compose.yaml", large.clone()),
        ("Dockerfile", large),
        ("compose.yaml", laughs("{", "}")),
        (
            "compose.yaml",
            format!(
                "services:\n  x: &x {{image: vllm/vllm-openai, environment: [{}]}}\n{many_services}",
                "A=1, ".repeat(5000)
            ),
        ),
        (
            "compose.yaml",
            "services:\n  a: {extends: b}\n  b: {extends: a, image: vllm/vllm-openai}\n".to_owned(),
        ),
        ("compose.yaml", format!("services:\n  a:\n    image: {}\n", "${A:-".repeat(100_000))),
        (".github/workflows/a.yml", format!("on: push\njobs:\n{many_jobs}")),
        (
            ".github/workflows/a.yml",
            format!(
                "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    strategy:\n      matrix:\n{matrix}    steps:\n      - run: |\n{script}"
            ),
        ),
        (
            ".github/workflows/a.yml",
            format!("on: push\njobs:\n  a:\n    if: {}\n    runs-on: x\n", "(".repeat(100_000)),
        ),
        ("Dockerfile", format!("FROM a\nRUN {}\n", "$(".repeat(300_000))),
        ("Dockerfile", format!("FROM a\nRUN {}\n", "<<A ".repeat(100_000))),
        ("Dockerfile", format!("FROM a\nENV {}\n", "A=$A$A ".repeat(60_000))),
        ("Dockerfile", format!("FROM a\n{}", "ENV A=$A$A$A$A\n".repeat(60_000))),
        ("Dockerfile", format!("FROM a\n{}", "ARG A=${A}${A}${A}\n".repeat(40))),
        ("Dockerfile", "FROM a AS b\nFROM b AS a\n".repeat(30_000)),
        ("Dockerfile", format!("FROM a\n{}", "RUN x \\\n".repeat(100_000))),
        ("x.json", format!("{{\"runArgs\": [{}\"/*\"]}}", "\"a\", ".repeat(100_000))),
    ] {
        // Any result is fine as long as it terminates.
        let _ = one(name, &text);
    }
    assert!(matches!(one("compose.yaml", &laughs("{", "}")), Err(UnreadableInput::Broken { .. })));
    assert!(matches!(one("compose.yaml", &"x".repeat((1 << 20) + 1)), Err(UnreadableInput::Large(_))));
}

#[test]
fn stubs_and_graphics_are_errors_only_if_programs_fail() {
    let severity = |name: &str, text: &str| -> Vec<(Severity, String)> {
        let found = one(name, text).unwrap();
        let ids = ["cuda.stub-at-runtime", "ctr.caps-graphics"];
        let kept = found.into_iter().filter(|finding| ids.contains(&finding.id.as_str()));
        kept.map(|finding| (finding.severity, finding.id.to_string())).collect()
    };
    let stub = |severity: Severity| vec![(severity, "cuda.stub-at-runtime".to_owned())];
    let graphics = |severity: Severity| vec![(severity, "ctr.caps-graphics".to_owned())];
    let path = "ENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs:/opt/lib\nCMD [\"x\"]\n";
    let devel = "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\n";
    let runtime = "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\n";
    assert_eq!(severity("Dockerfile", &format!("{devel}{path}")), stub(Severity::Warning));
    assert_eq!(severity("Dockerfile", &format!("{runtime}{path}")), stub(Severity::Info));
    let link = "RUN ln -s /usr/local/cuda/lib64/stubs/libcuda.so /usr/local/cuda/lib64/stubs/libcuda.so.1\n";
    assert_eq!(severity("Dockerfile", &format!("{devel}{link}{path}"))[0], stub(Severity::Error)[0]);
    assert_eq!(severity("Dockerfile", &format!("{devel}{link}")), stub(Severity::Info));
    let system = "RUN ln -s /usr/local/cuda/lib64/stubs/libcuda.so /usr/lib/x86_64-linux-gnu/libcuda.so.1\n";
    assert_eq!(severity("Dockerfile", &format!("{devel}{system}")), stub(Severity::Warning));
    let other = "RUN ln -s /usr/local/cuda/lib64/stubs/libcuda.so /usr/local/cuda/lib64/libcuda.so.1\n";
    assert_eq!(severity("Dockerfile", &format!("{devel}{other}")), stub(Severity::Error));

    let vulkan = "RUN apt-get install -y libvulkan1\nENV NVIDIA_DRIVER_CAPABILITIES=compute,utility\n";
    assert_eq!(severity("Dockerfile", &format!("{runtime}{vulkan}")), graphics(Severity::Info));
    assert_eq!(severity("Dockerfile", &format!("FROM ubuntu:24.04\n{vulkan}")), graphics(Severity::Warning));
    let started = format!("FROM ubuntu:24.04\n{vulkan}CMD [\"vulkaninfo\"]\n");
    assert_eq!(severity("Dockerfile", &started), graphics(Severity::Error));
    let service = |image: &str| {
        format!(
            "services:\n  a:\n    image: {image}\n    gpus: all\n    environment: {{GGML_VK_VISIBLE_DEVICES: 0, NVIDIA_DRIVER_CAPABILITIES: \"compute,utility\"}}\n"
        )
    };
    assert_eq!(severity("compose.yaml", &service("example/llm:server-vulkan")), graphics(Severity::Error));
    assert_eq!(severity("compose.yaml", &service("example/llm:server-cuda")), graphics(Severity::Info));
    assert_eq!(severity("compose.yaml", &service("example/llm")), graphics(Severity::Warning));
}

#[test]
fn one_unreadable_file_does_not_hide_the_others() {
    let input = |name: &str, text: &str| InputFile { name: name.to_owned(), bytes: text.as_bytes().to_vec() };
    let files = [
        input("compose.yaml", "services: [\n"),
        input("Dockerfile", "FROM nvidia/cuda:latest\n"),
        input("notes.txt", "x\n"),
    ];
    let catalogue = Catalogue::embedded();
    let examination = file::examine(&files, catalogue.get("cuda").unwrap());
    assert_eq!(examination.drafts.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["file.image-tag"]);
    let names: Vec<&str> = examination.unreadable.iter().map(UnreadableInput::name).collect();
    assert_eq!(names, ["compose.yaml", "notes.txt"]);
    let long = format!("{}/compose.yaml", "folder".repeat(60));
    let why = format!("failed to parse `{long}` as a compose file: line 3: the cause");
    let draft = file::not_checked(&long, &why, None);
    assert!(draft.summary.unwrap().ends_with("line 3: the cause"));
}

#[test]
fn severity_depends_on_the_consequence() {
    let found = one("Dockerfile", "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nRUN nvidia-smi\nRUN python3 -c 'import torch; print(torch.cuda.is_available())'\nCMD [\"x\"]\n").unwrap();
    let seen: Vec<(Severity, &str)> = found.iter().map(|one| (one.severity, one.id.as_str())).collect();
    let expected = [
        (Severity::Error, "file.gpu-at-build"),
        (Severity::Info, "file.devel-final"),
        (Severity::Info, "file.gpu-at-build"),
    ];
    assert_eq!(seen, expected);
}
