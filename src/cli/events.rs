//! Shows a build: a bar per tree on a terminal, plain lines elsewhere, JSON lines on request.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use gpubuild_exec::exec::{BuildEvent, TreeState};
use gpubuild_plan::plan::bytes;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{Printer, Verbosity};

/// The forms of `--message-format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MessageFormat {
    /// For people, on stderr.
    #[default]
    Human,
    /// One JSON document per line and event, on stdout.
    Json,
}

/// Name of the bar of an installation.
const WHEELS: &str = "wheels";

/// Whether hits and misses of the store are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExplainMode {
    /// They are.
    Yes,
    /// They are not, except with `--verbose`.
    #[default]
    No,
}

/// Shows events.
pub(super) struct Events<'a> {
    printer: &'a Printer,
    format: MessageFormat,
    explain: ExplainMode,
    /// `None` where no bar may be drawn.
    bars: Option<Bars>,
}

struct Bars {
    all: MultiProgress,
    by_tree: Mutex<BTreeMap<String, ProgressBar>>,
}

impl<'a> Events<'a> {
    /// A view for this printer's streams.
    pub(super) fn new(printer: &'a Printer, format: MessageFormat) -> Self {
        let draws = format == MessageFormat::Human && printer.shows_progress();
        let bars = draws.then(|| Bars { all: MultiProgress::new(), by_tree: Mutex::default() });
        Self { printer, format, explain: ExplainMode::No, bars }
    }

    /// The same, with hits and misses of the store.
    pub(super) fn explaining(mut self, explain: ExplainMode) -> Self {
        self.explain = explain;
        self
    }

    /// Shows one.
    pub(super) fn show(&self, event: &BuildEvent) {
        if self.format == MessageFormat::Json {
            // A reader that went away does not stop the build.
            let _ = self.printer.json_line(event);
            return;
        }
        match event {
            BuildEvent::Waiting { lock } => {
                self.say(&format!("waiting for another build of this project (it holds `{lock}`)"));
            }
            BuildEvent::Note { text } => self.say(text),
            BuildEvent::Fetching { tool, version, into } => {
                self.say(&format!("fetching {tool} {version}, which this machine lacks, into {into}"));
            }
            BuildEvent::WaitingForInstall { what, lock } => {
                self.say(&format!("waiting for another installation of {what} (it holds `{lock}`)"));
            }
            BuildEvent::Provisioning { toolkit, version, into, download, disk, free } => {
                let free = free.map(|free| format!(" ({} are free)", bytes::show(free))).unwrap_or_default();
                let (download, disk) = (bytes::show_if_known(*download), bytes::show_if_known(*disk));
                self.say(&format!(
                    "installing {toolkit} {version} into {into}: {download} to download, at most {disk} of disk{free}"
                ));
            }
            BuildEvent::Installing { what, done, total } => self.installing(what, *done, *total),
            BuildEvent::Configuring { tree, .. } => self.begin(tree, "configuring"),
            BuildEvent::Configured { tree, seconds } => {
                if self.bars.is_none() {
                    self.say(&format!("[{tree}] configured in {seconds:.1} s"));
                }
            }
            BuildEvent::Compiling { .. } | BuildEvent::Compiled { .. } => {}
            BuildEvent::LauncherDropped { tree, language, launcher, why } => {
                self.quietly(|printer| {
                    printer.warning(&format!("[{tree}] {language} does not go through `{launcher}`: {why}"));
                });
            }
            BuildEvent::Cached { tree, launcher, hits, misses, other, note, .. } => {
                self.say(&cached(tree, launcher, (*hits, *misses, *other)));
                if let Some(note) = note {
                    self.quietly(|printer| printer.warning(&format!("[{tree}] {launcher}: {note}")));
                }
            }
            BuildEvent::Narrowed { tree, before, jobs, why } => {
                self.quietly(|printer| {
                    printer.warning(&format!(
                        "[{tree}] a compiler seems to have run out of memory with {before} jobs ({why}): continuing with {jobs}"
                    ));
                });
            }
            BuildEvent::Progress { tree, done, total, what } => self.step(tree, *done, *total, what),
            BuildEvent::Line { tree, text } => self.line(tree, text),
            BuildEvent::Failed { tree, .. } => self.end(tree),
            BuildEvent::Finished { tree, state, seconds } => {
                self.end(tree);
                match state {
                    TreeState::Built => self.say(&format!("[{tree}] built in {seconds:.1} s")),
                    TreeState::Taken => self.say(&format!("[{tree}] taken from the store in {seconds:.1} s")),
                    TreeState::Unchanged => {}
                }
            }
            BuildEvent::Dropped { backend, why } => {
                self.quietly(|printer| printer.warning(&format!("{backend} is left out: {why}")));
            }
            BuildEvent::Linking { package } => self.begin("cargo", &format!("building {package}")),
            BuildEvent::WaitingForStore { .. }
            | BuildEvent::Taken { .. }
            | BuildEvent::ObjectsTaken { .. }
            | BuildEvent::NotStored { .. }
            | BuildEvent::Stored { .. }
            | BuildEvent::StoreUnused { .. }
            | BuildEvent::SourcesChanged { .. } => self.store(event),
            BuildEvent::Done { .. } => self.end("cargo"),
        }
    }

