//! Clocks of several threads that do not agree.

use super::*;

proptest! {
    #![proptest_config(config())]

    /// As far apart as two threads' readings may be: see `net::clock`.
    #[test]
    fn threads_a_millisecond_apart_refuse_no_more_than_what_comes_back_in_a_millisecond(
        quota in quotas(),
        steps in prop::collection::vec((0..=4_u32, 0.0..1.5_f64, 0.0..0.4_f64, 0..=1_000_000_u64), 1..80),
    ) {
        const APART: Duration = Duration::from_millis(1);
        let gcra = Gcra::new(&quota);
        // What the threads did to the bucket, and what it would be if all had read the true time.
        let (mut tat, mut exact) = (Tat::FULL, Tat::FULL);
        let mut now = Timestamp::from_millis(10);
        for (small, gap, share, behind) in steps {
            let gap = quota.refill_time().as_nanos() as f64 * gap / 10_f64.powi(small as i32);
            now = now.saturating_add(Duration::from_nanos(gap as u64));
            if now > LIFETIME {
                break;
            }
            let cost = ((quota.burst_size() as f64 * share / 10_f64.powi(small as i32)) as u64).max(1);
            let read = now.saturating_sub(Duration::from_nanos(behind));
            let would_pass_a_millisecond_ago = gcra.admit(exact, now.saturating_sub(APART), cost).is_some();
            let decision = decide(&gcra, &mut tat, read, cost);
            prop_assert!(decision.remaining <= quota.burst_size());
            if decision.allowed {
                // The bucket never holds more than the exact one, so this cannot be beyond its burst by much.
                exact = gcra.charge(exact, now, cost);
            } else {
                prop_assert!(!would_pass_a_millisecond_ago, "{decision:?} at {now:?}, read as {read:?}");
                let most = gcra.refill_time() + APART;
                prop_assert!(decision.retry_after.is_none_or(|wait| wait <= most), "{decision:?}");
            }
            prop_assert!(tat <= exact, "threads that are behind took more than there was");
        }
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_permit_and_states_no_wait_beyond_what_it_went_back(
        quota in quotas(),
        start in 2_000_000_000..TEN_YEARS,
        calls in prop::collection::vec((0..=1_600_000_000_u64, 0.0..0.3_f64), 1..60),
    ) {
        let gcra = Gcra::new(&quota);
        let (mut tat, mut admitted) = (Tat::FULL, 0);
        let back = Duration::from_millis(1_600);
        for (behind, share) in calls {
            let now = Timestamp::from_nanos(start - behind);
            let cost = ((quota.burst_size() as f64 * share) as u64).max(1);
            let decision = decide(&gcra, &mut tat, now, cost);
            admitted += if decision.allowed { cost } else { 0 };
            prop_assert!(decision.remaining <= quota.burst_size());
            prop_assert!(decision.reset_after <= gcra.refill_time() + back + Duration::from_nanos(1));
            prop_assert!(decision.retry_after.is_none_or(|wait| wait <= gcra.refill_time() + back));
        }
        // All of it within 1.6 s of the clock, wherever in them each call was.
        let came_back = back.as_nanos() as f64 / quota.period().as_nanos() as f64 * quota.count() as f64;
        prop_assert!(admitted as f64 <= quota.burst_size() as f64 + came_back * 1.000_1 + 1.0, "{admitted} admitted");
    }
}
