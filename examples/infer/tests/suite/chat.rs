//! `infer chat`, `infer score` and `--json`, through the command line.

use crate::common::{devices, read, session, tiny};
use crate::requirements::skip;
use infer::gguf::TensorType;
use infer::gk;
use infer::model::Model;
use infer::score::{score, surprise};
use infer::session::Output;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const TEMPLATE: &str = "{% if messages[0].role == 'system' %}c{% endif %}{% for m in messages %}{{ m.content }} {% endfor %}{{ raise_exception('say something else') if messages[-1].content == 'cab' }}";

/// A random model with a chat template, in a file.
fn model(folder: &Path) -> PathBuf {
    let path = folder.join("chat.gguf");
    let writer = tiny(TensorType::F32)
        .string("tokenizer.chat_template", TEMPLATE)
        .string("tokenizer.chat_template.loud", "{{ messages[-1].content }}{{ messages[-1].content }}")
        .strings("tokenizer.chat_templates", &["loud"]);
    std::fs::write(&path, writer.finish()).unwrap();
    path
}

fn infer(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_infer"));
    command.args(args).env_remove("INFER_BACKEND").env_remove("INFER_THREADS");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Exit code, stdout and stderr of the program with this input.
fn run(args: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = infer(args).spawn().unwrap();
    // A program that fails early does not read its input.
    let _: std::io::Result<()> = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn ready() -> bool {
    if gk::linked().next().is_none() {
        skip("cpu", "no kernels are linked");
        return false;
    }
    true
}

#[test]
fn model_without_template_is_rejected_with_a_hint() {
    let (code, out, said) = run(&["chat", "--user", "Hi"], "");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(said.contains("has no chat template\nhint: ") && said.contains("`chatml`, `llama2`"), "{said}");
    let (code, _, said) = run(&["chat", "--user", "Hi", "--template", "klingon"], "");
    assert_eq!(code, Some(1));
    assert!(said.contains("has no chat template, and `klingon` is not a file"), "{said}");
}

#[test]
fn templates_are_found_by_name_and_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path());
    let path = path.to_str().unwrap();
    let broken = folder.path().join("broken.jinja");
    std::fs::write(&broken, "{% for %}").unwrap();
    let (code, _, said) =
        run(&["chat", "--model", path, "--user", "a", "--template", broken.to_str().unwrap()], "");
    assert_eq!(code, Some(1));
    assert!(said.contains("cannot parse the chat template: line 1: "), "{said}");
    let (_, _, said) = run(&["chat", "--model", path, "--user", "a", "--template", "klingon"], "");
    assert!(said.contains("no chat template named `klingon`; it has `default` and loud"), "{said}");
    if !ready() {
        return;
    }
    let quiet = ["--model", path, "--backend", "ref", "--temperature", "0", "--quiet", "-n", "6"];
    let by_name = [&["chat", "--user", "ab", "--template", "loud"], &quiet[..]].concat();
    let same = [&["run", "--prompt", "abab"], &quiet[..]].concat();
    assert_eq!(run(&by_name, ""), run(&same, ""));
    // `</s>` is not in the vocabulary of ChatML, but the template is a built-in one.
    let (code, out, said) =
        run(&[&["chat", "--user", "ab", "--template", "chatml"], &quiet[..]].concat(), "");
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(out.ends_with('\n'));
}

#[test]
fn conversation_is_rendered_with_its_template() {
    if !ready() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path());
    let path = path.to_str().unwrap();
    let quiet = ["--model", path, "--backend", "ref", "--temperature", "0", "--quiet", "-n", "6"];
    let chat = |more: &[&str], input: &str| run(&[&["chat"], &quiet[..], more].concat(), input);
    let continued = |prompt: &str| run(&[&["run", "--prompt", prompt], &quiet[..]].concat(), "");

    let (code, first, said) = chat(&["--user", "ab"], "");
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert_eq!(first, continued("ab ").1);
    assert_eq!(chat(&[], "ab\r\n\n").1, first, "a piped line is a turn, an empty one is not");
    assert_ne!(chat(&["--system", "b"], "ab\n").1, first);
    assert_eq!(chat(&["--system", "b"], "ab\n").1, continued("cb ab ").1);

    // The second answer depends on the complete conversation, whose beginning is in the cache.
    let (code, both, _) = chat(&[], "ab\nabc b\n");
    assert_eq!(code, Some(0));
    let history = format!("ab {} abc b ", first.trim_end_matches('\n'));
    assert_eq!(both, format!("{first}{}", continued(&history).1));

    let (code, out, said) = chat(&[], "cab\n");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(said.contains("the chat template rejects this conversation: say something else"), "{said}");
    let (code, _, said) = chat(&["--ctx", "4", "--user", "a b c a b c"], "");
    assert_eq!(code, Some(1));
    assert!(said.contains("increase `--ctx`"), "{said}");
}

