//! Members that are out of reach, and what share of a quota that leaves.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use crate::{bucket::Timestamp, crdt::RunId};

use super::PartitionPolicy;

/// Who is missed: members that went without having said that they leave.
#[derive(Debug)]
pub(super) struct Absence {
    policy: PartitionPolicy,
    /// Members that said so and are not gone yet.
    leaving: BTreeSet<RunId>,
    missed: BTreeMap<RunId, Missed>,
    /// No member is given up before.
    next_given_up: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Missed {
    addr: SocketAddr,
    since: Timestamp,
}

impl Absence {
    /// How long a member is missed.
    const PATIENCE: Duration = Duration::from_secs(300);
    /// Time between two members that are given up, so that a quota comes back by steps.
    const STEP: Duration = Duration::from_secs(1);

    pub(super) fn new(policy: PartitionPolicy) -> Self {
        Self { policy, leaving: BTreeSet::new(), missed: BTreeMap::new(), next_given_up: Timestamp::ZERO }
    }

    /// A member said that it leaves.
    pub(super) fn leaves(&mut self, run: RunId) {
        self.leaving.insert(run);
    }

    /// A member is gone.
    pub(super) fn gone(&mut self, run: RunId, addr: SocketAddr, now: Timestamp) {
        let on_purpose = self.leaving.remove(&run);
        if !on_purpose && self.policy == PartitionPolicy::Conservative {
            self.missed.insert(run, Missed { addr, since: now });
        }
    }

    /// A member is there, in place of whoever was at its address.
    pub(super) fn came(&mut self, run: RunId, addr: SocketAddr) {
        self.leaving.remove(&run);
        self.missed.retain(|missed, at| *missed != run && at.addr != addr);
    }

    /// Gives up those who were missed for too long. Returns whether anybody was.
    pub(super) fn give_up(&mut self, now: Timestamp) -> bool {
        if now < self.next_timeout() {
            return false;
        }
        let longest = self.missed.iter().min_by_key(|(_, missed)| missed.since).map(|(run, _)| *run);
        self.next_given_up = now.saturating_add(Self::STEP);
        longest.is_some_and(|run| self.missed.remove(&run).is_some())
    }

    /// When somebody is to be given up.
    pub(super) fn next_timeout(&self) -> Timestamp {
        let first = self.missed.values().map(|missed| missed.since.saturating_add(Self::PATIENCE)).min();
        first.map_or(Timestamp::MAX, |first| first.max(self.next_given_up))
    }

    /// How many are missed.
    pub(super) fn missed(&self) -> usize {
        self.missed.len()
    }
}
