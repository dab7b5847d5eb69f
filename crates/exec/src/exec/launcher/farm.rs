//! Launchers that distribute compilations: how many run at once, and whether each language leaves this machine.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubuild_core::clean::short;
use gpubuild_host::{Command, CommandOutput, Host};
use gpubuild_plan::plan::launchers::{LANGUAGES, entry};
use gpubuild_plan::plan::{PlannedFarm, PlannedQuestion, PlannedTree};
use serde::Deserialize;

use super::statistics::{ServerStatistics, with_env};
use super::{LauncherPair, Trial, message};
use crate::cmake;
use crate::event::{BuildEvent, Sink};

/// Time limit for the question to a scheduler.
const STATUS_DEADLINE: Duration = Duration::from_secs(20);
/// Time limit for the text port of a scheduler. icecream's answers at once, except for some seconds after a daemon has connected. Without
/// an answer, the build only has fewer jobs.
const TEXT_DEADLINE: Duration = Duration::from_secs(5);
/// The most jobs that are taken from a launcher: every one is a process on this machine.
const MOST_SLOTS: u32 = 1024;
/// The longest part of an answer in a message, in characters.
const SHOWN: usize = 300;

/// What a launcher reports about its build servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FarmStatus {
    /// Number of compilations that run at once; `None` if it cannot tell.
    slots: Option<u32>,
    /// Number of build servers; `None` if it cannot tell.
    servers: Option<u32>,
    /// Why a scheduler did not report the number of slots.
    slots_unknown: Option<String>,
}

/// Asks the launchers that distribute a tree's compilations, and tests that each language leaves this machine. Reports the result. Returns
/// the number of compilations that run at once if any language is distributed.
pub(in crate::exec) fn prepare(host: &dyn Host, sink: Sink<'_>, tree: &PlannedTree) -> Option<u32> {
    let mut by_launcher: BTreeMap<&str, Vec<(&str, &PlannedFarm)>> = BTreeMap::new();
    for (language, farm) in LANGUAGES.iter().filter_map(|name| tree.farms.get_key_value(*name)) {
        by_launcher.entry(&farm.launcher).or_default().push((language, farm));
    }
    let mut trials = Trials::read(host, tree);
    let mut most = None;
    for (launcher, farms) in by_launcher {
        most = most.max(distribute(sink, &mut trials, launcher, &farms));
    }
    trials.write();
    most
}

/// Asks one launcher. Returns its number of slots if it distributes a language.
fn distribute(
    sink: Sink<'_>,
    trials: &mut Trials<'_>,
    launcher: &str,
    farms: &[(&str, &PlannedFarm)],
) -> Option<u32> {
    let (host, tree) = (trials.host, trials.tree);
    let is_required = farms.iter().any(|(_, farm)| farm.required);
    let asked = farms.iter().find(|(_, farm)| farm.local.is_none()).map(|(_, farm)| farm);
    let status = asked.map_or_else(
        || Ok(FarmStatus::default()),
        |farm| match &farm.scheduler {
            Some(question) => ask_scheduler(host, question),
            None => ask(host, tree, &farm.status),
        },
    );
    if !is_required && status.is_err() {
        // It is only a cache.
        return None;
    }
    let (mut languages, mut local) = (Vec::new(), BTreeMap::new());
    for (language, farm) in farms {
        let why = farm
            .local
            .clone()
            .or_else(|| status.as_ref().err().cloned())
            .or_else(|| trials.fault(language, farm));
        match why {
            Some(why) => {
                local.insert((*language).to_owned(), why);
            }
            None => languages.push((*language).to_owned()),
        }
    }
    let FarmStatus { slots, servers, slots_unknown } = status.unwrap_or_default();
    let slots = slots.filter(|_| !languages.is_empty()).map(|slots| slots.min(MOST_SLOTS));
    sink(&BuildEvent::Distributing {
        tree: tree.id.clone(),
        launcher: launcher.to_owned(),
        languages,
        local,
        slots,
        servers,
        slots_unknown,
    });
    slots
}

