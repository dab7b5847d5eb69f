//! Determines from the text of a log on which machine it was written, so that commands are chosen for that machine.

use gpubuild_core::Os;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::{Distro, Fact, Facts};
use gpubuild_detect::finding_text::CandidateMachine;

use super::signature::{Inside, KnownSystem, PlatformCue};
use super::{Signatures, cuda, text};

/// The path of nvcc in its toolkit.
pub(super) const NVCC: &str = "/bin/nvcc";

/// The machine on which a log was written, as far as its text shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPlatform {
    /// The operating system.
    pub os: Option<Os>,
    /// The distribution as `ID` of os-release, such as `ubuntu`.
    pub distro: Option<String>,
    /// Whether the log is of a container build.
    pub is_container: bool,
    /// Whether it was written in WSL.
    pub is_wsl: bool,
    /// The first line that shows the operating system, from 1, and the text in it.
    pub evidence: Option<(usize, String)>,
    /// The folder of the CUDA Toolkit whose nvcc the log names.
    pub cuda_root: Option<String>,
    /// The first release of the CUDA Toolkit that the log names, without the patch version.
    pub cuda: Option<Version>,
}

/// Lines of a log that show a platform, by row of the cues.
pub(super) struct PlatformVotes {
    counts: Vec<usize>,
    first: Vec<Option<(usize, usize)>>,
    /// Number of lines that start with a path of Windows, with the first of them and its drive.
    drives: usize,
    drive: Option<(usize, String)>,
    cuda_root: Option<String>,
    cuda: Option<Version>,
}

impl PlatformVotes {
    pub(super) fn new(rows: usize) -> Self {
        let (counts, first) = (vec![0; rows], vec![None; rows]);
        Self { counts, first, drives: 0, drive: None, cuda_root: None, cuda: None }
    }

    /// Counts a line that contains a text of a row.
    pub(super) fn add(&mut self, row: usize, text: usize, line: usize) {
        self.counts[row] += 1;
        self.first[row].get_or_insert((line, text));
    }

    /// Keeps the folder of the first nvcc.
    pub(super) fn add_compiler(&mut self, line: &[u8]) {
        if self.cuda_root.is_none() {
            self.cuda_root = cuda_root(line);
        }
    }

    /// Counts a line that starts with a path on a drive, such as `D:/src/main.cpp`.
    pub(super) fn add_path(&mut self, line: &[u8], number: usize) {
        let [drive @ b'A'..=b'Z', b':', b'/' | b'\\', next, ..] = line.trim_ascii_start() else { return };
        if next.is_ascii_alphanumeric() {
            self.drives += 1;
            self.drive.get_or_insert_with(|| (number, format!("{}:", char::from(*drive))));
        }
    }

    /// Keeps the first release of the CUDA Toolkit.
    pub(super) fn add_release(&mut self, line: &[u8]) {
        if self.cuda.is_none() {
            self.cuda = cuda::release(line);
        }
    }

    /// The platform that most lines show.
    pub(super) fn result(&self, cues: &[PlatformCue]) -> LogPlatform {
        let votes = |row: usize| self.counts[row] * cues[row].weight;
        let total = |os: Os| {
            let of_cues = (0..cues.len()).filter(|row| cues[*row].os == os).map(votes).sum::<usize>();
            of_cues + if os == Os::Windows { self.drives } else { 0 }
        };
        let mut systems = [Os::Linux, Os::Windows, Os::Macos].map(|os| (total(os), os));
        systems.sort_indirect_by_key(|(count, _)| std::cmp::Reverse(*count));
        if systems[0].0 == 0 || systems[0].0 == systems[1].0 {
            let (cuda_root, cuda) = (self.cuda_root.clone(), self.cuda.clone());
            return LogPlatform { cuda_root, cuda, ..LogPlatform::default() };
        }
        let os = systems[0].1;
        let rows = || (0..cues.len()).filter(|row| cues[*row].os == os && self.counts[*row] > 0);
        let mut distros: Vec<(usize, &str)> = Vec::new();
        for row in rows() {
            let Some(distro) = &cues[row].distro else { continue };
            match distros.iter_mut().find(|(_, known)| known == distro) {
                Some((count, _)) => *count += votes(row),
                None => distros.push((votes(row), distro)),
            }
        }
        let best = distros.iter().map(|(count, _)| *count).max().unwrap_or(0);
        let inside = |inside: Inside| rows().any(|row| cues[row].inside == Some(inside));
        let distro = distros.iter().find(|(count, _)| *count == best).map(|(_, distro)| (*distro).to_owned());
        // Of the lines that show the system, those that show the distribution say more.
        let shows = |row: &usize| distro.is_none() || cues[*row].distro == distro;
        let first =
            rows().filter(shows).filter_map(|row| self.first[row].map(|(line, text)| (line, row, text)));
        let first = first.min().map(|(line, row, text)| (line, cues[row].cues[text].clone()));
        let first = first.or_else(|| self.drive.clone().filter(|_| os == Os::Windows));
        LogPlatform {
            os: Some(os),
            distro,
            is_container: inside(Inside::Container),
            is_wsl: inside(Inside::Wsl),
            evidence: first,
            cuda_root: self.cuda_root.clone(),
            cuda: self.cuda.clone(),
        }
    }
}

