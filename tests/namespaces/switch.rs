//! A switch with as many hosts as are wanted, which come and go, and a DNS server for them: the network of a cluster of pods.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::{
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use tokio::runtime::Runtime;

use crate::{
    dns_server::DnsServer,
    eventually,
    host::{CABLE, Host, new_name, run},
};

/// The device that connects them, in the namespace of the switch.
const BRIDGE: &str = "bridge";
/// Where the switch has the DNS server.
const DNS: [&str; 2] = ["10.78.0.1", "fd00:78::1"];
const DNS_PORT: u16 = 53;

/// The network. Hosts that were plugged in must be dropped before it.
pub(crate) struct Switch {
    host: Host,
    plugged: AtomicU32,
}

/// Of which family a host's addresses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Families {
    V4,
    V6,
    Both,
}

impl Families {
    /// The addresses of the host of this number, with the lengths of their networks' prefixes.
    pub(crate) fn addrs(self, number: u8) -> Vec<(IpAddr, u8)> {
        let v4 = (IpAddr::from([10, 78, 1, number]), 16);
        let v6 = (IpAddr::from([0xfd00, 0x78, 0, 0, 0, 0, 1, u16::from(number)]), 64);
        match self {
            Self::V4 => vec![v4],
            Self::V6 => vec![v6],
            Self::Both => vec![v4, v6],
        }
    }
}

impl Switch {
    /// # Errors
    ///
    /// What cannot be had on this machine.
    pub(crate) fn start() -> Result<Self, String> {
        let host = Host::create(format!("{}-switch", new_name()), DNS[0])?;
        host.run(["ip", "link", "add", BRIDGE, "type", "bridge"])?;
        host.run(["ip", "addr", "add", &format!("{}/16", DNS[0]), "dev", BRIDGE])?;
        host.run(["ip", "addr", "add", &format!("{}/64", DNS[1]), "dev", BRIDGE, "nodad"])?;
        host.run(["ip", "link", "set", BRIDGE, "up"])?;
        Ok(Self { host, plugged: AtomicU32::new(0) })
    }

    /// A host with the addresses of this number, from 1. Where one had them that is gone, it takes its place: the address on the
    /// wire is the same too, as on networks that move addresses.
    ///
    /// # Errors
    ///
    /// What cannot be had on this machine.
    pub(crate) fn plug(&self, number: u8, families: Families) -> Result<Host, String> {
        let port = format!("port{}", self.plugged.fetch_add(1, Ordering::Relaxed));
        let addrs = families.addrs(number);
        let mut host = Host::create(format!("{}-pod", new_name()), &addrs[0].0.to_string())?;
        let mac = format!("02:00:00:00:00:{number:02x}");
        let mut cable = Command::new("ip");
        cable.args(["link", "add", CABLE, "address", &mac, "netns", host.namespace(), "type", "veth"]);
        run(cable.args(["peer", "name", &port, "netns", self.host.namespace()]))?;
        self.host.run(["ip", "link", "set", &port, "master", BRIDGE, "up"])?;
        for (addr, prefix) in &addrs {
            let addr = format!("{addr}/{prefix}");
            // An address that is new is looked for on the network first, for a second, and cannot be used meanwhile.
            let at_once: &[_] = if addr.contains(':') { &["nodad"] } else { &[] };
            let words = ["ip", "addr", "add", &addr, "dev", CABLE];
            host.run(words.into_iter().chain(at_once.iter().copied()))?;
        }
        host.run(["ip", "link", "set", CABLE, "up"])?;
        host.run(["ip", "link", "set", "lo", "up"])?;
        // The system takes a moment to see that both ends are up, and drops what is sent before. Whoever makes the network of a
        // pod waits for that too.
        is_up(&host, CABLE);
        is_up(&self.host, &port);
        host.asks(DNS[usize::from(families == Families::V6)].parse().expect("an address"))?;
        Ok(host)
    }

    /// Gives a host that was plugged in a way to the outside, by these families.
    ///
    /// # Errors
    ///
    /// What cannot be had on this machine.
    pub(crate) fn route(&self, host: &Host, families: Families) -> Result<(), String> {
        let gateways = match families {
            Families::V4 => &DNS[..1],
            Families::V6 => &DNS[1..],
            Families::Both => &DNS[..],
        };
        gateways.iter().try_for_each(|gateway| host.run(["ip", "route", "add", "default", "via", gateway]).map(drop))
    }

    /// As [`Host::inside`], at the switch, from which all hosts are reached.
    pub(crate) fn inside<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        self.host.inside(action)
    }

    /// A DNS server for the hosts, which answers in `runtime`, by IPv6 where that is all they have.
    pub(crate) fn dns(&self, runtime: &Runtime, families: Families) -> DnsServer {
        let ip: IpAddr = DNS[usize::from(families == Families::V6)].parse().expect("an address");
        let addr = SocketAddr::new(ip, DNS_PORT);
        let (udp, tcp) = self.host.inside(|| (UdpSocket::bind(addr).unwrap(), TcpListener::bind(addr).unwrap()));
        udp.set_nonblocking(true).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let _inside = runtime.enter();
        DnsServer::serve(udp.try_into().unwrap(), tcp.try_into().unwrap())
    }
}

/// Waits until packets go over a device.
fn is_up(host: &Host, device: &str) {
    let link = ["ip", "-brief", "link", "show", "dev", device];
    eventually(&format!("{device} is up"), || host.run(link).is_ok_and(|said| said.contains(" UP ")));
}
