//! What a decision promises.

use super::*;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_stated_wait_is_exact(state in states(), share in 0.0..=1.0_f64) {
        let State { quota, gcra, tat, now } = state;
        let cost = ((quota.burst_size() as f64 * share) as u64).clamp(1, quota.burst_size());
        if gcra.admit(tat, now, cost).is_some() {
            return Ok(());
        }
        let wait = gcra.refused(tat, now, cost).retry_after.expect("the cost is within the burst");
        prop_assert!(wait > Duration::ZERO);
        let on_time = now.saturating_add(wait);
        if on_time > LIFETIME {
            return Ok(());
        }
        let early = on_time.saturating_sub(Duration::from_nanos(1));
        prop_assert!(gcra.admit(tat, early, cost).is_none(), "passes 1 ns before its time");
        prop_assert!(gcra.admit(tat, on_time, cost).is_some(), "does not pass on time");
    }

    #[test]
    fn what_remains_passes_right_now_and_one_more_does_not(state in states()) {
        let State { quota, gcra, tat, now } = state;
        let remaining = gcra.refused(tat, now, 1).remaining;
        prop_assert!(remaining <= quota.burst_size());
        prop_assert!(remaining == 0 || gcra.admit(tat, now, remaining).is_some());
        prop_assert!(gcra.admit(tat, now, remaining + 1).is_none());
    }

    #[test]
    fn a_bucket_is_full_when_it_said_it_would_be_and_not_before(state in states()) {
        let State { quota, gcra, tat, now } = state;
        let reset = gcra.refused(tat, now, 1).reset_after;
        let then = now.saturating_add(reset);
        if then > LIFETIME {
            return Ok(());
        }
        prop_assert!(gcra.admit(tat, then, quota.burst_size()).is_some());
        prop_assert!(tat.is_full_since(then));
        if !reset.is_zero() {
            let early = then.saturating_sub(Duration::from_nanos(1));
            prop_assert!(gcra.admit(tat, early, quota.burst_size()).is_none());
        }
    }

    #[test]
    fn a_cost_above_the_burst_is_impossible_and_costs_nothing(state in states(), beyond in magnitude(u64::MAX - (1 << 32))) {
        let State { quota, gcra, mut tat, now } = state;
        let before = tat;
        for cost in [quota.burst_size() + 1, quota.burst_size() + beyond, 200_000_000_000, u64::MAX] {
            let decision = decide(&gcra, &mut tat, now, cost);
            prop_assert!(decision.is_impossible(), "{cost}: {decision:?}");
            prop_assert_eq!(decision.retry_after, None);
            prop_assert_eq!(tat, before);
        }
    }

    #[test]
    fn a_clock_that_goes_back_or_stands_still_is_survived(
        quota in quotas(),
        steps in prop::collection::vec((0..TEN_YEARS, 0..4_u64), 1..40),
    ) {
        let gcra = Gcra::new(&quota);
        let mut tat = Tat::FULL;
        for (now, cost) in steps {
            let now = Timestamp::from_nanos(now);
            for _ in 0..2 {
                let decision = decide(&gcra, &mut tat, now, cost);
                prop_assert!(decision.remaining <= quota.burst_size());
            }
        }
    }

    #[test]
    fn no_window_admits_more_than_its_burst_and_its_rate(
        quota in quotas(),
        steps in prop::collection::vec((0..=4_u32, 0.0..1.5_f64, 0.0..1.2_f64), 1..60),
    ) {
        let gcra = Gcra::new(&quota);
        let (mut tat, mut now) = (Tat::FULL, Timestamp::from_millis(1));
        let mut passed: Vec<(u64, u64)> = Vec::new();
        for (small, gap, share) in steps {
            // Most gaps are a few permits long, some as long as a refill.
            let gap = quota.refill_time().as_nanos() as f64 * gap / 10_f64.powi(small as i32);
            now = now.saturating_add(Duration::from_nanos(gap as u64));
            if now > LIFETIME {
                break;
            }
            let cost = ((quota.burst_size() as f64 * share / 10_f64.powi(small as i32)) as u64).max(1);
            if decide(&gcra, &mut tat, now, cost).allowed {
                passed.push((now.as_nanos(), cost));
            }
        }
        for first in 0..passed.len() {
            let mut sum = 0_u128;
            for (at, cost) in &passed[first..] {
                sum += u128::from(*cost);
                let window = u128::from(at - passed[first].0) * u128::from(quota.count());
                // The rate may be off by 0.0032 %; the rest is `burst + rate * window + 1`.
                let allowed = (u128::from(quota.burst_size()) + 1) * quota.period().as_nanos() + window + window * 32 / 1_000_000;
                prop_assert!(sum * quota.period().as_nanos() <= allowed, "{sum} permits in a window of {} ns", at - passed[first].0);
            }
        }
    }
}

