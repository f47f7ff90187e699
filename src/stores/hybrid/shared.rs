//! What all handles of one hybrid share, and what follows from answers and failures.

use std::{
    error::Error,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use tokio::sync::Semaphore;

use crate::{
    backend::{Policy, RateLimiter},
    bucket::Decision,
    net::{Clock, unguessable_u64},
};

use super::{
    breaker::{State, Ticket},
    builder::WhenBothFail,
    call::Op,
    error::{Failure, HybridError, Side},
    events::Events,
    gate::{Gate, Glance},
    owed::{Level, Owed, SHARDS},
    stats::{Counters, HybridStats, add},
};

/// Whether an error of the primary leaves open what it did.
pub(super) type MayBeDone = dyn Fn(&(dyn Error + 'static)) -> bool + Send + Sync;

pub(super) struct Shared<P, F> {
    pub(super) primary: P,
    pub(super) fallback: F,
    pub(super) gate: Gate,
    /// `None` where the primary is not told what the fallback admitted.
    pub(super) owed: Option<Owed>,
    /// A bit for each shard of `owed` that is being paid.
    pub(super) paying: AtomicU32,
    /// `None` where the fallback is not told what the primary admitted; else how many tellings may be under way.
    pub(super) warming: Option<Arc<Semaphore>>,
    pub(super) clock: Clock,
    pub(super) timeout: Duration,
    pub(super) when_both_fail: WhenBothFail,
    pub(super) may_be_done: Option<Box<MayBeDone>>,
    pub(super) events: Events,
    pub(super) counters: Counters,
}

impl<P, F> Shared<P, F>
where
    P: RateLimiter + Send + Sync + 'static,
    F: RateLimiter + Send + Sync + 'static,
{
    /// Leave to ask the primary about a key. `None`: the fallback decides.
    pub(super) fn route(self: &Arc<Self>, key: &[u8]) -> Option<Ticket> {
        if self.is_owing(key) {
            return None;
        }
        let (ticket, change) = self.gate.ask(self.clock.now());
        if ticket.is_some_and(Ticket::is_probe) {
            add(&self.counters.probes, 1);
        }
        if change.is_some() {
            self.events.tell_changes(&self.gate);
        }
        ticket
    }

    /// As [`route`](Self::route), where it is known without a probe.
    pub(super) fn glance(self: &Arc<Self>, key: &[u8]) -> Glance {
        match self.gate.glance(|| self.clock.now()) {
            Glance::Primary(_) if self.is_owing(key) => Glance::Fallback,
            glance => glance,
        }
    }

    /// Whether the primary does not know yet what was admitted of a key, and is about to be told. While it fails now and then,
    /// callers go on asking: it is they who find out.
    fn is_owing(self: &Arc<Self>, key: &[u8]) -> bool {
        let Some(owed) = self.owed.as_ref().filter(|_| self.gate.is_calm()) else { return false };
        owed.contains(key) && self.repay(owed.shard_of(key))
    }

    pub(super) fn answered_by_primary(
        self: &Arc<Self>,
        ticket: Ticket,
        op: Op,
        key: &[u8],
        amount: u64,
        answer: &Decision,
    ) {
        add(&self.counters.by_primary, 1);
        self.primary_succeeded(ticket);
        if op == Op::Refund || op.consumed(answer) {
            self.warm(op, key, amount);
        }
    }

    pub(super) fn primary_succeeded(self: &Arc<Self>, ticket: Ticket) {
        if self.gate.is_calm() {
            return;
        }
        if self.gate.succeeded(ticket, || self.clock.now()).is_some() {
            self.events.tell_changes(&self.gate);
        }
        if self.gate.is_calm() {
            self.repay_all();
        }
    }

    pub(super) fn primary_failed(&self, ticket: Ticket, failure: &Failure<P::Error>) {
        self.count_failure(Side::Primary, failure);
        if let Some(change) = self.gate.failed(ticket, self.clock.now(), unguessable_u64()) {
            if change.from == State::Closed {
                add(&self.counters.openings, 1);
            }
            self.events.tell_changes(&self.gate);
        }
    }

    /// `owed`: whether the primary has to be charged what the fallback admitted.
    pub(super) fn answered_by_fallback(
        self: &Arc<Self>,
        op: Op,
        key: &[u8],
        amount: u64,
        answer: &Decision,
        owed: bool,
    ) {
        add(&self.counters.by_fallback, 1);
        let Some(shares) = self.owed.as_ref().filter(|_| amount > 0) else { return };
        if op == Op::Refund {
            shares.give_back(key, amount);
        } else if owed && op.consumed(answer) {
            let level = Level::of(&self.fallback, answer);
            if !shares.add(key, amount, level, self.clock.now()) {
                add(&self.counters.not_repaid, 1);
            }
        }
    }

    /// Whether the primary may have done what it was asked for before it failed.
    pub(super) fn may_be_done(&self, failure: &Failure<P::Error>) -> bool {
        match failure {
            Failure::TimedOut(_) => true,
            Failure::Error(error) => self.may_be_done.as_ref().is_some_and(|may_be_done| may_be_done(error)),
        }
    }

    pub(super) fn fallback_failed(&self, failure: &Failure<F::Error>) {
        self.count_failure(Side::Fallback, failure);
    }

    fn count_failure<E: Error + 'static>(&self, side: Side, failure: &Failure<E>) {
        let counters = &self.counters;
        add(
            match (side, failure) {
                (Side::Primary, Failure::Error(_)) => &counters.primary_errors,
                (Side::Primary, Failure::TimedOut(_)) => &counters.primary_timeouts,
                (Side::Fallback, Failure::Error(_)) => &counters.fallback_errors,
                (Side::Fallback, Failure::TimedOut(_)) => &counters.fallback_timeouts,
            },
            1,
        );
        self.events.tell_failure(side, failure);
    }

    /// What callers are told where nobody decided.
    pub(super) fn unanswered(
        &self,
        primary: Option<Failure<P::Error>>,
        fallback: Failure<F::Error>,
    ) -> Result<Decision, HybridError<P::Error, F::Error>> {
        self.fallback_failed(&fallback);
        add(&self.counters.unanswered, 1);
        let Policy { name, quota } = self.primary.policy();
        let limit = quota.burst_size();
        match self.when_both_fail {
            WhenBothFail::Open => Ok(Decision::allow(limit, limit, Duration::ZERO).by(name)),
            WhenBothFail::Closed => {
                let wait = self.gate.wait(self.clock.now()).max(Self::LEAST_WAIT);
                Ok(Decision::refuse(limit, 0, wait, Some(wait)).by(name))
            }
            WhenBothFail::Error => Err(match primary {
                Some(primary) => HybridError::Both { primary, fallback },
                None => HybridError::Fallback { fallback },
            }),
        }
    }

    /// What a client is told to wait at least where everything is refused.
    const LEAST_WAIT: Duration = Duration::from_secs(1);

    fn repay_all(self: &Arc<Self>) {
        let Some(owed) = self.owed.as_ref().filter(|owed| owed.len() > 0) else { return };
        for shard in (0..SHARDS).filter(|shard| !owed.is_empty(*shard)) {
            self.repay(shard);
        }
    }

    pub(super) fn stats(&self) -> HybridStats {
        self.counters.read(self.gate.state(), self.owed.as_ref().map_or(0, Owed::len))
    }
}
