//! Recognizes commands that need a GPU at run time.

use gpubuild_detect::finding::Severity;

use super::CommandView;
use crate::file::shell::ShellCommand;
use crate::file::text::has_extension;

/// A command that needs a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuUse {
    /// The command or code that needs it, for messages.
    pub what: String,
    /// Whether the command certainly fails without a GPU.
    pub is_certain: bool,
    /// Whether the command only prints what it finds.
    pub is_print: bool,
}

impl GpuUse {
    /// The severity of a missing GPU. `is_substituted`: whether the output is used by another command.
    #[must_use]
    pub fn severity(&self, is_substituted: bool) -> Severity {
        match (self.is_certain && !is_substituted, self.is_print) {
            (true, _) => Severity::Error,
            (_, true) => Severity::Info,
            _ => Severity::Warning,
        }
    }
}

/// Programs that fail without a loaded driver.
const PROGRAMS: &[&str] =
    &["nvidia-smi", "rocm-smi", "amd-smi", "rocminfo", "nvidia-debugdump", "deviceQuery", "bandwidthTest"];

/// The use of a GPU by a command, if any.
#[must_use]
pub fn gpu_use(command: &ShellCommand) -> Option<GpuUse> {
    let view = CommandView::new(command);
    let certain = |what: String| Some(GpuUse { what, is_certain: true, is_print: false });
    let likely = |what: String| Some(GpuUse { what, is_certain: false, is_print: false });
    let program = view.program;
    if PROGRAMS.contains(&program) {
        let is_info = view.has("--help") || view.has("-h") || view.has("--version");
        return if is_info { None } else { certain(format!("`{program}`")) };
    }
    if matches!(program, "docker" | "podman") && view.has("run") {
        let requests_gpu = view.words.iter().any(|word| {
            word.text == "--gpus"
                || word.text.starts_with("--gpus=")
                || word.text.starts_with("nvidia.com/gpu=")
        });
        return if requests_gpu { certain(format!("`{program} run --gpus`")) } else { None };
    }
    if let Some(code) = python_code(command, view) {
        return of_python(&code);
    }
    let is_pytest =
        matches!(program, "pytest" | "py.test") || (program.starts_with("python") && view.has("pytest"));
    if is_pytest {
        let marker = view.option("-m").filter(|marker| *marker != "pytest" && selects_gpu(marker));
        let last =
            view.words.iter().rposition(|word| word.text == "-m").and_then(|at| view.words.get(at + 1));
        let marker =
            marker.or_else(|| last.map(|word| word.text.as_str()).filter(|marker| selects_gpu(marker)));
        let is_excluded = |index: usize| {
            let before = index.checked_sub(1).map_or("", |before| view.words[before].text.as_str());
            matches!(before, "--deselect" | "--ignore" | "--ignore-glob" | "-k")
        };
        let path = view
            .words
            .iter()
            .enumerate()
            .find(|(index, word)| is_gpu_path(&word.text) && !is_excluded(*index))
            .map(|(_, word)| word);
        return match (marker, path) {
            (Some(marker), _) => certain(format!("`pytest -m {marker}`")),
            (None, Some(path)) => likely(format!("`pytest {}`", path.text)),
            _ => None,
        };
    }
    if program == "ctest" {
        let chosen = ["-L", "--label-regex", "-R", "--tests-regex"].iter().find_map(|flag| view.option(flag));
        return chosen
            .filter(|chosen| selects_gpu(chosen))
            .and_then(|chosen| certain(format!("`ctest` with `{chosen}`")));
    }
    if program == "cargo" {
        let runs = ["test", "run", "bench", "nextest"]
            .iter()
            .any(|verb| view.words.first().is_some_and(|word| word.text == *verb));
        let features = view.option("--features").or_else(|| view.option("-F")).unwrap_or_default();
        let feature = features
            .split([',', ' '])
            .find(|feature| matches!(*feature, "cuda" | "cublas" | "hip" | "hipblas" | "rocm" | "cudnn"));
        return match feature {
            Some(feature) if runs && !view.has("--no-run") => {
                likely(format!("`cargo` with the feature `{feature}`"))
            }
            _ => None,
        };
    }
    None
}

/// The Python code in a command: from `-c` or a here-document.
fn python_code(command: &ShellCommand, view: CommandView<'_>) -> Option<String> {
    if !(view.program.starts_with("python") || view.program == "ipython") {
        return None;
    }
    let at = view.words.iter().position(|word| word.text == "-c");
    let inline = at.and_then(|at| view.words.get(at + 1)).map(|word| word.text.clone());
    inline.or_else(|| command.input.clone())
}

