//! What news costs the gossip task: merged, written, read, and published.
//!
//! "plain" is what the same would cost without what this protocol needs: for a merge one hash map of counts, with
//! neither versions nor epochs; for writing and reading one varint record after the other, with neither frames nor
//! groups.
#![allow(clippy::expect_used, reason = "a benchmark that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(unreachable_pub, reason = "modules of a benchmark are private by nature")]

mod merge;
mod publish;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other benchmarks need more of it")]
mod support;
mod wire;

use std::time::{Duration, Instant};

use support::{options::Options, rounds::Measured};

/// Deltas of one datagram.
const DATAGRAM: usize = 45;

fn main() {
    let options = Options::read();
    println!("             | million cells a second and core: ns a cell, plain | times as fast as plain");
    merge::run(&options);
    wire::run(&options);
    publish::run(&options);
}

/// Adds up the time of some calls, and of nothing between them.
#[derive(Default)]
struct Stopwatch(Duration);

impl Stopwatch {
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = call();
        self.0 += begun.elapsed();
        result
    }

    fn nanos_each(&self, count: usize) -> f64 {
        self.0.as_nanos() as f64 / count as f64
    }
}

/// A row of ours, measured first, and the plain one.
fn print(name: &str, measured: &Measured<f64>) {
    let [ours, plain] = [0, 1].map(|index| measured.median(index, |nanos| *nanos));
    let ratio = measured.ratio(1, 0, |nanos| *nanos);
    println!("{name:12} | {:8.2} M/s: {ours:6.1} ns, {plain:6.1} ns | {ratio:5.2} x", 1_000.0 / ours);
}
