//! Who a member is.

use std::{fmt, net::SocketAddr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::crdt::RunId;

/// Longest name of a node, in bytes. Names travel in every SWIM message.
pub const MAX_NAME_LEN: usize = 64;

/// The label of a node: something a human recognises. Two nodes of one name do no harm.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(Arc<str>);

impl NodeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for NodeName {
    fn default() -> Self {
        Self("".into())
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A name that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node name is {0} bytes long, must be at most {MAX_NAME_LEN}")]
pub struct NameError(pub usize);

impl TryFrom<String> for NodeName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        if name.len() > MAX_NAME_LEN {
            return Err(NameError(name.len()));
        }
        Ok(Self(name.into()))
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.as_str().into()
    }
}

/// SWIM's identity of a member: an address, and which of the processes that had it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Where it is reached, by UDP and TCP.
    pub addr: SocketAddr,
    /// Which life of which process.
    pub run: RunId,
    /// When it started, in milliseconds of the wall clock. Compared among processes of one address, where the
    /// later one is the one that is alive; and by newcomers, who ask those who were there before. A renewal moves it on.
    pub started: u64,
    /// How often it was declared down by mistake and came back.
    pub renewals: u32,
    /// Its label.
    pub name: NodeName,
}

impl Identity {
    /// Whoever is at `addr`: what an announcement is addressed to.
    pub fn unknown(addr: SocketAddr) -> Self {
        Self { addr, run: RunId::from_raw(0), started: 0, renewals: 0, name: NodeName("".into()) }
    }
}

impl foca::Identity for Identity {
    type Addr = SocketAddr;

    /// The step doubles each time. A node whose wall clock is behind that of its predecessor at the same address thus
    /// gets past it within some tens of renewals, each of which takes a round trip.
    fn renew(&self) -> Option<Self> {
        let step = 1_u64 << self.renewals.min(40);
        Some(Self {
            started: self.started.saturating_add(step),
            renewals: self.renewals.saturating_add(1),
            ..self.clone()
        })
    }

    fn addr(&self) -> SocketAddr {
        self.addr
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        (self.started, self.renewals, self.run) > (adversary.started, adversary.renewals, adversary.run)
    }
}

impl Serialize for RunId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw().to_le_bytes().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <[u8; 8]>::deserialize(deserializer).map(|bytes| Self::from_raw(u64::from_le_bytes(bytes)))
    }
}
