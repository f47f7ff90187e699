//! What responses say of limits in their header fields.

mod draft;
mod policy;
mod scalar;

use std::{cmp::Reverse, num::NonZeroU64, time::Duration};

use http::HeaderMap;
use smallvec::SmallVec;

use crate::{
    backend::{RateLimiter, Refill},
    bucket::{Decision, Quota},
};

use super::admission::Entry;
use policy::Window;

pub(super) use policy::name;

/// A way to speak of limits in header fields. Times are whole seconds from now, rounded up; permits are counted, not
/// weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// `RateLimit-Policy` and `RateLimit` of [draft-ietf-httpapi-ratelimit-headers-10][draft], structured fields.
    ///
    /// ```text
    /// RateLimit-Policy: "users";q=60;w=60
    /// RateLimit: "users";r=59;t=1
    /// ```
    ///
    /// - `q` permits per `w` seconds is the sustained rate. The window is the quota's period; where that is no whole
    ///   number of seconds, both are scaled until it is: 10 per 500 ms are `q=20;w=1`, 1 per 1.5 s is `q=2;w=3`. Where
    ///   no window of a sensible length is exact, the rate is right within 0.0032 %, as near as it is kept.
    /// - `peerlimit-burst` is how much a full bucket holds, where that is not the quota's count: `r` may be above `q`
    ///   then.
    /// - `r` is what would pass now. `t` is when more will, which for a bucket that refills all the time is when its
    ///   next permit is there, and for a window when it is over or as long as `Retry-After`; 0 if it is full. So it is never
    ///   later than `Retry-After`, as section 6 asks.
    /// - A quota that [refuses all](crate::Quota::refuse_all) has `q=0`.
    /// - A policy without a name is `"default"`. In longer names what follows the 64th character is left out, and what
    ///   a structured field cannot say is `_`.
    ///
    /// Every limit is a member of the lists. A layer appends its members to what the service inside has said.
    ///
    /// [draft]: https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-10
    Draft,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` of that draft's versions up to 06: the burst, and
    /// then as `r` and `t` of
    /// [`Draft`](Self::Draft).
    ///
    /// There is room for one limit only: of several, and of several layers, the tightest. That is a refusal, then the
    /// one that leaves fewest permits, then the one for which more take longest.
    RateLimit,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, which no document defines: as
    /// [`RateLimit`](Self::RateLimit), but that the last is the time until the bucket is full again.
    XRateLimit,
}

/// Which styles are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Styles {
    draft: bool,
    rate_limit: bool,
    x_rate_limit: bool,
}

impl Styles {
    pub(super) const NONE: Self = Self { draft: false, rate_limit: false, x_rate_limit: false };
}

impl Default for Styles {
    fn default() -> Self {
        Self { draft: true, ..Self::NONE }
    }
}

impl FromIterator<HeaderStyle> for Styles {
    fn from_iter<I: IntoIterator<Item = HeaderStyle>>(styles: I) -> Self {
        let mut all = Self::NONE;
        for style in styles {
            match style {
                HeaderStyle::Draft => all.draft = true,
                HeaderStyle::RateLimit => all.rate_limit = true,
                HeaderStyle::XRateLimit => all.x_rate_limit = true,
            }
        }
        all
    }
}

/// What clients are told of one limit. Smaller than what it is made of: it moves with the future of each response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    policy: &'static str,
    limit: u64,
    remaining: u64,
    allowed: bool,
    /// Seconds until one permit more would pass than now. 0 where no style tells it.
    more: u64,
    /// Seconds until the bucket is full.
    full: u64,
    /// By what quota. 0 in 0 s where no style tells it.
    window: Window,
    /// Where it is not as many as the quota counts.
    burst: Option<NonZeroU64>,
}

impl Told {
    pub(super) fn new(decision: &Decision, by: impl FnOnce() -> (Quota, Refill), styles: Styles) -> Self {
        let mut told = Self {
            policy: decision.policy,
            limit: decision.limit,
            remaining: decision.remaining,
            allowed: decision.allowed,
            more: 0,
            full: whole_seconds(decision.reset_after),
            window: Window { permits: 0, seconds: 0 },
            burst: None,
        };
        // It takes divisions to say in words what a quota is.
        if styles.draft || styles.rate_limit {
            let (quota, refill) = by();
            told.more = whole_seconds(until_more(decision, &quota, refill));
            if styles.draft {
                told.window = Window::of(&quota);
                told.burst = NonZeroU64::new(quota.burst_size()).filter(|burst| burst.get() != quota.count());
            }
        }
        told
    }

    /// Orders limits by how little they leave; see [`tightness`](super::admission::tightness).
    fn tightness(&self) -> impl Ord + use<> {
        (self.allowed, self.remaining, Reverse(self.full))
    }
}

/// What there is to tell of the limits of a request, if anything is to be told.
pub(super) fn told<L: RateLimiter + Clone>(entries: &[Entry<'_, L>], styles: Styles) -> SmallVec<[Told; 1]> {
    if styles == Styles::NONE {
        return SmallVec::new();
    }
    let told = |entry: &Entry<'_, L>| {
        let by = || (entry.limiter.policy().quota, entry.limiter.refill());
        Some(Told::new(entry.answer.as_ref()?, by, styles))
    };
    entries.iter().filter_map(told).collect()
}

/// Adds what is known of each limit.
pub(super) fn write(headers: &mut HeaderMap, styles: Styles, limits: &[Told]) {
    let Some(tightest) = limits.iter().min_by_key(|limit| limit.tightness()) else { return };
    if styles.draft {
        draft::write(headers, limits);
    }
    if styles.rate_limit {
        scalar::write(headers, &scalar::RATE_LIMIT, tightest, tightest.more);
    }
    if styles.x_rate_limit {
        scalar::write(headers, &scalar::X_RATE_LIMIT, tightest, tightest.full);
    }
}

/// Time until one permit more would pass than now: zero for a full bucket.
///
/// A bucket refills evenly, so it is full later than that by the time of all permits that are missing beyond the next
/// one. Of a window it is known when what was refused passes, or when all is back.
fn until_more(decision: &Decision, quota: &Quota, refill: Refill) -> Duration {
    let Decision { limit, remaining, reset_after, retry_after, .. } = *decision;
    if refill == Refill::Window {
        return retry_after.map_or(reset_after, |retry| retry.min(reset_after));
    }
    let Some(beyond) = limit.saturating_sub(remaining).checked_sub(1) else { return reset_after };
    let later = u128::from(beyond) * quota.period().as_nanos() / u128::from(quota.count());
    let later = Duration::from_nanos(u64::try_from(later).unwrap_or(u64::MAX));
    // Something is missing, so it takes some time, whatever the quota has become since.
    let next = reset_after.saturating_sub(later).max(Duration::from_nanos(1));
    retry_after.map_or(next, |retry| retry.min(next))
}

/// Whole seconds, rounded up: whoever waits that long has waited long enough.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests;
