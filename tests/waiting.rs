//! Waiting for permits, in virtual time.
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use peerlimit::{Limiter, ManualClock, Quota, Scope, Wait, WaitError};
use tokio::task::{JoinSet, yield_now};

const SECOND: Duration = Duration::from_secs(1);

fn limiter(quota: Quota) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    // A bucket's time to be full is told from the start of time.
    clock.advance(SECOND);
    (Limiter::local_with_clock(quota, clock.clone()), clock)
}

/// Lets all tasks of this thread go as far as they can.
async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

#[tokio::test]
async fn who_waits_passes_at_the_stated_time_and_not_before() {
    let (limiter, clock) = limiter(Quota::per_second(1));
    assert!(limiter.allow("key"));
    let waits = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.until_ready("key").await }
    });
    settle().await;
    clock.advance(SECOND - Duration::from_nanos(1));
    settle().await;
    assert!(!waits.is_finished());
    clock.advance(Duration::from_nanos(1));
    waits.await.expect("it does not panic").expect("it passes");
    assert!(!limiter.allow("key"), "it was consumed");
}

#[tokio::test]
async fn those_who_wait_for_one_key_go_in_the_order_in_which_they_came() {
    let (limiter, clock) = limiter(Quota::per_second(1));
    assert!(limiter.allow("key"));
    let passed = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for number in 0..5 {
        let (limiter, passed) = (limiter.clone(), Arc::clone(&passed));
        waiters.spawn(async move {
            let decision = limiter.until_ready("key").await;
            passed.lock().expect("nobody panics with it").push(number);
            decision
        });
        settle().await;
    }
    for _ in 0..5 {
        clock.advance(SECOND);
        settle().await;
    }
    assert_eq!(*passed.lock().expect("nobody panics with it"), [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn a_large_cost_has_its_turn_and_does_not_starve() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(5));
    assert!(limiter.check_n("key", 5).allowed);
    let large = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.until_ready_n("key", 5, Wait::FOREVER).await }
    });
    settle().await;
    // A stream of small ones behind it.
    let mut small = JoinSet::new();
    for _ in 0..5 {
        clock.advance(SECOND);
        let limiter = limiter.clone();
        small.spawn(async move { limiter.until_ready("key").await });
        settle().await;
    }
    assert!(large.is_finished());
    assert!(small.try_join_next().is_none(), "a small one overtook it");
}

#[tokio::test]
async fn who_asks_for_too_much_is_told_at_once_and_blocks_nobody() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(5));
    assert!(limiter.check_n("key", 5).allowed);
    let waits = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.until_ready("key").await }
    });
    settle().await;
    let error = limiter.until_ready_n("key", 6, Wait::FOREVER).await.expect_err("more than the burst");
    assert_eq!(error, WaitError::Impossible { cost: 6, limit: 5 });
    assert_eq!(error.to_string(), "a cost of 6 never passes a limit of 5");
    clock.advance(SECOND);
    assert!(waits.await.expect("it does not panic").is_ok());
}

#[tokio::test]
async fn a_wait_that_would_take_too_long_ends_at_once_and_one_in_a_queue_at_its_time() {
    let (limiter, clock) = limiter(Quota::per_second(1));
    assert!(limiter.allow("key"));
    let error = limiter.until_ready_n("key", 1, SECOND / 2).await.expect_err("it takes a second");
    assert_eq!(error, WaitError::TooLong { most: SECOND / 2, retry_after: Some(SECOND) });

    let first = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.until_ready("key").await }
    });
    settle().await;
    let second = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.until_ready_n("key", 1, SECOND / 2).await }
    });
    settle().await;
    clock.advance(SECOND / 2);
    let error = second.await.expect("it does not panic").expect_err("another waits before it");
    assert_eq!(error, WaitError::TooLong { most: SECOND / 2, retry_after: None });
    clock.advance(SECOND / 2);
    assert!(first.await.expect("it does not panic").is_ok());
    clock.advance(SECOND);
    assert!(limiter.allow("key"), "who gave up has consumed nothing");
}

