//! Measures the memory bandwidth of threads that only read, the upper bound for decoding on the CPU.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

/// Much larger than any cache.
const WORDS: usize = 64 << 20;
const PASSES: u32 = 3;

/// Memory to read, and how many threads read it.
#[derive(Debug)]
pub struct Bandwidth {
    words: Vec<u64>,
    threads: usize,
}

impl Bandwidth {
    /// Allocates 512 MiB and writes it once, so that every page is mapped. 0 threads = all cores.
    #[must_use]
    pub fn new(threads: u32) -> Self {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = usize::try_from(threads).ok().filter(|threads| *threads > 0).unwrap_or(cores);
        Self { words: (0..WORDS as u64).collect(), threads }
    }

    /// Gigabytes per second, the best of three passes.
    #[must_use]
    pub fn measure(&self) -> f64 {
        let share = WORDS.div_ceil(self.threads);
        let passes = (0..PASSES).map(|_| {
            let start = Instant::now();
            thread::scope(|scope| {
                for part in self.words.chunks(share) {
                    scope.spawn(move || black_box(sum(part)));
                }
            });
            start.elapsed().as_secs_f64()
        });
        #[expect(clippy::cast_precision_loss, reason = "a power of two")]
        let gigabytes = (WORDS * size_of::<u64>()) as f64 / 1e9;
        gigabytes / passes.fold(f64::INFINITY, f64::min).max(1e-9)
    }
}

/// Eight independent sums, so that additions do not delay the loads.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 8];
    let eights = words.chunks_exact(8);
    let rest: u64 = eights.remainder().iter().fold(0, |sum, word| sum.wrapping_add(*word));
    for eight in eights {
        for (sum, word) in sums.iter_mut().zip(eight) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.into_iter().fold(rest, u64::wrapping_add)
}
