//! `gpubuild build --timings`: records the duration of each step of a build.

use gpubuild_detect::id;
use gpubuild_exec::exec::BuildOutcome;
use gpubuild_exec::exec::timings::TimingRecorder;

use super::build::BuildWork;
use super::document::check_replaceable;
use super::{Failure, absolute};
use crate::report::timings::{TimingsForm, TimingsReport, TimingsSubject};

/// Default file name of the timings page, in the build folder.
pub(super) const PAGE: &str = "timings.html";

/// Runs a build with a recorder and writes the timings, also if the build fails.
pub(super) fn recorded(
    work: BuildWork<'_>,
    file: &str,
    build: &dyn Fn(&BuildWork<'_>) -> Result<BuildOutcome, Failure>,
) -> Result<BuildOutcome, Failure> {
    let (context, project) = (work.context, &work.project.file.project.name);
    let processors = work.machine.facts.cpu.threads;
    let path = match file {
        "" => work.project.build_root.join(PAGE),
        file => absolute(context, file)?,
    };
    check_replaceable(context, &path, |text| {
        text.contains("\"gpubuild\":") || text.contains("\"traceEvents\":")
    })?;
    let recorder = TimingRecorder::new(context.host);
    let outcome = std::thread::scope(|scope| {
        if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, || recorder.watch()) {
            log::debug!("the timings have no processors and memory: {error}");
        }
        let _guard = RecordingGuard(&recorder);
        build(&BuildWork { timings: Some(&recorder), ..work })
    });
    let recording = recorder.finish();
    let about = TimingsSubject { project, success: outcome.is_ok(), processors };
    let written = TimingsReport::new(about, &recording)
        .render(TimingsForm::of(path.as_str()))
        .map_err(std::io::Error::from)
        .and_then(|text| context.host.write(&path, text.as_bytes()));
    // Report a failed build before a failure to write its timings.
    let outcome = outcome?;
    written.map_err(|error| {
        Failure::negative(
            id!("timings.unwritable"),
            format!("failed to write the timings to `{path}`: {error}"),
        )
        .hint("the build succeeded; specify another file with `--timings=FILE`")
    })?;
    context.printer.status(&format!("timings: {path}"));
    Ok(outcome)
}

/// Ends the recorder's thread when dropped, also on errors and panics.
struct RecordingGuard<'a>(&'a TimingRecorder<'a>);

impl Drop for RecordingGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
