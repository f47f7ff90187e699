//! The token bucket.

use std::time::Duration;

use peerlimit::{Limiter, ManualClock, Quota, RateLimiter as _};

use super::support::{self, Raw};
use crate::conformance::Answers as _;

const KEY: &str = "peerlimit:{=k}:bucket:=a";

#[tokio::test]
async fn a_key_is_one_short_string_however_often_it_is_asked_for() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let bucket = redis.token_bucket("a", Quota::per_second(1_000_000).burst(Quota::MAX_BURST));
    for _ in 0..1_000 {
        assert!(bucket.decided(b"k", 1_000_000).await.allowed);
    }
    let bytes: u64 = raw.ask(&format!("MEMORY USAGE {KEY}")).await;
    assert!(bytes <= 160, "{bytes}");
    assert_eq!(raw.ask::<u64>("DBSIZE").await, 1);
}

#[tokio::test]
async fn no_rate_is_rounded() {
    let Some(server) = support::start() else { return };
    let redis = support::patient(&server);
    let rates = [
        Quota::per_second(700_000),
        Quota::per_second(999_999).burst(7),
        Quota::per_minute(61_000),
        Quota::per_hour(7),
        Quota::every(Quota::MAX_INTERVAL).burst(120),
        Quota::per_second(1_000_000).burst(Quota::MAX_BURST),
    ];
    for (index, quota) in rates.into_iter().enumerate() {
        let bucket = redis.token_bucket(&format!("n{index}"), quota);
        let burst = quota.burst_size();
        // A local limiter whose clock stands still is the measure. Fresh keys are asked, so no time passes between the
        // question and what it is about: the answers are the same to the nanosecond.
        let local = Limiter::local_with_clock(quota, ManualClock::new());
        for (case, permits) in [1, 2, 3, 7, burst / 3, burst - 1, burst].into_iter().enumerate() {
            let key = format!("{case}");
            let (ours, theirs) =
                (bucket.decided(key.as_bytes(), permits).await, local.decided(key.as_bytes(), permits).await);
            assert_eq!(ours.by(""), theirs, "{permits} of {quota:?}");
            let key = format!("charged {case}");
            let (ours, theirs) =
                (bucket.charged(key.as_bytes(), permits).await, local.charged(key.as_bytes(), permits).await);
            assert_eq!(ours.by(""), theirs, "{permits} of {quota:?}");
        }
        assert_eq!(bucket.charged(b"k", u64::MAX).await.by(""), local.charged(b"k", u64::MAX).await, "{quota:?}");
        // All of it comes back, and not one permit more.
        let refunded = bucket.refunded(b"k", 2 * burst).await;
        assert_eq!((refunded.remaining, refunded.reset_after), (burst, Duration::ZERO));
    }
}

#[tokio::test]
async fn it_decides_as_a_local_limiter_does_at_the_same_time() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    // Seeded, so that a failure can be repeated; a permit takes hours, so real time does not matter.
    let seed: u64 = 0x7e57_0001;
    println!("seed {seed:#x}");
    let mut state = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let quota = Quota::every(Duration::from_secs(36_000)).burst(20);
    let bucket = redis.token_bucket("a", quota);
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000_000_000));
    let local = Limiter::local_with_clock(quota, clock.clone());
    for step in 0..600 {
        let permits = random(25);
        let (ours, theirs) = match random(6) {
            0 => (bucket.charged(b"k", permits).await, local.charged(b"k", permits).await),
            1 => (bucket.refunded(b"k", permits).await, local.refunded(b"k", permits).await),
            2 => (bucket.peeked(b"k", permits).await, local.peeked(b"k", permits).await),
            3 => {
                // Time passes: for the bucket by moving it back.
                let micros = random(400_000) * 1_000_000;
                clock.advance(Duration::from_micros(micros));
                if let Some(value) = raw.ask::<Option<Vec<u8>>>(&format!("GET {KEY}")).await {
                    // A permit takes whole microseconds, so there are no ticks.
                    let at = f64::from_be_bytes(value.try_into().unwrap()) - micros as f64;
                    raw.set(KEY, &at.to_be_bytes(), "KEEPTTL").await;
                }
                continue;
            }
            _ => (bucket.decided(b"k", permits).await, local.decided(b"k", permits).await),
        };
        let what = |decision: peerlimit::Decision| (decision.allowed, decision.limit, decision.remaining);
        assert_eq!(what(ours), what(theirs), "step {step}, {permits} permits\n{ours:?}\n{theirs:?}");
        let times = [(ours.retry_after, theirs.retry_after), (Some(ours.reset_after), Some(theirs.reset_after))];
        for (ours, theirs) in times {
            assert_eq!(ours.is_some(), theirs.is_some(), "step {step}");
            let (ours, theirs) = (ours.unwrap_or_default(), theirs.unwrap_or_default());
            assert!(ours <= theirs && theirs - ours < Duration::from_secs(60), "step {step}: {ours:?}, {theirs:?}");
        }
    }
}

#[tokio::test]
async fn a_clock_of_the_server_that_goes_back_costs_two_bursts_at_most() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let quota = Quota::per_second(10);
    let bucket = redis.token_bucket("a", quota);
    let now: (u64, u64) = raw.ask("TIME").await;
    let at = ((now.0 + 86_400) * 1_000_000) as f64;
    // With the ticks of the next microsecond, and without.
    for ticks in [&15_999_u16.to_be_bytes()[..], &[]] {
        raw.set(KEY, &[&at.to_be_bytes(), ticks].concat(), "KEEPTTL").await;
        let refused = bucket.decided(b"k", 1).await;
        assert_eq!(refused.retry_after, Some(Duration::from_millis(1_100)));
        assert_eq!(refused.reset_after, 2 * quota.refill_time());
    }
}

#[tokio::test]
async fn what_is_no_bucket_is_an_error_that_says_so() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let bucket = redis.token_bucket("a", Quota::per_second(10));
    for (spoil, says) in
        [("SET {} hello", "no token bucket"), ("LPUSH {} x", "WRONGTYPE"), ("SETRANGE {} 8 x", "no token bucket")]
    {
        let _gone: u64 = raw.ask(&format!("DEL {KEY}")).await;
        let _done: ::redis::Value = raw.ask(&spoil.replace("{}", KEY)).await;
        let error = bucket.decide(b"k", 1).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        bucket.reset(b"k").await.unwrap();
        assert!(bucket.decided(b"k", 1).await.allowed);
    }
    // What has the length of one is taken for one, and no number in it does harm.
    for number in [f64::NAN, -f64::NAN, f64::NEG_INFINITY, f64::INFINITY, f64::MAX, f64::MIN, -0.0] {
        for ticks in [&[0xff, 0xff][..], &[]] {
            raw.set(KEY, &[&number.to_be_bytes(), ticks].concat(), "KEEPTTL").await;
            let decision = bucket.decided(b"k", 1).await;
            assert!(
                decision.remaining <= 9 && decision.reset_after <= Duration::from_secs(2),
                "{number}: {decision:?}"
            );
        }
    }
}
