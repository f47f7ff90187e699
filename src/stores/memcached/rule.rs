//! From a counter to a decision. Pure arithmetic.

use std::time::Duration;

use crate::bucket::{Decision, Quota};

/// What decides by a counter: how far it may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) quota: Quota,
}

/// A counter of a window that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    /// What was asked for in this window, whether it was let through or not.
    pub(super) used: u64,
    /// Seconds of the server's clock until the window ends.
    pub(super) seconds: u64,
}

impl Rule {
    /// Most permits of one window.
    pub(super) fn limit(&self) -> u64 {
        if self.quota.refuses_all() { 0 } else { self.quota.count() }
    }

    /// Seconds of a window.
    pub(super) fn window_seconds(&self) -> u64 {
        self.quota.period().as_secs()
    }

    /// Whether a request of that cost changes a counter: one that is impossible does not, nor one for nothing.
    pub(super) fn counts(&self, cost: u64) -> bool {
        (1..=self.limit()).contains(&cost)
    }

    /// What to answer a request that was counted, so that `counter` is the outcome.
    pub(super) fn counted(&self, counter: Counter) -> Decision {
        let wait = longest_wait(counter.seconds);
        let (limit, allowed) = (self.limit(), counter.used <= self.limit());
        if allowed {
            return Decision::allow(limit, limit - counter.used, wait).by(self.name);
        }
        Decision::refuse(limit, 0, wait, Some(wait)).by(self.name)
    }

    /// What to answer a request of that cost that is not counted.
    pub(super) fn state(&self, cost: u64, counter: Option<Counter>) -> Decision {
        let Counter { used, seconds } = counter.unwrap_or(Counter { used: 0, seconds: 0 });
        let full_after = if used == 0 { Duration::ZERO } else { longest_wait(seconds) };
        let limit = self.limit();
        let remaining = limit.saturating_sub(used);
        let decision = if cost > limit {
            Decision::refuse(limit, remaining, full_after, None)
        } else if used.saturating_add(cost) <= self.quota.count() {
            Decision::allow(limit, remaining, full_after)
        } else {
            Decision::refuse(limit, remaining, full_after, Some(full_after))
        };
        decision.by(self.name)
    }
}

/// The longest that a server takes over `seconds` of its clock.
///
/// It looks at the time once a second, by a timer that is a little late each time: at the worst it sees the end one
/// look late.
fn longest_wait(seconds: u64) -> Duration {
    let late = Duration::from_millis(seconds.saturating_mul(10).saturating_add(50));
    Duration::from_secs(seconds).saturating_add(late.min(Duration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(quota: Quota) -> Rule {
        Rule { name: "login", quota }
    }

    #[test]
    fn a_window_lets_its_limit_through_and_then_nothing_until_it_ends() {
        let rule = rule(Quota::per_minute(10));
        let last = rule.counted(Counter { used: 10, seconds: 30 });
        assert!(last.allowed);
        assert_eq!((last.limit, last.remaining, last.retry_after, last.policy), (10, 0, None, "login"));
        assert_eq!(last.reset_after, Duration::from_millis(30_350));
        for used in [11, 1_000, u64::MAX] {
            let refused = rule.counted(Counter { used, seconds: 30 });
            assert!(!refused.allowed && !refused.is_impossible());
            assert_eq!((refused.remaining, refused.retry_after), (0, Some(last.reset_after)));
        }
    }

    #[test]
    fn a_wait_allows_for_one_late_look_of_the_server_at_its_clock() {
        assert_eq!(longest_wait(1), Duration::from_millis(1_060));
        assert_eq!(longest_wait(95), Duration::from_secs(96));
        assert_eq!(longest_wait(100_000), Duration::from_secs(100_001));
        assert!(longest_wait(u64::MAX) >= Duration::from_secs(u64::MAX));
    }

    #[test]
    fn what_is_impossible_or_for_nothing_is_not_counted() {
        let rule = rule(Quota::per_minute(10));
        for (cost, counts) in [(0, false), (1, true), (10, true), (11, false), (u64::MAX, false)] {
            assert_eq!(rule.counts(cost), counts, "{cost}");
        }
        let spent = Some(Counter { used: 4, seconds: 9 });
        for cost in [11, 200_000_000, u64::from(u32::MAX), u64::MAX] {
            let decision = rule.state(cost, spent);
            assert!(decision.is_impossible());
            assert_eq!(decision.remaining, 6);
        }
        assert!(rule.state(10, None).allowed);
    }

    #[test]
    fn a_look_says_what_would_pass() {
        let rule = rule(Quota::per_minute(10));
        let spent = Some(Counter { used: 4, seconds: 9 });
        assert!(rule.state(6, spent).allowed);
        let refused = rule.state(7, spent);
        assert_eq!((refused.allowed, refused.remaining, refused.retry_after), (false, 6, Some(refused.reset_after)));
        // In debt not even nothing passes, as with any other limiter.
        assert!(rule.state(0, Some(Counter { used: 10, seconds: 9 })).allowed);
        assert!(!rule.state(0, Some(Counter { used: 11, seconds: 9 })).allowed);
        // All of it given back: full already.
        assert_eq!(rule.state(0, Some(Counter { used: 0, seconds: 9 })).reset_after, Duration::ZERO);
        assert_eq!(rule.state(0, None), Decision::allow(10, 10, Duration::ZERO).by("login"));
    }

    #[test]
    fn a_quota_that_refuses_everything_says_that_it_is_impossible() {
        let rule = rule(Quota::per_minute(10).refuse_all());
        assert!(!rule.counts(1));
        let refused = rule.state(1, Some(Counter { used: 3, seconds: 9 }));
        assert!(refused.is_impossible());
        assert_eq!((refused.limit, refused.remaining), (0, 0));
    }
}
