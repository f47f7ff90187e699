//! Sixteen keys a call, beside one key a call.

use peerlimit::Limiter;

use crate::{
    single::{AMPLE, MANY, nanos},
    support::{
        keys::{Accesses, Spread, names, short},
        options::Options,
        rivals::{Rival, governor},
        rounds::interleave,
    },
    threads::sample,
};

const BATCH: usize = 16;

pub fn run(options: &Options) {
    let cell = |spread: Spread, threads| format!("batch {} {} {threads}", short(MANY), spread.name());
    let cells: Vec<(Spread, usize)> = [Spread::Uniform, Spread::Zipf]
        .into_iter()
        .flat_map(|spread| [(spread, 1), (spread, 2)])
        .filter(|(spread, threads)| options.wants_slow(&cell(*spread, *threads)))
        .collect();
    if cells.is_empty() {
        return;
    }
    let names = names(MANY);
    let (limiter, governor) = (Limiter::local(AMPLE), governor(AMPLE));
    assert!(names.iter().all(|name| limiter.allow(name) && governor.check_key(name).is_ok()), "a first request passes");

    println!("\nns a key and thread, {BATCH} keys a call");
    println!("cell               |  batch  check governor | governor / batch, check / batch");
    for (spread, threads) in cells {
        let accesses = Accesses::new(&names, spread);
        let decisions = options.size(1 << 20, 1 << 16);
        let mut turns = [0; 3];
        let [batch_turn, check_turn, governor_turn] = turns.each_mut();
        let measured = interleave(
            options.rounds(),
            &mut [
                Box::new(|| {
                    *batch_turn += 1;
                    let work = |_, keys: &[String]| keys.chunks(BATCH).map(|keys| passed_of(&limiter, keys)).sum();
                    sample(threads, &accesses, *batch_turn, decisions, work)
                }),
                Box::new(|| {
                    *check_turn += 1;
                    let work = |_, keys: &[String]| keys.iter().filter(|key| limiter.allow(key)).count();
                    sample(threads, &accesses, *check_turn, decisions, work)
                }),
                Box::new(|| {
                    *governor_turn += 1;
                    let work = |thread, keys: &[String]| keys.iter().filter(|key| governor.allow(thread, key)).count();
                    sample(threads, &accesses, *governor_turn, decisions, work)
                }),
            ],
        );
        println!(
            "{:18} | {:6.1} {:6.1} {:8.1} | {:6.2} x {:6.2} x",
            cell(spread, threads),
            measured.median(0, nanos),
            measured.median(1, nanos),
            measured.median(2, nanos),
            measured.ratio(2, 0, nanos),
            measured.ratio(1, 0, nanos),
        );
    }
}

/// How many of the requests of one call pass.
fn passed_of(limiter: &Limiter, keys: &[String]) -> usize {
    limiter.check_many(keys).iter().filter(|decision| decision.allowed).count()
}
