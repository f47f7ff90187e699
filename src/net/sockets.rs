//! One port, by UDP and TCP.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UdpSocket};

/// The sockets of one node. UDP and TCP share the port.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(super) udp: UdpSocket,
    pub(super) tcp: TcpListener,
    local: SocketAddr,
}

/// Datagrams that may wait in the kernel while the driver does something else: bytes of the receive buffer, as far as
/// the system allows.
const UDP_BUFFER: usize = 1 << 20;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;
/// How often a free port is looked for where the system's choice for TCP is taken for UDP.
const PORT_TRIES: u32 = 32;

impl Sockets {
    /// Binds `addr`. Port 0 picks one that is free for both.
    ///
    /// # Errors
    ///
    /// Where the address is taken, is not ours, or may not be bound.
    pub(crate) fn bind(addr: SocketAddr) -> io::Result<Self> {
        let mut tries = if addr.port() == 0 { PORT_TRIES } else { 1 };
        loop {
            tries -= 1;
            let tcp = bind_tcp(addr)?;
            let local = tcp.local_addr()?;
            match bind_udp(local) {
                Ok(udp) => return Ok(Self { udp, tcp, local }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The address bound, with the real port.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The form of `to` in which this node's UDP socket can reach it, if it can at all.
    pub(super) fn reachable(local: SocketAddr, to: SocketAddr) -> Option<SocketAddr> {
        match (local, to) {
            (SocketAddr::V4(_), SocketAddr::V4(_)) | (SocketAddr::V6(_), SocketAddr::V6(_)) => Some(to),
            // A dual-stack socket reaches IPv4 by mapped addresses; one that is bound to an IPv6 address does not.
            (SocketAddr::V6(local), SocketAddr::V4(to)) if local.ip().is_unspecified() => {
                Some(SocketAddr::new(to.ip().to_ipv6_mapped().into(), to.port()))
            }
            _ => None,
        }
    }

    /// The address to advertise where none was given: the one bound, or where that is unspecified, the one that the
    /// system would use towards the outside.
    ///
    /// # Errors
    ///
    /// Where there is no way to know.
    pub(crate) fn default_advertise(&self) -> Result<SocketAddr, AdvertiseError> {
        if !self.local.ip().is_unspecified() {
            return Ok(self.local);
        }
        // Documentation addresses (RFC 5737, RFC 3849). Connecting a UDP socket sends nothing; it asks the routing
        // table.
        let outside_v4 =
            (SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9)));
        let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        let outside_v6 = (SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), SocketAddr::from((v6, 9)));
        let candidates = match self.local {
            SocketAddr::V4(_) => vec![outside_v4],
            SocketAddr::V6(_) => vec![outside_v6, outside_v4],
        };
        let found = candidates.into_iter().find_map(|(from, to)| source_address(from, to).ok());
        let ip = found.ok_or(AdvertiseError { bind: self.local })?;
        Ok(SocketAddr::new(ip, self.local.port()))
    }
}

/// Nobody can tell where this node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bound to {bind}, and no route says which address peers can reach; set `advertise`")]
pub(crate) struct AdvertiseError {
    bind: SocketAddr,
}

fn source_address(from: SocketAddr, to: SocketAddr) -> io::Result<IpAddr> {
    let socket = std::net::UdpSocket::bind(from)?;
    socket.connect(to)?;
    let ip = socket.local_addr()?.ip();
    // A network may have a router and no prefix. The address of the link alone means nothing on another host.
    let of_the_link = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    if ip.is_unspecified() || of_the_link { Err(io::ErrorKind::AddrNotAvailable.into()) } else { Ok(ip) }
}

fn bind_tcp(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = new_socket(addr, Type::STREAM, Protocol::TCP)?;
    // Connections of a former run that linger in TIME_WAIT must not keep a restarted node off its port. On other
    // systems the same option would let two processes share it.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn bind_udp(addr: SocketAddr) -> io::Result<UdpSocket> {
    let socket = new_socket(addr, Type::DGRAM, Protocol::UDP)?;
    // As much as the system gives; less only means that a long pause loses datagrams, and those are repaired.
    if let Err(error) = socket.set_recv_buffer_size(UDP_BUFFER) {
        tracing::debug!(%error, "receive buffer keeps its size");
    }
    socket.bind(&addr.into())?;
    UdpSocket::from_std(socket.into())
}

fn new_socket(addr: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), kind, Some(protocol))?;
    if let SocketAddr::V6(v6) = addr {
        socket.set_only_v6(!v6.ip().is_unspecified())?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}
