//! Names and quotas as header fields can say them.

use std::{borrow::Cow, time::Duration};

use crate::bucket::Quota;

/// What a policy without a name is called.
const DEFAULT: &str = "default";
/// Most characters of a name.
const LONGEST: usize = 64;
/// A rate need not be told more exactly than it is kept: one part in that many.
const PRECISION: u128 = 31_250;
/// Largest integer of a structured field: RFC 9651, section 3.3.1.
const LARGEST: u128 = 999_999_999_999_999;

/// The name of a policy as clients see it: what a string of a structured field may hold (RFC 9651, section 3.3.3), and
/// not too long.
pub(in crate::http) fn name(policy: &str) -> Cow<'_, str> {
    let sayable = |char: char| matches!(char, ' '..='~');
    match policy {
        "" => Cow::Borrowed(DEFAULT),
        _ if policy.len() <= LONGEST && policy.chars().all(sayable) => Cow::Borrowed(policy),
        _ => policy.chars().take(LONGEST).map(|char| if sayable(char) { char } else { '_' }).collect(),
    }
}

/// Permits, and the whole seconds in which they come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) permits: u64,
    pub(super) seconds: u64,
}

impl Window {
    pub(super) fn of(quota: &Quota) -> Self {
        let (count, period) = (u128::from(quota.count()), quota.period());
        let window = match period.subsec_nanos() {
            0 => (count, u128::from(period.as_secs())),
            _ => fraction(count * Duration::from_secs(1).as_nanos(), period.as_nanos()),
        };
        let permits = if quota.refuses_all() { 0 } else { window.0 };
        // A count is at most 2^32 - 1 and a period at most 30 days of each of them, so both are in range as they are;
        // the smallest fraction that is near enough is not larger than either.
        let clamp = |number: u128| u64::try_from(number.min(LARGEST)).unwrap_or(u64::MAX);
        Self { permits: clamp(permits), seconds: clamp(window.1) }
    }
}

/// The fraction with the smallest denominator among the convergents of `numerator / denominator` that are near enough
/// to it.
///
/// A window with the exact rate may be absurd: of 1 permit per 333,333,333 ns it would be ten years. The convergents of
/// the continued fraction are the best approximations with denominators up to theirs; the last one is exact.
fn fraction(numerator: u128, denominator: u128) -> (u128, u128) {
    let (mut before, mut now) = ((0, 1), (1, 0));
    let (mut dividend, mut divisor) = (numerator, denominator);
    while divisor > 0 {
        let term = dividend / divisor;
        (dividend, divisor) = (divisor, dividend % divisor);
        (before, now) = (now, (term * now.0 + before.0, term * now.1 + before.1));
        let error = (now.0 * denominator).abs_diff(numerator * now.1);
        // All products are below 2^127: 2^32 permits, 2^62 ns, 2^30 ns a second, and as much again.
        if now.0 > 0 && error.saturating_mul(PRECISION) <= numerator.saturating_mul(now.1) {
            break;
        }
    }
    now
}

#[cfg(test)]
mod tests;
