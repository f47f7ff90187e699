//! Ten nodes in one process that live through churn, a flood of keys and steady load: memory stays flat, no task dies,
//! and what is gone is forgotten.
//!
//! ```sh
//! PEERLIMIT_SOAK_SECONDS=600 cargo test --release --test soak -- --ignored --nocapture
//! ```
//!
//! takes so many seconds, 600 where nothing is said. Some seconds of the same are part of every `cargo test`.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "real nodes run in real time, and what goes wrong here fails the test"
)]

#[path = "soak/fleet.rs"]
mod fleet;
#[path = "soak/load.rs"]
mod load;
#[path = "support/wait.rs"]
mod wait;

use std::{
    env, fs, panic,
    sync::{
        Mutex, Once, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fleet::{Fleet, NODES};
use load::{Load, STEADY_KEYS};
use peerlimit::Quota;
use wait::eventually;

/// Each test measures the memory of the whole process, so they take turns.
static ALONE: Mutex<()> = Mutex::new(());

/// By how much memory may grow from the first quarter of the samples to the last, by their medians: a twentieth, and
/// 4 MB. The allocator returns pages late and keeps an arena a thread, and how full logs are at a sample is chance;
/// that is the twentieth. A node takes some megabytes, of which one is replaced a second: if a hundredth part of it
/// stayed behind it would show within ten minutes.
const GROWTH: f64 = 1.05;
const GROWTH_BYTES: f64 = 4e6;

/// Panics of this process, on whatever thread. Those of tasks are caught by the runtime, and nobody would know.
fn panics() -> usize {
    static HOOK: Once = Once::new();
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    HOOK.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            report(info);
        }));
    });
    PANICS.load(Ordering::Relaxed)
}

/// Resident memory of this process in bytes.
fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    1024.0 * kilobytes.and_then(|number| number.parse::<f64>().ok()).expect("a number of kB")
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn soak(length: Duration, seed: u64) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let panics_before = panics();
    println!("seed {seed}");
    let (fleet, load) = (Fleet::start(), Load::default());
    let (churning, flooding, loading) = (AtomicBool::new(true), AtomicBool::new(true), AtomicBool::new(true));
    thread::scope(|threads| {
        // However this ends, the others have to.
        let _end = End([&churning, &flooding, &loading]);
        let churn = threads.spawn(|| fleet.churn(&churning, seed));
        threads.spawn(|| load.offer(&fleet, &flooding, &loading, seed));
        stays_flat(&watch(&load, length));

        churning.store(false, Ordering::Relaxed);
        let replaced = churn.join().expect("churn ends well");
        flooding.store(false, Ordering::Relaxed);
        println!("{replaced} nodes replaced; {load}");
        is_one_cluster(&fleet);
        // While the steady keys are in use.
        remembers_the_living_only(&fleet);
    });
    tells_its_news(&fleet);
    assert_eq!(panics(), panics_before, "something panicked");
}

/// Ends threads that run while these are true.
struct End<'a, const N: usize>([&'a AtomicBool; N]);

impl<const N: usize> Drop for End<'_, N> {
    fn drop(&mut self) {
        self.0.iter().for_each(|flag| flag.store(false, Ordering::Relaxed));
    }
}

/// Samples of the resident memory, one a second, after a warm-up of a fifth of `length`. Steady load has to be admitted
/// all the while.
fn watch(load: &Load, length: Duration) -> Vec<f64> {
    let begin = Instant::now();
    let mut samples = Vec::new();
    while begin.elapsed() < length {
        let admitted = load.steady.admitted();
        thread::sleep(Duration::from_secs(1));
        eventually("admissions go on", || load.steady.admitted() > admitted);
        if begin.elapsed() > length / 5 {
            samples.push(resident());
        }
    }
    samples
}

fn stays_flat(samples: &[f64]) {
    let quarter = samples.len().div_ceil(4);
    let (first, last) = (median(&samples[..quarter]), median(&samples[samples.len() - quarter..]));
    let (least, most) =
        samples.iter().fold((f64::MAX, 0.0_f64), |(least, most), sample| (least.min(*sample), most.max(*sample)));
    println!(
        "resident: {:.1} MB in the first quarter, {:.1} MB in the last; {:.1} to {:.1} MB in {} samples",
        first / 1e6,
        last / 1e6,
        least / 1e6,
        most / 1e6,
        samples.len()
    );
    assert!(last <= GROWTH * first + GROWTH_BYTES, "memory grew from {first} to {last} bytes");
}

/// All see all, and frames come to each of them.
fn is_one_cluster(fleet: &Fleet) {
    let nodes = fleet.nodes();
    let mut living: Vec<_> = nodes.iter().map(|node| node.local_addr().expect("on the network")).collect();
    living.sort_unstable();
    eventually("the living see each other and nobody else", || {
        nodes.iter().all(|node| {
            let mut members: Vec<_> = node.members().into_iter().map(|member| member.addr).collect();
            members.sort_unstable();
            members == living
        })
    });
    let before: Vec<_> = nodes.iter().map(|node| node.stats().frames_in).collect();
    eventually("frames come to all", || {
        nodes.iter().zip(&before).all(|(node, before)| node.stats().frames_in > *before)
    });
}

fn remembers_the_living_only(fleet: &Fleet) {
    let nodes = fleet.nodes();
    let most = |what: fn(&peerlimit::Stats) -> u64| nodes.iter().map(|node| what(&node.stats())).max().unwrap_or(0);
    println!("before the time to live: at most {} runs, {} cells", most(|stats| stats.runs), most(|stats| stats.cells));
    eventually("runs and cells of the dead are gone", || {
        most(|stats| stats.runs) <= NODES as u64 && most(|stats| stats.cells) <= (NODES * STEADY_KEYS) as u64
    });
}

/// Each node admits, and all others hear of it.
fn tells_its_news(fleet: &Fleet) {
    let nodes = fleet.nodes();
    // Nothing to speak of comes back meanwhile.
    let scopes: Vec<_> = nodes.iter().map(|node| node.scope("slow", Quota::per_day(100))).collect();
    for (index, scope) in scopes.iter().enumerate() {
        assert!(scope.check_n(format!("slow:{index}"), 60).allowed);
    }
    eventually("all know what each admitted", || {
        scopes.iter().all(|scope| (0..NODES).all(|index| scope.peek(format!("slow:{index}")).remaining == 40))
    });
}

#[test]
fn ten_seconds_of_churn_and_floods_leave_one_cluster_and_flat_memory() {
    soak(Duration::from_secs(10), 1);
}

#[test]
#[ignore = "takes ten minutes: see the top of this file"]
fn a_long_soak_leaves_one_cluster_and_flat_memory() {
    let seconds = env::var("PEERLIMIT_SOAK_SECONDS").map_or(600, |text| text.parse().expect("a number of seconds"));
    soak(Duration::from_secs(seconds), 2);
}
