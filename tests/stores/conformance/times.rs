//! Laws of time. Where time is real, what was too early or too late for an assertion is tried again.

use std::time::Duration;

use peerlimit::{Decision, Quota};

use super::{Answers, Case, Return};

/// How often a host may be too slow.
const TRIES: u32 = 20;
const BRIEF: Duration = Duration::from_millis(1);

/// The answer to `ask` a little earlier than `wait` after `begin`; none if it came later than that.
async fn before<C: Case, T>(case: &C, begin: Duration, wait: Duration, ask: impl AsyncFn() -> T) -> Option<T> {
    // The nearer the better, but real time passes while the question is on its way.
    let most = wait.saturating_sub(Duration::from_millis(10)).max(wait / 2);
    let left = (begin + most).saturating_sub(case.elapsed());
    case.pass(left).await;
    let answer = ask().await;
    (case.elapsed() < begin + wait).then_some(answer)
}

/// How long it is as a limiter says for the next `wait`. For a window that is so more often than not, and tried again.
fn shortest<C: Case>(wait: Duration) -> Duration {
    // A window ends up to a second early and is said to end a little late. A server that is late to look at its clock may
    // miss one of its seconds, and ends it earlier still.
    let early = C::RETURN.slack() + C::RETURN.slack() / 10;
    wait.saturating_sub(early)
}

/// Waits until `at`.
async fn until<C: Case>(case: &C, at: Duration) {
    case.pass(at.saturating_sub(case.elapsed())).await;
}

/// What a refusal says of time is true: before it the same is refused, after it passes.
async fn refusal_is_true<C: Case>(case: &C, name: &str, quota: Quota, spend: &[u64], cost: u64) {
    let quota = case.quota(quota);
    let limiter = case.limiter(name, quota).await;
    for attempt in 0..TRIES {
        let key = format!("k{attempt}");
        let key = key.as_bytes();
        for &cost in spend {
            assert!(limiter.decided(key, cost).await.allowed);
            // So that they leave one after the other.
            case.pass(BRIEF).await;
        }
        let begin = case.elapsed();
        let refused: Decision = limiter.decided(key, cost).await;
        let answered = case.elapsed();
        let Some(wait) = refused.retry_after else {
            // Time ran away while it was spent.
            assert!(refused.allowed, "{refused:?}");
            continue;
        };
        assert!(wait <= quota.refill_time() + C::RETURN.slack() && !wait.is_zero(), "{wait:?}");
        let ask = || limiter.decided(key, cost);
        let Some(early) = before(case, begin, shortest::<C>(wait), ask).await else { continue };
        if early.allowed && C::RETURN == Return::AtItsEnd {
            continue;
        }
        assert!(!early.allowed, "passed before {wait:?}");
        until(case, answered + wait).await;
        let late = limiter.decided(key, cost).await;
        assert!(late.allowed, "refused after {wait:?}: {late:?}");
        return;
    }
    panic!("the host was too slow {TRIES} times");
}

pub async fn a_refusal_ends_when_it_says(case: &impl Case) {
    tokio::join!(
        // One permit takes 50 ms, and a window 200 ms.
        refusal_is_true(case, "a", Quota::per_second(20).burst(4), &[1, 1, 1, 1], 1),
        // A third of a second, and one permit.
        refusal_is_true(case, "b", Quota::per_second(3).burst(1), &[1], 1),
    );
}

pub async fn a_refusal_of_several_permits_ends_when_it_says(case: &impl Case) {
    let quota = Quota::per_second(40).burst(8);
    tokio::join!(
        refusal_is_true(case, "a", quota, &[1, 2, 1, 3, 1], 3),
        refusal_is_true(case, "b", quota, &[1, 1, 1, 1, 1, 1, 1, 1], 5),
        refusal_is_true(case, "c", quota, &[5], 8),
    );
}

pub async fn a_debt_ends_when_it_says<C: Case>(case: &C) {
    let quota = case.quota(Quota::per_second(20).burst(4));
    let limiter = case.limiter("a", quota).await;
    for attempt in 0..TRIES {
        let key = format!("k{attempt}");
        let key = key.as_bytes();
        let begin = case.elapsed();
        let charged = limiter.charged(key, 6).await;
        let answered = case.elapsed();
        assert!(!charged.allowed);
        let wait = charged.retry_after.unwrap();
        let ask = || limiter.decided(key, 0);
        let Some(early) = before(case, begin, shortest::<C>(wait), ask).await else { continue };
        if early.allowed && C::RETURN == Return::AtItsEnd {
            continue;
        }
        assert!(!early.allowed);
        until(case, answered + wait).await;
        assert!(limiter.decided(key, 0).await.allowed);
        return;
    }
    panic!("the host was too slow {TRIES} times");
}

pub async fn a_reset_is_when_it_says<C: Case>(case: &C) {
    let quota = case.quota(Quota::per_second(20).burst(4));
    let limiter = case.limiter("a", quota).await;
    for attempt in 0..TRIES {
        let key = format!("k{attempt}");
        let key = key.as_bytes();
        assert!(limiter.decided(key, 1).await.allowed);
        let begin = case.elapsed();
        let reset = limiter.decided(key, 2).await.reset_after;
        let answered = case.elapsed();
        assert!(reset <= quota.refill_time() + C::RETURN.slack() && !reset.is_zero(), "{reset:?}");
        let ask = || limiter.peeked(key, 0);
        let Some(early) = before(case, begin, shortest::<C>(reset), ask).await else { continue };
        if early.remaining == 4 && C::RETURN == Return::AtItsEnd {
            continue;
        }
        assert!(early.remaining < 4, "{early:?}");
        until(case, answered + reset).await;
        let late = limiter.peeked(key, 0).await;
        assert_eq!((late.remaining, late.reset_after), (4, Duration::ZERO));
        // And so on each further request: it is full, and no fuller.
        assert_eq!(limiter.passes(key).await.min(5), 4);
        return;
    }
    panic!("the host was too slow {TRIES} times");
}

pub async fn permits_come_back_as_the_quota_says<C: Case>(case: &C) {
    // A permit takes 20 ms, and a window 100 ms or, where it cannot, 2 s.
    let quota = case.quota(Quota::per_second(50).burst(5));
    let time = match C::RETURN {
        Return::Steadily | Return::AsTheyLeft => Duration::from_millis(500),
        Return::AtItsEnd => Duration::from_secs(3),
    };
    let limiter = case.limiter("a", quota).await;
    let begin = case.elapsed();
    let mut passed = 0_u32;
    while case.elapsed() < begin + time {
        passed += u32::from(limiter.decided(b"k", 1).await.allowed);
        case.pass(BRIEF).await;
    }
    let took = case.elapsed() - begin;
    let most = match C::RETURN {
        Return::Steadily => 5.0 + took.as_secs_f64() * 50.0,
        Return::AsTheyLeft => ((took.as_secs_f64() / 0.1).floor() + 1.0) * 5.0,
        // A second early at its end, and one in which the server was late to look at its clock: but once, not each time.
        Return::AtItsEnd => ((took.as_secs_f64() + 2.0) / quota.period().as_secs_f64() + 1.0).floor() * 5.0,
    };
    assert!(f64::from(passed) <= most, "{passed} in {took:?}");
    // Where requests come all the time, what comes back is used; a slow host asks seldom.
    assert!(f64::from(passed) >= most * 0.5, "{passed} in {took:?}");
}
