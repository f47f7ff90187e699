//! A limiter, and another one while that fails.
//!
//! A [`Hybrid`] asks its primary, a store as a rule, for as long as that answers in time. When it fails or hangs, the fallback
//! decides: a [`Limiter`](crate::Limiter) that gossips holds the limit of the whole cluster even then, a local one that of this
//! process. A circuit breaker leaves the primary alone meanwhile, and sends one caller at a time to see whether it is back.
//!
//! ```
//! use std::time::Duration;
//!
//! use peerlimit::{Limiter, Quota, RateLimiter, stores::hybrid::Hybrid};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! const QUOTA: Quota = Quota::per_second(100).burst(50);
//! # let store = Limiter::local(QUOTA);
//! // `store` is a Redis server, say; the fallback would be `Limiter::builder(QUOTA)..start().await?`.
//! let limiter = Hybrid::builder(store, Limiter::local(QUOTA))
//!     .timeout(Duration::from_millis(30))
//!     .on_state_change(|from, to| eprintln!("{from:?} -> {to:?}"))
//!     .build()?;
//!
//! let decision = limiter.decide(b"user:123", 1).await?;
//! assert_eq!((decision.allowed, decision.remaining), (true, 49));
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! - Callers wait for the primary no longer than the [timeout](HybridBuilder::timeout), and see no error of it while there is a
//!   fallback. A fallback that has to be waited for gets as long again.
//! - A switch does not give the budget twice. While the primary decides, the fallback is [kept warm](HybridBuilder::warm_fallback):
//!   charged what was admitted. After its return the primary is [charged](HybridBuilder::repay_primary) what the fallback admitted
//!   and what is not refilled since; until then a key is decided by the fallback.
//! - What the primary did not answer in time may have been done there all the same. Such a request is decided by the fallback, and
//!   the primary is not charged for it afterwards: nobody pays twice.
//! - A primary that comes back without its data starts its keys afresh, but for what the fallback admitted.
//! - A call that is dropped in flight consumes at most what it asked for, and holds up nobody.
//!
//! It has to be used within a tokio runtime that has a timer.
//!
//! # Figures
//!
//! [`Hybrid::state`] and [`Hybrid::stats`]. With the feature `metrics`, labelled with `policy`, the name of the primary's:
//!
//! | | |
//! |---|---|
//! | `peerlimit_failover_state` | 0 while the primary decides, 1 while one caller at a time probes it, 2 while it is left alone |
//! | `peerlimit_failover_transitions_total` | changes of the state, with the label `to` |
//! | `peerlimit_store_errors_total` | failures, with the labels `side`, `primary` or `fallback`, and `kind`, `error` or `timeout` |

mod breaker;
mod builder;
mod call;
mod deciding;
mod error;
mod events;
mod gate;
mod none;
mod owed;
mod repay;
mod shared;
mod stats;
mod warm;

use std::{fmt, sync::Arc};

use crate::{
    backend::{Policy, RateLimiter, Refill},
    bucket::Decision,
};

pub use breaker::State;
pub use builder::{HybridBuilder, WhenBothFail};
pub use deciding::Deciding;
pub use error::{Failure, HybridError, HybridSettingsError, Side};
pub use none::{NoFallback, NoFallbackError};
pub use stats::HybridStats;

use call::{Call, Op};
use gate::Glance;
use shared::Shared;

/// A limiter, and another one while that fails; see the [module](self).
///
/// Cheap to clone; clones share everything, so as many tasks as like use one breaker.
pub struct Hybrid<P, F>(Arc<Shared<P, F>>);

