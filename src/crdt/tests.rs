//! The laws of counts, and what a replica log promises whatever the network does.

mod arena;
mod cells;
mod digest;
mod held;
mod log;
mod network;
mod order;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;

use super::*;
use crate::bucket::{Missing, Timestamp};

const SCOPE: ScopeId = ScopeId::from_raw(77);
const NO_LIMITS: LogLimits = LogLimits { max_keys: usize::MAX, max_cells: usize::MAX, max_runs: usize::MAX };

/// How long a cell lives.
const TTL: Duration = Duration::from_secs(600);

/// Nothing is written to disk: the failing case that is printed repeats a failure.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn run(id: u64) -> RunId {
    RunId::from_raw(id)
}

fn version(raw: u64) -> Version {
    Version::from_raw(raw)
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(second * 1_000)
}

fn key(number: u64) -> Digest {
    DigestKey::PUBLIC.hasher("default").digest(&number.to_le_bytes())
}

fn log(own: u64) -> ReplicaLog {
    ReplicaLog::new(run(own), NO_LIMITS, TTL)
}

fn delta(number: u64, from: u64, to: u64, at: u64) -> Delta {
    Delta { scope: SCOPE, digest: key(number), epoch: Epoch::default(), from, to, version: version(at) }
}

fn record(number: u64, cells: &[RunCell]) -> KeyRecord {
    KeyRecord { scope: SCOPE, digest: key(number), missing: Some(Missing::default()), cells: cells.into() }
}

fn cell(of: u64, permits: u64, at: u64, age_secs: u32) -> RunCell {
    RunCell { run: run(of), count: Count { epoch: Epoch::default(), permits }, version: version(at), age_secs }
}

/// What a log's getters must agree on, over all keys that it may hold.
fn check(log: &ReplicaLog, keys: impl IntoIterator<Item = Digest>) {
    let (mut cells, mut held) = (0, 0);
    let mut places: BTreeMap<(RunId, Version), Digest> = BTreeMap::new();
    for digest in keys.into_iter().collect::<BTreeSet<_>>() {
        let of: Vec<Cell> = log.cells_of(digest).collect();
        held += usize::from(!of.is_empty());
        cells += of.len();
        let runs: BTreeSet<RunId> = of.iter().map(|cell| cell.run).collect();
        assert_eq!(runs.len(), of.len(), "{digest:?} has two cells of one run: {of:?}");
        for cell in &of {
            let twin = places.insert((cell.run, cell.version), digest);
            assert_eq!(twin, None, "two cells of {:?} have {:?}", cell.run, cell.version);
        }
    }
    assert_eq!(log.cells(), cells, "cells are miscounted");
    assert_eq!(log.keys(), held, "keys are miscounted, or a key has no cells");
    // The order of versions names each cell once, and nothing else.
    for (id, _) in log.versions() {
        let mut below = version(u64::MAX);
        let mut walked = 0;
        while let Some((at, digest)) = log.newest_between(id, Version::NONE, below) {
            assert_eq!(places.get(&(id, at)), Some(&digest), "{id:?} has a place for no cell at {at:?}");
            below = at;
            walked += 1;
        }
        assert_eq!(walked, places.keys().filter(|(of, _)| *of == id).count(), "{id:?} has cells without a place");
        assert_eq!(log.has_cells_of(id), walked > 0);
    }
    assert!(places.keys().all(|(id, _)| log.versions().any(|(of, _)| of == *id)), "a cell of a run that is not known");
}

/// A walk over what a peer lacks that holds `theirs`, without keys in use.
fn walk_over(log: &ReplicaLog, theirs: BTreeMap<RunId, Version>) -> Walk {
    Walk::new(log, theirs, Vec::new())
}

/// Sends what `from` holds and `to` lacks, in one exchange. Returns the permits charged by key, with levels left out.
fn repair(from: &ReplicaLog, to: &mut ReplicaLog, now: Timestamp) -> BTreeMap<Digest, u64> {
    let mut walk = walk_over(from, to.versions().collect());
    let covers: Vec<_> = walk.covers().collect();
    let mut charged = BTreeMap::new();
    let more = walk.step(
        from,
        now,
        |_, _| None,
        |record| {
            for cell in &record.cells {
                match to.apply_record(&record, cell, now) {
                    Applied::News(news) => *charged.entry(record.digest).or_default() += news.charge(Duration::MAX),
                    Applied::NoBaseline(news) => assert_eq!(news, News::default(), "a record reports nothing"),
                    Applied::Refused => assert_eq!(cell.run, to.own(), "a cell was refused"),
                }
            }
            true
        },
    );
    assert!(!more);
    for (run, low, high) in covers {
        to.cover(run, low, high, now);
    }
    charged
}