    /// What the store did; without `--explain` only what the user must know.
    fn store(&self, event: &BuildEvent) {
        let explain = |text: String| {
            if self.explain == ExplainMode::Yes || self.printer.verbosity() == Verbosity::Verbose {
                self.say(&text);
            }
        };
        match event {
            BuildEvent::WaitingForStore { tree, lock } => {
                self.say(&format!("[{tree}] waiting for another build of the same (it holds `{lock}`)"));
            }
            BuildEvent::Taken { tree, key, entry } => {
                explain(format!("[{tree}] hit: key {} is stored in {entry}", short(key)));
            }
            BuildEvent::ObjectsTaken { tree, targets, objects, left } => {
                let names = targets.join(", ");
                self.say(&format!(
                    "[{tree}] {objects} objects of {names} come from the store, {left} are left to compile"
                ));
            }
            BuildEvent::NotStored { tree, key, why, since, different } => {
                explain(format!("[{tree}] miss: {why} (key {})", short(key)));
                if !since.is_empty() {
                    explain(format!("[{tree}] compared with {since}:"));
                }
                for part in different {
                    explain(format!("[{tree}]   {}", part.line()));
                }
            }
            BuildEvent::Stored { tree, key, bytes } => {
                explain(format!("[{tree}] stored {} under key {}", bytes::show(*bytes), short(key)));
            }
            BuildEvent::StoreUnused { tree, why } => {
                self.quietly(|printer| printer.warning(&format!("{tree}: {why}")));
            }
            BuildEvent::SourcesChanged { tree, files } => {
                let first = files.first().map_or("", String::as_str);
                let more = files.len().saturating_sub(1);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                self.quietly(|printer| {
                    printer.warning(&format!(
                        "{tree}: `{first}`{more} changed during the build: it is not stored, and the next build looks again"
                    ));
                });
            }
            _ => {}
        }
    }

    fn begin(&self, tree: &str, what: &str) {
        match &self.bars {
            Some(bars) => {
                let bar = bars.bar(tree);
                bar.set_message(what.to_owned());
                bar.enable_steady_tick(std::time::Duration::from_millis(120));
            }
            None => self.say(&format!("[{tree}] {what}")),
        }
    }

    fn step(&self, tree: &str, done: u32, total: u32, what: &str) {
        match &self.bars {
            Some(bars) => {
                let bar = bars.bar(tree);
                bar.set_length(total.into());
                bar.set_position(done.into());
                bar.set_message(what.to_owned());
            }
            None => self.say(&format!("[{tree} {done}/{total}] {what}")),
        }
    }

    /// Download progress of the wheels in MiB: installers do not report the progress of the current one.
    fn installing(&self, what: &str, done: u64, total: u64) {
        const MEBIBYTE: u64 = 1 << 20;
        if what.is_empty() {
            self.end(WHEELS);
            return;
        }
        let steps = |bytes: u64| u32::try_from(bytes / MEBIBYTE).unwrap_or(u32::MAX);
        match &self.bars {
            Some(_) => self.step(WHEELS, steps(done), steps(total), &format!("MiB {what}")),
            None if total > 0 => self.say(&format!("[{WHEELS} {}/{} MiB] {what}", steps(done), steps(total))),
            None => {}
        }
    }

    /// What tools say beside their steps is in the log. It is shown with `-v`; cargo's lines are its steps.
    fn line(&self, tree: &str, text: &str) {
        if self.printer.verbosity() == Verbosity::Verbose {
            self.quietly(|printer| printer.detail(&format!("[{tree}] {text}")));
        } else if tree == "cargo" {
            match &self.bars {
                Some(bars) => bars.bar(tree).set_message(text.trim().to_owned()),
                None => self.say(&format!("[{tree}] {}", text.trim())),
            }
        }
    }

    fn end(&self, tree: &str) {
        if let Some(bars) = &self.bars
            && let Some(bar) = bars.lock().remove(tree)
        {
            bar.finish_and_clear();
        }
    }

    fn say(&self, text: &str) {
        self.quietly(|printer| printer.say(text));
    }

    /// Writes while no bar is on the screen.
    fn quietly(&self, write: impl FnOnce(&Printer)) {
        match &self.bars {
            Some(bars) => bars.all.suspend(|| write(self.printer)),
            None => write(self.printer),
        }
    }
}

/// As much of a key as people compare.
fn short(key: &str) -> &str {
    key.get(..12).unwrap_or(key)
}

/// `[cpu] ccache: 12 of 15 compilations were in the cache (80 %); 1 cannot be cached`.
fn cached(tree: &str, launcher: &str, (hits, misses, other): (u64, u64, u64)) -> String {
    let all = hits + misses;
    let share = (hits * 100).checked_div(all).map(|share| format!(" ({share} %)")).unwrap_or_default();
    let rest = if other > 0 { format!("; {other} cannot be cached") } else { String::new() };
    format!("[{tree}] {launcher}: {hits} of {all} compilations were in the cache{share}{rest}")
}

impl Drop for Events<'_> {
    fn drop(&mut self) {
        if let Some(bars) = &self.bars {
            for bar in bars.lock().values() {
                bar.finish_and_clear();
            }
        }
    }
}

impl Bars {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, ProgressBar>> {
        self.by_tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bar(&self, tree: &str) -> ProgressBar {
        let mut bars = self.lock();
        let make = || {
            let bar = self.all.add(ProgressBar::new(0));
            let style = ProgressStyle::with_template("{prefix:>16} [{bar:24}] {pos}/{len} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_prefix(tree.to_owned());
            bar
        };
        bars.entry(tree.to_owned()).or_insert_with(make).clone()
    }
}
