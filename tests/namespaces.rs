//! Clusters over two hosts, which are network namespaces with a cable between them: cut, healed, and with losses.
//!
//! Needs root, `ip` and `iptables`. Where they are missing these tests say `skipped: ...` and pass; with
//! `PEERLIMIT_REQUIRE_NETNS=1` they fail.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "these processes live in real time, and what goes wrong here fails the test"
)]

#[path = "namespaces/host.rs"]
mod host;
#[path = "support/node_process.rs"]
mod node_process;

use std::{
    env,
    sync::{Mutex, PoisonError},
};

use host::Host;
use node_process::{Load, Node, eventually};

const RATE: f64 = 100.0;
const BURST: f64 = 50.0;
/// Nodes on each of the two hosts.
const NODES: usize = 3;
const KEY: &str = "hot";
/// Rounds of load after which a condition counts as not met: some 30 s.
const MAX_ROUNDS: usize = 60;

/// Clusters take turns: two at once would measure the scheduler.
static TURN: Mutex<()> = Mutex::new(());

/// Two hosts, or the reason why there are none.
fn hosts() -> Option<[Host; 2]> {
    match Host::pair() {
        Ok(hosts) => Some(hosts),
        Err(reason) if env::var("PEERLIMIT_REQUIRE_NETNS").is_ok_and(|value| value == "1") => {
            panic!("no network namespaces: {reason}")
        }
        Err(reason) => {
            eprintln!("skipped: no network namespaces: {reason}");
            None
        }
    }
}

/// Nodes on both hosts, in the order of the hosts, each of which is told of all. All are ready.
fn cluster(hosts: &[Host; 2]) -> Vec<Node> {
    // Nothing else runs in these namespaces, so ports are known beforehand.
    let addrs: Vec<_> = hosts
        .iter()
        .flat_map(|host| (0..NODES).map(move |index| format!("{}:{}", host.addr(), 7946 + index)))
        .collect();
    let mut nodes: Vec<_> = (0..2 * NODES)
        .map(|index| {
            let mut command = hosts[index / NODES].command(node_process::binary());
            command.args(["--rate", "100/s", "--burst", "50", "--bind", &addrs[index], "--discover-interval", "300ms"]);
            command.args(["--probe-interval", "300ms", "--suspicion-timeout", "600ms"]);
            command.args(addrs.iter().flat_map(|addr| ["--peer", addr]));
            // To be declared down and to rejoin is a warning, and what a cut is expected to cause.
            Node::spawn(command.env("RUST_LOG", "error"))
        })
        .collect();
    eventually("everybody sees everybody", || nodes.iter_mut().all(|node| node.members().len() == 2 * NODES));
    for node in &mut nodes {
        assert_eq!(node.ask("ready"), "ready");
    }
    nodes
}

/// Offers `rate` requests per second to each node; what each host's nodes said.
fn offer(nodes: &mut [Node], rate: u32, seconds: f64) -> [Load; 2] {
    for node in nodes.iter_mut() {
        node.offer(KEY, rate, seconds);
    }
    let mut loads = [Load::default(), Load::default()];
    for (index, node) in nodes.iter().enumerate() {
        loads[index / NODES].add(node.offered());
    }
    loads
}

/// Offers four times the quota in rounds of half a second, until `condition` holds between two of them.
fn offer_until(what: &str, nodes: &mut [Node], mut condition: impl FnMut(&mut [Node]) -> bool) -> [Load; 2] {
    let mut loads = [Load::default(), Load::default()];
    for _ in 0..MAX_ROUNDS {
        offer_more(&mut loads, nodes, 0.5);
        if condition(nodes) {
            return loads;
        }
    }
    panic!("not after {MAX_ROUNDS} rounds: {what}");
}

fn offer_more(loads: &mut [Load; 2], nodes: &mut [Node], seconds: f64) {
    for (load, more) in loads.iter_mut().zip(offer(nodes, 400 / (2 * NODES as u32), seconds)) {
        load.add(more);
    }
}

fn together([first, second]: [Load; 2]) -> Load {
    let mut load = first;
    load.add(second);
    load
}

#[test]
fn each_side_of_a_cut_limits_alone_and_both_are_one_again_after_it() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(hosts) = hosts() else { return };
    let mut nodes = cluster(&hosts);
    offer_until("one round", &mut nodes, |_| true);

    hosts.iter().for_each(Host::cut);
    let mut sides = offer_until("each side sees itself only", &mut nodes, |nodes| {
        nodes.iter_mut().enumerate().all(|(index, node)| {
            let members = node.members();
            members.len() == NODES && members.iter().all(|addr| addr.starts_with(hosts[index / NODES].addr()))
        })
    });
    let shrunk = sides[0].seconds();
    // Ten refill times, and three times what it takes to be held down.
    offer_more(&mut sides, &mut nodes, 5.0);
    for (side, load) in sides.iter().enumerate() {
        let ratio = load.admitted() as f64 / (RATE * load.seconds());
        let excess = load.excess(RATE, BURST) / BURST;
        println!(
            "side {side}, cut for {:.3} s, alone after {shrunk:.1} s: {ratio:.4} of the quota, excess {excess:.3} bursts",
            load.seconds()
        );
        assert!((0.95..=1.05).contains(&ratio), "a side alone admitted {ratio} of the quota");
        assert!(excess <= 0.5, "a side was {excess} bursts above its envelope");
    }
    let cut = together(sides);
    let excess = cut.excess(2.0 * RATE, 2.0 * BURST);
    assert!(excess <= 0.0, "{excess} permits above two quotas and two bursts");

    hosts.iter().for_each(Host::heal);
    let healing = offer_until("everybody sees everybody again", &mut nodes, |nodes| {
        nodes.iter_mut().all(|node| node.members().len() == 2 * NODES)
    });
    let healing = together(healing);
    let whole_us = healing.last_us();
    let mut after = healing.clone();
    after.add(together(offer(&mut nodes, 400 / (2 * NODES as u32), BURST / RATE + 8.0)));
    let refill_us = (BURST / RATE * 1e6) as u64;
    let after = after.after(whole_us + refill_us);
    let ratio = after.admitted() as f64 / (RATE * after.seconds());
    let excess = after.excess(RATE, BURST) / BURST;
    println!(
        "healed after {:.1} s, then {:.3} s: {ratio:.4} of the quota, excess {excess:.3} bursts",
        healing.seconds(),
        after.seconds()
    );
    assert!((0.98..=1.02).contains(&ratio), "{ratio} of the quota after the heal");
    assert!(excess <= 0.5, "{excess} bursts above the envelope after the heal");
}

#[test]
fn a_tenth_of_the_packets_lost_does_not_show_in_what_is_admitted() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(hosts) = hosts() else { return };
    let mut nodes = cluster(&hosts);
    hosts.iter().for_each(Host::lose_a_tenth);

    let load = together(offer(&mut nodes, 1000 / (2 * NODES as u32), 10.0));
    let lost: u64 = hosts.iter().map(Host::lost).sum();
    let central = BURST + RATE * load.seconds();
    let ratio = load.admitted() as f64 / central;
    let excess = load.excess(RATE, BURST) / BURST;
    println!(
        "{lost} packets lost, {:.3} s: admitted {} of {} where a central bucket admits {central:.1}, ratio {ratio:.4}, \
         excess {excess:.3} bursts",
        load.seconds(),
        load.admitted(),
        load.offered(),
    );
    assert!(lost > 0, "the rule bit nothing");
    assert!((0.99..=1.01).contains(&ratio), "{ratio} of what a central bucket admits");
    assert!(excess <= 0.5, "{excess} bursts above the envelope");
}
