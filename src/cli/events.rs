//! Build progress: one bar per tree on a terminal, plain lines elsewhere, JSON lines on request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use gpubuild_core::clean;
use gpubuild_core::screen::{Colors, screen};
use gpubuild_exec::exec::{BuildEvent, TreeState};
use gpubuild_plan::plan::bytes;
use gpubuild_plan::plan::launchers::names;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{Printer, Verbosity};

/// The values of `--message-format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MessageFormat {
    /// Human-readable text on standard error.
    #[default]
    Human,
    /// One JSON document per event on standard output, one per line.
    Json,
}

/// Name of the progress bar of wheel installations.
const DOWNLOAD: &str = "download";

/// Whether to print hits and misses of the build store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExplainMode {
    /// Always.
    Yes,
    /// Only with `--verbose`.
    #[default]
    No,
}

/// Prints build events.
pub(super) struct Events<'a> {
    printer: &'a Printer,
    format: MessageFormat,
    explain: ExplainMode,
    /// `None` if progress bars are disabled.
    bars: Option<Bars>,
}

struct Bars {
    all: MultiProgress,
    by_tree: Mutex<BTreeMap<String, ProgressBar>>,
    /// Templates of a bar: before the number of steps is known, and after.
    templates: [&'static str; 2],
}

impl<'a> Events<'a> {
    pub(super) fn new(printer: &'a Printer, format: MessageFormat) -> Self {
        let shows_bars = format == MessageFormat::Human && printer.shows_progress();
        let templates = if printer.colors_stderr() {
            [
                "{prefix:>16.cyan} {spinner} {wide_msg}",
                "{prefix:>16.cyan} [{bar:24.green}] {pos}/{len} {wide_msg}",
            ]
        } else {
            ["{prefix:>16} {spinner} {wide_msg}", "{prefix:>16} [{bar:24}] {pos}/{len} {wide_msg}"]
        };
        let bars =
            shows_bars.then(|| Bars { all: MultiProgress::new(), by_tree: Mutex::default(), templates });
        Self { printer, format, explain: ExplainMode::No, bars }
    }

    /// Sets whether to print hits and misses of the build store.
    pub(super) fn with_explain(mut self, explain: ExplainMode) -> Self {
        self.explain = explain;
        self
    }

