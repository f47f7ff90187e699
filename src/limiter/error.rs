//! Why a limiter does not start.

use std::{io, net::SocketAddr, time::Duration};

use crate::discovery::DiscoverError;

/// Why a limiter does not start. Nothing was left running, and no port bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A time is outside its bounds.
    #[error("{field} is {value:?}, must be from {least:?} to {most:?}")]
    Duration {
        /// The builder method that set it.
        field: &'static str,
        /// What it was set to.
        value: Duration,
        /// The shortest that makes sense.
        least: Duration,
        /// The longest that makes sense.
        most: Duration,
    },
    /// A number is outside its bounds.
    #[error("{field} is {value}, must be from {least} to {most}")]
    Number {
        /// The builder method that set it.
        field: &'static str,
        /// What it was set to.
        value: usize,
        /// The least that makes sense.
        least: usize,
        /// The most that makes sense.
        most: usize,
    },
    /// The node's label is too long.
    #[error("node is {name:?}, {} bytes long, must be at most {most} bytes", name.len())]
    Name {
        /// What it was set to.
        name: String,
        /// The bound.
        most: usize,
    },
    /// An address cannot be advertised: its host is unspecified or its port 0.
    #[error("advertise is {addr}, must be an address with a port that peers can reach")]
    Advertise {
        /// What it was set to.
        addr: SocketAddr,
    },
    /// The node is bound to all addresses, and nothing tells which of them peers can reach.
    #[error("bind is {bind}, and no route says which of its addresses peers can reach; set advertise")]
    AdvertiseUnknown {
        /// What it is bound to.
        bind: SocketAddr,
    },
    /// The address cannot be bound. The source says why: it is taken, say, or not ours.
    #[error("bind is {addr}, which cannot be bound by UDP and TCP")]
    Bind {
        /// What it was set to.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A discoverer was built wrong.
    #[error("discover was given something that can never find anybody")]
    Discover(#[from] DiscoverError),
    /// Called outside a tokio runtime.
    #[error("a limiter can only start inside a tokio runtime with I/O and time enabled")]
    NoRuntime,
    /// The operating system gives no random numbers.
    #[error("the operating system gives no random numbers")]
    Randomness(#[source] io::Error),
}
