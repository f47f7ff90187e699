//! Processes on two hosts that share one limit, and load for them.

use std::{ops::Range, process::Stdio, sync::MutexGuard};

use crate::{
    host::Host,
    node_process::{self, Load, Node, eventually},
    turn::{or_skipped, turn},
};

pub(crate) const RATE: f64 = 100.0;
pub(crate) const BURST: f64 = 50.0;
/// How long an empty bucket takes to be full again, in seconds.
pub(crate) const REFILL: f64 = BURST / RATE;
/// Nodes on each of the two hosts.
pub(crate) const NODES: usize = 3;
/// Nodes on both.
pub(crate) const ALL: usize = 2 * NODES;

/// Requests per second to each node: four times the quota in all.
pub(crate) const ABOVE: u32 = 400 / ALL as u32;
/// Requests per second to each node: 78 % of the quota in all, where nobody is to be refused.
pub(crate) const BELOW: u32 = 78 / ALL as u32;

const KEY: &str = "hot";
/// Rounds of load after which a condition counts as not met: some 30 s.
const MAX_ROUNDS: usize = 60;

/// Nodes on two hosts, in the order of the hosts, each of which is told of all. What is in it ends in the order of its
/// fields.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    /// The labels of the nodes. Each life of a node has its own, so that none is taken for the one before it.
    names: Vec<String>,
    pub(crate) hosts: [Host; 2],
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    /// All nodes see each other and are ready. `None` where this machine has no namespaces and need not have them.
    pub(crate) fn start() -> Option<Self> {
        let turn = turn();
        let hosts = or_skipped(Host::pair())?;
        let names: Vec<_> = (0..ALL).map(|index| format!("{index}-0")).collect();
        let nodes = names.iter().enumerate().map(|(index, name)| start_node(&hosts, index, name)).collect();
        let mut cluster = Self { nodes, names, hosts, _turn: turn };
        cluster.meets();
        for node in &mut cluster.nodes {
            assert_eq!(node.ask("ready"), "ready");
        }
        Some(cluster)
    }

    /// Kills a node, without good-bye, and starts another one at its address, in its life of this number.
    pub(crate) fn restart(&mut self, index: usize, life: usize) {
        // The address has to be free first.
        drop(self.nodes.remove(index));
        self.names[index] = format!("{index}-{life}");
        self.nodes.insert(index, start_node(&self.hosts, index, &self.names[index]));
    }

    /// Waits until everybody sees everybody.
    pub(crate) fn meets(&mut self) {
        eventually("everybody sees everybody", || self.is_whole());
    }

    /// Whether everybody sees everybody.
    pub(crate) fn is_whole(&mut self) -> bool {
        self.sees(0..ALL, 0..ALL)
    }

    /// Whether each side sees itself and nobody else.
    pub(crate) fn is_split(&mut self) -> bool {
        self.sees(0..NODES, 0..NODES) && self.sees(NODES..ALL, NODES..ALL)
    }

    /// Whether each of these nodes sees those members and nobody else.
    pub(crate) fn sees(&mut self, nodes: Range<usize>, members: Range<usize>) -> bool {
        let members = &self.names[members];
        self.nodes[nodes].iter_mut().all(|node| node.names() == members)
    }

    /// Lines that say `words` in the logs of all nodes.
    pub(crate) fn logged(&self, words: &str) -> usize {
        self.nodes.iter().map(|node| node.logged(words)).sum()
    }

    /// Offers `rate` requests per second to each node.
    pub(crate) fn offer(&mut self, rate: u32, seconds: f64) -> Loads {
        self.offer_to(ALL, rate, seconds)
    }

    /// Offers `rate` requests per second to each of the first `count` nodes.
    pub(crate) fn offer_to(&mut self, count: usize, rate: u32, seconds: f64) -> Loads {
        (0..count).for_each(|node| self.begin_offer(node, rate, seconds));
        let mut loads = Loads::default();
        (0..count).for_each(|node| loads.add(self.end_offer(node)));
        loads
    }

    /// Begins to offer `rate` requests per second to one node. [`Cluster::end_offer`] waits for the end.
    pub(crate) fn begin_offer(&mut self, node: usize, rate: u32, seconds: f64) {
        self.nodes[node].offer(KEY, rate, seconds);
    }

    /// What became of the load that [`Cluster::begin_offer`] began.
    pub(crate) fn end_offer(&mut self, node: usize) -> Loads {
        let mut loads = Loads::default();
        loads.0[node] = self.nodes[node].offered();
        loads
    }

    /// Offers load as [`Cluster::offer`] does, in rounds of half a second, until `condition` holds between two of them.
    pub(crate) fn offer_until(&mut self, what: &str, rate: u32, condition: impl FnMut(&mut Self) -> bool) -> Loads {
        self.offer_to_until(what, ALL, rate, condition)
    }

    /// The same to the first `count` nodes.
    pub(crate) fn offer_to_until(
        &mut self,
        what: &str,
        count: usize,
        rate: u32,
        mut condition: impl FnMut(&mut Self) -> bool,
    ) -> Loads {
        let mut loads = Loads::default();
        for _ in 0..MAX_ROUNDS {
            loads.add(self.offer_to(count, rate, 0.5));
            if condition(self) {
                return loads;
            }
        }
        panic!("not after {MAX_ROUNDS} rounds: {what}");
    }

    /// Waits until nothing is missing from any bucket.
    pub(crate) fn refills(&mut self) {
        let full = format!(" remaining={BURST} ");
        eventually("all buckets are full", || {
            self.nodes.iter_mut().all(|node| node.ask(&format!("peek {KEY}")).contains(&full))
        });
    }

    /// Offers four times the quota, which the cluster has to keep once a refill time has passed.
    pub(crate) fn keeps_its_quota(&mut self) {
        let load = self.offer(ABOVE, REFILL + 5.0).all();
        let from_us = load.first_us() + (REFILL * 1e6) as u64;
        let load = load.after(from_us);
        let ratio = load.admitted() as f64 / (RATE * load.seconds());
        let excess = load.excess(RATE, BURST) / BURST;
        println!("together for {:.3} s: {ratio:.4} of the quota, excess {excess:.3} bursts", load.seconds());
        assert!((0.98..=1.02).contains(&ratio), "{ratio} of the quota together");
        assert!(excess <= 0.5, "{excess} bursts above the envelope together");
    }
}

