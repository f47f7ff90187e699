//! The breaker, shared by all callers: a word that most of them only read, and a lock for the others.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use crate::bucket::Timestamp;

use super::breaker::{Breaker, Change, Outlook, Settings, State, Ticket};

/// While the primary is well, or left alone, no lock is taken.
#[derive(Debug)]
pub(super) struct Gate {
    /// The breaker's [`Outlook`]: [`Gate::CLOSED`] and the era, or the nanoseconds before which the fallback decides.
    ///
    /// Relaxed everywhere: only the value matters. A stale one costs a look under the lock, or a call that goes where it would
    /// have gone a moment ago; what comes of it is judged under the lock by its ticket.
    word: AtomicU64,
    /// Whether a success has to be reported.
    troubled: AtomicBool,
    breaker: Mutex<Breaker>,
    /// Changes that nobody was told of yet, in their order: pushed under the lock of the breaker.
    changes: Mutex<VecDeque<Change>>,
}

impl Gate {
    /// The highest bit. As a time it would be 292 years after the start.
    const CLOSED: u64 = 1 << 63;

    pub(super) fn new(settings: Settings) -> Self {
        let breaker = Breaker::new(settings);
        Self {
            word: AtomicU64::new(word(breaker.outlook())),
            troubled: AtomicBool::new(false),
            breaker: breaker.into(),
            changes: Mutex::default(),
        }
    }

    /// Time until the primary may be asked.
    pub(super) fn wait(&self, now: Timestamp) -> Duration {
        let word = self.word.load(Relaxed);
        let until = if word & Self::CLOSED != 0 { Timestamp::ZERO } else { Timestamp::from_nanos(word) };
        until.saturating_since(now)
    }

    /// What the breaker was a moment ago.
    pub(super) fn state(&self) -> State {
        self.breaker.lock().state()
    }

    /// Whether the primary decides.
    pub(super) fn is_closed(&self) -> bool {
        self.word.load(Relaxed) & Self::CLOSED != 0
    }

    /// Whether the primary decides, and no failure of it is on record.
    pub(super) fn is_calm(&self) -> bool {
        self.is_closed() && !self.troubled.load(Relaxed)
    }

    /// Whether a caller goes to the primary or the fallback, where that is known without a probe.
    pub(super) fn glance(&self, now: impl FnOnce() -> Timestamp) -> Glance {
        let word = self.word.load(Relaxed);
        if word & Self::CLOSED != 0 {
            Glance::Primary(Ticket::ordinary(word & !Self::CLOSED))
        } else if now().as_nanos() < word {
            Glance::Fallback
        } else {
            Glance::Probe
        }
    }

    /// As [`Breaker::ask`].
    pub(super) fn ask(&self, now: Timestamp) -> (Option<Ticket>, Option<Change>) {
        match self.glance(|| now) {
            Glance::Primary(ticket) => (Some(ticket), None),
            Glance::Fallback => (None, None),
            Glance::Probe => self.update(|breaker| {
                let (ticket, change) = breaker.ask(now);
                self.note(change);
                (ticket, change)
            }),
        }
    }

    /// As [`Breaker::succeeded`].
    pub(super) fn succeeded(&self, ticket: Ticket, now: impl FnOnce() -> Timestamp) -> Option<Change> {
        if !ticket.is_probe() && !self.troubled.load(Relaxed) {
            return None;
        }
        self.update(|breaker| self.note(breaker.succeeded(ticket, now())))
    }

    /// As [`Breaker::failed`].
    pub(super) fn failed(&self, ticket: Ticket, now: Timestamp, random: u64) -> Option<Change> {
        self.update(|breaker| self.note(breaker.failed(ticket, now, random)))
    }

    /// As [`Breaker::abandoned`].
    pub(super) fn abandoned(&self, ticket: Ticket) {
        if ticket.is_probe() {
            self.update(|breaker| breaker.abandoned(ticket));
        }
    }

    /// The oldest change that nobody was told of.
    pub(super) fn next_change(&self) -> Option<Change> {
        self.changes.lock().pop_front()
    }

    fn note(&self, change: Option<Change>) -> Option<Change> {
        self.changes.lock().extend(change);
        change
    }

    fn update<T>(&self, update: impl FnOnce(&mut Breaker) -> T) -> T {
        let mut breaker = self.breaker.lock();
        let updated = update(&mut breaker);
        self.word.store(word(breaker.outlook()), Relaxed);
        self.troubled.store(breaker.is_troubled(), Relaxed);
        updated
    }
}

/// What a look at the gate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Glance {
    Primary(Ticket),
    Fallback,
    /// The primary may be asked by one caller.
    Probe,
}

fn word(outlook: Outlook) -> u64 {
    match outlook {
        Outlook::Closed { era } => Gate::CLOSED | era,
        Outlook::NotBefore(until) => until.as_nanos().min(Gate::CLOSED - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn it_says_what_the_breaker_says() {
        let second = Duration::from_secs(1);
        let settings = Settings { failures: 2, successes: 1, cool_off: second, max_cool_off: second, lease: second };
        let gate = Gate::new(settings);
        let Glance::Primary(ticket) = gate.glance(|| at(0)) else { panic!("closed") };
        assert!(gate.is_calm());
        assert_eq!(gate.failed(ticket, at(0), 0), None);
        assert!(gate.is_closed() && !gate.is_calm());
        // One success takes away half of a failure.
        assert_eq!(gate.succeeded(ticket, || at(0)), None);
        assert_eq!(gate.succeeded(ticket, || at(0)), None);
        assert!(gate.is_calm());
        assert_eq!(gate.failed(ticket, at(0), 0), None);
        assert!(gate.failed(ticket, at(0), 0).is_some());
        assert_eq!((gate.is_closed(), gate.state()), (false, State::Open));
        assert_eq!(gate.glance(|| at(999)), Glance::Fallback);
        assert_eq!(gate.glance(|| at(1_000)), Glance::Probe);
        assert_eq!(gate.state(), State::Open, "a look changes nothing");
        let (probe, _) = gate.ask(at(1_000));
        assert_eq!((gate.glance(|| at(1_000)), gate.state()), (Glance::Fallback, State::HalfOpen));
        gate.abandoned(probe.unwrap());
        assert_eq!(gate.glance(|| at(1_000)), Glance::Probe);
        let (probe, _) = gate.ask(at(1_000));
        assert!(gate.succeeded(probe.unwrap(), || at(1_000)).is_some());
        assert!(gate.is_closed());
    }

    #[test]
    fn a_clock_at_its_end_does_not_pass_for_a_closed_breaker() {
        let settings = Settings {
            failures: 1,
            successes: 1,
            cool_off: Duration::MAX,
            max_cool_off: Duration::MAX,
            lease: Duration::MAX,
        };
        let gate = Gate::new(settings);
        let (ticket, _) = gate.ask(Timestamp::MAX);
        assert!(gate.failed(ticket.unwrap(), Timestamp::MAX, 0).is_some());
        assert!(!gate.is_closed());
    }
}
