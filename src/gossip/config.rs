//! What an engine is told at its construction.

use std::{net::SocketAddr, time::Duration};

use crate::crdt::{DigestKey, LogLimits, RunId};

use super::{
    seal::Secrets,
    wire::{ClusterId, MAX_RUNS, NodeName},
};

/// The settings of one engine. Checked by whoever builds it; see `limiter::builder`.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Which cluster this node belongs to.
    pub cluster: ClusterId,
    /// Its label.
    pub name: NodeName,
    /// What its frames are sealed with; `None` sends and takes them in the clear.
    pub secrets: Option<Secrets>,
    /// Where peers reach it.
    pub advertise: SocketAddr,
    /// Which life of which process it is. Drawn at random.
    pub run: RunId,
    /// When it started, in milliseconds of the wall clock; see
    /// [`wire::Identity::started`](super::wire::Identity::started).
    pub started: u64,
    /// Seed of every choice that the engine makes.
    pub seed: u64,
    /// How often all unsent permits are told to all members.
    pub sync_interval: Duration,
    /// Shortest time between two rounds of eager pushes.
    pub push_gap: Duration,
    /// Datagrams with news in a second; the gap grows with the members to stay below. Not 0.
    pub datagram_budget: u32,
    /// How often the node compares notes with one random member.
    pub anti_entropy_interval: Duration,
    /// What is dropped when idle; `None` keeps everything up to the caps.
    pub sweeping: Option<Sweeping>,
    /// What a part of a partitioned cluster may admit.
    pub on_partition: PartitionPolicy,
    /// The failure detector.
    pub swim: SwimConfig,
    /// Bounds of the replica log.
    pub limits: LogLimits,
}

/// What a part of a cluster may admit while members that did not leave are out of reach.
///
/// With serde it is `available` or `conservative`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PartitionPolicy {
    /// The whole quota: nobody is refused for a failure, and a partition into p parts admits at most p times the quota.
    #[default]
    Available,
    /// A share of rate and burst in proportion to the members that it sees, itself included, so that all parts
    /// together stay within the quota once the loss is noticed.
    ///
    /// A member that crashed counts as out of reach until it is back or replaced at its address, or for five minutes;
    /// then the members that are missed are given up, one a second. A member that leaves on purpose
    /// ([`Limiter::close`](crate::Limiter::close)) never shrinks a quota.
    Conservative,
}

/// When idle keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweeping {
    /// How long a bucket has to be full, and a cell unpublished.
    pub key_ttl: Duration,
    /// Time for one round over everything.
    pub interval: Duration,
}

/// The failure detector's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwimConfig {
    /// How often one member is probed.
    pub probe_interval: Duration,
    /// How long a direct answer may take before others are asked to probe. Less than half of the interval.
    pub probe_timeout: Duration,
    /// How long a suspect may take to contradict.
    pub suspicion_timeout: Duration,
    /// How often members held down are announced to.
    pub reconnect_interval: Duration,
    /// How long members held down are remembered.
    pub forget_after: Duration,
}

impl SwimConfig {
    /// Probes at that interval, which leave three tenths of it for a direct answer.
    pub const fn probing(probe_interval: Duration, suspicion_timeout: Duration) -> Self {
        Self {
            probe_interval,
            probe_timeout: three_tenths(probe_interval),
            suspicion_timeout,
            reconnect_interval: Duration::from_secs(1),
            forget_after: Duration::from_secs(60 * 60),
        }
    }
}

const fn three_tenths(of: Duration) -> Duration {
    match of.saturating_mul(3).checked_div(10) {
        Some(part) => part,
        // Ten is not zero.
        None => of,
    }
}

/// How fast a node works: the settings that depend on its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// As [`EngineConfig::sync_interval`].
    pub sync_interval: Duration,
    /// As [`EngineConfig::push_gap`].
    pub push_gap: Duration,
    /// As [`EngineConfig::datagram_budget`].
    pub datagram_budget: u32,
    /// As [`EngineConfig::anti_entropy_interval`].
    pub anti_entropy_interval: Duration,
    /// The failure detector's times.
    pub swim: SwimConfig,
}

impl Pace {
    /// One data centre: round trips of some milliseconds at most.
    pub const LAN: Self = Self {
        sync_interval: Duration::from_millis(200),
        push_gap: Duration::from_millis(5),
        datagram_budget: 2000,
        anti_entropy_interval: Duration::from_secs(1),
        swim: SwimConfig::probing(Duration::from_secs(1), Duration::from_secs(3)),
    };
    /// Several regions: round trips up to half a second, and some loss. Members are given the time to answer that takes, and
    /// pushes come no more often than makes a difference over such a distance.
    pub const WAN: Self = Self {
        sync_interval: Duration::from_millis(500),
        push_gap: Duration::from_millis(20),
        datagram_budget: 1000,
        anti_entropy_interval: Duration::from_secs(2),
        swim: SwimConfig::probing(Duration::from_secs(3), Duration::from_secs(12)),
    };
}

impl EngineConfig {
    /// Bounds that suit a table of a million keys.
    pub const DEFAULT_LIMITS: LogLimits = LogLimits { max_keys: 1 << 20, max_cells: 1 << 24, max_runs: MAX_RUNS };

    /// Settings of a node `name` that is reached at `advertise`, with the defaults for everything else: the pace of a LAN.
    pub fn new(name: NodeName, advertise: SocketAddr, run: RunId) -> Self {
        let Pace { sync_interval, push_gap, datagram_budget, anti_entropy_interval, swim } = Pace::LAN;
        Self {
            cluster: ClusterId::new(&DigestKey::PUBLIC, ""),
            name,
            secrets: None,
            advertise,
            run,
            started: 0,
            seed: run.raw(),
            sync_interval,
            push_gap,
            datagram_budget,
            anti_entropy_interval,
            sweeping: Some(Sweeping { key_ttl: Duration::from_secs(600), interval: Duration::from_secs(60) }),
            on_partition: PartitionPolicy::Available,
            swim,
            limits: Self::DEFAULT_LIMITS,
        }
    }

    /// The same node at another pace.
    #[must_use]
    pub fn at_pace(self, pace: Pace) -> Self {
        let Pace { sync_interval, push_gap, datagram_budget, anti_entropy_interval, swim } = pace;
        Self { sync_interval, push_gap, datagram_budget, anti_entropy_interval, swim, ..self }
    }
}
