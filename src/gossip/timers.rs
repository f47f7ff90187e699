//! foca's timers.

use std::collections::BinaryHeap;

use foca::Timer;

use crate::bucket::Timestamp;

use super::wire::Identity;

/// foca's timers by deadline.
///
/// foca orders a [`Timer`] by its kind alone, so a map from (deadline, timer) would lose equal ones: a sequence
/// number tells them apart.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Pending>,
    sequence: u64,
    due: Vec<Pending>,
}

#[derive(Debug)]
struct Pending {
    deadline: Timestamp,
    sequence: u64,
    timer: Timer<Identity>,
}

impl Timers {
    pub(super) fn push(&mut self, deadline: Timestamp, timer: Timer<Identity>) {
        self.sequence += 1;
        self.heap.push(Pending { deadline, sequence: self.sequence, timer });
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.heap.peek().map(|pending| pending.deadline)
    }

    /// Takes the timers that are due. Where several are, because the process was held up, they come in foca's order
    /// of kinds and not in that of their deadlines: foca relies on it to end a probe before the next one begins.
    pub(super) fn take_due(&mut self, now: Timestamp) -> impl Iterator<Item = Timer<Identity>> + '_ {
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.due.extend(self.heap.pop());
        }
        self.due.sort_by(|a, b| (&a.timer, a.deadline, a.sequence).cmp(&(&b.timer, b.deadline, b.sequence)));
        self.due.drain(..).map(|pending| pending.timer)
    }
}

impl Ord for Pending {
    /// Reversed: the heap yields its greatest first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.deadline, &other.timer, other.sequence).cmp(&(self.deadline, &self.timer, self.sequence))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pending {}
