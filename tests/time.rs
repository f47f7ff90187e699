//! Time through the public interface: years of idleness, clocks at their end, settings that never come to pass.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use peerlimit::{Builder, Limiter, ManualClock, Quota, StartError, StaticDiscoverer};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn admitted(limiter: &Limiter, key: &str, cost: u64, calls: usize) -> u64 {
    (0..calls).filter(|_| limiter.check_n(key, cost).allowed).count() as u64 * cost
}

#[test]
fn after_hours_and_years_of_idleness_there_is_one_burst_and_no_more() {
    let quotas = [
        Quota::per_second(1).burst(10),
        Quota::per_second(1_000_000).burst(Quota::MAX_BURST),
        Quota::per_minute(61_000),
        Quota::every(Quota::MAX_INTERVAL).burst(121),
    ];
    for quota in quotas {
        let clock = ManualClock::new();
        let limiter = Limiter::local_with_clock(quota, clock.clone());
        let burst = quota.burst_size();
        assert!(limiter.check_n("user", burst).allowed, "{quota:?}");
        // All in one life: 12 hours, 30 days, and then what makes it ten years.
        for idle in [DAY / 2, 30 * DAY, 3_619 * DAY] {
            clock.advance(idle);
            let back = if idle >= quota.refill_time() { burst } else { limiter.peek("user").remaining };
            assert_eq!(limiter.peek("user").remaining, back, "{quota:?} after {idle:?}");
            assert!(back <= burst);
            if back > 0 {
                assert!(limiter.check_n("user", back).allowed, "{quota:?} after {idle:?}");
            }
            assert!(!limiter.allow("user"), "{quota:?} after {idle:?}");
            assert!(limiter.check_n("user", burst + 1).is_impossible());
        }
    }
}

#[test]
fn credit_for_an_idle_spell_is_granted_once_and_not_at_each_call() {
    let clock = ManualClock::new();
    let limiter = Limiter::local_with_clock(Quota::per_second(1).burst(10), clock.clone());
    assert_eq!(admitted(&limiter, "user", 1, 20), 10);
    for spell in [30, 3_600, 1_000_000] {
        clock.advance(Duration::from_secs(spell));
        let mut passed = 0;
        for _ in 0..1_000 {
            passed += admitted(&limiter, "user", 1, 1);
            clock.advance(Duration::from_millis(1));
        }
        assert!((10..=11).contains(&passed), "{passed} passed within a second after {spell} s");
        // What is left of the second has not been saved up.
        assert!(limiter.peek("user").remaining <= 1);
    }
}

#[test]
fn a_stated_wait_is_the_time_after_which_the_call_passes() {
    for rate in [1, 3, 7, 999, 1_001] {
        let clock = ManualClock::new();
        let limiter = Limiter::local_with_clock(Quota::per_second(rate).burst(1), clock.clone());
        let interval = Duration::from_secs(1).div_f64(rate as f64);
        for _ in 0..100 {
            assert!(limiter.allow("user"));
            clock.advance(interval / 5);
            let wait = limiter.check("user").retry_after.expect("refused, and not for ever");
            assert!(wait <= interval * 4 / 5 + Duration::from_nanos(2), "{rate} per second: {wait:?}");
            clock.advance(wait - Duration::from_nanos(1));
            assert_eq!(limiter.check("user").retry_after, Some(Duration::from_nanos(1)), "{rate} per second");
            clock.advance(Duration::from_nanos(1));
        }
    }
}

#[test]
fn a_clock_at_the_end_of_time_stands_still_and_nothing_panics() {
    let clock = ManualClock::new();
    let limiter = Limiter::local_with_clock(Quota::per_second(10), clock.clone());
    for by in [100 * 365 * DAY, Duration::MAX, Duration::MAX, Duration::from_nanos(1)] {
        clock.advance(by);
        for cost in [0, 1, 10, 11, u64::MAX] {
            let decision = limiter.check_n("user", cost);
            assert!(decision.remaining <= 10 && decision.allowed == (cost <= 10), "{cost} after {by:?}: {decision:?}");
        }
    }
}

/// A builder that would start but for what `set` does.
fn builder(set: impl FnOnce(Builder) -> Builder) -> Builder {
    set(Limiter::builder(Quota::per_second(10)).node("a").bind("127.0.0.1:0".parse().unwrap()))
}

#[tokio::test]
async fn every_time_without_end_or_length_is_refused_by_its_name() {
    type Set = fn(Builder, Duration) -> Builder;
    let settings: [(&str, Set); 8] = [
        ("discover_interval", Builder::discover_interval),
        ("sync_interval", Builder::sync_interval),
        ("push_gap", Builder::push_gap),
        ("anti_entropy_interval", Builder::anti_entropy_interval),
        ("probe_interval", Builder::probe_interval),
        ("suspicion_timeout", Builder::suspicion_timeout),
        ("evict_idle key_ttl", |builder, time| builder.evict_idle(time, Duration::from_secs(1))),
        ("evict_idle sweep_interval", |builder, time| builder.evict_idle(Duration::from_secs(1), time)),
    ];
    for (name, set) in settings {
        for time in [Duration::MAX, Duration::from_secs(u64::MAX / 2), Duration::ZERO, Duration::from_nanos(1)] {
            let error = builder(|builder| set(builder, time)).start().await.expect_err(name);
            let StartError::Duration { field, value, least, most } = error else { panic_on(name, &error) };
            assert_eq!((field, value), (name, time));
            // The bounds that it names are good, and what is beyond them is not.
            for good in [least, most] {
                let limiter = builder(|builder| set(builder, good)).start().await.unwrap();
                assert!(limiter.allow("user"), "{name} of {good:?}");
                limiter.close().await;
            }
            let tick = Duration::from_nanos(1);
            for bad in [least - tick, most + tick] {
                assert!(builder(|builder| set(builder, bad)).start().await.is_err(), "{name} of {bad:?}");
            }
        }
    }
    for period in [Duration::MAX, Duration::from_secs(u64::MAX)] {
        assert!(Quota::new(1, period).is_err() && Quota::new(u64::MAX, period).is_err(), "{period:?}");
    }
}

#[track_caller]
fn panic_on(name: &str, error: &StartError) -> ! {
    unreachable!("{name} is refused by {error}")
}

#[tokio::test]
async fn nodes_at_the_longest_times_share_a_limit_and_their_tasks_go_on() {
    let longest = |builder: Builder| {
        builder
            .discover_interval(DAY)
            .sync_interval(Duration::from_secs(60))
            .push_gap(Duration::from_secs(10))
            .anti_entropy_interval(Duration::from_secs(60))
            .probe_interval(Duration::from_secs(60))
            .suspicion_timeout(Duration::from_secs(600))
            .evict_idle(365 * DAY, DAY)
    };
    let first = builder(longest).start().await.unwrap();
    let seed = StaticDiscoverer::new([first.local_addr().unwrap().to_string()]);
    let second = builder(longest).discover(seed).start().await.unwrap();
    let scopes = [&first, &second].map(|node| node.scope("slow", Quota::per_day(10)));
    second.ready().await;
    let all_see_all = async {
        while first.members().len() < 2 || second.members().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Urgent, so it waits for none of these times.
        assert!(scopes[0].check_n("user", 10).allowed);
        while scopes[1].peek("user").remaining > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all_see_all).await.expect("they share one limit");
    assert!(!scopes[1].allow("user"));
    second.close().await;
    first.close().await;
}
