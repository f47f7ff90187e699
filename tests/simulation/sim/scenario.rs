//! Scenarios as data: nodes, load, faults, and what has to hold.

use std::{collections::BTreeMap, time::Duration};

use peerlimit::{
    Quota,
    crdt::RunId,
    gossip::{EngineConfig, Secrets, wire::NodeName},
};
use rand::{Rng, RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use super::{
    cluster::{self, Cluster},
    network::{Cut, Link},
    oracle::{Oracle, Tally},
};

/// One scenario. The seed decides everything that is left to chance.
#[derive(Clone)]
pub struct Scenario {
    pub name: &'static str,
    pub quota: Quota,
    pub nodes: usize,
    pub link: Link,
    pub cuts: Vec<Cut>,
    pub load: Vec<Load>,
    pub script: Vec<(Duration, Step)>,
    /// Nodes that start at the beginning.
    pub first: std::ops::Range<usize>,
    pub duration: Duration,
    pub tune: fn(&mut EngineConfig),
    pub check: fn(&mut Outcome),
}

/// Requests on one key.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub key: &'static str,
    pub from: Duration,
    pub until: Duration,
    /// Requests in a second over all nodes, at random times.
    pub rate: f64,
    pub spread: Spread,
    /// At equal instead of random distances.
    pub regular: bool,
}

/// Which node a request goes to.
#[derive(Clone, Copy, Debug)]
pub enum Spread {
    /// Any node that serves.
    Even,
    /// This node, or any that serves while it does not.
    Node(usize),
    /// One node after the other, each for so long.
    Moving(Duration),
}

/// What happens to a node.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Start(usize),
    Crash(usize),
    Leave(usize),
    /// It is given these secrets.
    Secrets(usize, fn() -> Secrets),
    /// Its clock goes ahead by so many seconds at once.
    ClockJumps(usize, u64),
    /// Its clock stands still.
    ClockStops(usize),
    /// Its clock goes on from where it stood.
    ClockGoesOn(usize),
    /// Its process is stopped.
    Freeze(usize),
    /// Its process goes on.
    Thaw(usize),
    /// It tells all others absurd counts of this key.
    Lie(usize, &'static str),
}

/// One request, and what was said to it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: Duration,
    pub node: usize,
    pub key: &'static str,
    pub allowed: bool,
    /// What the central bucket says.
    pub central: bool,
}

/// What came of a run.
pub struct Outcome {
    pub name: &'static str,
    pub seed: u64,
    pub cluster: Cluster,
    /// By key.
    pub keys: BTreeMap<&'static str, Tally>,
    /// By key and second.
    pub seconds: BTreeMap<(&'static str, u64), Tally>,
    burst: u64,
}

impl Outcome {
    /// Permits of `key` that the cluster admitted in these seconds.
    pub fn admitted(&self, key: &'static str, seconds: std::ops::Range<u64>) -> u64 {
        seconds.filter_map(|second| self.seconds.get(&(key, second))).map(|tally| tally.admitted).sum()
    }

    /// Requests of `key` that the cluster refused in these seconds.
    pub fn refused(&self, key: &'static str, seconds: std::ops::Range<u64>) -> u64 {
        let tallies = seconds.filter_map(|second| self.seconds.get(&(key, second)));
        tallies.map(|tally| tally.offered - tally.admitted).sum()
    }

    pub fn tally_of(&self, key: &'static str) -> Tally {
        self.keys.get(key).copied().unwrap_or_default()
    }

    /// Of the first key.
    pub fn tally(&self) -> Tally {
        self.keys.values().next().copied().unwrap_or_default()
    }

    /// The bound of DESIGN.md: no more above the envelope than was admitted within one delay of news, and one.
    ///
    /// It holds where nothing is lost and everybody sees everybody.
    pub fn check_bound(&self) {
        if self.cluster.link.loss > 0.0 {
            return;
        }
        for (key, tally) in &self.keys {
            let above = tally.excess * self.burst as f64;
            let bound = tally.within_news_delay + 1;
            assert!(
                above <= bound as f64,
                "{}, seed {}: {key} is {above:.1} permits above, bound {bound}",
                self.name,
                self.seed
            );
        }
    }

    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in self.keys.values() {
            total.add(tally);
        }
        total
    }
}

impl Load {
    pub fn even(key: &'static str, rate: f64, from: u64, until: u64) -> Self {
        Self {
            key,
            rate,
            from: Duration::from_secs(from),
            until: Duration::from_secs(until),
            spread: Spread::Even,
            regular: false,
        }
    }

    /// `count` requests within a second, a hundredth of a second apart.
    pub fn exactly(key: &'static str, count: u32, at: f64) -> Self {
        let from = Duration::from_secs_f64(at);
        let until = from + Duration::from_millis(10) * count + Duration::from_millis(5);
        Self { key, from, until, rate: 100.0, spread: Spread::Even, regular: true }
    }

    pub fn spread(self, spread: Spread) -> Self {
        Self { spread, ..self }
    }
}

impl Scenario {
    /// A quiet cluster on a LAN with 100 per second, burst 50.
    pub fn new(name: &'static str, nodes: usize, secs: u64) -> Self {
        Self {
            name,
            quota: Quota::per_second(100).burst(50),
            nodes,
            link: Link::LAN,
            cuts: Vec::new(),
            load: Vec::new(),
            script: Vec::new(),
            first: 0..nodes,
            duration: Duration::from_secs(secs),
            tune: |_| {},
            check: |_| {},
        }
    }

    pub fn on(self, link: Link) -> Self {
        Self { link, ..self }
    }

