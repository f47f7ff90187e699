//! One call: what is asked, and by which leave.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{backend::RateLimiter, bucket::Decision};

use super::{
    breaker::Ticket,
    error::{Failure, HybridError},
    shared::Shared,
};

/// What is asked of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Decide,
    Peek,
    Charge,
    Refund,
}

impl Op {
    pub(super) fn run<L: RateLimiter>(self, limiter: &L, key: &[u8], amount: u64) -> L::Deciding {
        match self {
            Self::Decide => limiter.decide(key, amount),
            Self::Peek => limiter.peek(key, amount),
            Self::Charge => limiter.charge(key, amount),
            Self::Refund => limiter.refund(key, amount),
        }
    }

    /// Whether permits were consumed, by that answer.
    pub(super) const fn consumed(self, answer: &Decision) -> bool {
        match self {
            Self::Decide => answer.allowed && !answer.shadowed && !answer.exempt,
            Self::Charge => !answer.exempt,
            Self::Peek | Self::Refund => false,
        }
    }
}

/// A call that is under way. Dropped without an answer it leaves its place to others.
pub(super) struct Call<P: RateLimiter, F: RateLimiter> {
    pub(super) shared: Arc<Shared<P, F>>,
    pub(super) op: Op,
    /// For the fallback, and to tell the one what the other admitted. Most keys fit.
    pub(super) key: SmallVec<[u8; 40]>,
    pub(super) amount: u64,
    /// Leave to ask the primary, until it answered.
    pub(super) ticket: Option<Ticket>,
    /// How the primary failed.
    pub(super) failed: Option<Failure<P::Error>>,
}

impl<P, F> Call<P, F>
where
    P: RateLimiter + Send + Sync + 'static,
    F: RateLimiter + Send + Sync + 'static,
{
    /// The primary answered.
    pub(super) fn by_primary(&mut self, answer: &Decision) {
        if let Some(ticket) = self.ticket.take() {
            self.shared.answered_by_primary(ticket, self.op, &self.key, self.amount, answer);
        }
    }

    /// The primary failed, so the fallback is asked.
    pub(super) fn fall_back(&mut self, failure: Failure<P::Error>) -> F::Deciding {
        if let Some(ticket) = self.ticket.take() {
            self.shared.primary_failed(ticket, &failure);
        }
        self.failed = Some(failure);
        self.op.run(&self.shared.fallback, &self.key, self.amount)
    }

    /// The fallback answered.
    pub(super) fn by_fallback(&self, answer: &Decision) {
        // Nobody is charged twice.
        let may_be_charged = self.failed.as_ref().is_some_and(|failure| self.shared.may_be_done(failure));
        self.shared.answered_by_fallback(self.op, &self.key, self.amount, answer, !may_be_charged);
    }

    /// The fallback failed too.
    pub(super) fn unanswered(
        &mut self,
        fallback: Failure<F::Error>,
    ) -> Result<Decision, HybridError<P::Error, F::Error>> {
        self.shared.unanswered(self.failed.take(), fallback)
    }
}

impl<P: RateLimiter, F: RateLimiter> Drop for Call<P, F> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.gate.abandoned(ticket);
        }
    }
}
