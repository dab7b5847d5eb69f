//! `gpubuild build --timings`: records a build and writes what took how long.

use gpubuild_exec::exec::Outcome;
use gpubuild_exec::exec::timings::Recorder;

use super::build::Work;
use super::{Failure, absolute};
use crate::report::timings::{About, Document, Form};

/// Name of the page in the build folder.
pub(super) const PAGE: &str = "timings.html";

/// Runs a build with a recorder and writes the timings, also of one that fails.
pub(super) fn recorded(
    work: Work<'_>,
    file: &str,
    build: &dyn Fn(&Work<'_>) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    let (context, project) = (work.context, &work.project.file.project.name);
    let processors = work.sight.facts.cpu.threads;
    let path = match file {
        "" => work.project.build_root.join(PAGE),
        file => absolute(context, file)?,
    };
    let recorder = Recorder::new(context.host);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| recorder.watch());
        let _ending = Ending(&recorder);
        build(&Work { timings: Some(&recorder), ..work })
    });
    let recording = recorder.finish();
    let about = About { project, success: outcome.is_ok(), processors };
    let written = Document::new(about, &recording)
        .render(Form::of(path.as_str()))
        .map_err(std::io::Error::from)
        .and_then(|text| context.host.write(&path, text.as_bytes()));
    // A build that failed matters more than its timings.
    let outcome = outcome?;
    written.map_err(|error| {
        Failure::negative("timings.unwritable", format!("failed to write the timings to `{path}`: {error}"))
            .hint("everything is built; name another file with `--timings=FILE`")
    })?;
    context.printer.say(&format!("timings: {path}"));
    Ok(outcome)
}

/// Ends the recorder's thread however the build ends.
struct Ending<'a>(&'a Recorder<'a>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
