//! Tests of where credentials are found and for which server they are used.

use std::time::Duration;

use gpubuild_host::recorded::{CommandResult, RecordedHostBuilder};
use gpubuild_host::{Arch, CommandOutput, RecordedHost};

use super::*;
use crate::fetch::PlainHttp;

const DOCKER: &str = "/home/u/.docker/config.json";
const RUNNING: &str = "/run/user/7/containers/auth.json";

fn linux() -> RecordedHostBuilder {
    RecordedHost::builder(Os::Linux, Arch::X86_64)
        .env("HOME", "/home/u")
        .env("PATH", "/bin")
        .env("XDG_RUNTIME_DIR", "/run/user/7")
}

fn find_for(host: &RecordedHost, image: &str) -> CredentialLookup {
    let image = Reference::parse(image, PlainHttp::Loopback).unwrap();
    let url = image.manifest();
    find(host, CredentialScope::Registry(&image), &url, Duration::from_secs(1))
}

/// A user name and password as encoded in a file.
fn auth(text: &str) -> String {
    format!(r#"{{"auth": "{}"}}"#, BASE64_STANDARD.encode(text))
}

fn password(user: &str, password: &str) -> Secret {
    Secret::Password { user: user.to_owned(), password: password.to_owned() }
}

/// The credentials in a file for an image, where they were found, and the problems that were reported.
fn found(text: &str, image: &str) -> (Option<(Secret, String)>, Vec<String>) {
    let lookup = find_for(&linux().file(DOCKER, text).build(), image);
    (lookup.found.map(|found| (found.secret, found.from)), lookup.problems)
}

#[test]
fn debug_output_contains_no_secrets() {
    let (password, identity) = (password("me", "pa55"), Secret::Identity("pa55".into()));
    let printed = format!("{password:?} {identity:?}");
    assert!(!printed.contains("pa55") && !printed.contains("me"), "{printed}");
    assert_eq!(password.basic().unwrap(), "Basic bWU6cGE1NQ==");
    assert_eq!(identity.basic(), None);
}

#[test]
fn the_longest_matching_path_is_used() {
    let text = format!(
        r#"{{"auths": {{"ghcr.io": {}, "ghcr.io/me": {}, "ghcr.io/me/infer": {}, "ghcr.io/m": {}, "ghcr.io/e": {{}}}}}}"#,
        auth("host:1"),
        auth("me:2"),
        auth("infer:3:4"),
        auth("no:5"),
    );
    for (image, secret, key) in [
        ("ghcr.io/me/infer:1", password("infer", "3:4"), "ghcr.io/me/infer"),
        ("GHCR.io/me/other:1", password("me", "2"), "ghcr.io/me"),
        ("ghcr.io/men/infer:1", password("host", "1"), "ghcr.io"),
        ("ghcr.io/e/x:1", password("host", "1"), "ghcr.io"),
    ] {
        assert_eq!(found(&text, image), (Some((secret, format!("`{key}` in {DOCKER}"))), vec![]), "{image}");
    }
    for image in ["ghcr.io:444/me/infer:1", "evil-ghcr.io/me/infer:1", "ghcr.io.evil.org/me/infer:1"] {
        assert_eq!(found(&text, image).0, None, "{image}");
    }
}

#[test]
fn url_keys_and_docker_hub_are_recognised() {
    let hub = format!(r#"{{"auths": {{"https://index.docker.io/v1/": {}}}}}"#, auth("me:hub"));
    for image in ["docker.io/me/x:1", "index.docker.io/me/x:1", "registry-1.docker.io/me/x:1"] {
        assert_eq!(found(&hub, image).0.unwrap().0, password("me", "hub"), "{image}");
    }
    assert_eq!(found(&hub, "ghcr.io/me/x:1").0, None);
    for key in ["https://h.example/v2/", "http://h.example", "H.example"] {
        let text = format!(r#"{{"auths": {{"{key}": {}}}}}"#, auth("me:x"));
        assert!(found(&text, "h.example/me/x:1").0.is_some(), "{key}");
    }
    // Only a key that is not a URL has a path.
    let text = format!(r#"{{"auths": {{"h.example/you": {}}}}}"#, auth("you:x"));
    assert_eq!(found(&text, "h.example/me/x:1").0, None);
}

#[test]
fn all_forms_of_entries_are_parsed() {
    for (entry, secret) in [
        (auth("me:"), Some(password("me", ""))),
        (auth("me:x\0\0"), Some(password("me", "x"))),
        (r#"{"auth": "bWU6cGE1NQ"}"#.to_owned(), Some(password("me", "pa55"))),
        (r#"{"auth": "bWU6", "identitytoken": "t"}"#.to_owned(), Some(Secret::Identity("t".into()))),
        (r#"{"username": "me", "password": "x"}"#.to_owned(), Some(password("me", "x"))),
        (r#"{"auth": "", "email": "a@b", "more": [1]}"#.to_owned(), None),
        ("{}".to_owned(), None),
        ("null".to_owned(), None),
    ] {
        let text = format!(r#"{{"auths": {{"h.example": {entry}}}, "other": {{"a": 1}}}}"#);
        let (credentials, problems) = found(&text, "h.example/x:1");
        assert_eq!((credentials.map(|(secret, _)| secret), problems), (secret, vec![]), "{entry}");
    }
    for empty in ["", " \n", "{}", r#"{"auths": null, "credHelpers": null, "credsStore": ""}"#] {
        assert_eq!(found(empty, "h.example/x:1"), (None, vec![]), "{empty}");
    }
}

#[test]
fn invalid_files_are_reported_by_path_without_their_content() {
    for (text, expected) in [
        ("pa55", "line 1 is not valid JSON"),
        ("{\"auths\": {\n\"h.example\": {\"auth\": \"pa55", "line 2 is not valid JSON"),
        ("[\"pa55\"]", "line 1 has an unexpected structure"),
        (r#"{"auths": {"h.example": "pa55"}}"#, "line 1 has an unexpected structure"),
        (r#"{"auths": {"h.example": {"auth": 55}}}"#, "line 1 has an unexpected structure"),
        (r#"{"auths": ["pa55"]}"#, "line 1 has an unexpected structure"),
        (r#"{"credHelpers": {"h.example": ["pa55"]}}"#, "line 1 has an unexpected structure"),
        (r#"{"auths": {"h.example": {"auth": "pa55!"}}}"#, "`auth` is not base64"),
        (r#"{"auths": {"h.example": {"auth": "cGE1NQ=="}}}"#, "has no `:`"),
        (r#"{"auths": {"https://me:pa55@h.example": {"auth": "pa55"}}}"#, ""),
    ] {
        let (credentials, problems) = found(text, "h.example/x:1");
        assert_eq!(credentials, None, "{text}");
        let report = problems.join("\n");
        assert!(
            report.contains(expected) && !report.contains("pa55") && !report.contains("cGE1"),
            "{text}: {report}"
        );
        assert!(
            expected.is_empty() || report.contains(DOCKER) && report.contains("[credentials.file-invalid]")
        );
    }
    // The next file is still searched.
    let text = format!(r#"{{"auths": {{"h.example": {}}}}}"#, auth("me:x"));
    let host = linux().file(RUNNING, "{").file(DOCKER, &text).build();
    let lookup = find_for(&host, "h.example/x:1");
    assert!(lookup.found.is_some() && lookup.problems.len() == 1, "{lookup:?}");
    let large = linux().file(DOCKER, &" ".repeat(MAX_BYTES + 1)).build();
    assert!(find_for(&large, "h.example/x:1").problems[0].contains("larger than 1 MiB"));
}

#[test]
fn files_are_searched_in_the_order_of_podman() {
    let searched = |host: RecordedHostBuilder| find_for(&host.build(), "h.example/x:1").searched;
    assert_eq!(searched(linux()), [RUNNING, "/home/u/.config/containers/auth.json", DOCKER]);
    assert_eq!(
        searched(linux().env("XDG_CONFIG_HOME", "/etc/u").env("DOCKER_CONFIG", "/etc/d")),
        [RUNNING, "/etc/u/containers/auth.json", "/etc/d/config.json"]
    );
    assert_eq!(searched(linux().env("REGISTRY_AUTH_FILE", "/tmp/a.json")), ["/tmp/a.json"]);
    let root = RecordedHost::builder(Os::Linux, Arch::X86_64).env("HOME", "/root").identity(0, &[0]);
    assert_eq!(searched(root)[0], "/run/containers/0/auth.json");
    let windows = RecordedHost::builder(Os::Windows, Arch::X86_64).env("USERPROFILE", r"C:\Users\u");
    assert_eq!(
        searched(windows),
        [r"C:\Users\u\.config\containers\auth.json", r"C:\Users\u\.docker\config.json"]
    );
    assert_eq!(searched(RecordedHost::builder(Os::Macos, Arch::Aarch64)), [""; 0]);
}

#[test]
fn helpers_are_queried_for_their_registries() {
    let answer = r#"{"ServerURL": "h.example", "Username": "me", "Secret": "pa55"}"#;
    let helper = |text: &str, answer: &str| {
        let host = linux()
            .file(DOCKER, text)
            .executable("/bin/docker-credential-keep")
            .command(&["docker-credential-keep", "get"], answer);
        find_for(&host.build(), "h.example/x:1")
    };
    let own = r#"{"credHelpers": {"h.example": "keep"}, "credsStore": "gone"}"#;
    let lookup = helper(own, answer);
    let found = lookup.found.unwrap();
    assert_eq!(found.secret, password("me", "pa55"));
    assert_eq!(found.from, format!("docker-credential-keep (named in {DOCKER})"));
    assert!(lookup.problems.is_empty());
    let all = r#"{"credsStore": "keep", "auths": {"h.example": {}}}"#;
    assert_eq!(helper(all, answer).found.unwrap().secret, password("me", "pa55"));
    let token = r#"{"Username": "<token>", "Secret": "t"}"#;
    assert_eq!(helper(all, token).found.unwrap().secret, Secret::Identity("t".into()));
    // Without an answer from the helper, the entry in the file is used.
    let both = format!(r#"{{"credsStore": "keep", "auths": {{"h.example": {}}}}}"#, auth("you:x"));
    for answer in ["{}", r#"{"Username": "", "Secret": ""}"#] {
        let lookup = helper(&both, answer);
        assert_eq!((lookup.found.unwrap().secret, lookup.problems), (password("you", "x"), vec![]));
    }
    // An empty entry disables the default helper for the registry.
    let off = r#"{"credHelpers": {"h.example": ""}, "credsStore": "keep"}"#;
    assert_eq!(helper(off, answer).found, None);
    // A failure is reported without the helper's output.
    for (text, answer, expected) in [
        (all, "pa55", "did not print"),
        (all, r#"["pa55"]"#, "did not print"),
        (r#"{"credsStore": "gone"}"#, answer, "`docker-credential-gone` was not found"),
        (r#"{"credsStore": "../x"}"#, answer, "is not a program name"),
    ] {
        let lookup = helper(text, answer);
        let report = lookup.problems.join("\n");
        assert_eq!(lookup.found, None, "{text}");
        assert!(report.contains(expected) && report.contains("[credentials.helper-failed]"), "{report}");
        assert!(!report.contains("pa55") && report.contains(DOCKER), "{report}");
    }
}

#[test]
fn helpers_without_an_entry_that_hang_or_that_fail_are_handled() {
    let ended = |exit, stdout: &str| {
        CommandResult::Ended(CommandOutput {
            stdout: stdout.to_owned(),
            exit: Some(exit),
            ..CommandOutput::default()
        })
    };
    for (result, problem) in [
        (ended(1, "credentials not found in native keychain\n"), None),
        (ended(1, "pa55"), Some("ended with status 1")),
        (CommandResult::Hangs, Some("timed out after 1 s")),
    ] {
        let host = linux()
            .file(DOCKER, r#"{"credsStore": "keep"}"#)
            .executable("/bin/docker-credential-keep")
            .command_result(&["docker-credential-keep", "get"], result);
        let lookup = find_for(&host.build(), "h.example/x:1");
        let report = lookup.problems.join("\n");
        assert_eq!(lookup.problems.len(), usize::from(problem.is_some()), "{report}");
        assert!(problem.is_none_or(|text| report.contains(text)) && !report.contains("pa55"), "{report}");
    }
}

fn server(host: &RecordedHost, url: &str) -> CredentialLookup {
    find(host, CredentialScope::Server, &Url::parse(url).unwrap(), Duration::from_secs(1))
}

#[test]
fn netrc_is_parsed_as_by_curl() {
    let text = "# machine a.example password no\n\
        machine b.example login me password pa55\n\
        macdef init\n  machine a.example password no\n\n\
        machine a.example\n\tlogin \"m e\"\n\taccount x password \"p\\\"a #55\" # words\n\
        machine a.example login second password no machine c.example login c\n\
        machine d.example password #d\n\
        default login any password 1";
    let host = linux().file("/home/u/.netrc", text).build();
    for (url, secret, name) in [
        ("https://a.example/x", password("m e", "p\"a #55"), "machine a.example"),
        ("https://B.example:8443/", password("me", "pa55"), "machine b.example"),
        ("https://d.example/", password("", "#d"), "machine d.example"),
        // The entry has a user name but no password.
        ("https://c.example/", password("any", "1"), "default"),
        ("https://evil-b.example/", password("any", "1"), "default"),
    ] {
        let found = server(&host, url).found.unwrap();
        assert_eq!((found.secret, found.from), (secret, format!("`{name}` in /home/u/.netrc")), "{url}");
        assert_eq!(found.policy == SendPolicy::OnChallenge, name == "default");
    }
    for (text, line) in
        [("password pa55", 1), ("machine a\nlogin", 2), ("\n\npa55 x", 3), ("machine a passwort pa55", 1)]
    {
        let lookup = server(&linux().file("/home/u/.netrc", text).build(), "https://a/");
        let report = lookup.problems.join("\n");
        assert!(lookup.found.is_none() && report.contains(&format!("line {line} ")), "{text}: {report}");
        assert!(report.contains("/home/u/.netrc") && !report.contains("pa55"), "{report}");
    }
    for nothing in ["", "macdef x\nmachine a password b", "#", "machine \"", "macdef"] {
        let lookup = server(&linux().file("/home/u/.netrc", nothing).build(), "https://a/");
        assert_eq!((lookup.found, lookup.problems), (None, vec![]), "{nothing}");
    }
}

#[test]
fn netrc_paths_depend_on_the_platform() {
    assert_eq!(server(&linux().build(), "https://a/").searched, ["/home/u/.netrc"]);
    assert_eq!(server(&linux().env("NETRC", "/x/n").build(), "https://a/").searched, ["/x/n"]);
    let windows = RecordedHost::builder(Os::Windows, Arch::X86_64).env("USERPROFILE", r"C:\Users\u");
    assert_eq!(server(&windows.build(), "https://a/").searched, [r"C:\Users\u\_netrc", r"C:\Users\u\.netrc"]);
}