#[test]
fn seeds_and_penalties_determine_answers() {
    if !ready() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path());
    let path = path.to_str().unwrap();
    let ask = |more: &[&str]| {
        let args = ["chat", "--model", path, "--backend", "ref", "--quiet", "-n", "24", "--user", "ab"];
        let (code, out, said) = run(&[&args, more].concat(), "");
        assert_eq!((code, said.as_str()), (Some(0), ""));
        out
    };
    let warm = ["--temperature", "3", "--top-k", "0", "--top-p", "1"];
    let with = |more: &[&str]| ask(&[&warm, more].concat());
    assert_eq!(with(&["--seed", "5"]), with(&["--seed", "5"]));
    assert_ne!(with(&["--seed", "5"]), with(&["--seed", "6"]));
    // Only the best token itself is at least as probable as the best token.
    assert_eq!(with(&["--min-p", "1"]), ask(&["--temperature", "0"]));
    assert_ne!(ask(&["--temperature", "0", "--repeat-penalty", "3"]), ask(&["--temperature", "0"]));
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    let done = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(done.success());
}

/// Reads until a piece of an answer arrives.
#[cfg(unix)]
fn wait_for_text(child: &mut Child) {
    use std::io::Read;
    let mut byte = [0];
    assert_eq!(child.stdout.as_mut().unwrap().read(&mut byte).unwrap(), 1);
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_the_answer_and_twice_exits() {
    if !ready() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path());
    // Long enough to be interrupted: the reference is slow.
    let path = path.to_str().unwrap();
    let args =
        ["chat", "--model", path, "--backend", "ref", "--ctx", "60000", "-n", "50000", "--temperature", "0"];
    let start = || {
        let mut child = infer(&args).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"ab\n").unwrap();
        wait_for_text(&mut child);
        child
    };
    let mut child = start();
    interrupt(&child);
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("; interrupted"), "{said}");

    let mut child = start();
    interrupt(&child);
    // While it waits for the next line, the answer has ended: two more count as two in a row.
    std::thread::sleep(std::time::Duration::from_millis(500));
    interrupt(&child);
    std::thread::sleep(std::time::Duration::from_millis(100));
    interrupt(&child);
    // `wait` would close stdin, and the end of the input ends the program too.
    let stdin = child.stdin.take();
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(130));
    drop(stdin);
}

#[test]
fn json_contains_the_printed_text() {
    if !ready() {
        return;
    }
    let common = ["run", "--backend", "ref", "-n", "12", "--prompt", "Once upon", "--quiet"];
    let (_, text, _) = run(&common, "");
    let (code, json, said) = run(&[&common[..], &["--json"]].concat(), "");
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["text"].as_str().unwrap().to_owned() + "\n", text);
    assert_eq!(report["tokens"].as_array().unwrap().len(), 12);
    assert_eq!((report["ending"].as_str(), report["backend"].as_str()), (Some("limit"), Some("ref")));
    assert!(
        report["seconds"].as_f64().unwrap() > 0.0 && !report["prompt_tokens"].as_array().unwrap().is_empty()
    );
}

