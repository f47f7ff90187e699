//! Servers that turn read-only.

use std::time::{Duration, Instant};

use peerlimit::{Quota, RateLimiter as _, stores::redis::RedisError};

use super::{
    load::{AMPLE, Load},
    support::{self, Raw},
};
use crate::{conformance::Answers as _, servers::free_port};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_demoted_with_its_connections_kept_is_left_for_the_new_one_under_load() {
    let Some(old) = support::start_with(&["--repl-diskless-sync-delay", "0"]) else { return };
    let Some(new) = support::start_with(&["--repl-diskless-sync-delay", "0"]) else { return };
    let (mut old_raw, mut new_raw) = (Raw::of(&old).await, Raw::of(&new).await);
    let _ok: String = new_raw.ask(&format!("REPLICAOF 127.0.0.1 {}", old.port)).await;
    let redis = support::patiently(support::builder(&old).or(support::url(&new))).build().unwrap();
    let load = Load::start(&redis);
    load.goes_on().await;
    // What was used is known to the replica when it takes over.
    let log = redis.sliding_log("kept", Quota::per_hour(10));
    assert_eq!(log.decided(b"k", 10).await.remaining, 0);
    let begin = Instant::now();
    while new_raw.ask::<u64>("EXISTS peerlimit:{=k}:log:=kept").await == 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "not replicated");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _ok: String = new_raw.ask("REPLICAOF NO ONE").await;
    let _ok: String = old_raw.ask(&format!("REPLICAOF 127.0.0.1 {}", new.port)).await;
    load.goes_on().await;
    assert!(!log.decided(b"k", 1).await.allowed);
    // And back again.
    let _ok: String = old_raw.ask("REPLICAOF NO ONE").await;
    let _ok: String = new_raw.ask(&format!("REPLICAOF 127.0.0.1 {}", old.port)).await;
    load.goes_on().await;
    let (_, errors) = load.stop().await;
    assert!(errors.is_empty(), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_read_only_for_a_while_is_used_again_when_it_is_not() {
    let Some(server) = support::start() else { return };
    let mut raw = Raw::of(&server).await;
    let redis = support::builder(&server)
        .response_timeout(Duration::from_millis(100))
        .connect_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let bucket = redis.token_bucket("a", AMPLE);
    redis.ping().await.unwrap();
    // A replica of nobody who is there.
    let _ok: String = raw.ask(&format!("REPLICAOF 127.0.0.1 {}", free_port())).await;
    let _before: String = raw.ask("CONFIG RESETSTAT").await;
    for _ in 0..50 {
        let error = bucket.decide(b"k", 1).await.unwrap_err();
        assert!(matches!(error, RedisError::Unavailable { .. } | RedisError::Timeout { .. }), "{error:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // It was not asked for connections without end.
    let stats: String = raw.ask("INFO stats").await;
    let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap();
    assert!(line.trim().parse::<u64>().unwrap() < 20, "{line} connections");
    let _ok: String = raw.ask("REPLICAOF NO ONE").await;
    let begin = Instant::now();
    while bucket.decide(b"k", 1).await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(3), "not used again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
