//! Down with nothing to fall back to: callers can tell that nobody decided.

use std::{convert::Infallible, error::Error as _, time::Duration};

use peerlimit::{
    Decision, Limiter, Quota, RateLimiter,
    stores::hybrid::{Failure, Hybrid, HybridError, NoFallback, NoFallbackError, State, WhenBothFail},
};
use tokio::time::Instant;

use super::scripted::{AWAY, Mode, Scripted, StoreAway, WELL, clock, pair};

const QUOTA: Quota = Quota::per_hour(10);

fn alone(when: WhenBothFail) -> (Scripted, Hybrid<Scripted, NoFallback>) {
    let clock = clock();
    let (store, _) = pair(QUOTA, &clock);
    let none = NoFallback::of(&store);
    (store.clone(), Hybrid::builder(store, none).clock(clock).when_both_fail(when).build().unwrap())
}

#[tokio::test(start_paused = true)]
async fn down_without_a_fallback_is_a_typed_error() {
    let (store, hybrid) = alone(WhenBothFail::Error);
    assert!(hybrid.decide(b"user", 1).await.unwrap().allowed);
    assert_eq!(hybrid.stats().fallback_errors, 0, "what is not there is not kept warm");
    store.set(AWAY);
    let error = hybrid.decide(b"user", 1).await.unwrap_err();
    let (primary, fallback) = (Failure::Error(StoreAway), Failure::Error(NoFallbackError));
    assert_eq!(error, HybridError::Both { primary, fallback });
    assert_eq!(error.to_string(), "the primary failed: the store is away; the fallback failed: there is no fallback");
    assert_eq!(error.source().unwrap().to_string(), "the store is away");
    store.set(Mode::Hangs);
    let timeout = Duration::from_millis(50);
    let error = hybrid.decide(b"user", 1).await.unwrap_err();
    assert_eq!(
        error,
        HybridError::Both { primary: Failure::TimedOut(timeout), fallback: Failure::Error(NoFallbackError) }
    );
}

#[tokio::test(start_paused = true)]
async fn down_without_a_fallback_nobody_waits_once_it_is_known() {
    let (store, hybrid) = alone(WhenBothFail::Error);
    store.set(Mode::Hangs);
    while hybrid.state() != State::Open {
        hybrid.decide(b"user", 1).await.unwrap_err();
    }
    let begin = Instant::now();
    for _ in 0..100 {
        let error = hybrid.decide(b"user", 1).await.unwrap_err();
        assert_eq!(error, HybridError::Fallback { fallback: Failure::Error(NoFallbackError) });
        assert!(hybrid.decide_now(b"user", 1).unwrap().is_err());
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
    store.set(WELL);
    tokio::time::sleep(Duration::from_secs(5)).await;
    for _ in 0..3 {
        assert!(hybrid.decide(b"user", 1).await.unwrap().allowed);
    }
    assert_eq!(hybrid.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn down_without_a_fallback_it_is_open_or_closed_as_told() {
    let (store, open) = alone(WhenBothFail::Open);
    store.set(AWAY);
    for _ in 0..100 {
        let Decision { allowed, policy, limit, remaining, .. } = open.decide(b"user", 1).await.unwrap();
        assert_eq!((allowed, policy, limit, remaining), (true, "store", 10, 10));
    }
    let (store, closed) = alone(WhenBothFail::Closed);
    store.set(AWAY);
    for call in 0..100 {
        let refused = closed.decide(b"user", 1).await.unwrap();
        let wait = refused.retry_after.unwrap();
        assert_eq!((refused.allowed, refused.remaining), (false, 0));
        assert!(
            wait >= Duration::from_secs(if call < 4 { 1 } else { 4 }) && wait <= Duration::from_secs(5),
            "{wait:?}"
        );
    }
    assert_eq!(closed.stats().unanswered, 100);
}

/// Both fail, and both are servers.
#[tokio::test(start_paused = true)]
async fn a_fallback_that_hangs_is_not_waited_for_either() {
    let clock = clock();
    let ((first, _), (second, _)) = (pair(QUOTA, &clock), pair(QUOTA, &clock));
    let hybrid = Hybrid::builder(first.clone(), second.clone()).clock(clock).build().unwrap();
    first.set(Mode::Hangs);
    second.set(Mode::Hangs);
    let begin = Instant::now();
    let error = hybrid.decide(b"user", 1).await.unwrap_err();
    assert!(begin.elapsed() <= Duration::from_millis(102), "{:?}", begin.elapsed());
    let timed_out = Failure::TimedOut(Duration::from_millis(50));
    assert_eq!(error, HybridError::Both { primary: timed_out, fallback: Failure::TimedOut(Duration::from_millis(50)) });
    assert_eq!(hybrid.stats().fallback_timeouts, 1);
}

/// A limiter as the fallback cannot fail, and its errors have no values.
#[tokio::test(start_paused = true)]
async fn the_error_with_a_limiter_as_the_fallback_names_one_that_cannot_be() {
    fn error_of<P: RateLimiter<Error = StoreAway> + Send + Sync + 'static>(
        hybrid: &Hybrid<P, Limiter>,
    ) -> Option<HybridError<StoreAway, Infallible>> {
        hybrid.decide_now(b"user", 1).and_then(Result::err)
    }
    let clock = clock();
    let (store, local) = pair(QUOTA, &clock);
    assert_eq!(error_of(&Hybrid::new(store, local)), None);
}
