//! The whole cluster in virtual time. See [`sim`] for how to repeat a failure.
#![allow(unreachable_pub, reason = "modules of a test are private by nature")]

mod accuracy;
mod promises;
mod sim;
