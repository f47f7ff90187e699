//! How a hybrid is described.

use std::{
    any::TypeId,
    error::Error,
    fmt,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use tokio::sync::Semaphore;

use crate::{backend::RateLimiter, net::Clock};

use super::{
    Hybrid,
    breaker::{Settings, State},
    error::{HybridSettingsError, Side},
    events::{Events, OnError, OnStateChange},
    gate::Gate,
    none::NoFallback,
    owed::Owed,
    shared::{MayBeDone, Shared},
    stats::Counters,
    warm::MAX_UNDER_WAY,
};

/// What a [`Hybrid`] answers when neither limiter decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenBothFail {
    /// Requests pass. Their decisions say that the whole burst is there.
    Open,
    /// Requests are refused. Their decisions say to come back when the primary may be asked again, in a second at least.
    Closed,
    /// Callers get a [`HybridError`](super::HybridError), and see that nobody decided. The default.
    #[default]
    Error,
}

/// Describes a [`Hybrid`]; [`build`](Self::build) makes it.
#[must_use = "nothing is made before `build`"]
pub struct HybridBuilder<P, F> {
    primary: P,
    fallback: F,
    timeout: Duration,
    failures: u32,
    successes: u32,
    cool_off: Duration,
    max_cool_off: Option<Duration>,
    when_both_fail: WhenBothFail,
    warm_fallback: bool,
    repay_primary: bool,
    max_owed_keys: usize,
    may_be_done: Option<Box<MayBeDone>>,
    on_state_change: Option<Box<OnStateChange>>,
    on_error: Option<Box<OnError>>,
    clock: Option<Clock>,
}

