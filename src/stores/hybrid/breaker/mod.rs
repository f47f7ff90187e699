//! Whom to ask: the circuit breaker, without clock, lock or randomness of its own.
//!
//! After M. Nygard, *Release It!* (2007), with a lease for the probe and a cool-off that grows while the primary flaps.

use std::time::Duration;

use crate::bucket::Timestamp;

#[cfg(test)]
mod tests;

/// Whom a [`Hybrid`](super::Hybrid) asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// The primary decides.
    Closed,
    /// The fallback decides, and the primary is left alone until the cool-off is over.
    Open,
    /// The fallback decides, and one caller at a time asks the primary, to see whether it is back.
    HalfOpen,
}

impl State {
    /// Its name in metrics and logs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// From one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) from: State,
    pub(super) to: State,
}

/// Leave to ask the primary. Whoever has one reports what came of it, and that counts only in the era in which it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    era: u64,
    /// Which probe this is; `None` while the breaker is closed.
    probe: Option<u64>,
}

impl Ticket {
    /// That of a closed breaker in `era`.
    pub(super) const fn ordinary(era: u64) -> Self {
        Self { era, probe: None }
    }

    pub(super) const fn is_probe(self) -> bool {
        self.probe.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Failures in a row that open it; at least 1.
    pub(super) failures: u32,
    /// Probes in a row that have to succeed until it closes; at least 1.
    pub(super) successes: u32,
    pub(super) cool_off: Duration,
    /// What a growing cool-off does not pass; at least `cool_off`.
    pub(super) max_cool_off: Duration,
    /// How long a probe may be silent until another one may go.
    pub(super) lease: Duration,
}

/// The state machine. Time never goes back by more than what a clock's unsteadiness is, and it does no harm if it does.
#[derive(Clone, Debug)]
pub(super) struct Breaker {
    settings: Settings,
    phase: Phase,
    /// Raised with every change of state, so that what began before one says nothing after it.
    era: u64,
    /// How often it opened shortly after it had closed.
    flaps: u32,
    /// When it closed last; `None` before it ever opened.
    closed_at: Option<Timestamp>,
    probes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Each failure adds [`Breaker::FAILURE`] to `score`, each success takes one away.
    Closed {
        score: u32,
    },
    Open {
        until: Timestamp,
    },
    HalfOpen {
        successes: u32,
        probe: Option<Probe>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u64,
    until: Timestamp,
}

/// What can be said of a breaker without changing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// All ask the primary, with an ordinary ticket of this era.
    Closed { era: u64 },
    /// Before then all go to the fallback; after it, whoever comes should ask.
    NotBefore(Timestamp),
}

impl Breaker {
    /// What a failure weighs against a success: it opens on failures in a row, and where more than a third of all calls fail.
    const FAILURE: u32 = 2;
    /// The largest part of the cool-off that chance takes off, so that replicas do not all probe at once: one in this many.
    const JITTER: u32 = 5;

    pub(super) const fn new(settings: Settings) -> Self {
        Self { settings, phase: Phase::Closed { score: 0 }, era: 0, flaps: 0, closed_at: None, probes: 0 }
    }

