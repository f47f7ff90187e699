//! The one layer that touches clock, sockets, tasks and the operating system's randomness.
//!
//! [`Node::start`] binds the port, and spawns one task that drives the [engine](crate::gossip::Engine), one for each
//! stream, and one for discovery. They end when the [`Node`] is dropped or closed.

mod awake;
mod clock;
mod driver;
mod entropy;
mod finder;
mod node;
#[cfg(feature = "metrics")]
mod regular;
mod sockets;
mod streams;
mod turns;

#[cfg(feature = "memcached")]
pub(crate) use clock::wall_millis;
pub use clock::{Clock, ManualClock};
pub(crate) use entropy::{random_u64, unguessable_u64};
pub(crate) use node::{Node, NodeStats};
#[cfg(feature = "metrics")]
pub(crate) use regular::every;
pub(crate) use sockets::Sockets;
pub(crate) use turns::Turns;
