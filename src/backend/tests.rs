//! Limiters behind a pointer do what they do alone.

use std::{error::Error as _, future::Future, pin::Pin, time::Duration};

use crate::{Decision, DynError, DynRateLimiter, Limiter, Policy, Quota, RateLimiter, Refill};

/// A store that has to be waited for once, and fails where the key says so.
#[derive(Clone)]
struct Store(Limiter);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store is away")]
struct Away(#[source] std::num::ParseIntError);

impl Store {
    fn later(&self, key: &[u8], answer: Decision) -> <Self as RateLimiter>::Deciding {
        let away = (key == b"away").then(|| "x".parse::<u8>().expect_err("no number"));
        Box::pin(async move {
            tokio::task::yield_now().await;
            away.map_or(Ok(answer), |error| Err(Away(error)))
        })
    }
}

impl RateLimiter for Store {
    type Error = Away;
    type Deciding = Pin<Box<dyn Future<Output = Result<Decision, Away>> + Send>>;

    fn decide(&self, key: &[u8], cost: u64) -> Self::Deciding {
        self.later(key, self.0.check_n(key, cost))
    }

    fn peek(&self, key: &[u8], cost: u64) -> Self::Deciding {
        self.later(key, self.0.default_scope().peek_n(key, cost))
    }

    fn charge(&self, key: &[u8], permits: u64) -> Self::Deciding {
        let answer = RateLimiter::charge(&self.0, key, permits).into_inner();
        self.later(key, answer.unwrap_or_else(|never| match never {}))
    }

    fn refund(&self, key: &[u8], permits: u64) -> Self::Deciding {
        let answer = RateLimiter::refund(&self.0, key, permits).into_inner();
        self.later(key, answer.unwrap_or_else(|never| match never {}))
    }

    fn policy(&self) -> Policy {
        Policy { name: "store", ..RateLimiter::policy(&self.0) }
    }

    fn refill(&self) -> Refill {
        Refill::Window
    }
}

fn local() -> Limiter {
    Limiter::local(Quota::per_hour(10))
}

#[tokio::test]
async fn limiters_of_different_types_do_in_one_list_what_they_do_alone() {
    let all = [DynRateLimiter::new(local()), DynRateLimiter::new(Store(local()))];
    let names = all.clone().map(|limiter| limiter.policy().name);
    assert_eq!(names, ["", "store"]);
    assert_eq!(all.clone().map(|limiter| limiter.refill()), [Refill::Steady, Refill::Window]);
    for limiter in &all {
        let left = |answer: Result<Decision, DynError>| answer.map(|answer| (answer.allowed, answer.remaining)).ok();
        assert_eq!(left(limiter.decide(b"a", 4).await), Some((true, 6)));
        assert_eq!(left(limiter.peek(b"a", 7).await), Some((false, 6)));
        assert_eq!(left(limiter.charge(b"a", 5).await), Some((true, 1)));
        assert_eq!(left(limiter.refund(b"a", 2).await), Some((true, 3)));
        assert_eq!(left(limiter.clone().decide(b"a", 4).await), Some((false, 3)), "clones are the same");
        assert_eq!(limiter.policy().quota, Quota::per_hour(10));
    }
}

#[tokio::test]
async fn what_answers_at_once_still_does_and_what_does_not_consumes_nothing_by_being_asked() {
    let [local, store] = [DynRateLimiter::new(local()), DynRateLimiter::new(Store(local()))];
    assert!(local.decide_now(b"a", 1).is_some_and(|answer| answer.is_ok_and(|answer| answer.remaining == 9)));
    assert!(format!("{:?}", local.peek(b"a", 1)).contains("waits: false"), "no box");
    assert!(store.decide_now(b"a", 1).is_none());
    assert_eq!(store.peek(b"a", 1).await.map(|answer| answer.remaining).ok(), Some(10));
}

#[tokio::test]
async fn an_error_reads_as_the_limiters_own_and_can_be_had_back() {
    let store = DynRateLimiter::new(Store(local()));
    for limiter in [store.clone(), DynRateLimiter::new(store)] {
        let error = limiter.decide(b"away", 1).await.expect_err("it fails");
        assert_eq!(error.to_string(), "the store is away");
        assert!(error.source().is_some_and(|source| source.is::<std::num::ParseIntError>()));
        assert!(error.get().is::<Away>(), "also of one in another");
    }
}

#[test]
fn one_that_is_shown_says_by_what_it_decides() {
    let limiter = DynRateLimiter::new(local().scope("users", Quota::every(Duration::from_secs(7))));
    assert!(format!("{limiter:?}").contains("\"users\""), "{limiter:?}");
}
