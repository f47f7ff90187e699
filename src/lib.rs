//! peerlimit
#[doc(hidden)]
pub mod bucket;
#[doc(hidden)]
pub mod crdt;
#[doc(hidden)]
pub mod gossip;
#[doc(hidden)]
pub mod table;

pub use bucket::{Decision, Quota, QuotaError};