impl<P, F> HybridBuilder<P, F>
where
    P: RateLimiter + Send + Sync + 'static,
    F: RateLimiter + Send + Sync + 'static,
{
    const TIMEOUT: Duration = Duration::from_millis(50);
    const COOL_OFF: Duration = Duration::from_secs(5);
    const MAX_COOL_OFF: Duration = Duration::from_secs(60);
    const FAILURES: u32 = 5;
    const SUCCESSES: u32 = 3;
    const MAX_OWED_KEYS: usize = 65_536;
    const LEAST_TIME: Duration = Duration::from_millis(1);
    const MOST_TIME: Duration = Duration::from_secs(60 * 60);

    pub(super) fn new(primary: P, fallback: F) -> Self {
        Self {
            primary,
            fallback,
            timeout: Self::TIMEOUT,
            failures: Self::FAILURES,
            successes: Self::SUCCESSES,
            cool_off: Self::COOL_OFF,
            max_cool_off: None,
            when_both_fail: WhenBothFail::default(),
            warm_fallback: true,
            repay_primary: true,
            max_owed_keys: Self::MAX_OWED_KEYS,
            may_be_done: None,
            on_state_change: None,
            on_error: None,
            clock: None,
        }
    }

    /// How long a caller waits for the primary at most; then the fallback decides. 1 ms to 1 h, 50 ms by default.
    ///
    /// Longer, and more callers wait while a server hangs, each once, until the breaker opens. Shorter, and a garbage collection
    /// or a slow disk counts as a failure: many [`primary_timeouts`](super::HybridStats::primary_timeouts) on a healthy server
    /// are the sign. It should be well above the store's own response time, and below the patience of callers: a call that is
    /// dropped earlier says nothing of the primary. A fallback that has to be waited for gets as long again.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Failures in a row that open the breaker; 1 or more, 5 by default. Errors and timeouts count alike.
    ///
    /// Each success takes half a failure away, so it opens as well where more than a third of the calls fail for long. Fewer, and a
    /// hiccup switches; more, and more callers wait for a timeout first.
    pub fn failures(mut self, failures: u32) -> Self {
        self.failures = failures;
        self
    }

    /// Probes in a row that have to succeed until the breaker closes; 1 or more, 3 by default. They are calls of callers, one at a
    /// time: under load they take a few round trips.
    pub fn successes(mut self, successes: u32) -> Self {
        self.successes = successes;
        self
    }

    /// How long the primary is left alone after it failed; 1 ms to 1 h, 5 s by default.
    ///
    /// Chance takes up to a fifth off, so that replicas do not all probe at once. Shorter, and it is used again sooner after an
    /// outage; longer, and a hung one keeps fewer callers waiting, one each time.
    pub fn cool_off(mut self, cool_off: Duration) -> Self {
        self.cool_off = cool_off;
        self
    }

    /// How long the cool-off may grow; at least the cool-off, 60 s by default.
    ///
    /// It doubles each time that the breaker opens again sooner after it closed than it had been open before, and is short again
    /// after a longer time. An outage alone does not make it longer.
    pub fn max_cool_off(mut self, max_cool_off: Duration) -> Self {
        self.max_cool_off = Some(max_cool_off);
        self
    }

    /// What callers get when neither limiter decides; [`WhenBothFail::Error`] by default.
    pub fn when_both_fail(mut self, when: WhenBothFail) -> Self {
        self.when_both_fail = when;
        self
    }

    /// Whether the fallback is charged what the primary admits; yes by default.
    ///
    /// Without it a switch starts from full buckets, and lets one more burst of each key pass. With it each admission costs a
    /// charge of the fallback: some hundred nanoseconds where that answers at once. One that does not is told in the background,
    /// 256 admissions at a time, and not of what is above that.
    ///
    /// Give both limiters the same quota: a fallback with a smaller one is driven into debt, by one more burst at most, and refuses
    /// for that long after a switch.
    pub fn warm_fallback(mut self, warm: bool) -> Self {
        self.warm_fallback = warm;
        self
    }

    /// Whether the primary is charged what the fallback admitted, as far as that is not refilled; yes by default.
    ///
    /// Without it a return starts from what the primary knows, and lets up to one more burst of each key pass.
    pub fn repay_primary(mut self, repay: bool) -> Self {
        self.repay_primary = repay;
        self
    }

    /// Most keys of which is kept what the primary is to be charged; 65,536 by default, of 64 bytes each on average, which takes
    /// about ten megabytes. It is reserved as needed.
    ///
    /// What the fallback admits of further keys the primary is not charged: [`not_repaid`](super::HybridStats::not_repaid) counts
    /// it. 0 keeps none.
    pub fn max_owed_keys(mut self, keys: usize) -> Self {
        self.max_owed_keys = keys;
        self
    }

    /// Which errors of the primary leave open whether it did what it was asked for: a timeout of its own client, for one. By
    /// default none does.
    ///
    /// What was admitted after such an error the primary is not charged again, as after a timeout of the hybrid's own. Without
    /// it, clients of a server that hung and goes on may pay for some requests twice. A store's own response timeout that is
    /// longer than [`timeout`](Self::timeout) does the same.
    pub fn may_be_done(mut self, may_be_done: impl Fn(&P::Error) -> bool + Send + Sync + 'static) -> Self {
        // By the type that all errors have, so that those who share a hybrid need not know it.
        self.may_be_done = Some(Box::new(move |error| error.downcast_ref().is_some_and(&may_be_done)));
        self
    }

    /// Called with the old and the new state after each change, in their order and one at a time.
    ///
    /// It runs in the task of some caller, and must not block. If it panics, that is logged, and nothing else comes of it.
    pub fn on_state_change(mut self, callback: impl Fn(State, State) + Send + Sync + 'static) -> Self {
        self.on_state_change = Some(Box::new(callback));
        self
    }

    /// Called with each failure of either limiter: a [`Failure`](super::Failure) whose `source` is the limiter's own error.
    ///
    /// As [`on_state_change`](Self::on_state_change), but several at a time.
    pub fn on_error(mut self, callback: impl Fn(Side, &(dyn Error + 'static)) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Box::new(callback));
        self
    }

    /// Where its time comes from, but for the timeouts, which are tokio's; the system's clock by default. A
    /// [`ManualClock`](crate::ManualClock) in tests, beside tokio's paused time.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// Makes it.
    ///
    /// # Errors
    ///
    /// A [`HybridSettingsError`] that names the setting, its value and the bound.
    pub fn build(self) -> Result<Hybrid<P, F>, HybridSettingsError> {
        for (name, value) in [("timeout", self.timeout), ("cool_off", self.cool_off)] {
            if value < Self::LEAST_TIME || value > Self::MOST_TIME {
                return Err(HybridSettingsError::Time { name, value });
            }
        }
        for (name, value) in [("failures", self.failures), ("successes", self.successes)] {
            if value == 0 {
                return Err(HybridSettingsError::Zero { name });
            }
        }
        if let Some(max) = self.max_cool_off.filter(|max| *max < self.cool_off) {
            return Err(HybridSettingsError::CoolOff { max, cool_off: self.cool_off });
        }
        Ok(self.assemble())
    }

    /// From settings that are known to be good.
    pub(super) fn assemble(self) -> Hybrid<P, F> {
        let settings = Settings {
            failures: self.failures,
            successes: self.successes,
            cool_off: self.cool_off,
            max_cool_off: self.max_cool_off.unwrap_or(Self::MAX_COOL_OFF).max(self.cool_off),
            // Its caller gives up after one; whoever has not reported after two is not there any more.
            lease: self.timeout * 2,
        };
        let has_fallback = TypeId::of::<F>() != TypeId::of::<NoFallback>();
        let owes = self.repay_primary && has_fallback && self.max_owed_keys > 0;
        let policy = self.primary.policy().name;
        Hybrid(Arc::new(Shared {
            primary: self.primary,
            fallback: self.fallback,
            gate: Gate::new(settings),
            owed: owes.then(|| Owed::new(self.max_owed_keys)),
            paying: AtomicU32::new(0),
            warming: (self.warm_fallback && has_fallback).then(|| Arc::new(Semaphore::new(MAX_UNDER_WAY))),
            clock: self.clock.unwrap_or_else(Clock::system),
            timeout: self.timeout,
            when_both_fail: self.when_both_fail,
            may_be_done: self.may_be_done,
            events: Events::new(policy, self.on_state_change, self.on_error),
            counters: Counters::default(),
        }))
    }
}

impl<P, F> fmt::Debug for HybridBuilder<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HybridBuilder")
            .field("timeout", &self.timeout)
            .field("failures", &self.failures)
            .field("successes", &self.successes)
            .field("cool_off", &self.cool_off)
            .field("max_cool_off", &self.max_cool_off)
            .field("when_both_fail", &self.when_both_fail)
            .field("warm_fallback", &self.warm_fallback)
            .field("repay_primary", &self.repay_primary)
            .field("max_owed_keys", &self.max_owed_keys)
            .finish_non_exhaustive()
    }
}
