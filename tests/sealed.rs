//! Real nodes with a secret on loopback, and strangers at their port.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and real nodes run in real time"
)]

#[path = "support/log.rs"]
mod log;
#[path = "support/patience.rs"]
mod patience;

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream, UdpSocket},
    time::{Duration, Instant},
};

use log::Log;
use patience::eventually;
use peerlimit::{Builder, Limiter, Quota, Scope, Sealing, Secrets, StartError, StaticDiscoverer};

fn builder(name: &str) -> Builder {
    Limiter::builder(Quota::per_second(100).burst(50))
        .node(name)
        .bind("127.0.0.1:0".parse().unwrap())
        .discover_interval(Duration::from_millis(500))
        .probe_interval(Duration::from_millis(300))
        .suspicion_timeout(Duration::from_millis(600))
        .anti_entropy_interval(Duration::from_millis(200))
}

fn of(bytes: &[u8]) -> Secrets {
    Secrets::new(bytes.iter().map(|byte| [*byte; 32])).unwrap()
}

fn addr(limiter: &Limiter) -> SocketAddr {
    limiter.local_addr().unwrap()
}

/// Nodes with what `tune` gives them, each of which knows the first one.
async fn cluster(count: usize, tune: impl Fn(Builder) -> Builder) -> Vec<Limiter> {
    let mut nodes = vec![tune(builder("node-0")).start().await.unwrap()];
    for index in 1..count {
        let seed = StaticDiscoverer::new([addr(&nodes[0]).to_string()]);
        nodes.push(tune(builder(&format!("node-{index}"))).discover(seed).start().await.unwrap());
    }
    eventually("everybody sees everybody", || nodes.iter().all(|node| node.members().len() == count)).await;
    nodes
}

/// One scope of all nodes, so slow that nothing comes back during a test.
fn slow(nodes: &[Limiter]) -> Vec<Scope> {
    nodes.iter().map(|node| node.scope("slow", Quota::per_day(100))).collect()
}

#[tokio::test]
async fn nodes_with_a_secret_limit_together_and_one_without_it_gets_nothing() {
    let nodes = cluster(3, |builder| builder.secret(of(&[7]))).await;
    let scopes = slow(&nodes);
    let seed = addr(&nodes[0]).to_string();
    let plain = builder("plain").discover(StaticDiscoverer::new([seed.clone()])).start().await.unwrap();
    let wrong = builder("wrong").secret(of(&[8])).discover(StaticDiscoverer::new([seed])).start().await.unwrap();
    assert!(scopes[0].check_n("user", 60).allowed);
    eventually("all know what one admitted", || scopes.iter().all(|scope| scope.peek("user").remaining == 40)).await;
    eventually("the first node has heard of both", || {
        let drops = nodes[0].stats().drops;
        drops.unsealed > 1 && drops.unknown_secret > 1
    })
    .await;
    // Both find nobody, limit alone, and have heard nothing.
    for outsider in [&plain, &wrong] {
        outsider.ready().await;
        assert_eq!(outsider.members().len(), 1);
        assert_eq!(outsider.scope("slow", Quota::per_day(100)).peek("user").remaining, 100);
        assert_eq!(outsider.stats().cells, 0);
    }
    assert!(nodes.iter().all(|node| node.members().len() == 3));
}

