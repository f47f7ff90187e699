//! Laws of charges and refunds: the quotas are so slow that nothing comes back during a test.

use std::time::Duration;

use peerlimit::Quota;

use super::{
    Answers as _, Case, Return,
    laws::{about, back},
};

pub async fn a_charge_goes_into_debt_that_has_a_bound<C: Case>(case: &C) {
    let quota = Quota::per_hour(10);
    let limiter = case.limiter("a", quota).await;
    for permits in [25, u64::MAX, 1] {
        let charged = limiter.charged(b"k", permits).await;
        // In debt nothing passes, not even what costs nothing.
        assert_eq!((charged.allowed, charged.limit, charged.remaining), (false, 10, 0), "{permits}");
        assert!(about(charged.retry_after.unwrap(), back::<C>(10, quota)), "{charged:?}");
        assert!(about(charged.reset_after, back::<C>(20, quota)), "{charged:?}");
    }
    assert!(!limiter.decided(b"k", 0).await.allowed);
    let refused = limiter.decided(b"k", 1).await;
    assert!(about(refused.retry_after.unwrap(), back::<C>(11, quota)), "{refused:?}");
    let refunded = limiter.refunded(b"k", 10).await;
    match C::RETURN {
        // It is one more burst at most: so much brings it out of debt.
        Return::Steadily | Return::AsTheyLeft => {
            assert_eq!((refunded.allowed, refunded.remaining), (true, 0));
            assert!(limiter.decided(b"k", 0).await.allowed);
        }
        // It is whatever was charged, until the end of the window.
        Return::AtItsEnd => {
            assert_eq!((refunded.allowed, refunded.remaining), (false, 0));
            assert!(about(refunded.reset_after, back::<C>(10, quota)), "{refunded:?}");
        }
    }
    assert!(!limiter.decided(b"k", 1).await.allowed);
}

pub async fn a_charge_of_what_is_there_is_as_a_decision(case: &impl Case) {
    let limiter = case.limiter("a", Quota::per_hour(10)).await;
    let charged = limiter.charged(b"k", 4).await;
    assert_eq!((charged.allowed, charged.remaining, charged.retry_after), (true, 6, None));
    assert_eq!(limiter.charged(b"k", 6).await.remaining, 0);
    assert_eq!(limiter.passes(b"k").await, 0);
}

pub async fn a_refund_fills_up_to_the_burst_and_no_further<C: Case>(case: &C) {
    let limiter = case.limiter("a", Quota::per_hour(10)).await;
    for permits in [1, 3, 10] {
        assert!(limiter.decided(b"k", 1).await.allowed);
        assert!(limiter.decided(b"k", permits.min(9)).await.allowed);
        let refunded = limiter.refunded(b"k", u64::MAX).await;
        assert_eq!((refunded.allowed, refunded.remaining, refunded.reset_after), (true, 10, Duration::ZERO));
        assert_eq!(limiter.refunded(b"k", 5).await.remaining, 10);
    }
    for left in (0..10).rev() {
        assert_eq!(limiter.decided(b"k", 1).await.remaining, left);
    }
    // It works when nothing is left.
    assert_eq!(limiter.refunded(b"k", 2).await.remaining, 2);
    assert_eq!(limiter.passes(b"k").await, 2);
    // One was refused now. Where that is counted, it takes the first permit.
    let left = if C::COUNTS_REFUSALS { 1 } else { 2 };
    assert_eq!(limiter.refunded(b"k", 2).await.remaining, left);
    assert_eq!(limiter.passes(b"k").await, left);
}

pub async fn a_refund_of_an_unknown_key_gives_nothing(case: &impl Case) {
    let limiter = case.limiter("a", Quota::per_hour(10)).await;
    let refunded = limiter.refunded(b"k", 5).await;
    assert_eq!((refunded.allowed, refunded.remaining, refunded.reset_after), (true, 10, Duration::ZERO));
    assert_eq!(limiter.passes(b"k").await, 10);
}

pub async fn a_refund_takes_back_a_part_of_a_request(case: &impl Case) {
    let limiter = case.limiter("a", Quota::per_hour(100)).await;
    for cost in [10, 20, 30] {
        assert!(limiter.decided(b"k", cost).await.allowed);
    }
    // A part of the last one, the rest of it and a part of the one before, and so on.
    for (permits, left) in [(5, 45), (30, 75), (15, 90), (9, 99), (3, 100)] {
        assert_eq!(limiter.refunded(b"k", permits).await.remaining, left);
        assert_eq!(limiter.peeked(b"k", 0).await.remaining, left);
    }
    assert_eq!(limiter.decided(b"k", 100).await.remaining, 0);
}

pub async fn corrections_of_0_change_nothing(case: &impl Case) {
    let limiter = case.limiter("a", Quota::per_hour(3)).await;
    for left in [3, 2, 1, 0] {
        assert_eq!(limiter.charged(b"k", 0).await.remaining, left);
        assert_eq!(limiter.refunded(b"k", 0).await.remaining, left);
        assert_eq!(limiter.decided(b"k", 1).await.allowed, left > 0);
    }
}
