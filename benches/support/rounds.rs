//! Rounds in which contestants take turns.

/// Something that is measured: each call is one sample.
pub type Contestant<'a, T> = Box<dyn FnMut() -> T + 'a>;

/// The samples of some contestants, one of each in every round.
pub struct Measured<T> {
    /// By contestant, then by round.
    samples: Vec<Vec<T>>,
}

/// Measures each contestant once a round. Every other round goes backwards, so that nobody is always measured after
/// the same one.
pub fn interleave<T>(rounds: usize, contestants: &mut [Contestant<'_, T>]) -> Measured<T> {
    let mut samples: Vec<Vec<T>> = contestants.iter().map(|_| Vec::with_capacity(rounds)).collect();
    let count = contestants.len();
    for round in 0..rounds {
        for turn in 0..count {
            let index = if round % 2 == 0 { turn } else { count - 1 - turn };
            samples[index].push(contestants[index]());
        }
    }
    Measured { samples }
}

impl<T> Measured<T> {
    /// The median over the rounds of what `of` reads from a contestant's samples.
    pub fn median(&self, contestant: usize, of: impl Fn(&T) -> f64) -> f64 {
        median(self.samples[contestant].iter().map(of).collect())
    }

    /// The greatest of what `of` reads from a contestant's samples.
    pub fn worst(&self, contestant: usize, of: impl Fn(&T) -> f64) -> f64 {
        self.samples[contestant].iter().map(of).fold(0.0, f64::max)
    }

    /// How many times as much `of` one contestant has as another: within each round, and of those the median.
    pub fn ratio(&self, one: usize, other: usize, of: impl Fn(&T) -> f64) -> f64 {
        let rounds = self.samples[one].iter().zip(&self.samples[other]);
        median(rounds.map(|(one, other)| of(one) / of(other)).collect())
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}
