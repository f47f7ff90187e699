//! The two laws by which news from peers moves a bucket.

use super::*;
use crate::bucket::Missing;

/// Permits and levels from nothing to nonsense.
fn permits() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..1_000_u64, 2 => magnitude(u64::MAX - 1), 1 => Just(u64::MAX)]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn neither_law_moves_a_tat_earlier(state in states(), permits in permits(), missing in permits()) {
        let State { gcra, tat, now, .. } = state;
        prop_assert!(gcra.charge(tat, now, permits) >= tat);
        prop_assert!(gcra.raise(tat, now, Missing::from_raw(missing)) >= tat);
    }

    #[test]
    fn nothing_silences_a_key_beyond_two_bursts(state in states(), permits in permits(), missing in permits()) {
        let State { quota, gcra, tat, now } = state;
        let two = gcra.refill_time() * 2 + Duration::from_nanos(2);
        let charged = gcra.charge(gcra.charge(tat, now, permits), now, permits);
        prop_assert!(charged.until_full(now) <= two, "charged to {:?}", charged.until_full(now));
        let raised = gcra.raise(tat, now, Missing::from_raw(missing));
        prop_assert!(raised.until_full(now) <= two, "raised to {:?}", raised.until_full(now));
        // So the full burst is back after two refills whatever came.
        let later = now.saturating_add(two);
        prop_assert!(gcra.admit(charged.max(raised), later, quota.burst_size()).is_some());
    }

    #[test]
    fn a_tat_beyond_the_floor_is_left_alone(state in states(), permits in permits()) {
        let State { gcra, now, .. } = state;
        // The clock went back, or the quota shrank.
        let far = gcra.charge(Tat::FULL, now.saturating_add(Duration::from_secs(3_600)), u64::MAX);
        prop_assert_eq!(gcra.charge(far, now, permits).max(far), gcra.charge(far, now, permits));
        if far.until_full(now) > gcra.refill_time() * 2 + Duration::from_nanos(2) {
            prop_assert_eq!(gcra.charge(far, now, permits), far);
        }
    }

    #[test]
    fn raising_twice_is_raising_once(state in states(), a in permits(), b in permits()) {
        let State { gcra, tat, now, .. } = state;
        let (a, b) = (Missing::from_raw(a), Missing::from_raw(b));
        let once = gcra.raise(tat, now, a);
        prop_assert_eq!(gcra.raise(once, now, a), once);
        prop_assert_eq!(gcra.raise(once, now, b), gcra.raise(gcra.raise(tat, now, b), now, a));
        prop_assert_eq!(gcra.raise(once, now, b), gcra.raise(tat, now, a.max(b)));
    }

    #[test]
    fn charging_in_parts_is_charging_the_sum(state in states(), a in permits(), b in permits()) {
        let State { gcra, tat, now, .. } = state;
        let parts = gcra.charge(gcra.charge(tat, now, a), now, b);
        prop_assert_eq!(parts, gcra.charge(gcra.charge(tat, now, b), now, a));
        // The floor bounds both in the same way.
        prop_assert_eq!(parts, gcra.charge(tat, now, a.saturating_add(b)));
    }

    #[test]
    fn a_charge_is_an_admission_where_both_are_possible(state in states(), share in 0.0..=1.0_f64) {
        let State { quota, gcra, tat, now } = state;
        let cost = (quota.burst_size() as f64 * share) as u64;
        if cost > 0 && let Some(admitted) = gcra.admit(tat, now, cost) {
            prop_assert_eq!(gcra.charge(tat, now, cost), admitted);
        }
    }

    #[test]
    fn nothing_to_say_changes_nothing(state in states()) {
        let State { gcra, tat, now, .. } = state;
        prop_assert_eq!(gcra.charge(tat, now, 0), tat);
        prop_assert_eq!(gcra.raise(tat, now, Missing::default()), tat);
    }

    #[test]
    fn a_level_that_is_passed_on_never_over_charges(state in states(), since in 0..TEN_YEARS) {
        let State { gcra, tat, now, .. } = state;
        let level = gcra.missing(tat, now);
        // The reader's clock is another one: only what is missing crosses.
        let elsewhere = Timestamp::from_nanos(since);
        let copy = gcra.raise(Tat::FULL, elsewhere, level);
        prop_assert!(copy.until_full(elsewhere) <= tat.until_full(now));
        // And it loses less than one fraction of a permit, and a tick.
        let lost = tat.until_full(now) - copy.until_full(elsewhere);
        let fraction = Duration::from_nanos(gcra.interval() / 16 / 65_536 + 2);
        prop_assert!(lost <= fraction, "lost {lost:?}");
        // A level that comes back to where it came from is no news.
        prop_assert_eq!(gcra.raise(tat, now, level), tat);
    }

    #[test]
    fn a_level_besides_unsent_permits_is_that_of_who_did_not_admit_them(state in states(), permits in any::<u64>()) {
        let State { gcra, tat, now, .. } = state;
        // Never wraps, never more than the whole level.
        prop_assert!(gcra.missing_besides(tat, now, permits) <= gcra.missing(tat, now));
        // Admitting permits into a bucket that is not full leaves the level besides them as it was.
        let few = permits % 8;
        if tat.until_full(now) > Duration::ZERO && let Some(after) = gcra.admit(tat, now, few) {
            prop_assert_eq!(gcra.missing_besides(after, now, few), gcra.missing(tat, now));
        }
    }
}

#[test]
fn a_debt_is_worked_off_before_anything_passes() {
    let gcra = Gcra::new(&Quota::per_second(10));
    let now = Timestamp::from_millis(1_000);
    let floor = gcra.charge(Tat::FULL, now, u64::MAX);
    assert_eq!(floor.until_full(now), Duration::from_secs(2));
    let decision = gcra.refused(floor, now, 1);
    assert_eq!((decision.remaining, decision.retry_after), (0, Some(Duration::from_millis(1_100))));
    // At cost 0 an admission says whether there is a debt.
    assert_eq!(gcra.admit(floor, now, 0), None);
    assert_eq!(gcra.admit(floor, Timestamp::from_millis(2_000), 0), Some(floor));
}
