//! What limiters leave behind when they go: nothing, however they go; and that all of their work fits on one thread.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and real nodes run in real time"
)]

#[path = "support/patience.rs"]
mod patience;

use std::{
    fs,
    net::{SocketAddr, TcpListener, UdpSocket},
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use patience::eventually;
use peerlimit::{Builder, Limiter, Quota, Scope, StaticDiscoverer};
use tokio::{
    runtime::{self, Handle, Runtime},
    task::JoinSet,
};

/// Each test counts what the whole process has, so they take turns.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays a story on a runtime of its own, while no other test runs.
fn play_alone(mut runtime: tokio::runtime::Builder, story: impl Future<Output = ()>) {
    let _alone = alone();
    runtime.enable_all().build().unwrap().block_on(story);
}

const QUOTA: Quota = Quota::per_second(100).burst(50);
/// Nothing comes back during a test.
const SLOW: Quota = Quota::every(Duration::from_secs(3_600)).burst(80_000);

fn builder(name: &str) -> Builder {
    Limiter::builder(QUOTA)
        .node(name)
        .bind("127.0.0.1:0".parse().unwrap())
        .discover_interval(Duration::from_millis(500))
        .probe_interval(Duration::from_millis(300))
        .suspicion_timeout(Duration::from_millis(600))
}

fn addr(limiter: &Limiter) -> SocketAddr {
    limiter.local_addr().unwrap()
}

fn seed(limiter: &Limiter) -> StaticDiscoverer {
    StaticDiscoverer::new([addr(limiter).to_string()])
}

/// Nodes that know each other, each of which knows the first one at first.
async fn cluster(count: usize, tune: impl Fn(Builder) -> Builder) -> Vec<Limiter> {
    let mut nodes = vec![tune(builder("node-0")).start().await.unwrap()];
    for index in 1..count {
        let node = tune(builder(&format!("node-{index}"))).discover(seed(&nodes[0])).start();
        nodes.push(node.await.unwrap());
    }
    eventually("everybody sees everybody", || nodes.iter().all(|node| node.members().len() == count)).await;
    nodes
}

/// What this process has open and alive.
#[derive(Clone, Copy, Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
}

impl Held {
    /// No more than `before`. It may be less: the thread of a test before may have ended since.
    fn is_within(self, before: Self) -> bool {
        self.descriptors <= before.descriptors && self.threads <= before.threads
    }
}

