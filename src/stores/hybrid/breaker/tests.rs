//! The breaker's rules one by one, and its laws under any sequence of events.

use proptest::prelude::*;

use super::*;

const SETTINGS: Settings = Settings {
    failures: 5,
    successes: 3,
    cool_off: Duration::from_secs(5),
    max_cool_off: Duration::from_secs(60),
    lease: Duration::from_millis(100),
};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn breaker() -> Breaker {
    Breaker::new(SETTINGS)
}

fn ticket(breaker: &mut Breaker, now: Timestamp) -> Ticket {
    breaker.ask(now).0.expect("a ticket")
}

/// Fails until it is open.
fn open(breaker: &mut Breaker, now: Timestamp) {
    while breaker.state() != State::Open {
        let ticket = ticket(breaker, now);
        breaker.failed(ticket, now, 0);
    }
}

/// Probes until it is closed.
fn close(breaker: &mut Breaker, now: Timestamp) {
    while breaker.state() != State::Closed {
        let ticket = ticket(breaker, now);
        breaker.succeeded(ticket, now);
    }
}

/// How long it stays open.
fn cool_off(breaker: &Breaker, now: Timestamp) -> Duration {
    match breaker.outlook() {
        Outlook::NotBefore(until) => until.saturating_since(now),
        Outlook::Closed { .. } => Duration::ZERO,
    }
}

#[test]
fn it_opens_on_failures_in_a_row_and_not_before() {
    let mut breaker = breaker();
    for _ in 0..4 {
        let ticket = ticket(&mut breaker, at(0));
        assert_eq!(breaker.failed(ticket, at(0), 0), None);
    }
    let last = ticket(&mut breaker, at(0));
    assert_eq!(breaker.failed(last, at(0), 0), Some(Change { from: State::Closed, to: State::Open }));
    assert_eq!(breaker.ask(at(4_999)), (None, None));
}

#[test]
fn one_failure_is_enough_where_it_is_set_so() {
    let mut breaker = Breaker::new(Settings { failures: 1, ..SETTINGS });
    let ticket = ticket(&mut breaker, at(0));
    assert!(breaker.failed(ticket, at(0), 0).is_some());
}

#[test]
fn failures_now_and_then_do_not_open_it_and_every_second_one_does() {
    let (mut seldom, mut often) = (breaker(), breaker());
    for call in 0..1_000 {
        let (one, other) = (ticket(&mut seldom, at(call)), Ticket::ordinary(0));
        if call % 4 == 0 {
            seldom.failed(one, at(call), 0)
        } else {
            seldom.succeeded(one, at(call))
        };
        if call % 2 == 0 {
            often.failed(other, at(call), 0)
        } else {
            often.succeeded(other, at(call))
        };
    }
    assert_eq!((seldom.state(), often.state()), (State::Closed, State::Open));
}

#[test]
fn one_caller_at_a_time_probes_after_the_cool_off() {
    let mut breaker = breaker();
    open(&mut breaker, at(0));
    let (probe, change) = breaker.ask(at(5_000));
    assert_eq!(change, Some(Change { from: State::Open, to: State::HalfOpen }));
    for _ in 0..100 {
        assert_eq!(breaker.ask(at(5_050)), (None, None));
    }
    assert_eq!(breaker.succeeded(probe.expect("a probe"), at(5_050)), None);
    assert!(breaker.ask(at(5_050)).0.is_some());
}

#[test]
fn it_closes_after_probes_in_a_row_and_a_failed_one_opens_it_again() {
    let mut breaker = breaker();
    open(&mut breaker, at(0));
    for _ in 0..2 {
        let probe = ticket(&mut breaker, at(5_000));
        assert_eq!(breaker.succeeded(probe, at(5_000)), None);
    }
    let probe = ticket(&mut breaker, at(5_000));
    assert_eq!(breaker.failed(probe, at(5_000), 0), Some(Change { from: State::HalfOpen, to: State::Open }));
    for left in [None, None, Some(Change { from: State::HalfOpen, to: State::Closed })] {
        let probe = ticket(&mut breaker, at(10_000));
        assert_eq!(breaker.succeeded(probe, at(10_000)), left);
    }
}

