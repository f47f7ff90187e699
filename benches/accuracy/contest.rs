//! One scenario with one seed, under all rules: the same requests at the same times on the same nodes.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    rules::{Alone, OneRandomPeer, Rule},
    sim::{
        cluster::Traffic,
        oracle::{Oracle, Tally},
        scenario::{Arrival, Scenario},
    },
};

/// What becomes of the requests under each rule, and what the central bucket says to them.
pub struct Contest {
    pub library: Played,
    pub random_peer: Played,
    pub alone: Played,
    pub central: Curve,
}

/// What came of all requests under one rule.
pub struct Played {
    /// Over all keys.
    pub tally: Tally,
    /// In a node and second, from the first request on.
    pub datagrams: f64,
    pub bytes: f64,
    pub curve: Curve,
}

/// Permits that were admitted in each step of the first seconds of the load.
pub struct Curve(Vec<u64>);

impl Curve {
    pub const STEP: Duration = Duration::from_millis(10);
    pub const SPAN: Duration = Duration::from_secs(3);

    fn new() -> Self {
        Self(vec![0; (Self::SPAN.as_nanos() / Self::STEP.as_nanos()) as usize])
    }

    fn add(&mut self, since: Duration, allowed: bool) {
        let step = (since.as_nanos() / Self::STEP.as_nanos()) as usize;
        if let Some(admitted) = self.0.get_mut(step) {
            *admitted += u64::from(allowed);
        }
    }

    /// Permits admitted from the beginning of the load until the end of each step.
    pub fn cumulated(&self) -> Vec<u64> {
        let sum = |sum: &mut u64, step: &u64| {
            *sum += step;
            Some(*sum)
        };
        self.0.iter().scan(0, sum).collect()
    }
}

impl Contest {
    /// The library meets the scenario first; its requests are then played to the other rules.
    ///
    /// Those know no faults besides the link's: the scenarios of the catalogue have none.
    pub fn play(scenario: &Scenario, seed: u64) -> Self {
        debug_assert!(scenario.cuts.is_empty() && scenario.script.is_empty());
        let from = scenario.load.iter().map(|load| load.from).min().unwrap_or_default();
        let mut arrivals: Vec<Arrival> = Vec::new();
        let mut before = Traffic::default();
        let outcome = scenario.run_observed(seed, false, |cluster, arrival| {
            if arrivals.is_empty() {
                before = cluster.traffic;
            }
            arrivals.push(arrival);
        });
        let after = outcome.cluster.traffic;
        let traffic = Traffic { datagrams: after.datagrams - before.datagrams, bytes: after.bytes - before.bytes };

        let mut keys: BTreeMap<&str, usize> = BTreeMap::new();
        for load in &scenario.load {
            let next = keys.len();
            keys.entry(load.key).or_insert(next);
        }
        let mut library = Curve::new();
        let mut central = Curve::new();
        for arrival in &arrivals {
            library.add(arrival.at - from, arrival.allowed);
            central.add(arrival.at - from, arrival.central);
        }
        let Scenario { quota, nodes, link, .. } = *scenario;
        let random_peer = OneRandomPeer::new(seed, quota, link, nodes, keys.len(), from);
        let alone = Alone::new(quota, nodes, keys.len());
        let stage = Stage { scenario, from, keys, arrivals };
        Self {
            library: stage.played(outcome.total(), traffic, library),
            random_peer: stage.play(random_peer),
            alone: stage.play(alone),
            central,
        }
    }
}

struct Stage<'a> {
    scenario: &'a Scenario,
    from: Duration,
    keys: BTreeMap<&'static str, usize>,
    arrivals: Vec<Arrival>,
}

impl Stage<'_> {
    fn play(&self, mut rule: impl Rule) -> Played {
        let mut oracles: Vec<Oracle> =
            self.keys.iter().map(|_| Oracle::new(self.scenario.quota, Duration::ZERO)).collect();
        let mut curve = Curve::new();
        for Arrival { at, node, key, central, .. } in &self.arrivals {
            let key = self.keys[key];
            rule.run_until(*at);
            let allowed = rule.decide(*at, *node, key);
            let said = oracles[key].arrival(*at, allowed);
            debug_assert_eq!(said, *central, "the central bucket gets the same requests");
            curve.add(*at - self.from, allowed);
        }
        rule.run_until(self.scenario.duration);
        let mut tally = Tally::default();
        for oracle in &oracles {
            tally.add(&oracle.tally);
        }
        self.played(tally, rule.traffic(), curve)
    }

    fn played(&self, tally: Tally, traffic: Traffic, curve: Curve) -> Played {
        let node_seconds = self.scenario.nodes as f64 * (self.scenario.duration - self.from).as_secs_f64();
        let datagrams = traffic.datagrams as f64 / node_seconds;
        Played { tally, datagrams, bytes: traffic.bytes as f64 / node_seconds, curve }
    }
}
