//! Keys, and the order in which requests bring them.

use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus, seq::SliceRandom};

/// `count` keys as services have them.
pub fn names(count: usize) -> Vec<String> {
    named("user", count)
}

/// `count` keys that differ from those of any other kind.
pub fn named(kind: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{kind}:{number}")).collect()
}

/// A number of keys as it stands in names of cells.
pub fn short(count: usize) -> String {
    match count {
        1_000_000.. => format!("{}M", count / 1_000_000),
        1_000.. => format!("{}k", count / 1_000),
        _ => count.to_string(),
    }
}

/// How often each key is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    Uniform,
    /// By Zipf's law with exponent 1: the second key half as often as the first.
    Zipf,
}

impl Spread {
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }
}

/// Keys in the order of their use, over and over.
///
/// They are copies that lie in memory in that order, not places in a list of keys: a service has just read the key
/// from its request, so what is measured must not hold a cache miss for finding the key itself.
pub struct Accesses {
    keys: Vec<String>,
}

impl Accesses {
    /// Few enough to stay in a core's cache where the keys do.
    const LEAST: usize = 1 << 12;
    const SEED: u64 = 7;

    pub fn new(names: &[String], spread: Spread) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(Self::SEED);
        // Twice the keys, so that rounds which go on where others ended do not meet warm buckets.
        let count = (2 * names.len()).next_power_of_two().max(Self::LEAST);
        let keys = match spread {
            Spread::Uniform => (0..count).map(|_| names[rng.random_range(0..names.len())].clone()).collect(),
            Spread::Zipf => {
                // Popular keys were not all created one after the other.
                let mut by_rank: Vec<&String> = names.iter().collect();
                by_rank.shuffle(&mut rng);
                let cumulated = cumulated_zipf(names.len());
                let total = cumulated.last().copied().unwrap_or_default();
                let mut draw = || cumulated.partition_point(|below| *below <= rng.random_range(0.0..total));
                (0..count).map(|_| by_rank[draw().min(names.len() - 1)].clone()).collect()
            }
        };
        Self { keys }
    }

    /// The keys in chunks of `length`, a power of two up to 4,096, from the chunk number `start` on without end.
    pub fn chunks_from(&self, start: usize, length: usize) -> impl Iterator<Item = &[String]> {
        let chunks = self.keys.len() / length;
        (start..).map(move |chunk| &self.keys[chunk % chunks * length..][..length])
    }
}

fn cumulated_zipf(count: usize) -> Vec<f64> {
    let mut sum = 0.0;
    (1..=count)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect()
}
