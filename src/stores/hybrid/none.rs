//! A fallback that is none.

use std::future::{Ready, ready};

use crate::{
    backend::{Policy, RateLimiter},
    bucket::Decision,
};

/// Takes the place of a fallback where there is none: it always fails, at once.
///
/// With it a [`Hybrid`](super::Hybrid) leaves a failing store alone, and does what [`WhenBothFail`](super::WhenBothFail) says
/// meanwhile, without anybody waiting for a timeout.
#[derive(Clone, Copy, Debug)]
pub struct NoFallback(Policy);

impl NoFallback {
    /// The missing fallback of `primary`, whose policy it goes by.
    pub fn of(primary: &impl RateLimiter) -> Self {
        Self(primary.policy())
    }
}

/// That there is no fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no fallback")]
pub struct NoFallbackError;

impl RateLimiter for NoFallback {
    type Error = NoFallbackError;
    type Deciding = Ready<Result<Decision, NoFallbackError>>;

    fn decide(&self, _: &[u8], _: u64) -> Self::Deciding {
        ready(Err(NoFallbackError))
    }

    fn decide_now(&self, _: &[u8], _: u64) -> Option<Result<Decision, NoFallbackError>> {
        Some(Err(NoFallbackError))
    }

    fn peek(&self, _: &[u8], _: u64) -> Self::Deciding {
        ready(Err(NoFallbackError))
    }

    fn charge(&self, _: &[u8], _: u64) -> Self::Deciding {
        ready(Err(NoFallbackError))
    }

    fn refund(&self, _: &[u8], _: u64) -> Self::Deciding {
        ready(Err(NoFallbackError))
    }

    fn policy(&self) -> Policy {
        self.0
    }
}
