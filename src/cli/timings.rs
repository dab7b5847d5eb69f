//! `gpubuild build --timings`: records a build and writes what took how long.

use gpubuild_detect::id;
use gpubuild_exec::exec::BuildOutcome;
use gpubuild_exec::exec::timings::TimingRecorder;

use super::build::BuildWork;
use super::{Failure, absolute};
use crate::report::timings::{TimingsForm, TimingsReport, TimingsSubject};

/// Name of the page in the build folder.
pub(super) const PAGE: &str = "timings.html";

/// Runs a build with a recorder and writes the timings, also of one that fails.
pub(super) fn recorded(
    work: BuildWork<'_>,
    file: &str,
    build: &dyn Fn(&BuildWork<'_>) -> Result<BuildOutcome, Failure>,
) -> Result<BuildOutcome, Failure> {
    let (context, project) = (work.context, &work.project.file.project.name);
    let processors = work.sight.facts.cpu.threads;
    let path = match file {
        "" => work.project.build_root.join(PAGE),
        file => absolute(context, file)?,
    };
    let recorder = TimingRecorder::new(context.host);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| recorder.watch());
        let _ending = TimedEnding(&recorder);
        build(&BuildWork { timings: Some(&recorder), ..work })
    });
    let recording = recorder.finish();
    let about = TimingsSubject { project, success: outcome.is_ok(), processors };
    let written = TimingsReport::new(about, &recording)
        .render(TimingsForm::of(path.as_str()))
        .map_err(std::io::Error::from)
        .and_then(|text| context.host.write(&path, text.as_bytes()));
    // A build that failed matters more than its timings.
    let outcome = outcome?;
    written.map_err(|error| {
        Failure::negative(
            id!("timings.unwritable"),
            format!("failed to write the timings to `{path}`: {error}"),
        )
        .hint("everything is built; name another file with `--timings=FILE`")
    })?;
    context.printer.say(&format!("timings: {path}"));
    Ok(outcome)
}

/// Ends the recorder's thread however the build ends.
struct TimedEnding<'a>(&'a TimingRecorder<'a>);

impl Drop for TimedEnding<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
