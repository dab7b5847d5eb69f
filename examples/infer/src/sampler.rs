//! Chooses the next token from the logits. The algorithm and its random numbers (xoshiro256++) are
//! implemented here, so a seed gives the same text on every platform and in every version.
//!
//! The order is that of `transformers`: repetition penalty, top-k, temperature, top-p, min-p, and then a
//! random number.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;

/// Sampling parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Logits are divided by this; 0 always takes the best token.
    pub temperature: f64,
    /// Considers only this many best tokens; 0 = all.
    pub top_k: u32,
    /// Considers only the best tokens whose probabilities add up to this; 1 = all.
    pub top_p: f64,
    /// Considers only tokens at least this many times as probable as the best one; 0 = all.
    pub min_p: f64,
    /// Positive logits of recent tokens are divided by this, negative ones multiplied; 1 = off.
    pub repeat_penalty: f64,
    /// Number of tokens that count as recent, including those of the prompt.
    pub repeat_last: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Settings {
    /// Always the best token. The other settings take effect once the temperature is set.
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.0,
            repeat_penalty: 1.0,
            repeat_last: 64,
            seed: 0,
        }
    }
}

/// A sampler with its state.
#[derive(Debug, Clone)]
pub struct Sampler {
    settings: Settings,
    random: Xoshiro256PlusPlus,
    recent: VecDeque<u32>,
}

impl Sampler {
    /// A sampler in the state that the seed defines.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(settings.seed);
        Self { settings, random, recent: VecDeque::new() }
    }

    /// True if the best logit alone decides, so that the others are not needed.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.settings.temperature <= 0.0 && !self.penalises()
    }

    /// Number of best candidates that [`Sampler::choose`] needs; `None` = all.
    #[must_use]
    pub fn candidates(&self) -> Option<u32> {
        // A penalty can lift any token above the best ones.
        (self.settings.top_k > 0 && !self.penalises()).then_some(self.settings.top_k)
    }

    fn penalises(&self) -> bool {
        (self.settings.repeat_penalty - 1.0).abs() > f64::EPSILON && self.settings.repeat_last > 0
    }

    /// Records tokens that are now part of the text.
    pub fn accept(&mut self, ids: &[u32]) {
        self.recent.extend(ids);
        let excess = self.recent.len().saturating_sub(self.settings.repeat_last as usize);
        self.recent.drain(..excess);
    }

    /// The probabilities of the remaining tokens, best first. Empty if every logit is NaN.
    #[must_use]
    pub fn distribution(&self, candidates: &[(u32, f32)]) -> Vec<(u32, f64)> {
        let Settings { temperature, top_k, top_p, min_p, .. } = self.settings;
        let mut logits: Vec<(u32, f64)> = candidates
            .iter()
            .filter(|(_, logit)| !logit.is_nan() && *logit > f32::NEG_INFINITY)
            .map(|(id, logit)| (*id, self.penalised(*id, f64::from(*logit))))
            .collect();
        // Equal logits are ordered by id, so that the result does not depend on the platform.
        logits.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        let Some((best, largest)) = logits.first().copied() else { return Vec::new() };
        if temperature <= 0.0 {
            return vec![(best, 1.0)];
        }
        if top_k > 0 {
            logits.truncate(top_k as usize);
        }
        // The difference of two infinite logits is NaN; both are treated as certain.
        let below = |logit: f64| if logit < largest { logit - largest } else { 0.0 };
        let weight = |logit: f64| (below(logit) / temperature).exp();
        let mut weights: Vec<(u32, f64)> = logits.iter().map(|(id, logit)| (*id, weight(*logit))).collect();
        if top_p < 1.0 {
            let limit = total(&weights) * top_p;
            let mut sum = 0.0;
            let last = weights.iter().position(|(_, weight)| {
                sum += weight;
                sum >= limit
            });
            weights.truncate(last.map_or(weights.len(), |last| last + 1));
        }
        // The best token has weight 1.
        weights.retain(|(_, weight)| *weight >= min_p.min(1.0));
        let sum = total(&weights);
        weights.into_iter().map(|(id, weight)| (id, weight / sum)).collect()
    }

    fn penalised(&self, id: u32, logit: f64) -> f64 {
        if !self.penalises() || !self.recent.contains(&id) {
            return logit;
        }
        if logit > 0.0 { logit / self.settings.repeat_penalty } else { logit * self.settings.repeat_penalty }
    }

    /// Chooses among candidates, ids with logits. `None` if every logit is NaN.
    pub fn choose(&mut self, candidates: &[(u32, f32)]) -> Option<u32> {
        let probabilities = self.distribution(candidates);
        if self.settings.temperature <= 0.0 {
            return probabilities.first().map(|(id, _)| *id);
        }
        let mut ball = self.uniform();
        for (id, probability) in &probabilities {
            ball -= probability;
            if ball < 0.0 {
                return Some(*id);
            }
        }
        probabilities.last().map(|(id, _)| *id)
    }

    /// A number in 0 .. 1, from 53 random bits.
    fn uniform(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let bits = (self.random.next_u64() >> 11) as f64;
        bits / 9_007_199_254_740_992.0
    }
}