#[test]
fn score_is_the_mean_nll_of_all_tokens() {
    let model = Model::from_gguf(read(tiny(TensorType::F32).finish()).unwrap()).unwrap();
    let tokens: Vec<u32> = (0..150).map(|place| 3 + place * 37 % 260).collect();
    for device in devices() {
        let mut one_by_one = 0.0;
        let mut session = session(&model, &device);
        // The context is 128: with a start token, 127 tokens of the text and then 23.
        for part in tokens.chunks(127) {
            session.reset();
            let mut last = 1;
            for token in part {
                session.feed(&[last], Output::Logits).unwrap();
                one_by_one += surprise(&session.logits(1).unwrap(), *token);
                last = *token;
            }
        }
        let mut told = Vec::new();
        let found = score(&mut session, Some(1), &tokens, &mut |done| told.push(done)).unwrap();
        assert_eq!((found.tokens, found.scored, found.chunks), (150, 150, 2));
        let expected = one_by_one / 150.0;
        assert!(
            (found.mean_nll / expected - 1.0).abs() < 1e-4,
            "{}: {found:?} {expected}",
            device.backend_id()
        );
        assert!((found.perplexity - found.mean_nll.exp()).abs() < 1e-9);
        assert!(told.is_sorted() && told.last() == Some(&150), "{told:?}");

        let found = score(&mut session, None, &tokens, &mut |_| ()).unwrap();
        assert_eq!((found.scored, found.chunks), (148, 2), "the first token of a part has no predecessor");
        assert!(score(&mut session, None, &[5], &mut |_| ()).is_err());
    }
}

#[test]
fn score_reads_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    std::fs::write(&path, b"Once\xff").unwrap();
    let (code, _, said) = run(&["score", path.to_str().unwrap()], "");
    assert_eq!(code, Some(1));
    assert!(said.contains("is not UTF-8 text: byte 4"), "{said}");
    let (code, _, said) = run(&["score", "/nowhere/at/all"], "");
    assert_eq!(code, Some(1));
    assert!(said.contains("cannot read `/nowhere/at/all`"), "{said}");
    if !ready() {
        return;
    }
    std::fs::write(&path, "Once upon a time there was a little girl. She was happy.").unwrap();
    let (code, out, _) = run(&["score", path.to_str().unwrap(), "--backend", "ref", "--json"], "");
    assert_eq!(code, Some(0));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let (mean, perplexity) = (report["mean_nll"].as_f64().unwrap(), report["perplexity"].as_f64().unwrap());
    assert!((perplexity.ln() - mean).abs() < 1e-9 && mean > 0.0);
    std::fs::write(&path, "girl little a was there time a upon Once zxq").unwrap();
    let (_, out, _) = run(&["score", path.to_str().unwrap(), "--backend", "ref", "--json"], "");
    let shuffled: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(shuffled["mean_nll"].as_f64().unwrap() > mean, "{shuffled}");
}

/// A template of a file runs in a process of its own, whatever it does. Only Linux limits its memory.
#[cfg(target_os = "linux")]
#[test]
fn hostile_templates_end_in_an_error() {
    if !ready() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (model, template) = (model(folder.path()), folder.path().join("hostile.jinja"));
    let namespace = "{% set ns = namespace(a=[1]) %}";
    for source in [
        format!("{namespace}{{% set ns.a = ns %}}{{{{ ns }}}}"),
        format!("{namespace}{{% for i in range(99999) %}}{{% set ns.a = [ns.a] %}}{{% endfor %}}"),
        format!("{{% set s = 'xxxxxxxx' %}}{}", "{% set s = s ~ s %}".repeat(40)),
        "{% for i in range(99999) %}{% for j in range(30) %}".to_owned()
            + &"x".repeat(4000)
            + "{% endfor %}{% endfor %}",
        format!("{{{{ {}1 }}}}", "not ".repeat(100_000)),
    ] {
        std::fs::write(&template, &source).unwrap();
        let arguments = ["chat", "--backend", "cpu", "--user", "ab", "--model", model.to_str().unwrap()];
        let (code, out, said) =
            run(&[&arguments[..], &["--template", template.to_str().unwrap()]].concat(), "");
        let start = source.chars().take(60).collect::<String>();
        assert_eq!((code, out.as_str()), (Some(1), ""), "{start}: {said}");
        assert!(said.contains("error: the chat template "), "{start}: {said}");
    }
}
