//! How long a single decision takes while other work goes on in the same table.
//!
//! One thread decides and takes the time of each decision, another one works; with "nothing" it spins, so that the
//! machine is as busy. Percentiles hold two readings of the clock, some forty nanoseconds. The deciding thread asks
//! again as soon as it has an answer: a service with requests from outside would also see those that queue up behind a
//! slow decision.
#![allow(clippy::expect_used, reason = "a benchmark that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(unreachable_pub, reason = "modules of a benchmark are private by nature")]

mod loads;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other benchmarks need more of it")]
mod support;
mod watch;

use loads::{Library, Load, Other, Sizes};
use support::{
    keys::{Accesses, Spread, names},
    options::Options,
    rounds::{Contestant, Measured, interleave},
};
use watch::{Percentiles, watch};

fn main() {
    let options = Options::read();
    let sizes = Sizes::of(&options);
    let kept = names(sizes.kept);
    let accesses = Accesses::new(&kept, Spread::Uniform);
    let samples = options.size(200_000, 20_000);
    let (library, other) = (Library::new(&kept, &sizes), Other::new(&kept, &sizes));

    let is_wanted = |load: &Load<'_>| load.is_baseline || options.wants(load.name);
    let (mut rows, mut contestants) = (Vec::new(), Vec::new());
    for load in library.loads(&sizes).into_iter().filter(is_wanted) {
        rows.push(Row::after(&rows, &load));
        contestants.push(contestant(&accesses, samples, |key| library.decide(key), load));
    }
    for load in other.loads(&sizes).into_iter().filter(is_wanted) {
        rows.push(Row::after(&rows, &load));
        contestants.push(contestant(&accesses, samples, |key| other.decide(key), load));
    }
    let measured = interleave(options.rounds(), &mut contestants);
    print(&rows, &measured);
}

fn contestant<'a>(
    accesses: &'a Accesses,
    samples: u64,
    decide: impl Fn(&String) -> bool + 'a,
    mut load: Load<'a>,
) -> Contestant<'a, Percentiles> {
    Box::new(move || watch(accesses, samples, &decide, &mut load))
}

struct Row {
    name: &'static str,
    /// The row of the same limiter beside which nothing ran.
    baseline: usize,
}

impl Row {
    fn after(rows: &[Self], load: &Load<'_>) -> Self {
        let baseline = match rows.last() {
            Some(last) if !load.is_baseline => last.baseline,
            _ => rows.len(),
        };
        Self { name: load.name, baseline }
    }
}

fn print(rows: &[Row], measured: &Measured<Percentiles>) {
    println!("ns a decision; of the percentiles medians of the rounds, of the worst the worst");
    println!("beside            |    p50     p99   p99.9   p99.99      worst | p99.99 / nothing's");
    for (index, row) in rows.iter().enumerate() {
        let median = |of: fn(&Percentiles) -> f64| measured.median(index, of);
        println!(
            "{:17} | {:6.0} {:7.0} {:7.0} {:8.0} {:10.0} | {:7.2}",
            row.name,
            median(|of| of.p50),
            median(|of| of.p99),
            median(|of| of.p99_9),
            median(|of| of.p99_99),
            measured.worst(index, |of| of.worst),
            measured.ratio(index, row.baseline, |of| of.p99_99),
        );
    }
    let sweep =
        |limiter: &str| rows.iter().position(|row| row.name.starts_with(limiter) && row.name.ends_with("sweep"));
    if let (Some(table), Some(governor)) = (sweep("table"), sweep("governor")) {
        println!("governor / table, p99.99 beside a sweep: {:.1}", measured.ratio(governor, table, |of| of.p99_99));
    }
}
