//! Keys of addresses.

use std::{
    fmt,
    marker::PhantomData,
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use http::Extensions;

use super::{ForwardedHeader, KeyError, KeyExtractor, KeyWriter, TrustedProxies};
use crate::http::head::RequestHead;

/// The address of a connection's other end, for [`peer_addr`]. A server without an extension of its own inserts this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddr(pub SocketAddr);

/// Where the address of a connection's other end is found.
pub trait PeerSource {
    /// The address, if it is there.
    fn peer_addr(&self, extensions: &Extensions) -> Option<IpAddr>;
}

/// What a function reads from an extension of type `T`; see [`peer_addr_from`].
pub struct FromExtension<T, F> {
    read: F,
    extension: PhantomData<fn(&T)>,
}

impl<T, F: Clone> Clone for FromExtension<T, F> {
    fn clone(&self) -> Self {
        Self { read: self.read.clone(), extension: PhantomData }
    }
}

impl<T, F> fmt::Debug for FromExtension<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FromExtension").field(&std::any::type_name::<T>()).finish()
    }
}

impl<T, F, A> PeerSource for FromExtension<T, F>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> A,
    A: Into<Option<IpAddr>>,
{
    #[inline]
    fn peer_addr(&self, extensions: &Extensions) -> Option<IpAddr> {
        extensions.get().and_then(|extension| (self.read)(extension).into())
    }
}

/// The address in the extension [`PeerAddr`].
pub type FromPeerAddr = FromExtension<PeerAddr, fn(&PeerAddr) -> IpAddr>;

/// The address of a connection's other end, from the extension [`PeerAddr`].
///
/// With axum, tonic or another server that leaves the address in an extension of its own, use [`peer_addr_from`].
pub fn peer_addr() -> ClientAddr<FromPeerAddr> {
    peer_addr_from(|PeerAddr(addr)| addr.ip())
}

/// The address of a connection's other end, which `read` finds in an extension of the request.
///
/// With axum, served by `into_make_service_with_connect_info::<SocketAddr>()`:
///
/// ```
/// use axum::extract::ConnectInfo;
/// use peerlimit::http::key;
/// use std::net::SocketAddr;
///
/// let by_address = key::peer_addr_from(|ConnectInfo(addr): &ConnectInfo<SocketAddr>| addr.ip());
/// ```
///
/// With tonic:
///
/// ```
/// use peerlimit::http::key;
/// use tonic::transport::server::TcpConnectInfo;
///
/// let by_address = key::peer_addr_from(|info: &TcpConnectInfo| info.remote_addr().map(|addr| addr.ip()));
/// ```
pub fn peer_addr_from<T, F, A>(read: F) -> ClientAddr<FromExtension<T, F>>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> A,
    A: Into<Option<IpAddr>>,
{
    ClientAddr {
        source: FromExtension { read, extension: PhantomData },
        forwarded: None,
        ipv6_prefix: ClientAddr::<()>::IPV6_PREFIX,
    }
}

/// The address of the client: that of the connection's other end, or what trusted proxies say.
///
/// - No header is believed unless [`behind`](Self::behind) says whom to believe.
/// - IPv6 addresses that share 64 bits share a bucket, since one host has all of them; see
///   [`ipv6_prefix`](Self::ipv6_prefix).
/// - An IPv4-mapped IPv6 address is the IPv4 address.
///
/// A request that came without an address, as over a Unix socket, has no key.
#[derive(Clone, Debug)]
pub struct ClientAddr<S> {
    source: S,
    forwarded: Option<(TrustedProxies, ForwardedHeader)>,
    ipv6_prefix: u8,
}

impl<S> ClientAddr<S> {
    /// Bits of an IPv6 address that count.
    const IPV6_PREFIX: u8 = 64;

    /// Believes `proxies` what they say in `header` of those before them. No other header is read: a proxy that writes
    /// one of them passes the others on as its client sent them.
    ///
    /// ```
    /// use peerlimit::http::key::{self, ForwardedHeader, TrustedProxies};
    ///
    /// let proxies = TrustedProxies::networks(["10.0.0.0/8", "fd00::/8"])?;
    /// let by_client = key::peer_addr().behind(proxies, ForwardedHeader::XForwardedFor);
    /// # Ok::<(), peerlimit::http::key::ProxyError>(())
    /// ```
    pub fn behind(self, proxies: TrustedProxies, header: ForwardedHeader) -> Self {
        Self { forwarded: Some((proxies, header)), ..self }
    }

    /// Counts the first `bits` of IPv6 addresses, 128 at most; 64 by default.
    ///
    /// More tell hosts of one network apart, and a client that has the network gets around the limit by changing its
    /// address. Less hold clients back that were given larger networks (56 and 48 are usual), and with them others of
    /// their provider. Too much shows as clients in the log that differ in their last bits only.
    pub fn ipv6_prefix(self, bits: u8) -> Self {
        Self { ipv6_prefix: bits.min(128), ..self }
    }
}

impl<S: PeerSource> ClientAddr<S> {
    /// The address that counts, before it is cut to a prefix.
    fn client(&self, head: &RequestHead<'_>) -> Option<IpAddr> {
        let peer = self.source.peer_addr(head.extensions())?.to_canonical();
        Some(match &self.forwarded {
            Some((proxies, header)) => proxies.client(peer, header.hops(head.headers())),
            None => peer,
        })
    }
}

impl<S: PeerSource> KeyExtractor for ClientAddr<S> {
    #[inline]
    fn extract(&self, head: &RequestHead<'_>, key: &mut KeyWriter) -> Result<(), KeyError> {
        match self.client(head).ok_or(KeyError::NoPeerAddr)? {
            IpAddr::V4(addr) => key.write(addr.octets()),
            IpAddr::V6(addr) => key.write(network(addr, self.ipv6_prefix).octets()),
        }
        Ok(())
    }
}

/// The first `bits` of an address.
fn network(addr: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    Ipv6Addr::from_bits(addr.to_bits() & mask)
}
