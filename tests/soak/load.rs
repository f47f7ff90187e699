//! What nodes are asked for.

use std::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use rand::{Rng, RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use crate::fleet::Fleet;

/// Keys that are in use all the time, below their quota.
pub(crate) const STEADY_KEYS: usize = 20;
/// Requests per second: of random keys, of all steady keys together, and of a key that gets more than its quota.
const FLOOD: f64 = 50_000.0;
const STEADY: f64 = 40.0 * STEADY_KEYS as f64;
const HOT: f64 = 300.0;
/// For how long one key is hot. A key that is never full again keeps the cells of all runs that ever used it.
const HOT_FOR: Duration = Duration::from_secs(5);
/// Pause between two portions of load.
const STEP: Duration = Duration::from_millis(5);

/// Requests, and how many of them were admitted.
#[derive(Default)]
pub(crate) struct Count {
    offered: AtomicU64,
    admitted: AtomicU64,
}

impl Count {
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    fn add(&self, admitted: bool) {
        self.offered.fetch_add(1, Ordering::Relaxed);
        self.admitted.fetch_add(u64::from(admitted), Ordering::Relaxed);
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} admitted", self.admitted(), self.offered.load(Ordering::Relaxed))
    }
}

/// What became of the load so far.
#[derive(Default)]
pub(crate) struct Load {
    flood: Count,
    pub(crate) steady: Count,
    hot: Count,
}

impl Load {
    /// Asks any node for any of the keys while `on`, for random and hot ones while `flooding`.
    pub(crate) fn offer(&self, fleet: &Fleet, flooding: &AtomicBool, on: &AtomicBool, seed: u64) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(!seed);
        let mut before = Instant::now();
        let (mut flood, mut steady, mut hot) = (0.0, 0.0, 0.0);
        let begin = before;
        while on.load(Ordering::Relaxed) {
            thread::sleep(STEP);
            let now = Instant::now();
            // What is late is made up for, up to a portion that no scheduler should need.
            let seconds = now.duration_since(before).min(20 * STEP).as_secs_f64();
            before = now;
            let nodes = fleet.nodes();
            let ask = |count: &Count, key: &[u8], rng: &mut Xoshiro256PlusPlus| {
                count.add(nodes[rng.random_range(0..nodes.len())].allow(key));
            };
            for _ in 0..portion(&mut steady, STEADY * seconds) {
                let key = format!("steady:{}", rng.random_range(0..STEADY_KEYS));
                ask(&self.steady, key.as_bytes(), &mut rng);
            }
            if !flooding.load(Ordering::Relaxed) {
                continue;
            }
            for _ in 0..portion(&mut flood, FLOOD * seconds) {
                let key = rng.next_u64().to_le_bytes();
                ask(&self.flood, &key, &mut rng);
            }
            let key = format!("hot:{}", begin.elapsed().as_secs() / HOT_FOR.as_secs());
            for _ in 0..portion(&mut hot, HOT * seconds) {
                ask(&self.hot, key.as_bytes(), &mut rng);
            }
        }
    }
}

/// Whole requests of what is due with `more`; the rest stays due.
fn portion(due: &mut f64, more: f64) -> u64 {
    *due += more;
    let whole = due.floor();
    *due -= whole;
    whole as u64
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flood: {}; steady: {}; hot: {}", self.flood, self.steady, self.hot)
    }
}
