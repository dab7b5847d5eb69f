//! `gpubuild report --html`: one self-contained page about a machine, with the matrix, the findings, and, if they are given, the timings of a
//! build and the plots of benchmarks.

use std::fmt::Write as _;

use base64::Engine as _;
use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_detect::matrix::{Presence, Readiness};
use gpubuild_plan::plan::bytes;

use super::detect::BackendEntry;
use super::doctor::DoctorReport;
use super::timings::escaped;

const TEMPLATE: &str = include_str!("page.html");

/// A file to embed into the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inset {
    /// Name of the file, without its folder.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// Renders the page. `redacted` lists the places of redacted secrets.
#[must_use]
pub fn page(
    document: &DoctorReport,
    redacted: &[String],
    timings: Option<&Inset>,
    plots: &[Inset],
) -> String {
    let mut body = String::new();
    head(document, &mut body);
    matrix(document, &mut body);
    findings(document, &mut body);
    if !redacted.is_empty() {
        body.push_str("<h2>Redacted</h2>\n<ul>\n");
        for line in redacted {
            let _ = writeln!(body, "<li>{}</li>", escaped(line));
        }
        body.push_str("</ul>\n");
    }
    if let Some(timings) = timings {
        let _ = writeln!(
            body,
            "<h2>Build</h2>\n<iframe title=\"Timings of the build\" sandbox=\"allow-scripts\" srcdoc=\"{}\"></iframe>",
            escaped(&timings.text)
        );
    }
    if !plots.is_empty() {
        body.push_str("<h2>Speed</h2>\n");
    }
    for plot in plots {
        let data = base64::engine::general_purpose::STANDARD.encode(&plot.text);
        let name = escaped(&plot.name);
        let _ = writeln!(
            body,
            "<p><img alt=\"Plot of gpubuild bench, {name}\" src=\"data:image/svg+xml;base64,{data}\"></p>"
        );
    }
    // Every placeholder is replaced once, so that a name that looks like a placeholder stays unchanged.
    let fill = |name: &str| match name {
        "TITLE" => escaped(&title(document)),
        "BODY" => body.clone(),
        other => format!("@@{other}@@"),
    };
    let parts = TEMPLATE.split("@@").enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { part.to_owned() } else { fill(part) }).collect()
}

fn title(document: &DoctorReport) -> String {
    let host = document.host.as_ref();
    let system = host.map(|host| host.distro.clone().unwrap_or_else(|| host.os.to_owned()));
    format!("gpubuild: {}", system.unwrap_or_else(|| "machine".to_owned()))
}

fn head(document: &DoctorReport, body: &mut String) {
    let _ = writeln!(body, "<h1>{}</h1>", escaped(&title(document)));
    if let Some(host) = &document.host {
        let mut parts: Vec<String> = vec![host.arch.to_owned()];
        parts.extend(host.libc.clone());
        parts.extend(host.kernel.clone());
        parts.extend(host.container_kind.clone());
        parts.extend(host.wsl.then(|| "WSL".to_owned()));
        parts.extend(host.cpu.name.clone());
        parts.extend(host.cpu.threads.map(|threads| format!("{threads} threads")));
        parts.extend(host.memory_bytes.map(bytes::show));
        let _ = writeln!(body, "<p>{}</p>", escaped(&parts.join(", ")));
    }
    let summary = &document.summary;
    let _ = writeln!(
        body,
        "<p>{}, {}, {}. <span class=\"faint\">gpubuild {}</span></p>",
        count(summary.errors, "error"),
        count(summary.warnings, "warning"),
        count(summary.infos, "note"),
        env!("CARGO_PKG_VERSION")
    );
    if let Some(recommended) = &document.recommended {
        let build: Vec<&str> = recommended.build.iter().map(|backend| backend.id()).collect();
        let _ = writeln!(
            body,
            "<p>Recommended: run <strong>{}</strong>, build <strong>{}</strong>.</p>",
            recommended.run,
            build.join(", ")
        );
    }
}