fn held() -> Held {
    let count = |path| fs::read_dir(path).expect("Linux has it").count();
    Held { descriptors: count("/proc/self/fd"), threads: count("/proc/self/task") }
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    4_096 * pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number")
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

fn is_free(port: SocketAddr) -> bool {
    TcpListener::bind(port).is_ok() && UdpSocket::bind(port).is_ok()
}

#[test]
fn ten_thousand_local_limiters_that_were_dropped_hold_nothing() {
    let _alone = alone();
    let build = |count: usize| {
        for number in 0..count {
            let limiter = Limiter::local(QUOTA);
            let scope = limiter.scope("another", SLOW);
            for key in 0..8 {
                assert!(limiter.allow(key.to_string()) && scope.allow((key + number).to_string()));
            }
        }
    };
    build(200);
    let (before, memory) = (held(), resident());
    build(10_000);
    let after = held();
    assert!(after.is_within(before), "{after:?} after {before:?}");
    let grown = resident().saturating_sub(memory);
    assert!(grown < 16 << 20, "{grown} bytes more");
}

#[test]
fn hundreds_of_nodes_that_came_and_went_leave_no_task_no_socket_and_no_memory() {
    play_alone(runtime::Builder::new_current_thread(), async {
        // What the runtime and the process allocate once.
        comes_and_goes(20).await;
        eventually("the first ones are gone", || tasks() == 0).await;
        let (before, memory) = (held(), resident());
        comes_and_goes(200).await;
        eventually("all tasks have ended", || tasks() == 0).await;
        eventually("all sockets are closed", || held().is_within(before)).await;
        let grown = resident().saturating_sub(memory);
        assert!(grown < 32 << 20, "{grown} bytes more");
    });
}

/// So many nodes start, most of them with a peer, and go each in one of several ways.
async fn comes_and_goes(count: usize) {
    const AT_ONCE: usize = 40;
    let peer = builder("peer").start().await.unwrap();
    let mut lives = JoinSet::new();
    for number in 0..count {
        if lives.len() == AT_ONCE {
            lives.join_next().await.unwrap().unwrap();
        }
        lives.spawn(one_life(number, addr(&peer)));
    }
    lives.join_all().await;
    drop(peer);
}

async fn one_life(number: usize, peer: SocketAddr) {
    let seed = || StaticDiscoverer::new([peer.to_string()]);
    let start = builder("short-lived").discover(seed()).start();
    match number % 7 {
        // Before anything was heard of it.
        0 => drop(start.await.unwrap()),
        // As a member, with something to tell.
        1 => {
            let node = start.await.unwrap();
            node.ready().await;
            assert!(node.scope("slow", SLOW).check_n(number.to_string(), 10).allowed);
        }
        2 => {
            let node = start.await.unwrap();
            node.ready().await;
            node.close().await;
        }
        // Closed at once, and by two at once.
        3 => {
            let node = start.await.unwrap();
            tokio::join!(node.close(), node.close());
        }
        // It never starts.
        4 => assert!(builder("second").bind(peer).discover(seed()).start().await.is_err()),
        5 => assert!(builder("bad").discover(StaticDiscoverer::new(["nonsense"])).start().await.is_err()),
        // The start is never awaited.
        _ => drop(start),
    }
}

#[test]
fn a_runtime_that_ends_takes_its_nodes_along_and_they_go_on_deciding() {
    let _alone = alone();
    let runtime = Runtime::new().unwrap();
    let nodes = runtime.block_on(cluster(3, |builder| builder));
    let ports: Vec<_> = nodes.iter().map(addr).collect();
    runtime.shutdown_timeout(Duration::from_secs(5));
    assert!(ports.into_iter().all(is_free), "a port is still taken");
    for node in &nodes {
        assert!(node.allow("user"));
        assert!(!node.check_n("user", 50).allowed);
    }
    // And nothing that waits on them hangs.
    let runtime = Runtime::new().unwrap();
    let begin = Instant::now();
    runtime.block_on(async {
        for node in &nodes {
            node.ready().await;
            node.close().await;
        }
    });
    assert!(begin.elapsed() < Duration::from_secs(1), "it took {:?}", begin.elapsed());
}

/// Spends one permit after the other at all of them, until told to stop. Returns how many passed.
fn spender(scopes: Vec<Scope>, stop: mpsc::Receiver<()>) -> thread::JoinHandle<u64> {
    thread::spawn(move || {
        let mut spent = 0;
        while stop.try_recv() == Err(mpsc::TryRecvError::Empty) {
            spent += scopes.iter().filter(|scope| scope.allow("user")).count() as u64;
            thread::sleep(Duration::from_micros(500));
        }
        spent
    })
}

#[test]
fn a_node_closed_under_load_is_dropped_within_two_seconds_and_its_last_admissions_are_known() {
    play_alone(runtime::Builder::new_multi_thread(), async {
        let nodes = cluster(3, |builder| builder).await;
        let scopes: Vec<_> = nodes.iter().map(|node| node.scope("slow", SLOW)).collect();
        let (stop, stopped) = mpsc::channel();
        let load = spender(scopes[..2].to_vec(), stopped);
        let (stop_last, last_stopped) = mpsc::channel();
        let last_load = spender(scopes[2..].to_vec(), last_stopped);
        tokio::time::sleep(Duration::from_millis(500)).await;

        // Its service stops taking requests, then closes it.
        stop_last.send(()).unwrap();
        let mut spent = last_load.join().unwrap();
        let begin = Instant::now();
        nodes[2].close().await;
        eventually("it is dropped", || nodes[..2].iter().all(|node| node.members().len() == 2)).await;
        assert!(begin.elapsed() <= Duration::from_secs(2), "dropped after {:?}", begin.elapsed());
        assert!(is_free(addr(&nodes[2])), "its port is still taken");

        stop.send(()).unwrap();
        spent += load.join().unwrap();
        let left = SLOW.burst_size() - spent;
        let knows = || scopes[..2].iter().all(|scope| scope.peek("user").remaining == left);
        eventually("both know all that was spent", knows).await;
    });
}

#[test]
fn a_node_closed_under_load_while_its_peers_are_gone_or_silent_returns_in_time_and_frees_its_port() {
    play_alone(runtime::Builder::new_multi_thread(), async {
        for silent in [false, true] {
            // Peers on a runtime of their own, of one thread: it ends, or it stops to work with its sockets open, so
            // that what is sent there is neither answered nor refused.
            let (ready, is_ready) = mpsc::channel();
            let (end, ended) = mpsc::channel::<()>();
            let first = builder("first").start().await.unwrap();
            let seed_of_peers = addr(&first).to_string();
            let peers = thread::spawn(move || {
                let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let peers: Vec<_> = runtime.block_on(async {
                    let mut peers = Vec::new();
                    for name in ["second", "third"] {
                        let list = StaticDiscoverer::new([seed_of_peers.clone()]);
                        peers.push(builder(name).discover(list).start().await.unwrap());
                    }
                    let all = || peers.iter().all(|node| node.members().len() == 3);
                    eventually("everybody sees everybody", all).await;
                    peers
                });
                let runtime = silent.then_some(runtime);
                ready.send(()).unwrap();
                let _end = ended.recv();
                drop((peers, runtime));
            });
            tokio::task::spawn_blocking(move || is_ready.recv().unwrap()).await.unwrap();
            assert_eq!(first.members().len(), 3, "they were dropped before it began");

            let (stop, stopped) = mpsc::channel();
            let load = spender(vec![first.scope("slow", SLOW)], stopped);
            tokio::time::sleep(Duration::from_millis(100)).await;
            let begin = Instant::now();
            first.close().await;
            let took = begin.elapsed();
            assert!(took <= Duration::from_millis(3_200), "close took {took:?}, peers silent: {silent}");
            assert!(is_free(addr(&first)), "the port is still taken, peers silent: {silent}");
            stop.send(()).unwrap();
            assert!(load.join().unwrap() > 0);
            end.send(()).unwrap();
            peers.join().unwrap();
        }
    });
}

#[test]
fn sweep_merge_and_check_on_one_thread_all_make_progress() {
    play_alone(runtime::Builder::new_current_thread(), async {
        let often =
            |builder: Builder| builder.evict_idle(Duration::from_secs(1), Duration::from_millis(10)).max_keys(4_096);
        let nodes = cluster(2, often).await;
        // Few keys, so that sweeps, merges and decisions meet in the same groups; and new ones all the time, that go.
        let begin = Instant::now();
        let checks: Vec<_> = nodes
            .iter()
            .flat_map(|node| (0..4).map(|task| (node.clone(), task)))
            .map(|(node, task)| {
                tokio::spawn(async move {
                    let (mut checks, mut longest, mut last) = (0_u64, Duration::ZERO, Instant::now());
                    while begin.elapsed() < Duration::from_secs(3) {
                        let newcomer = format!("{task}-{}", begin.elapsed().as_millis() / 20);
                        for key in 0..16 {
                            let _decision = node.check(format!("key-{key}"));
                            let _decision = node.check(&newcomer);
                            checks += 2;
                        }
                        tokio::task::yield_now().await;
                        longest = longest.max(last.elapsed());
                        last = Instant::now();
                    }
                    (checks, longest)
                })
            })
            .collect();
        for check in checks {
            let (checks, longest) = check.await.unwrap();
            assert!(checks > 1_000, "only {checks} checks");
            assert!(longest < Duration::from_millis(500), "a task waited for {longest:?}");
        }
        for node in &nodes {
            let stats = node.stats();
            assert!(stats.evictions.idle > 100, "sweeps come to nothing: {stats:?}");
            assert!(stats.merges > 100, "merges come to nothing: {stats:?}");
            assert!(stats.syncs > 0 && stats.published > 100, "news comes to nothing: {stats:?}");
            assert_eq!(node.members().len(), 2, "a member was lost");
        }
    });
}
