//! The document of `gpubuild bench`: the speed of each backend with one model, recommendations, and a plot.

use std::fmt::Write as _;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use serde::{Deserialize, Serialize};

use super::Schema;
use super::timings::escaped;

/// Name and version of the document that the program of a project prints for one backend.
const PROGRAM: (&str, u32) = ("infer-bench", 1);

/// Two backends count as equally fast below this ratio.
const SAME: f64 = 1.05;

/// The speed of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Speed {
    /// Speed of the fastest run, in tokens per second.
    pub best_tokens_per_second: f64,
    /// Speed of the slowest run, in tokens per second.
    pub worst_tokens_per_second: f64,
}

impl Speed {
    fn with(self, other: Self) -> Self {
        Self {
            best_tokens_per_second: self.best_tokens_per_second.max(other.best_tokens_per_second),
            worst_tokens_per_second: self.worst_tokens_per_second.min(other.worst_tokens_per_second),
        }
    }
}

/// The result of one backend.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BackendBench {
    /// Id of the backend.
    pub id: Backend,
    /// Name of the device that it ran on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Kind of the device: `cpu`, `integrated`, `discrete`, `software`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Speed of prompt processing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Speed>,
    /// Speed of token generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode: Option<Speed>,
    /// Share of the measured memory bandwidth that token generation reaches, between 0 and 1; only for the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// Why there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl BackendBench {
    /// Parses the document that the program printed.
    ///
    /// # Errors
    /// It is not a document of the supported format and version.
    pub fn parse(id: Backend, text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct KnownFigure {
            name: String,
            version: u32,
        }
        #[derive(Deserialize)]
        struct BenchDevice {
            name: String,
            kind: String,
        }
        #[derive(Deserialize)]
        struct SpeedReport {
            schema: KnownFigure,
            device: BenchDevice,
            model: String,
            prompt: Speed,
            decode: Speed,
            decode_unattended: Option<Speed>,
            fraction: Option<f64>,
        }
        let report: SpeedReport = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if (report.schema.name.as_str(), report.schema.version) != PROGRAM {
            return Err(format!(
                "it printed `{}` {}, not `{}` {}",
                report.schema.name, report.schema.version, PROGRAM.0, PROGRAM.1
            ));
        }
        let faster = |other: &Speed| other.best_tokens_per_second > report.decode.best_tokens_per_second;
        Ok(Self {
            id,
            device: Some(report.device.name),
            kind: Some(report.device.kind),
            model: Some(report.model),
            prompt: Some(report.prompt),
            decode: Some(report.decode_unattended.filter(faster).unwrap_or(report.decode)),
            fraction: report.fraction,
            reason: None,
        })
    }

    /// A backend without a result.
    #[must_use]
    pub fn without(id: Backend, reason: String) -> Self {
        let (device, kind, model, prompt, decode, fraction) = (None, None, None, None, None, None);
        Self { id, device, kind, model, prompt, decode, fraction, reason: Some(reason) }
    }

    /// Merges the results of two rounds of the same backend.
    #[must_use]
    pub fn and(self, round: Self) -> Self {
        if self.reason.is_some() || round.reason.is_some() {
            return if self.reason.is_some() { self } else { round };
        }
        let both =
            |one: Option<Speed>, other: Option<Speed>| one.zip(other).map(|(one, other)| one.with(other));
        let fraction = [self.fraction, round.fraction].into_iter().flatten().reduce(f64::max);
        Self {
            prompt: both(self.prompt, round.prompt),
            decode: both(self.decode, round.decode),
            fraction,
            ..self
        }
    }

    fn best(&self, what: fn(&Self) -> Option<Speed>) -> f64 {
        what(self).map_or(0.0, |speed| speed.best_tokens_per_second)
    }
}

/// The document of `gpubuild bench --json`.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BenchDocument {
    /// `bench`.
    pub schema: Schema,
    /// The results, in the usual order of backends.
    pub backends: Vec<BackendBench>,
    /// Which backend to use, one sentence each.
    pub guidance: Vec<String>,
}

impl BenchDocument {
    /// The document for these results.
    #[must_use]
    pub fn new(mut backends: Vec<BackendBench>) -> Self {
        backends.sort_indirect_by_key(|report| report.id);
        let guidance = guidance(&backends);
        Self { schema: Schema { name: "bench", version: 1 }, backends, guidance }
    }

