//! What the parts of a decision cost where all of them are in the nearest cache.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use governor::clock::{Clock as _, DefaultClock};
use peerlimit::{Clock, crdt::DigestKey};

use crate::{
    support::{
        options::Options,
        rounds::{Contestant, interleave, median},
    },
    threads::STRETCH,
};

pub fn run(options: &Options) {
    if !options.wants("floors") {
        return;
    }
    let (clock, others) = (Clock::system(), DefaultClock::default());
    let hasher = DigestKey::PUBLIC.hasher("");
    let word = AtomicU64::new(0);
    let swap = || {
        // Relaxed: the word stands for nothing.
        let seen = word.load(Ordering::Relaxed);
        word.compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed)
    };
    let calls = options.size(1 << 22, 1 << 18);
    let measured = interleave(
        options.rounds(),
        &mut [
            each(calls, || clock.now()),
            each(calls, || others.now()),
            each(calls, || hasher.digest(black_box(b"user:123456"))),
            each(calls, swap),
        ],
    );
    let [clock, others, digest, swap] = [0, 1, 2, 3].map(|part| measured.median(part, |nanos| *nanos));
    println!(
        "\nfloors, ns: clock {clock:.1}, governor's clock {others:.1}, digest {digest:.1}, compare-and-swap {swap:.1}"
    );
}

fn each<'a, T>(calls: usize, mut call: impl FnMut() -> T + 'a) -> Contestant<'a, f64> {
    Box::new(move || {
        let stretch = || {
            let begun = Instant::now();
            for _ in 0..STRETCH {
                black_box(call());
            }
            begun.elapsed().as_nanos() as f64 / STRETCH as f64
        };
        median(std::iter::repeat_with(stretch).take(calls / STRETCH).collect())
    })
}
