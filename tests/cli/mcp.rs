//! `gpubuild mcp`: a client of the Model Context Protocol starts it, lists its tools and calls them.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::resolve::{manifest_text, release, signed};
use crate::support::{RunResult, Sandbox, recorded};

const MEMORY: &str =
    "[1/2] Building CXX object a.o\nc++: fatal error: Killed signal terminated program cc1plus\n";

/// What a client sends first.
fn initialize() -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params })
}

fn request(id: usize, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn call(id: usize, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
}

fn server(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command();
    command.arg("mcp").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Sends lines, closes standard input, and returns the answers. The server has to end with 0 after the last answer.
fn exchange(sandbox: &Sandbox, arguments: &[&str], lines: &[String]) -> Vec<Value> {
    let mut child = server(sandbox, arguments).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = lines.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let ran = RunResult::from(child.wait_with_output().unwrap());
    writer.join().unwrap().unwrap();
    ran.succeeds();
    assert_eq!(ran.stderr, "");
    ran.json_lines()
}

/// The answers to requests after `initialize`, in the order of the requests.
fn answers(sandbox: &Sandbox, requests: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = std::iter::once(&initialize()).chain(requests).map(Value::to_string).collect();
    let all = exchange(sandbox, &[], &lines);
    assert_eq!(all.len(), lines.len(), "{all:#?}");
    let find = |request: &Value| all.iter().find(|answer| answer["id"] == request["id"]).cloned();
    requests.iter().map(|request| find(request).unwrap_or_else(|| panic!("no answer: {request}"))).collect()
}

/// Calls tools, and checks that text and structured content of each answer are the document of a command, also if it fails.
fn compare(sandbox: &Sandbox, calls: &[(&str, Value, &[&str])]) {
    let requests: Vec<Value> =
        calls.iter().enumerate().map(|(id, (tool, arguments, _))| call(id, tool, arguments)).collect();
    for (answer, (tool, arguments, command)) in answers(sandbox, &requests).iter().zip(calls) {
        let ran = sandbox.run(command);
        let (result, document) = (&answer["result"], ran.json());
        assert_eq!(result["structuredContent"], document, "{tool} {arguments}");
        assert_eq!(result["isError"], document["schema"]["name"] == "error", "{tool} {arguments}");
        let content = &result["content"][0];
        assert_eq!(content["type"], "text");
        let text = content["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), document);
        assert!(text.starts_with(r#"{"schema":{"name":"#), "{text}");
    }
}

#[test]
fn tools_are_described() {
    let sandbox = Sandbox::new();
    let lines = [initialize(), request(1, "tools/list", &json!({}))].map(|line| line.to_string());
    let all = exchange(&sandbox, &[], &lines);
    let server = &all[0]["result"];
    assert_eq!(
        (&server["protocolVersion"], &server["serverInfo"]["name"]),
        (&"2025-11-25".into(), &"gpubuild".into())
    );
    assert_eq!(server["capabilities"], json!({ "tools": {} }));
    let tools = all[1]["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["detect", "doctor", "diagnose_log", "plan", "explain", "resolve"]);
    for tool in tools {
        let hints = &tool["annotations"];
        assert_eq!(
            (&hints["readOnlyHint"], &hints["destructiveHint"]),
            (&true.into(), &false.into()),
            "{tool}"
        );
        let schema = &tool["inputSchema"];
        assert_eq!(
            (&schema["type"], &schema["additionalProperties"]),
            (&"object".into(), &false.into()),
            "{tool}"
        );
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(
                property["description"].as_str().is_some_and(|text| text.len() > 10),
                "{name}: {property}"
            );
        }
    }
    let plan = &tools[3]["inputSchema"]["properties"];
    assert_eq!(plan["allow_missing"]["type"], "boolean");
    assert_eq!(
        (&plan["toolkit"]["type"], &plan["toolkit"]["items"]["type"]),
        (&"array".into(), &"string".into())
    );
    assert_eq!(plan["linkage"]["enum"][0], "static");
    assert_eq!(tools[4]["inputSchema"]["required"], json!(["what"]));
}

#[test]
fn answers_are_the_documents_of_the_commands() {
    let sandbox = Sandbox::with_project("generic");
    let (h200, windows) = (recorded("ubuntu-22.04-h200"), recorded("windows-11-rtx4070"));
    let (h200, windows) = (h200.as_str(), windows.as_str());
    let manifest = release();
    let manifest = manifest.to_str().unwrap();
    sandbox.write("build.log", MEMORY);
    sandbox.write("Dockerfile", "FROM nvidia/cuda:13.0.0-devel-ubuntu24.04\nRUN nvidia-smi\n");
    compare(
        &sandbox,
        &[
            ("detect", json!({ "host": h200 }), &["detect", "--host", h200, "--json"]),
            (
                "detect",
                json!({ "host": windows, "backends": "cuda,vulkan" }),
                &["detect", "--host", windows, "--backends", "cuda,vulkan", "--json"],
            ),
            ("doctor", json!({ "host": windows }), &["doctor", "--host", windows, "--json"]),
            (
                "doctor",
                json!({ "host": h200, "backends": "rocm", "only": ["rocm.*", "amd.*"] }),
                &[
                    "doctor",
                    "--host",
                    h200,
                    "--backends",
                    "rocm",
                    "--only",
                    "rocm.*",
                    "--only",
                    "amd.*",
                    "--json",
                ],
            ),
            ("doctor", json!({ "file": ["Dockerfile"] }), &["doctor", "--file", "Dockerfile", "--json"]),
            ("doctor", json!({ "list_checks": true }), &["doctor", "--list-checks", "--json"]),
            ("diagnose_log", json!({ "path": "build.log" }), &["doctor", "--log", "build.log", "--json"]),
            (
                "plan",
                json!({ "host": h200, "backends": "cpu" }),
                &["plan", "--host", h200, "--backends", "cpu", "--json"],
            ),
            (
                "plan",
                json!({ "host": h200, "backends": "rocm" }),
                &["plan", "--host", h200, "--backends", "rocm", "--json"],
            ),
            (
                "explain",
                json!({ "what": "cuda", "host": h200 }),
                &["explain", "cuda", "--host", h200, "--json"],
            ),
            ("explain", json!({ "what": "nv.driver.nouveau" }), &["explain", "nv.driver.nouveau", "--json"]),
            ("explain", json!({ "what": "nv.driver.nouveu" }), &["explain", "nv.driver.nouveu", "--json"]),
            (
                "resolve",
                json!({ "manifest": manifest, "host": h200 }),
                &["resolve", "--manifest", manifest, "--host", h200, "--json"],
            ),
            (
                "resolve",
                json!({ "python": true, "host": h200 }),
                &["resolve", "--python", "--host", h200, "--json"],
            ),
            (
                "resolve",
                json!({ "manifest": "https://example.org/manifest.json" }),
                &["resolve", "--manifest", "https://example.org/manifest.json", "--offline", "--json"],
            ),
            ("detect", json!({ "host": "missing.toml" }), &["detect", "--host", "missing.toml", "--json"]),
        ],
    );
}

/// The text of a log is what the command reads from standard input.
#[test]
fn text_of_a_log_is_diagnosed() {
    let sandbox = Sandbox::new();
    let all = answers(&sandbox, &[call(1, "diagnose_log", &json!({ "text": MEMORY }))]);
    let mut child = sandbox.command();
    child.args(["doctor", "--log", "-", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(MEMORY.as_bytes()).unwrap();
    let ran = RunResult::from(child.wait_with_output().unwrap());
    assert_eq!(all[0]["result"]["structuredContent"], ran.json());
    assert_eq!(ran.json()["findings"][0]["id"], "build.out-of-memory");
}

/// Without `--drivers`, the doctor reads files only, and no argument changes that.
#[test]
fn this_machine_is_examined_without_starting_a_program() {
    let sandbox = Sandbox::new();
    let offline = sandbox.run(&["doctor", "--offline", "--json"]).json();
    for arguments in [json!({}), json!({ "offline": false })] {
        let all = answers(&sandbox, &[call(1, "doctor", &arguments)]);
        assert_eq!(all[0]["result"]["structuredContent"], offline);
    }
}

#[cfg(unix)]
#[test]
fn programs_are_started_only_with_drivers() {
    use std::os::unix::fs::PermissionsExt;

    let sandbox = Sandbox::new();
    sandbox.write("bin/cmake", "#!/bin/sh\n: > \"$HOME/started\"\necho cmake version 3.30.1\n");
    std::fs::set_permissions(sandbox.path("bin/cmake"), PermissionsExt::from_mode(0o755)).unwrap();
    for (arguments, is_started) in [(&[][..], false), (&["--drivers"], true)] {
        let mut command = server(&sandbox, arguments);
        command.env("PATH", format!("{}:/usr/bin:/bin", sandbox.path("bin").display()));
        let mut child = command.env("HOME", sandbox.path(".")).spawn().unwrap();
        let text = format!("{}\n{}\n", initialize(), call(1, "doctor", &json!({})));
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let ran = RunResult::from(child.wait_with_output().unwrap());
        assert_eq!(ran.succeeds().json_lines()[1]["result"]["isError"], false);
        assert_eq!(sandbox.exists("started"), is_started);
    }
}

/// With a key, the command remembers the serial of a release. A tool does not.
#[test]
fn verified_releases_are_not_remembered() {
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let (key, host, text) = (pair.pk.to_base64(), recorded("ubuntu-22.04-h200"), manifest_text());
    let sandbox = Sandbox::new();
    sandbox.write("release/manifest.json", &text);
    sandbox.write("release/manifest.json.minisig", &signed(&pair, &text));
    let arguments = json!({ "manifest": "release", "key": [key], "host": host, "allow_older": true });
    let all = answers(&sandbox, &[call(1, "resolve", &arguments)]);
    assert!(!sandbox.exists("cache"));
    let ran = sandbox.run(&[
        "resolve",
        "--manifest",
        "release",
        "--key",
        &key,
        "--host",
        &host,
        "--allow-older",
        "--json",
    ]);
    assert!(sandbox.exists("cache"));
    assert_eq!(all[0]["result"]["structuredContent"], ran.json());
}

#[test]
fn errors_are_results_with_ids() {
    let sandbox = Sandbox::new();
    let calls = [
        call(1, "explain", &json!({})),
        call(2, "detect", &json!({ "probe": true })),
        call(3, "doctor", &json!({ "host": ["a"] })),
        call(4, "plan", &json!({ "project": "/dev/null/missing" })),
        call(5, "resolve", &json!({ "manifest": "a", "devices": "some" })),
        call(6, "diagnose_log", &json!({})),
        // Standard input carries the protocol.
        call(7, "diagnose_log", &json!({ "path": "/dev/stdin" })),
        call(8, "detect", &json!({ "host": "/dev/stdin" })),
    ];
    let ids: Vec<String> = answers(&sandbox, &calls)
        .iter()
        .map(|answer| {
            assert_eq!(answer["result"]["isError"], true, "{answer}");
            answer["result"]["structuredContent"]["error"]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let invalid = "mcp.arguments-invalid";
    let unreadable = ["doctor.log-unreadable", "host.recording-invalid"];
    assert_eq!(ids[..3], [invalid; 3]);
    assert_eq!(ids[3], "project.not-found");
    assert_eq!(ids[4..6], [invalid; 2]);
    if cfg!(unix) {
        assert_eq!(ids[6..], unreadable);
    }
}

#[test]
fn invalid_messages_and_unknown_names_do_not_end_the_server() {
    let sandbox = Sandbox::new();
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(16 << 20));
    let lines = [
        "{".to_owned(),
        initialize().to_string(),
        "[1, 2]".to_owned(),
        long,
        r#"{"jsonrpc":"2.0","id":5,"method":7}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#.to_owned(),
        call(6, "install", &json!({})).to_string(),
        request(7, "resources/list", &json!({})).to_string(),
        request(8, "ping", &json!({})).to_string(),
    ];
    let all = exchange(&sandbox, &[], &lines);
    let codes: Vec<i64> = all.iter().filter_map(|answer| answer["error"]["code"].as_i64()).collect();
    assert_eq!(codes.iter().filter(|code| **code == -32700).count(), 1, "{all:#?}");
    assert_eq!(codes.iter().filter(|code| **code == -32600).count(), 3, "{all:#?}");
    let find = |id: usize| all.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(find(5)["error"]["code"], -32600);
    assert_eq!(find(6)["error"], json!({ "code": -32602, "message": "unknown tool: install" }));
    assert_eq!(find(7)["error"]["code"], -32601);
    assert_eq!(find(8)["result"], json!({}));
    assert!(
        all.iter()
            .any(|answer| answer["error"]["message"].as_str().is_some_and(|text| text.contains("16 MiB")))
    );
}

/// The revision of the protocol without `initialize`.
#[test]
fn requests_can_describe_themselves() {
    let sandbox = Sandbox::new();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let what = json!({ "what": "nv.driver.nouveau" });
    let lines = [
        request(1, "server/discover", &json!({ "_meta": meta })).to_string(),
        request(2, "tools/call", &json!({ "_meta": meta, "name": "explain", "arguments": what })).to_string(),
    ];
    let all = exchange(&sandbox, &[], &lines);
    assert!(all[0]["result"]["capabilities"]["tools"].is_object(), "{all:#?}");
    assert_eq!(all[1]["result"]["structuredContent"]["schema"]["name"], "explain", "{all:#?}");
}

#[test]
fn the_server_ends_with_its_input() {
    let sandbox = Sandbox::new();
    assert!(exchange(&sandbox, &[], &[]).is_empty());
    let mut child = server(&sandbox, &[]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // The last line has no line break.
    input.write_all(initialize().to_string().as_bytes()).unwrap();
    drop(input);
    let ran = RunResult::from(child.wait_with_output().unwrap());
    assert_eq!(ran.succeeds().json_lines().len(), 1);
}

#[cfg(unix)]
#[test]
fn signals_end_the_server() {
    use std::io::{BufRead as _, BufReader};

    let sandbox = Sandbox::new();
    for signal in ["INT", "TERM"] {
        let mut child = server(&sandbox, &[]).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{}", initialize()).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        sandbox.send(signal, child.id());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
        drop(input);
    }
}

#[test]
fn other_input_is_an_error() {
    let sandbox = Sandbox::new();
    let mut child = server(&sandbox, &[]).spawn().unwrap();
    let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
    child.stdin.take().unwrap().write_all(line).unwrap();
    RunResult::from(child.wait_with_output().unwrap()).fails(1, "mcp.protocol");
}