    /// The results as the rows of a table; the first row has the headings.
    #[must_use]
    pub fn rows(&self) -> Vec<Vec<String>> {
        let speed = |speed: Option<Speed>| match speed {
            Some(speed) => format!(
                "{} ({} to {})",
                number(speed.best_tokens_per_second),
                number(speed.worst_tokens_per_second),
                number(speed.best_tokens_per_second)
            ),
            None => "-".to_owned(),
        };
        let mut rows = vec![
            ["backend", "prompt, tokens/s", "generation, tokens/s", "bandwidth", "device"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for report in &self.backends {
            let remark = report.reason.as_deref().or(report.device.as_deref()).unwrap_or_default();
            let fraction =
                report.fraction.map_or_else(|| "-".to_owned(), |part| format!("{:.0} %", part * 100.0));
            let cells = [report.id.id(), &speed(report.prompt), &speed(report.decode), &fraction, remark];
            rows.push(cells.map(str::to_owned).to_vec());
        }
        rows
    }

    /// A bar chart of all backends with results, as a self-contained SVG file.
    #[must_use]
    pub fn svg(&self) -> String {
        let measured: Vec<&BackendBench> =
            self.backends.iter().filter(|report| report.decode.is_some()).collect();
        let (top, line, left, width) = (48, 22, 90, 420);
        let height = top + measured.len() * (2 * line + 12) + 12;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 {height}\" role=\"img\" aria-labelledby=\"t\" \
             font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title id=\"t\">tokens per second of each backend</title>\n\
             <style>text{{fill:#1a1a1a}}.p{{fill:#3b6ea5}}.d{{fill:#c0662b}}@media (prefers-color-scheme: dark)\
             {{text{{fill:#e8e8e8}}.p{{fill:#7fb0e0}}.d{{fill:#f0a070}}}}</style>\n"
        );
        let model = measured.iter().find_map(|report| report.model.as_deref()).unwrap_or_default();
        let _ = writeln!(
            svg,
            "<text x=\"8\" y=\"18\" font-weight=\"600\">{}: tokens per second</text>",
            escaped(model)
        );
        let _ = writeln!(
            svg,
            "<text x=\"8\" y=\"36\">upper bar: prompt processing; lower bar: token generation</text>"
        );
        for (kind, what) in [
            ("p", BackendBench::prompt_of as fn(&BackendBench) -> Option<Speed>),
            ("d", BackendBench::decode_of),
        ] {
            let most = measured.iter().map(|report| report.best(what)).fold(f64::MIN_POSITIVE, f64::max);
            for (place, report) in measured.iter().enumerate() {
                let y = top + place * (2 * line + 12) + if kind == "p" { 0 } else { line };
                let value = report.best(what);
                let bar = value / most * f64::from(width);
                if kind == "p" {
                    let _ = writeln!(svg, "<text x=\"8\" y=\"{}\">{}</text>", y + line, report.id);
                }
                let _ = writeln!(
                    svg,
                    "<rect class=\"{kind}\" x=\"{left}\" y=\"{y}\" width=\"{bar:.1}\" height=\"{}\"/><text x=\"{:.1}\" y=\"{}\">{}</text>",
                    line - 4,
                    f64::from(left) + bar + 6.0,
                    y + 14,
                    number(value)
                );
            }
        }
        svg + "</svg>\n"
    }
}

impl BackendBench {
    fn prompt_of(&self) -> Option<Speed> {
        self.prompt
    }

