//! Heap bytes of a bucket and of a cell, beside governor's.
//!
//! The allocator of this program counts what each thread asks for, so the figures are exact and the same in every run;
//! there is nothing to repeat. "peak" holds what was there while a table grew: where a table is copied into a larger
//! one, both.
#![allow(clippy::expect_used, reason = "a benchmark that cannot go on fails")]
#![allow(unreachable_pub, reason = "modules of a benchmark are private by nature")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other benchmarks need more of it")]
mod support;

use allocation_counter::measure;
use peerlimit::Quota;

use support::{
    keys::{names, short},
    log,
    options::Options,
    rivals::{BareTable, MutexMap, Rival, governor},
};

const QUOTA: Quota = Quota::per_hour(1);

/// Heap bytes by the thing held.
#[derive(Clone, Copy)]
struct Bytes {
    live: f64,
    peak: f64,
}

/// Bytes for each of `count` things that are in what `build` returns.
fn bytes_each<T>(count: usize, build: impl FnOnce() -> T) -> Bytes {
    let mut built = None;
    let info = measure(|| built = Some(build()));
    // Counted before it goes.
    drop(built);
    let each = |bytes: u64| bytes as f64 / count as f64;
    Bytes { live: each(u64::try_from(info.bytes_current).unwrap_or_default()), peak: each(info.bytes_max) }
}

fn main() {
    let options = Options::read();
    println!("heap bytes a bucket\ncell                 |   live    peak | live / table's");
    for keys in [10_000, 100_000, 1_000_000] {
        let wants = |name: &str| if keys < 1_000_000 { options.wants(name) } else { options.wants_slow(name) };
        if wants(&format!("bucket {}", short(keys))) {
            buckets(keys);
        }
    }
    println!("\nheap bytes a cell\ncell                 |   live    peak");
    let cells = options.size(1_000_000, 100_000);
    for runs in [1, 10] {
        let keys = cells / runs;
        let name = format!("cell {runs:>2} x {}", short(keys));
        if options.wants(&name) {
            let digests = log::digests(keys);
            print(&name, bytes_each(cells, || log::of_others(runs as u64, &digests)), None);
        }
    }
    let name = format!("cell own {}", short(cells));
    if options.wants(&name) {
        let digests = log::digests(cells);
        print(&name, bytes_each(cells, || log::of_own(&digests)), None);
    }
}

fn buckets(keys: usize) {
    let names = names(keys);
    let fill = |rival: &dyn Rival| assert!(names.iter().all(|name| rival.allow(0, name)), "a first request passes");
    let table = bytes_each(keys, || filled(BareTable::local(QUOTA), fill));
    let governor = bytes_each(keys, || filled(governor(QUOTA), fill));
    let mutex = bytes_each(keys, || filled(MutexMap::new(QUOTA), fill));
    for (name, bytes) in [("table", table), ("governor", governor), ("mutex", mutex)] {
        print(&format!("bucket {:<4} {name}", short(keys)), bytes, Some(table));
    }
}

fn filled<R: Rival>(rival: R, fill: impl Fn(&dyn Rival)) -> R {
    fill(&rival);
    rival
}

fn print(name: &str, bytes: Bytes, than: Option<Bytes>) {
    let ratio = than.map_or_else(String::new, |than| format!(" | {:.2}", bytes.live / than.live));
    println!("{name:20} | {:6.1} {:7.1}{ratio}", bytes.live, bytes.peak);
}
