//! What every `RateLimiter` does, whatever is behind it. One implementation is one [`Case`] and one line of `conforms!`.

#[path = "conformance/cases.rs"]
pub mod cases;
#[path = "conformance/corrections.rs"]
mod corrections;
#[path = "conformance/laws.rs"]
mod laws;
#[path = "conformance/times.rs"]
mod times;

use std::time::Duration;

use peerlimit::{Decision, Quota, RateLimiter};

/// An implementation, as the suite sees it.
pub trait Case {
    type Limiter: RateLimiter<Deciding: Send> + Clone + Send + Sync + 'static;

    /// How its permits come back.
    const RETURN: Return;

    /// Whether what is refused is counted as well, so that nothing passes after it before permits have come back.
    const COUNTS_REFUSALS: bool = false;

    /// A limiter whose keys nobody has used, unless of the same name.
    async fn limiter(&self, name: &str, quota: Quota) -> Self::Limiter;

    /// That quota, or the one of the same burst that is nearest to it of those it can have.
    fn quota(&self, quota: Quota) -> Quota {
        quota
    }

    /// Lets time pass.
    async fn pass(&self, time: Duration);

    /// The time that has passed at most since some begin: real, or as it was told.
    fn elapsed(&self) -> Duration;

    /// What its decisions call it.
    fn policy_name(&self, name: &'static str) -> &'static str {
        name
    }
}

/// How permits come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// One by one, at the rate.
    Steadily,
    /// As they left, a window later.
    AsTheyLeft,
    /// All at once, at the end of a window that began with the first request. It ends when the server's clock, which
    /// goes in whole seconds, says so: up to a second before its time, and what is said of it is up to a second more.
    AtItsEnd,
}

impl Return {
    /// How much longer than a quota's time a limiter may say that it takes.
    pub const fn slack(self) -> Duration {
        match self {
            Self::Steadily | Self::AsTheyLeft => Duration::ZERO,
            Self::AtItsEnd => Duration::from_secs(1),
        }
    }
}

/// A limiter's answers, where errors are failures of the test.
pub trait Answers: RateLimiter {
    async fn decided(&self, key: &[u8], cost: u64) -> Decision {
        self.decide(key, cost).await.expect("a decision")
    }

    async fn peeked(&self, key: &[u8], cost: u64) -> Decision {
        self.peek(key, cost).await.expect("a decision")
    }

    async fn charged(&self, key: &[u8], permits: u64) -> Decision {
        self.charge(key, permits).await.expect("a decision")
    }

    async fn refunded(&self, key: &[u8], permits: u64) -> Decision {
        self.refund(key, permits).await.expect("a decision")
    }

    /// How many requests of one permit pass before one is refused, at most 10,000.
    async fn passes(&self, key: &[u8]) -> u64 {
        let mut passed = 0;
        while passed < 10_000 && self.decided(key, 1).await.allowed {
            passed += 1;
        }
        passed
    }
}

impl<R: RateLimiter> Answers for R {}

/// Makes a module with one test for each law. `$case` is a future of an `Option` of a case: none where its server is missing.
macro_rules! conforms {
    ($module:ident, $case:expr) => {
        conforms!(
            $module, $case;
            laws::a_cost_of_0_passes_and_consumes_nothing,
            laws::a_cost_of_n_consumes_n_permits_or_none,
            laws::exactly_the_burst_passes_and_remaining_counts_down,
            laws::what_is_above_the_burst_is_impossible_and_consumes_nothing,
            laws::a_peek_says_what_would_be_decided_and_changes_nothing,
            corrections::a_charge_goes_into_debt_that_has_a_bound,
            corrections::a_charge_of_what_is_there_is_as_a_decision,
            corrections::a_refund_fills_up_to_the_burst_and_no_further,
            corrections::a_refund_of_an_unknown_key_gives_nothing,
            corrections::a_refund_takes_back_a_part_of_a_request,
            corrections::corrections_of_0_change_nothing,
            laws::keys_of_all_kinds_are_told_apart,
            laws::one_key_under_two_names_has_two_counts,
            laws::tasks_that_race_pass_as_often_as_one,
            laws::a_quota_that_refuses_everything_does,
            laws::decisions_and_policy_say_who_decided,
            laws::a_clone_is_the_same_limiter,
            times::a_refusal_ends_when_it_says,
            times::a_refusal_of_several_permits_ends_when_it_says,
            times::a_debt_ends_when_it_says,
            times::a_reset_is_when_it_says,
            times::permits_come_back_as_the_quota_says
        );
    };
    ($module:ident, $case:expr; $($group:ident::$law:ident),*) => {
        mod $module {
            use super::{cases, corrections, laws, times};

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $law() {
                    if let Some(case) = $case.await {
                        $group::$law(&case).await;
                    }
                }
            )*
        }
    };
}

conforms!(gossip, cases::gossip());
conforms!(local, cases::local());
conforms!(scope, cases::scope());
conforms!(redis_log, cases::redis_log());
conforms!(redis_bucket, cases::redis_bucket());
conforms!(memcached, cases::memcached());
conforms!(hybrid_on_primary, cases::hybrid_on_primary());
conforms!(hybrid_on_fallback, cases::hybrid_on_fallback());