#[test]
fn a_probe_whose_caller_went_away_leaves_its_place_to_the_next() {
    let mut breaker = breaker();
    open(&mut breaker, at(0));
    let probe = ticket(&mut breaker, at(5_000));
    breaker.abandoned(probe);
    let next = ticket(&mut breaker, at(5_001));
    // What the first one still has to say is of no interest.
    assert_eq!(breaker.failed(probe, at(5_001), 0), None);
    breaker.abandoned(probe);
    assert_eq!(breaker.ask(at(5_001)), (None, None), "the second probe is under way");
    breaker.succeeded(next, at(5_002));
    assert!(breaker.ask(at(5_002)).0.is_some());
}

#[test]
fn a_probe_that_is_never_heard_of_again_loses_its_lease() {
    let mut breaker = breaker();
    open(&mut breaker, at(0));
    let _lost = ticket(&mut breaker, at(5_000));
    assert_eq!(breaker.ask(at(5_099)), (None, None));
    assert!(breaker.ask(at(5_100)).0.is_some());
}

#[test]
fn what_began_before_it_opened_does_not_close_it_nor_open_it_again() {
    let mut breaker = breaker();
    let early = ticket(&mut breaker, at(0));
    open(&mut breaker, at(1));
    assert_eq!(breaker.succeeded(early, at(2)), None);
    assert_eq!(breaker.state(), State::Open);
    let _probe = ticket(&mut breaker, at(5_001));
    for _ in 0..10 {
        assert_eq!(breaker.succeeded(early, at(5_002)), None);
    }
    assert_eq!(breaker.state(), State::HalfOpen);
    breaker.abandoned(_probe);
    close(&mut breaker, at(5_003));
    for _ in 0..10 {
        assert_eq!(breaker.failed(early, at(5_004), 0), None);
    }
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn chance_takes_up_to_a_fifth_off_the_cool_off() {
    for (random, expected) in [(0, 5.0), (u64::MAX / 2, 4.5), (u64::MAX, 4.0)] {
        let mut breaker = Breaker::new(Settings { failures: 1, ..SETTINGS });
        let ticket = ticket(&mut breaker, at(0));
        breaker.failed(ticket, at(0), random);
        let wait = cool_off(&breaker, at(0)).as_secs_f64();
        assert!((wait - expected).abs() < 1e-6, "{wait}");
    }
}

#[test]
fn the_cool_off_doubles_while_it_flaps_up_to_a_bound_and_is_short_again_after_a_healthy_time() {
    let mut breaker = breaker();
    let mut now = at(0);
    for expected in [5, 10, 20, 40, 60, 60] {
        open(&mut breaker, now);
        let wait = cool_off(&breaker, now);
        assert_eq!(wait, Duration::from_secs(expected));
        now = now.saturating_add(wait);
        close(&mut breaker, now);
        now = now.saturating_add(Duration::from_millis(500));
    }
    now = now.saturating_add(Duration::from_secs(60));
    open(&mut breaker, now);
    assert_eq!(cool_off(&breaker, now), Duration::from_secs(5));
}

#[test]
fn a_long_outage_does_not_make_the_cool_off_longer() {
    let mut breaker = breaker();
    open(&mut breaker, at(0));
    let mut now = at(5_000);
    for _ in 0..100 {
        let probe = ticket(&mut breaker, now);
        breaker.failed(probe, now, 0);
        assert_eq!(cool_off(&breaker, now), Duration::from_secs(5));
        now = now.saturating_add(Duration::from_secs(5));
    }
}

/// A primary that is up for half a second and down for the next, a hundred calls a second, ten minutes.
#[test]
fn a_primary_that_flaps_once_a_second_does_not_flap_the_limiter() {
    let mut breaker = breaker();
    let mut changes = 0;
    for millis in (0..600_000).step_by(10) {
        let up = (millis / 500) % 2 == 0;
        let (ticket, change) = breaker.ask(at(millis));
        let Some(ticket) = ticket else { continue };
        let random = millis.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let result =
            if up { breaker.succeeded(ticket, at(millis)) } else { breaker.failed(ticket, at(millis), random) };
        changes += u32::from(change.is_some()) + u32::from(result.is_some());
    }
    // 1,200 changes of the primary. Three for each time that it is tried: opened, half open, closed or open again.
    assert!((10..120).contains(&changes), "{changes} changes of state");
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Ask,
    /// What becomes of one of the calls that are under way.
    Succeed(usize),
    Fail(usize, u64),
    Abandon(usize),
    /// It is never heard of again.
    Forget(usize),
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => Just(Event::Ask),
        2 => any::<usize>().prop_map(Event::Succeed),
        4 => (any::<usize>(), any::<u64>()).prop_map(|(call, random)| Event::Fail(call, random)),
        1 => any::<usize>().prop_map(Event::Abandon),
        1 => any::<usize>().prop_map(Event::Forget),
        3 => (0..8_000_u64).prop_map(Event::Pass),
    ]
}