fn of_python(code: &str) -> Option<GpuUse> {
    let lines = || code.split(['\n', ';']).map(str::trim).filter(|line| !line.starts_with('#'));
    let asks = |line: &str| {
        line.contains("cuda.is_available()")
            || line.contains("cuda.device_count()")
            || line.contains("list_physical_devices('GPU')")
            || line.contains("list_physical_devices(\"GPU\")")
    };
    if let Some(line) = lines().find(|line| line.starts_with("assert") && asks(line)) {
        return Some(GpuUse { what: format!("`{}`", short(line)), is_certain: true, is_print: false });
    }
    let moves = [
        ".cuda()",
        ".to('cuda",
        ".to(\"cuda",
        "device='cuda",
        "device=\"cuda",
        "torch.cuda.get_device_name(",
        "torch.cuda.current_device(",
        "torch.cuda.get_device_capability(",
        "cuda.get_current_device(",
        "torch.cuda.init(",
    ];
    if let Some(line) =
        lines().find(|line| moves.iter().any(|text| line.contains(text)) && !line.contains("is_available()"))
    {
        let is_guarded = code.contains("if torch.cuda.is_available()") || code.contains("try:");
        let what = format!("`{}`", short(line));
        return (!is_guarded).then_some(GpuUse { what, is_certain: true, is_print: false });
    }
    lines().find(|line| asks(line)).map(|line| GpuUse {
        what: format!("`{}`", short(line)),
        is_certain: false,
        is_print: line.starts_with("print"),
    })
}

fn short(line: &str) -> String {
    super::super::text::sanitize(&line.chars().take(60).collect::<String>())
}

/// Whether a test selection includes GPU tests: `gpu and not slow`, but not `not gpu`.
fn selects_gpu(text: &str) -> bool {
    let words: Vec<String> = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::to_ascii_lowercase)
        .filter(|word| !word.is_empty())
        .collect();
    words.iter().enumerate().any(|(index, word)| {
        let is_gpu = matches!(word.as_str(), "gpu" | "cuda" | "rocm" | "gpus" | "hip");
        let is_negated = index.checked_sub(1).is_some_and(|before| words[before] == "not")
            || text.starts_with('^')
            || text.contains("?!");
        is_gpu && !is_negated
    })
}

/// Whether an argument is the path of GPU tests: `tests/gpu`, `test_cuda.py`.
fn is_gpu_path(text: &str) -> bool {
    let is_path = !text.starts_with('-') && (text.contains('/') || has_extension(text, "py"));
    is_path && text.split(['/', '_', '.', '-']).any(|part| matches!(part, "gpu" | "cuda" | "rocm"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::of;
    use super::*;

    #[test]
    fn commands_that_need_a_gpu_are_recognized() {
        for (text, expected) in [
            ("nvidia-smi", Some(true)),
            ("/usr/bin/nvidia-smi --query-gpu=name", Some(true)),
            ("nvidia-smi --help", None),
            ("docker run --rm --gpus all nvidia/cuda nvidia-smi", Some(true)),
            ("docker build .", None),
            ("python -c 'import torch; assert torch.cuda.is_available()'", Some(true)),
            ("python3 -c \"import torch; print(torch.cuda.is_available())\"", Some(false)),
            ("python -c 'import torch; torch.zeros(1).cuda()'", Some(true)),
            ("python -c 'import torch; print(torch.version.cuda)'", None),
            ("python train.py", None),
            ("pytest -m gpu", Some(true)),
            ("uv run pytest -m 'cuda and not slow' tests", Some(true)),
            ("pytest -m 'not gpu'", None),
            ("python -m pytest -m gpu tests", Some(true)),
            ("python -m pytest tests/gpu", Some(false)),
            ("pytest tests --deselect tests/a.py::test_on_cuda_host --ignore tests/gpu", None),
            ("ctest -L cuda", Some(true)),
            ("ctest -LE gpu --test-dir build", None),
            ("cargo test --features cuda", Some(false)),
            ("cargo test --features cuda --no-run", None),
            ("cargo build --features cuda", None),
            ("ls", None),
        ] {
            let seen = gpu_use(&of(text)[0]).map(|found| found.is_certain);
            assert_eq!(seen, expected, "{text}");
        }
    }
}