impl<P, F> Hybrid<P, F>
where
    P: RateLimiter + Send + Sync + 'static,
    F: RateLimiter + Send + Sync + 'static,
{
    /// `primary`, and `fallback` while that fails, with the defaults of the [builder](HybridBuilder).
    pub fn new(primary: P, fallback: F) -> Self {
        HybridBuilder::new(primary, fallback).assemble()
    }

    /// Describes one with other settings.
    pub fn builder(primary: P, fallback: F) -> HybridBuilder<P, F> {
        HybridBuilder::new(primary, fallback)
    }

    /// Whom it asks now.
    #[must_use]
    pub fn state(&self) -> State {
        self.0.gate.state()
    }

    /// Counters since it was made, and sizes as they are now.
    #[must_use]
    pub fn stats(&self) -> HybridStats {
        self.0.stats()
    }

    /// The limiter that decides while it is well.
    #[must_use]
    pub fn primary(&self) -> &P {
        &self.0.primary
    }

    /// The limiter that decides meanwhile.
    #[must_use]
    pub fn fallback(&self) -> &F {
        &self.0.fallback
    }

    fn call(&self, op: Op, key: &[u8], amount: u64) -> Deciding<P, F> {
        let shared = Arc::clone(&self.0);
        let ticket = shared.route(key);
        Deciding::new(Call { shared, op, key: key.into(), amount, ticket, failed: None })
    }
}

impl<P, F> RateLimiter for Hybrid<P, F>
where
    P: RateLimiter + Send + Sync + 'static,
    F: RateLimiter + Send + Sync + 'static,
{
    type Error = HybridError<P::Error, F::Error>;
    type Deciding = Deciding<P, F>;

    fn decide(&self, key: &[u8], cost: u64) -> Self::Deciding {
        self.call(Op::Decide, key, cost)
    }

    /// Answers at once where the limiter whose turn it is does: the fallback while the primary is left alone.
    fn decide_now(&self, key: &[u8], cost: u64) -> Option<Result<Decision, Self::Error>> {
        let shared = &self.0;
        match shared.glance(key) {
            Glance::Primary(ticket) => {
                let answer = shared.primary.decide_now(key, cost)?;
                let failure = match answer {
                    Ok(answer) => {
                        shared.answered_by_primary(ticket, Op::Decide, key, cost, &answer);
                        return Some(Ok(answer));
                    }
                    Err(error) => Failure::Error(error),
                };
                // Before what it failed is counted: without an answer here, all of it happens again.
                let answer = shared.fallback.decide_now(key, cost)?;
                shared.primary_failed(ticket, &failure);
                Some(self.conclude(key, cost, answer, Some(failure)))
            }
            Glance::Fallback => {
                let answer = shared.fallback.decide_now(key, cost)?;
                Some(self.conclude(key, cost, answer, None))
            }
            Glance::Probe => None,
        }
    }

    fn peek(&self, key: &[u8], cost: u64) -> Self::Deciding {
        self.call(Op::Peek, key, cost)
    }

    fn charge(&self, key: &[u8], permits: u64) -> Self::Deciding {
        self.call(Op::Charge, key, permits)
    }

    fn refund(&self, key: &[u8], permits: u64) -> Self::Deciding {
        self.call(Op::Refund, key, permits)
    }

    /// That of the limiter whose turn it is. Each [`Decision`] says who made it.
    fn policy(&self) -> Policy {
        if self.0.gate.is_closed() { self.0.primary.policy() } else { self.0.fallback.policy() }
    }

    /// As [`policy`](Self::policy).
    fn refill(&self) -> Refill {
        if self.0.gate.is_closed() { self.0.primary.refill() } else { self.0.fallback.refill() }
    }
}

impl<P, F> Hybrid<P, F>
where
    P: RateLimiter + Send + Sync + 'static,
    F: RateLimiter + Send + Sync + 'static,
{
    fn conclude(
        &self,
        key: &[u8],
        cost: u64,
        answer: Result<Decision, F::Error>,
        failed: Option<Failure<P::Error>>,
    ) -> Result<Decision, HybridError<P::Error, F::Error>> {
        match answer {
            Ok(answer) => {
                let may_be_charged = failed.is_some_and(|failure| self.0.may_be_done(&failure));
                self.0.answered_by_fallback(Op::Decide, key, cost, &answer, !may_be_charged);
                Ok(answer)
            }
            Err(error) => self.0.unanswered(failed, Failure::Error(error)),
        }
    }
}

impl<P, F> Clone for Hybrid<P, F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P, F> fmt::Debug for Hybrid<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hybrid").field("state", &self.0.gate.state()).finish_non_exhaustive()
    }
}
