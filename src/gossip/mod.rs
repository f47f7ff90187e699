//! The gossip engine, without I/O: events and bytes in, bytes and events out.
//!
//! Time, randomness and bytes are arguments, so that whole clusters run in one thread in virtual time. [`Engine`] is
//! the entry; its parts are the membership by SWIM, the push of what was admitted here, and the anti-entropy that
//! repairs what pushes lost and brings newcomers up to date.

mod absence;
mod allowance;
mod config;
mod engine;
mod lag;
mod membership;
mod pauses;
mod push;
pub mod seal;
mod stats;
mod strangers;
mod sync;
mod timers;
pub mod wire;

#[cfg(test)]
mod tests;

pub use config::{EngineConfig, Pace, PartitionPolicy, Sweeping, SwimConfig};
pub use engine::{Engine, Event, MemberInfo, PeerInfo, StreamCommand, StreamId, Transmit};
pub use membership::Liveness;
pub use seal::{Sealing, SecretError, Secrets};
pub use stats::{Drops, GossipStats};