#[tokio::test]
async fn a_live_cluster_replaces_its_secret_and_a_newcomer_needs_the_new_one() {
    let nodes = cluster(3, |builder| builder.secret(of(&[1]))).await;
    let scopes = slow(&nodes);
    // Who meets the others one after the other may speak to one that has not heard of it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before: Vec<_> = nodes.iter().map(Limiter::stats).collect();
    let mut spent = 0;
    for stage in [&[1, 2][..], &[2, 1], &[2]] {
        for (node, scope) in nodes.iter().zip(&scopes) {
            node.set_secrets(of(stage)).await;
            assert!(scope.check_n("user", 5).allowed);
            spent += 5;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let left = 100 - spent;
        eventually("news travels", || scopes.iter().all(|scope| scope.peek("user").remaining == left)).await;
        // As long as echoes and exchanges may still be under way.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for (node, before) in nodes.iter().zip(before) {
        let stats = node.stats();
        assert_eq!((node.members().len(), stats.drops, stats.syncs_failed), (3, before.drops, before.syncs_failed));
    }
    let seed = || StaticDiscoverer::new([addr(&nodes[0]).to_string()]);
    let old = builder("old").secret(of(&[1])).discover(seed()).start().await.unwrap();
    let new = builder("new").secret(of(&[2])).discover(seed()).start().await.unwrap();
    // Before the state comes: a scope that is not there yet has no buckets to put it in.
    let scope = new.scope("slow", Quota::per_day(100));
    new.ready().await;
    eventually("the newcomer knows", || scope.peek("user").remaining == 100 - spent).await;
    old.ready().await;
    assert_eq!(old.members().len(), 1);
    // After the end of a node there is nothing to seal, and no wait.
    new.close().await;
    new.set_secrets(of(&[2])).await;
    Limiter::local(Quota::per_second(1)).set_secrets(of(&[2])).await;
}

#[tokio::test]
async fn a_live_cluster_gets_its_first_secret() {
    let nodes = cluster(3, |builder| builder).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before: Vec<_> = nodes.iter().map(|node| node.stats().drops).collect();
    for stage in [Sealing::Prepared, Sealing::Preferred, Sealing::Required] {
        for node in &nodes {
            node.set_secrets(of(&[3]).at_stage(stage)).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    let scopes = slow(&nodes);
    assert!(scopes[1].check_n("user", 30).allowed);
    eventually("news travels", || scopes.iter().all(|scope| scope.peek("user").remaining == 70)).await;
    for (node, before) in nodes.iter().zip(before) {
        assert_eq!((node.members().len(), node.stats().drops), (3, before));
    }
    let plain = UdpSocket::bind("127.0.0.1:0").unwrap();
    plain.send_to(b"whatever", addr(&nodes[0])).unwrap();
    eventually("it is counted", || nodes[0].stats().drops.bad_length == 1).await;
}

#[tokio::test]
async fn nodes_with_another_digest_secret_are_another_cluster() {
    let nodes = cluster(2, |builder| builder.digest_secret([5; 32])).await;
    let scopes = slow(&nodes);
    assert!(scopes[0].check_n("user", 60).allowed);
    eventually("news travels", || scopes[1].peek("user").remaining == 40).await;
    let seed = StaticDiscoverer::new([addr(&nodes[0]).to_string()]);
    let other = builder("other").digest_secret([6; 32]).discover(seed).start().await.unwrap();
    eventually("its frames are foreign", || nodes[0].stats().drops.foreign_cluster > 0).await;
    assert_eq!(other.members().len(), 1);
    for length in [0, 15, 1_025] {
        let started = builder("none").digest_secret(vec![1; length]).start().await;
        let error = started.expect_err("too short or too long").to_string();
        assert_eq!(error, format!("digest_secret length is {length}, must be from 16 to 1024"));
    }
    assert!(matches!(builder("none").digest_secret([]).start().await, Err(StartError::Number { .. })));
}

#[tokio::test]
async fn a_start_without_a_secret_or_with_an_unfinished_roll_out_warns_once() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    let warnings = || {
        let text = log.take();
        assert!(!text.contains("07070707"), "{text}");
        text.lines().filter(|line| line.contains("WARN") && line.contains("sealed")).count()
    };
    let plain = builder("plain").start().await.unwrap();
    assert_eq!(warnings(), 1);
    let stage = builder("stage").secret(of(&[7]).at_stage(Sealing::Preferred)).start().await.unwrap();
    assert_eq!(warnings(), 1);
    let sealed = builder("sealed").secret(of(&[7])).start().await.unwrap();
    sealed.set_secrets(of(&[8, 7])).await;
    assert_eq!(warnings(), 0);
    drop((plain, stage, sealed));
}

#[tokio::test]
async fn secrets_come_from_a_file() {
    let path = std::env::temp_dir().join(format!("peerlimit-secrets-{}", std::process::id()));
    std::fs::write(&path, format!("# two\n{}\n\n{}  # old\n", "ab".repeat(32), "cd".repeat(32))).unwrap();
    assert_eq!(Secrets::from_file(&path).unwrap().len(), 2);
    std::fs::write(&path, "#".repeat(17 * 1024)).unwrap();
    let error = Secrets::from_file(&path).expect_err("too long");
    assert_eq!(error.to_string(), "file of secrets cannot be read");
    std::fs::remove_file(&path).unwrap();
    assert!(Secrets::from_file(&path).is_err());
}

/// Bytes that come back, or `None` if the stream is still open after `patience`.
fn closed_within(stream: &mut TcpStream, patience: Duration) -> Option<usize> {
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => Some(answer.len()),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Some(answer.len()),
        Err(_) => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_says_nothing_or_too_much_is_cut_and_answered_by_nothing() {
    let nodes = cluster(2, |builder| builder.secret(of(&[7]))).await;
    let to = addr(&nodes[0]);
    let story = move |bytes: &'static [u8]| {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(bytes).unwrap();
        let begun = Instant::now();
        (closed_within(&mut stream, Duration::from_secs(10)), begun.elapsed())
    };
    let stories = tokio::task::spawn_blocking(move || {
        [
            ("silence", story(b"")),
            ("half a length", story(b"\x10")),
            ("half a frame", story(b"\x40\0\0\0half")),
            ("a length above the bound of a first frame", story(b"\x01\x01\0\0")),
            ("gigabytes", story(b"\xff\xff\xff\xff")),
            ("garbage", story(b"\x04\0\0\0oops")),
        ]
    });
    for (what, (answer, took)) in stories.await.unwrap() {
        assert_eq!(answer, Some(0), "{what}, after {took:?}");
        // What is wrong from its first bytes on does not get the two seconds that silence gets.
        let hasty = ["a length above the bound of a first frame", "gigabytes", "garbage"].contains(&what);
        assert!(took < Duration::from_millis(if hasty { 1_900 } else { 6_000 }), "{what}, after {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_who_hold_streams_open_do_not_keep_members_from_comparing_notes() {
    let nodes = cluster(2, |builder| builder.secret(of(&[7]))).await;
    let to = addr(&nodes[0]);
    let end = Instant::now() + Duration::from_secs(3);
    let flood = tokio::task::spawn_blocking(move || {
        let mut held = std::collections::VecDeque::new();
        while Instant::now() < end {
            // Fails where the backlog is full, which is as well.
            held.extend(TcpStream::connect_timeout(&to, Duration::from_millis(100)));
            if held.len() > 200 {
                held.pop_front();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let before = nodes[1].stats().syncs;
    let scopes = slow(&nodes);
    assert!(scopes[1].check_n("user", 60).allowed);
    eventually("news travels", || scopes[0].peek("user").remaining == 40).await;
    flood.await.unwrap();
    let stats = nodes[0].stats();
    assert!(stats.drops.streams_refused > 100, "{:?}", stats.drops);
    assert!(nodes[1].stats().syncs >= before + 5, "{} exchanges", nodes[1].stats().syncs - before);
    assert!(nodes.iter().all(|node| node.members().len() == 2));
}
