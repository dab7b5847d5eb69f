use gpubuild_host::{Arch, RecordedHost};

use super::*;

fn file(name: &str) -> IndexedFile {
    IndexedFile { filename: name.to_owned(), url: format!("../../files/{name}"), hashes: BTreeMap::new() }
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
    let found = links(page);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].url, "../../packages/x-1.0.tar.gz");
    assert_eq!(found[0].hashes["sha256"], "00ff");
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
