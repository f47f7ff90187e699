//! Clusters of processes on loopback share one limit as closely as promised, measured against one central bucket.
//!
//! `PEERLIMIT_LOAD_SECONDS` sets the length of the load, 10 where nothing is said.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "these processes live in real time, and what goes wrong here fails the test"
)]

#[path = "support/node_process.rs"]
mod node_process;

use std::{
    env,
    sync::{Mutex, PoisonError},
};

use node_process::{Load, Node, eventually};

const RATE: f64 = 100.0;
const BURST: f64 = 50.0;
/// What is offered to all nodes together: ten times the quota, so that the central bucket is empty whenever a permit
/// comes back.
const OFFERED: u32 = 1000;

/// Clusters take turns: two at once would measure the scheduler.
static TURN: Mutex<()> = Mutex::new(());

fn load_seconds() -> f64 {
    env::var("PEERLIMIT_LOAD_SECONDS").map_or(10.0, |text| text.parse().expect("PEERLIMIT_LOAD_SECONDS is a number"))
}

/// `count` nodes, each of which knows the first one, all ready.
fn cluster(count: usize) -> Vec<Node> {
    let settings = ["--rate", "100/s", "--burst", "50", "--discover-interval", "500ms"];
    let mut nodes = vec![Node::start(&settings)];
    for _ in 1..count {
        let peer = ["--peer", &nodes[0].addr];
        nodes.push(Node::start(&[&settings[..], &peer].concat()));
    }
    eventually("everybody sees everybody", || nodes.iter_mut().all(|node| node.members().len() == count));
    for node in &mut nodes {
        assert_eq!(node.ask("ready"), "ready");
    }
    nodes
}

fn shares_a_hot_key(count: u32) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut nodes = cluster(count as usize);
    for node in &mut nodes {
        node.offer("hot", OFFERED / count, load_seconds());
    }
    let loads: Vec<_> = nodes.iter().map(Node::offered).collect();

    let starts = loads.iter().map(Load::first_us);
    let apart_ms = (starts.clone().max().unwrap() - starts.min().unwrap()) as f64 / 1e3;
    let mut all = Load::default();
    loads.into_iter().for_each(|load| all.add(load));
    let central = BURST + RATE * all.seconds();
    let ratio = all.admitted() as f64 / central;
    let excess = all.excess(RATE, BURST) / BURST;
    println!(
        "{count} processes, {:.3} s: admitted {} of {} where a central bucket admits {central:.1}, ratio {ratio:.4}, \
         excess {excess:.3} bursts, starts {apart_ms:.1} ms apart",
        all.seconds(),
        all.admitted(),
        all.offered(),
    );
    assert!((0.99..=1.01).contains(&ratio), "{ratio} of what a central bucket admits");
    assert!(excess <= 0.5, "{excess} bursts above the envelope");
}

#[test]
fn five_processes_admit_what_one_bucket_would() {
    shares_a_hot_key(5);
}

#[test]
fn ten_processes_admit_what_one_bucket_would() {
    shares_a_hot_key(10);
}
