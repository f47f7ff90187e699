//! How close this library stays to one central bucket, beside the two rules that it replaces.
//!
//! `cargo bench --bench accuracy` plays every scenario of the published table in virtual time, prints what came of
//! it, and draws `benches/accuracy.svg`. `PEERLIMIT_SEEDS=100` plays each with that many seeds. `-- --quick` plays a
//! few and draws nothing.
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot go on fails")]
#![allow(unreachable_pub, reason = "modules of a benchmark are private by nature")]

mod contest;
mod figure;
mod rules;
#[path = "../../tests/simulation/sim/mod.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod sim;
mod svg;
mod table;

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use contest::Contest;
use sim::{catalog, scenario::Scenario};
use table::Rows;

/// Where the environment does not say.
const SEEDS: u64 = 10;

fn main() {
    // Without `--bench` cargo wants to know whether it runs, not how well.
    let asked = |flag: &str| std::env::args().any(|arg| arg == flag);
    let quick = asked("--quick") || asked("--test") || !asked("--bench");
    let seeds = std::env::var("PEERLIMIT_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let (scenarios, seeds) = if quick { (3, 1) } else { (usize::MAX, seeds) };
    let scenarios: Vec<Scenario> = catalog::bars().into_iter().map(|bar| bar.scenario).take(scenarios).collect();

    let played = play_all(&scenarios, seeds);
    println!("{}\n\n{}", table::LEGEND, table::HEAD);
    let rows: Vec<Rows> = scenarios.iter().zip(&played).map(|(scenario, of)| Rows::of(scenario.name, of)).collect();
    for rows in &rows {
        print!("{rows}");
    }
    if !quick {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/accuracy.svg");
        std::fs::write(path, figure::draw(&scenarios, &played, &rows)).expect("the figure can be written");
        println!("\n{seeds} seeds; drawn in {path}");
    }
}

/// Plays each scenario with each seed, on all cores. In the order of the scenarios and seeds.
fn play_all(scenarios: &[Scenario], seeds: u64) -> Vec<Vec<Contest>> {
    let jobs: Vec<(usize, u64)> =
        (0..scenarios.len()).flat_map(|scenario| (0..seeds).map(move |seed| (scenario, seed))).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, u64, Contest)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                // Relaxed: a job is taken once by the addition itself, and `done` orders what came of it.
                while let Some((scenario, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let contest = Contest::play(&scenarios[*scenario], *seed);
                    done.lock().expect("no job panics while it holds this").push((*scenario, *seed, contest));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no job panics while it holds this");
    done.sort_by_key(|(scenario, seed, _)| (*scenario, *seed));
    let mut played: Vec<Vec<Contest>> = scenarios.iter().map(|_| Vec::new()).collect();
    for (scenario, _, contest) in done {
        played[scenario].push(contest);
    }
    played
}
