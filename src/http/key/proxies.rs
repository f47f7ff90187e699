//! Whom to believe what they say of others.

use std::net::IpAddr;

use ipnet::IpNet;

/// Proxies that are believed what they say of where a request came from.
#[derive(Clone, Debug)]
pub struct TrustedProxies {
    trust: Trust,
}

#[derive(Clone, Debug)]
enum Trust {
    Networks(Vec<IpNet>),
    Hops(usize),
}

/// Which header field the proxies write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`: a list of addresses, with or without ports.
    XForwardedFor,
    /// `Forwarded`, RFC 7239: of each element its `for`.
    Forwarded,
}

impl TrustedProxies {
    /// Proxies by their addresses: networks as in `10.0.0.0/8`, or single addresses.
    ///
    /// The client is the right-most address that is none of them; all further to the left is the client's word. Where
    /// all addresses are theirs it is the left-most.
    ///
    /// # Errors
    ///
    /// The first text that is no network.
    pub fn networks<N: AsRef<str>>(networks: impl IntoIterator<Item = N>) -> Result<Self, ProxyError> {
        let parse = |network: N| {
            let text = network.as_ref();
            let single = || text.parse::<IpAddr>().map(IpNet::from);
            let network: IpNet = text.parse().or_else(|_| single()).map_err(|_| ProxyError { text: text.into() })?;
            Ok(canonical(network))
        };
        Ok(Self { trust: Trust::Networks(networks.into_iter().map(parse).collect::<Result<_, _>>()?) })
    }

    /// That many proxies, whatever their addresses: each request has come through all of them, and each has appended
    /// the address that it saw. 1 takes the right-most address. 0 trusts nobody.
    ///
    /// Whoever reaches the service, or an inner proxy, without the others may choose their address. Where a header
    /// lists fewer addresses, the left-most counts.
    pub fn hops(count: usize) -> Self {
        Self { trust: Trust::Hops(count) }
    }

    /// Where a request came from. `hops` goes from the peer outwards: the last address of the header first. A hop that
    /// is not an address ends the walk, and whoever told of it stands for the client.
    pub(super) fn client(&self, peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let known = hops.map_while(|hop| hop.map(|addr| addr.to_canonical()));
        match &self.trust {
            Trust::Hops(count) => known.take(*count).last().unwrap_or(peer),
            Trust::Networks(networks) => {
                let mut client = peer;
                for addr in known {
                    if !networks.iter().any(|network| network.contains(&client)) {
                        break;
                    }
                    client = addr;
                }
                client
            }
        }
    }
}

/// A network of IPv4-mapped addresses is one of IPv4: addresses are compared in that form.
fn canonical(network: IpNet) -> IpNet {
    match (network.addr().to_canonical(), network.prefix_len().checked_sub(96)) {
        (addr @ IpAddr::V4(_), Some(bits)) if network.addr().is_ipv6() => {
            // At most 32 bits are left of 128.
            IpNet::new(addr, bits).unwrap_or(network)
        }
        _ => network,
    }
}

/// A text that is no network of proxies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is neither an address nor a network such as 10.0.0.0/8")]
pub struct ProxyError {
    text: String,
}
