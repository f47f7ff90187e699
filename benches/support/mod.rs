//! What the benchmarks share: the runner, keys and the order in which they come, and the rivals.
//!
//! # Why a runner of its own
//!
//! criterion and divan measure one function after the other. On a shared machine whatever runs beside them changes
//! from minute to minute, so a ratio between two such figures says as much about the minute as about the code. Here
//! a cell is measured in rounds, its contestants take turns inside each round, and a ratio is taken within a round
//! before its median over the rounds: what slows a round down slows both sides of it. Times are medians too, and carry
//! over to no other machine; ratios do.
//!
//! # How to run
//!
//! `cargo bench --bench decide` measures everything, `cargo bench --bench decide -- 1M zipf` the cells whose names have
//! both words. `--quick`, or `PEERLIMIT_BENCH_QUICK=1`, takes seconds and gives rough figures;
//! `PEERLIMIT_BENCH_ROUNDS=9` sets the rounds.

pub mod histogram;
pub mod keys;
pub mod log;
pub mod options;
pub mod rivals;
pub mod rounds;
