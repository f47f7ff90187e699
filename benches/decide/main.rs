//! What one decision costs, beside other limiters in the same run.
//!
//! `cargo bench --bench decide` measures every number of keys, spread, number of threads and outcome; see
//! `support` for the options.
#![allow(clippy::expect_used, reason = "a benchmark that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(unreachable_pub, reason = "modules of a benchmark are private by nature")]

mod batch;
mod cluster;
mod floors;
mod single;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other benchmarks need more of it")]
mod support;
mod threads;

fn main() {
    if cluster::serves_as_peers() {
        return;
    }
    let options = support::options::Options::read();
    single::run(&options);
    batch::run(&options);
    cluster::run(&options);
    floors::run(&options);
}
