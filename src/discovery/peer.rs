//! What an entry of a peer list may look like.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use super::found::unreachable;

/// The longest name that DNS can carry, without the final dot (RFC 1035, section 2.3.4).
const MAX_NAME_LEN: usize = 253;
/// The longest part of a name between two dots.
const MAX_LABEL_LEN: usize = 63;

const BAD_PORT: &str = "the port must be a number from 1 to 65535";

/// One entry of a peer list, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// An address; nothing to look up.
    Address(SocketAddr),
    /// A name, to be looked up in every round.
    Name { host: String, port: u16 },
}

impl Peer {
    /// Understands `host:port`, `1.2.3.4:port` and `[::1]:port`, or says what is wrong.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("an entry is empty; write host:port");
        }
        if text.starts_with('[') {
            let address: SocketAddrV6 =
                text.parse().map_err(|_| "not an IPv6 address and a port; write it as in [2001:db8::1]:7946")?;
            return Self::address(address.into());
        }
        if text.contains("//") {
            return Err("a URL is not an address; write host:port");
        }
        let (host, port) = text.rsplit_once(':').ok_or("the port is missing; write host:port")?;
        if host.contains(':') {
            return Err("an IPv6 address needs brackets, as in [2001:db8::1]:7946");
        }
        let port = parse_port(port)?;
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Self::address(SocketAddr::new(ip, port));
        }
        check_host(host)?;
        Ok(Self::Name { host: host.to_owned(), port })
    }

    fn address(address: SocketAddr) -> Result<Self, &'static str> {
        if address.port() == 0 {
            return Err(BAD_PORT);
        }
        match unreachable(address.ip()) {
            Some(problem) => Err(problem),
            None => Ok(Self::Address(address)),
        }
    }
}

/// Digits only: `u16::from_str` would take a sign as well.
fn parse_port(text: &str) -> Result<u16, &'static str> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BAD_PORT);
    }
    match text.parse() {
        Ok(0) | Err(_) => Err(BAD_PORT),
        Ok(port) => Ok(port),
    }
}

/// Says what keeps `host` from being a name that DNS and the hosts file know, if anything.
///
/// Underscores are allowed: service records and container names have them.
pub(super) fn check_host(host: &str) -> Result<(), &'static str> {
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.is_empty() {
        return Err("the host name is missing");
    }
    if name.len() > MAX_NAME_LEN {
        return Err("the host name is longer than 253 characters");
    }
    if !name.is_ascii() {
        return Err("the host name is not ASCII; write it in its xn-- form");
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err("the host name has an empty part between two dots");
        }
        if label.len() > MAX_LABEL_LEN {
            return Err("a part of the host name is longer than 63 characters");
        }
        if !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return Err("a host name has only letters, digits, hyphens, underscores and dots");
        }
    }
    // No top-level domain is a number, while resolvers read 10.1 as 10.0.0.1: this is an address gone wrong.
    let last = name.rsplit('.').next().unwrap_or(name);
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("neither an IPv4 address nor a host name, which does not end in a number");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_with_a_port_are_understood() {
        for text in ["10.1.2.3:7946", "[::1]:7946", "[fe80::1%2]:7946"] {
            assert_eq!(Peer::parse(text), Ok(Peer::Address(text.parse().unwrap())), "{text}");
        }
        for host in ["localhost", "a.example.", "peer-0.peers.default.svc", "_a._udp.b", "my_app_1", "7up.example"] {
            let expected = Peer::Name { host: host.to_owned(), port: 65535 };
            assert_eq!(Peer::parse(&format!("{host}:65535")), Ok(expected), "{host}");
        }
    }

    #[test]
    fn an_entry_that_cannot_be_meant_is_refused_with_what_is_wrong() {
        for (text, hint) in [
            ("", "empty"),
            ("nonsense", "port is missing"),
            ("host:", "1 to 65535"),
            ("host:99999", "1 to 65535"),
            ("host:0", "1 to 65535"),
            ("host:+80", "1 to 65535"),
            ("host:http", "1 to 65535"),
            (":7946", "name is missing"),
            (".:7946", "name is missing"),
            ("::1:7946", "brackets"),
            ("2001:db8::1", "brackets"),
            ("[::1]", "not an IPv6 address"),
            ("[::1]:0", "1 to 65535"),
            ("[::1:7946", "not an IPv6 address"),
            ("[host]:7946", "not an IPv6 address"),
            ("http://host:7946", "URL"),
            ("a b:7946", "only letters"),
            ("a,b:7946", "only letters"),
            ("a..b:7946", "empty part"),
            ("bücher.example:7946", "xn--"),
            ("10.1.2:7946", "IPv4"),
            ("256.1.1.1:7946", "IPv4"),
            ("0.0.0.0:7946", "unspecified"),
            ("[::]:7946", "unspecified"),
            ("224.0.0.1:7946", "multicast"),
        ] {
            let problem = Peer::parse(text).expect_err(text);
            assert!(problem.contains(hint), "{text:?} gave {problem:?}");
        }
        let long = "a".repeat(64);
        assert!(check_host(&long).unwrap_err().contains("63"));
        assert!(check_host(&[long[1..].to_owned().as_str(); 4].join(".")).unwrap_err().contains("253"));
    }
}
