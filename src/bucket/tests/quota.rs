//! The arithmetic of quotas, and what is no quota.

use super::*;
use crate::bucket::QuotaError;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_rate_is_kept_within_a_hundredth_of_a_percent_over_ten_years(quota in quotas()) {
        // Permits in ten years: kept = ticks / interval, nominal = nanos * count / period. Compared over a common
        // denominator.
        let ticks = u128::from(TEN_YEARS) * 16;
        let (count, period) = (u128::from(quota.count()), quota.period().as_nanos());
        let interval = u128::from(quota.interval_ticks());
        let kept = ticks / interval;
        let (nominal, off) = (u128::from(TEN_YEARS) * count, (kept * period).abs_diff(u128::from(TEN_YEARS) * count));
        // The permit that is under way at the end is not counted yet.
        let off = off.saturating_sub(period);
        prop_assert!(off * 10_000 <= nominal, "{quota:?} keeps {kept} permits instead of {}", nominal / period);
        // What the documentation of `Quota` states.
        prop_assert!(off * 1_000_000 <= nominal * 32, "{quota:?} is off by more than 0.0032 %");
    }

    #[test]
    fn an_interval_is_never_zero_and_a_refill_never_overflows(quota in quotas()) {
        let interval = quota.interval_ticks();
        prop_assert!((16_000..=42_000_000_000_000_000).contains(&interval), "{interval} ticks");
        prop_assert!(quota.burst_size().checked_mul(interval).and_then(|ticks| ticks.checked_mul(2)).is_some());
    }

    #[test]
    fn a_refill_takes_burst_over_rate(quota in quotas()) {
        let exact = u128::from(quota.burst_size()) * quota.period().as_nanos() / u128::from(quota.count());
        prop_assert_eq!(quota.refill_time().as_nanos(), exact);
        // The hot path's own figure differs by the rounding of one interval, burst times.
        let hot = Gcra::new(&quota).refill_time().as_nanos();
        let off = hot.abs_diff(exact) * 32;
        prop_assert!(off <= u128::from(quota.burst_size()) + 64, "{hot} instead of {exact}");
    }

    #[test]
    fn a_constructor_never_panics(count in any::<u64>(), secs in any::<u64>(), nanos in 0..1_000_000_000_u32, burst in any::<u64>()) {
        if let Ok(quota) = Quota::new(count, Duration::new(secs, nanos)) {
            let _either = quota.with_burst(burst);
        }
    }
}

#[test]
fn what_was_asked_for_is_what_a_quota_says() {
    let quota = Quota::per_minute(700).burst(50);
    assert_eq!((quota.count(), quota.period(), quota.burst_size()), (700, Duration::from_secs(60), 50));
    assert_eq!(Quota::per_second(3), Quota::new(3, Duration::from_secs(1)).expect("in range"));
    assert_eq!(Quota::per_hour(3), Quota::new(3, Duration::from_secs(3_600)).expect("in range"));
    assert_eq!(Quota::per_day(3), Quota::new(3, Duration::from_secs(86_400)).expect("in range"));
    assert_eq!(Quota::every(Duration::from_secs(7)), Quota::new(1, Duration::from_secs(7)).expect("in range"));
}

#[test]
fn the_ends_of_the_range_are_in_it() {
    let day = Duration::from_secs(86_400);
    assert!(Quota::new(1_000_000, Duration::from_secs(1)).is_ok());
    assert!(Quota::new(1, Duration::from_micros(1)).is_ok());
    assert!(Quota::new(1, 30 * day).is_ok());
    assert!(Quota::new(2000, Duration::from_millis(1000)).is_ok());
    let fast = Quota::per_second(1_000_000);
    assert!(fast.with_burst(Quota::MAX_BURST).is_ok());
    let daily = Quota::per_day(1);
    assert!(daily.with_burst(3650).is_ok());
}

/// An error and what its text has to name: field, value, bound.
fn says(result: Result<Quota, QuotaError>, expected: QuotaError, words: &[&str]) {
    let error = result.expect_err("out of range");
    assert_eq!(error, expected);
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not name {word:?}");
    }
}

