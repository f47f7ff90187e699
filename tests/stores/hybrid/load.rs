//! With a real server: stopped under load, and killed under replicas that gossip.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use peerlimit::{
    Limiter, Quota, RateLimiter, StaticDiscoverer,
    stores::{
        hybrid::{Hybrid, State},
        redis::TokenBucket,
    },
};
use tokio::{
    task::{JoinSet, block_in_place},
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{
    punctual::{self, Answers, timed},
    redis::support,
    servers::Server,
};

const QUOTA: Quota = Quota::per_second(100).burst(50);
const TIMEOUT: Duration = Duration::from_millis(50);

/// A token bucket at the server, whose own timeouts are out of the way.
fn bucket(server: &Server) -> TokenBucket {
    let patience = TIMEOUT * 4;
    let redis = support::builder(server).connect_timeout(patience).response_timeout(patience).build().unwrap();
    redis.token_bucket("store", QUOTA)
}

#[tokio::test]
async fn a_server_stopped_under_load_keeps_nobody_and_is_back_soon_after() {
    punctual::in_time(async || stopped_under_load(Duration::from_secs(1), Duration::from_secs(3)).await).await;
}

#[tokio::test]
#[ignore = "takes half a minute: the above with the default cool-off"]
async fn a_server_stopped_under_load_for_longer_keeps_nobody_and_is_back_soon_after() {
    punctual::in_time(async || stopped_under_load(Duration::from_secs(5), Duration::from_secs(12)).await).await;
}

/// What callers get in each second of the outage, and those alone who waited for the server; nothing where there is none.
async fn stopped_under_load(cool_off: Duration, outage: Duration) -> Vec<Answers> {
    let Some(server) = support::start() else { return Vec::new() };
    let opened = Arc::new(Mutex::new(Vec::new()));
    let opening = Arc::clone(&opened);
    let hybrid = Hybrid::builder(bucket(&server), Limiter::local(QUOTA))
        .timeout(TIMEOUT)
        .cool_off(cool_off)
        .on_state_change(move |_, to| {
            if to == State::Open {
                opening.lock().unwrap().push(Instant::now());
            }
        })
        .build()
        .unwrap();
    // Warm: connected, and the script known.
    while hybrid.decide(b"first", 1).await.unwrap().policy != "store" {
        sleep(Duration::from_millis(10)).await;
    }
    let answers = Arc::new(Mutex::new(Vec::new()));
    let mut callers = JoinSet::new();
    for caller in 0..32_u64 {
        let (hybrid, answers) = (hybrid.clone(), Arc::clone(&answers));
        callers.spawn(async move {
            loop {
                let asked = Instant::now();
                let (decision, took, late) = timed(TIMEOUT, hybrid.decide(&caller.to_le_bytes(), 1)).await;
                // Any error fails the test when the callers are looked at.
                let _decision = decision.unwrap();
                answers.lock().unwrap().push((asked, took, late));
                sleep(Duration::from_millis(2)).await;
            }
        });
    }
    // A host that is busy with something else may have stopped it already.
    sleep(Duration::from_secs(1)).await;
    while hybrid.state() != State::Closed {
        sleep(Duration::from_millis(10)).await;
    }
    let by_primary = hybrid.stats().by_primary;
    server.stop();
    let stopped = Instant::now();
    sleep(outage).await;
    assert_ne!(hybrid.state(), State::Closed);
    let to_open = *opened.lock().unwrap().iter().find(|opened| **opened >= stopped).unwrap() - stopped;
    server.go_on();
    let back = Instant::now();
    while hybrid.state() != State::Closed {
        assert!(back.elapsed() < cool_off + Duration::from_secs(1), "not back after {:?}", back.elapsed());
        sleep(Duration::from_millis(1)).await;
    }
    let to_close = back.elapsed();
    sleep(Duration::from_millis(500)).await;
    assert!(callers.try_join_next().is_none(), "a caller saw an error");
    callers.shutdown().await;
    let stats = hybrid.stats();
    eprintln!("open after {to_open:?}, back after {to_close:?}, {stats:?}");
    assert!(to_open < Duration::from_secs(1), "open after {to_open:?}");
    assert!(by_primary > 100 && stats.by_primary > by_primary, "the store was used before and after");
    assert_eq!((stats.unanswered, stats.not_repaid), (0, 0));
    let mut seconds: Vec<_> = (0..outage.as_secs()).map(|_| Answers::default()).collect();
    let mut waited = Answers::default();
    for &(asked, took, late) in answers.lock().unwrap().iter() {
        let second = asked.checked_duration_since(stopped).and_then(|since| seconds.get_mut(since.as_secs() as usize));
        if let Some(second) = second {
            second.add(took, late);
            // Too few for a percentile of all.
            if took >= TIMEOUT / 2 {
                waited.add(took, late);
            }
        }
    }
    seconds.push(waited);
    seconds
}

/// Replicas that gossip, each of which knows the first one.
async fn cluster(count: usize) -> Vec<Limiter> {
    let mut nodes: Vec<Limiter> = Vec::new();
    for index in 0..count {
        let seeds: Vec<_> = nodes.first().and_then(Limiter::local_addr).iter().map(ToString::to_string).collect();
        let node = Limiter::builder(QUOTA)
            .node(format!("replica-{index}"))
            .bind("127.0.0.1:0".parse().unwrap())
            .discover(StaticDiscoverer::new(seeds))
            .discover_interval(Duration::from_millis(500))
            .start();
        nodes.push(node.await.unwrap());
    }
    let begin = Instant::now();
    while nodes.iter().any(|node| node.members().len() < count) {
        assert!(begin.elapsed() < Duration::from_secs(20), "the replicas do not see each other");
        sleep(Duration::from_millis(20)).await;
    }
    nodes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_admit_what_one_bucket_would_while_their_redis_is_killed_and_comes_back() {
    killed_and_back(Duration::from_secs(3), Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute: the above with ten seconds each and the default cool-off"]
async fn three_replicas_admit_what_one_bucket_would_over_half_a_minute() {
    killed_and_back(Duration::from_secs(10), Duration::from_secs(5)).await;
}

/// Ten times the quota for three times `part`; the server is away during the second.
async fn killed_and_back(part: Duration, cool_off: Duration) {
    let Some(mut server) = support::start() else { return };
    let nodes = cluster(3).await;
    let replicas: Vec<_> = nodes
        .iter()
        .map(|node| Hybrid::builder(bucket(&server), node.clone()).timeout(TIMEOUT).cool_off(cool_off).build().unwrap())
        .collect();
    for replica in &replicas {
        while replica.decide(b"first", 1).await.unwrap().policy != "store" {
            sleep(Duration::from_millis(10)).await;
        }
    }
    let begin = Instant::now();
    let mut callers = JoinSet::new();
    for replica in &replicas {
        let replica = replica.clone();
        callers.spawn(async move {
            let (mut admitted, mut tick) = ([0_u64; 3], interval(Duration::from_millis(3)));
            tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
            while begin.elapsed() < part * 3 {
                tick.tick().await;
                let thirds = begin.elapsed().as_nanos() / part.as_nanos();
                let allowed = replica.decide(b"hot", 1).await.unwrap().allowed;
                admitted[(thirds as usize).min(2)] += u64::from(allowed);
            }
            admitted
        });
    }
    sleep(part).await;
    block_in_place(|| server.kill());
    sleep(part).await;
    assert!(replicas.iter().all(|replica| replica.state() != State::Closed));
    let by_primary: Vec<_> = replicas.iter().map(|replica| replica.stats().by_primary).collect();
    block_in_place(|| server.restart());
    let mut thirds = [0; 3];
    while let Some(admitted) = callers.join_next().await {
        for (sum, admitted) in thirds.iter_mut().zip(admitted.unwrap()) {
            *sum += admitted;
        }
    }
    let central = 50.0 + 100.0 * begin.elapsed().as_secs_f64();
    let ratio = thirds.iter().sum::<u64>() as f64 / central;
    eprintln!("admitted {thirds:?}, {ratio:.4} of one central bucket");
    for (replica, by_primary) in replicas.iter().zip(by_primary) {
        let stats = replica.stats();
        eprintln!("{stats:?}");
        assert!(stats.by_primary > by_primary + 100 && stats.unanswered == 0, "{stats:?}");
    }
    assert!((0.95..=1.05).contains(&ratio), "{thirds:?}: {ratio:.4} of one central bucket");
    for node in nodes {
        node.close().await;
    }
}
