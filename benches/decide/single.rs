//! One key a call.

use peerlimit::{Limiter, Quota};

use crate::{
    support::{
        keys::{Accesses, Spread, names, short},
        options::Options,
        rivals::{BareTable, Floor, Governor, MutexMap, Rival, governor},
        rounds::{Contestant, interleave},
    },
    threads::{Sample, sample},
};

/// Lets everything pass that a benchmark asks, and refills so slowly that no key is full again before its next turn: a full bucket
/// needs no place in a table, and a table without keys is fast.
pub const AMPLE: Quota = Quota::per_second(1).burst(300_000_000);
/// Spent by one request, for longer than a benchmark runs.
const SPENT: Quota = Quota::per_hour(1);

const SPREADS: [Spread; 2] = [Spread::Uniform, Spread::Zipf];
const THREADS: [usize; 2] = [1, 2];
/// From so many keys on, a cell takes seconds to set up.
pub const MANY: usize = 1_000_000;

pub fn run(options: &Options) {
    let cells = cells(options);
    if cells.is_empty() {
        return;
    }
    println!("ns a decision and thread. floor: clock, digest, compare-and-swap; bare: the table alone;");
    println!("check: Limiter::check; governor: keyed, DashMap; mutex: one hash map behind one lock");
    println!("outcome  keys   spread threads |  floor   bare  check governor  mutex | check is faster than");
    println!("{:65}|  governor    mutex; whole / bare", "");
    // Cells of one outcome and number of keys share their limiters, which take longer to fill than to measure.
    for cells in cells.chunk_by(|one, other| (one.outcome, one.keys) == (other.outcome, other.keys)) {
        let (outcome, names) = (cells[0].outcome, names(cells[0].keys));
        let rivals = Rivals::new(outcome.quota(), &names);
        for cells in cells.chunk_by(|one, other| one.spread == other.spread) {
            let accesses = Accesses::new(&names, cells[0].spread);
            cells.iter().for_each(|cell| cell.measure(options, &rivals, &accesses));
        }
    }
}

/// The cells that are wanted; those that share anything follow each other.
fn cells(options: &Options) -> Vec<Cell> {
    let mut cells = Vec::new();
    for outcome in [Outcome::Allow, Outcome::Refuse] {
        for keys in [1, 1_000, 100_000, MANY] {
            // With one key there is one order.
            let spreads = if keys == 1 { &SPREADS[..1] } else { &SPREADS };
            for spread in spreads.iter().copied() {
                cells.extend(THREADS.map(|threads| Cell { outcome, keys, spread, threads }));
            }
        }
    }
    let wants = |cell: &Cell| {
        let name = cell.name();
        if cell.keys < MANY { options.wants(&name) } else { options.wants_slow(&name) }
    };
    cells.retain(wants);
    cells
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Allow,
    Refuse,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Refuse => "refuse",
        }
    }

    fn quota(self) -> Quota {
        match self {
            Self::Allow => AMPLE,
            Self::Refuse => SPENT,
        }
    }

    /// The share of requests that pass.
    fn passes(self) -> f64 {
        match self {
            Self::Allow => 1.0,
            Self::Refuse => 0.0,
        }
    }
}

struct Cell {
    outcome: Outcome,
    keys: usize,
    spread: Spread,
    threads: usize,
}

struct Rivals {
    limiter: Limiter,
    bare: BareTable,
    governor: Governor,
    mutex: MutexMap,
}

impl Rivals {
    /// Each knows all keys, and has admitted one request of each.
    fn new(quota: Quota, names: &[String]) -> Self {
        let rivals = Self {
            limiter: Limiter::local(quota),
            bare: BareTable::local(quota),
            governor: governor(quota),
            mutex: MutexMap::new(quota),
        };
        let all: [&dyn Rival; 4] = [&rivals.limiter, &rivals.bare, &rivals.governor, &rivals.mutex];
        for rival in all {
            assert!(names.iter().all(|name| rival.allow(0, name)), "a first request passes");
        }
        rivals
    }
}

impl Cell {
    fn name(&self) -> String {
        format!("{:<7} {:>5} {:>8} {:>7}", self.outcome.name(), short(self.keys), self.spread.name(), self.threads)
    }

    fn measure(&self, options: &Options, rivals: &Rivals, accesses: &Accesses) {
        let floor = Floor::new(self.keys, self.threads);
        let decisions = options.size(1 << 20, 1 << 16);
        let measured = interleave(
            options.rounds(),
            &mut [
                self.contestant(&floor, accesses, decisions),
                self.contestant(&rivals.bare, accesses, decisions),
                self.contestant(&rivals.limiter, accesses, decisions),
                self.contestant(&rivals.governor, accesses, decisions),
                self.contestant(&rivals.mutex, accesses, decisions),
            ],
        );
        let [floor, bare, check, governor, mutex] = [0, 1, 2, 3, 4].map(|of| measured.median(of, nanos));
        let faster = |than| measured.ratio(than, 2, nanos);
        println!(
            "{:31} | {floor:6.1} {bare:6.1} {check:6.1} {governor:8.1} {mutex:6.1} | {:7.2} x {:6.2} x; {:5.2}",
            self.name(),
            faster(3),
            faster(4),
            measured.ratio(2, 1, nanos),
        );
        let expected = self.outcome.passes();
        for (rival, name) in [(1, "bare"), (2, "check"), (3, "governor"), (4, "mutex")] {
            let passed = measured.median(rival, |sample: &Sample| sample.passed);
            // At its cap a table may keep no bucket for a few of a million keys.
            assert!((passed - expected).abs() < 0.01, "{name} let {passed:.3} of the requests pass");
        }
    }

    fn contestant<'a, R: Rival>(
        &self,
        rival: &'a R,
        accesses: &'a Accesses,
        decisions: usize,
    ) -> Contestant<'a, Sample> {
        let (threads, mut turn) = (self.threads, 0);
        Box::new(move || {
            turn += 1;
            let work = |thread, keys: &[String]| keys.iter().filter(|key| rival.allow(thread, key)).count();
            sample(threads, accesses, turn, decisions, work)
        })
    }
}

pub fn nanos(sample: &Sample) -> f64 {
    sample.nanos
}
