//! The two rules that this library replaces, in their fair form.
//!
//! Both decide by the generic cell rate algorithm, as the library does, at true time, on nodes that are all there
//! from the beginning: what differs is how admissions become known. Neither pays for membership, which the library's
//! traffic includes.

use std::{collections::BTreeMap, time::Duration};

use peerlimit::Quota;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use crate::sim::{cluster::Traffic, network::Link};

/// How nodes decide, and what they tell each other. Keys and nodes are numbered.
pub trait Rule {
    /// Lets everything happen that is due before `until`.
    fn run_until(&mut self, until: Duration);
    /// Whether `node` admits a request for one permit of `key` at `at`.
    fn decide(&mut self, at: Duration, node: usize, key: usize) -> bool;
    /// What went over the wire until now.
    fn traffic(&self) -> Traffic;
}

/// Every node keeps the whole quota for itself and says nothing.
pub struct Alone {
    law: Law,
    /// By node and key.
    buckets: Vec<Vec<Bucket>>,
}

impl Alone {
    pub fn new(quota: Quota, nodes: usize, keys: usize) -> Self {
        Self { law: Law::new(quota), buckets: vec![vec![Bucket::default(); keys]; nodes] }
    }
}

impl Rule for Alone {
    fn run_until(&mut self, _until: Duration) {}

    fn decide(&mut self, at: Duration, node: usize, key: usize) -> bool {
        self.buckets[node][key].admit(self.law, at)
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// Each node keeps a G-Counter a key. Every 200 ms it sends all cells that it knows to one random peer, which answers
/// with its own.
///
/// Without the answer it goes twice as far above the envelope, and refuses a tenth of what stays below the quota.
///
/// A cell is charged by what it gained since the receiver last heard of it. All nodes count from zero, so that is
/// always known, and nobody is charged for a past that it missed: this compares the ways that news takes, not what a
/// join costs.
pub struct OneRandomPeer {
    law: Law,
    link: Link,
    rng: Xoshiro256PlusPlus,
    nodes: Vec<Node>,
    /// What happens when. The number orders what happens at one time.
    queue: BTreeMap<(Duration, u64), What>,
    sequence: u64,
    traffic: Traffic,
}

struct Node {
    buckets: Vec<Bucket>,
    /// What each node admitted of each key, by key and then node.
    cells: Vec<u64>,
}

enum What {
    /// A node's turn to send.
    Turn(usize),
    Datagram {
        from: usize,
        to: usize,
        cells: Vec<Cell>,
        wants_answer: bool,
    },
}

/// The place in [`Node::cells`], and the permits admitted.
type Cell = (usize, u64);

impl OneRandomPeer {
    const INTERVAL: Duration = Duration::from_millis(200);
    const DATAGRAM: usize = 1200;
    const HEADER: usize = 16;
    /// A key's digest and a count. Whose cell it is goes for free.
    const CELL: usize = 24;

    /// The first turns come within one interval of `from`.
    pub fn new(seed: u64, quota: Quota, link: Link, nodes: usize, keys: usize, from: Duration) -> Self {
        let node = || Node { buckets: vec![Bucket::default(); keys], cells: vec![0; keys * nodes] };
        let mut rule = Self {
            law: Law::new(quota),
            link,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            nodes: (0..nodes).map(|_| node()).collect(),
            queue: BTreeMap::new(),
            sequence: 0,
            traffic: Traffic::default(),
        };
        for node in 0..nodes {
            let phase = Self::INTERVAL.mul_f64(rule.rng.random());
            rule.schedule(from + phase, What::Turn(node));
        }
        rule
    }

    fn schedule(&mut self, at: Duration, what: What) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), what);
    }

    fn take_turn(&mut self, now: Duration, node: usize) {
        self.schedule(now + Self::INTERVAL, What::Turn(node));
        let other = self.rng.random_range(0..self.nodes.len() - 1);
        self.send(now, node, if other < node { other } else { other + 1 }, true);
    }

    /// Sends all that `from` knows. The first datagram asks for an answer, also where there is nothing to say.
    fn send(&mut self, now: Duration, from: usize, to: usize, mut wants_answer: bool) {
        let cells = self.nodes[from].cells.iter().enumerate();
        let mut known =
            cells.filter(|(_, admitted)| **admitted > 0).map(|(place, admitted)| (place, *admitted)).peekable();
        while wants_answer || known.peek().is_some() {
            let cells: Vec<Cell> = known.by_ref().take((Self::DATAGRAM - Self::HEADER) / Self::CELL).collect();
            self.traffic.datagrams += 1;
            self.traffic.bytes += (Self::HEADER + cells.len() * Self::CELL) as u64;
            if !self.rng.random_bool(self.link.loss) {
                let at = now + self.link.draw_delay(&mut self.rng);
                self.sequence += 1;
                self.queue.insert((at, self.sequence), What::Datagram { from, to, cells, wants_answer });
            }
            wants_answer = false;
        }
    }

    fn merge(&mut self, now: Duration, to: usize, cells: &[Cell]) {
        let owners = self.nodes.len();
        let Node { buckets, cells: known } = &mut self.nodes[to];
        for (place, admitted) in cells {
            let news = admitted.saturating_sub(known[*place]);
            known[*place] += news;
            buckets[*place / owners].charge(self.law, now, news);
        }
    }
}

impl Rule for OneRandomPeer {
    fn run_until(&mut self, until: Duration) {
        while let Some(next) = self.queue.first_entry()
            && next.key().0 < until
        {
            let ((at, _), what) = next.remove_entry();
            match what {
                What::Turn(node) => self.take_turn(at, node),
                What::Datagram { from, to, cells, wants_answer } => {
                    self.merge(at, to, &cells);
                    if wants_answer {
                        self.send(at, to, from, false);
                    }
                }
            }
        }
    }

    fn decide(&mut self, at: Duration, node: usize, key: usize) -> bool {
        let owners = self.nodes.len();
        let Node { buckets, cells } = &mut self.nodes[node];
        let allowed = buckets[key].admit(self.law, at);
        cells[key * owners + node] += u64::from(allowed);
        allowed
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }
}

/// A quota in the units of a bucket.
#[derive(Clone, Copy)]
struct Law {
    permit: Duration,
    burst: Duration,
}

impl Law {
    fn new(quota: Quota) -> Self {
        let permit = quota.period() / quota.count() as u32;
        Self { permit, burst: permit * quota.burst_size() as u32 }
    }
}

/// The instant at which a bucket is full again.
///
/// Not the library's, which bounds the debt and forgets what is beyond: these rules owe so much that they would be
/// the worse for it.
#[derive(Clone, Copy, Default)]
struct Bucket(Duration);

impl Bucket {
    fn admit(&mut self, law: Law, now: Duration) -> bool {
        let after = self.0.max(now) + law.permit;
        let allowed = after <= now + law.burst;
        if allowed {
            self.0 = after;
        }
        allowed
    }

    /// The additive law: `permits` are on top of what this bucket knows.
    fn charge(&mut self, law: Law, now: Duration, permits: u64) {
        if permits > 0 {
            self.0 = self.0.max(now) + law.permit * permits as u32;
        }
    }
}
