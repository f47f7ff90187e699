//! A deterministic simulator: many engines, virtual time, a faulty network, and one central bucket as the oracle.
//!
//! Everything that is left to chance comes from one seed. A scenario that fails says which seed repeats it.
//!
//! | environment | what it does |
//! |---|---|
//! | `PEERLIMIT_SEEDS=1000` | plays each scenario with that many seeds |
//! | `PEERLIMIT_SEED=81` | plays that seed alone, and traces it; name one test, and pass `--nocapture` |
//! | `RUST_LOG=peerlimit=trace` | with the former: what the engines say of themselves |

pub mod catalog;
pub mod cluster;
pub mod network;
pub mod oracle;
pub mod scenario;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use catalog::Bar;
use oracle::Tally;
use scenario::{Outcome, Scenario};

/// Seeds that a promise is played with where the environment does not say.
const PROMISE_SEEDS: u64 = 200;
/// Seeds that a bar is played with where the environment does not say.
const BAR_SEEDS: u64 = 10;

/// Plays a promise with many seeds on all cores.
pub fn play(scenario: &Scenario) {
    play_with(scenario, PROMISE_SEEDS, scenario.check);
}

/// Plays a promise that takes long with a tenth of the seeds.
pub fn play_long(scenario: &Scenario) {
    play_with(scenario, PROMISE_SEEDS / 10, scenario.check);
}

/// Plays a scenario of the published table with many seeds on all cores, and holds it to its bars and to the stated
/// bound.
pub fn play_bar(bar: &Bar) {
    let worst = Mutex::new(Worst::default());
    let played = catch_unwind(AssertUnwindSafe(|| {
        play_with(&bar.scenario, BAR_SEEDS, |outcome| {
            let total = outcome.total();
            worst.lock().expect("nobody panics with it").add(&total);
            bar.check(outcome.seed, &total);
            outcome.check_bound();
        });
    }));
    // Also, and above all, of those that miss a bar.
    println!("{}: {}", bar.scenario.name, worst.into_inner().expect("nobody panics with it"));
    if let Err(failure) = played {
        resume_unwind(failure);
    }
}

/// The worst over all seeds.
struct Worst {
    seeds: u64,
    ratio: (f64, f64),
    excess: f64,
}

impl Default for Worst {
    fn default() -> Self {
        Self { seeds: 0, ratio: (f64::INFINITY, 0.0), excess: f64::NEG_INFINITY }
    }
}

impl Worst {
    fn add(&mut self, total: &Tally) {
        self.seeds += 1;
        self.ratio = (self.ratio.0.min(total.ratio()), self.ratio.1.max(total.ratio()));
        self.excess = self.excess.max(total.excess);
    }
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = self.ratio;
        write!(f, "{} seeds, admitted / central {least:.4} to {most:.4}, {:.3} bursts above", self.seeds, self.excess)
    }
}

fn play_with(scenario: &Scenario, seeds: u64, check: impl Fn(&mut Outcome) + Sync) {
    play_seeds(scenario.name, seeds, |seed, trace| check(&mut scenario.run(seed, trace)));
}

/// Plays what no scenario describes with many seeds on all cores. `run` gets a seed, and whether to trace.
pub fn play_seeds(name: &str, seeds: u64, run: impl Fn(u64, bool) + Sync) {
    if let Some(seed) = env_number("PEERLIMIT_SEED") {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let log = tracing_subscriber::fmt().without_time().with_env_filter(filter).with_writer(std::io::stderr);
        // Another test of this process may have set it.
        let _already_set = log.try_init();
        return run(seed, true);
    }
    let seeds = env_number("PEERLIMIT_SEEDS").unwrap_or(seeds);
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let failed: Vec<u64> = std::thread::scope(|scope| {
        let work = || {
            let mut failed = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds {
                    return failed;
                }
                if catch_unwind(AssertUnwindSafe(|| run(seed, false))).is_err() {
                    failed.push(seed);
                }
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker catches panics")).collect()
    });
    assert!(
        failed.is_empty(),
        "{name} failed with {} of {seeds} seeds: {failed:?}. \
         Repeat with PEERLIMIT_SEED={} cargo test --release --test simulation {name} -- --nocapture",
        failed.len(),
        failed[0],
    );
}

fn env_number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