/// Asks the text port of a scheduler. Its launcher may distribute although the port cannot be reached.
fn ask_scheduler(host: &dyn Host, question: &PlannedQuestion) -> Result<FarmStatus, String> {
    let PlannedQuestion { address, text } = question;
    let unknown = match host.converse(address, text, TEXT_DEADLINE).map(|answer| machines(&answer)) {
        Ok(Some((_, 0))) => return Err(format!("the scheduler at {address} has no machines that compile")),
        Ok(Some((servers, slots))) => {
            return Ok(FarmStatus { slots: Some(slots), servers: Some(servers), slots_unknown: None });
        }
        Ok(None) => format!("{address} does not answer as a scheduler"),
        Err(error) => format!("no answer from the scheduler at {address}: {error}"),
    };
    Ok(FarmStatus { slots_unknown: Some(unknown), ..FarmStatus::default() })
}

/// Parses the list of icecream's machines: ` NAME (ADDRESS:PORT) [PLATFORM] speed=… jobs=RUNNING/SLOTS load=…`. Returns their number and
/// that of their slots. Those with port 0 are left out: they compile only their own files. `None` if it is no such list.
fn machines(answer: &str) -> Option<(u32, u32)> {
    if !answer.starts_with("200-ICECC ") || !answer.lines().any(|line| line == "200 done") {
        return None;
    }
    // Lines of running jobs, which name files, are indented more.
    let all = answer.lines().filter(|line| line.starts_with(' ') && !line.starts_with("  "));
    let slots = all
        .filter(|line| !line.contains(":0) ["))
        .filter_map(|line| line.rsplit_once(" jobs=")?.1.split(' ').next()?.split_once('/')?.1.parse().ok())
        .filter(|slots: &u32| *slots > 0);
    Some(slots.fold((0, 0), |(servers, sum), slots| (servers + 1, slots.saturating_add(sum))))
}

/// Asks for the status of the build servers, or returns why they cannot be used.
fn ask(host: &dyn Host, tree: &PlannedTree, argv: &[String]) -> Result<FarmStatus, String> {
    let Some((program, arguments)) = argv.split_first() else { return Ok(FarmStatus::default()) };
    let command = Command::new(program, STATUS_DEADLINE).args(arguments.iter().map(String::as_str));
    let output = host.run(&with_env(command, tree)).map_err(|error| error.to_string())?;
    if !output.success() {
        return Err(format!("`{}` failed: {}", argv.join(" "), message(&output)));
    }
    parse(&output, argv)
}

/// Parses a number, or the JSON of `sccache --dist-status`.
fn parse(output: &CommandOutput, argv: &[String]) -> Result<FarmStatus, String> {
    #[derive(Deserialize)]
    enum SccacheStatus {
        Disabled(serde_json::Value),
        NotConnected(Option<String>, String),
        SchedulerStatus(Option<String>, Servers),
    }
    #[derive(Deserialize)]
    struct Servers {
        num_servers: u32,
        num_cpus: u32,
    }
    let text = output.stdout.trim();
    if let Ok(slots) = text.parse() {
        return match slots {
            0 => Err("it has no slots for compilations".to_owned()),
            slots => Ok(FarmStatus { slots: Some(slots), ..FarmStatus::default() }),
        };
    }
    let unknown = |_| format!("`{}` printed no status", argv.join(" "));
    let named =
        |url: Option<String>| url.map_or_else(String::new, |url| format!(" at {}", short(&url, SHOWN)));
    match serde_json::from_str(text).map_err(unknown)? {
        SccacheStatus::Disabled(why) if why.as_str().is_some_and(|why| why.contains("dist-client")) => {
            Err("sccache was compiled without `dist-client`".to_owned())
        }
        SccacheStatus::Disabled(_) => Err(DISABLED.to_owned()),
        SccacheStatus::NotConnected(url, why) => {
            Err(format!("no connection to the scheduler{}: {}", named(url), short(&why, SHOWN)))
        }
        SccacheStatus::SchedulerStatus(url, Servers { num_servers: 0, .. }) => {
            Err(format!("the scheduler{} has no build servers", named(url)))
        }
        SccacheStatus::SchedulerStatus(_, Servers { num_servers, num_cpus }) => {
            Ok(FarmStatus { slots: Some(num_cpus), servers: Some(num_servers), slots_unknown: None })
        }
    }
}

