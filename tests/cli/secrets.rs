//! Nothing that gpubuild writes contains secrets: reports, recordings, logs, the store.
#![expect(clippy::disallowed_methods, reason = "tests start the program and write their own files")]

use std::process::Command;

use crate::support::{RunResult, Sandbox};

/// Names and values of variables, with the secret in braces. `|` is removed from values: it hides the seeds from
/// secret scanners. A variable without a name becomes `CMAKE_SEED_…`.
const SEEDS: [(&str, &str); 64] = [
    ("CFLAGS", "-O2 -DAPI_KEY={cflags-5eed-01}"),
    ("CMAKE_ARGS", "-DGGML_CUDA=ON -DGITHUB_PAT={pat5eed02value}"),
    ("CXXFLAGS", "-DDB_PASSWORD={hunter2hunter2} -O1"),
    ("LDFLAGS", "-Wl,--defsym=x=1 -DCLIENT_SECRET={5eed04secret}"),
    ("GITHUB_TOKEN", "{plain5eed05value}"),
    ("HF_TOKEN", "{plain5eed06value}"),
    ("AWS_SECRET_ACCESS_KEY", "{wJalrXUtn5eed07MI/K7MDENG/bPxRfiCY}"),
    ("CMAKE_REGISTRY_PASSWORD", "{correct-horse-5eed08}"),
    ("GPUBUILD_API_TOKEN", "{5eed09-api-token}"),
    ("CUDA_SECRET", "{5eed10-in-a-name}"),
    ("", "Bearer {5eed11abcdef}"),
    ("", "Authorization: Bearer {5eed12abcdef.xyz}"),
    ("", "Authorization: Basic {NWVlZDEzOnBhc3N3b3Jk}"),
    ("", "Authorization: Token {5eed14abcdefabcdef}"),
    ("", "X-Api-Key: {5eed15abcdef}"),
    ("", "https://example.com/x?token={5eed16abcdef}&a=b"),
    ("", "https://example.com/x?a=b&sig={5eed17%2Fabc%3D}"),
    ("", "https://b.s3.amazonaws.com/k?X-Amz-Credential={AKIA5EED18/2026/us/s3}&a=b"),
    ("", "https://b.s3.amazonaws.com/k?X-Amz-Signature={5eed19abcdef0123}"),
    ("", "https://b.s3.amazonaws.com/k?X-Amz-Security-Token={5eed20abcdef0123}"),
    ("", "https://x.blob.core.windows.net/c?sv=2020&sig={5eed21abcdef%3D}"),
    ("", "https://example.com/x?access_token={5eed22abcdef}"),
    ("", "https://example.com/x?api_key={5eed23abcdef}"),
    ("", "https://{me:5eed24pass}@example.com/simple"),
    ("", "http://{5eed25token}@proxy:3128"),
    ("", "postgres://{me:5eed26/pass}@db.example.com:5432/x"),
    ("", "redis://{:5eed27pass}@cache:6379"),
    ("", "proxy {me:5eed28pass}@proxy.example.com:3128"),
    ("", "x {gh|p_5eed29ABCDEFGHIJKLMNOPQRSTUVWXYZ01}"),
    ("", "x {gh|o_5eed30ABCDEFGHIJKLMNOPQRSTUVWXYZ01}"),
    ("", "x {github_|pat_5eed31ABCDEFGHIJKLMN_OPQRSTUVWXYZ01}"),
    ("", "x {gl|pat-5eed32ABCDEFGHIJKLMN}"),
    ("", "x {xox|b-5eed33123456-ABCDEFGHIJ}"),
    ("", "x {s|k-proj-5eed34ABCDEFGHIJKLMNOPQR}"),
    ("", "x {s|k-ant-api03-5eed35ABCDEFGHIJKLMN}"),
    ("", "x {h|f_5eed36ABCDEFGHIJKLMNOPQRSTUVWX}"),
    ("", "x {AK|IA5EED37ABCDEFGHIJ}"),
    ("", "x {AS|IA5EED38ABCDEFGHIJ}"),
    ("", "x {AI|zaSy5eed39ABCDEFGHIJKLMNOPQRSTUVWXYZ0}"),
    ("", "x {np|m_5eed40ABCDEFGHIJKLMNOPQRSTUVWXYZ01}"),
    ("", "x {py|pi-AgEIcHlwaS5eed41ABCDEFGHIJKL}"),
    ("", "x {dckr_|pat_5eed42ABCDEFGHIJKLMNOP}"),
    ("", "x {S|G.5eed43ABCDEFGHIJKL.MNOPQRSTUVWXYZ0123456789}"),
    ("", "x {ey|JhbGciOi5eed44.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4}"),
    ("", "-----BEGIN RSA PRIVATE| KEY----- {MIIEow5eed45IBAAKCAQEA} -----END RSA PRIVATE KEY-----"),
    ("", "https://hooks.slack.com/services/{T5EED46/B00000000/XXXXXXXX}"),
    ("", "https://discord.com/api/webhooks/{5347/5eed47abc}"),
    ("", "AccountName=a;AccountKey={5eed48+/abcdef==};EndpointSuffix=x"),
    ("", "SharedAccessSignature={5eed49abcdef}"),
    ("", "Endpoint=x;SharedAccessKey={5eed50abcdef=}"),
    ("", "machine example.com login me5eed password {5eed51pass}"),
    ("", "curl --password {5eed52pass} x"),
    ("", "curl -u {me:5eed53pass} x"),
    ("", "Cookie: a=1; sid={5eed54abcdef}; b=2"),
    ("", "session={5eed55abcdef}"),
    ("", "\"token\": \"{5eed56 with spaces}\""),
    ("", "-DMY_SECRET=\\\"{5eed57 quoted}\\\" -g"),
    ("", "-DMY_PASSWORD:STRING={5eed58pass}"),
    ("", "x {a9F3kQ7zL2mX8vB4nT6w5eedR1} y"),
    ("", "x {q7Zt5eedK2pLm9Xv/B4nT6wR1cY+8dF3gH0jS5aU} y"),
    ("", "x {k3j5h2l8q9w4z7x1c6v0b5n2m8k4j9h3g7} y"),
    ("", "{NV|API5eed}: nv|api-{5eed62ABCDEFGHIJKLMNOPQ}"),
    ("CCACHE_REMOTE_STORAGE", "redis://{user:5eed63pass}@cache.example.com"),
    ("SCCACHE_BUCKET_KEY", "{5eed64bucketkey}"),
];

