//! After the primary is back: it is charged what the fallback admitted, in the background.
//!
//! A key is decided by the fallback until the primary knows of it, so there is nothing to win by being first.

use std::sync::{
    Arc, Weak,
    atomic::Ordering::{AcqRel, Release},
};

use tokio::{runtime::Handle, time};

use crate::backend::RateLimiter;

use super::{
    error::Failure,
    gate::Glance,
    owed::{Due, Level, Owed},
    shared::Shared,
    stats::add,
};

impl<P, F> Shared<P, F>
where
    P: RateLimiter + Send + Sync + 'static,
    F: RateLimiter + Send + Sync + 'static,
{
    /// Sees to it that a shard is paid. `false` outside of a runtime, where nobody can be at it.
    pub(super) fn repay(self: &Arc<Self>, shard: usize) -> bool {
        let bit = 1 << shard;
        // What the worker before did is over when its bit is gone.
        if self.paying.fetch_or(bit, AcqRel) & bit != 0 {
            return true;
        }
        let worker = Worker { shared: Arc::downgrade(self), shard };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(worker.run())),
            // Dropped, it takes its bit back.
            Err(_) => return false,
        }
        true
    }

    /// Charges what is due of one key.
    async fn charge_due(self: &Arc<Self>, owed: &Owed, due: &Due) {
        let answer = time::timeout(self.timeout, self.fallback.peek(&due.key, 0)).await;
        let now = self.clock.now();
        let level = match answer {
            Ok(Ok(level)) => Level::of(&self.fallback, &level),
            Ok(Err(_)) | Err(_) => Level::alone(&self.fallback, &due.share, now),
        };
        let Glance::Primary(ticket) = self.gate.glance(|| now) else { return };
        // More than a burst would be a debt that the quota does not ask for.
        let permits = owed.pay(&due.key, level, now, self.primary.policy().quota.burst_size());
        if permits == 0 {
            return;
        }
        let failure = match time::timeout(self.timeout, self.primary.charge(&due.key, permits)).await {
            Ok(Ok(_)) => {
                add(&self.counters.repaid, permits);
                owed.paid(&due.key);
                return self.primary_succeeded(ticket);
            }
            Ok(Err(error)) => Failure::Error(error),
            Err(_) => Failure::TimedOut(self.timeout),
        };
        // Nobody is charged twice.
        if self.may_be_done(&failure) {
            owed.paid(&due.key);
        } else if owed.unpaid(&due.key) {
            add(&self.counters.not_repaid, 1);
        }
        self.primary_failed(ticket, &failure);
    }
}

/// Pays a shard, key by key, for as long as the primary is well and the hybrid is there.
struct Worker<P, F> {
    shared: Weak<Shared<P, F>>,
    shard: usize,
}

impl<P, F> Worker<P, F>
where
    P: RateLimiter + Send + Sync + 'static,
    F: RateLimiter + Send + Sync + 'static,
{
    async fn run(self) {
        // Held for one key at a time, so that a hybrid that nobody holds any more ends.
        while let Some(shared) = self.shared.upgrade() {
            let Some(owed) = shared.owed.as_ref().filter(|_| shared.gate.is_calm()) else { return };
            let Some(due) = owed.next(self.shard) else { return };
            shared.charge_due(owed, &due).await;
        }
    }
}

impl<P, F> Drop for Worker<P, F> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            // Pairs with the worker after this one.
            shared.paying.fetch_and(!(1 << self.shard), Release);
        }
    }
}
