//! What a decision allocates: nothing, where the key is known; and how many bytes a bucket takes.
//!
//! The allocator of this program counts what each thread asks for, so tests may run beside each other.

use std::time::Duration;

use allocation_counter::measure;
use peerlimit::{
    Limiter, ManualClock, Quota,
    bucket::Timestamp,
    crdt::{Delta, Digest, DigestKey, Epoch, LogLimits, ReplicaLog, RunId, Version},
    table::{Table, TableOptions},
};

/// Most heap bytes of a bucket in a table at its working load, as the documentation says.
const BYTES_A_BUCKET: u64 = 56;
/// Most heap bytes of a cell in the replica log, whether its key has one or one of each of ten runs.
const BYTES_A_CELL: u64 = 80;
const MILLION: usize = 1_000_000;

/// Nothing that a test asks is refused.
const AMPLE: Quota = Quota::per_second(1_000_000).burst(1_000_000);
const NOW: Timestamp = Timestamp::from_millis(1_000);

fn digests(count: usize) -> Vec<Digest> {
    let hasher = DigestKey::PUBLIC.hasher("");
    (0..count).map(|key| hasher.digest(format!("user:{key}").as_bytes())).collect()
}

/// Decides ten times on each key and returns how often that allocated.
fn allocations(limiter: &Limiter, keys: &[String]) -> u64 {
    let decide = || keys.iter().cycle().take(10 * keys.len()).filter(|key| limiter.check(key).allowed).count();
    measure(|| assert!(decide() <= 10 * keys.len())).count_total
}

#[test]
fn a_decision_on_a_known_key_allocates_nothing() {
    let keys: Vec<String> = (0..1_000).map(|key| format!("user:{key}")).collect();
    for quota in [AMPLE, Quota::per_hour(1)] {
        let limiter = Limiter::local_with_clock(quota, ManualClock::new());
        for key in &keys {
            assert!(limiter.allow(key));
        }
        assert_eq!(allocations(&limiter, &keys), 0, "{quota:?}");
    }
    // The system's clock allocates nothing either.
    let limiter = Limiter::local(AMPLE);
    assert!(keys.iter().all(|key| limiter.allow(key)));
    assert_eq!(allocations(&limiter, &keys), 0);
}

/// A table whose admissions are collected, with `peers` who wait for them.
struct Publishing {
    table: Table,
    digests: Vec<Digest>,
    peers: usize,
}

impl Publishing {
    fn with_peers(peers: usize) -> Self {
        let table = Table::new(TableOptions { max_keys: 1 << 16, publish: true });
        Self { table, digests: digests(1_000), peers }
    }

    /// Ten decisions on each key.
    fn decide(&self) {
        let spec = self.table.scopes().get_or_add(&DigestKey::PUBLIC, "", AMPLE);
        for digest in self.digests.iter().cycle().take(10 * self.digests.len()) {
            assert!(self.table.decide(&spec.rule(), *digest, 1, NOW).allowed);
        }
    }

    /// What decisions between two drains allocate, once there was a drain before.
    fn allocations(&self) -> u64 {
        self.table.scopes().set_peers(self.peers);
        self.decide();
        let mut unsent = Vec::new();
        self.table.drain_dirty(NOW, &mut unsent);
        assert_eq!(unsent.len(), self.digests.len());
        measure(|| self.decide()).count_total
    }
}

#[test]
fn what_is_kept_for_peers_allocates_nothing_after_the_first_drain() {
    assert_eq!(Publishing::with_peers(0).allocations(), 0);
    assert_eq!(Publishing::with_peers(9).allocations(), 0);
}

#[test]
fn a_drain_into_a_list_with_room_allocates_nothing() {
    let publishing = Publishing::with_peers(0);
    publishing.decide();
    let mut unsent = Vec::new();
    publishing.table.drain_dirty(NOW, &mut unsent);
    unsent.clear();
    publishing.decide();
    assert_eq!(measure(|| publishing.table.drain_dirty(NOW, &mut unsent)).count_total, 0);
    assert_eq!(unsent.len(), publishing.digests.len());
}

/// Heap bytes for each of a million things that are in what `build` returns.
fn bytes_each<T>(build: impl FnOnce() -> T) -> u64 {
    let mut built = None;
    let info = measure(|| built = Some(build()));
    // Counted before it goes.
    drop(built);
    u64::try_from(info.bytes_current).unwrap_or(u64::MAX).div_ceil(MILLION as u64)
}

#[test]
fn a_bucket_takes_no_more_bytes_than_the_documentation_says() {
    let digests = digests(MILLION);
    let bytes = bytes_each(|| {
        let table = Table::new(TableOptions { max_keys: 1 << 20, publish: false });
        let spec = table.scopes().get_or_add(&DigestKey::PUBLIC, "", AMPLE);
        for digest in &digests {
            assert!(table.decide(&spec.rule(), *digest, 1, NOW).allowed);
        }
        table
    });
    assert!(bytes <= BYTES_A_BUCKET, "{bytes} bytes a bucket");
}

/// A log of the run 0, and other runs that tell it of keys.
struct Told {
    log: ReplicaLog,
    versions: u64,
}

impl Told {
    fn new() -> Self {
        let limits = LogLimits { max_keys: 1 << 20, max_cells: 1 << 24, max_runs: 64 };
        Self { log: ReplicaLog::new(RunId::from_raw(0), limits, Duration::from_secs(600)), versions: 0 }
    }

    /// Each of `runs` admits one permit more of each key.
    fn tell<'a>(&mut self, runs: u64, digests: impl Iterator<Item = &'a Digest> + Clone, from: u64) {
        let scope = DigestKey::PUBLIC.scope_id("");
        for run in (1..=runs).map(RunId::from_raw) {
            for (digest, version) in digests.clone().zip((self.versions + 1..).map(Version::from_raw)) {
                let delta = Delta { scope, digest: *digest, epoch: Epoch::default(), from, to: from + 1, version };
                self.log.apply_delta(run, &delta, NOW);
            }
        }
        self.versions += MILLION as u64 / runs;
    }
}

#[test]
fn a_cell_takes_no_more_bytes_than_the_documentation_says() {
    for runs in [1, 10] {
        let digests = digests(MILLION / runs as usize);
        let bytes = bytes_each(|| {
            let mut told = Told::new();
            told.tell(runs, digests.iter(), 0);
            assert_eq!(told.log.cells(), MILLION);
            told
        });
        assert!(bytes <= BYTES_A_CELL, "{bytes} bytes a cell of {runs} runs");
    }
}

#[test]
fn a_cell_in_use_takes_no_more_bytes_and_allocates_next_to_nothing() {
    for runs in [1, 10] {
        let digests = digests(MILLION / runs as usize);
        // As if at random, by a finalizer of Murmur hash, so that each run's order has gaps of all widths.
        let draw = |nth: u64| {
            let mixed = (nth ^ nth >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
            &digests[(mixed ^ mixed >> 33) as usize % digests.len()]
        };
        let mut allocations = 0;
        let bytes = bytes_each(|| {
            let mut told = Told::new();
            told.tell(runs, digests.iter(), 0);
            let each = digests.len() as u64;
            told.tell(runs, (0..each).map(draw), 1);
            allocations = measure(|| told.tell(runs, (each..2 * each).map(draw), 2)).count_total;
            assert_eq!(told.log.cells(), MILLION);
            told
        });
        assert!(allocations <= MILLION as u64 / 32, "{allocations} allocations for a million cells of {runs} runs");
        assert!(bytes <= BYTES_A_CELL, "{bytes} bytes a cell of {runs} runs");
    }
}