/// Seeds in a file that gpubuild reads and in the output of a program.
const ELSEWHERE: [&str; 2] = ["5eed65infile", "5eed66inoutput"];

struct Seeded {
    sandbox: Sandbox,
    variables: Vec<(String, String)>,
    secrets: Vec<String>,
}

fn seeded(sandbox: Sandbox) -> Seeded {
    let (mut variables, mut secrets) = (Vec::new(), ELSEWHERE.map(str::to_owned).to_vec());
    for (index, (name, text)) in SEEDS.iter().enumerate() {
        let text = text.replace('|', "");
        let name = if name.is_empty() { format!("CMAKE_SEED_{index}") } else { (*name).to_owned() };
        // Uses the last braces: earlier text may itself contain braces.
        let start = text.rfind('{').unwrap();
        let end = start + text[start..].find('}').unwrap();
        secrets.push(text[start + 1..end].to_owned());
        variables.push((name, text.replace(['{', '}'], "")));
    }
    sandbox.write(
        "cuda/version.json",
        &format!("{{\"cuda\": {{\"version\": \"12.4.1\"}}, \"api_key\": \"{}\"}}", ELSEWHERE[0]),
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let script = format!("#!/bin/sh\necho 'release 12.4, V12.4.131'\necho 'token={}'\n", ELSEWHERE[1]);
        sandbox.write("cuda/bin/nvcc", &script);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(sandbox.path("cuda/bin/nvcc"), mode).unwrap();
    }
    variables.push(("CUDA_PATH".to_owned(), sandbox.path("cuda").to_str().unwrap().to_owned()));
    Seeded { sandbox, variables, secrets }
}

impl Seeded {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command();
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        command.envs(variables).env("GPUBUILD_LOG", "trace").args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> RunResult {
        RunResult::from(self.command(arguments).output().unwrap())
    }

    #[track_caller]
    fn check(&self, what: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let found: Vec<&String> = self.secrets.iter().filter(|secret| text.contains(*secret)).collect();
        assert!(found.is_empty(), "{what} contains {found:?}");
    }

    #[track_caller]
    fn check_ran(&self, arguments: &[&str]) -> RunResult {
        let ran = self.run(arguments);
        self.check(&format!("{arguments:?}"), format!("{}{}", ran.stdout, ran.stderr).as_bytes());
        ran
    }
}