#[test]
fn a_full_bucket_admits_exactly_its_burst() {
    for quota in [Quota::per_second(1), Quota::per_second(7), Quota::per_day(3), Quota::per_second(1_000_000)] {
        let gcra = Gcra::new(&quota);
        let now = Timestamp::from_millis(5);
        let mut tat = Tat::FULL;
        let decision = decide(&gcra, &mut tat, now, quota.burst_size());
        assert!(decision.allowed, "{quota:?}");
        assert_eq!((decision.remaining, decision.retry_after), (0, None));
        assert_eq!(decision.limit, quota.burst_size());
        assert!(!decide(&gcra, &mut tat, now, 1).allowed);
    }
}

#[test]
fn a_cost_of_zero_changes_nothing() {
    let gcra = Gcra::new(&Quota::per_second(10));
    let now = Timestamp::from_millis(5);
    let spent = gcra.admit(Tat::FULL, now, 10).expect("a full bucket");
    assert_eq!(gcra.admit(spent, now, 0), Some(spent));
}

#[test]
fn a_single_permit_comes_back_after_its_interval() {
    // At n per second, 200 ms after the only permit went: what is left of 1/n s, rounded up to nanoseconds.
    let cases =
        [(1, Some(Duration::from_millis(800))), (3, Some(Duration::from_nanos(133_333_334))), (7, None::<Duration>)];
    for (rate, wait) in cases {
        let gcra = Gcra::new(&Quota::per_second(rate).burst(1));
        let start = Timestamp::from_millis(1_000);
        let mut tat = Tat::FULL;
        assert!(decide(&gcra, &mut tat, start, 1).allowed);
        let later = start.saturating_add(Duration::from_millis(200));
        let decision = decide(&gcra, &mut tat.clone(), later, 1);
        assert_eq!(decision.retry_after, wait, "{rate} per second");
        // 7 per second takes 142.9 ms, so it passes at once.
        let then = later.saturating_add(wait.unwrap_or_default());
        assert!(decide(&gcra, &mut tat, then, 1).allowed, "{rate} per second");
    }
    let gcra = Gcra::new(&Quota::per_second(7).burst(1));
    let mut tat = Tat::FULL;
    assert!(decide(&gcra, &mut tat, Timestamp::ZERO, 1).allowed);
    let decision = decide(&gcra, &mut tat, Timestamp::from_millis(100), 1);
    assert_eq!(decision.retry_after, Some(Duration::from_nanos(42_857_143)));
}

#[test]
fn after_any_idle_time_exactly_one_burst_is_there() {
    let quotas = [
        Quota::per_second(10),
        Quota::per_second(1_000_000).burst(Quota::MAX_BURST),
        Quota::every(Duration::from_nanos(1_000)).burst(Quota::MAX_BURST),
        Quota::per_day(1).burst(3650),
    ];
    let hour = Duration::from_secs(3_600);
    for quota in quotas {
        for idle in [12 * hour, 30 * 24 * hour, 10 * 365 * 24 * hour] {
            let gcra = Gcra::new(&quota);
            let start = Timestamp::from_millis(1);
            let mut tat = Tat::FULL;
            assert!(decide(&gcra, &mut tat, start, quota.burst_size()).allowed);
            let later = start.saturating_add(idle.max(quota.refill_time() + Duration::from_secs(1)));
            let decision = gcra.allowed(tat, later);
            assert_eq!(decision.remaining, quota.burst_size(), "{quota:?} after {idle:?}");
            assert!(decide(&gcra, &mut tat, later, quota.burst_size()).allowed);
            assert!(!decide(&gcra, &mut tat, later, 1).allowed);
        }
    }
}

#[test]
fn credit_for_an_idle_spell_is_granted_once() {
    let gcra = Gcra::new(&Quota::per_second(1).burst(10));
    let mut tat = Tat::FULL;
    for _ in 0..10 {
        assert!(decide(&gcra, &mut tat, Timestamp::from_millis(0), 1).allowed);
    }
    let calls = (0..1_000).map(|call| Timestamp::from_millis(30_000 + call));
    let admitted = calls.filter(|now| decide(&gcra, &mut tat, *now, 1).allowed).count();
    assert!((10..=11).contains(&admitted), "admitted {admitted}");
}

#[test]
fn a_clock_that_steps_back_never_shows_more_than_the_burst() {
    let gcra = Gcra::new(&Quota::per_second(10));
    let mut tat = Tat::FULL;
    let (before, after) = (Timestamp::from_millis(10_000), Timestamp::from_millis(8_400));
    assert!(decide(&gcra, &mut tat, before, 1).allowed);
    let decision = gcra.refused(tat, after, 1);
    assert!(decision.remaining <= 10);
    assert_eq!(gcra.allowed(Tat::FULL, Timestamp::ZERO).remaining, 10);
    // And once the clock is where it was, so is the bucket.
    assert_eq!(gcra.allowed(tat, before).remaining, 9);
}

#[test]
fn time_saturates_at_both_ends() {
    assert_eq!(Timestamp::ZERO.saturating_sub(Duration::MAX), Timestamp::ZERO);
    assert_eq!(Timestamp::ZERO.saturating_add(Duration::MAX), Timestamp::MAX);
    assert_eq!(Timestamp::from_millis(u64::MAX), Timestamp::MAX);
    assert_eq!(Timestamp::ZERO.saturating_since(Timestamp::MAX), Duration::ZERO);
}
