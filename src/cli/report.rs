//! `gpubuild report`: a redacted report for an issue, with the doctor's findings and the recording that they were derived from. The report
//! is itself a recorded host: `gpubuild doctor --host REPORT` reproduces the findings.

use gpubuild_core::clean;
use gpubuild_core::secret;
use gpubuild_detect::id;
use gpubuild_doctor::Filter;
use gpubuild_host::recorder::{self, Redactions};
use gpubuild_host::{Host, HostPath, RecordedHost};

use super::doctor::diagnose::{Depth, DoctorRequest, diagnose};
use super::document::check_replaceable;
use super::machine::HostArguments;
use super::project::open_project;
use super::{CommandContext, Exit, Failure};
use crate::report::doctor::DoctorSummary;
use crate::report::doctor_text;
use crate::report::page::{self, Inset};
use crate::report::recording::{ReportFormat, WrittenReport};

/// Maximum length of a comment on GitHub, in characters.
const MAX_COMMENT_LENGTH: usize = 65_536;

/// Write a redacted report that replays as a recorded machine
#[derive(Debug, Clone, clap::Args)]
pub struct ReportArguments {
    /// Output file [default: standard output]
    #[arg(value_name = "FILE")]
    file: Option<String>,
    /// Query no driver and start no program
    #[arg(long)]
    offline: bool,
    /// Also keep these environment variables; may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    keep_env: Vec<String>,
    /// Write one self-contained HTML page instead: matrix, findings, timings and plots
    #[arg(long, requires = "file")]
    html: bool,
    /// With `--html`: the page of `build --timings` [default: that of this project, if it exists]
    #[arg(long, value_name = "FILE", requires = "html")]
    timings: Option<String>,
    /// With `--html`: a plot of `bench --svg`; may be repeated
    #[arg(long, value_name = "FILE", requires = "html")]
    bench: Vec<String>,
    #[command(flatten)]
    host: HostArguments,
    /// With FILE: print one JSON document that describes the file
    #[arg(long, requires = "file")]
    pub json: bool,
}

/// Records the machine, diagnoses the recording, and writes both.
pub fn run(arguments: &ReportArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    let catalogue = arguments.host.catalogue(context)?;
    let depth = if arguments.offline { Depth::Files } else { Depth::Drivers };
    let mut result = Ok(());
    let (recording, redactions) = recorder::record(host, &arguments.keep_env, |host| {
        result =
            diagnose(host, catalogue.clone(), &DoctorRequest::default(), &Filter::default(), depth).map(drop);
    });
    result?;
    let toml = recording.to_toml();
    // The diagnosis uses the recording, so the findings contain nothing that was redacted from it.
    let replayed = RecordedHost::new(recording)
        .map_err(|problem| Failure::negative(id!("report.contradiction"), problem.to_string()))?;
    let diagnosis = diagnose(&replayed, catalogue, &DoctorRequest::default(), &Filter::default(), depth)?;
    let report = if arguments.html {
        let timings = timings(arguments, context)?;
        let plots: Result<Vec<Inset>, Failure> =
            arguments.bench.iter().map(|file| inset(context, &super::absolute(context, file)?)).collect();
        page::page(&diagnosis.document, &redactions.lines(), timings.as_ref(), &plots?)
    } else {
        let redacted: Vec<String> =
            redactions.lines().iter().map(|line| clean::line(line).into_owned()).collect();
        markdown(&doctor_text::plain(&diagnosis.document), &redacted, &toml)
    };
    match &arguments.file {
        Some(file) => write(arguments, context, file, &report, (diagnosis.document.summary, &redactions))?,
        None => context.printer.print_input(&report)?,
    }
    if !redactions.is_empty() {
        context.printer.status(&redactions.summary());
    }
    context
        .printer
        .hint("home, user and host names are replaced and secrets redacted; review the report before you publish it");
    if !arguments.html && report.chars().count() > MAX_COMMENT_LENGTH {
        context.printer.hint("the report is too long for a comment on GitHub; attach it as a file");
    }
    Ok(Exit::Done)
}

/// Writes the report to a file, and prints its path or its document.
fn write(
    arguments: &ReportArguments,
    context: &CommandContext<'_>,
    file: &str,
    report: &str,
    (summary, redactions): (DoctorSummary, &Redactions),
) -> Result<(), Failure> {
    let path = super::absolute(context, file)?;
    check_replaceable(context, &path, |text| {
        text.contains("## gpubuild report\n") || text.contains("<title>gpubuild: ")
    })?;
    context
        .host
        .write(&path, report.as_bytes())
        .map_err(|error| Failure::file(id!("report.unwritable"), "write", &path, &error))?;
    let format = if arguments.html { ReportFormat::Html } else { ReportFormat::Markdown };
    let document = WrittenReport::new(path.to_string(), format, report, summary, redactions);
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.status(&document.text());
    }
    Ok(())
}

/// The timings page of `--timings`, else the one in the build folder of the current project, if it exists.
fn timings(arguments: &ReportArguments, context: &CommandContext<'_>) -> Result<Option<Inset>, Failure> {
    if let Some(file) = &arguments.timings {
        return inset(context, &super::absolute(context, file)?).map(Some);
    }
    let project = open_project(context, None).ok();
    let file = project.map(|project| project.build_root.join(super::timings::PAGE));
    file.filter(|file| context.host.is_file(file)).map(|file| inset(context, &file)).transpose()
}

fn inset(context: &CommandContext<'_>, file: &HostPath) -> Result<Inset, Failure> {
    let text = context.host.read_text(file).map_err(|error| {
        Failure::usage(id!("report.unreadable"), format!("failed to read `{file}`: {error}"))
            .hint("`gpubuild build --timings` and `gpubuild bench --svg FILE` write such files")
    })?;
    let text = secret::redact(&text).text.into_owned();
    Ok(Inset { name: file.file_name().unwrap_or_default().to_owned(), text })
}

fn markdown(findings: &str, redacted: &[String], toml: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let (text_fence, toml_fence) = (fence(findings), fence(toml));
    let redacted = match redacted {
        [] => String::new(),
        lines => {
            let text = format!("redacted:\n{}\n", lines.join("\n"));
            let fence = fence(&text);
            format!("{fence}text\n{text}{fence}\n\n")
        }
    };
    format!(
        "## gpubuild report\n\n{text_fence}text\n{findings}{text_fence}\n\n{redacted}\
         <details><summary>recording of the machine by gpubuild {version}; replay it with \
         <code>gpubuild doctor --host</code></summary>\n\n{toml_fence}toml\n{toml}{toml_fence}\n\n</details>\n"
    )
}

/// A Markdown code fence that is longer than every run of backticks in the content.
fn fence(inside: &str) -> String {
    let longest = inside.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{HostInfo, ReadFiles};

    #[test]
    fn report_with_code_fences_is_a_recorded_host() {
        let toml = "schema = \"gpubuild.host/1\"\n[platform]\nos = \"linux\"\narch = \"x86_64\"\n[[file]]\npath = \"/a\"\ntext = \"```\\n````\"\n";
        let redacted = ["CFLAGS (by name)".to_owned()];
        let report = markdown("error: `````\n```toml\nnot this\n", &redacted, toml);
        assert!(report.contains("redacted:\nCFLAGS (by name)\n"), "{report}");
        let host = RecordedHost::parse("report.md", &report).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(host.read(&host.path("/a")).unwrap(), b"```\n````");
    }
}