/// Escaped text; text between backticks becomes code.
fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escaped(text);
    }
    let of = |(at, part): (usize, &&str)| match at % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    };
    parts.iter().enumerate().map(of).collect()
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn matrix(document: &DoctorReport, body: &mut String) {
    if document.backends.is_empty() {
        return;
    }
    body.push_str(
        "<h2>Backends</h2>\n<div class=\"scroll\"><table>\n\
         <caption>Is the hardware there, can it be built for, can it run here</caption>\n\
         <thead><tr><th scope=\"col\">Backend</th><th scope=\"col\">Hardware</th><th scope=\"col\">Build</th>\
         <th scope=\"col\">Run</th></tr></thead>\n<tbody>\n",
    );
    for entry in &document.backends {
        let _ = writeln!(
            body,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            entry.id,
            hardware(entry),
            ready(entry.build.state, &entry.build.why.reasons, built_with(entry)),
            ready(
                entry.run.state,
                &entry.run.why.reasons,
                entry.run.driver.as_ref().map(|driver| format!("driver {driver}"))
            ),
        );
    }
    body.push_str("</tbody></table></div>\n");
}

fn hardware(entry: &BackendEntry) -> String {
    // Every symbol has a word beside it, and every colour a symbol.
    let (class, words) = match entry.hardware.state {
        Presence::Present => ("good", "\u{2713} present"),
        Presence::Absent => ("plain", "\u{2013} absent"),
        Presence::Unknown => ("warn", "? unknown"),
    };
    let mut cell = format!("<span class=\"{class}\">{words}</span>");
    for device in &entry.hardware.devices {
        let arch = device.arch.as_ref().map(|arch| format!(", {arch}")).unwrap_or_default();
        let memory = device.memory_bytes.map(|bytes| format!(", {}", bytes::show(bytes))).unwrap_or_default();
        let _ = write!(cell, "<br>{}", escaped(&format!("{}{arch}{memory}", device.name)));
    }
    cell
}

fn built_with(entry: &BackendEntry) -> Option<String> {
    let toolkit = entry.build.toolkits.iter().find(|toolkit| toolkit.chosen)?;
    let version = toolkit.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    Some(format!("{}{version}", toolkit.toolkit))
}

fn ready(state: Readiness, reasons: &[String], with: Option<String>) -> String {
    let (class, words) = match state {
        Readiness::Ready => ("good", "\u{2713} ready"),
        Readiness::Limited => ("warn", "! limited"),
        Readiness::Blocked => ("bad", "\u{2717} blocked"),
        Readiness::Unknown => ("warn", "? unknown"),
    };
    let mut cell = format!("<span class=\"{class}\">{words}</span>");
    if let Some(with) = with {
        let _ = write!(cell, "<br>{}", escaped(&with));
    }
    if let Some(reason) = reasons.first() {
        let _ = write!(cell, "<br><span class=\"faint\">{}</span>", prose(reason));
    }
    cell
}

fn findings(document: &DoctorReport, body: &mut String) {
    body.push_str("<h2>Findings</h2>\n");
    if document.findings.is_empty() {
        body.push_str("<p>No problems found.</p>\n");
    }
    for finding in &document.findings {
        one(finding, body);
    }
}

fn one(finding: &Finding, body: &mut String) {
    let (class, word) = match finding.severity {
        Severity::Error => ("bad", "\u{2717} error"),
        Severity::Warning => ("warn", "! warning"),
        Severity::Info => ("plain", "\u{2022} note"),
    };
    let _ = writeln!(
        body,
        "<article>\n<h3><span class=\"{class}\">{word}</span> {} <code>{}</code></h3>",
        prose(&finding.summary),
        escaped(&finding.id)
    );
    let remedy = &finding.remedy;
    if !remedy.text.is_empty() {
        let _ = writeln!(body, "<p>{}</p>", prose(&remedy.text));
    }
    if !remedy.commands.is_empty() {
        let _ = writeln!(body, "<pre>{}</pre>", escaped(&remedy.commands.join("\n")));
    }
    if !remedy.needs.is_empty() {
        let _ = writeln!(body, "<p class=\"faint\">needs {}</p>", escaped(&remedy.needs.join(", ")));
    }
    if let Some(verify) = &remedy.verify {
        let _ = writeln!(body, "<p class=\"faint\">then <code>{}</code></p>", escaped(verify));
    }
    if !finding.evidence.is_empty() {
        body.push_str("<details><summary>Evidence</summary>\n<ul>\n");
        for evidence in &finding.evidence {
            let _ = writeln!(
                body,
                "<li><code>{}</code>: {}</li>",
                escaped(&evidence.place),
                escaped(&evidence.value)
            );
        }
        body.push_str("</ul></details>\n");
    }
    // Links are from findings/*.toml and use https.
    for link in finding.links.iter().filter(|link| link.starts_with("https://")) {
        let link = escaped(link);
        let _ = writeln!(body, "<p><a rel=\"noreferrer\" href=\"{link}\">{link}</a></p>");
    }
    body.push_str("</article>\n");
}
