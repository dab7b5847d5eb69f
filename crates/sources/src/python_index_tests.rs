use gpubuild_host::{Arch, RecordedHost};
use gpubuild_samples::random::{cases, random};

use super::*;

fn file(name: &str) -> IndexedFile {
    IndexedFile {
        filename: name.to_owned(),
        url: format!("../../files/{name}"),
        hashes: FileHashes::default(),
    }
}

#[test]
fn the_source_distribution_of_exactly_this_release_is_chosen() {
    let files = [
        file("llama-cpp-python-0.2.0.zip"),
        file("llama_cpp_python-0.3.35.tar.gz"),
        file("llama_cpp_python-0.3.36-cp312-cp312-linux_x86_64.whl"),
        file("llama_cpp_python-0.3.36.tar.gz"),
        file("llama_cpp_python-0.3.36.zip"),
        file("llama_cpp_python-0.3.36.post1.tar.gz"),
        file("other-0.3.37.tar.gz"),
        file("llama_cpp_python-0.4.0-py3-none-any.whl"),
    ];
    let chosen = |version: &str| choose(&files, "Llama.Cpp-Python", version);
    assert_eq!(chosen("0.3.36").unwrap().filename, "llama_cpp_python-0.3.36.tar.gz");
    assert_eq!(chosen("0.2.0").unwrap().filename, "llama-cpp-python-0.2.0.zip");
    for (version, expected) in [
        ("0.4.0", "it has llama_cpp_python-0.4.0-py3-none-any.whl"),
        ("0.3.37", "matches `0.3.37`; the newest are 0.3.36.post1, 0.3.36"),
    ] {
        let shown = chosen(version).unwrap_err().to_string();
        assert!(shown.contains(expected), "{shown}");
    }
}

#[test]
fn both_forms_of_an_index_are_read() {
    let page = "<html><body>\n<a href=\"../../packages/x-1.0.tar.gz#sha256=00ff\" data-requires-python=\"&gt;=3.8\">x-1.0.tar.gz</a><br/>\n\
                <a class='y' href='https://h/x-2.0.tar.gz?a=1&amp;b=2'>x-2.0.tar.gz</a>\n<a>no link</a>\n";
    let found = links(page).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].url, "../../packages/x-1.0.tar.gz");
    assert_eq!(found[0].hashes.sha256.as_deref(), Some("00ff"));
    assert_eq!(found[0].sha256(), None);
    assert_eq!(
        (found[1].url.as_str(), found[1].filename.as_str()),
        ("https://h/x-2.0.tar.gz?a=1&b=2", "x-2.0.tar.gz")
    );
    let json = r#"{"meta":{"api-version":"1.1"},"name":"x","files":[{"filename":"x-1.0.tar.gz","url":"u","hashes":{"sha256":"00"},"size":3,"yanked":false}]}"#;
    let list: FileList = serde_json::from_str(json).unwrap();
    assert_eq!(list.files[0].filename, "x-1.0.tar.gz");
}

#[test]
fn the_index_of_pip_and_uv_is_used() {
    let found = |env: &[(&str, &str)], files: &[(&str, &str)]| {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).env("HOME", "/home/u");
        let host = env.iter().fold(host, |host, (name, value)| host.env(name, value));
        let host = files.iter().fold(host, |host, (path, text)| host.file(path, text)).build();
        index(&host)
    };
    let (user, global) = ("/home/u/.config/pip/pip.conf", "/etc/pip.conf");
    let uv = "/home/u/.config/uv/uv.toml";
    assert_eq!(found(&[], &[]), DEFAULT);
    assert_eq!(found(&[], &[(global, "[global]\ncert = /x\n")]), DEFAULT);
    assert_eq!(
        found(&[], &[(global, "[global]\nindex-url = https://g.example/simple\n")]),
        "https://g.example/simple"
    );
    let both =
        [(user, "[global]\nindex_url: https://u.example/\n"), (global, "[install]\nindex-url=https://g\n")];
    assert_eq!(found(&[], &both), "https://u.example/");
    let of_uv =
        "[[index]]\nurl = \"https://extra\"\n[[index]]\nurl = \"https://uv.example\"\ndefault = true\n";
    assert_eq!(found(&[], &[(uv, of_uv), both[0]]), "https://uv.example");
    let env = [("PIP_INDEX_URL", "https://env.example/simple")];
    assert_eq!(found(&env, &[(uv, of_uv)]), "https://env.example/simple");
}

#[test]
fn file_names_are_compared_by_normalized_name() {
    assert_eq!(distribution("x_y-1.0.tar.gz", "X.y"), Some("1.0"));
    assert_eq!(distribution("x_y-1.0.whl", "x-y"), None);
}

#[test]
fn documents_with_too_many_files_are_refused() {
    let entry = r#"{"filename":"x-1.0.tar.gz","url":"u"}"#;
    let json = |count: usize| format!("{{\"files\":[{}]}}", vec![entry; count].join(","));
    assert_eq!(listed(&json(MAX_FILES)).map(|files| files.len()), Ok(MAX_FILES));
    let expected = "it lists more than 100000 files";
    assert!(listed(&json(MAX_FILES + 1)).unwrap_err().starts_with(expected));
    let html = "<a href='u'>x-1.0.tar.gz</a>".repeat(MAX_FILES + 1);
    assert_eq!(listed(&html), Err(expected.to_owned()));
}

/// Names and hashes of a hostile index never become a path outside of the cache. `GPUBUILD_CASES` sets the number of documents.
#[test]
fn generated_documents_lead_to_plain_folders() {
    let cases = cases(500);
    let pieces = [
        "../",
        "/",
        "\\",
        "..",
        "x",
        "-1.0",
        ".tar.gz",
        ".zip",
        "\0",
        "\n::error::",
        "\u{202e}",
        "C:",
        "é",
        "00ff",
        "%2f",
    ];
    let mut random = random();
    let page = Url::parse("https://h/simple/x/").unwrap();
    let (mut pinned_files, hash) = (0, "0f".repeat(32));
    for case in 0..cases {
        let mut hostile = |usual: &str| match random(3) {
            0 => usual.to_owned(),
            1 => (0..=random(40)).map(|_| pieces[random(pieces.len())]).collect(),
            _ => {
                let at = random(usual.len());
                format!("{}{}{}", &usual[..at], pieces[random(pieces.len())], &usual[at + 1..])
            }
        };
        let (name, hash, url) = (hostile("x-1.0.tar.gz"), hostile(&hash), hostile("https://h/x-1.0.tar.gz"));
        let document = match case % 2 {
            0 => serde_json::json!({"files": [{"filename": name, "url": url, "hashes": {"sha256": hash}}]})
                .to_string(),
            _ => format!("<a href=\"{url}#sha256={hash}\">{name}</a>"),
        };
        let files = listed(&document).unwrap();
        let Ok(locked) = pinned(&files, "x", "1.0", &page) else { continue };
        pinned_files += 1;
        assert!(locked.sha256.as_ref().is_some_and(|hash| is_sha256(hash)), "{document}");
        let folder = locked.folder();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
        assert!(folder.chars().all(is_plain) && folder.starts_with("x-1.0-"), "{document}: {folder}");
        let _ = page.join(&files[0].url);
    }
    assert!(pinned_files > cases / 50, "{pinned_files} of {cases}");
}
