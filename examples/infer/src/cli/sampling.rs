//! Sampling options, shared by all commands that generate text.

use crate::sampler::Settings;
use clap::Args;

#[derive(Debug, Clone, Args)]
pub(super) struct SamplingArgs {
    /// 0 always takes the best token; higher values are more random [default: 0; in a chat 0.7]
    #[arg(long, value_name = "T", value_parser = parse_temperature)]
    temperature: Option<f64>,
    /// Choose among this many best tokens; 0 = all
    #[arg(long, value_name = "K", default_value_t = 40)]
    top_k: u32,
    /// Choose among the best tokens of this total probability
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = parse_share)]
    top_p: f64,
    /// Choose among tokens at least this many times as probable as the best one; 0 = all
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = parse_share)]
    min_p: f64,
    /// Make recent tokens less probable: 1 = off, 1.1 is common
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = parse_penalty)]
    repeat_penalty: f64,
    /// Number of tokens that count as recent
    #[arg(long, value_name = "N", default_value_t = 64)]
    repeat_last: u32,
    /// Seed of the random numbers: the same seed gives the same text
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

impl SamplingArgs {
    pub(super) fn settings(&self, temperature: f64) -> Settings {
        Settings {
            temperature: self.temperature.unwrap_or(temperature),
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            repeat_last: self.repeat_last,
            seed: self.seed,
        }
    }
}

fn parse_number(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(format!("not between {} and {}", range.start(), range.end()))
    }
}

fn parse_temperature(text: &str) -> Result<f64, String> {
    parse_number(text, 0.0..=100.0)
}

fn parse_share(text: &str) -> Result<f64, String> {
    parse_number(text, 0.0..=1.0)
}

fn parse_penalty(text: &str) -> Result<f64, String> {
    parse_number(text, 0.1..=10.0)
}

#[cfg(test)]
mod tests {
    use super::SamplingArgs;
    use crate::sampler::Settings;
    use clap::{Args, Command, FromArgMatches};

    #[test]
    fn defaults_equal_those_of_the_library() {
        let matches = SamplingArgs::augment_args(Command::new("x")).get_matches_from(["x"]);
        let args = SamplingArgs::from_arg_matches(&matches).expect("defaults are there");
        assert_eq!(args.settings(0.0), Settings::default());
    }
}
