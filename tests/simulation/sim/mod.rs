//! A deterministic simulator: many engines, virtual time, a faulty network, and one central bucket as the oracle.
//!
//! Everything that is left to chance comes from one seed. A scenario that fails says which seed repeats it.

pub mod cluster;
pub mod network;
pub mod oracle;
pub mod scenario;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
};

use scenario::Scenario;

/// Seeds that a scenario is played with where the environment does not say.
const SEEDS: u64 = 200;

/// Plays a scenario with many seeds on all cores.
///
/// `PEERLIMIT_SEEDS` sets how many, `PEERLIMIT_SEED` plays that one alone and traces it.
pub fn play(scenario: &Scenario) {
    if let Some(seed) = env_number("PEERLIMIT_SEED") {
        // What the engines say of themselves goes between the lines, as far as `RUST_LOG` asks for it. Virtual time is on the lines.
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _already_set =
            tracing_subscriber::fmt().without_time().with_env_filter(filter).with_writer(std::io::stderr).try_init();
        return scenario.run(seed, true);
    }
    let seeds = env_number("PEERLIMIT_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let failed: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut failed = Vec::new();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= seeds {
                            return failed;
                        }
                        if catch_unwind(AssertUnwindSafe(|| scenario.run(seed, false))).is_err() {
                            failed.push(seed);
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    assert!(
        failed.is_empty(),
        "{} failed with {} of {seeds} seeds: {failed:?}. Repeat with PEERLIMIT_SEED={} cargo test --release --test simulation {}",
        scenario.name,
        failed.len(),
        failed[0],
        scenario.name,
    );
}

fn env_number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
