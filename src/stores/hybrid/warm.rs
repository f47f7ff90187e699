//! While the primary is well: the fallback is charged what the primary admitted, so that it starts from there.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, Waker},
};

use tokio::{runtime::Handle, sync::Semaphore, time};

use crate::{backend::RateLimiter, bucket::Decision};

use super::{call::Op, error::Failure, shared::Shared, stats::add};

/// Tellings under way at once to a fallback that has to be waited for.
pub(super) const MAX_UNDER_WAY: usize = 256;

/// Of so many admissions that find the fallback in debt, one is let go of: far more than what clocks differ by, and far less than
/// what a limit is good for.
const LET_GO: u64 = 64;

impl<P, F> Shared<P, F>
where
    P: RateLimiter + Send + Sync + 'static,
    F: RateLimiter + Send + Sync + 'static,
{
    /// Tells the fallback what the primary did: here where it answers at once, else in the background.
    pub(super) fn warm(self: &Arc<Self>, op: Op, key: &[u8], amount: u64) {
        let Some(under_way) = self.warming.as_ref().filter(|_| amount > 0) else { return };
        // A decision on nothing consumes nothing, and says how full the bucket is.
        match self.fallback.decide_now(key, 0) {
            Some(Ok(level)) => {
                let Some(charging) = self.charging(op, key, amount, &level) else { return };
                match pin!(charging).poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => self.fallback_failed(&Failure::Error(error)),
                    Poll::Pending => add(&self.counters.not_warmed, 1),
                }
            }
            Some(Err(error)) => self.fallback_failed(&Failure::Error(error)),
            None => self.warm_later(op, key, amount, under_way),
        }
    }

    /// What to tell a fallback whose bucket is at `level`. Nothing, where the primary admits for long what puts it in debt.
    ///
    /// Debt for a while is right: other replicas may be deciding by a fallback that they share with this one, and what is
    /// admitted here is not there for them. But the clocks of the two differ a little, and over hours of overload debt would grow
    /// of that alone, and keep callers out after a switch. So a small part is let go of while there is any.
    fn charging(&self, op: Op, key: &[u8], amount: u64, level: &Decision) -> Option<F::Deciding> {
        if op == Op::Refund {
            return Some(self.fallback.refund(key, amount));
        }
        // What a user charges on purpose may well be a debt.
        let in_debt = op == Op::Decide && !level.allowed;
        if in_debt && self.counters.in_debt.fetch_add(1, Relaxed).is_multiple_of(LET_GO) {
            return None;
        }
        Some(self.fallback.charge(key, amount))
    }

    fn warm_later(self: &Arc<Self>, op: Op, key: &[u8], amount: u64, under_way: &Arc<Semaphore>) {
        let (Ok(place), Ok(runtime)) = (Arc::clone(under_way).try_acquire_owned(), Handle::try_current()) else {
            add(&self.counters.not_warmed, 1);
            return;
        };
        let (shared, key) = (Arc::clone(self), Box::<[u8]>::from(key));
        runtime.spawn(async move {
            let failure = match time::timeout(shared.timeout, shared.tell(op, &key, amount)).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(Failure::Error(error)),
                Err(_) => Some(Failure::TimedOut(shared.timeout)),
            };
            if let Some(failure) = failure {
                add(&shared.counters.not_warmed, 1);
                shared.fallback_failed(&failure);
            }
            drop(place);
        });
    }

    async fn tell(&self, op: Op, key: &[u8], amount: u64) -> Result<(), F::Error> {
        let level = self.fallback.peek(key, 0).await?;
        if let Some(charging) = self.charging(op, key, amount, &level) {
            let _told = charging.await?;
        }
        Ok(())
    }
}
