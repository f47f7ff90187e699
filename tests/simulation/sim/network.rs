//! The virtual network: how long a message takes, and whether it arrives.

use std::time::Duration;

use rand::{Rng, RngExt};

/// How links behave. Times are one way.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Mean delay of a datagram.
    pub delay: Duration,
    /// Part of the delay by which it varies either way; above 0 datagrams overtake each other.
    pub jitter: f64,
    /// Part of the datagrams that are lost.
    pub loss: f64,
    /// Part of the datagrams that arrive twice.
    pub duplicate: f64,
}

impl Link {
    pub const LAN: Self = Self { delay: Duration::from_millis(1), jitter: 0.5, loss: 0.0, duplicate: 0.0 };

    pub const fn with_loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    pub const fn with_delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    pub const fn with_duplicates(self, duplicate: f64) -> Self {
        Self { duplicate, ..self }
    }

    pub fn draw_delay(&self, rng: &mut impl Rng) -> Duration {
        self.delay.mul_f64(rng.random_range(1.0 - self.jitter..=1.0 + self.jitter))
    }
}

/// Nodes `a` cannot reach nodes `b` from `from` on until `until`; the other way around too unless it is one-way.
#[derive(Clone, Debug)]
pub struct Cut {
    pub from: Duration,
    pub until: Duration,
    pub a: Vec<usize>,
    pub b: Vec<usize>,
    pub one_way: bool,
}

impl Cut {
    pub fn between(
        from: u64,
        until: u64,
        a: impl IntoIterator<Item = usize>,
        b: impl IntoIterator<Item = usize>,
    ) -> Self {
        Self {
            from: Duration::from_secs(from),
            until: Duration::from_secs(until),
            a: a.into_iter().collect(),
            b: b.into_iter().collect(),
            one_way: false,
        }
    }

    pub fn blocks(&self, at: Duration, from: usize, to: usize) -> bool {
        let in_time = (self.from..self.until).contains(&at);
        let forward = self.a.contains(&from) && self.b.contains(&to);
        let backward = self.a.contains(&to) && self.b.contains(&from);
        in_time && (forward || (backward && !self.one_way))
    }
}