/// The folder of the toolkit in a line with the path of an nvcc; `None` for an nvcc in `/usr/bin`. It becomes part of commands, so it has
/// only characters that a shell does not interpret, and no `..`.
fn cuda_root(line: &[u8]) -> Option<String> {
    let end = text::find(line, NVCC.as_bytes())?;
    // Not `nvcc_wrapper`, which projects have.
    if line.get(end + NVCC.len()).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte)) {
        return None;
    }
    let is_path = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(byte);
    let start = line[..end].iter().rposition(|byte| !is_path(byte)).map_or(0, |before| before + 1);
    if start > 0 && !b" \t'\"`=(:[,".contains(&line[start - 1]) {
        return None; // The path has other characters.
    }
    // The path of Windows begins with a drive.
    let is_drive = start > 0 && line[start - 1] == b':' && (start == 2 || !line[..start - 1].ends_with(b" "));
    let root = std::str::from_utf8(&line[start..end]).ok().filter(|_| !is_drive)?;
    (root.starts_with('/') && root != "/usr" && root.len() <= 100 && !root.contains(".."))
        .then(|| root.to_owned())
}

impl LogPlatform {
    /// Whether package commands can be chosen: the distribution is known, or the system has only one package manager.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.distro.is_some() || matches!(self.os, Some(Os::Windows | Os::Macos))
    }

    fn is_here(&self, system: &KnownSystem) -> bool {
        self.os.is_none_or(|os| os == system.os)
    }
}

impl Signatures {
    /// Facts of the machine of a log. What the log does not show about it is unknown; `reader` supplies the architecture only.
    #[must_use]
    pub fn facts(&self, platform: &LogPlatform, reader: &Facts) -> Facts {
        let os = platform.os.unwrap_or(Os::Linux);
        let mut of_os = self.systems.iter().filter(|system| system.os == os);
        // Windows and macOS have one row.
        let only = of_os.next().filter(|_| of_os.next().is_none()).map(|system| system.distro.as_str());
        self.elsewhere(platform, reader, os, platform.distro.as_deref().or(only))
    }

    /// The machines that a log may be from, if it does not show that exactly.
    #[must_use]
    pub fn candidates(&self, platform: &LogPlatform, reader: &Facts) -> Vec<CandidateMachine> {
        if platform.is_exact() {
            return Vec::new();
        }
        let possible = self.systems.iter().filter(|system| platform.is_here(system));
        possible
            .map(|system| CandidateMachine {
                label: system.label.clone(),
                facts: self.elsewhere(platform, reader, system.os, Some(&system.distro)),
            })
            .collect()
    }

    /// Whether cues in one line are of unrelated distributions: "`libssl-dev` on Ubuntu or `openssl-devel` on Fedora" is advice for every
    /// reader and does not show where the log was written.
    pub(super) fn is_advice(&self, cues: &[(usize, usize)]) -> bool {
        let mut distros = cues.iter().filter_map(|(row, _)| self.cues[*row].distro.as_deref());
        let Some(first) = distros.next() else { return false };
        distros.any(|other| other != first && !self.is_like(first, other) && !self.is_like(other, first))
    }

    /// Whether a distribution is derived from another one.
    fn is_like(&self, derived: &str, from: &str) -> bool {
        self.systems
            .iter()
            .any(|system| system.distro == derived && system.like.iter().any(|like| like == from))
    }

    /// Facts of a machine of which only the system and the distribution are known.
    fn elsewhere(&self, platform: &LogPlatform, reader: &Facts, os: Os, distro: Option<&str>) -> Facts {
        let mut facts = reader.clone();
        facts.platform.os = os;
        facts.distro = distro.map(|id| {
            let known = self.systems.iter().find(|system| system.distro == id);
            let like = known.map(|system| system.like.clone()).unwrap_or_default();
            fact(Distro { id: id.to_owned(), version: String::new(), like, name: id.to_owned() })
        });
        let is_linux = os == Os::Linux;
        facts.container = (is_linux && platform.is_container).then(|| fact("docker".to_owned()));
        facts.wsl = (is_linux && platform.is_wsl && !platform.is_container).then(|| fact(2));
        facts.kernel = None;
        facts.libc = None;
        facts.gpus.clear();
        facts.drivers.clear();
        facts.overrides.clear();
        facts
    }
}

fn fact<T>(value: T) -> Fact<T> {
    Fact { value, found_via: "log".to_owned(), evidence: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_of_the_toolkit_is_read_from_the_path_of_its_compiler() {
        for (line, expected) in [
            ("[1/2] /opt/cuda-12.4/bin/nvcc -c a.cu", Some("/opt/cuda-12.4")),
            ("error: command '/usr/local/cuda-11.8/bin/nvcc' failed", Some("/usr/local/cuda-11.8")),
            ("-DCMAKE_CUDA_COMPILER=/apps/cuda/12/bin/nvcc", Some("/apps/cuda/12")),
            ("/usr/bin/nvcc -c a.cu", None),
            ("/opt/../tmp/x/bin/nvcc -c a.cu", None),
            ("/opt/$(id)/x/bin/nvcc -c a.cu", None),
            ("C:/CUDA/v12.4/bin/nvcc.exe", None),
            ("nvcc -c a.cu", None),
        ] {
            assert_eq!(cuda_root(line.as_bytes()).as_deref(), expected, "{line}");
        }
    }
}
