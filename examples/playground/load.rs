//! Load: requests at a steady rate to one node.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use peerlimit::Limiter;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The key that all requests are for.
pub(crate) const KEY: &str = "hot";
/// Requests that could not be made in time are made late, but no later than this.
const MOST_LATE: Duration = Duration::from_millis(200);

/// What is asked of a node, and what came of it. It outlives the node's lives.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Requests per second.
    pub(crate) rate: AtomicU32,
    pub(crate) offered: AtomicU64,
    pub(crate) admitted: AtomicU64,
}

/// The limiters of one node in one life: the one it shares with its peers, and one of its own.
#[derive(Clone, Debug)]
pub(crate) struct Limiters {
    pub(crate) shared: Limiter,
    pub(crate) alone: Limiter,
}

impl Limiters {
    pub(crate) fn by_rule(&self, alone: bool) -> &Limiter {
        if alone { &self.alone } else { &self.shared }
    }
}

/// Offers load to a node for ever, once it is ready, as a load balancer would.
pub(crate) async fn offer(limiters: Limiters, alone: Arc<AtomicBool>, traffic: Arc<Traffic>, seed: u64) {
    limiters.shared.ready().await;
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut pace = Pace::new(seed);
    let mut last = ticks.tick().await;
    loop {
        ticks.tick().await;
        let now = Instant::now();
        let due = pace.due(now.duration_since(last), traffic.rate.load(Relaxed));
        last = now;
        let limiter = limiters.by_rule(alone.load(Relaxed));
        for _ in 0..due {
            traffic.offered.fetch_add(1, Relaxed);
            traffic.admitted.fetch_add(u64::from(limiter.allow(KEY)), Relaxed);
        }
    }
}

/// When requests are due: one in each interval of `1 / rate`, at a random instant of it. The rate is exact, but nodes
/// of one rate do not fall into step, in which always the same one would come right after a permit did.
#[derive(Debug)]
struct Pace {
    rng: StdRng,
    /// Where time is, in intervals from the beginning of the one whose request is next.
    at: f64,
    /// Where the next request is, from 0 to 1.
    next: f64,
}

impl Pace {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let next = rng.random();
        Self { rng, at: 0.0, next }
    }

    /// Requests that came due in the time that `passed`.
    fn due(&mut self, passed: Duration, rate: u32) -> u32 {
        self.at += passed.min(MOST_LATE).as_secs_f64() * f64::from(rate);
        let mut due = 0;
        while self.at >= self.next {
            due += 1;
            self.at -= 1.0;
            self.next = self.rng.random();
        }
        due
    }
}
