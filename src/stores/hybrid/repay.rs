//! After the primary is back: it is charged what the fallback admitted, in the background.
//!
//! A key is decided by the fallback until the primary knows of it, so there is nothing to win by being first.

use std::{
    sync::{
        Arc, Weak,
        atomic::Ordering::{AcqRel, Release},
    },
    time::Duration,
};

use tokio::{runtime::Handle, time};

use crate::backend::RateLimiter;

use super::{
    error::Failure,
    owed::{Due, Level, Owed},
    shared::Shared,
    stats::add,
};

/// Failures in a row after which a key is given up while the breaker stays closed.
const MAX_FAILURES: u32 = 5;
/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(100);

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

    /// Charges what is due of one key. `false` where that failed and has to be tried again.
    async fn charge_due(self: &Arc<Self>, owed: &Owed, due: &Due) -> bool {
        let fallback = self.fallback.policy().quota;
        let answer = time::timeout(self.timeout, self.fallback.peek(&due.key, 0)).await;
        let now = self.clock.now();
        let level = match answer {
            Ok(Ok(level)) => Level::of(&level, &fallback),
            Ok(Err(_)) | Err(_) => Level::alone(&due.share, &fallback, now),
        };
        // More than a burst would be a debt that the quota does not ask for.
        let permits = owed.pay(&due.key, level, now, self.primary.policy().quota.burst_size());
        if permits == 0 {
            return true;
        }
        let (Some(ticket), _) = self.gate.ask(now) else {
            owed.paid(&due.key, false);
            return false;
        };
        let failure = match time::timeout(self.timeout, self.primary.charge(&due.key, permits)).await {
            Ok(Ok(_)) => {
                add(&self.counters.repaid, permits);
                owed.paid(&due.key, true);
                self.primary_succeeded(ticket);
                return true;
            }
            Ok(Err(error)) => Failure::Error(error),
            Err(_) => Failure::TimedOut(self.timeout),
        };
        // What was not answered in time may have been done, and nobody is charged twice.
        let may_be_charged = matches!(failure, Failure::TimedOut(_));
        owed.paid(&due.key, may_be_charged);
        self.primary_failed(ticket, &failure);
        may_be_charged
    }
}

/// Pays a shard, key by key, for as long as the breaker is closed and the hybrid is there.
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
        let mut failures = 0;
        // Held for one key at a time, so that a hybrid that nobody holds any more ends.
        while let Some(shared) = self.shared.upgrade() {
            let Some(owed) = shared.owed.as_ref().filter(|_| shared.gate.is_closed()) else { return };
            let Some(due) = owed.next(self.shard) else { return };
            if shared.charge_due(owed, &due).await {
                failures = 0;
                continue;
            }
            failures += 1;
            if failures == MAX_FAILURES {
                owed.forget(&due.key);
                add(&shared.counters.not_repaid, 1);
                failures = 0;
            }
            drop(shared);
            time::sleep(PAUSE).await;
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
