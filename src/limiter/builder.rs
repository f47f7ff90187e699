//! From settings to a running node.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use crate::{
    bucket::Quota,
    crdt::{DigestKey, LogLimits, RunId},
    discovery::{Discoverer, DynDiscoverer},
    gossip::{
        EngineConfig, Pace, PartitionPolicy, Sealing, Secrets, Sweeping, SwimConfig,
        seal::digest_key,
        wire::{ClusterId, MAX_NAME_LEN, NodeName},
    },
    net::{Clock, Node, Sockets, random_u64},
    table::{Table, TableOptions},
};

use zeroize::Zeroizing;

use super::{
    Limiter, Preset, Shared, StartError,
    check::{advertised, check_duration, check_number, host_name},
    first_scope,
};

/// Buckets of a limiter where nothing is said.
pub(super) const DEFAULT_MAX_KEYS: usize = 1 << 20;
/// Cells that the replica log has room for, for each bucket: as many nodes may use every single key.
const CELLS_PER_KEY: usize = 16;
/// The port where nothing is said.
const DEFAULT_PORT: u16 = 7946;

/// Describes a limiter, then [starts](Self::start) it.
///
/// Every setting has a default. What is wrong with one is said by [`start`](Self::start), with its name, value and
/// bound.
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    quota: Quota,
    node: Option<String>,
    cluster: String,
    secrets: Option<Secrets>,
    digest_secret: Option<Zeroizing<Vec<u8>>>,
    bind: SocketAddr,
    advertise: Option<SocketAddr>,
    discoverers: Vec<Box<dyn DynDiscoverer>>,
    discover_interval: Duration,
    sync_interval: Duration,
    push_gap: Duration,
    datagram_budget: usize,
    anti_entropy_interval: Duration,
    probe_interval: Duration,
    suspicion_timeout: Duration,
    on_partition: PartitionPolicy,
    sweeping: Option<Sweeping>,
    max_keys: usize,
}

