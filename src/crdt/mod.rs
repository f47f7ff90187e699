//! Who admitted how much of which key: G-Counter cells, and what is news in them.
//!
//! A key's consumption is a G-Counter (Shapiro et al., "A comprehensive study of Convergent and Commutative
//! Replicated Data Types", 2011): one [`Cell`] for each [run](RunId), raised by that run alone, merged by maximum.
//! The [`ReplicaLog`] keeps the cells of all runs, each run's in the order of its [versions](Version), so that "what
//! changed since" is a walk from the end.
//!
//! The counts say what is *news*. What news does to a bucket is the business of
//! [`Gcra::charge`](crate::bucket::Gcra::charge) and [`Gcra::raise`](crate::bucket::Gcra::raise).

mod arena;
mod cell;
mod cells;
mod digest;
mod held;
mod log;
mod news;
mod order;
mod runs;
mod walk;

#[cfg(test)]
mod tests;

pub use cell::{Cell, Count, Delta, Epoch, KeyRecord, RunCell, RunId, Version};
pub use digest::{Digest, DigestKey, KeyHasher, ScopeId};
pub use log::{Applied, LogLimits, ReplicaLog, Swept};
pub use news::News;
pub use walk::Walk;
