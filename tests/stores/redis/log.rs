//! The sliding window log.

use std::time::Duration;

use peerlimit::{Quota, RateLimiter as _};

use super::support::{self, Raw};
use crate::conformance::Answers as _;

const KEY: &str = "peerlimit:{=k}:log:=a";

/// All entries: time, permits before, permits with it.
async fn entries(raw: &mut Raw) -> Vec<[f64; 3]> {
    let entries: Vec<Vec<u8>> = raw.ask(&format!("LRANGE {KEY} 0 -1")).await;
    let number = |bytes: &[u8]| f64::from_be_bytes(bytes.try_into().unwrap());
    entries.iter().map(|entry| [&entry[..8], &entry[8..16], &entry[16..]].map(number)).collect()
}

/// Replaces all entries, and leaves the log without an expiry.
async fn put(raw: &mut Raw, entries: &[[f64; 3]]) {
    let _gone: u64 = raw.ask(&format!("DEL {KEY}")).await;
    let mut cmd = ::redis::cmd("RPUSH");
    cmd.arg(KEY);
    for entry in entries {
        cmd.arg(entry.map(f64::to_be_bytes).concat());
    }
    if !entries.is_empty() {
        let _length: u64 = cmd.query_async(raw.connection()).await.unwrap();
    }
}

#[tokio::test]
async fn ten_thousand_requests_of_one_millisecond_count_as_ten_thousand() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_hour(20_000));
    let asked: Vec<_> = (0..10_000).map(|_| tokio::spawn(log.decide(b"k", 1))).collect();
    for decision in asked {
        assert!(decision.await.unwrap().unwrap().allowed);
    }
    assert_eq!(raw.ask::<u64>(&format!("LLEN {KEY}")).await, 10_000);
    assert_eq!(log.peeked(b"k", 0).await.remaining, 10_000);
    // And as if all had come in one microsecond, the last one: what passed before each tells them apart.
    let mut entries = entries(&mut raw).await;
    let last = entries.last().unwrap()[0];
    entries.iter_mut().for_each(|entry| entry[0] = last);
    put(&mut raw, &entries).await;
    assert_eq!(log.peeked(b"k", 0).await.remaining, 10_000);
    assert_eq!(raw.ask::<u64>(&format!("LLEN {KEY}")).await, 10_000);
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
    let before = entries(&mut raw).await;
    for cost in [1, 2, 5, 6, u64::MAX] {
        assert!(!log.decided(b"k", cost).await.allowed);
    }
    assert_eq!((before.len(), before), (5, entries(&mut raw).await));
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
    let log = redis.sliding_log("a", Quota::per_hour(10));
    // Entries of long ago, and after some of them what is still in the window.
    for old in [0_u32, 1, 2, 3, 100, 1_000] {
        for young in [0_u32, 1, 2, 7] {
            let now: (u64, u64) = raw.ask("TIME").await;
            let now = (now.0 * 1_000_000 + now.1) as f64;
            let at = |index| if index < old { 1_000.0 + f64::from(index) } else { now };
            let all: Vec<_> = (0..old + young).map(|index| [at(index), index.into(), (index + 1).into()]).collect();
            put(&mut raw, &all).await;
            assert_eq!(log.peeked(b"k", 1).await.remaining, u64::from(10 - young), "{old} old, {young} young");
            assert_eq!(entries(&mut raw).await.len(), all.len(), "a peek changes nothing");
            assert_eq!(log.peeked(b"k", 10 - u64::from(young)).await.remaining, u64::from(10 - young));
            let decision = log.decided(b"k", 10 - u64::from(young)).await;
            assert_eq!((decision.allowed, decision.remaining), (true, 0), "{old} old, {young} young");
            assert_eq!(raw.ask::<u64>(&format!("LLEN {KEY}")).await, u64::from(young) + 1);
            assert!(raw.ask::<i64>(&format!("PTTL {KEY}")).await > 0);
        }
    }
}

#[tokio::test]
async fn an_entry_takes_some_thirty_bytes() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_hour(5_000));
    assert_eq!(log.passes(b"k").await, 5_000);
    let bytes: u64 = raw.ask(&format!("MEMORY USAGE {KEY} SAMPLES 0")).await;
    assert!(bytes / 5_000 <= 36, "{bytes} bytes");
}

#[tokio::test]
async fn a_request_of_many_permits_is_one_entry() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_second(1_000_000).burst(Quota::MAX_BURST));
    assert!(log.decided(b"k", 4_000_000_000).await.allowed);
    assert!(!log.charged(b"k", u64::MAX).await.allowed);
    assert_eq!(entries(&mut raw).await.len(), 2);
    let refunded = log.refunded(b"k", 2 * Quota::MAX_BURST - 1).await;
    assert_eq!(refunded.remaining, Quota::MAX_BURST - 1);
    assert_eq!(entries(&mut raw).await.iter().map(|entry| (entry[1], entry[2])).collect::<Vec<_>>(), [(0.0, 1.0)]);
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
    assert!(log.decided(b"k", 2).await.allowed);
    // As if that had been admitted in a minute.
    let mut all = entries(&mut raw).await;
    all[0][0] += 60e6;
    put(&mut raw, &all).await;
    for left in (0..8).rev() {
        assert_eq!(log.decided(b"k", 1).await.remaining, left);
    }
    let refused = log.decided(b"k", 1).await;
    let wait = refused.retry_after.unwrap();
    assert!(wait > Duration::from_secs(3_600) && wait <= Duration::from_secs(3_660), "{wait:?}");
    assert_eq!(log.refunded(b"k", 9).await.remaining, 9);
}
