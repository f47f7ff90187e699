//! Limiters as [`RateLimiter`]s: they answer at once, and cannot fail.

use std::{
    convert::Infallible,
    future::{Ready, ready},
};

use crate::{
    backend::{Ask, Policy, RateLimiter},
    bucket::Decision,
};

use super::{Limiter, Scope, together::decide_together};

impl RateLimiter for Scope {
    type Error = Infallible;
    type Deciding = Ready<Result<Decision, Infallible>>;

    fn decide(&self, key: &[u8], cost: u64) -> Self::Deciding {
        ready(Ok(self.check_n(key, cost)))
    }

    #[inline]
    fn decide_now(&self, key: &[u8], cost: u64) -> Option<Result<Decision, Infallible>> {
        Some(Ok(self.check_n(key, cost)))
    }

    fn decide_all_now(asks: &mut [Ask<'_, Self>]) -> bool {
        decide_together(asks, |scope| scope)
    }

    fn peek(&self, key: &[u8], cost: u64) -> Self::Deciding {
        ready(Ok(self.peek_n(key, cost)))
    }

    fn charge(&self, key: &[u8], permits: u64) -> Self::Deciding {
        ready(Ok(self.charged(key, permits)))
    }

    fn refund(&self, key: &[u8], permits: u64) -> Self::Deciding {
        ready(Ok(self.refunded(key, permits)))
    }

    fn policy(&self) -> Policy {
        Policy { name: self.name(), quota: self.quota() }
    }
}

impl RateLimiter for Limiter {
    type Error = Infallible;
    type Deciding = Ready<Result<Decision, Infallible>>;

    fn decide(&self, key: &[u8], cost: u64) -> Self::Deciding {
        self.default.decide(key, cost)
    }

    #[inline]
    fn decide_now(&self, key: &[u8], cost: u64) -> Option<Result<Decision, Infallible>> {
        self.default.decide_now(key, cost)
    }

    fn decide_all_now(asks: &mut [Ask<'_, Self>]) -> bool {
        decide_together(asks, Self::default_scope)
    }

    fn peek(&self, key: &[u8], cost: u64) -> Self::Deciding {
        RateLimiter::peek(&self.default, key, cost)
    }

    fn charge(&self, key: &[u8], permits: u64) -> Self::Deciding {
        RateLimiter::charge(&self.default, key, permits)
    }

    fn refund(&self, key: &[u8], permits: u64) -> Self::Deciding {
        RateLimiter::refund(&self.default, key, permits)
    }

    fn policy(&self) -> Policy {
        self.default.policy()
    }
}
