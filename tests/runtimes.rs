//! Gossip beside requests on a runtime of one thread, as in a container with one core: neither keeps the other from its turn.
//!
//! Nothing here looks at the clock. What is counted is turns: how often a task that serves requests gives way before news is
//! there, and how much gossip does before it gives way itself.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and waits in real time"
)]

#[path = "support/patience.rs"]
mod patience;

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use patience::eventually;
use peerlimit::{Limiter, Quota, StaticDiscoverer};
use tokio::task::yield_now;

/// What is spent stays spent during a test.
const SLOW: Quota = Quota::per_day(100);
/// Decisions between two turns of a busy task: more than a request ever makes.
const DECISIONS: usize = 500;

async fn node(name: &str, seed: Option<SocketAddr>) -> Limiter {
    let seed = StaticDiscoverer::new(seed.iter().map(SocketAddr::to_string));
    let builder = Limiter::builder(SLOW).node(name).bind("127.0.0.1:0".parse().unwrap());
    builder.discover(seed).start().await.unwrap()
}

async fn three_nodes() -> [Limiter; 3] {
    let first = node("first", None).await;
    let second = node("second", first.local_addr()).await;
    let third = node("third", first.local_addr()).await;
    let nodes = [first, second, third];
    eventually("everybody sees everybody", || nodes.iter().all(|node| node.members().len() == 3)).await;
    for node in &nodes {
        node.ready().await;
    }
    nodes
}

#[tokio::test(flavor = "current_thread")]
async fn news_of_a_spent_key_arrives_while_requests_leave_the_thread_only_now_and_then() {
    let nodes = three_nodes().await;
    // It takes the turns that sockets are looked at after, 61 of them in tokio, for the datagram and for each step on its way.
    let most = 1_000;
    let (mut longest, mut decided) = (0, 0_u64);
    for round in 0..50 {
        let key = format!("spent:{round}");
        assert!(nodes[round % 3].check_n(&key, 100).allowed);
        let mut turns = 0;
        while nodes.iter().any(|node| node.peek(&key).allowed) {
            for busy in 0..DECISIONS {
                decided += u64::from(nodes[busy % 3].peek(busy.to_le_bytes()).allowed);
            }
            yield_now().await;
            turns += 1;
            assert!(turns <= most, "no news of {key} after {turns} turns");
        }
        longest = longest.max(turns);
    }
    assert!(decided > 0);
    println!("news of 50 keys took {longest} turns at most");
}

/// Datagrams that a node has taken from its socket.
fn taken(node: &Limiter) -> u64 {
    node.stats().frames_in
}

/// Sends datagrams that are none of ours as fast as it goes, until told to stop. Returns how many.
fn flood(to: SocketAddr, stop: Arc<AtomicBool>) -> thread::JoinHandle<u64> {
    thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) {
            // The receiver's buffer may be full.
            sent += u64::from(socket.send_to(&[0x5a; 64], to).is_ok());
        }
        sent
    })
}

#[tokio::test(flavor = "current_thread")]
async fn a_flood_of_datagrams_gives_way_to_requests_after_each_few_of_them() {
    let nodes = three_nodes().await;
    let stop = Arc::new(AtomicBool::new(false));
    let floods: Vec<_> = (0..2).map(|_| flood(nodes[0].local_addr().unwrap(), Arc::clone(&stop))).collect();
    let (mut before, mut most) = (taken(&nodes[0]), 0);
    let begin = before;
    let (mut turns, mut requests) = (0_u64, 0_u64);
    while before - begin < 300_000 {
        yield_now().await;
        let now = taken(&nodes[0]);
        most = most.max(now - before);
        before = now;
        turns += 1;
        requests += u64::from(nodes[0].peek("user").allowed);
    }
    stop.store(true, Ordering::Relaxed);
    let sent: u64 = floods.into_iter().map(|flood| flood.join().unwrap()).sum();
    println!("{} of {sent} datagrams in {turns} turns of a request, {most} at once at most", before - begin);
    assert_eq!(requests, turns);
    // A turn of the node takes 64, and a few of its turns may follow each other. Without an end it would be thousands.
    assert!(most <= 640, "a request waited for {most} datagrams");
    // And the flood kept nobody from the cluster.
    assert_eq!(nodes.map(|node| node.members().len()), [3; 3]);
}
