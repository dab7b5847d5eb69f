//! Formats of the doctor's report and their destinations: standard output, files, and the step summary of a GitHub workflow.

use gpubuild_core::clean;
use gpubuild_detect::finding::Findings;
use gpubuild_detect::id;

use crate::cli::document::check_replaceable;
use crate::cli::{CommandContext, Failure, Verbosity, detect};
use crate::report::detect_text::Detail;
use crate::report::doctor::DoctorReport;
use crate::report::{doctor_github, doctor_junit, doctor_markdown, doctor_sarif, doctor_text};

/// Minimum free space in a step summary for a report, in bytes. GitHub limits the size of the summary.
const MIN_SUMMARY_SPACE: usize = 32 * 1024;

/// Format of the report.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::cli) struct OutputArguments {
    /// Format of the report on standard output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: DoctorFormat,
    /// Print one JSON document (same as `--format json`)
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Also write the report to a file; its extension selects the format: .txt, .json, .md, .sarif, .xml; may
    /// be repeated
    #[arg(long, value_name = "FILE")]
    output: Vec<String>,
}

/// The values of `--format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum DoctorFormat {
    /// Human-readable text
    #[default]
    Text,
    /// One JSON document
    Json,
    /// Markdown, for summaries and issues
    Markdown,
    /// Annotations of a GitHub workflow; in one, its step summary gets the Markdown
    Github,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// JUnit XML, for test reports
    Junit,
}

impl OutputArguments {
    /// Whether standard output is one JSON document.
    pub(in crate::cli) fn is_json(&self) -> bool {
        self.json || self.format == DoctorFormat::Json
    }

    /// Rejects output files with an unknown extension before the examination starts.
    pub(in crate::cli) fn check(&self) -> Result<(), Failure> {
        self.output.iter().try_for_each(|file| format_of(file).map(|_| ()))
    }

    /// Writes the output files and prints the report.
    pub(in crate::cli) fn deliver(
        &self,
        document: &DoctorReport,
        context: &CommandContext<'_>,
    ) -> Result<(), Failure> {
        for file in &self.output {
            let path = crate::cli::absolute(context, file)?;
            let format = format_of(file)?;
            check_replaceable(context, &path, |text| is_report(format, text))?;
            let text = render(format, document, None)?;
            context
                .host
                .write(&path, text.as_bytes())
                .map_err(|error| Failure::file(id!("doctor.output-unwritable"), "write", &path, &error))?;
        }
        let format = if self.json { DoctorFormat::Json } else { self.format };
        let text = render(format, document, Some(context))?;
        if format == DoctorFormat::Github {
            context.printer.print_annotations(&text)?;
            add_to_step_summary(document, context);
        } else {
            context.printer.print(&text)?;
        }
        Ok(())
    }
}

/// The format that a file's extension selects.
fn format_of(file: &str) -> Result<DoctorFormat, Failure> {
    let extension = file.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let is_sarif = file.to_ascii_lowercase().ends_with(".sarif.json");
    match extension.as_deref() {
        _ if is_sarif => Ok(DoctorFormat::Sarif),
        Some("txt" | "log") => Ok(DoctorFormat::Text),
        Some("json") => Ok(DoctorFormat::Json),
        Some("md" | "markdown") => Ok(DoctorFormat::Markdown),
        Some("sarif") => Ok(DoctorFormat::Sarif),
        Some("xml") => Ok(DoctorFormat::Junit),
        _ => Err(Failure::usage(
            id!("doctor.output-unknown"),
            format!("unknown report format: `{}` (from --output)", clean::short(file, 300)),
        )
        .hint("known extensions are .txt, .json, .md, .sarif and .xml (JUnit)")),
    }
}

/// Whether a text is a report in a format.
fn is_report(format: DoctorFormat, text: &str) -> bool {
    match format {
        DoctorFormat::Text => {
            text.lines().last().is_some_and(|line| line.contains(" error") && line.contains(" warning"))
        }
        DoctorFormat::Json => text.contains("\"name\": \"doctor\""),
        DoctorFormat::Markdown | DoctorFormat::Github | DoctorFormat::Junit => {
            text.contains("gpubuild doctor")
        }
        DoctorFormat::Sarif => text.contains("gpubuild-doctor/"),
    }
}

/// Renders the report. With `terminal`, text uses its colours and verbosity; without, it contains all details.
fn render(
    format: DoctorFormat,
    document: &DoctorReport,
    terminal: Option<&CommandContext<'_>>,
) -> Result<String, Failure> {
    Ok(match format {
        DoctorFormat::Text => match terminal {
            Some(context) => {
                let verbose = context.printer.verbosity() >= Verbosity::Verbose;
                let detail = if verbose { Detail::Everything } else { Detail::Relevant };
                doctor_text::text(document, detail, &|tone, text| {
                    context.printer.paint(detect::role(tone), text)
                })
            }
            None => doctor_text::plain(document),
        },
        DoctorFormat::Json => {
            let text = serde_json::to_string_pretty(document).map_err(std::io::Error::other)?;
            clean::json(&text).into_owned() + "\n"
        }
        DoctorFormat::Markdown => doctor_markdown::markdown(document, doctor_markdown::STEP_SUMMARY),
        DoctorFormat::Github => doctor_github::annotations(document),
        DoctorFormat::Sarif => doctor_sarif::sarif(document, &Findings::embedded()),
        DoctorFormat::Junit => doctor_junit::junit(document, &Findings::embedded())?,
    })
}

/// Appends the Markdown report to the step summary of a GitHub workflow. Errors are warnings, since the report is already printed.
fn add_to_step_summary(document: &DoctorReport, context: &CommandContext<'_>) {
    let Some(file) = context.host.env().get("GITHUB_STEP_SUMMARY").filter(|file| !file.is_empty()) else {
        return;
    };
    let path = context.host.path(file);
    let mut summary = match context.host.read(&path) {
        Ok(summary) => summary,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            context.printer.warning(&format!("failed to write the step summary: {error}"));
            return;
        }
    };
    if !summary.is_empty() && !summary.ends_with(b"\n") {
        summary.push(b'\n');
    }
    let space = doctor_markdown::STEP_SUMMARY.saturating_sub(summary.len());
    if space < MIN_SUMMARY_SPACE {
        context.printer.warning("failed to write the step summary: it is already full");
        return;
    }
    summary.extend_from_slice(doctor_markdown::markdown(document, space).as_bytes());
    if let Err(error) = context.host.write(&path, &summary) {
        context.printer.warning(&format!("failed to write the step summary: {error}"));
    }
}
