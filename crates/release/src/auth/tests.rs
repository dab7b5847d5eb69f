//! Tests: where credentials are found, and for which server they are used.

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

fn look_for(host: &RecordedHost, image: &str) -> CredentialLookup {
    let image = Reference::parse(image, PlainHttp::Loopback).unwrap();
    let url = image.manifest();
    look(host, Door::Registry(&image), &url, Duration::from_secs(1))
}

/// A user name and password as encoded in a file.
fn auth(text: &str) -> String {
    format!(r#"{{"auth": "{}"}}"#, BASE64_STANDARD.encode(text))
}

fn password(user: &str, password: &str) -> Secret {
    Secret::Password { user: user.to_owned(), password: password.to_owned() }
}

/// The credentials in a file for an image, where they were found, and the number of problems that were reported.
fn found(text: &str, image: &str) -> (Option<(Secret, String)>, Vec<String>) {
    let lookup = look_for(&linux().file(DOCKER, text).build(), image);
    (lookup.found.map(|found| (found.secret, found.from)), lookup.problems)
}

#[test]
fn secrets_are_not_printed() {
    let (password, identity) = (password("me", "pa55"), Secret::Identity("pa55".into()));
    let told = format!("{password:?} {identity:?}");
    assert!(!told.contains("pa55") && !told.contains("me"), "{told}");
    assert_eq!(password.basic().unwrap(), "Basic bWU6cGE1NQ==");
    assert_eq!(identity.basic(), None);
}

#[test]
fn the_longest_path_wins() {
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
fn older_spellings_and_docker_s_own_registry_are_known() {
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
fn entries_have_several_forms() {
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
        let (one, problems) = found(&text, "h.example/x:1");
        assert_eq!((one.map(|(secret, _)| secret), problems), (secret, vec![]), "{entry}");
    }
    for empty in ["", " \n", "{}", r#"{"auths": null, "credHelpers": null, "credsStore": ""}"#] {
        assert_eq!(found(empty, "h.example/x:1"), (None, vec![]), "{empty}");
    }
}

#[test]
fn what_is_broken_is_told_with_its_place_and_without_its_content() {
    for (text, words) in [
        ("pa55", "line 1 is not valid JSON"),
        ("{\"auths\": {\n\"h.example\": {\"auth\": \"pa55", "line 2 is not valid JSON"),
        ("[\"pa55\"]", "line 1 is not what belongs there"),
        (r#"{"auths": {"h.example": "pa55"}}"#, "line 1 is not what belongs there"),
        (r#"{"auths": {"h.example": {"auth": 55}}}"#, "line 1 is not what belongs there"),
        (r#"{"auths": ["pa55"]}"#, "line 1 is not what belongs there"),
        (r#"{"credHelpers": {"h.example": ["pa55"]}}"#, "line 1 is not what belongs there"),
        (r#"{"auths": {"h.example": {"auth": "pa55!"}}}"#, "`auth` is not base64"),
        (r#"{"auths": {"h.example": {"auth": "cGE1NQ=="}}}"#, "has no `:`"),
        (r#"{"auths": {"https://me:pa55@h.example": {"auth": "pa55"}}}"#, ""),
    ] {
        let (one, problems) = found(text, "h.example/x:1");
        assert_eq!(one, None, "{text}");
        let told = problems.join("\n");
        assert!(told.contains(words) && !told.contains("pa55") && !told.contains("cGE1"), "{text}: {told}");
        assert!(words.is_empty() || told.contains(DOCKER) && told.contains("[credentials.file-invalid]"));
    }
    // The next file is looked at all the same.
    let text = format!(r#"{{"auths": {{"h.example": {}}}}}"#, auth("me:x"));
    let host = linux().file(RUNNING, "{").file(DOCKER, &text).build();
    let lookup = look_for(&host, "h.example/x:1");
    assert!(lookup.found.is_some() && lookup.problems.len() == 1, "{lookup:?}");
    let large = linux().file(DOCKER, &" ".repeat(MOST_BYTES + 1)).build();
    assert!(look_for(&large, "h.example/x:1").problems[0].contains("more than a megabyte"));
}

#[test]
fn files_are_looked_at_in_the_order_of_podman() {
    let looked = |host: RecordedHostBuilder| look_for(&host.build(), "h.example/x:1").looked;
    assert_eq!(looked(linux()), [RUNNING, "/home/u/.config/containers/auth.json", DOCKER]);
    assert_eq!(
        looked(linux().env("XDG_CONFIG_HOME", "/etc/u").env("DOCKER_CONFIG", "/etc/d")),
        [RUNNING, "/etc/u/containers/auth.json", "/etc/d/config.json"]
    );
    assert_eq!(looked(linux().env("REGISTRY_AUTH_FILE", "/tmp/a.json")), ["/tmp/a.json"]);
    let root = RecordedHost::builder(Os::Linux, Arch::X86_64).env("HOME", "/root").identity(0, &[0]);
    assert_eq!(looked(root)[0], "/run/containers/0/auth.json");
    let windows = RecordedHost::builder(Os::Windows, Arch::X86_64).env("USERPROFILE", r"C:\Users\u");
    assert_eq!(
        looked(windows),
        [r"C:\Users\u\.config\containers\auth.json", r"C:\Users\u\.docker\config.json"]
    );
    assert_eq!(looked(RecordedHost::builder(Os::Macos, Arch::Aarch64)), [""; 0]);
}

#[test]
fn helpers_are_asked_for_their_registries() {
    let answer = r#"{"ServerURL": "h.example", "Username": "me", "Secret": "pa55"}"#;
    let helper = |text: &str, answer: &str| {
        let host = linux()
            .file(DOCKER, text)
            .executable("/bin/docker-credential-keep")
            .command(&["docker-credential-keep", "get"], answer);
        look_for(&host.build(), "h.example/x:1")
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
    // If the helper has nothing, the entry in the file is used.
    let both = format!(r#"{{"credsStore": "keep", "auths": {{"h.example": {}}}}}"#, auth("you:x"));
    for answer in ["{}", r#"{"Username": "", "Secret": ""}"#] {
        let lookup = helper(&both, answer);
        assert_eq!((lookup.found.unwrap().secret, lookup.problems), (password("you", "x"), vec![]));
    }
    // One that is empty switches off the one of all.
    let off = r#"{"credHelpers": {"h.example": ""}, "credsStore": "keep"}"#;
    assert_eq!(helper(off, answer).found, None);
    // A failure is reported without the helper's output.
    for (text, answer, words) in [
        (all, "pa55", "prints something else"),
        (all, r#"["pa55"]"#, "prints something else"),
        (r#"{"credsStore": "gone"}"#, answer, "`docker-credential-gone` was not found"),
        (r#"{"credsStore": "../x"}"#, answer, "is not a program name"),
    ] {
        let lookup = helper(text, answer);
        let told = lookup.problems.join("\n");
        assert_eq!(lookup.found, None, "{text}");
        assert!(told.contains(words) && told.contains("[credentials.helper-failed]"), "{told}");
        assert!(!told.contains("pa55") && told.contains(DOCKER), "{told}");
    }
}

#[test]
fn a_helper_may_have_nothing_hang_or_fail() {
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
        (CommandResult::Hangs, Some("did not answer within 1 s")),
    ] {
        let host = linux()
            .file(DOCKER, r#"{"credsStore": "keep"}"#)
            .executable("/bin/docker-credential-keep")
            .command_result(&["docker-credential-keep", "get"], result);
        let lookup = look_for(&host.build(), "h.example/x:1");
        let told = lookup.problems.join("\n");
        assert_eq!(lookup.problems.len(), usize::from(problem.is_some()), "{told}");
        assert!(problem.is_none_or(|words| told.contains(words)) && !told.contains("pa55"), "{told}");
    }
}

fn server(host: &RecordedHost, url: &str) -> CredentialLookup {
    look(host, Door::Server, &Url::parse(url).unwrap(), Duration::from_secs(1))
}

#[test]
fn netrc_is_read_as_curl_reads_it() {
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
        // It has a name and no password.
        ("https://c.example/", password("any", "1"), "default"),
        ("https://evil-b.example/", password("any", "1"), "default"),
    ] {
        let found = server(&host, url).found.unwrap();
        assert_eq!((found.secret, found.from), (secret, format!("`{name}` in /home/u/.netrc")), "{url}");
        assert_eq!(found.sent == Sent::WhenAsked, name == "default");
    }
    for (text, line) in
        [("password pa55", 1), ("machine a\nlogin", 2), ("\n\npa55 x", 3), ("machine a passwort pa55", 1)]
    {
        let lookup = server(&linux().file("/home/u/.netrc", text).build(), "https://a/");
        let told = lookup.problems.join("\n");
        assert!(lookup.found.is_none() && told.contains(&format!("line {line} ")), "{text}: {told}");
        assert!(told.contains("/home/u/.netrc") && !told.contains("pa55"), "{told}");
    }
    for nothing in ["", "macdef x\nmachine a password b", "#", "machine \"", "macdef"] {
        let lookup = server(&linux().file("/home/u/.netrc", nothing).build(), "https://a/");
        assert_eq!((lookup.found, lookup.problems), (None, vec![]), "{nothing}");
    }
}

#[test]
fn netrc_has_a_place_on_each_platform() {
    assert_eq!(server(&linux().build(), "https://a/").looked, ["/home/u/.netrc"]);
    assert_eq!(server(&linux().env("NETRC", "/x/n").build(), "https://a/").looked, ["/x/n"]);
    let windows = RecordedHost::builder(Os::Windows, Arch::X86_64).env("USERPROFILE", r"C:\Users\u");
    assert_eq!(server(&windows.build(), "https://a/").looked, [r"C:\Users\u\_netrc", r"C:\Users\u\.netrc"]);
}
