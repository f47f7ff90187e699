//! Members as users see them.

use std::net::SocketAddr;

use crate::gossip::{Liveness, MemberInfo};

/// A replica of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its label. Not unique.
    pub name: String,
    /// Where it is reached, by UDP and TCP.
    pub addr: SocketAddr,
    /// How the failure detector sees it.
    pub state: MemberState,
    /// Whether it is the node that was asked.
    pub is_self: bool,
}

/// How the failure detector sees a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// It answers.
    Alive,
    /// It did not answer, and may still contradict. It is told everything, and believed, as if it were alive.
    Suspect,
}

impl From<MemberInfo> for Member {
    fn from(info: MemberInfo) -> Self {
        let state = match info.liveness {
            Liveness::Alive => MemberState::Alive,
            Liveness::Suspect => MemberState::Suspect,
        };
        Self { name: info.name, addr: info.addr, state, is_self: false }
    }
}
