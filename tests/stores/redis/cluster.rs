//! A cluster of three masters.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use peerlimit::{Quota, RateLimiter as _, stores::redis::Redis};

use super::support::{self, Raw};
use crate::{
    conformance::Answers as _,
    servers::{Server, free_port},
};

const SLOTS: u32 = 16_384;

/// Starts it, and waits until it works.
async fn start() -> Option<Vec<Server>> {
    let mut servers = Vec::new();
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port"];
    for _ in 0..3 {
        let bus = free_port().to_string();
        let mut args = options.to_vec();
        args.push(&bus);
        servers.push(support::start_with(&args)?);
    }
    let count = u32::try_from(servers.len()).unwrap();
    let mut raws = Vec::new();
    for (index, server) in (0..count).zip(&servers) {
        let mut raw = Raw::of(server).await;
        let (first, end) = (index * SLOTS / count, (index + 1) * SLOTS / count);
        let slots: Vec<String> = (first..end).map(|slot| slot.to_string()).collect();
        let _ok: String = raw.ask(&format!("CLUSTER ADDSLOTS {}", slots.join(" "))).await;
        let _ok: String = raw.ask(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1)).await;
        raws.push(raw);
    }
    for server in &servers[1..] {
        let bus: Vec<String> = raws[0].ask("CONFIG GET cluster-port").await;
        drop(bus);
        let mut raw = Raw::of(server).await;
        let bus: Vec<String> = raw.ask("CONFIG GET cluster-port").await;
        let _ok: String = raws[0].ask(&format!("CLUSTER MEET 127.0.0.1 {} {}", server.port, bus[1])).await;
    }
    let begin = Instant::now();
    for raw in &mut raws {
        loop {
            let info: String = raw.ask("CLUSTER INFO").await;
            if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3") {
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "no cluster: {info}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Some(servers)
}

fn connect(servers: &[Server]) -> Redis {
    support::patiently(Redis::cluster([support::url(&servers[0])]).or(support::url(&servers[1]))).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_with_braces_are_spread_and_never_cross_slots() {
    let Some(servers) = start().await else { return };
    let redis = connect(&servers);
    let quota = Quota::per_hour(3);
    let (log, bucket) = (redis.sliding_log("a{b}", quota), redis.token_bucket("{}", quota));
    let keys =
        (0..60).flat_map(|index| [format!("user:{index}"), format!("{{one}}{index}"), format!("{{}}{index}{{x")]);
    let keys: Vec<String> = keys.collect();
    for key in &keys {
        let key = key.as_bytes();
        assert_eq!((log.passes(key).await, bucket.passes(key).await), (3, 3));
        assert_eq!((log.charged(key, 1).await.allowed, bucket.refunded(key, 1).await.remaining), (false, 1));
        assert!(!log.peeked(key, 1).await.allowed);
    }
    // A key of `{one}` chose no slot: its kind is spread over all servers.
    for server in &servers {
        let mut raw = Raw::of(server).await;
        let (all, with_braces): (Vec<String>, Vec<String>) =
            (raw.ask("KEYS *").await, raw.ask("KEYS peerlimit:{#*}:*").await);
        assert!(all.len() > 30 && with_braces.len() > 10, "{} and {} keys", all.len(), with_braces.len());
        for (key, left) in raw.expiries().await {
            assert!(left >= 0, "{key}");
        }
    }
    for key in &keys {
        log.reset(key).await.unwrap();
        assert_eq!(log.decided(key.as_bytes(), 1).await.remaining, 2);
    }
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_race_in_a_cluster_pass_as_often_as_the_quota_says() {
    let Some(servers) = start().await else { return };
    let redis = connect(&servers);
    for name in ["a", "b", "c"] {
        let log = redis.sliding_log(name, Quota::per_hour(100));
        let bucket = redis.token_bucket(name, Quota::per_hour(100));
        let asked: Vec<_> = (0..300)
            .map(|_| (tokio::spawn(log.decide(name.as_bytes(), 1)), tokio::spawn(bucket.decide(name.as_bytes(), 1))))
            .collect();
        let mut passed = (0, 0);
        for (one, other) in asked {
            passed.0 += u32::from(one.await.unwrap().unwrap().allowed);
            passed.1 += u32::from(other.await.unwrap().unwrap().allowed);
        }
        assert_eq!(passed, (100, 100));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_scripts_are_flushed_or_whose_slots_move_is_no_error() {
    let Some(servers) = start().await else { return };
    let redis = connect(&servers);
    let log = redis.sliding_log("a", Quota::per_hour(1_000));
    let keys: Vec<String> = (0..30).map(|index| format!("k{index}")).collect();
    for round in 0..5 {
        for key in &keys {
            assert_eq!(log.decided(key.as_bytes(), 1).await.remaining, 999 - round);
        }
        for server in &servers {
            let _ok: String = Raw::of(server).await.ask("SCRIPT FLUSH").await;
        }
    }
    // A free slot goes to another server, which says so to who asks the first.
    let key = "elsewhere";
    let (mut first, mut raws) = (Raw::of(&servers[0]).await, Vec::new());
    let slot: u32 = first.ask(&format!("CLUSTER KEYSLOT x:{{={key}}}:log:=a")).await;
    let mut ids = Vec::new();
    for server in &servers {
        let mut raw = Raw::of(server).await;
        ids.push(raw.ask::<String>("CLUSTER MYID").await);
        raws.push(raw);
    }
    let owner = usize::try_from(slot * 3 / SLOTS).unwrap();
    let heir = (owner + 1) % 3;
    for index in [heir, owner, (owner + 2) % 3] {
        let _ok: String = raws[index].ask(&format!("CLUSTER SETSLOT {slot} NODE {}", ids[heir])).await;
    }
    for left in (990..1_000).rev() {
        assert_eq!(log.decided(key.as_bytes(), 1).await.remaining, left);
    }
    assert_eq!(raws[heir].ask::<u64>(&format!("EXISTS peerlimit:{{={key}}}:log:=a")).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_one_server_stopped_decides_on_the_keys_of_the_others() {
    let Some(servers) = start().await else { return };
    let timeout = Duration::from_millis(200);
    let redis = Redis::cluster([support::url(&servers[0])])
        .response_timeout(timeout)
        .connect_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let bucket = redis.token_bucket("a", Quota::per_hour(1_000));
    while redis.ping().await.is_err() {}
    for _ in 0..2 {
        for index in 0..60 {
            let _known = bucket.decide(format!("k{index}").as_bytes(), 1).await;
        }
    }
    servers[2].stop();
    let (mut decided, mut failed, begin) = (0, 0, Instant::now());
    for index in 0..60 {
        let asked = Instant::now();
        match bucket.decide(format!("k{index}").as_bytes(), 1).await {
            Ok(_) => decided += 1,
            Err(_) => failed += 1,
        }
        assert!(asked.elapsed() < timeout + Duration::from_millis(100), "{:?}", asked.elapsed());
        // Before the others notice that it is gone, and stop altogether.
        if begin.elapsed() > Duration::from_millis(1_500) {
            break;
        }
    }
    println!("{decided} decided, {failed} failed");
    assert!(decided > 0 && failed > 0, "{decided} decided, {failed} failed");
    servers[2].go_on();
    let back = Instant::now();
    for index in 0..60 {
        while bucket.decide(format!("k{index}").as_bytes(), 1).await.is_err() {
            assert!(back.elapsed() < Duration::from_secs(15), "not used again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