fn total(weights: &[(u32, f64)]) -> f64 {
    weights.iter().map(|(_, weight)| weight).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Settings = Settings {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        repeat_penalty: 1.0,
        repeat_last: 64,
        seed: 1,
    };

    fn logits() -> Vec<(u32, f32)> {
        vec![(0, 1.0), (1, 3.0), (2, 2.0), (3, f32::NAN), (4, 3.0)]
    }

    fn counts(settings: Settings) -> [u32; 5] {
        let mut sampler = Sampler::new(settings);
        let mut counts = [0; 5];
        for _ in 0..10_000 {
            counts[sampler.choose(&logits()).expect("numbers are there") as usize] += 1;
        }
        counts
    }

    /// The definition, step by step, each on a full list of probabilities.
    fn by_definition(settings: Settings, recent: &[u32], logits: &[(u32, f32)]) -> Vec<(u32, f64)> {
        let softmax = |list: Vec<(u32, f64)>, temperature: f64| -> Vec<(u32, f64)> {
            let sum: f64 = list.iter().map(|(_, logit)| (logit / temperature).exp()).sum();
            list.into_iter().map(|(id, logit)| (id, (logit / temperature).exp() / sum)).collect()
        };
        let start = recent.len().saturating_sub(settings.repeat_last as usize);
        let mut list: Vec<(u32, f64)> = logits
            .iter()
            .map(|(id, logit)| {
                let logit = f64::from(*logit);
                let factor = match (recent[start..].contains(id), logit > 0.0) {
                    (false, _) => 1.0,
                    (true, true) => 1.0 / settings.repeat_penalty,
                    (true, false) => settings.repeat_penalty,
                };
                (*id, logit * factor)
            })
            .collect();
        list.sort_by(|a, b| b.1.partial_cmp(&a.1).expect("numbers").then(a.0.cmp(&b.0)));
        if settings.top_k > 0 {
            list.truncate(settings.top_k as usize);
        }
        let mut list = softmax(list, settings.temperature);
        let mut nucleus = Vec::new();
        for item in &list {
            let before: f64 = nucleus.iter().map(|(_, p): &(u32, f64)| p).sum();
            if nucleus.is_empty() || settings.top_p >= 1.0 || before < settings.top_p - 1e-12 {
                nucleus.push(*item);
            }
        }
        list = nucleus;
        let best = list[0].1;
        list.retain(|(_, p)| *p >= settings.min_p * best);
        let sum: f64 = list.iter().map(|(_, p)| p).sum();
        list.into_iter().map(|(id, p)| (id, p / sum)).collect()
    }

    fn assert_same(settings: Settings, recent: &[u32], logits: &[(u32, f32)]) {
        let mut sampler = Sampler::new(settings);
        sampler.accept(recent);
        let (found, expected) = (sampler.distribution(logits), by_definition(settings, recent, logits));
        let ids = |list: &[(u32, f64)]| list.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        assert_eq!(ids(&found), ids(&expected), "{settings:?} {recent:?} {logits:?}");
        for ((_, found), (_, expected)) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-12, "{settings:?}: {found} {expected}");
        }
    }

    #[test]
    fn probabilities_equal_the_definition() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut next = |bound: u64| random.next_u64() % bound;
        for _ in 0..2000 {
            let count = u32::try_from(next(40) + 1).expect("small");
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let list: Vec<(u32, f32)> = (0..count).map(|id| (id, next(4000) as f32 / 250.0 - 8.0)).collect();
            let recent: Vec<u32> = (0..next(6)).map(|_| u32::try_from(next(40)).expect("small")).collect();
            let pick = |list: &[f64], index: u64| list[usize::try_from(index).expect("small") % list.len()];
            let settings = Settings {
                temperature: pick(&[0.3, 0.7, 1.0, 1.9], next(4)),
                top_k: u32::try_from([0, 1, 3, 10][usize::try_from(next(4)).expect("small")]).expect("small"),
                top_p: pick(&[0.0, 0.31, 0.77, 0.95, 1.0], next(5)),
                min_p: pick(&[0.0, 0.05, 0.333, 1.0], next(4)),
                repeat_penalty: pick(&[1.0, 1.1, 1.7, 0.8], next(4)),
                repeat_last: u32::try_from(next(4)).expect("small"),
                seed: 0,
            };
            assert_same(settings, &recent, &list);
        }
    }

    #[test]
    fn each_setting_has_its_documented_effect() {
        // exp(1), exp(3), exp(2), exp(3) over their sum: 0.0541, 0.3995, 0.1470, 0.3995.
        let kept = |settings: Settings, recent: &[u32]| {
            let mut sampler = Sampler::new(settings);
            sampler.accept(recent);
            sampler.distribution(&logits()).into_iter().map(|(id, _)| id).collect::<Vec<u32>>()
        };
        assert_eq!(kept(PLAIN, &[]), [1, 4, 2, 0]);
        assert_eq!(kept(Settings { top_k: 3, ..PLAIN }, &[]), [1, 4, 2]);
        assert_eq!(kept(Settings { top_p: 0.8, ..PLAIN }, &[]), [1, 4, 2]);
        assert_eq!(kept(Settings { top_p: 0.79, ..PLAIN }, &[]), [1, 4]);
        assert_eq!(kept(Settings { min_p: 0.36, ..PLAIN }, &[]), [1, 4, 2]);
        assert_eq!(kept(Settings { min_p: 0.37, ..PLAIN }, &[]), [1, 4]);
        assert_eq!(kept(Settings { repeat_penalty: 2.0, ..PLAIN }, &[1]), [4, 2, 1, 0]);
        assert_eq!(kept(Settings { repeat_penalty: 2.0, repeat_last: 1, ..PLAIN }, &[1, 9]), [1, 4, 2, 0]);
        let warm = Settings { temperature: 2.0, ..PLAIN };
        let odds = Sampler::new(warm).distribution(&logits());
        assert!((odds[0].1 / odds[3].1 - 1.0_f64.exp()).abs() < 1e-12, "{odds:?}");
    }

    #[test]
    fn greedy_takes_the_lowest_id_of_the_best_logits() {
        let greedy = Settings { top_p: 0.9, ..Settings::default() };
        assert_eq!(Sampler::new(greedy).choose(&logits()), Some(1));
        assert_eq!(Sampler::new(greedy).choose(&[(0, f32::NAN)]), None);
        assert!(Sampler::new(greedy).is_greedy());
        let careful = Settings { repeat_penalty: 1.5, ..greedy };
        let mut sampler = Sampler::new(careful);
        assert!(!sampler.is_greedy() && sampler.candidates().is_none());
        sampler.accept(&[1]);
        assert_eq!(sampler.choose(&logits()), Some(4));
        assert_eq!(Sampler::new(PLAIN).choose(&[(7, f32::INFINITY), (8, 1.0)]), Some(7));
    }

    #[test]
    fn frequencies_follow_the_probabilities() {
        let counts = counts(PLAIN);
        for (count, expected) in counts.into_iter().zip([541, 3995, 1470, 0, 3995]) {
            assert!(count.abs_diff(expected) <= 200, "{counts:?}");
        }
    }

    #[test]
    fn choices_of_a_seed_are_stable() {
        let mut sampler = Sampler::new(Settings { seed: 42, ..PLAIN });
        let ids: Vec<u32> = (0..12).filter_map(|_| sampler.choose(&logits())).collect();
        assert_eq!(ids, SEED_42);
    }

    const SEED_42: [u32; 12] = [2, 1, 0, 4, 4, 4, 1, 4, 1, 2, 4, 2];
}
