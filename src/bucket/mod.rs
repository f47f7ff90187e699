//! What one node believes of one key: a quota, a theoretical arrival time, and the answer to "may this pass?".
//!
//! Everything here is integer arithmetic over its arguments. Nothing reads a clock, takes a lock, or performs I/O.

mod decision;
mod gcra;
mod quota;
mod text;
mod time;

#[cfg(test)]
mod tests;

pub use decision::Decision;
pub use gcra::{Gcra, Missing, Tat};
pub use quota::{Quota, QuotaError};
pub use text::ParseQuotaError;
pub use time::Timestamp;
