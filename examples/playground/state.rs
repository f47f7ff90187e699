//! How things are, as the page is told. Counters run from the start; the page takes rates from them.

use std::{collections::VecDeque, net::SocketAddr};

use peerlimit::{Member, MemberState};
use serde::Serialize;

use crate::network::{Datagrams, Side};

#[derive(Debug, Serialize)]
pub(crate) struct State<'a> {
    /// Since the start.
    pub(crate) at_ms: u64,
    /// Permits per second.
    pub(crate) rate: u64,
    pub(crate) burst: u64,
    /// Whether every node decides alone.
    pub(crate) alone: bool,
    pub(crate) cut: bool,
    /// Percent of datagrams.
    pub(crate) loss: u8,
    pub(crate) most_nodes: usize,
    pub(crate) most_load: u32,
    pub(crate) datagrams: Datagrams,
    pub(crate) nodes: Vec<NodeState>,
    /// What was done lately, oldest first.
    pub(crate) happened: &'a VecDeque<Happened>,
}

/// Something that somebody did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Happened {
    pub(crate) at_ms: u64,
    pub(crate) text: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct NodeState {
    /// From 1.
    pub(crate) node: usize,
    pub(crate) name: String,
    pub(crate) up: bool,
    /// Whether it takes load.
    pub(crate) ready: bool,
    /// On which side of the cut.
    pub(crate) side: Side,
    /// Requests per second.
    pub(crate) load: u32,
    pub(crate) offered: u64,
    pub(crate) admitted: u64,
    /// Permits that it believes to be left.
    pub(crate) level: Option<u64>,
    /// Whom it sees, itself included.
    pub(crate) members: Vec<Seen>,
}

/// A member, as a node sees it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Seen {
    pub(crate) node: usize,
    pub(crate) suspect: bool,
}

impl NodeState {
    /// The members that are nodes of ours, where `place` tells which one has an address.
    pub(crate) fn members(members: Vec<Member>, place: impl Fn(SocketAddr) -> Option<usize>) -> Vec<Seen> {
        let seen = members.into_iter().filter_map(|member| {
            let suspect = member.state == MemberState::Suspect;
            place(member.addr).map(|index| Seen { node: index + 1, suspect })
        });
        let mut seen: Vec<_> = seen.collect();
        seen.sort_unstable_by_key(|seen| seen.node);
        seen
    }
}
