//! Laws of counts: the quotas are so slow that nothing comes back during a test.

use std::{collections::HashSet, time::Duration};

use peerlimit::{Quota, RateLimiter as _, Refill};

use super::{Answers as _, Case, Return};

/// Whether `shorter` is less than `longer` only by the time that a test takes.
pub fn about(shorter: Duration, longer: Duration) -> bool {
    shorter <= longer && longer - shorter < Duration::from_secs(30)
}

/// When `permits` are back that were used just now of `quota`.
pub fn back<C: Case>(permits: u32, quota: Quota) -> Duration {
    let steadily = quota.refill_time() / u32::try_from(quota.burst_size()).unwrap() * permits;
    match C::RETURN {
        Return::Steadily => steadily,
        Return::AsTheyLeft | Return::AtItsEnd => quota.refill_time() + C::RETURN.slack(),
    }
}

pub async fn a_cost_of_0_passes_and_consumes_nothing<C: Case>(case: &C) {
    let limiter = case.limiter("a", Quota::per_hour(3)).await;
    let fresh = limiter.decided(b"k", 0).await;
    assert_eq!((fresh.allowed, fresh.limit, fresh.remaining, fresh.reset_after), (true, 3, 3, Duration::ZERO));
    assert_eq!(limiter.decided(b"k", 3).await.remaining, 0);
    let spent = limiter.decided(b"k", 0).await;
    assert_eq!((spent.allowed, spent.remaining, spent.retry_after), (true, 0, None));
    // A refusal leaves it so, unless it is counted: then it is a debt.
    assert_eq!(limiter.passes(b"k").await, 0);
    let refused = limiter.decided(b"k", 0).await;
    assert_eq!((refused.allowed, refused.remaining), (!C::COUNTS_REFUSALS, 0));
    assert_eq!(refused.retry_after.is_some(), C::COUNTS_REFUSALS);
}

pub async fn a_cost_of_n_consumes_n_permits_or_none<C: Case>(case: &C) {
    let quota = Quota::per_hour(10);
    let limiter = case.limiter("a", quota).await;
    let first = limiter.decided(b"k", 4).await;
    assert_eq!((first.allowed, first.limit, first.remaining), (true, 10, 6));
    assert!(about(first.reset_after, back::<C>(4, quota)), "{first:?}");
    let refused = limiter.decided(b"k", 7).await;
    let left = if C::COUNTS_REFUSALS { 0 } else { 6 };
    assert_eq!((refused.allowed, refused.remaining), (false, left));
    assert!(about(refused.retry_after.unwrap(), back::<C>(1, quota)), "{refused:?}");
    let rest = limiter.decided(b"k", 6).await;
    assert_eq!((rest.allowed, rest.remaining), (!C::COUNTS_REFUSALS, 0));
    assert!(!limiter.decided(b"k", 1).await.allowed);
    // Where nothing is refused, all pass.
    for (cost, left) in [(4, 6), (6, 0)] {
        let decision = limiter.decided(b"other", cost).await;
        assert_eq!((decision.allowed, decision.remaining), (true, left));
    }
}

pub async fn exactly_the_burst_passes_and_remaining_counts_down(case: &impl Case) {
    let limiter = case.limiter("a", case.quota(Quota::per_hour(100).burst(7))).await;
    for left in (0..7).rev() {
        let decision = limiter.decided(b"k", 1).await;
        assert_eq!((decision.allowed, decision.limit, decision.remaining), (true, 7, left));
        assert_eq!((decision.retry_after, decision.shadowed, decision.exempt), (None, false, false));
    }
    for _ in 0..3 {
        let refused = limiter.decided(b"k", 1).await;
        assert_eq!((refused.allowed, refused.remaining), (false, 0));
        assert!(refused.retry_after.is_some() && !refused.is_impossible());
    }
    // All at once is as much.
    assert_eq!(limiter.decided(b"other", 7).await.remaining, 0);
}

pub async fn what_is_above_the_burst_is_impossible_and_consumes_nothing(case: &impl Case) {
    let limiter = case.limiter("a", Quota::per_day(5)).await;
    for spent in [0, 2] {
        assert!(limiter.decided(b"k", spent).await.allowed);
        for cost in [6, 10, 11, 200_000_000, u64::from(u32::MAX), 1 << 53, u64::MAX] {
            for decision in [limiter.decided(b"k", cost).await, limiter.peeked(b"k", cost).await] {
                assert!(decision.is_impossible(), "{cost}: {decision:?}");
                assert_eq!((decision.limit, decision.remaining), (5, 5 - spent));
            }
        }
    }
    assert_eq!(limiter.passes(b"k").await, 3);
}