fn start_node(hosts: &[Host; 2], index: usize, name: &str) -> Node {
    // Nothing else runs in these namespaces, so ports are known beforehand.
    let addr = |index: usize| format!("{}:{}", hosts[index / NODES].addr(), 7946 + index);
    let mut command = hosts[index / NODES].command(node_process::binary());
    command.args(["--rate", "100/s", "--burst", "50", "--bind", &addr(index), "--discover-interval", "300ms"]);
    command.args(["--name", name, "--probe-interval", "300ms", "--suspicion-timeout", "600ms"]);
    command.args((0..ALL).flat_map(|peer| ["--peer".to_owned(), addr(peer)]));
    Node::spawn(command.env("RUST_LOG", "peerlimit=info").env("NO_COLOR", "1").stderr(Stdio::piped()))
}

/// What became of load, by node.
#[derive(Clone, Default)]
pub(crate) struct Loads([Load; ALL]);

impl Loads {
    pub(crate) fn add(&mut self, more: Self) {
        for (load, more) in self.0.iter_mut().zip(more.0) {
            load.add(more);
        }
    }

    /// Of one node.
    pub(crate) fn of(&self, node: usize) -> Load {
        self.0[node].clone()
    }

    /// Of the nodes of each host.
    pub(crate) fn sides(&self) -> [Load; 2] {
        [sum(&self.0[..NODES]), sum(&self.0[NODES..])]
    }

    pub(crate) fn all(&self) -> Load {
        sum(&self.0)
    }

    /// Load below the quota, of which no request is refused that one central bucket passes.
    pub(crate) fn is_not_refused(&self, when: &str) {
        let load = self.all();
        let wrongly = load.short_of_central(RATE, BURST);
        println!("{when}: {wrongly} of {} refused wrongly in {:.1} s", load.offered(), load.seconds());
        assert!(wrongly < 1.0, "{wrongly} of {} requests refused wrongly: {when}", load.offered());
    }

    /// Load above the quota, of sides which each keep the quota and do not hear of each other.
    pub(crate) fn is_one_quota_a_side(&self) {
        for (side, load) in self.sides().iter().enumerate() {
            let ratio = load.admitted() as f64 / (RATE * load.seconds());
            let excess = load.excess(RATE, BURST) / BURST;
            println!("side {side} for {:.3} s: {ratio:.4} of the quota, excess {excess:.3} bursts", load.seconds());
            assert!((0.95..=1.05).contains(&ratio), "a side alone admitted {ratio} of the quota");
            assert!(excess <= 0.5, "a side was {excess} bursts above its envelope");
        }
        let excess = self.all().excess(2.0 * RATE, 2.0 * BURST);
        assert!(excess <= 0.0, "{excess} permits above two quotas and two bursts");
    }
}

fn sum(loads: &[Load]) -> Load {
    let mut sum = Load::default();
    loads.iter().cloned().for_each(|load| sum.add(load));
    sum
}
