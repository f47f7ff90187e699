//! What a server is left with: keys that expire, and no time but its own.

use std::time::Duration;

use peerlimit::{Quota, RateLimiter, stores::redis::RedisError};

use super::support::{self, Raw};
use crate::conformance::Answers as _;

/// An entry of the slow log: number, time, microseconds, words, client, its name.
type Logged = (u64, u64, u64, Vec<Vec<u8>>, String, String);

#[tokio::test]
async fn no_key_is_ever_without_an_expiry_and_one_that_is_found_so_is_repaired() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    // A window of 2 s and one of the longest there is.
    for quota in [Quota::per_second(2).burst(4), Quota::every(Quota::MAX_INTERVAL).burst(120)] {
        let (log, bucket) = (redis.sliding_log("a", quota), redis.token_bucket("a", quota));
        everything_expires(&log, quota, &mut raw).await;
        everything_expires(&bucket, quota, &mut raw).await;
    }
}

async fn everything_expires(limiter: &impl RateLimiter<Error = RedisError>, quota: Quota, raw: &mut Raw) {
    let burst = quota.burst_size();
    // Every way in which something is written.
    let ways: [&[(&str, u64)]; 8] = [
        &[("decide", 1)],
        &[("decide", burst)],
        &[("decide", burst), ("decide", 1)],
        &[("charge", 1)],
        &[("charge", u64::MAX), ("charge", 1), ("decide", 1)],
        &[("decide", 2), ("refund", 1)],
        &[("decide", 1), ("decide", 2), ("refund", 1), ("decide", 1)],
        &[("charge", 2 * burst), ("refund", 1)],
    ];
    for way in ways {
        for persist in [false, true] {
            let _gone: String = raw.ask("FLUSHALL").await;
            for (index, (op, permits)) in way.iter().enumerate() {
                if persist && index + 1 == way.len() {
                    for (key, _) in raw.expiries().await {
                        assert_eq!(raw.ask::<u64>(&format!("PERSIST {key}")).await, 1);
                    }
                }
                let _decision = match *op {
                    "decide" => limiter.decided(b"k", *permits).await,
                    "charge" => limiter.charged(b"k", *permits).await,
                    _ => limiter.refunded(b"k", *permits).await,
                };
            }
            let expiries = raw.expiries().await;
            assert_eq!(expiries.len(), 1, "{way:?}");
            let longest = i64::try_from(2 * quota.refill_time().as_millis() + 3).unwrap();
            assert!((0..=longest).contains(&expiries[0].1), "{way:?}, {persist}: {expiries:?}");
        }
    }
    // What was used is gone by itself when it says nothing any more.
    if quota.refill_time() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(5) + 2 * quota.refill_time()).await;
        assert_eq!(raw.expiries().await, []);
    }
}

#[tokio::test]
async fn the_clock_of_a_client_is_of_no_account() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let (log, bucket) = (redis.sliding_log("a", Quota::per_hour(10)), redis.token_bucket("a", Quota::per_hour(10)));
    let _answers = (log.decided(b"k", 1).await, bucket.decided(b"k", 1).await);
    // No request carries a time of this process: every argument of a call is the same the next time.
    let _limit: String = raw.ask("CONFIG SET slowlog-log-slower-than 0").await;
    for _ in 0..2 {
        let _answers = (log.decided(b"k", 1).await, bucket.decided(b"k", 1).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let _limit: String = raw.ask("CONFIG SET slowlog-log-slower-than -1").await;
    let entries: Vec<Logged> = raw.ask("SLOWLOG GET 100").await;
    let mut calls: Vec<_> = entries.into_iter().map(|entry| entry.3).filter(|call| call[0] == b"EVALSHA").collect();
    calls.sort();
    assert_eq!(calls.len(), 4, "{calls:?}");
    assert_eq!((&calls[0], &calls[2]), (&calls[1], &calls[3]));
}
