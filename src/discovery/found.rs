//! The addresses that one round has found so far.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

/// Addresses taken from one round. A DNS answer of 64 KiB holds about as many; names that answer with more than this
/// are broken or hostile, and a node needs far fewer to join.
const MAX_ADDRESSES: usize = 4096;

/// Addresses that a peer can be reached at, each once, in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Found {
    order: Vec<SocketAddr>,
    seen: BTreeSet<SocketAddr>,
}

impl Found {
    /// Adds an address, unless it is known, unusable or one too many.
    pub(super) fn add(&mut self, address: SocketAddr) {
        let address = canonical(address);
        if address.port() == 0 || unreachable(address.ip()).is_some() {
            tracing::debug!(%address, "an address at which no peer can be reached was left out");
        } else if self.order.len() == MAX_ADDRESSES {
            tracing::debug!(%address, "an address beyond the most that a round takes was left out");
        } else if self.seen.insert(address) {
            self.order.push(address);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn into_vec(self) -> Vec<SocketAddr> {
        self.order
    }
}

impl Extend<SocketAddr> for Found {
    fn extend<I: IntoIterator<Item = SocketAddr>>(&mut self, addresses: I) {
        for address in addresses {
            self.add(address);
        }
    }
}

/// Why no peer can be reached at an address, if so.
pub(super) fn unreachable(ip: IpAddr) -> Option<&'static str> {
    let ip = ip.to_canonical();
    if ip.is_unspecified() {
        Some("the unspecified address can be listened at, but not reached")
    } else if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        Some("a multicast or broadcast address is not that of one peer")
    } else {
        None
    }
}

/// An IPv4 address in IPv6 clothes becomes what it is, so that one peer is not taken for two.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(addresses: &[&str]) -> Vec<SocketAddr> {
        let mut found = Found::default();
        found.extend(addresses.iter().map(|text| text.parse().unwrap()));
        found.into_vec()
    }

    #[test]
    fn an_address_found_twice_counts_once_and_keeps_its_place() {
        assert_eq!(
            found(&["192.0.2.2:1", "192.0.2.1:1", "[::ffff:192.0.2.2]:1"]),
            ["192.0.2.2:1".parse().unwrap(), "192.0.2.1:1".parse().unwrap()],
        );
    }

    #[test]
    fn addresses_at_which_nobody_can_be_reached_are_left_out() {
        let addresses = [
            "0.0.0.0:1",
            "[::]:1",
            "[::ffff:0.0.0.0]:1",
            "224.0.0.1:1",
            "[ff02::1]:1",
            "255.255.255.255:1",
            "192.0.2.1:0",
        ];
        assert_eq!(found(&addresses), []);
    }

    #[test]
    fn a_round_takes_a_bounded_number_of_addresses() {
        let mut found = Found::default();
        let many = u32::try_from(MAX_ADDRESSES).unwrap() + 10;
        found.extend((0..many).map(|n| SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + n), 1))));
        assert_eq!(found.into_vec().len(), MAX_ADDRESSES);
    }
}