#[test]
fn what_is_rejected_is_named_with_its_value_and_its_bound() {
    let second = Duration::from_secs(1);
    let day = Duration::from_secs(86_400);
    says(Quota::new(0, second), QuotaError::ZeroCount, &["count", "0", "at least 1"]);
    says(Quota::new(1, Duration::ZERO), QuotaError::ZeroPeriod, &["period", "0 s", "longer"]);
    says(Quota::per_second(1).with_burst(0), QuotaError::ZeroBurst, &["burst", "0", "at least 1"]);
    says(
        Quota::new(1_000_001, second),
        QuotaError::TooFast { count: 1_000_001, period: second },
        &["rate", "1000001 per 1s", "1000000 per second"],
    );
    says(
        Quota::new(u64::from(u32::MAX), second),
        QuotaError::TooFast { count: u64::from(u32::MAX), period: second },
        &["rate", "4294967295 per 1s", "1000000 per second"],
    );
    says(
        Quota::new(u64::MAX, second),
        QuotaError::TooFast { count: u64::MAX, period: second },
        &["rate", "18446744073709551615 per 1s", "1000000 per second"],
    );
    let nano = Duration::from_nanos(999);
    says(Quota::new(1, nano), QuotaError::TooFast { count: 1, period: nano }, &["rate", "1 per 999ns", "per second"]);
    let long = 30 * day + Duration::from_nanos(1);
    says(
        Quota::new(1, long),
        QuotaError::TooSlow { count: 1, period: long },
        &["rate", "1 per 2592000.000000001s", "2592000s"],
    );
    says(
        Quota::new(1, Duration::MAX),
        QuotaError::TooSlow { count: 1, period: Duration::MAX },
        &["rate", "1 per 18446744073709551615.999999999s", "2592000s"],
    );
    says(
        Quota::per_second(1_000_000).with_burst(1 << 32),
        QuotaError::BurstTooLarge { burst: 1 << 32 },
        &["burst", "4294967296", "4294967295"],
    );
    says(
        Quota::per_day(1).with_burst(3651),
        QuotaError::RefillTooLong { burst: 3651, count: 1, period: day },
        &["burst", "3651", "1 per 86400s", "315360000s"],
    );
    // The largest numbers that both fit: neither product may wrap.
    assert!(Quota::new(u64::MAX, Duration::MAX).is_err());
}

#[test]
#[should_panic(expected = "above 1,000,000 per second")]
fn nonsense_in_the_source_panics_with_the_bound() {
    let _never = Quota::per_second(1_000_001);
}

/// Permits that pass in `span` if each is asked for as soon as it may pass, from a full bucket.
fn admitted(quota: Quota, span: Duration) -> u64 {
    let gcra = Gcra::new(&quota);
    let (mut tat, mut now, mut admitted) = (Tat::FULL, Timestamp::from_millis(1), 0);
    let end = now.saturating_add(span);
    loop {
        let decision = decide(&gcra, &mut tat, now, 1);
        if decision.allowed {
            admitted += 1;
            continue;
        }
        let wait = decision.retry_after.expect("a cost of 1 is possible");
        assert!(wait > Duration::ZERO, "{quota:?} refuses and states no wait");
        now = now.saturating_add(wait);
        if now > end {
            return admitted;
        }
    }
}

#[test]
fn odd_rates_admit_their_nominal_number_and_one_burst() {
    let (second, minute, hour) = (Duration::from_secs(1), Duration::from_secs(60), Duration::from_secs(3_600));
    // Rate, and the span over which it is within one permit.
    let cases = [
        (Quota::per_second(999), minute),
        (Quota::per_second(1000), minute),
        (Quota::per_second(1001), minute),
        (Quota::per_second(7000), minute),
        (Quota::per_second(1_000_000), second),
        (Quota::per_minute(700), 24 * hour),
        (Quota::per_minute(40_000), 10 * minute),
        (Quota::per_minute(61_000), 10 * minute),
        (Quota::per_hour(7), 24 * hour),
    ];
    for (quota, span) in cases {
        let nominal = (u128::from(quota.count()) * span.as_nanos() / quota.period().as_nanos()) as u64;
        let admitted = admitted(quota, span);
        let off = admitted.abs_diff(nominal + quota.burst_size());
        assert!(off <= 1, "{quota:?} admitted {admitted} in {span:?}, nominal is {nominal} and a burst");
    }
}