#[test]
fn report_contains_no_secrets_and_lists_redactions() {
    let seeded = seeded(Sandbox::new());
    assert!(seeded.secrets.len() >= 60);
    let ran = seeded.check_ran(&["report"]);
    ran.succeeds().says(&["redacted ", "CMAKE_ARGS", "GITHUB_TOKEN"]);
    for text in
        ["-DAPI_KEY=[redacted]", "-DGITHUB_PAT=[redacted]", "redacted:\n", "\nGITHUB_TOKEN (by name)\n"]
    {
        assert!(ran.stdout.contains(text), "`{text}` is missing in {}", ran.stdout);
    }
    seeded.check_ran(&["report", "page.html", "--html"]).succeeds();
    let page = seeded.sandbox.read("page.html");
    seeded.check("the page", page.as_bytes());
    assert!(page.contains("<li>GITHUB_TOKEN (by name)</li>"), "{page}");
}

#[test]
fn recording_contains_no_secrets_and_is_readable() {
    let seeded = seeded(Sandbox::new());
    for probe in [&[][..], &["--probe"][..]] {
        let arguments =
            [&["-v", "host", "record", "m.toml", "--force", "--keep-env", "HF_TOKEN"], probe].concat();
        seeded.check_ran(&arguments).succeeds().says(&["redacted ", "CFLAGS"]);
        let text = seeded.sandbox.read("m.toml");
        seeded.check("the recording", text.as_bytes());
        assert!(
            text.contains("# redacted: GITHUB_TOKEN (by name)\n") && text.contains("-DAPI_KEY=[redacted]")
        );
        assert!(text.contains("12.4.1"), "{text}");
        seeded.check_ran(&["detect", "--host", "m.toml"]).succeeds();
    }
}

#[test]
fn logs_contain_no_secrets() {
    let seeded = seeded(Sandbox::new());
    for arguments in
        [&["-v", "detect"][..], &["-v", "detect", "--probe"], &["-v", "doctor"], &["doctor", "--json"]]
    {
        seeded.check_ran(arguments);
    }
}

#[test]
fn store_contains_no_secrets_but_names_changed_variables() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    let seeded = seeded(sandbox);
    let run = |flags: Option<&str>, arguments: &[&str]| {
        let mut command = seeded.command(arguments);
        command.env("GPUBUILD_STORE", seeded.sandbox.path("store"));
        // The linker would reject the seeded flags.
        command.env_remove("LDFLAGS");
        if let Some(flags) = flags {
            command.env("CFLAGS", flags);
        }
        let ran = RunResult::from(command.output().unwrap());
        seeded.check(&format!("{arguments:?}"), format!("{}{}", ran.stdout, ran.stderr).as_bytes());
        ran
    };
    run(None, &["-v", "build", "--explain"]).succeeds().says(&["[cpu] stored "]);
    let mut inputs = 0;
    for entry in walkdir::WalkDir::new(seeded.sandbox.path("store")) {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            seeded.check(&entry.path().display().to_string(), &std::fs::read(entry.path()).unwrap());
            inputs += u32::from(entry.file_name() == "inputs.json");
        }
    }
    assert_eq!(inputs, 2, "one entry for a tree and one for a target");
    let notes = walkdir::WalkDir::new(seeded.sandbox.path(".gpubuild"));
    let keys = notes.into_iter().filter_map(Result::ok).filter(|entry| entry.file_name() == "key.json");
    let keys: Vec<_> = keys.collect();
    assert!(!keys.is_empty());
    for key in keys {
        seeded.check("key.json", &std::fs::read(key.path()).unwrap());
    }
    run(Some("-DAPI_KEY=other5eed"), &["cache", "explain"]).succeeds();
    let explained = run(Some("-DAPI_KEY=other5eed"), &["build", "--explain"]);
    explained.succeeds().says(&["environment: `$CFLAGS` changed"]);
    assert!(!explained.stderr.contains("other5eed"), "{}", explained.stderr);
    // An entry of the first schema version is a miss, and its replacement has no values.
    let old = |entry: &walkdir::DirEntry| entry.file_name() == "entry.json";
    let entries = walkdir::WalkDir::new(seeded.sandbox.path("store")).into_iter().filter_map(Result::ok);
    for entry in entries.filter(old) {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        assert!(text.contains("\"schema\":2"), "{text}");
        std::fs::write(entry.path(), text.replace("\"schema\":2", "\"schema\":1")).unwrap();
    }
    run(None, &["clean"]).succeeds();
    let again = run(None, &["build", "--explain"]);
    again.succeeds().says(&["it was written by an older gpubuild", "[cpu] stored "]);
}
