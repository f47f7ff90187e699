//! Taking the time of single decisions while something else runs.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use crate::{
    loads::Load,
    support::{histogram::Histogram, keys::Accesses},
};

/// What a round found, in nanoseconds.
pub struct Percentiles {
    pub p50: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
    pub worst: f64,
}

/// Repeats the load until so many decisions were seen beside it.
pub fn watch(accesses: &Accesses, samples: u64, decide: impl Fn(&String) -> bool, load: &mut Load<'_>) -> Percentiles {
    let mut seen = Histogram::new();
    let mut turn = 0;
    while seen.total() < samples {
        (load.prepare)();
        watch_once(accesses, &mut turn, &decide, &mut load.work, &mut seen);
    }
    Percentiles {
        p50: seen.percentile(0.5),
        p99: seen.percentile(0.99),
        p99_9: seen.percentile(0.999),
        p99_99: seen.percentile(0.9999),
        worst: seen.worst(),
    }
}

fn watch_once(
    accesses: &Accesses,
    turn: &mut usize,
    decide: impl Fn(&String) -> bool,
    work: &mut (dyn FnMut() + Send),
    seen: &mut Histogram,
) {
    /// Keys between two looks at which turn it is.
    const TURN: usize = 4096;
    let start = Barrier::new(2);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            work();
            // Relaxed: one decision more or less beside nothing changes no percentile.
            done.store(true, Ordering::Relaxed);
        });
        start.wait();
        while !done.load(Ordering::Relaxed) {
            *turn += 1;
            for key in accesses.chunks_from(*turn, TURN).take(1).flatten() {
                let begun = Instant::now();
                std::hint::black_box(decide(key));
                seen.add(begun.elapsed());
                if done.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    });
}
