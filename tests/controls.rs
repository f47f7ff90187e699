//! What an operator may set aside, and what a quota does that changes in use.
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use peerlimit::{Limiter, ManualClock, Quota, Scope, WaitError};

const QUOTA: Quota = Quota::per_minute(60).burst(10);

fn scope() -> (Limiter, Scope, ManualClock) {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1));
    let limiter = Limiter::local_with_clock(QUOTA, clock.clone());
    let scope = limiter.scope("login", QUOTA);
    (limiter, scope, clock)
}

#[test]
fn a_scope_that_only_watches_lets_everything_pass_and_says_what_it_would_have_refused() {
    let (_limiter, scope, clock) = scope();
    scope.set_shadow(true);
    assert!(scope.is_shadow());
    let decisions: Vec<_> = (0..15).map(|_| scope.check("user")).collect();
    assert!(decisions.iter().all(|decision| decision.allowed));
    assert_eq!(decisions.iter().filter(|decision| decision.shadowed).count(), 5);
    assert_eq!(decisions[14].retry_after, Some(Duration::from_secs(1)));
    // What it would have refused has consumed nothing.
    clock.advance(Duration::from_secs(1));
    assert!(!scope.check("user").shadowed);
    scope.set_shadow(false);
    assert!(!scope.check("user").allowed);
}

#[test]
fn an_exempt_key_passes_whatever_it_costs_and_consumes_nothing() {
    let (limiter, scope, _clock) = scope();
    scope.exempt("probe");
    for _ in 0..100 {
        let decision = scope.check_n("probe", 1_000);
        assert!(decision.allowed && decision.exempt);
        assert_eq!((decision.policy, decision.remaining), ("login", 10));
    }
    scope.charge("probe", 5);
    assert_eq!(scope.check_many(&["probe", "user"]).iter().filter(|decision| decision.exempt).count(), 1);
    assert!(limiter.check("probe").allowed && !limiter.check("probe").exempt, "another scope has its own");
    scope.release("probe");
    assert_eq!(scope.check("probe").remaining, 9);
}

#[tokio::test]
async fn a_blocked_key_is_refused_for_good_until_it_is_released() {
    let (_limiter, scope, clock) = scope();
    scope.block("abuser");
    let decision = scope.check("abuser");
    assert!(decision.is_impossible());
    assert_eq!((decision.limit, decision.remaining), (10, 0));
    assert!(!scope.peek("abuser").allowed);
    let error = scope.until_ready("abuser").await.expect_err("a blocked key");
    assert!(matches!(error, WaitError::Impossible { .. }));
    assert!(scope.allow("user"));
    clock.advance(Duration::from_secs(3600));
    assert!(!scope.allow("abuser"));
    scope.release("abuser");
    assert_eq!(scope.check("abuser").remaining, 9);
}

#[test]
fn a_reset_fills_a_bucket_that_is_in_debt() {
    let (_limiter, scope, _clock) = scope();
    scope.charge("user", 18);
    assert!(!scope.peek_n("user", 0).allowed);
    scope.reset("user");
    assert_eq!(scope.peek("user").remaining, 10);
    assert!(scope.check_n("user", 10).allowed);
    assert!(!scope.allow("user"));
}

#[test]
fn of_several_limits_what_is_exempt_is_left_out_what_is_blocked_refuses_and_what_watches_refuses_nobody() {
    let (limiter, login, _clock) = scope();
    let trial = limiter.scope("trial", Quota::per_minute(1));
    trial.set_shadow(true);
    let all = |key| limiter.check_all(&[(limiter.default_scope(), key), (&login, key), (&trial, key)]);
    assert!(all("user").allowed);
    let watched = all("user");
    assert!(watched.allowed && watched.shadowed);
    assert_eq!(watched.policy, "trial");
    login.block("user");
    assert_eq!((all("user").allowed, all("user").policy), (false, "login"));
    assert_eq!(limiter.peek("user").remaining, 8, "nothing is charged where one refuses");
    login.exempt("user");
    login.charge("user", 10);
    assert!(all("user").allowed);
    assert_eq!(limiter.peek("user").remaining, 7);
    // Where everything is exempt, that is the answer.
    assert!(limiter.check_all(&[(&login, "user")]).exempt);
}

#[test]
fn a_quota_that_is_raised_lowered_blocked_and_restored_keeps_what_was_used() {
    let (_limiter, scope, clock) = scope();
    assert!(scope.check_n("user", 6).allowed);
    scope.set_quota(Quota::per_minute(60).burst(100));
    assert_eq!(scope.peek("user").remaining, 94);
    scope.set_quota(Quota::per_minute(60).burst(4));
    let refused = scope.check("user");
    assert_eq!((refused.remaining, refused.retry_after), (0, Some(Duration::from_secs(3))));
    scope.set_quota(QUOTA.refuse_all());
    assert!(scope.quota().refuses_all());
    assert!(scope.check("user").is_impossible() && scope.check("another").is_impossible());
    clock.advance(Duration::from_secs(2));
    scope.set_quota(QUOTA);
    assert_eq!(scope.peek("user").remaining, 6);
}

#[test]
#[should_panic(expected = "scope \"login\" belongs to another limiter")]
fn limits_of_two_limiters_are_no_one_decision() {
    let (limiter, _, _clock) = scope();
    let (_other, login, _clock) = scope();
    let _decision = limiter.check_all(&[(&login, "user")]);
}
