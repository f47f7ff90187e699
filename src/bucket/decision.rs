//! The answer to one request.

use std::time::Duration;

/// What a limiter says of one request, and of the bucket that it left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at limits nothing"]
#[non_exhaustive]
pub struct Decision {
    /// Whether the request may pass. If so, its permits are consumed (not by a peek).
    pub allowed: bool,
    /// Whether the quota refused it, and it may pass because its scope [only watches](crate::Scope::set_shadow).
    pub shadowed: bool,
    /// Whether the key is [exempt](crate::Scope::exempt): its requests pass and consume nothing.
    pub exempt: bool,
    /// The name of the scope or store that decided; empty for the default scope.
    pub policy: &'static str,
    /// Permits that a full bucket of this quota holds: its burst.
    pub limit: u64,
    /// Permits that would pass right now, from 0 to `limit`.
    pub remaining: u64,
    /// Time until the bucket is full again if nothing else comes, rounded up to nanoseconds.
    pub reset_after: Duration,
    /// Time after which the same request passes if nothing else comes, rounded up to nanoseconds.
    ///
    /// `None` if the quota allows it, and `None` if it never can be: its cost is above the burst.
    pub retry_after: Option<Duration>,
}

impl Decision {
    /// That a request may pass, which leaves `remaining` permits of `limit`, and a bucket that is full after `reset_after`.
    pub const fn allow(limit: u64, remaining: u64, reset_after: Duration) -> Self {
        Self {
            allowed: true,
            shadowed: false,
            exempt: false,
            policy: "",
            limit,
            remaining,
            reset_after,
            retry_after: None,
        }
    }

    /// That a request may not pass before `retry_after`, or never.
    pub const fn refuse(limit: u64, remaining: u64, reset_after: Duration, retry_after: Option<Duration>) -> Self {
        Self { allowed: false, shadowed: false, exempt: false, policy: "", limit, remaining, reset_after, retry_after }
    }

    /// The same, decided by the policy of that name.
    pub const fn by(self, policy: &'static str) -> Self {
        Self { policy, ..self }
    }

    /// Whether no amount of waiting lets this request pass: its cost is above the burst.
    ///
    /// ```
    /// use peerlimit::{Limiter, Quota};
    ///
    /// let limiter = Limiter::local(Quota::per_second(10));
    /// assert!(limiter.check_n("key", 11).is_impossible());
    /// assert!(!limiter.check_n("key", 10).is_impossible());
    /// ```
    pub const fn is_impossible(&self) -> bool {
        !self.allowed && self.retry_after.is_none()
    }
}
