//! Who is asked, how long callers wait, and how it switches, in virtual time.

use std::{sync::Arc, time::Duration};

use peerlimit::{
    Limiter, Quota, RateLimiter,
    stores::hybrid::{Hybrid, HybridBuilder, HybridSettingsError, State},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::scripted::{AWAY, Mode, Scripted, WELL, clock, pair};

const QUOTA: Quota = Quota::per_hour(100_000);
const TIMEOUT: Duration = Duration::from_millis(50);

fn builder() -> (Scripted, HybridBuilder<Scripted, Limiter>) {
    let clock = clock();
    let (store, local) = pair(QUOTA, &clock);
    (store.clone(), Hybrid::builder(store, local).clock(clock))
}

fn hybrid() -> (Scripted, Hybrid<Scripted, Limiter>) {
    let (store, builder) = builder();
    (store, builder.build().unwrap())
}

/// Asks until it is open.
async fn open(hybrid: &Hybrid<Scripted, Limiter>) {
    for _ in 0..5 {
        assert!(hybrid.decide(b"opens", 1).await.unwrap().allowed);
    }
    assert_eq!(hybrid.state(), State::Open);
}

#[tokio::test(start_paused = true)]
async fn the_primary_decides_while_it_is_well() {
    let (store, hybrid) = hybrid();
    for left in (0..10).rev() {
        let decision = hybrid.decide(b"user", 10_000).await.unwrap();
        assert_eq!((decision.allowed, decision.policy, decision.remaining), (true, "store", left * 10_000));
    }
    assert!(!hybrid.decide(b"user", 1).await.unwrap().allowed, "a refusal is no failure");
    assert_eq!((hybrid.state(), hybrid.policy().name, hybrid.stats().by_primary), (State::Closed, "store", 11));
    assert_eq!(store.asked().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn callers_see_no_error_of_a_store_while_there_is_a_fallback() {
    let (store, hybrid) = hybrid();
    store.set(AWAY);
    for _ in 0..1_000 {
        let decision = hybrid.decide(b"user", 1).await.unwrap();
        assert_eq!((decision.allowed, decision.policy), (true, ""));
        assert!(hybrid.peek(b"user", 1).await.unwrap().allowed);
        let _charged = hybrid.charge(b"user", 1).await.unwrap();
        let _refunded = hybrid.refund(b"user", 1).await.unwrap();
    }
    let stats = hybrid.stats();
    assert_eq!((stats.state, stats.openings, stats.by_primary, stats.unanswered), (State::Open, 1, 0, 0));
    assert_eq!((stats.primary_errors, stats.by_fallback), (5, 4_000));
    assert_eq!(hybrid.policy().name, "", "the fallback decides now");
}

/// A server that is stopped, or whose packets are dropped: nothing resets the connection.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_unreachable_without_a_reset_keeps_a_caller_no_longer_than_the_timeout_and_opens_it() {
    let (store, hybrid) = hybrid();
    store.set(Mode::Hangs);
    for call in 0..1_000 {
        let begin = Instant::now();
        assert!(hybrid.decide(b"user", 1).await.unwrap().allowed);
        let waited = begin.elapsed();
        // To a timer's millisecond. After the fifth nobody waits.
        let most = if call < 5 { TIMEOUT + Duration::from_millis(1) } else { Duration::ZERO };
        assert!(waited <= most, "call {call} waited {waited:?}");
    }
    let stats = hybrid.stats();
    assert_eq!((stats.state, stats.primary_timeouts, stats.openings), (State::Open, 5, 1));
    assert_eq!(store.asked().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn calls_under_way_at_once_open_it_at_once() {
    let (store, hybrid) = hybrid();
    store.set(Mode::Hangs);
    let begin = Instant::now();
    let mut calls = JoinSet::new();
    for _ in 0..500 {
        calls.spawn(hybrid.decide(b"user", 1));
    }
    while let Some(answer) = calls.join_next().await {
        assert!(answer.unwrap().unwrap().allowed);
    }
    assert!(begin.elapsed() <= TIMEOUT + Duration::from_millis(1));
    assert_eq!((hybrid.state(), hybrid.stats().openings), (State::Open, 1));
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_is_slow_but_in_time_is_waited_for() {
    let (store, hybrid) = hybrid();
    store.set(Mode::After(TIMEOUT - Duration::from_millis(5)));
    for _ in 0..20 {
        assert_eq!(hybrid.decide(b"user", 1).await.unwrap().policy, "store");
    }
    store.set(Mode::After(TIMEOUT * 2));
    assert_eq!(hybrid.decide(b"user", 1).await.unwrap().policy, "");
    assert_eq!(hybrid.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn it_is_back_within_its_cool_off_and_a_second_with_one_probe_at_a_time() {
    let (store, hybrid) = hybrid();
    store.set(Mode::Hangs);
    open(&hybrid).await;
    let began = Instant::now();
    let (load, end) = (hybrid.clone(), began + Duration::from_secs(60));
    store.most_under_way();
    let mut callers = JoinSet::new();
    for _ in 0..50 {
        let hybrid = load.clone();
        callers.spawn(async move {
            while Instant::now() < end && hybrid.state() != State::Closed {
                assert!(hybrid.decide(b"user", 0).await.unwrap().allowed);
                sleep(Duration::from_millis(3)).await;
            }
        });
    }
    sleep(Duration::from_millis(12_345)).await;
    assert_eq!(store.most_under_way(), 1, "one probe at a time while it hangs");
    let probes = hybrid.stats().probes;
    assert!((2..=3).contains(&probes), "{probes} probes in twelve seconds");
    store.set(WELL);
    let back = Instant::now();
    while hybrid.state() != State::Closed {
        assert!(back.elapsed() <= Duration::from_secs(6), "not back after {:?}", back.elapsed());
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(store.most_under_way(), 1, "one probe at a time while it comes back");
    callers.join_all().await;
    assert_eq!(hybrid.stats().openings, 1);
    assert_eq!(hybrid.decide(b"other", 1).await.unwrap().policy, "store");
}

#[tokio::test(start_paused = true)]
async fn a_hung_probe_keeps_its_own_caller_for_the_timeout_and_nobody_else() {
    let (store, hybrid) = hybrid();
    store.set(Mode::Hangs);
    open(&hybrid).await;
    sleep(Duration::from_secs(5)).await;
    let begin = Instant::now();
    let probe = tokio::spawn(hybrid.decide(b"user", 1));
    tokio::task::yield_now().await;
    assert_eq!(hybrid.state(), State::HalfOpen);
    for _ in 0..100 {
        assert!(hybrid.decide(b"user", 1).await.unwrap().allowed);
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!(probe.await.unwrap().unwrap().policy, "", "served by the fallback in the end");
    assert!(begin.elapsed() <= TIMEOUT + Duration::from_millis(1));
    assert_eq!(hybrid.state(), State::Open);
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_caller_is_dropped_does_not_wedge_it() {
    let (store, hybrid) = hybrid();
    store.set(Mode::Hangs);
    open(&hybrid).await;
    sleep(Duration::from_secs(5)).await;
    for _ in 0..10 {
        timeout(Duration::from_millis(5), hybrid.decide(b"user", 1)).await.unwrap_err();
        // Not even polled.
        drop(hybrid.decide(b"user", 1));
    }
    assert_eq!(hybrid.state(), State::HalfOpen);
    // One that is kept and never looked at again loses its turn.
    let forgotten = hybrid.decide(b"user", 1);
    store.set(WELL);
    sleep(TIMEOUT * 3).await;
    for _ in 0..3 {
        assert!(hybrid.decide(b"user", 1).await.unwrap().allowed);
    }
    assert_eq!(hybrid.state(), State::Closed);
    drop(forgotten);
    assert_eq!(hybrid.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_in_flight_costs_nothing() {
    let (store, hybrid) = hybrid();
    store.set(Mode::After(Duration::from_millis(20)));
    for _ in 0..100 {
        timeout(Duration::from_millis(5), hybrid.decide(b"user", 1)).await.unwrap_err();
    }
    assert_eq!(store.most_under_way(), 1);
    assert_eq!(store.limiter().peek("user").remaining, 100_000);
    assert_eq!(hybrid.fallback().peek("user").remaining, 100_000);
    let stats = hybrid.stats();
    assert_eq!((stats.state, stats.by_primary + stats.by_fallback, stats.owed_keys), (State::Closed, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn while_it_is_open_the_fallback_answers_without_a_future() {
    let (store, hybrid) = hybrid();
    assert!(hybrid.decide_now(b"user", 1).is_none(), "a store has to be waited for");
    store.set(AWAY);
    open(&hybrid).await;
    assert!(hybrid.decide_now(b"user", 1).unwrap().unwrap().allowed);
    assert_eq!(hybrid.fallback().peek("user").remaining, 99_999);
    sleep(Duration::from_secs(5)).await;
    let by_fallback = hybrid.stats().by_fallback;
    assert!(hybrid.decide_now(b"other", 1).is_none(), "somebody has to probe");
    assert_eq!((hybrid.stats().probes, hybrid.stats().by_fallback), (0, by_fallback));
    assert_eq!(hybrid.fallback().peek("other").remaining, 100_000, "and nothing was consumed");
}

/// Two limiters that answer at once need neither a runtime nor a future.
#[test]
fn limiters_that_answer_at_once_need_no_runtime() {
    let hybrid = Hybrid::new(Limiter::local(QUOTA), Limiter::local(QUOTA));
    assert_eq!(hybrid.decide_now(b"user", 3).unwrap().unwrap().remaining, 99_997);
    assert_eq!(hybrid.fallback().peek("user").remaining, 99_997);
}

#[tokio::test(start_paused = true)]
async fn a_hybrid_falls_back_to_a_hybrid() {
    let clock = clock();
    let (first, _) = pair(QUOTA, &clock);
    let (second, local) = pair(QUOTA, &clock);
    let inner = Hybrid::builder(second.clone(), local).clock(clock.clone()).build().unwrap();
    let hybrid = Hybrid::builder(first.clone(), inner).clock(clock).build().unwrap();
    assert!(hybrid.decide(b"user", 1).await.unwrap().allowed);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(second.limiter().peek("user").remaining, 99_999, "told in the background");
    first.set(AWAY);
    assert_eq!(hybrid.decide(b"user", 1).await.unwrap().remaining, 99_998);
    second.set(AWAY);
    let decision = hybrid.decide(b"user", 1).await.unwrap();
    assert_eq!((decision.policy, decision.remaining), ("", 99_997));
}

#[tokio::test]
async fn settings_out_of_range_are_named() {
    let builder = || Hybrid::builder(Limiter::local(QUOTA), Limiter::local(QUOTA));
    for (built, said) in [
        (builder().timeout(Duration::ZERO).build(), "timeout is 0ns, must be at least 1 ms and at most 1 h"),
        (builder().cool_off(Duration::MAX).build(), "cool_off is 18446744073709551615.999999999s"),
        (builder().failures(0).build(), "failures is 0, must be at least 1"),
        (builder().successes(0).build(), "successes is 0, must be at least 1"),
        (
            builder().max_cool_off(Duration::from_secs(4)).build(),
            "max_cool_off is 4s, must be at least the cool_off, 5s",
        ),
    ] {
        let error: HybridSettingsError = built.unwrap_err();
        assert!(error.to_string().starts_with(said), "{error}");
    }
    // A longer cool-off takes the bound along.
    assert!(builder().cool_off(Duration::from_secs(300)).build().is_ok());
}

/// Many threads, a primary that comes and goes, callers that give up: all of it ends, and nobody sees an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_on_many_threads_with_a_primary_that_comes_and_goes() {
    let quota = Quota::per_second(1_000_000);
    let store = Scripted::new(Limiter::local(quota));
    let hybrid = Hybrid::builder(store.clone(), Limiter::local(quota))
        .timeout(Duration::from_millis(2))
        .cool_off(Duration::from_millis(10))
        .max_cool_off(Duration::from_millis(20))
        .build()
        .unwrap();
    let mut callers = JoinSet::new();
    for caller in 0..64_u64 {
        let hybrid = hybrid.clone();
        callers.spawn(async move {
            for call in 0..200 {
                let key = (call % 7_u64).to_le_bytes();
                if (caller + call) % 5 == 0 {
                    let _dropped = timeout(Duration::from_micros(300), hybrid.decide(&key, 1)).await;
                } else {
                    assert!(hybrid.decide(&key, 1).await.unwrap().allowed);
                }
            }
        });
    }
    let modes = Arc::new([WELL, AWAY, Mode::Hangs, Mode::After(Duration::ZERO), Mode::Mute]);
    let switching = tokio::spawn(async move {
        for turn in 0.. {
            store.set(modes[turn % modes.len()]);
            sleep(Duration::from_millis(15)).await;
        }
    });
    callers.join_all().await;
    switching.abort();
    let stats = hybrid.stats();
    assert_eq!(stats.unanswered, 0);
    assert!(stats.openings > 0 && stats.by_primary > 0 && stats.by_fallback > 0, "{stats:?}");
}
