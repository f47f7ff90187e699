//! What floods of datagrams and of keys do: cost some time, fill counters, and nothing else.
//!
//! The full sizes are ignored by default:
//! `cargo test --release --test floods -- --ignored --nocapture --test-threads 1`.

#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a flood is measured by the clock")]
#![allow(unreachable_pub, reason = "modules of a test are private by nature")]

use std::{
    fs,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use bytes::Bytes;
use peerlimit::{Limiter, Quota, gossip::StreamCommand};
#[path = "support/pair.rs"]
mod pair;

use pair::{Node, at, pair};
use rand::{Rng, RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

/// Each test measures the memory of the whole process, so they take turns.
static ALONE: Mutex<()> = Mutex::new(());

/// One hostile datagram of each sort in turn.
fn hostile(rng: &mut Xoshiro256PlusPlus, number: u64, real: &[Bytes], into: &mut Vec<u8>) {
    into.clear();
    let model = &real[rng.random_range(0..real.len())];
    match number % 4 {
        // Noise.
        0 => {
            into.resize(rng.random_range(0..1_400), 0);
            rng.fill_bytes(into);
        }
        // Cut off.
        1 => into.extend_from_slice(&model[..rng.random_range(0..model.len())]),
        // Damaged.
        2 => {
            into.extend_from_slice(model);
            for _ in 0..rng.random_range(1..5) {
                let place = rng.random_range(0..into.len());
                into[place] ^= 1 << rng.random_range(0..8);
            }
        }
        // A good header before noise.
        _ => {
            into.resize(rng.random_range(19..1_200), 0);
            rng.fill_bytes(into);
            into[..18].copy_from_slice(&model[..18]);
        }
    }
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    4_096 * pages
}

/// Decisions a second of another thread while `work` goes on.
fn decisions_during(node: &Node, work: impl FnOnce()) -> f64 {
    let (table, scope) = (Arc::clone(&node.table), Arc::clone(&node.scope));
    let (done, decided) = (AtomicBool::new(false), AtomicU64::new(0));
    let begin = Instant::now();
    thread::scope(|threads| {
        threads.spawn(|| {
            let digests: Vec<_> = (0_u64..1_000).map(|key| scope.hasher().digest(&key.to_le_bytes())).collect();
            while !done.load(Ordering::Relaxed) {
                for digest in &digests {
                    // Costs nothing, so that it changes nothing that the flood could tell of.
                    assert!(table.decide(&scope.rule(), *digest, 0, at(3_000)).allowed);
                }
                decided.fetch_add(digests.len() as u64, Ordering::Relaxed);
            }
        });
        work();
        done.store(true, Ordering::Relaxed);
    });
    decided.into_inner() as f64 / begin.elapsed().as_secs_f64()
}

fn flood_of_datagrams(count: u64, seed: u64) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    println!("seed {seed}");
    let (mut node, real, begin) = pair();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    // The other core makes the same datagrams, so that it is as busy, and for about as long; nobody gets them.
    let mut datagram = Vec::new();
    let mut same = rng.clone();
    let quiet = decisions_during(&node, || {
        for number in 0..count {
            hostile(&mut same, number, &real, &mut datagram);
            std::hint::black_box(&datagram);
        }
    });
    let (before, memory) = (node.engine.stats(), resident());
    let mut engine = std::mem::replace(&mut node.engine, Node::new(3).engine);
    let mut largest = 0;
    let busy = decisions_during(&node, || {
        for number in 0..count {
            // A thousand a millisecond, and time for timers.
            let now = at(begin + number / 1_000);
            hostile(&mut rng, number, &real, &mut datagram);
            engine.handle_datagram(now, &datagram);
            if number % 1_000 == 0 {
                engine.handle_timeout(now);
            }
            let mut answers = 0;
            while engine.poll_transmit().is_some() {
                answers += 1;
            }
            largest = largest.max(answers);
            while let Some(command) = engine.poll_stream() {
                if let StreamCommand::Open(id, _) = command {
                    engine.handle_stream_closed(now, id);
                }
            }
            while engine.poll_event().is_some() {}
        }
    });
    let (after, grown) = (engine.stats(), resident().saturating_sub(memory));
    let dropped = after.drops.total() - before.drops.total();
    println!(
        "{count} datagrams: {dropped} counted as dropped; decisions a second {busy:.0}, without the flood {quiet:.0} ({:.2}); \
         {} kB more memory; {} peers, {} runs, {} cells; at most {largest} datagrams at once",
        busy / quiet,
        grown / 1_000,
        after.peers,
        after.runs,
        after.cells,
    );
    println!("{:?}", after.drops);
    assert_eq!(after.frames_in - before.frames_in, count, "each was counted");
    // Half of them are noise or cut off and cannot be right; a damaged one may be by chance, and a whole one too.
    assert!(dropped >= count / 2, "{dropped} of {count} dropped");
    assert!(after.cells <= 1 << 16 && after.runs <= 4_096, "{after:?}");
    assert!(grown < 64 << 20, "{grown} bytes more");
}

#[test]
fn hostile_datagrams_are_counted_and_fill_no_memory() {
    flood_of_datagrams(100_000, 1);
}

#[test]
#[ignore = "takes a minute: see the top of this file"]
fn ten_million_hostile_datagrams() {
    flood_of_datagrams(10_000_000, 2);
}

/// A flood of `keys` keys at a limiter with the default cap. The second number is the most memory that it may take.
fn flood_of_keys(keys: u64, most: u64) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = resident();
    let limiter = Limiter::local(Quota::per_day(10));
    let spent: Vec<String> = (0..100).map(|number| format!("spent:{number}")).collect();
    for key in &spent {
        assert!(limiter.check_n(key, 10).allowed);
    }
    let begin = Instant::now();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    for _ in 0..keys {
        let _decision = limiter.check(rng.next_u64().to_le_bytes());
    }
    let (took, grown, stats) = (begin.elapsed(), resident().saturating_sub(before), limiter.stats());
    println!("{keys} keys in {took:?}: {} kept, {} MB; {:?}", stats.keys, grown / 1_000_000, stats.evictions);
    for key in &spent {
        assert!(!limiter.check(key).allowed, "{key} was refunded");
    }
    assert!(stats.keys <= 1 << 20, "{} keys", stats.keys);
    assert!(grown <= most, "{grown} bytes for {} keys", stats.keys);
}

/// 56 bytes a key at the default cap of 1,048,576, and some room for the program itself.
const MOST: u64 = (56 << 20) + (16 << 20);

#[test]
fn a_flood_of_keys_stays_under_the_documented_memory() {
    flood_of_keys(2_000_000, MOST);
}

#[test]
#[ignore = "takes a minute: see the top of this file"]
fn twenty_million_keys() {
    flood_of_keys(20_000_000, MOST);
}
