//! What is told of a hybrid: callbacks, logs, metrics.

use std::{
    error::Error,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

use super::{
    breaker::{Change, State},
    error::{Failure, Side},
    gate::Gate,
};

pub(super) type OnStateChange = dyn Fn(State, State) + Send + Sync;
pub(super) type OnError = dyn Fn(Side, &(dyn Error + 'static)) + Send + Sync;

pub(super) struct Events {
    /// The name of the primary's policy.
    pub(super) policy: &'static str,
    pub(super) on_state_change: Option<Box<OnStateChange>>,
    pub(super) on_error: Option<Box<OnError>>,
    /// Whether somebody tells of changes at this moment.
    telling: AtomicBool,
}

impl Events {
    pub(super) fn new(
        policy: &'static str,
        on_state_change: Option<Box<OnStateChange>>,
        on_error: Option<Box<OnError>>,
    ) -> Self {
        let events = Self { policy, on_state_change, on_error, telling: AtomicBool::new(false) };
        events.measure_state(State::Closed);
        events
    }

    /// Tells of all changes, in their order and one after the other. Whoever comes meanwhile leaves theirs to who is at it, so a
    /// callback may use the hybrid that it is told of.
    pub(super) fn tell_changes(&self, gate: &Gate) {
        // What is pushed after the last look below is seen by who pushed it, as the flag is down again then.
        while let Some(first) = self.begin(gate) {
            let mut next = Some(first);
            while let Some(change) = next {
                self.tell(change);
                next = gate.next_change();
            }
            self.telling.store(false, SeqCst);
        }
    }

    fn begin(&self, gate: &Gate) -> Option<Change> {
        if self.telling.swap(true, SeqCst) {
            return None;
        }
        let first = gate.next_change();
        if first.is_none() {
            self.telling.store(false, SeqCst);
        }
        first
    }

    fn tell(&self, Change { from, to }: Change) {
        self.measure_state(to);
        #[cfg(feature = "metrics")]
        metrics::counter!("peerlimit_failover_transitions_total", "policy" => self.policy, "to" => to.name())
            .increment(1);
        let (policy, was) = (self.policy, from.name());
        match to {
            State::Open => tracing::warn!(policy, was, "the primary fails: the fallback decides"),
            State::HalfOpen => tracing::debug!(policy, was, "looks whether the primary is back"),
            State::Closed => tracing::info!(policy, was, "the primary is back"),
        }
        if let Some(callback) = &self.on_state_change {
            guarded("on_state_change", || callback(from, to));
        }
    }

    /// Tells of a failure. It goes to the log in detail only, as there is one a call.
    pub(super) fn tell_failure<E: Error + 'static>(&self, side: Side, failure: &Failure<E>) {
        #[cfg(feature = "metrics")]
        {
            let kind = match failure {
                Failure::Error(_) => "error",
                Failure::TimedOut(_) => "timeout",
            };
            metrics::counter!(
                "peerlimit_store_errors_total",
                "policy" => self.policy, "side" => side.name(), "kind" => kind
            )
            .increment(1);
        }
        tracing::debug!(policy = self.policy, side = side.name(), error = %failure, "a limiter failed");
        if let Some(callback) = &self.on_error {
            guarded("on_error", || callback(side, failure));
        }
    }

    fn measure_state(&self, state: State) {
        #[cfg(feature = "metrics")]
        metrics::gauge!("peerlimit_failover_state", "policy" => self.policy).set(match state {
            State::Closed => 0.0,
            State::HalfOpen => 1.0,
            State::Open => 2.0,
        });
        #[cfg(not(feature = "metrics"))]
        let _ = state;
    }
}

/// Calls what a user gave. It may fail as it likes: the decision goes on.
fn guarded(name: &str, callback: impl FnOnce()) {
    // Nothing of ours is borrowed mutably by it.
    if catch_unwind(AssertUnwindSafe(callback)).is_err() {
        tracing::error!(callback = name, "a callback panicked");
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("policy", &self.policy).finish_non_exhaustive()
    }
}
