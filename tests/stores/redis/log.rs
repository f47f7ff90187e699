//! The sliding window log.

use std::time::Duration;

use peerlimit::{Quota, RateLimiter as _};

use super::support::{self, Raw};
use crate::conformance::Answers as _;

#[tokio::test]
async fn ten_thousand_requests_of_one_millisecond_count_as_ten_thousand() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_hour(20_000));
    // The server runs one command after the other, and a transaction in one go; its members are not told apart by time.
    let first = log.decided(b"k", 1).await;
    assert!(first.allowed);
    let key = "peerlimit:{=k}:log:=a";
    let begin: f64 = raw.ask(&format!("ZSCORE {key} 0000000000000000:1")).await;
    let asked: Vec<_> = (0..9_999).map(|_| tokio::spawn(log.decide(b"k", 1))).collect();
    for decision in asked {
        assert!(decision.await.unwrap().unwrap().allowed);
    }
    assert_eq!(raw.ask::<u64>(&format!("ZCARD {key}")).await, 10_000);
    assert_eq!(log.peeked(b"k", 0).await.remaining, 10_000);
    // And all of them in one microsecond: what they were called tells them apart.
    let mut script = String::from("local log = redis.call('ZRANGE', KEYS[1], 0, -1)\n");
    script.push_str("for _, member in ipairs(log) do redis.call('ZADD', KEYS[1], ARGV[1], member) end\nreturn #log");
    let moved: u64 = ::redis::Script::new(&script).key(key).arg(begin).invoke_async(raw.connection()).await.unwrap();
    assert_eq!(moved, 10_000);
    assert_eq!(log.peeked(b"k", 0).await.remaining, 10_000);
    assert_eq!(log.refunded(b"k", 2_500).await.remaining, 12_500);
    assert_eq!(log.decided(b"k", 12_501).await.remaining, 12_500);
    assert_eq!(log.decided(b"k", 12_500).await.remaining, 0);
}

#[tokio::test]
async fn a_refused_request_leaves_nothing() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_hour(5));
    assert_eq!(log.passes(b"k").await, 5);
    let key = "peerlimit:{=k}:log:=a";
    let before: Vec<String> = raw.ask(&format!("ZRANGE {key} 0 -1 WITHSCORES")).await;
    for cost in [1, 2, 5, 6, u64::MAX] {
        assert!(!log.decided(b"k", cost).await.allowed);
    }
    let after: Vec<String> = raw.ask(&format!("ZRANGE {key} 0 -1 WITHSCORES")).await;
    assert_eq!((before.len(), before), (10, after));
    // Nor does one that is refused on a key that nobody knows, or that asks for nothing.
    assert!(!log.decided(b"new", 6).await.allowed);
    assert!(log.decided(b"new", 0).await.allowed);
    assert!(log.peeked(b"new", 1).await.allowed);
    assert_eq!(log.refunded(b"new", 1).await.remaining, 5);
    assert_eq!(raw.ask::<u64>("EXISTS peerlimit:{=new}:log:=a").await, 0);
}

#[tokio::test]
async fn what_has_left_the_window_is_trimmed_before_it_is_counted() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_second(10));
    let key = "peerlimit:{=k}:log:=a";
    // Someone left entries of long ago, and took the expiry away.
    for index in 0..100 {
        let _added: u64 = raw.ask(&format!("ZADD {key} {} {index:016}:1", 1_000 + index)).await;
    }
    let decision = log.decided(b"k", 10).await;
    assert_eq!((decision.allowed, decision.remaining), (true, 0));
    assert_eq!(raw.ask::<u64>(&format!("ZCARD {key}")).await, 1);
    assert!(raw.ask::<i64>(&format!("PTTL {key}")).await > 0);
}

#[tokio::test]
async fn a_request_of_many_permits_is_one_entry() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_second(1_000_000).burst(Quota::MAX_BURST));
    assert!(log.decided(b"k", 4_000_000_000).await.allowed);
    assert!(!log.charged(b"k", u64::MAX).await.allowed);
    assert_eq!(raw.ask::<u64>("ZCARD peerlimit:{=k}:log:=a").await, 2);
    let refunded = log.refunded(b"k", 2 * Quota::MAX_BURST - 1).await;
    assert_eq!(refunded.remaining, Quota::MAX_BURST - 1);
    assert_eq!(raw.ask::<Vec<String>>("ZRANGE peerlimit:{=k}:log:=a 0 -1").await, ["0000000000000000:1"]);
}

#[tokio::test]
async fn it_is_exact_across_the_edge_of_a_window_where_a_fixed_one_lets_twice_as_much_pass() {
    let Some(server) = support::start() else { return };
    let redis = support::patient(&server);
    let quota = Quota::per_second(50).burst(10);
    let (log, window) = (redis.sliding_log("a", quota), quota.refill_time());
    let begin = std::time::Instant::now();
    // Of each pass: when it was asked for and when it was answered.
    let mut passed = Vec::new();
    while begin.elapsed() < window * 5 {
        let asked = begin.elapsed();
        if log.decided(b"k", 1).await.allowed {
            passed.push((asked, begin.elapsed()));
        }
    }
    assert!(passed.len() >= 40, "{}", passed.len());
    for ten in passed.windows(11) {
        let apart = ten[10].1.saturating_sub(ten[0].0);
        assert!(apart >= window, "11 of 10 within {apart:?}");
    }
}

#[tokio::test]
async fn a_clock_of_the_server_that_goes_back_keeps_the_log_in_order() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_hour(10));
    let key = "peerlimit:{=k}:log:=a";
    assert!(log.decided(b"k", 2).await.allowed);
    // As if that had been admitted in a minute.
    let at: f64 = raw.ask(&format!("ZSCORE {key} 0000000000000000:2")).await;
    let _moved: u64 = raw.ask(&format!("ZADD {key} {} 0000000000000000:2", at + 60e6)).await;
    for left in (0..8).rev() {
        assert_eq!(log.decided(b"k", 1).await.remaining, left);
    }
    let refused = log.decided(b"k", 1).await;
    let wait = refused.retry_after.unwrap();
    assert!(wait > Duration::from_secs(3_600) && wait <= Duration::from_secs(3_660), "{wait:?}");
    assert_eq!(log.refunded(b"k", 9).await.remaining, 9);
}
