//! Notices that this node did not run for a while: a process that was stopped, a host that slept.

use std::time::Duration;

use crate::bucket::Timestamp;

/// What the turns of a node say of the time between them.
///
/// A node that runs takes a turn at least every flush. After a longer rest it finds what the operating system kept for it:
/// datagrams that came at any time since, most of them early on, since their room is soon full. Taken for news they would
/// charge a minute's consumption at once and refuse what no central bucket refuses (P2). They are taken instead as if they
/// had come when the rest began, which never charges too much, and levels come from members that did not rest.
#[derive(Debug)]
pub(super) struct Pauses {
    /// Longer rests are pauses.
    longest_rest: Duration,
    last_turn: Timestamp,
    /// The last pause, as long as what waited in it may still come.
    last_pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    began: Timestamp,
    /// What comes from then on did not wait.
    drained: Timestamp,
}

impl Pauses {
    /// How far a turn may be late: a busy machine, but short against any refill time that a user would notice.
    const LATE: Duration = Duration::from_secs(1);
    /// How long it takes to read what waited: long against some hundred datagrams, short against what is lost by it.
    const DRAIN: Duration = Duration::from_millis(250);

    pub(super) fn new(sync_interval: Duration, now: Timestamp) -> Self {
        Self { longest_rest: sync_interval.saturating_add(Self::LATE), last_turn: now, last_pause: None }
    }

    /// Notes a turn. Returns whether a pause ends with it.
    pub(super) fn turn(&mut self, now: Timestamp) -> bool {
        let began = self.last_turn;
        self.last_turn = began.max(now);
        let paused = now.saturating_since(began) > self.longest_rest;
        if paused {
            self.last_pause = Some(Pause { began, drained: now.saturating_add(Self::DRAIN) });
        }
        paused
    }

    /// When what arrives at `now` may have been sent at the earliest, the delay of the network aside.
    pub(super) fn arrival(&self, now: Timestamp) -> Timestamp {
        self.last_pause.filter(|pause| now < pause.drained).map_or(now, |pause| pause.began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn what_waited_arrives_when_the_pause_began() {
        let mut pauses = Pauses::new(Duration::from_millis(200), at(0));
        for turn in 1..=10 {
            assert!(!pauses.turn(at(turn * 200)));
            assert_eq!(pauses.arrival(at(turn * 200)), at(turn * 200));
        }
        // Late by no more than a busy machine is.
        assert!(!pauses.turn(at(3_200)));
        assert!(pauses.turn(at(63_200)));
        assert_eq!(pauses.arrival(at(63_200)), at(3_200));
        assert!(!pauses.turn(at(63_300)));
        assert_eq!(pauses.arrival(at(63_449)), at(3_200));
        assert_eq!(pauses.arrival(at(63_450)), at(63_450));
    }

    #[test]
    fn a_clock_that_goes_back_is_no_pause() {
        let mut pauses = Pauses::new(Duration::from_millis(200), at(10_000));
        assert!(!pauses.turn(at(5_000)));
        assert!(!pauses.turn(at(10_100)));
        assert_eq!(pauses.arrival(at(10_100)), at(10_100));
    }
}
