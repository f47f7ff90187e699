//! Replica logs full of cells, and deltas to merge into them.

use std::time::Duration;

use peerlimit::{
    bucket::Timestamp,
    crdt::{Delta, Digest, DigestKey, Epoch, LogLimits, ReplicaLog, RunId, ScopeId, Version},
};

/// Our own run, and a moment at which nothing is old.
const OWN: RunId = RunId::from_raw(u64::MAX);
pub const NOW: Timestamp = Timestamp::from_millis(1_000);
const LIMITS: LogLimits = LogLimits { max_keys: 1 << 21, max_cells: 1 << 25, max_runs: 64 };

/// The scope of all keys.
pub const SCOPE: ScopeId = ScopeId::from_raw(0x70e5_c0de);

/// Digests of as many keys.
pub fn digests(keys: usize) -> Vec<Digest> {
    let hasher = DigestKey::PUBLIC.hasher("");
    (0..keys).map(|key| hasher.digest(format!("user:{key}").as_bytes())).collect()
}

pub fn empty() -> ReplicaLog {
    ReplicaLog::new(OWN, LIMITS, Duration::from_secs(600))
}

/// A log in which each of `runs` other runs has told of all keys once.
pub fn of_others(runs: u64, digests: &[Digest]) -> ReplicaLog {
    let mut log = empty();
    for run in 0..runs {
        let mut peer = Peer::new(run);
        for digest in digests {
            let delta = peer.admits(*digest);
            log.apply_delta(peer.run, &delta, NOW);
        }
        log.cover(peer.run, Version::NONE, peer.version, NOW);
    }
    log
}

/// A log in which our own run has published all keys once.
pub fn of_own(digests: &[Digest]) -> ReplicaLog {
    let mut log = empty();
    for digest in digests {
        log.publish(SCOPE, *digest, 1, NOW);
    }
    log
}

/// Another node, that admits one permit of a key at a time.
pub struct Peer {
    pub run: RunId,
    pub version: Version,
    /// Permits admitted of every key so far, by the round of the caller.
    pub permits: u64,
}

impl Peer {
    /// The peer that is the run number `run` of [`of_others`], before it admitted anything.
    pub fn new(run: u64) -> Self {
        Self { run: RunId::from_raw(run + 1), version: Version::NONE, permits: 0 }
    }

    /// Its next delta: one permit more of `digest` than all keys had.
    pub fn admits(&mut self, digest: Digest) -> Delta {
        self.version = Version::from_raw(self.version.raw() + 1);
        Delta {
            scope: SCOPE,
            digest,
            epoch: Epoch::default(),
            from: self.permits,
            to: self.permits + 1,
            version: self.version,
        }
    }
}
