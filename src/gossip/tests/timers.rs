//! foca's timers: none is lost, and late ones come in foca's order.

use foca::Timer;

use super::*;
use crate::gossip::{timers::Timers, wire::Identity};

fn member() -> Identity {
    Identity::unknown(SocketAddr::from(([10, 0, 0, 9], 1)))
}

#[test]
fn timers_equal_in_deadline_and_kind_are_all_delivered() {
    let mut timers = Timers::default();
    for _ in 0..3 {
        timers.push(at(10), Timer::PeriodicGossip(1));
        timers.push(at(10), Timer::ProbeRandomMember(1));
        timers.push(at(10), Timer::RemoveDown(member()));
    }
    assert_eq!(timers.next_deadline(), Some(at(10)));
    assert_eq!(timers.take_due(at(9)).count(), 0);
    let due: Vec<_> = timers.take_due(at(10)).collect();
    for kind in [Timer::PeriodicGossip(1), Timer::ProbeRandomMember(1), Timer::RemoveDown(member())] {
        assert_eq!(due.iter().filter(|timer| **timer == kind).count(), 3, "{kind:?}");
    }
    assert_eq!((due.len(), timers.next_deadline()), (9, None));
    assert_eq!(timers.take_due(Timestamp::MAX).count(), 0);
}

#[test]
fn late_timers_come_in_the_order_of_foca() {
    let probe = || Timer::SendIndirectProbe { probed_id: member(), token: 1 };
    let kinds = [Timer::PeriodicAnnounce(1), Timer::ProbeRandomMember(1), probe(), Timer::PeriodicGossip(1)];
    let mut sorted = kinds.to_vec();
    sorted.sort();
    // Whatever the deadlines say, once they are all past.
    for first in 0..kinds.len() {
        let mut timers = Timers::default();
        for (place, kind) in kinds.iter().cycle().skip(first).take(kinds.len()).enumerate() {
            timers.push(at(10 + place as u64), kind.clone());
        }
        assert_eq!(timers.take_due(at(100)).collect::<Vec<_>>(), sorted);
    }
}

#[test]
fn timers_that_are_due_apart_come_apart() {
    let mut timers = Timers::default();
    for millis in [30, 10, 20] {
        timers.push(at(millis), Timer::PeriodicGossip(millis as u8));
    }
    for millis in [10, 20, 30] {
        assert_eq!(timers.next_deadline(), Some(at(millis)));
        assert_eq!(timers.take_due(at(millis)).collect::<Vec<_>>(), [Timer::PeriodicGossip(millis as u8)]);
    }
}
