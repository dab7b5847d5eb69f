//! Test data: hostile names of devices, paths, variables and files. The tests of the command use them too.

/// Values that a user or a parser could misinterpret.
const SAMPLES: &[&str] = &[
    // Commands of CI services.
    "::error::pwned",
    "::error file=a,line=1::pwned",
    "a\n::set-output name=x::y",
    "a\r\n::add-mask::x",
    "a\r::stop-commands::x",
    "a\n::endgroup::\n::error::b",
    "a %0A::error::b",
    "%0D%0A%25,:=",
    "title=x,file=y::z",
    "##[error]pwned",
    "x ##[set-output name=x]y",
    "##[add-mask]a",
    "##vso[task.setvariable variable=x]y",
    "##teamcity[buildStatus status='FAILURE']",
    "\u{1b}[0Ksection_start:1:x\r\u{1b}[0K",
    "EOF\nPATH=/tmp/evil\nEOF",
    "${{ secrets.GITHUB_TOKEN }}",
    "$GITHUB_ENV",
    // Terminals.
    "\u{1b}[31mred\u{1b}[0m",
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}]8;;https://evil.example\u{1b}\\click\u{1b}]8;;\u{1b}\\",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]52;c;cm0gLXJmIC8=\u{7}",
    "\u{1b}]0;never ends",
    "\u{9b}31mred",
    "\u{9d}0;title\u{9c}",
    "bell\u{7}\u{8}\u{8}\u{8}\u{8}",
    "a\0b",
    "over\rwritten",
    "\u{7f}\u{80}\u{85}",
    // Invisible and reordered characters.
    "a\u{2028}b\u{2029}c",
    "gpu\u{202e}txt.exe",
    "\u{2066}\u{2067}\u{2069}",
    "zero\u{200b}width\u{200d}\u{feff}\u{2060}",
    "\u{e0041}\u{e0042}tags",
    "\u{fffe}\u{ffff}\u{1}\u{b}\u{c}\u{1f}",
    "invalid \u{fffd} bytes",
    "e\u{301}\u{301}\u{301}\u{301}",
    "显卡 グラフィック 그래픽",
    // XML and HTML.
    "]]>",
    "<![CDATA[x]]>",
    "<script>alert(1)</script>",
    "</failure></testcase></testsuite>",
    "<!DOCTYPE x [<!ENTITY y \"z\">]>&y;",
    "&lt;b&gt; &#0; &amp;amp; &bogus;",
    "\"' onload='x",
    "<!-- comment -- >",
    "--",
    "<?php x ?>",
    "</details>",
    "</summary><h1>x</h1>",
    "<img src=x onerror=alert(1)>",
    "<https://evil.example>",
    // Markdown.
    "![x](javascript:alert(1))",
    "[click](https://evil.example)",
    "[x]: https://evil.example",
    "[x](1) {0} {{1}}",
    "https://evil.example/x",
    "www.evil.example",
    "mail@evil.example",
    "@everyone",
    "@org/team",
    "#123",
    "owner/name#123",
    "GH-123",
    "0123456789abcdef0123456789abcdef01234567",
    ":rotating_light:",
    "`code` and ``more`` ```",
    "```\nescaped\n```",
    "~~~",
    "a | b | c",
    "\\| \\` \\",
    "# heading",
    "- list\n- list",
    "1. one",
    "> quote",
    "---",
    "===",
    "    indented",
    "\ttab",
    "**bold** __bold__ *x* _x_ ~~x~~",
    "$x^2$ $$y$$",
    "[^1] [^1]: note",
    "- [ ] task",
    "> [!NOTE]",
    "trailing\\",
    "two  \nlines",
    // Shells.
    "; rm -rf ~",
    "$(rm -rf ~)",
    "`rm -rf ~`",
    "a' ; rm -rf ~ ; '",
    "a\u{2019} ; Remove-Item x ; \u{2018}",
    "a\" & del x & \"",
    "%PATH% !PATH!",
    "$env:PATH @(x) {x}",
    "a\nrm -rf ~",
    "-rf",
    "../../etc/passwd",
    "C:\\Users\\x y\\gpu",
    // JSON.
    "\"},{\"id\":\"x\"",
    "\\u0000 \\\" \\\\",
    "null",
    " ",
    "",
];

/// All hostile values, including generated ones.
pub(crate) fn samples() -> Vec<String> {
    let mut samples: Vec<String> = SAMPLES.iter().map(|sample| (*sample).to_owned()).collect();
    samples.push("x".repeat(1 << 20));
    samples.push("long words ".repeat(1000));
    samples.push(format!("/{}", "folder/".repeat(100)));
    samples.push("`".repeat(1000));
    samples.push("\u{1b}[".repeat(1000));
    samples.push("\u{202e}".repeat(1000));
    samples.push(String::from_utf8_lossy(b"GPU\xff\xfe\xc3(\xed\xa0\x80").into_owned());
    samples
}
