//! Every kind of request refuses certificates that are not valid for the server, and redirects to plain HTTP. Nothing is sent to such a
//! server, credentials least of all.

use crate::release::{Release, signed};
use crate::self_update::Installed;
use crate::server::{Certificates, Reply, Server, files};
use crate::support::{RunResult, recorded};

const REVISION: &str = "1234567890123456789012345678901234567890";
const PASSWORD: &str = "pa55word";

/// A machine with credentials for the server, an installed gpubuild, and a project whose sources are on the server.
struct Machine {
    installed: Installed,
}

/// A command that sends requests to a server.
struct Kind {
    name: &'static str,
    run: fn(&Machine, &Server) -> RunResult,
    /// The ids for a certificate that is refused, and for a redirect to plain HTTP.
    ids: [&'static str; 2],
}

const FETCH: [&str; 2] = ["net.tls", "net.downgrade"];

const KINDS: [Kind; 9] = [
    Kind { name: "install", run: Machine::install, ids: FETCH },
    Kind { name: "self update", run: Machine::self_update, ids: FETCH },
    Kind { name: "archive", run: |machine, server| machine.fetch(&archive(server)), ids: FETCH },
    Kind {
        name: "crate",
        run: |machine, _| machine.fetch("{ crate = \"adder\", version = \"1.0.0\" }"),
        ids: FETCH,
    },
    Kind {
        name: "Python package",
        run: |machine, _| machine.fetch("{ pypi = \"adder\", version = \"1.0.0\" }"),
        ids: FETCH,
    },
    Kind {
        name: "repository",
        run: |machine, server| machine.fetch(&repository(server)),
        ids: ["source.git-failed", "source.git-failed"],
    },
    Kind { name: "toolkit", run: |machine, _| machine.toolkit(), ids: ["wheel.network", "wheel.network"] },
    Kind {
        name: "shared store",
        run: |machine, server| machine.store(&format!("--remote={}", server.url("store"))),
        ids: ["net.tls", "remote.redirected"],
    },
    Kind {
        name: "object storage",
        run: |machine, _| machine.store("--remote=s3://results/team"),
        ids: ["net.tls", "remote.redirected"],
    },
];

fn archive(server: &Server) -> String {
    format!("{{ url = \"{}\", sha256 = \"{}\" }}", server.url("x.tar.gz"), "0".repeat(64))
}

fn repository(server: &Server) -> String {
    format!("{{ git = \"{}\", rev = \"{REVISION}\" }}", server.url("x.git"))
}

impl Machine {
    fn new() -> Self {
        let installed = Installed::new();
        let sandbox = &installed.sandbox;
        sandbox.write("home/.netrc", format!("machine 127.0.0.1 login me password {PASSWORD}\n"));
        Self { installed }
    }

    /// Trusts one authority, and makes the server the registry of crates, the index of Python packages and the object storage.
    fn run(&self, server: &Server, kind: &Kind, authority: &str) -> RunResult {
        let sandbox = &self.installed.sandbox;
        sandbox.write("ca.pem", authority);
        let registry = server.url("index/");
        sandbox.write(
            "home/.cargo/config.toml",
            format!(
                "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+{registry}\"\n"
            ),
        );
        sandbox.write("root", server.url(""));
        (kind.run)(self, server)
    }