    pub(super) const fn state(&self) -> State {
        match self.phase {
            Phase::Closed { .. } => State::Closed,
            Phase::Open { .. } => State::Open,
            Phase::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// Whether failures are on record that a success would take away.
    pub(super) const fn is_troubled(&self) -> bool {
        !matches!(self.phase, Phase::Closed { score: 0 })
    }

    pub(super) const fn outlook(&self) -> Outlook {
        match self.phase {
            Phase::Closed { .. } => Outlook::Closed { era: self.era },
            Phase::Open { until } | Phase::HalfOpen { probe: Some(Probe { until, .. }), .. } => {
                Outlook::NotBefore(until)
            }
            Phase::HalfOpen { probe: None, .. } => Outlook::NotBefore(Timestamp::ZERO),
        }
    }

    /// Whether this call may ask the primary. `None`: the fallback is to decide.
    pub(super) fn ask(&mut self, now: Timestamp) -> (Option<Ticket>, Option<Change>) {
        let change = match self.phase {
            Phase::Closed { .. } => return (Some(Ticket::ordinary(self.era)), None),
            Phase::Open { until } | Phase::HalfOpen { probe: Some(Probe { until, .. }), .. } if now < until => {
                return (None, None);
            }
            Phase::Open { .. } => Some(self.turn(Phase::HalfOpen { successes: 0, probe: None })),
            // Without a probe, or one that has been silent for too long: its caller is gone without a word.
            Phase::HalfOpen { .. } => None,
        };
        self.probes += 1;
        let number = self.probes;
        if let Phase::HalfOpen { probe, .. } = &mut self.phase {
            *probe = Some(Probe { number, until: now.saturating_add(self.settings.lease) });
        }
        (Some(Ticket { era: self.era, probe: Some(number) }), change)
    }

    /// The primary answered in time.
    pub(super) fn succeeded(&mut self, ticket: Ticket, now: Timestamp) -> Option<Change> {
        if !self.counts(ticket) {
            return None;
        }
        match &mut self.phase {
            Phase::Closed { score } => *score = score.saturating_sub(1),
            Phase::HalfOpen { successes, probe } => {
                *successes += 1;
                *probe = None;
                if *successes >= self.settings.successes {
                    self.closed_at = Some(now);
                    return Some(self.turn(Phase::Closed { score: 0 }));
                }
            }
            Phase::Open { .. } => {}
        }
        None
    }

    /// The primary answered with an error, or not in time. `random` is evenly spread.
    pub(super) fn failed(&mut self, ticket: Ticket, now: Timestamp, random: u64) -> Option<Change> {
        if !self.counts(ticket) {
            return None;
        }
        match &mut self.phase {
            Phase::Closed { score } => {
                *score = score.saturating_add(Self::FAILURE);
                // More than all but the last failure could have brought, however many successes came between.
                if *score <= (self.settings.failures - 1).saturating_mul(Self::FAILURE) {
                    return None;
                }
                // Closed for less than it had been open before: it flaps. What went well for longer is forgiven at once.
                let flapped = self.closed_at.is_some_and(|at| now.saturating_since(at) < self.cool_off());
                self.flaps = if flapped { self.flaps.saturating_add(1) } else { 0 };
            }
            // It is simply not back yet, which is no reason to look more seldom.
            Phase::HalfOpen { .. } => {}
            Phase::Open { .. } => return None,
        }
        let until = now.saturating_add(self.jittered(random));
        Some(self.turn(Phase::Open { until }))
    }

    /// Whoever had the ticket went away before the primary answered, which says nothing of the primary.
    pub(super) fn abandoned(&mut self, ticket: Ticket) {
        if self.counts(ticket)
            && let Phase::HalfOpen { probe, .. } = &mut self.phase
        {
            *probe = None;
        }
    }

    /// Whether the ticket is of this era, and if of a probe, of the present one.
    fn counts(&self, ticket: Ticket) -> bool {
        let probe = match self.phase {
            Phase::HalfOpen { probe, .. } => probe.map(|probe| probe.number),
            Phase::Closed { .. } | Phase::Open { .. } => None,
        };
        ticket.era == self.era && ticket.probe == probe
    }

    fn turn(&mut self, phase: Phase) -> Change {
        let from = self.state();
        self.phase = phase;
        self.era += 1;
        Change { from, to: self.state() }
    }

    /// The cool-off as it is now: twice as long for each time that it flapped.
    fn cool_off(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.flaps).unwrap_or(u32::MAX);
        self.settings.cool_off.saturating_mul(factor).min(self.settings.max_cool_off)
    }

    /// Shorter by up to a fifth, so that it is never longer than what it is set to.
    fn jittered(&self, random: u64) -> Duration {
        let full = self.cool_off();
        let part = (u128::from(random) * (full / Self::JITTER).as_nanos()) >> 64;
        full.saturating_sub(Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX)))
    }
}
