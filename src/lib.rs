//! One rate limit shared by all replicas of a service, with no server between them.

// Public for the simulator and the benchmarks of this repository. No promise of stability.
#[doc(hidden)]
pub mod bucket;
#[doc(hidden)]
pub mod crdt;
#[doc(hidden)]
pub mod gossip;
#[doc(hidden)]
pub mod table;

mod discovery;
mod limiter;
mod net;

pub use bucket::{Decision, Quota, QuotaError};
pub use discovery::{DiscoverError, Discoverer, DnsDiscoverer, StaticDiscoverer};
pub use gossip::Drops;
pub use limiter::{Builder, Evictions, Limiter, Member, MemberState, Scope, StartError, Stats};
pub use net::{Clock, ManualClock};
