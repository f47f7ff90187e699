//! What a bucket promises, against exact rationals and over random quotas and states.

mod clock;
mod gcra;
mod laws;
mod quota;
mod share;
mod text;

use std::time::Duration;

use proptest::prelude::*;

use super::{Gcra, Quota, Tat, Timestamp};

/// Ten years of uptime, in nanoseconds.
const TEN_YEARS: u64 = 10 * 365 * 24 * 60 * 60 * 1_000_000_000;

/// Uptime at which a TAT may still run a whole burst of the slowest refill ahead: 36 years of ticks, less ten.
const LIFETIME: Timestamp = Timestamp::from_nanos(TEN_YEARS / 10 * 26);

/// Nothing is written to disk: the failing case that is printed repeats a failure.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() }
}

/// Values of `1..=most`, every order of magnitude as likely as any other.
fn magnitude(most: u64) -> impl Strategy<Value = u64> {
    (0..64_u32, any::<u64>()).prop_map(move |(shift, bits)| (bits >> shift).clamp(1, u64::MAX) % most + 1)
}

/// Quotas of the whole range, with a burst of their own.
fn quotas() -> impl Strategy<Value = Quota> {
    let interval = prop_oneof![1_000..2_000_u64, magnitude(30 * 24 * 60 * 60 * 1_000_000_000 - 1)];
    (interval, magnitude(1 << 32), any::<u64>(), magnitude(u64::from(u32::MAX) - 1)).prop_map(
        |(interval, count, extra, burst)| {
            let interval = interval.max(1_000);
            let most = TEN_YEARS / (interval + 1);
            let count = count.min(most).min(Quota::MAX_BURST);
            // An interval that is no whole number of nanoseconds is the usual case.
            let period = Duration::from_nanos(count * interval + extra % count);
            let quota = Quota::new(count, period).unwrap_or_else(|error| panic!("{count} per {period:?}: {error}"));
            quota.with_burst(burst.min(most)).unwrap_or_else(|error| panic!("{quota:?} with burst {burst}: {error}"))
        },
    )
}

/// A bucket at some moment: anything from long full to the debt floor.
#[derive(Clone, Copy, Debug)]
struct State {
    quota: Quota,
    gcra: Gcra,
    tat: Tat,
    now: Timestamp,
}

fn states() -> impl Strategy<Value = State> {
    let ahead = prop_oneof![3 => 0.0..=1.0_f64, 1 => 1.0..=2.0_f64, 1 => Just(0.0), 1 => Just(1.0), 1 => Just(2.0)];
    (quotas(), 0..TEN_YEARS, ahead, any::<bool>()).prop_map(|(quota, now, ahead, untouched)| {
        let gcra = Gcra::new(&quota);
        let now = Timestamp::from_nanos(now);
        let permits = quota.burst_size() as f64 * ahead;
        let raised = super::Missing::from_raw((permits * 65_536.0) as u64);
        let tat = if untouched { Tat::FULL } else { gcra.raise(Tat::FULL, now, raised) };
        State { quota, gcra, tat, now }
    })
}

/// Admits or says why not, as a limiter does.
fn decide(gcra: &Gcra, tat: &mut Tat, now: Timestamp, cost: u64) -> super::Decision {
    match gcra.admit(*tat, now, cost) {
        Some(after) => {
            *tat = after;
            gcra.allowed(after, now)
        }
        None => gcra.refused(*tat, now, cost),
    }
}
