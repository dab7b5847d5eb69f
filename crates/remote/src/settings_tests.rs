use gpubuild_host::{Arch, Os, RecordedHost};

use super::*;

fn open(
    variables: &[(&str, &str)],
    table: &str,
    request: RemoteRequest<'_>,
) -> Result<Option<RemoteSettings>, InvalidRemote> {
    let mut builder = RecordedHost::builder(Os::Linux, Arch::X86_64);
    for (name, value) in variables {
        builder = builder.env(name, value);
    }
    RemoteSettings::open(&builder.build(), &table_of(table), request)
}

fn table_of(text: &str) -> CacheTable {
    gpubuild_toml::from_str(text).unwrap()
}

fn url(variables: &[(&str, &str)], table: &str) -> Option<(String, RemoteAccess)> {
    let settings = open(variables, table, RemoteRequest::default()).unwrap();
    settings.map(|settings| (settings.url, settings.access))
}

#[test]
fn variables_take_precedence_over_the_project_file() {
    use RemoteAccess::{Read, Write};
    let table = "remote = \"https://h/x\"";
    assert_eq!(url(&[], ""), None);
    assert_eq!(url(&[], table), Some(("https://h/x".to_owned(), Read)));
    assert_eq!(url(&[], &format!("{table}\nwrite = true")), Some(("https://h/x".to_owned(), Write)));
    assert_eq!(url(&[(VARIABLE, "oci://r/n")], table), Some(("oci://r/n".to_owned(), Read)));
    assert_eq!(url(&[(WRITE, "1")], table), Some(("https://h/x".to_owned(), Write)));
    assert_eq!(url(&[(WRITE, "0")], &format!("{table}\nwrite = true")).unwrap().1, Read);
    for off in ["off", "0", "false"] {
        assert_eq!(url(&[(VARIABLE, off)], table), None, "{off}");
    }
    assert_eq!(url(&[], "launcher = \"ccache\"\nremote = \"redis://h\""), None);
    assert_eq!(url(&[], "launcher = \"ccache\"\nremote = \"http://localhost/x\""), None);
    assert!(url(&[], "remote = \"http://localhost/x\"").is_some());
    let request = RemoteRequest { url: Some("s3://b/p"), write: true };
    let settings = open(&[(VARIABLE, "off")], table, request).unwrap().unwrap();
    assert_eq!((settings.url.as_str(), settings.access), ("s3://b/p", Write));
    assert_eq!((settings.timeout, settings.budget), (DEFAULT_TIMEOUT, DEFAULT_BUDGET));
}

#[test]
fn time_limits_end_after_a_year() {
    for longest in ["18446744073709551615s", "213503982334601d", "400d"] {
        let table = format!("remote = \"s3://b/p\"\ntimeout = \"{longest}\"\nbudget = \"{longest}\"");
        let settings = open(&[], &table, RemoteRequest::default()).unwrap().unwrap();
        assert_eq!((settings.timeout, settings.budget), (LONGEST_TIME, LONGEST_TIME));
    }
}

#[test]
fn invalid_settings_are_named() {
    let wrong = |table: &str| {
        let error = open(&[], &format!("remote = \"s3://b/p\"\n{table}"), RemoteRequest::default());
        error.err().map(|error| error.setting)
    };
    assert_eq!(wrong("timeout = \"soon\""), Some("timeout"));
    assert_eq!(wrong("timeout = \"0s\""), Some("timeout"));
    assert_eq!(wrong("budget = \"1y\""), Some("budget"));
    assert_eq!(wrong("max_upload = \"much\""), Some("max_upload"));
    assert_eq!(wrong("require_signature = true"), Some("keys"));
    assert_eq!(wrong("keys = [\"RW\"]"), Some("keys"));
    assert_eq!(wrong("endpoint = \"ftp://h\""), Some("endpoint"));
    for url in [
        "s3://",
        "s3:///x",
        "s3://key:secret@b/x",
        "s3://b/../x",
        "oci://r",
        "oci://r/n:tag",
        "https://",
        "ftp://h/x",
        "x",
    ] {
        let error = open(&[(VARIABLE, url)], "", RemoteRequest::default()).err().unwrap();
        assert!(!error.to_string().contains("secret"), "{url}: {error}");
    }
}