impl Builder {
    pub(super) fn new(quota: Quota) -> Self {
        let Pace { sync_interval, push_gap, datagram_budget, anti_entropy_interval, swim } = Preset::default().pace();
        Self {
            quota,
            node: None,
            cluster: String::new(),
            secrets: None,
            digest_secret: None,
            bind: SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT)),
            advertise: None,
            discoverers: Vec::new(),
            discover_interval: Duration::from_secs(10),
            sync_interval,
            push_gap,
            datagram_budget: datagram_budget as usize,
            anti_entropy_interval,
            probe_interval: swim.probe_interval,
            suspicion_timeout: swim.suspicion_timeout,
            sweeping: Some(Sweeping { key_ttl: Duration::from_secs(600), interval: Duration::from_secs(60) }),
            on_partition: PartitionPolicy::default(),
            max_keys: DEFAULT_MAX_KEYS,
        }
    }

    /// The node's label, for people: at most 64 bytes. Two nodes of one label do no harm. Default: the host name, cut
    /// to 64 bytes.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// The cluster's label. Nodes with different labels ignore each other, even where one gets the address that
    /// another had. Default: empty.
    pub fn cluster(mut self, label: impl Into<String>) -> Self {
        self.cluster = label.into();
        self
    }

    /// Seals everything between members: it is encrypted, and what does not come from somebody with the secret changes
    /// nothing. All members need it; see [`Secrets`] for its forms, [`Limiter::set_secrets`] for how to replace it, and
    /// [`Sealing`](crate::Sealing) for how to give one to a live cluster. Without it whoever reaches the port can join
    /// and spend quotas, and the start logs a warning. Default: none.
    pub fn secret(mut self, secrets: Secrets) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// Keys the digests in whose form keys are stored and sent with these bytes, at random, 16 to 1,024 of them.
    /// Without it the way from a key to its digest is public, so whoever chooses keys can choose some that meet in one
    /// bucket or crowd one part of the table.
    ///
    /// All members need the same, for as long as the cluster lives: a node with another one is another cluster, whose
    /// frames are dropped as those of a foreign one. That is why it is not among the [secrets](Self::secret), which
    /// change. While it is rolled out node by node, each half of the cluster keeps the whole quota. Default: none.
    pub fn digest_secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.digest_secret = Some(Zeroizing::new(secret.as_ref().to_vec()));
        self
    }

    /// The address for UDP and TCP, which share the port. Port 0 picks one that is free. `[::]` takes IPv4 too where
    /// the system allows. Default: `0.0.0.0:7946`.
    pub fn bind(mut self, addr: SocketAddr) -> Self {
        self.bind = addr;
        self
    }

    /// The address at which peers reach this node, by UDP and by TCP; port 0 stands for the bound port. Default: the bound
    /// address, or if that is unspecified, the one that the system uses towards the outside: of IPv6 before IPv4 where
    /// `[::]` is bound.
    ///
    /// Needed where that is not the right one: with several networks, or behind NAT. There it is the outer address and
    /// port, which have to lead here by both protocols, and peers must be such that this node reaches them. From where its
    /// own datagrams come does not matter; an outer port that changes is of no use. Peers with addresses of one family
    /// reach nothing of the other: in a cluster of both, bind `[::]` everywhere, or advertise one family everywhere.
    ///
    /// An unspecified or multicast address is refused by [`start`](Self::start), and so is none where the system knows no
    /// way to the outside ([`StartError::AdvertiseUnknown`]).
    pub fn advertise(mut self, addr: SocketAddr) -> Self {
        self.advertise = Some(addr);
        self
    }

    /// How peers are found. Called again, it adds: what all of them find is announced to. Default: nobody is looked
    /// for, and the node waits to be found.
    pub fn discover(mut self, discoverer: impl Discoverer) -> Self {
        self.discoverers.push(Box::new(discoverer));
        self
    }

    /// How often peers are looked for, at start and for ever after. Shorter finds new peers and heals long cuts
    /// sooner, and asks name servers more often. From 100 ms to a day. Default: 10 s.
    pub fn discover_interval(mut self, interval: Duration) -> Self {
        self.discover_interval = interval;
        self
    }

    /// Sets what depends on the network, all at once: the sync interval, the push gap, the datagram budget, the
    /// anti-entropy interval, the probe interval and the suspicion timeout. Call it before those that differ.
    ///
    /// | | [`Preset::Lan`] | [`Preset::Wan`] |
    /// |---|---|---|
    /// | [`sync_interval`](Self::sync_interval) | 200 ms | 500 ms |
    /// | [`push_gap`](Self::push_gap) | 5 ms | 20 ms |
    /// | [`datagram_budget`](Self::datagram_budget) | 2,000 | 1,000 |
    /// | [`anti_entropy_interval`](Self::anti_entropy_interval) | 1 s | 2 s |
    /// | [`probe_interval`](Self::probe_interval) | 1 s | 3 s |
    /// | [`suspicion_timeout`](Self::suspicion_timeout) | 3 s | 12 s |
    pub fn preset(self, preset: Preset) -> Self {
        let Pace { sync_interval, push_gap, datagram_budget, anti_entropy_interval, swim } = preset.pace();
        Self {
            sync_interval,
            push_gap,
            datagram_budget: datagram_budget as usize,
            anti_entropy_interval,
            probe_interval: swim.probe_interval,
            suspicion_timeout: swim.suspicion_timeout,
            ..self
        }
    }

    /// How often everything that peers were not told yet is told to them. News of a key that is nearly spent does not
    /// wait for it. Shorter costs datagrams while there is traffic; longer lets a key whose use is slow be known
    /// later. From 10 ms to a minute. Default: 200 ms.
    pub fn sync_interval(mut self, interval: Duration) -> Self {
        self.sync_interval = interval;
        self
    }

    /// Shortest time between two rounds of news about keys that are nearly spent. Shorter keeps closer to the quota
    /// in a flash, and costs up to one datagram a member and round. From 1 ms to 10 s. Default: 5 ms.
    pub fn push_gap(mut self, gap: Duration) -> Self {
        self.push_gap = gap;
        self
    }

    /// Datagrams with news that this node sends in a second, all members together. Less saves network where there are
    /// many members or keys; more keeps large clusters closer to the quota. If it is too low,
    /// [`Stats::published`](super::Stats::published) lags behind what is admitted. From 10 to 1,000,000. Default:
    /// 2,000.
    pub fn datagram_budget(mut self, per_second: usize) -> Self {
        self.datagram_budget = per_second;
        self
    }

    /// How often this node compares notes with one random member. Shorter repairs lost datagrams sooner. From 100 ms to
    /// a minute. Default: 1 s.
    pub fn anti_entropy_interval(mut self, interval: Duration) -> Self {
        self.anti_entropy_interval = interval;
        self
    }

    /// How often one member is probed. Shorter notices failures sooner, and takes a slow member for a dead one more
    /// easily. A probe has three tenths of it for a direct answer. From 100 ms to a minute. Default: 1 s.
    pub fn probe_interval(mut self, interval: Duration) -> Self {
        self.probe_interval = interval;
        self
    }

    /// How long a member that does not answer may take to contradict before it is held down. From 100 ms to ten
    /// minutes. Default: 3 s.
    pub fn suspicion_timeout(mut self, timeout: Duration) -> Self {
        self.suspicion_timeout = timeout;
        self
    }

    /// What this node may admit while members that did not leave are out of reach. Set it alike on all members.
    /// Default: [`PartitionPolicy::Available`].
    pub fn on_partition(mut self, policy: PartitionPolicy) -> Self {
        self.on_partition = policy;
        self
    }

    /// When idle keys go: `key_ttl` after they were last used, and full again, looked for every `sweep_interval`. A
    /// bucket that is not full stays. Set it alike on all members. From 1 s to 365 days, and from 10 ms to a day. Default: 600 s, 60 s.
    pub fn evict_idle(mut self, key_ttl: Duration, sweep_interval: Duration) -> Self {
        self.sweeping = Some(Sweeping { key_ttl, interval: sweep_interval });
        self
    }

    /// Most buckets, over all scopes. At the cap a new key takes the place of one that is full again, else of the one
    /// nearest to full among some; a spent one is never dropped for it. If all those are spent, the new key is
    /// decided as a full bucket and not remembered. From 1,024 to 2^28. Default: 1,048,576.
    ///
    /// A bucket takes at most 56 bytes. What the members admitted of each key is remembered too, 80 bytes for each member that
    /// used it, for at most 16 members a key on average: of what is beyond, some may be missed or heard of late.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Binds the port and starts the node. Returns at once: [`Limiter::ready`] tells when it knows what the cluster
    /// knows.
    ///
    /// # Errors
    ///
    /// A [`StartError`] that names what is wrong. Nothing is left running then.
    pub async fn start(self) -> Result<Limiter, StartError> {
        tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        self.validate()?;
        let name = self.name()?;
        let sockets = Sockets::bind(self.bind).map_err(|source| StartError::Bind { addr: self.bind, source })?;
        let advertise = advertised(self.advertise, &sockets)?;
        let digest_key = self.digest_secret.as_ref().map_or(DigestKey::PUBLIC, |secret| digest_key(secret));
        let run = RunId::from_raw(random_u64().map_err(StartError::Randomness)?);
        let config = EngineConfig {
            cluster: ClusterId::new(&digest_key, &self.cluster),
            secrets: self.secrets,
            seed: random_u64().map_err(StartError::Randomness)?,
            sync_interval: self.sync_interval,
            push_gap: self.push_gap,
            datagram_budget: u32::try_from(self.datagram_budget).unwrap_or(u32::MAX),
            anti_entropy_interval: self.anti_entropy_interval,
            on_partition: self.on_partition,
            sweeping: self.sweeping,
            swim: SwimConfig::probing(self.probe_interval, self.suspicion_timeout),
            limits: LogLimits {
                max_keys: self.max_keys,
                max_cells: self.max_keys.saturating_mul(CELLS_PER_KEY),
                ..EngineConfig::DEFAULT_LIMITS
            },
            ..EngineConfig::new(name.clone(), advertise, run)
        };
        let table = Arc::new(Table::new(TableOptions { max_keys: self.max_keys, publish: true }));
        let clock = Clock::system();
        match config.secrets.as_ref().map(Secrets::sealing) {
            Some(Sealing::Required) => {}
            Some(stage) => tracing::warn!(?stage, "frames that are not sealed are still taken; see Sealing"),
            None => tracing::warn!("frames are not sealed: whoever reaches the port can join; see Builder::secret"),
        }
        tracing::info!(node = name.as_str(), bind = %sockets.local_addr(), %advertise, %run, "peerlimit starts");
        let spec = first_scope(&table, &digest_key, self.quota);
        let node =
            Node::start(sockets, config, Arc::clone(&table), clock.clone(), self.discoverers, self.discover_interval);
        let limiter = Limiter::assemble(spec, Shared::new(table, clock, digest_key, name.as_str(), Some(node)));
        #[cfg(feature = "metrics")]
        limiter.record_metrics_regularly();
        Ok(limiter)
    }

    /// Whether all settings are within their bounds, as far as that can be told without a network.
    ///
    /// # Errors
    ///
    /// The [`StartError`] that [`start`](Self::start) would end with.
    pub fn validate(&self) -> Result<(), StartError> {
        self.check_times()?;
        check_number("max_keys", self.max_keys, 1 << 10, 1 << 28)?;
        check_number("datagram_budget", self.datagram_budget, 10, 1_000_000)?;
        if let Some(secret) = &self.digest_secret {
            check_number("digest_secret length", secret.len(), 16, 1_024)?;
        }
        self.name()?;
        self.discoverers.iter().try_for_each(|discoverer| Ok(discoverer.validate_dyn()?))
    }

    fn check_times(&self) -> Result<(), StartError> {
        const MS: fn(u64) -> Duration = Duration::from_millis;
        const SECS: fn(u64) -> Duration = Duration::from_secs;
        const DAY: u64 = 24 * 60 * 60;
        check_duration("discover_interval", self.discover_interval, MS(100), SECS(DAY))?;
        check_duration("sync_interval", self.sync_interval, MS(10), SECS(60))?;
        check_duration("push_gap", self.push_gap, MS(1), SECS(10))?;
        check_duration("anti_entropy_interval", self.anti_entropy_interval, MS(100), SECS(60))?;
        check_duration("probe_interval", self.probe_interval, MS(100), SECS(60))?;
        check_duration("suspicion_timeout", self.suspicion_timeout, MS(100), SECS(600))?;
        if let Some(sweeping) = self.sweeping {
            check_duration("evict_idle key_ttl", sweeping.key_ttl, SECS(1), SECS(365 * DAY))?;
            check_duration("evict_idle sweep_interval", sweeping.interval, MS(10), SECS(DAY))?;
        }
        Ok(())
    }

    fn name(&self) -> Result<NodeName, StartError> {
        let name = match &self.node {
            Some(name) => name.clone(),
            None => host_name(),
        };
        NodeName::try_from(name.clone()).map_err(|_| StartError::Name { name, most: MAX_NAME_LEN })
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("quota", &self.quota).field("bind", &self.bind).finish_non_exhaustive()
    }
}