proptest! {
    #[test]
    fn it_keeps_its_laws_under_any_sequence_of_events(events in prop::collection::vec(event(), 1..400)) {
        let mut breaker = breaker();
        let (mut now, mut calls, mut lease) = (at(1), Vec::<Ticket>::new(), at(0));
        for event in events {
            let (before, outlook) = (breaker.state(), breaker.outlook());
            let pick = |calls: &mut Vec<Ticket>, call: usize| (!calls.is_empty()).then(|| calls.swap_remove(call % calls.len()));
            match event {
                Event::Pass(millis) => now = now.saturating_add(Duration::from_millis(millis)),
                Event::Ask => {
                    let (ticket, change) = breaker.ask(now);
                    match outlook {
                        Outlook::Closed { era } => prop_assert_eq!((ticket, change), (Some(Ticket::ordinary(era)), None)),
                        Outlook::NotBefore(until) if now < until => prop_assert_eq!((ticket, change), (None, None)),
                        Outlook::NotBefore(_) => {
                            prop_assert!(ticket.is_some_and(Ticket::is_probe));
                            let under_way = calls.iter().any(|call| call.is_probe() && breaker.counts(*call));
                            prop_assert!(!under_way || now >= lease, "two probes at once");
                            lease = now.saturating_add(SETTINGS.lease);
                        }
                    }
                    calls.extend(ticket);
                }
                Event::Forget(call) => drop(pick(&mut calls, call)),
                Event::Abandon(call) => if let Some(ticket) = pick(&mut calls, call) {
                    breaker.abandoned(ticket);
                    prop_assert_eq!(breaker.state(), before);
                },
                Event::Succeed(call) => if let Some(ticket) = pick(&mut calls, call) {
                    let counted = breaker.counts(ticket);
                    let change = breaker.succeeded(ticket, now);
                    prop_assert!(counted || change.is_none());
                    // Only a probe closes it.
                    prop_assert!(change.is_none() || ticket.is_probe() && breaker.state() == State::Closed);
                },
                Event::Fail(call, random) => if let Some(ticket) = pick(&mut calls, call) {
                    let counted = breaker.counts(ticket);
                    let change = breaker.failed(ticket, now, random);
                    prop_assert!(counted || change.is_none());
                    if change.is_some() {
                        let wait = cool_off(&breaker, now);
                        prop_assert_eq!(breaker.state(), State::Open);
                        prop_assert!(wait >= SETTINGS.cool_off * 4 / 5 && wait <= SETTINGS.max_cool_off, "{:?}", wait);
                    }
                },
            }
            // Never wedged: whatever is under way, somebody gets to the primary soon.
            let mut later = breaker.clone();
            let soon = now.saturating_add(SETTINGS.max_cool_off.max(SETTINGS.lease));
            prop_assert!(later.ask(soon).0.is_some());
        }
    }

    #[test]
    fn enough_failures_in_a_row_open_it_whatever_was_before(successes in 0..50_u32, failures in 1..20_u32) {
        let mut breaker = Breaker::new(Settings { failures, ..SETTINGS });
        for _ in 0..successes {
            breaker.succeeded(Ticket::ordinary(0), at(0));
        }
        for failure in 1..=failures {
            let change = breaker.failed(Ticket::ordinary(0), at(0), 0);
            prop_assert_eq!(change.is_some(), failure == failures);
        }
    }
}