    /// Prints one event.
    pub(super) fn show(&self, event: &BuildEvent) {
        if self.format == MessageFormat::Json {
            // A closed standard output does not stop the build.
            let _ = self.printer.json_line(event);
            return;
        }
        match event {
            BuildEvent::Waiting { lock } => {
                self.status(&format!("waiting for another build of this project to release `{lock}`"));
            }
            BuildEvent::Note { text } => self.status(text),
            BuildEvent::Fetching { tool, version, into } => {
                self.status(&format!("fetching {tool} {version} into {into}"));
            }
            BuildEvent::WaitingForInstall { what, lock } => {
                self.status(&format!("waiting for another installation of {what} to release `{lock}`"));
            }
            BuildEvent::Provisioning { toolkit, version, into, download, disk, free } => {
                let free = free.map(|free| format!(" ({} free)", bytes::show(free))).unwrap_or_default();
                let (download, disk) = (bytes::show_if_known(*download), bytes::show_if_known(*disk));
                self.status(&format!(
                    "installing {toolkit} {version} into {into}: {download} to download, up to {disk} of disk space{free}"
                ));
            }
            BuildEvent::Installing { what, done, total } => self.installing(what, *done, *total),
            BuildEvent::Configuring { tree, .. } => self.begin(tree, "configuring"),
            BuildEvent::Configured { tree, seconds } => {
                if self.bars.is_none() {
                    self.status(&format!("[{tree}] configured in {seconds:.1} s"));
                }
            }
            BuildEvent::Compiling { .. } | BuildEvent::Compiled { .. } => {}
            BuildEvent::LauncherDropped { tree, language, launcher, why } => {
                self.without_bars(|printer| {
                    printer.warning(&format!("[{tree}] {language} is compiled without `{launcher}`: {why}"));
                });
            }
            BuildEvent::Distributing { tree, launcher, languages, local, slots, servers, slots_unknown } => {
                if !languages.is_empty() {
                    self.status(&distributing(tree, launcher, languages, (*slots, *servers)));
                    if let Some(why) = slots_unknown {
                        self.status(&format!("[{tree}] the number of its slots is unknown: {why}"));
                    }
                }
                for text in not_distributed(tree, launcher, local) {
                    if languages.is_empty() {
                        self.without_bars(|printer| printer.warning(&text));
                    } else {
                        self.status(&text);
                    }
                }
            }
            BuildEvent::Distributed { tree, servers, failed, misses } => {
                self.status(&distributed(tree, servers, (*failed, *misses)));
            }
            BuildEvent::Cached { tree, launcher, hits, misses, other, note, .. } => {
                self.status(&cached(tree, launcher, (*hits, *misses, *other)));
                if let Some(note) = note {
                    self.without_bars(|printer| printer.warning(&format!("[{tree}] {launcher}: {note}")));
                }
            }
            BuildEvent::Narrowed { tree, before, jobs, why } => {
                self.without_bars(|printer| {
                    printer.warning(&format!(
                        "[{tree}] a compiler probably ran out of memory with {before} jobs ({why}); continuing with {jobs}"
                    ));
                });
            }
            BuildEvent::Progress { tree, done, total, what } => self.step(tree, *done, *total, what),
            BuildEvent::Line { tree, text } => self.line(tree, text),
            BuildEvent::Failed { tree, .. } => self.end(tree),
            BuildEvent::Finished { tree, state, seconds } => {
                self.end(tree);
                match state {
                    TreeState::Built => self.status(&format!("[{tree}] built in {seconds:.1} s")),
                    TreeState::Taken => {
                        self.status(&format!("[{tree}] restored from the build store in {seconds:.1} s"));
                    }
                    TreeState::Unchanged => {}
                }
            }
            BuildEvent::Dropped { backend, why } => {
                self.without_bars(|printer| printer.warning(&format!("{backend} is left out: {why}")));
            }
            BuildEvent::Linking { package } => self.begin("cargo", &format!("building {package}")),
            BuildEvent::WaitingForStore { .. }
            | BuildEvent::Taken { .. }
            | BuildEvent::ObjectsTaken { .. }
            | BuildEvent::NotStored { .. }
            | BuildEvent::Stored { .. }
            | BuildEvent::StoreUnused { .. }
            | BuildEvent::Pulled { .. }
            | BuildEvent::Pushed { .. }
            | BuildEvent::NotPulled { .. }
            | BuildEvent::NotPushed { .. }
            | BuildEvent::RemoteUnused { .. }
            | BuildEvent::SourcesChanged { .. } => self.store(event),
            BuildEvent::Environment { path, cuda, wheels, installed } => {
                self.environment(path, cuda, wheels, installed);
            }
            BuildEvent::Done { .. } => self.end("cargo"),
        }
    }

    /// `installed nvidia-cublas-cu12 12.9.2.10 (CUDA 12.9) into /p/.venv`. A current environment is printed only with `--verbose`.
    fn environment(&self, path: &str, cuda: &str, wheels: &BTreeMap<String, String>, installed: &[String]) {
        if installed.is_empty() {
            self.without_bars(|printer| printer.detail(&format!("{path} has the libraries of CUDA {cuda}")));
            return;
        }
        let version = |package: &String| wheels.get(package).map_or("", String::as_str);
        let names: Vec<String> =
            installed.iter().map(|package| format!("{package} {}", version(package))).collect();
        self.status(&format!("installed {} (CUDA {cuda}) into {path}", names.join(", ")));
    }

