//! Waiting for permits.

use std::time::Duration;

use crate::{
    bucket::{Decision, Timestamp},
    crdt::Digest,
    net::unguessable_u64,
    table::Outcome,
};

use super::Scope;

/// How long to wait at most, and how exactly to wake.
///
/// A `Duration` is a `Wait` of at most that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Wait {
    most: Option<Duration>,
    jitter: Duration,
}

impl Wait {
    /// For as long as it takes.
    pub const FOREVER: Self = Self { most: None, jitter: Duration::ZERO };

    /// At most so long.
    pub const fn at_most(most: Duration) -> Self {
        Self { most: Some(most), jitter: Duration::ZERO }
    }

    /// Wakes up to so much later than need be, by chance. Default: none.
    ///
    /// Of clients that were refused together, or replicas that wait for one permit, more pass at their first try if they do not
    /// all wake together; each waits half of it longer on average.
    pub const fn jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }
}

impl From<Duration> for Wait {
    fn from(most: Duration) -> Self {
        Self::at_most(most)
    }
}

/// Why waiting was in vain. Nothing was consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The cost is above the burst, so that it never passes; or the quota refuses everything.
    #[error("a cost of {cost} never passes a limit of {limit}")]
    Impossible {
        /// The cost asked for.
        cost: u64,
        /// The most that passes at once.
        limit: u64,
    },
    /// It would take longer than was allowed. Said as soon as it is known: at once where nobody else waits for the key.
    #[error("permits would have to be waited for longer than {most:?}")]
    TooLong {
        /// The longest wait that was allowed.
        most: Duration,
        /// Time after which the request would pass if nobody comes before; `None` if others wait before it.
        retry_after: Option<Duration>,
    },
}

/// How often somebody who waits looks at the bucket, however long it may take: a quota that is raised and permits that are
/// given back shorten the wait, and wake nobody.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Scope {
    /// As [`Limiter::until_ready`](super::Limiter::until_ready), in this scope.
    pub async fn until_ready(&self, key: impl AsRef<[u8]>) -> Result<(), WaitError> {
        self.until_ready_n(key, 1, Wait::FOREVER).await
    }

    /// As [`Limiter::until_ready_n`](super::Limiter::until_ready_n), in this scope.
    pub async fn until_ready_n(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        wait: impl Into<Wait>,
    ) -> Result<(), WaitError> {
        let (key, wait) = (key.as_ref(), wait.into());
        let digest = self.spec.hasher().digest(key);
        // Whoever asks for too much holds up nobody, and whoever comes where others wait does not overtake them.
        let first = self.peek_n(key, cost);
        if first.is_impossible() {
            self.spec.tally().count(&first);
            return Err(WaitError::Impossible { cost, limit: first.limit });
        }
        if !self.shared.turns.is_awaited(digest) && self.passes(key, cost).allowed {
            return Ok(());
        }
        let waited = self.wait_in_turn(key, digest, cost, wait).await;
        if waited.is_err() {
            self.spec.tally().count(Outcome::Refused);
        }
        waited
    }

    async fn wait_in_turn(&self, key: &[u8], digest: Digest, cost: u64, wait: Wait) -> Result<(), WaitError> {
        let clock = &self.shared.clock;
        let began = clock.now();
        let deadline = wait.most.map(|most| began.saturating_add(most));
        let _turn = match deadline {
            None => self.shared.turns.take(digest).await,
            Some(deadline) => {
                let turn = clock.before(deadline, self.shared.turns.take(digest)).await;
                turn.ok_or(WaitError::TooLong { most: wait.most.unwrap_or_default(), retry_after: None })?
            }
        };
        loop {
            let decision = self.passes(key, cost);
            if decision.allowed {
                return Ok(());
            }
            let Some(retry_after) = decision.retry_after else {
                return Err(WaitError::Impossible { cost, limit: decision.limit });
            };
            let ready = clock.now().saturating_add(retry_after);
            if let (Some(most), Some(deadline)) = (wait.most, deadline)
                && ready > deadline
            {
                return Err(WaitError::TooLong { most, retry_after: Some(retry_after) });
            }
            self.sleep_until_due(key, cost, ready, random_part_of(wait.jitter)).await;
        }
    }

    /// Sleeps until `ready` and so much longer, and looks now and then whether the permits are there sooner than it was
    /// thought.
    async fn sleep_until_due(&self, key: &[u8], cost: u64, ready: Timestamp, longer: Duration) {
        let clock = &self.shared.clock;
        let mut due = ready.saturating_add(longer);
        while clock.now() < due {
            clock.sleep_until(due.min(clock.now().saturating_add(LOOK_AGAIN))).await;
            let seen = self.peek_n(key, cost);
            let left = if seen.allowed { Some(Duration::ZERO) } else { seen.retry_after };
            // What has become impossible has no time any more.
            let Some(left) = left else { return };
            due = due.min(clock.now().saturating_add(left).saturating_add(longer));
        }
    }

    /// Decides, and counts it if it passes: whoever goes on waiting is not refused yet.
    fn passes(&self, key: &[u8], cost: u64) -> Decision {
        let decision = self.decided(key, cost);
        if decision.allowed {
            self.spec.tally().count(&decision);
        }
        decision
    }
}

/// From nothing to all of it, uniformly.
fn random_part_of(jitter: Duration) -> Duration {
    if jitter.is_zero() {
        return jitter;
    }
    let part = (unguessable_u64() >> 32) as u32;
    jitter.mul_f64(f64::from(part) / f64::from(u32::MAX))
}
