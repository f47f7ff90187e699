//! What those who are no members may cause: little, and none of it often.

use std::{collections::BTreeMap, net::SocketAddr};

use crate::bucket::Timestamp;

use super::allowance::Allowance;

/// Bounds on SWIM messages of non-members, and on datagrams to them.
///
/// The answer to an announcement goes to the address that the announcement names, and is longer than it. Without a
/// secret anybody may name anybody's address, so a node answers each address a few times a second, and all together so
/// often as a thousand replicas that start at once need.
#[derive(Debug)]
pub(super) struct Strangers {
    by_addr: BTreeMap<SocketAddr, Allowance>,
    heard: Allowance,
    told: Allowance,
}

impl Strangers {
    /// Announcements, and other messages of non-members, that name one address, in a second. A node that nobody
    /// answers announces itself every half second.
    pub(super) const PER_ADDRESS: u32 = 10;
    /// The same at once. A node whose wall clock is behind that of its predecessor renews its identity some tens of
    /// times in a row.
    pub(super) const ADDRESS_BURST: u32 = 40;
    /// Messages of non-members in a second, and at once, whatever address they name.
    pub(super) const HEARD: u32 = 2_048;
    /// Datagrams to addresses of non-members in a second, and at once.
    pub(super) const TOLD: u32 = 2_048;
    /// Addresses that are kept count of until those are forgotten that were silent. Above four times what is heard in a
    /// second while an address takes to have its burst back, so that many are.
    pub(super) const ADDRESSES: usize = 4_096;

    pub(super) fn new() -> Self {
        let heard = Allowance::new(Self::HEARD, Self::HEARD);
        Self { by_addr: BTreeMap::new(), heard, told: Allowance::new(Self::TOLD, Self::TOLD) }
    }

    /// Whether a message may be looked at that names `addr` as its sender's.
    pub(super) fn may_speak(&mut self, addr: SocketAddr, now: Timestamp) -> bool {
        // In this order neither one address can use up what is there for all, nor can made-up ones fill the map faster
        // than it is cleared.
        if let Some(allowance) = self.by_addr.get_mut(&addr) {
            return allowance.take(now) && self.heard.take(now);
        }
        if !self.heard.take(now) {
            return false;
        }
        if self.by_addr.len() >= Self::ADDRESSES {
            self.by_addr.retain(|_, allowance| !allowance.is_full(now));
        }
        let mut allowance = Allowance::new(Self::PER_ADDRESS, Self::ADDRESS_BURST);
        let may = allowance.take(now);
        self.by_addr.insert(addr, allowance);
        may
    }

    /// Whether a datagram may go to the address of a non-member.
    pub(super) fn may_be_told(&mut self, now: Timestamp) -> bool {
        self.told.take(now)
    }
}
