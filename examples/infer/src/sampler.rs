//! Chooses the next token from the logits. The algorithm is ours and the random numbers are those of xoshiro256++,
//! so a seed gives the same text everywhere and in every version.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// How tokens are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Logits are divided by this; 0 takes the best token always.
    pub temperature: f64,
    /// Only this many best tokens are considered; 0 = all.
    pub top_k: u32,
    /// Only the best tokens whose probabilities add up to this are considered.
    pub top_p: f64,
    /// Start of the random numbers.
    pub seed: u64,
}

/// A source of choices.
#[derive(Debug, Clone)]
pub struct Sampler {
    settings: Settings,
    random: Xoshiro256PlusPlus,
}

impl Sampler {
    /// Starts from the seed.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, random: Xoshiro256PlusPlus::seed_from_u64(settings.seed) }
    }

    /// Whether the best token is taken always.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.settings.temperature <= 0.0
    }

    /// Chooses among candidates, ids with logits. `None` if no logit is a number.
    pub fn choose(&mut self, mut candidates: Vec<(u32, f32)>) -> Option<u32> {
        candidates.retain(|(_, logit)| !logit.is_nan() && *logit > f32::NEG_INFINITY);
        // Equal logits keep the order of their ids: no platform decides.
        candidates.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        let best = *candidates.first()?;
        if self.is_greedy() {
            return Some(best.0);
        }
        if self.settings.top_k > 0 {
            candidates.truncate(self.settings.top_k as usize);
        }
        let weight = |logit: f32| ((f64::from(logit) - f64::from(best.1)) / self.settings.temperature).exp();
        let mut weights: Vec<f64> = candidates.iter().map(|(_, logit)| weight(*logit)).collect();
        let limit = weights.iter().sum::<f64>() * self.settings.top_p;
        let mut sum = 0.0;
        let kept = weights.iter().position(|weight| {
            sum += weight;
            sum >= limit
        });
        weights.truncate(kept.map_or(weights.len(), |last| last + 1));
        let mut ball = self.uniform() * weights.iter().sum::<f64>();
        for ((id, _), weight) in candidates.iter().zip(&weights) {
            ball -= weight;
            if ball < 0.0 {
                return Some(*id);
            }
        }
        candidates.get(weights.len().saturating_sub(1)).map(|(id, _)| *id)
    }

    /// A number in 0 .. 1, of 53 random bits.
    fn uniform(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let bits = (self.random.next_u64() >> 11) as f64;
        bits / 9_007_199_254_740_992.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(temperature: f64, top_k: u32, top_p: f64, seed: u64) -> Settings {
        Settings { temperature, top_k, top_p, seed }
    }

    fn logits() -> Vec<(u32, f32)> {
        vec![(0, 1.0), (1, 3.0), (2, 2.0), (3, f32::NAN), (4, 3.0)]
    }

    fn counts(settings: Settings) -> [u32; 5] {
        let mut sampler = Sampler::new(settings);
        let mut counts = [0; 5];
        for _ in 0..10_000 {
            counts[sampler.choose(logits()).expect("numbers are there") as usize] += 1;
        }
        counts
    }

    #[test]
    fn greedy_takes_the_best_and_the_lowest_id_of_equals() {
        assert_eq!(Sampler::new(settings(0.0, 40, 0.9, 7)).choose(logits()), Some(1));
        assert_eq!(Sampler::new(settings(0.0, 0, 1.0, 7)).choose(vec![(0, f32::NAN)]), None);
    }

    #[test]
    fn frequencies_follow_the_probabilities() {
        // exp(1), exp(3), exp(2), exp(3) over their sum: 0.0541, 0.3995, 0.1470, 0.3995.
        let counts = counts(settings(1.0, 0, 1.0, 1));
        for (count, expected) in counts.into_iter().zip([541, 3995, 1470, 0, 3995]) {
            assert!(count.abs_diff(expected) <= 200, "{counts:?}");
        }
    }

    #[test]
    fn limits_hold() {
        assert_eq!(counts(settings(1.0, 2, 1.0, 1))[0], 0);
        assert_eq!(counts(settings(1.0, 2, 1.0, 1))[2], 0);
        let nucleus = counts(settings(1.0, 0, 0.5, 1));
        assert_eq!((nucleus[0], nucleus[2]), (0, 0));
        assert_eq!(counts(settings(1.0, 1, 1.0, 1))[1], 10_000);
        assert_eq!(counts(settings(1.0, 0, 0.0, 1))[1], 10_000);
    }

    #[test]
    fn a_seed_gives_these_choices_for_ever() {
        let mut sampler = Sampler::new(settings(1.0, 0, 1.0, 42));
        let ids: Vec<u32> = (0..12).filter_map(|_| sampler.choose(logits())).collect();
        assert_eq!(ids, SEED_42);
    }

    const SEED_42: [u32; 12] = [2, 1, 0, 4, 4, 4, 1, 4, 1, 2, 4, 2];
}
