use super::*;

const FULL: &str = r#"
[build-system]
requires = ["gpubuild"]
[project]
name = "My.Adder"
version = "1.02.0rc1"
description = "adds"
readme = "README.md"
requires-python = ">=3.9, <4"
license = "MIT"
authors = [{ name = "A", email = "a@b.c" }, { name = "D" }]
keywords = ["gpu", "add"]
classifiers = ["Topic :: Software Development"]
dependencies = ["numpy>=1"]
[project.urls]
Home = "https://example.com"
[project.scripts]
adder = "adder.main:run"
[project.optional-dependencies]
Test_All = ["pytest; python_version > '3.8'", "x @ https://a.b/c;d"]
[project.entry-points."a.b"]
c = "d"
"#;

#[test]
fn metadata_has_all_keys_of_the_project() {
    let project = parse(FULL, FILE_NAME, None).unwrap();
    let added = AddedMetadata {
        variant: Some(Distinction::Version("cuda_vulkan".to_owned())),
        requires: vec!["nvidia-cublas-cu12>=12,<13".to_owned()],
        licences: vec!["LICENSE".to_owned()],
        readme: Some("# Adder\n".to_owned()),
        ..AddedMetadata::default()
    };
    assert_eq!(
        project.metadata(&added),
        "Metadata-Version: 2.4\nName: My.Adder\nVersion: 1.2.0rc1+cuda.vulkan\nSummary: adds\nKeywords: gpu,add\n\
         Author: D\nAuthor-email: A <a@b.c>\nLicense-Expression: MIT\nLicense-File: LICENSE\n\
         Classifier: Topic :: Software Development\nProject-URL: Home, https://example.com\n\
         Requires-Python: >=3.9, <4\nRequires-Dist: numpy>=1\nRequires-Dist: nvidia-cublas-cu12>=12,<13\n\
         Provides-Extra: test-all\n\
         Requires-Dist: pytest; (python_version > '3.8') and extra == 'test-all'\n\
         Requires-Dist: x @ https://a.b/c;d; extra == 'test-all'\n\
         Description-Content-Type: text/markdown\n\n# Adder\n"
    );
    let points = project.entry_points_text();
    assert_eq!(points.as_deref(), Some("[console_scripts]\nadder = adder.main:run\n[a.b]\nc = d\n"));
    assert_eq!(project.oldest_python(), Some(9));
}

/// The lines of the metadata that concern requirements.
fn requirements(project: &PythonProject, added: &AddedMetadata) -> Vec<String> {
    let is_requirement =
        |line: &&str| ["Requires-D", "Provides", "Dynamic"].iter().any(|start| line.starts_with(start));
    project.metadata(added).lines().filter(is_requirement).map(str::to_owned).collect()
}

#[test]
fn requirements_of_an_extra_join_those_of_the_project() {
    let runtime = vec!["nvidia-cuda-runtime-cu12>=12.4,<13".to_owned()];
    let added = AddedMetadata { extra: Some(("cuda", runtime)), ..AddedMetadata::default() };
    let start = "[project]\nname = \"a\"\nversion = \"1\"\ndynamic = [\"optional-dependencies\"]\n";
    let project = parse(start, FILE_NAME, None).unwrap();
    let of_runtime = "Requires-Dist: nvidia-cuda-runtime-cu12>=12.4,<13; extra == 'cuda'";
    assert_eq!(requirements(&project, &added), ["Provides-Extra: cuda", of_runtime]);
    let own = format!("{start}[project.optional-dependencies]\nCUDA = [\"cupy-cuda12x\"]\ntest = []\n");
    let project = parse(&own, FILE_NAME, None).unwrap();
    assert_eq!(
        requirements(&project, &added),
        [
            "Provides-Extra: cuda",
            "Requires-Dist: cupy-cuda12x; extra == 'cuda'",
            of_runtime,
            "Provides-Extra: test"
        ]
    );
    let sources = AddedMetadata {
        extra: Some(("cuda", Vec::new())),
        dynamic: &["Requires-Dist"],
        ..AddedMetadata::default()
    };
    assert_eq!(
        requirements(&project, &sources),
        [
            "Provides-Extra: cuda",
            "Requires-Dist: cupy-cuda12x; extra == 'cuda'",
            "Provides-Extra: test",
            "Dynamic: Requires-Dist"
        ]
    );
}

#[test]
fn variants_differ_in_version_or_name() {
    let project = parse(FULL, FILE_NAME, None).unwrap();
    assert_eq!(project.file_stem(None), "my_adder-1.2.0rc1");
    let version = Distinction::Version("cuda".to_owned());
    assert_eq!(project.file_stem(Some(&version)), "my_adder-1.2.0rc1+cuda");
    let name = Distinction::Name("cuda_12.4".to_owned());
    assert_eq!(project.file_stem(Some(&name)), "my_adder_cuda_12_4-1.2.0rc1");
}

#[test]
fn unusable_metadata_is_refused() {
    let of = |text: &str| parse(text, FILE_NAME, None).unwrap_err().to_string();
    for (text, message) in [
        ("[tool.x]\n", "[project] is missing"),
        ("[project]\nname = \"a\"\n", "`version` is missing"),
        ("[project]\nname = \"a\"\nversion = \"1\"\ndynamic = [\"readme\"]\n", "`readme` is dynamic"),
        ("[project]\nname = \"a\"\nversion = \"1\"\ndynamic = [\"version\"]\n", "`dynamic` lists it"),
        ("[project]\nname = \"-a\"\nversion = \"1\"\n", "not a valid name"),
        ("[project]\nname = \"a\"\nversion = \"1-2\"\n", "not a normalized version"),
        ("[project]\nname = \"a\"\nversion = \"1\"\ndescription = \"x\\nEvil: y\"\n", "has a line break"),
        ("[project]\nname = \"a\"\nversion = \"1\"\nlicense = \"MIT\\nEvil: y\"\n", "has a line break"),
        (
            "[project]\nname = \"a\"\nversion = \"1\"\nreadme = { text = \"\", content-type = \"a\\nEvil: y\" }\n",
            "has a line break",
        ),
        ("[project]\nname = \"a\"\nversion = \"1\"\nscripts = { x = \"a:b\\n[c]\" }\n", "has a line break"),
        ("[project]\nname = \"a\"\nversion = \"1\"\ndependencies = [\"-rf\"]\n", "not a requirement"),
    ] {
        assert!(of(text).contains(message), "{text}: {}", of(text));
    }
}

#[test]
fn version_of_a_file_is_checked_like_a_plain_one() {
    let of = |version: &str| {
        let text = "[project]\nname = \"a\"\ndynamic = [\"version\"]\n";
        parse(text, FILE_NAME, Some(version.to_owned()))
    };
    assert_eq!(of("1.02").unwrap().file_stem(None), "a-1.2");
    assert!(of("1-dev").unwrap_err().to_string().contains("not a normalized version"));
}