    /// Prints an event of the build store. Hits and misses are printed only with `--explain` or `--verbose`.
    fn store(&self, event: &BuildEvent) {
        let explain = |text: String| {
            if self.explain == ExplainMode::Yes || self.printer.verbosity() == Verbosity::Verbose {
                self.status(&text);
            }
        };
        match event {
            BuildEvent::WaitingForStore { tree, lock } => {
                self.status(&format!(
                    "[{tree}] waiting for another build of the same tree to release `{lock}`"
                ));
            }
            BuildEvent::Taken { tree, key, entry } => {
                explain(format!("[{tree}] hit: key {} is stored in {entry}", short(key)));
            }
            BuildEvent::ObjectsTaken { tree, targets, objects, left } => {
                let names = targets.join(", ");
                self.status(&format!(
                    "[{tree}] {objects} objects of {names} restored from the build store, {left} to compile"
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
            BuildEvent::Pulled { tree, remote, bytes, seconds, .. } => {
                let bytes = bytes::show(*bytes);
                explain(format!("[{tree}] downloaded {bytes} from {remote} in {seconds:.1} s"));
            }
            BuildEvent::Pushed { tree, remote, bytes, seconds, .. } => {
                let bytes = bytes::show(*bytes);
                explain(format!("[{tree}] uploaded {bytes} to {remote} in {seconds:.1} s"));
            }
            BuildEvent::NotPulled { tree, remote, why } | BuildEvent::NotPushed { tree, remote, why } => {
                explain(format!("[{tree}] {remote}: {why}"));
            }
            BuildEvent::RemoteUnused { tree, id, why, hint } => {
                self.without_bars(|printer| {
                    let why = clean::line(why);
                    printer.warning(&format!("[{tree}] the shared store is not used: {why} [{id}]"));
                    if let Some(hint) = hint {
                        printer.hint(&clean::line(hint));
                    }
                });
            }
            BuildEvent::StoreUnused { tree, why } => {
                self.without_bars(|printer| printer.warning(&format!("[{tree}] {why}")));
            }
            BuildEvent::SourcesChanged { tree, files } => {
                let first = files.first().map_or("", String::as_str);
                let more = files.len().saturating_sub(1);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                self.without_bars(|printer| {
                    printer.warning(&format!(
                        "[{tree}] `{first}`{more} changed during the build: the result is not stored, and the next build checks it again"
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
                bar.set_message(clean::line(what).into_owned());
                // The bar panics if it cannot create its thread.
                if std::thread::Builder::new().spawn(|| ()).is_ok() {
                    bar.enable_steady_tick(std::time::Duration::from_millis(120));
                }
            }
            None => self.status(&format!("[{tree}] {what}")),
        }
    }

    fn step(&self, tree: &str, done: u32, total: u32, what: &str) {
        match &self.bars {
            Some(bars) => {
                let bar = bars.bar(tree);
                if bar.length().is_none() {
                    bar.set_style(bars.style(Bars::KNOWN));
                }
                bar.set_length(total.into());
                bar.set_position(done.into());
                bar.set_message(clean::line(what).into_owned());
            }
            None => self.status(&format!("[{tree} {done}/{total}] {what}")),
        }
    }

    /// Download progress of all wheels or packages in MiB. Installers do not report the progress within one wheel.
    fn installing(&self, what: &str, done: u64, total: u64) {
        const MEBIBYTE: u64 = 1 << 20;
        if what.is_empty() {
            self.end(DOWNLOAD);
            return;
        }
        let steps = |bytes: u64| u32::try_from(bytes / MEBIBYTE).unwrap_or(u32::MAX);
        match &self.bars {
            Some(_) => self.step(DOWNLOAD, steps(done), steps(total), &format!("MiB {what}")),
            None if total > 0 => {
                self.status(&format!("[{DOWNLOAD} {}/{} MiB] {what}", steps(done), steps(total)));
            }
            None => {}
        }
    }

    /// A line of a tool's output. It is in the log, so it is printed only with `-v`, except that lines of cargo serve as progress.
    fn line(&self, tree: &str, text: &str) {
        if self.printer.verbosity() == Verbosity::Verbose {
            self.without_bars(|printer| printer.detail(&format!("[{tree}] {text}")));
        } else if tree == "cargo" {
            match &self.bars {
                Some(bars) => {
                    bars.bar(tree)
                        .set_message(clean::line(&screen(text.trim(), Colors::Remove)).into_owned());
                }
                None => self.status(&format!("[{tree}] {}", text.trim())),
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

    fn status(&self, text: &str) {
        self.without_bars(|printer| printer.status(text));
    }

    /// Hides the progress bars while writing.
    fn without_bars(&self, write: impl FnOnce(&Printer)) {
        match &self.bars {
            Some(bars) => bars.all.suspend(|| write(self.printer)),
            None => write(self.printer),
        }
    }
}

/// The first characters of a key, enough to compare two keys.
fn short(key: &str) -> &str {
    key.get(..12).unwrap_or(key)
}

/// `[cpu] ccache: 12 of 15 compilations were cached (80 %); 1 not cacheable`.
/// Where the languages of a tree will be compiled.
fn distributing(
    tree: &str,
    launcher: &str,
    languages: &[String],
    (slots, servers): (Option<u32>, Option<u32>),
) -> String {
    let servers = servers.map(|servers| format!("build servers: {servers}"));
    let slots = slots.map(|slots| format!("{slots} at once"));
    let numbers: Vec<String> = servers.into_iter().chain(slots).collect();
    let numbers = if numbers.is_empty() { String::new() } else { format!(" ({})", numbers.join(", ")) };
    format!("[{tree}] {launcher} distributes {}{numbers}", names(languages.iter().map(String::as_str)))
}

/// The languages that are compiled on this machine, by reason.
fn not_distributed(tree: &str, launcher: &str, local: &BTreeMap<String, String>) -> Vec<String> {
    let reasons: BTreeSet<&String> = local.values().collect();
    let sentence = |reason: &String| {
        let languages = local.iter().filter(|(_, why)| *why == reason).map(|(language, _)| language.as_str());
        format!("[{tree}] {launcher} does not distribute {}: {reason}", names(languages))
    };
    reasons.into_iter().map(sentence).collect()
}

/// Where the compilations of a tree ran.
fn distributed(tree: &str, servers: &BTreeMap<String, u64>, (failed, misses): (u64, u64)) -> String {
    let each: Vec<String> = servers.iter().map(|(server, count)| format!("{server}: {count}")).collect();
    let each = if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) };
    let all = servers.values().copied().fold(0, u64::saturating_add);
    let failed = if failed > 0 { format!("; not distributed: {failed}") } else { String::new() };
    format!("[{tree}] compiled on build servers: {all}{each}; not cached: {misses}{failed}")
}

fn cached(tree: &str, launcher: &str, (hits, misses, other): (u64, u64, u64)) -> String {
    let all = hits.saturating_add(misses);
    let share = (u128::from(hits) * 100)
        .checked_div(u128::from(all))
        .map(|share| format!(" ({share} %)"))
        .unwrap_or_default();
    let rest = if other > 0 { format!("; {other} not cacheable") } else { String::new() };
    format!("[{tree}] {launcher}: {hits} of {all} compilations were cached{share}{rest}")
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
    const UNKNOWN: usize = 0;
    const KNOWN: usize = 1;

    fn style(&self, template: usize) -> ProgressStyle {
        let style = ProgressStyle::with_template(self.templates[template]);
        style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, ProgressBar>> {
        self.by_tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bar(&self, tree: &str) -> ProgressBar {
        let mut bars = self.lock();
        let make = || {
            let bar = self.all.add(ProgressBar::no_length());
            bar.set_style(self.style(Bars::UNKNOWN));
            bar.set_prefix(clean::line(tree).into_owned());
            bar
        };
        bars.entry(tree.to_owned()).or_insert_with(make).clone()
    }
}