/// The cause of sccache's answer `Disabled`.
const DISABLED: &str = "distribution is disabled in sccache's server: its configuration names no scheduler, the server was started with \
                        another configuration (`sccache --stop-server`), or it was compiled without `dist-client`";

/// Languages of a tree that were compiled on another machine in an earlier build, with the same compiler and launcher. A language that was
/// not is tested again by the next build, because build servers come and go.
struct Trials<'a> {
    host: &'a dyn Host,
    tree: &'a PlannedTree,
    known: BTreeMap<String, String>,
    passed: BTreeMap<String, String>,
}

impl<'a> Trials<'a> {
    fn read(host: &'a dyn Host, tree: &'a PlannedTree) -> Self {
        let known = crate::store::read_json(host, &path(tree)).unwrap_or_default();
        Self { host, tree, known, passed: BTreeMap::new() }
    }

    /// Why a language is compiled on this machine. It is tested if distribution was requested and the launcher has statistics.
    fn fault(&mut self, language: &str, farm: &PlannedFarm) -> Option<String> {
        let launcher = self.tree.cache.get(&entry(language)).filter(|value| !value.is_empty());
        let Some(launcher) = launcher else {
            return Some("the launcher does not work with its compiler".to_owned());
        };
        let program = farm.status.first().filter(|_| farm.required)?;
        let recompile = farm.recompile.as_ref()?;
        let pair = LauncherPair {
            host: self.host,
            tree: self.tree,
            language,
            launcher: launcher.split(';').collect(),
        };
        let key = pair.key();
        if self.known.get(language) != Some(&key)
            && let Some(why) = pair.distribution_fault(program, recompile)
        {
            return Some(why);
        }
        self.passed.insert(language.to_owned(), key);
        None
    }

    fn write(&self) {
        if self.passed != self.known
            && let Err(error) = crate::store::write_json(self.host, &path(self.tree), &self.passed)
        {
            // The next build tests the languages again.
            log::debug!("failed to save which languages are distributed: {error}");
        }
    }
}

fn path(tree: &PlannedTree) -> gpubuild_host::HostPath {
    cmake::own_folder(tree).join("farms.json")
}

