//! What the first request of a key costs while a table fills up, on average and at worst.
//!
//! A table that is copied into a larger one makes one request wait for all of it; that is the worst. The time of each
//! insert is taken by itself, so the figures hold two readings of the clock, some forty nanoseconds.
#![allow(clippy::expect_used, reason = "a benchmark that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(unreachable_pub, reason = "modules of a benchmark are private by nature")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other benchmarks need more of it")]
mod support;

use std::time::Instant;

use peerlimit::{Limiter, Quota};

use support::{
    histogram::Histogram,
    keys::{names, short},
    options::Options,
    rivals::{BareTable, MutexMap, Rival, governor},
    rounds::interleave,
};

const QUOTA: Quota = Quota::per_hour(1);

/// What filling one table took, in nanoseconds an insert.
struct Inserts {
    mean: f64,
    p99_99: f64,
    worst: f64,
}

fn main() {
    let options = Options::read();
    let keys = options.size(1_000_000, 100_000);
    if !options.wants(&format!("growth {}", short(keys))) {
        return;
    }
    let names = names(keys);
    let measured = interleave(
        options.rounds(),
        &mut [
            Box::new(|| fill(&Limiter::local(QUOTA), &names)),
            Box::new(|| fill(&BareTable::local(QUOTA), &names)),
            Box::new(|| fill(&governor(QUOTA), &names)),
            Box::new(|| fill(&MutexMap::new(QUOTA), &names)),
        ],
    );
    println!("ns a first request, {} keys; medians of the rounds", short(keys));
    println!("limiter  |   mean   p99.99      worst | mean, worst: times check's");
    for (index, name) in ["check", "bare", "governor", "mutex"].into_iter().enumerate() {
        println!(
            "{name:8} | {:6.1} {:8.0} {:10.0} | {:5.2} x {:8.2} x",
            measured.median(index, |of: &Inserts| of.mean),
            measured.median(index, |of| of.p99_99),
            measured.median(index, |of| of.worst),
            measured.ratio(index, 0, |of| of.mean),
            measured.ratio(index, 0, |of| of.worst),
        );
    }
}

fn fill(rival: &dyn Rival, names: &[String]) -> Inserts {
    let mut seen = Histogram::new();
    let begun = Instant::now();
    for name in names {
        let begun = Instant::now();
        let passed = rival.allow(0, name);
        seen.add(begun.elapsed());
        assert!(passed, "a first request passes");
    }
    let mean = begun.elapsed().as_nanos() as f64 / names.len() as f64;
    Inserts { mean, p99_99: seen.percentile(0.9999), worst: seen.worst() }
}