    fn decode_of(&self) -> Option<Speed> {
        self.decode
    }
}

fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// The fastest backend, and the second fastest with the ratio of their speeds.
fn fastest(
    backends: &[BackendBench],
    what: fn(&BackendBench) -> Option<Speed>,
) -> Option<(&BackendBench, Option<(&BackendBench, f64)>)> {
    let mut able: Vec<&BackendBench> = backends.iter().filter(|report| what(report).is_some()).collect();
    able.sort_indirect_by(|one, other| other.best(what).total_cmp(&one.best(what)));
    let first = *able.first()?;
    let next = able.get(1).map(|next| (*next, first.best(what) / next.best(what).max(f64::MIN_POSITIVE)));
    Some((first, next))
}

/// Recommends backends.
fn guidance(backends: &[BackendBench]) -> Vec<String> {
    let mut lines = Vec::new();
    let Some((writer, next)) = fastest(backends, BackendBench::decode_of) else {
        return vec!["no backend ran; `gpubuild doctor` shows why".to_owned()];
    };
    lines.push(match next {
        None => format!("use `{}`: no other backend ran", writer.id),
        Some((other, ratio)) if ratio < SAME => {
            format!("`{}` and `{}` generate tokens equally fast", writer.id, other.id)
        }
        Some((other, ratio)) => {
            format!(
                "use `{}`: it generates tokens {ratio:.1} times as fast as `{}`, the second fastest",
                writer.id, other.id
            )
        }
    });
    if let Some((reader, _)) = fastest(backends, BackendBench::prompt_of)
        && reader.id != writer.id
    {
        let ratio = reader.best(BackendBench::prompt_of)
            / writer.best(BackendBench::prompt_of).max(f64::MIN_POSITIVE);
        if ratio >= SAME {
            lines.push(format!(
                "for long prompts and short answers, use `{}`: it processes prompts {ratio:.1} times as fast as `{}`",
                reader.id, writer.id
            ));
        }
    }
    let full = |report: &&BackendBench| report.fraction.is_some_and(|part| part >= 0.85);
    for report in backends.iter().filter(full) {
        lines.push(format!("`{}` is limited by the memory bandwidth: a smaller weight type would be faster, better kernels would not", report.id));
    }
    for report in backends.iter().filter(|report| report.kind.as_deref() == Some("software")) {
        lines.push(format!(
            "`{}` ran on a software device, which uses the processor: its speed says nothing about a GPU",
            report.id
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(kind: &str, prompt: f64, decode: f64) -> String {
        format!(
            r#"{{"schema":{{"name":"infer-bench","version":1}},"backend":"x","device":{{"name":"D & <E>","kind":"{kind}"}},
            "model":"tiny","prompt":{{"best_tokens_per_second":{prompt},"worst_tokens_per_second":{prompt}}},
            "decode":{{"best_tokens_per_second":{decode},"worst_tokens_per_second":1.0}},"bytes_per_token":7,"gigabytes_per_second":1.0}}"#
        )
    }

    fn bench(id: Backend, kind: &str, prompt: f64, decode: f64) -> BackendBench {
        BackendBench::parse(id, &document(kind, prompt, decode)).unwrap()
    }

    #[test]
    fn fastest_backend_is_recommended_with_the_ratio() {
        let all = vec![
            bench(Backend::Vulkan, "discrete", 900.0, 40.0),
            bench(Backend::Cpu, "cpu", 100.0, 20.0),
            BackendBench::without(Backend::Cuda, "no driver".to_owned()),
        ];
        let document = BenchDocument::new(all);
        assert_eq!(
            document.guidance,
            ["use `vulkan`: it generates tokens 2.0 times as fast as `cpu`, the second fastest"]
        );
        assert_eq!(document.rows()[1][0], "cpu");
        assert_eq!(document.rows()[2][4], "no driver");
    }

    #[test]
    fn tie_and_faster_prompt_processing_are_reported() {
        let document = BenchDocument::new(vec![
            bench(Backend::Opencl, "discrete", 300.0, 20.0),
            bench(Backend::Cpu, "cpu", 100.0, 20.5),
        ]);
        assert_eq!(
            document.guidance,
            [
                "`cpu` and `opencl` generate tokens equally fast",
                "for long prompts and short answers, use `opencl`: it processes prompts 3.0 times as fast as `cpu`"
            ]
        );
        assert_eq!(BenchDocument::new(vec![]).guidance, ["no backend ran; `gpubuild doctor` shows why"]);
    }

    #[test]
    fn rounds_keep_the_best_and_the_worst_speed() {
        let both = bench(Backend::Cpu, "cpu", 1.0, 5.0).and(bench(Backend::Cpu, "cpu", 3.0, 4.0));
        assert_eq!(both.prompt, Some(Speed { best_tokens_per_second: 3.0, worst_tokens_per_second: 1.0 }));
        assert_eq!(both.decode, Some(Speed { best_tokens_per_second: 5.0, worst_tokens_per_second: 1.0 }));
        let broken = both.clone().and(BackendBench::without(Backend::Cpu, "crashed".to_owned()));
        assert_eq!(broken.reason.as_deref(), Some("crashed"));
    }

    #[test]
    fn plot_is_a_self_contained_file_with_a_title() {
        let svg = BenchDocument::new(vec![bench(Backend::Cpu, "cpu", 10.0, 20.0)]).svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("<title"), "{svg}");
        assert!(svg.contains("width=\"420.0\"") && !svg.contains("http://x"), "{svg}");
        let parsed = |text: &str| {
            let mut reader = quick_xml::Reader::from_str(text);
            loop {
                match reader.read_event() {
                    Ok(quick_xml::events::Event::Eof) => return true,
                    Ok(_) => {}
                    Err(_) => return false,
                }
            }
        };
        assert!(parsed(&svg) && !parsed(&svg.replace("</text>", "</txt>")), "{svg}");
    }

    #[test]
    fn other_documents_are_rejected() {
        assert!(BackendBench::parse(Backend::Cpu, "{}").is_err());
        let other = document("cpu", 1.0, 1.0).replace("infer-bench", "llama-bench");
        assert_eq!(
            BackendBench::parse(Backend::Cpu, &other).unwrap_err(),
            "it printed `llama-bench` 1, not `infer-bench` 1"
        );
    }
}
