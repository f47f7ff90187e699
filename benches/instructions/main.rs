//! Decides a number of times on known keys and ends: what `.ci/instructions` counts the instructions of.
//!
//! `instructions <case> <decisions>`. The limiter's clock stands still, so no reading of the system's clock is in it,
//! and nothing is random but the seeds of a few maps at the start. Without arguments it plays each case once.
#![allow(clippy::expect_used, reason = "a benchmark that cannot go on fails")]

use std::hint::black_box;

use peerlimit::{
    Limiter, ManualClock, Quota,
    bucket::Timestamp,
    crdt::DigestKey,
    table::{Table, TableOptions},
};

/// Few enough to fill a small table, enough to meet more than one bucket of it.
const KEYS: usize = 1_000;

/// Takes so many decisions and returns how many let a request pass.
type Case = fn(&[String], usize) -> usize;

const CASES: [(&str, Case); 3] = [("allow", allow), ("refuse", refuse), ("publish", publish)];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let keys: Vec<String> = (0..KEYS).map(|key| format!("user:{key}")).collect();
    match args.as_slice() {
        [name, decisions] => {
            let (_, case) = CASES.iter().find(|(case, _)| case == name).expect("allow, refuse or publish");
            black_box(case(&keys, decisions.parse().expect("a number of decisions")));
        }
        _ => CASES.iter().for_each(|(name, case)| println!("{name}: {} of {KEYS} pass", case(&keys, KEYS))),
    }
}

fn allow(keys: &[String], decisions: usize) -> usize {
    let ample = Quota::per_second(Quota::MAX_RATE_PER_SECOND).burst(Quota::MAX_BURST);
    check(&Limiter::local_with_clock(ample, ManualClock::new()), keys, decisions)
}

fn refuse(keys: &[String], decisions: usize) -> usize {
    check(&Limiter::local_with_clock(Quota::per_hour(1), ManualClock::new()), keys, decisions)
}

/// The whole of [`Limiter::check`], on keys that were used once.
fn check(limiter: &Limiter, keys: &[String], decisions: usize) -> usize {
    let used = keys.iter().filter(|key| limiter.allow(key)).count();
    assert_eq!(used, keys.len(), "a first request passes");
    keys.iter().cycle().take(decisions).filter(|key| black_box(limiter.check(key)).allowed).count()
}

/// A table with peers: what is admitted is kept for them.
fn publish(keys: &[String], decisions: usize) -> usize {
    let ample = Quota::per_second(Quota::MAX_RATE_PER_SECOND).burst(Quota::MAX_BURST);
    let table = Table::new(TableOptions { max_keys: 1 << 20, publish: true });
    let spec = table.scopes().get_or_add(&DigestKey::PUBLIC, "", ample);
    table.scopes().set_peers(9);
    let decide = |key: &String| {
        let digest = spec.hasher().digest(key.as_bytes());
        black_box(table.decide(&spec.rule(), digest, 1, Timestamp::from_millis(1))).allowed
    };
    let used = keys.iter().filter(|key| decide(key)).count();
    assert_eq!(used, keys.len(), "a first request passes");
    keys.iter().cycle().take(decisions).filter(|key| decide(key)).count()
}
