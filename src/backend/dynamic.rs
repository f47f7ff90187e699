//! Limiters of types that are known only when the program runs.

use std::{
    error::Error,
    fmt,
    future::{Future, Ready, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use crate::bucket::Decision;

use super::{Policy, RateLimiter, Refill, at_once};

/// Any [`RateLimiter`], behind a pointer: for lists of different ones, and for a choice that is made by configuration.
///
/// Clones are the same limiter. What answers at once is asked through one virtual call and without an allocation; what has to be
/// waited for is awaited in a box. Several of them on one request are asked in order, never
/// [together](RateLimiter::decide_all_now).
///
/// ```
/// use peerlimit::{DynRateLimiter, Limiter, Quota, RateLimiter};
///
/// # async fn run() -> Result<(), peerlimit::DynError> {
/// let limiter = Limiter::local(Quota::per_second(100));
/// // Or a store: each is of a type of its own.
/// let tiers = [
///     DynRateLimiter::new(limiter.scope("free", Quota::per_minute(5))),
///     DynRateLimiter::new(limiter),
/// ];
/// assert!(tiers[0].decide(b"ann", 1).await?.allowed);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DynRateLimiter(Arc<dyn Erased>);

impl DynRateLimiter {
    /// The same limiter without its type.
    pub fn new<L: RateLimiter + Send + Sync + 'static>(limiter: L) -> Self {
        Self(Arc::new(limiter))
    }
}

impl fmt::Debug for DynRateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DynRateLimiter").field(&self.0.policy()).finish()
    }
}

impl RateLimiter for DynRateLimiter {
    type Error = DynError;
    type Deciding = DynDeciding;

    fn decide(&self, key: &[u8], cost: u64) -> DynDeciding {
        self.0.decide(key, cost)
    }

    fn decide_now(&self, key: &[u8], cost: u64) -> Option<Result<Decision, DynError>> {
        self.0.decide_now(key, cost)
    }

    fn peek(&self, key: &[u8], cost: u64) -> DynDeciding {
        self.0.peek(key, cost)
    }

    fn charge(&self, key: &[u8], permits: u64) -> DynDeciding {
        self.0.charge(key, permits)
    }

    fn refund(&self, key: &[u8], permits: u64) -> DynDeciding {
        self.0.refund(key, permits)
    }

    fn policy(&self) -> Policy {
        self.0.policy()
    }

    fn refill(&self) -> Refill {
        self.0.refill()
    }
}

/// [`RateLimiter`] with one type for all errors and one for all futures. All limiters are this too.
trait Erased: Send + Sync {
    fn decide(&self, key: &[u8], cost: u64) -> DynDeciding;
    fn decide_now(&self, key: &[u8], cost: u64) -> Option<Result<Decision, DynError>>;
    fn peek(&self, key: &[u8], cost: u64) -> DynDeciding;
    fn charge(&self, key: &[u8], permits: u64) -> DynDeciding;
    fn refund(&self, key: &[u8], permits: u64) -> DynDeciding;
    fn policy(&self) -> Policy;
    fn refill(&self) -> Refill;
}

impl<L: RateLimiter + Send + Sync> Erased for L {
    fn decide(&self, key: &[u8], cost: u64) -> DynDeciding {
        DynDeciding::new::<L>(RateLimiter::decide(self, key, cost))
    }

    fn decide_now(&self, key: &[u8], cost: u64) -> Option<Result<Decision, DynError>> {
        RateLimiter::decide_now(self, key, cost).map(|answer| answer.map_err(DynError::new))
    }

    fn peek(&self, key: &[u8], cost: u64) -> DynDeciding {
        DynDeciding::new::<L>(RateLimiter::peek(self, key, cost))
    }

    fn charge(&self, key: &[u8], permits: u64) -> DynDeciding {
        DynDeciding::new::<L>(RateLimiter::charge(self, key, permits))
    }

    fn refund(&self, key: &[u8], permits: u64) -> DynDeciding {
        DynDeciding::new::<L>(RateLimiter::refund(self, key, permits))
    }

    fn policy(&self) -> Policy {
        RateLimiter::policy(self)
    }

    fn refill(&self) -> Refill {
        RateLimiter::refill(self)
    }
}

/// The answer of a [`DynRateLimiter`], until it is there.
#[must_use = "futures do nothing unless polled"]
pub struct DynDeciding(State);

enum State {
    AtOnce(Ready<Result<Decision, DynError>>),
    Waiting(Pin<Box<dyn Future<Output = Result<Decision, DynError>> + Send>>),
}

impl DynDeciding {
    fn new<L: RateLimiter>(deciding: L::Deciding) -> Self {
        Self(match at_once::<L>(deciding) {
            Ok(answer) => State::AtOnce(ready(answer.map_err(DynError::new))),
            Err(deciding) => State::Waiting(Box::pin(async move { deciding.await.map_err(DynError::new) })),
        })
    }
}

impl Future for DynDeciding {
    type Output = Result<Decision, DynError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::AtOnce(answer) => Pin::new(answer).poll(cx),
            State::Waiting(deciding) => deciding.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for DynDeciding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynDeciding").field("waits", &matches!(self.0, State::Waiting(_))).finish()
    }
}

/// Why a [`DynRateLimiter`] made no decision. It reads as the limiter's own error, which it holds.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DynError(Box<dyn Error + Send + Sync>);

impl DynError {
    fn new(error: impl Error + Send + Sync + 'static) -> Self {
        let error: Box<dyn Error + Send + Sync> = Box::new(error);
        // Of a limiter in another one of these it is the error inside that counts.
        match error.downcast::<Self>() {
            Ok(inner) => *inner,
            Err(error) => Self(error),
        }
    }

    /// The limiter's own error, to be downcast.
    #[must_use]
    pub fn get(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}
