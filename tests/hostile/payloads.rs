//! Texts that a CI service, a terminal, a shell or a parser could misinterpret.

use crate::samples::samples;

/// Commands of CI services.
const COMMANDS: [&str; 18] = [
    "::error::pwned",
    "::error file=a,line=1::pwned",
    "::warning::pwned",
    "::notice title=x::pwned",
    "::add-mask::pwned",
    "::stop-commands::pwned",
    "::set-output name=x::pwned",
    "::group::pwned",
    "::endgroup::",
    "##[error]pwned",
    "##[add-mask]pwned",
    "##[group]pwned",
    "##vso[task.setvariable variable=x]pwned",
    "##vso[task.complete result=Failed]pwned",
    "##teamcity[buildStatus status='FAILURE']",
    "section_start:1:pwned",
    "section_end:1:pwned",
    "travis_fold:start:pwned",
];

/// What ends a line for some reader, and white space or invisible text at the beginning of a line.
const BREAKS: [&str; 14] = [
    "\n",
    "\r",
    "\r\n",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{b}",
    "\u{c}",
    "\n \t",
    "\n\u{3000}",
    "\n\u{200b}",
    "\n\u{1b}[0m",
    "\r\u{1b}[0K",
    "%0A",
];

/// The beginnings of messages of gpubuild. [`check`](crate::check) looks for lines with these.
pub(crate) const FORGED: [&str; 3] = ["error: forged", "warning: forged", "hint: forged"];

/// Text with a special meaning in another place.
const OTHERS: [&str; 24] = [
    "\u{1b}[31mred\u{1b}[0m",
    "\u{1b}[8mhidden\u{1b}[0m",
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;https://evil.example\u{1b}\\click\u{1b}]8;;\u{1b}\\",
    "\u{1b}]52;c;cm0=\u{7}",
    "\u{1b}P+q\u{1b}\\",
    "\u{9b}31mred\u{9d}0;title\u{9c}",
    "a\0b",
    "\u{8}\u{8}\u{7f}",
    "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{200e}\u{200f}\u{61c}",
    "\u{200b}\u{200c}\u{200d}\u{feff}\u{2060}\u{ad}\u{e0041}",
    "</failure></testcase></testsuite>",
    "]]><script>alert(1)</script><![CDATA[",
    "<!DOCTYPE x [<!ENTITY y \"z\">]>&y;&#0;",
    "<img src=x onerror=alert(1)>",
    "</details>\n\n# heading\n\n[click](javascript:alert(1))",
    "```\n</details>\n~~~\n| a | b |\n|---|---|",
    "'; rm -rf ~; '$(rm -rf ~)`rm -rf ~`",
    "$(error x)\n\t@rm -rf ~",
    "]==] ${ENV{HOME}} @VAR@",
    "EOF\nPATH=/tmp/evil\nEOF",
    "\"},{\"id\":\"x\"\\u0000",
    "{0} {{1}} %s %n",
];

/// Every payload. The order is the same in every run.
pub(crate) fn payloads() -> Vec<String> {
    let mut list = Vec::new();
    for command in COMMANDS {
        list.push(command.to_owned());
        list.extend(BREAKS.iter().map(|end| format!("x{end}{command}")));
    }
    for forged in FORGED {
        list.extend(BREAKS.iter().map(|end| format!("x{end}{forged}")));
    }
    list.extend(OTHERS.map(str::to_owned));
    // Samples of 1 MiB are in the tests of the renderings; a file name or an argument of that length is not accepted anywhere.
    list.extend(samples().into_iter().filter(|sample| !sample.is_empty() && sample.len() < 20_000));
    list.push("overlong ".repeat(1000));
    list
}

/// All payloads in one text, each at the beginning of a line.
pub(crate) fn bundle() -> String {
    payloads().iter().filter(|payload| payload.len() < 200).flat_map(|payload| [payload, "\n"]).collect()
}