pub async fn a_peek_says_what_would_be_decided_and_changes_nothing<C: Case>(case: &C) {
    let limiter = case.limiter("a", Quota::per_hour(5)).await;
    for round in 0..8 {
        // In debt by what was refused, where that is counted: not even what costs nothing passes.
        let in_debt = C::COUNTS_REFUSALS && round > 5;
        for cost in 0..=6 {
            let peeked = limiter.peeked(b"k", cost).await;
            let again = limiter.peeked(b"k", cost).await;
            assert_eq!((peeked.allowed, peeked.remaining), (again.allowed, again.remaining));
            assert_eq!(peeked.remaining, 5_u64.saturating_sub(round), "{cost} in round {round}");
            assert_eq!(peeked.allowed, cost <= peeked.remaining && !in_debt, "{cost} in round {round}");
            assert_eq!(peeked.is_impossible(), cost == 6);
        }
        let peeked = limiter.peeked(b"k", 1).await;
        let decided = limiter.decided(b"k", 1).await;
        assert_eq!(peeked.allowed, decided.allowed);
        if let (Some(peeked), Some(decided)) = (peeked.retry_after, decided.retry_after) {
            assert!(about(decided, peeked));
        }
    }
}

/// Keys that a protocol, a cluster, or a digest may trip over.
fn hostile_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [
        &b""[..],
        b" ",
        b"  ",
        b"a b",
        b"a\r\nFLUSHALL\r\n",
        b"a\0b",
        b"\0",
        b"{a}",
        b"{a}b",
        b"a{}",
        b"{}",
        b"}{",
        b"=a",
        b"#a",
        b"a:b",
        b"a:log:=b",
        b"\xff\xfe",
        "\u{e4}".as_bytes(),
        "\u{61}\u{308}".as_bytes(),
        b"#36a9e7f1c95b82ffb99743e0c5c4ce95d83c9a43",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    for length in [63, 64, 65, 249, 250, 251, 10_000] {
        keys.push(vec![b'k'; length]);
        let mut other = vec![b'k'; length];
        other[length - 1] = b'l';
        keys.push(other);
    }
    keys
}

pub async fn keys_of_all_kinds_are_told_apart(case: &impl Case) {
    let limiter = case.limiter("a", Quota::per_hour(2)).await;
    let keys = hostile_keys();
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    for left in [1, 0] {
        for key in &keys {
            assert_eq!(limiter.decided(key, 1).await.remaining, left, "{key:?}");
        }
    }
    for key in &keys {
        assert!(!limiter.decided(key, 1).await.allowed, "{key:?}");
    }
}

pub async fn one_key_under_two_names_has_two_counts(case: &impl Case) {
    let names = ["a", "b", "a:b", "=a", "\u{e4} {}"];
    let mut limiters = Vec::new();
    for name in names {
        limiters.push(case.limiter(name, Quota::per_hour(3)).await);
    }
    for limiter in &limiters {
        for left in [2, 1, 0] {
            assert_eq!(limiter.decided(b"k", 1).await.remaining, left);
        }
    }
    assert_eq!(limiters[0].refunded(b"k", 3).await.remaining, 3);
    assert_eq!(limiters[1].passes(b"k").await, 0);
    assert_eq!(limiters[0].passes(b"k").await, 3);
}

pub async fn tasks_that_race_pass_as_often_as_one(case: &impl Case) {
    let limiter = case.limiter("a", Quota::per_hour(100)).await;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let mut passed = 0;
                for _ in 0..10 {
                    let decision = limiter.decide(b"k", 1).await.expect("a decision");
                    passed += u32::from(decision.allowed);
                }
                passed
            })
        })
        .collect();
    let mut passed = 0;
    for task in tasks {
        passed += task.await.unwrap();
    }
    // An hour brings 100 back: none in the seconds of this test, unless it ran for 36 of them.
    assert_eq!(passed, 100);
}

pub async fn a_quota_that_refuses_everything_does(case: &impl Case) {
    let limiter = case.limiter("a", Quota::per_hour(10).refuse_all()).await;
    for cost in [1, 10, u64::MAX] {
        for decision in [limiter.decided(b"k", cost).await, limiter.peeked(b"k", cost).await] {
            assert!(decision.is_impossible(), "{decision:?}");
            assert_eq!((decision.limit, decision.remaining), (0, 0));
        }
    }
}

pub async fn decisions_and_policy_say_who_decided<C: Case>(case: &C) {
    let quota = case.quota(Quota::per_hour(2).burst(1));
    let limiter = case.limiter("login", quota).await;
    let name = case.policy_name("login");
    let policy = limiter.policy();
    assert_eq!((policy.name, policy.quota), (name, quota));
    assert_eq!(limiter.refill() == Refill::Steady, C::RETURN == Return::Steadily);
    for decision in [
        limiter.decided(b"k", 1).await,
        limiter.decided(b"k", 1).await,
        limiter.peeked(b"k", 2).await,
        limiter.charged(b"k", 1).await,
        limiter.refunded(b"k", 1).await,
    ] {
        assert_eq!(decision.policy, name);
    }
}

pub async fn a_clone_is_the_same_limiter(case: &impl Case) {
    let limiter = case.limiter("a", Quota::per_hour(2)).await;
    let clone = limiter.clone();
    assert!(limiter.decided(b"k", 1).await.allowed);
    assert_eq!(clone.decided(b"k", 1).await.remaining, 0);
    let asked = limiter.decide(b"k", 1);
    // The future borrows neither key nor limiter.
    drop((limiter, clone));
    assert!(!asked.await.unwrap().allowed);
}