impl LauncherPair<'_> {
    /// Why this compiler's compilations do not leave the machine; `None` if a test file was compiled elsewhere.
    fn distribution_fault(&self, program: &str, recompile: &str) -> Option<String> {
        let compiler = self.compiler()?;
        let statistics = || ServerStatistics::read(self.host, self.tree, program);
        let untested = |why: String| Some(format!("it could not be tested: {why}"));
        let before = statistics();
        let output = match self.in_folder(|folder| {
            let mut trial = Trial::new(self, folder, &compiler)?;
            trial.env.push((recompile, "1".to_owned()));
            trial.started().map_err(std::io::Error::other)
        }) {
            Ok(output) => output,
            Err(error) => return untested(error.to_string()),
        };
        if !output.success() {
            return untested(message(&output));
        }
        let Some(after) = statistics() else {
            return untested("its server reports no statistics".to_owned());
        };
        let during = after.since(&before.unwrap_or_default());
        if !during.distributed.is_empty() {
            return None;
        }
        Some(match during.not_distributed {
            0 => "its server compiled a test file on this machine".to_owned(),
            _ => "a test file could not be compiled on a build server; the log of sccache's server has the cause \
                  (SCCACHE_LOG=debug, SCCACHE_ERROR_LOG=FILE)"
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> Result<FarmStatus, String> {
        let output = CommandOutput { stdout: text.to_owned(), exit: Some(0), ..CommandOutput::default() };
        parse(&output, &["sccache".to_owned(), "--dist-status".to_owned()])
    }

    #[test]
    fn slots_are_a_number_or_the_processors_of_the_build_servers() {
        assert_eq!(status("18\n"), Ok(FarmStatus { slots: Some(18), ..FarmStatus::default() }));
        let text = r#"{"SchedulerStatus":["http://10.0.0.1:10600/",{"num_servers":2,"num_cpus":64,"in_progress":0}]}"#;
        assert_eq!(status(text), Ok(FarmStatus { slots: Some(64), servers: Some(2), slots_unknown: None }));
    }

    #[test]
    fn reason_is_named_if_there_are_no_build_servers() {
        for (text, expected) in [
            ("0\n", "no slots"),
            (r#"{"Disabled":"disabled"}"#, "names no scheduler"),
            // sccache 0.4 of Debian 12.
            (r#"{"Disabled":"dist-client feature not selected"}"#, "compiled without `dist-client`"),
            (
                r#"{"NotConnected":["http://10.0.0.1:10600/","error sending request"]}"#,
                "error sending request",
            ),
            (r#"{"NotConnected":[null,"no url"]}"#, "no url"),
            (
                r#"{"SchedulerStatus":["http://10.0.0.1:10600/",{"num_servers":0,"num_cpus":0,"in_progress":0}]}"#,
                "at http://10.0.0.1:10600/ has no build servers",
            ),
            ("", "printed no status"),
            ("null", "printed no status"),
        ] {
            let why = status(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
        let long = "x".repeat(1 << 20);
        let why = status(&format!(r#"{{"NotConnected":["{long}","{long}"]}}"#)).unwrap_err();
        assert!(why.len() < 1000, "{} bytes", why.len());
    }

    #[test]
    fn slots_of_icecream_are_those_of_the_machines_that_compile_for_others() {
        let list = |lines: &str| {
            format!(
                "200-ICECC 1.4.0: 45s uptime, 2 hosts, 0 jobs in queue (0 total).\n200 Use 'help' for help and 'quit' to quit.\n{lines}200 \
                 done\n200 Good Bye!\n"
            )
        };
        let many = " local (10.0.0.1:0) [x86_64] speed=0.00 jobs=0/2 load=1000\n\
                     \x20a (10.0.0.2:10245) [x86_64] speed=61.20 jobs=1/16 load=120\n\
                     \x20  17 COMP sub:local on:a file:x jobs=1/900 \n\
                     \x20b (10.0.0.3:10245) [x86_64] speed=0.00 jobs=0/8 load=1000 busy installing since 3 s\n";
        for (lines, expected) in [
            (many, (2, 24)),
            ("", (0, 0)),
            (" a (10.0.0.2:0) [x86_64] speed=0.00 jobs=0/2 load=1000\n", (0, 0)),
            (
                " a (10.0.0.2:1) [x] jobs=0/-5 load=1\n b (1:1) [x] jobs=0/1e999 \n c (1:1) [x] jobs=0 \n",
                (0, 0),
            ),
            (" a (1:1) [x] jobs=0/4294967295 \n b (1:1) [x] jobs=0/4294967295 \n", (2, u32::MAX)),
        ] {
            assert_eq!(machines(&list(lines)), Some(expected), "{lines}");
        }
        for other in
            ["", "HTTP/1.1 400 Bad Request\r\n\r\n", "200-ICECC 1.4.0: cut\n a (1:1) [x] jobs=0/4 \n"]
        {
            assert_eq!(machines(other), None, "{other}");
        }
    }
}