    /// How old the oldest admission may be that some node has not heard of, while a key is nearly spent and nothing
    /// is lost: one way, and a round of pushes.
    fn news_delay(&self) -> Duration {
        let config = EngineConfig::new(NodeName::default(), cluster::addr_of(0), RunId::from_raw(0));
        let peers = self.nodes.saturating_sub(1) as u32;
        let round = config.push_gap.max(Duration::from_secs(1) / config.datagram_budget * peers);
        self.link.delay.mul_f64(1.0 + self.link.jitter) + round
    }

    pub fn at(mut self, secs: f64, step: Step) -> Self {
        self.script.push((Duration::from_secs_f64(secs), step));
        self
    }

    pub fn load(mut self, load: Load) -> Self {
        self.load.push(load);
        self
    }

    /// Plays it with `seed`.
    pub fn run(&self, seed: u64, trace: bool) -> Outcome {
        self.run_observed(seed, trace, |_, arrival| {
            let Arrival { at, node, key, allowed, central } = arrival;
            if trace && allowed != central {
                eprintln!("{:>12.6} node {node} says {allowed} to {key}, central {central}", at.as_secs_f64());
            }
        })
    }

    /// Plays it with `seed`, and shows each request once it is decided.
    pub fn run_observed(&self, seed: u64, trace: bool, mut observe: impl FnMut(&Cluster, Arrival)) -> Outcome {
        let mut cluster = Cluster::new(seed, self.nodes, self.quota, self.link, self.tune);
        cluster.cuts.clone_from(&self.cuts);
        cluster.trace = trace;
        // Requests have a source of chance of their own: a change of the engine does not change them.
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(!seed);
        let mut oracles: BTreeMap<&'static str, Oracle> = BTreeMap::new();
        let mut seconds: BTreeMap<(&'static str, u64), Tally> = BTreeMap::new();

        for node in self.first.clone() {
            // A deployment does not start all nodes in one instant.
            let at = Duration::from_millis(cluster.rng.random_range(0..500));
            cluster.run_until(at.max(cluster.now));
            cluster.start(node);
        }
        let mut script: Vec<_> = self.script.clone();
        script.sort_by_key(|(at, _)| *at);
        let mut script = script.into_iter().peekable();
        let mut arrivals: Vec<Option<Duration>> = self.load.iter().map(|load| Some(load.from)).collect();
        for (load, at) in self.load.iter().zip(&mut arrivals) {
            *at = load.next_after(load.from, &mut chance);
        }

        loop {
            let arrival = arrivals.iter().enumerate().filter_map(|(index, at)| Some(((*at)?, index))).min();
            let step = script.peek().map(|(at, _)| *at);
            match (arrival, step) {
                (Some((at, _)), Some(step)) if step <= at => self.step(&mut cluster, &mut script),
                (None, Some(_)) => self.step(&mut cluster, &mut script),
                (Some((at, index)), _) => {
                    let load = &self.load[index];
                    arrivals[index] = load.next_after(at, &mut chance);
                    cluster.run_until(at);
                    let Some(node) = load.target(at, &cluster, &mut chance) else { continue };
                    let digest = cluster.digest(load.key);
                    let allowed = cluster.check(node, digest);
                    let oracle = oracles.entry(load.key).or_insert_with(|| Oracle::new(self.quota, self.news_delay()));
                    let before = oracle.tally;
                    let central = oracle.arrival(at, allowed);
                    observe(&cluster, Arrival { at, node, key: load.key, allowed, central });
                    let second = seconds.entry((load.key, at.as_secs())).or_default();
                    second.offered += oracle.tally.offered - before.offered;
                    second.admitted += oracle.tally.admitted - before.admitted;
                    second.central += oracle.tally.central - before.central;
                }
                (None, None) => break,
            }
        }
        cluster.run_until(self.duration);
        let keys = oracles.into_iter().map(|(key, oracle)| (key, oracle.tally)).collect();
        Outcome { name: self.name, seed, cluster, keys, seconds, burst: self.quota.burst_size() }
    }

    fn step(&self, cluster: &mut Cluster, script: &mut impl Iterator<Item = (Duration, Step)>) {
        let Some((at, step)) = script.next() else { return };
        cluster.run_until(at);
        match step {
            Step::Start(node) => cluster.start(node),
            Step::Crash(node) => cluster.crash(node),
            Step::Leave(node) => cluster.leave(node),
            Step::Secrets(node, secrets) => cluster.set_secrets(node, &secrets()),
            Step::ClockJumps(node, secs) => cluster.clock_jumps(node, Duration::from_secs(secs)),
            Step::ClockStops(node) => cluster.clock_stops(node),
            Step::ClockGoesOn(node) => cluster.clock_goes_on(node),
            Step::Freeze(node) => cluster.freeze(node),
            Step::Thaw(node) => cluster.thaw(node),
            Step::Lie(node, key) => cluster.lie(node, key),
        }
    }
}

impl Load {
    /// The next request after `at`, at exponentially distributed distances.
    fn next_after(&self, at: Duration, rng: &mut impl Rng) -> Option<Duration> {
        let random = -(1.0 - rng.random::<f64>()).ln();
        let wait = if self.regular { 1.0 } else { random } / self.rate;
        let next = at + Duration::from_secs_f64(wait);
        (next < self.until).then_some(next)
    }

    /// The node that gets a request at `at`, if any serves.
    fn target(&self, at: Duration, cluster: &Cluster, rng: &mut impl Rng) -> Option<usize> {
        let serving = cluster.serving();
        if serving.is_empty() {
            return None;
        }
        let wanted = match self.spread {
            Spread::Even => None,
            Spread::Node(node) => Some(node),
            Spread::Moving(each) => Some((at.as_nanos() / each.as_nanos()) as usize % cluster.size()),
        };
        match wanted {
            Some(node) if serving.contains(&node) => Some(node),
            _ => Some(serving[rng.random_range(0..serving.len())]),
        }
    }
}