    fn env(&self) -> Vec<(String, String)> {
        let sandbox = &self.installed.sandbox;
        let (root, authority) = (sandbox.read("root"), sandbox.at("ca.pem"));
        let simple = format!("{root}simple");
        let all = [
            ("SSL_CERT_FILE", authority.as_str()),
            ("GIT_SSL_CAINFO", &authority),
            ("PIP_INDEX_URL", &simple),
            ("AWS_ENDPOINT_URL", &root),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", PASSWORD),
            ("GPUBUILD_HTTP_RETRIES", "0"),
            ("GPUBUILD_HTTP_TIMEOUT", "60"),
        ];
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    fn command(&self, more: &[(&str, &str)], arguments: &[&str]) -> RunResult {
        let env = self.env();
        let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        self.installed.sandbox.run_with(&[&env, more].concat(), arguments)
    }

    fn install(&self, server: &Server) -> RunResult {
        let (url, key, host) =
            (server.url("manifest.json"), self.installed.key(), recorded("debian-12-bare"));
        let arguments =
            ["install", "--json", "--to", "new", "--manifest", &url, "--key", &key, "--host", &host];
        self.command(&[], &arguments)
    }

    fn self_update(&self, server: &Server) -> RunResult {
        let env = self.env();
        let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let arguments = ["--json", "--key", &self.installed.key()];
        self.installed.update_with(&env, &server.url("manifest.json"), &arguments)
    }

    fn fetch(&self, source: &str) -> RunResult {
        let text =
            format!("schema = 1\n[project]\nname = \"adder\"\nsource = {source}\ntargets = [\"adder\"]\n");
        self.installed.sandbox.write("app/gpubuild.toml", text);
        self.command(&[], &["fetch", "--json", "--project", "app"])
    }

    /// Without programs on PATH, gpubuild downloads the wheels itself.
    fn toolkit(&self) -> RunResult {
        let bare = self.installed.sandbox.at("bare");
        self.command(&[("PATH", &bare)], &["toolkit", "install", "cuda", "--json"])
    }

    fn store(&self, remote: &str) -> RunResult {
        self.command(&[], &["cache", "stat", "--json", remote])
    }
}

#[test]
fn certificates_that_are_not_valid_are_refused_by_every_kind_of_request() {
    let machine = Machine::new();
    let (good, names) = (Certificates::good(), &["localhost", "127.0.0.1"][..]);
    let of_another_host = Certificates::new(&["example.org"], (2020, 2090));
    let (expired, future) = (Certificates::new(names, (2020, 2021)), Certificates::new(names, (2080, 2090)));
    let cases = [
        ("self-signed", &Certificates::self_signed(), &good.authority, "does not trust the authority"),
        ("unknown authority", &Certificates::good(), &good.authority, "does not trust the authority"),
        ("expired", &expired, &expired.authority, "certificate expired"),
        ("not valid yet", &future, &future.authority, "not valid yet"),
        ("another host", &of_another_host, &of_another_host.authority, "not valid for name"),
    ];
    for (what, certificates, authority, message) in cases {
        let server = Server::with_tls(certificates, |_| Reply::status(404, b""));
        for kind in &KINDS {
            let ran = machine.run(&server, kind, authority);
            let case = format!("{what}, {}: {ran:?}", kind.name);
            assert_eq!((ran.exit, &ran.json()["error"]["id"]), (Some(1), &kind.ids[0].into()), "{case}");
            let is_git = kind.ids[0] == "source.git-failed";
            assert!(is_git || ran.stderr.contains(message) && ran.stderr.contains("SSL_CERT_FILE"), "{case}");
            assert!(!ran.stderr.contains(PASSWORD) && !ran.stdout.contains(PASSWORD), "{case}");
        }
        assert!(server.connections() >= KINDS.len(), "{what}: {}", server.connections());
        assert!(server.requests().is_empty(), "{what}: {:?}", server.requests());
    }
}

#[test]
fn redirects_to_plain_http_are_refused_by_every_kind_of_request() {
    let machine = Machine::new();
    let good = Certificates::good();
    let plain = Server::start(|_| Reply::status(404, b""));
    let to = plain.url("x");
    let server = Server::with_tls(&good, move |request| {
        // git and curl use the credentials when they are asked for them.
        let is_asked = request.path.contains("x.git") && request.header("authorization").is_none();
        if is_asked {
            return Reply::status(401, b"").with("WWW-Authenticate", "Basic realm=\"x\"");
        }
        Reply::redirect(302, &to)
    });
    for kind in &KINDS {
        let before = server.requests().len();
        let ran = machine.run(&server, kind, &good.authority);
        let case = format!("{}: {ran:?}", kind.name);
        assert_eq!((ran.exit, &ran.json()["error"]["id"]), (Some(1), &kind.ids[1].into()), "{case}");
        assert!(server.requests().len() > before, "{case}");
        assert_eq!(plain.connections(), 0, "{case}");
    }
    let sent = |name: &str| {
        server.requests().iter().any(|one| one.path.contains(name) && one.header("authorization").is_some())
    };
    assert!(sent("manifest.json") && sent("x.tar.gz") && sent("x.git"), "{:?}", server.requests());
}

#[test]
fn certificates_that_the_user_names_replace_those_of_the_machine() {
    let machine = Machine::new();
    let sandbox = &machine.installed.sandbox;
    Release::plain("2.0.0", 9).write(sandbox, "served");
    sandbox.write(
        "served/manifest.json.minisig",
        signed(&machine.installed.pair, &sandbox.read("served/manifest.json")),
    );
    let good = Certificates::good();
    let server = Server::with_tls(&good, files(sandbox.tree("served")));
    let install = &KINDS[0];
    for wrong in ["", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n", "not a certificate"] {
        let ran = machine.run(&server, install, wrong);
        ran.refused(1, "net.tls").says(&["SSL_CERT_FILE names no certificate that can be read"]);
    }
    assert_eq!(server.connections(), 0);
    machine.run(&server, install, &good.authority).done();
}