#[tokio::test]
async fn of_a_thousand_who_wait_and_999_who_leave_the_one_that_stays_waits_one_interval() {
    let (limiter, clock) = limiter(Quota::per_second(1));
    assert!(limiter.allow("key"));
    let mut leave = JoinSet::new();
    for _ in 0..999 {
        let limiter = limiter.clone();
        leave.spawn(async move { limiter.until_ready("key").await });
    }
    settle().await;
    let stays = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.until_ready("key").await }
    });
    settle().await;
    leave.shutdown().await;
    clock.advance(SECOND);
    assert!(stays.await.expect("it does not panic").is_ok());
}

#[tokio::test]
async fn jitter_wakes_later_by_chance_and_never_earlier() {
    let (limiter, clock) = limiter(Quota::per_second(1));
    let mut woke_late = 0;
    for key in 0..50_u32 {
        let key = key.to_le_bytes();
        assert!(limiter.allow(key));
        let waits = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.until_ready_n(key, 1, Wait::FOREVER.jitter(SECOND)).await }
        });
        settle().await;
        clock.advance(SECOND - Duration::from_nanos(1));
        settle().await;
        assert!(!waits.is_finished(), "too early");
        clock.advance(SECOND / 2);
        settle().await;
        woke_late += u32::from(!waits.is_finished());
        clock.advance(SECOND);
        assert!(waits.await.expect("it does not panic").is_ok(), "too late");
    }
    assert!((5..=45).contains(&woke_late), "{woke_late} of 50 in the second half");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_tasks_at_cost_ten_never_pass_more_than_the_burst_and_the_rate() {
    let (limiter, clock) = limiter(Quota::per_second(100).burst(50));
    let (passed, tries) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let (limiter, passed) = (limiter.clone(), Arc::clone(&passed));
        let (tries, done) = (Arc::clone(&tries), Arc::clone(&done));
        tasks.spawn(async move {
            while !done.load(Relaxed) {
                // Half of them wait, half of them try.
                let allowed = if task % 2 == 0 {
                    limiter.until_ready_n("key", 10, SECOND).await.is_ok()
                } else {
                    limiter.check_n("key", 10).allowed
                };
                passed.fetch_add(if allowed { 10 } else { 0 }, Relaxed);
                tries.fetch_add(1, Relaxed);
                yield_now().await;
            }
        });
    }
    // Three minutes.
    for step in 1..=6_000_u64 {
        clock.advance(Duration::from_millis(30));
        let before = tries.load(Relaxed);
        while tries.load(Relaxed) < before + 16 {
            yield_now().await;
        }
        let most = 50 + 3 * step;
        assert!(passed.load(Relaxed) <= most, "{} of {most} after {step} steps", passed.load(Relaxed));
    }
    done.store(true, Relaxed);
    clock.advance(2 * SECOND);
    while tasks.join_next().await.is_some() {
        clock.advance(SECOND);
    }
    assert!(passed.load(Relaxed) >= 17_900, "{} passed in three minutes", passed.load(Relaxed));
}

#[tokio::test]
async fn who_waits_for_days_passes_within_a_second_once_permits_are_there() {
    let (limiter, clock) = limiter(Quota::per_day(1));
    let scope = limiter.scope("scope", Quota::per_day(1));
    let raise = |scope: &Scope| scope.set_quota(Quota::per_second(100));
    let reset = |scope: &Scope| scope.reset("key");
    for (what, help) in [("a raised quota", &raise as &dyn Fn(&Scope)), ("a reset", &reset)] {
        scope.set_quota(Quota::per_day(1));
        scope.reset("key");
        scope.until_ready("key").await.expect("a full bucket");
        let waiting = scope.clone();
        let waiter = tokio::spawn(async move { waiting.until_ready("key").await });
        for _ in 0..20 {
            clock.advance(SECOND);
            yield_now().await;
        }
        assert!(!waiter.is_finished(), "{what}");
        help(&scope);
        clock.advance(SECOND);
        for _ in 0..20 {
            yield_now().await;
        }
        assert!(waiter.is_finished(), "{what}");
        waiter.await.expect("no panic").expect("it passes");
    }
}
