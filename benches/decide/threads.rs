//! Decisions on some threads at once.

use std::{
    ops::RangeInclusive,
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use crossbeam_utils::CachePadded;

use crate::support::{keys::Accesses, rounds::median};

/// Decisions between two readings of the clock: many to a reading, few to a time slice of the scheduler, which a machine
/// with other work takes away now and then. A sample is the median of its stretches, so it leaves out those slices.
/// (What a decision waits at worst is shown by the benchmark `pause`.)
pub const STRETCH: usize = 4096;
/// Decisions after which a thread says how far it is.
const STEP: usize = 256;
/// Steps that each other thread has to take during a stretch: an eighth as many to eight times as many, since locks need
/// not be fair. On a machine with other work threads also run while the others wait for a core; then nobody meets
/// anybody, and one takes no step while another takes thousands.
const TOGETHER: RangeInclusive<usize> = STRETCH / STEP / 8..=STRETCH / STEP * 8;
/// Stretches that are tried for one that is wanted.
const PATIENCE: usize = 10;

/// What one sample found.
#[derive(Clone, Copy)]
pub struct Sample {
    /// Of a decision on a thread. Not a number where the threads never ran together.
    pub nanos: f64,
    /// The share of decisions that let the request pass.
    pub passed: f64,
}

/// Takes at least `decisions` decisions on each of so many threads. Successive `turn`s go on where the last ended.
///
/// `work` is told its thread and gets the keys of some requests, and returns how many of them passed.
pub fn sample(
    threads: usize,
    accesses: &Accesses,
    turn: usize,
    decisions: usize,
    work: impl Fn(usize, &[String]) -> usize + Sync,
) -> Sample {
    let race = Race::of(threads);
    let one_thread = |thread: usize| {
        let keys = accesses.chunks_from((turn * threads + thread) * (decisions / STEP), STEP);
        race.run(thread, decisions / STRETCH, keys, |keys| work(thread, keys))
    };
    if threads == 1 {
        return one_thread(0);
    }
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let samples: Vec<Sample> = std::thread::scope(|scope| {
        let spawn = |thread| {
            let (one_thread, core) = (&one_thread, cores.get(thread).copied());
            scope.spawn(move || {
                // Where threads cannot be bound to a core, they meet as often as the scheduler lets them.
                core.map(core_affinity::set_for_current);
                one_thread(thread)
            })
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        handles.into_iter().map(|handle| handle.join().expect("no decision panics")).collect()
    });
    let mean = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / threads as f64;
    Sample { nanos: mean(|sample| sample.nanos), passed: mean(|sample| sample.passed) }
}

/// What the threads of one sample know of each other. All accesses are Relaxed: nothing is read but the numbers.
struct Race {
    start: Barrier,
    /// Steps of each thread.
    steps: Vec<CachePadded<AtomicUsize>>,
    /// Threads that want more stretches. The others go on as long as there are any.
    unfinished: AtomicUsize,
}

impl Race {
    fn of(threads: usize) -> Self {
        let steps = (0..threads).map(|_| CachePadded::default()).collect();
        Self { start: Barrier::new(threads), steps, unfinished: AtomicUsize::new(threads) }
    }

    fn run<'k>(
        &self,
        thread: usize,
        wanted: usize,
        mut keys: impl Iterator<Item = &'k [String]>,
        work: impl Fn(&[String]) -> usize,
    ) -> Sample {
        let mut stretches = Vec::with_capacity(wanted);
        let (mut passed, mut tried) = (0, 0);
        self.start.wait();
        while self.unfinished.load(Ordering::Relaxed) > 0 {
            let before: Vec<usize> = self.steps_of_others(thread).collect();
            let begun = Instant::now();
            for keys in keys.by_ref().take(STRETCH / STEP) {
                passed += work(keys);
                self.steps[thread].fetch_add(1, Ordering::Relaxed);
            }
            let took = begun.elapsed();
            tried += 1;
            let is_wanted = stretches.len() < wanted && tried <= wanted * PATIENCE;
            if is_wanted
                && self.steps_of_others(thread).zip(before).all(|(now, before)| TOGETHER.contains(&(now - before)))
            {
                stretches.push(took.as_nanos() as f64 / STRETCH as f64);
            }
            let wants_more = stretches.len() < wanted && tried < wanted * PATIENCE;
            if is_wanted && !wants_more {
                self.unfinished.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Sample { nanos: median(stretches), passed: passed as f64 / (tried * STRETCH) as f64 }
    }

    fn steps_of_others(&self, thread: usize) -> impl Iterator<Item = usize> {
        let others = self.steps.iter().enumerate().filter(move |(index, _)| *index != thread);
        others.map(|(_, steps)| steps.load(Ordering::Relaxed))
    }
}
