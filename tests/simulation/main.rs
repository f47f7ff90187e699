//! The whole cluster in virtual time. See [`sim`] for how to repeat a failure.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(unreachable_pub, reason = "modules of a test are private by nature")]

mod accuracy;
mod chaos;
mod churn;
mod clocks;
mod guard;
mod membership;
mod partitions;
mod promises;
mod refunds;
mod scale;
mod secrets;
mod sharing;
mod sim;
mod wan;
