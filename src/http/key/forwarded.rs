//! Addresses in `X-Forwarded-For` and `Forwarded`, from right to left.
//!
//! From the right, because that end was written by a proxy that is trusted, and is well-formed. The left may be the
//! client's: an unbalanced quote there, read from the left, would swallow what the proxy appended.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};

use super::ForwardedHeader;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED: HeaderName = http::header::FORWARDED;

impl ForwardedHeader {
    /// What the header says of each hop, the nearest first. `None` for what is no address: an obfuscated identifier,
    /// `unknown`, nonsense.
    pub(super) fn hops(self, headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
        let (name, quotes) = match self {
            Self::XForwardedFor => (X_FORWARDED_FOR, false),
            Self::Forwarded => (FORWARDED, true),
        };
        // Several lines are one list, RFC 9110, section 5.3.
        let lines = headers.get_all(name).into_iter().rev();
        let elements = lines.flat_map(move |line| Elements { rest: Some(line.as_bytes()), quotes });
        elements.filter(|element| !element.is_empty()).map(move |element| match self {
            Self::XForwardedFor => node(element),
            Self::Forwarded => forwarded_for(element),
        })
    }
}

/// The elements of a list, the last one first.
struct Elements<'a> {
    rest: Option<&'a [u8]>,
    /// Whether commas in quotes do not divide.
    quotes: bool,
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let (element, before) = match last_comma(rest, self.quotes) {
            Some(at) => (&rest[at + 1..], Some(&rest[..at])),
            None => (rest, None),
        };
        self.rest = before;
        Some(element.trim_ascii())
    }
}

/// The last comma outside of quotes.
fn last_comma(list: &[u8], quotes: bool) -> Option<usize> {
    let mut quoted = false;
    list.iter().enumerate().rev().find_map(|(at, byte)| match byte {
        b'"' if quotes && !(quoted && is_escaped(list, at)) => {
            quoted = !quoted;
            None
        }
        b',' if !quoted => Some(at),
        _ => None,
    })
}

/// Whether an odd number of backslashes stands before `at`.
fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The `for` of an element of `Forwarded`: pairs divided by semicolons, names in any case.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut quoted = false;
    let pairs = element.split(|byte| {
        quoted ^= *byte == b'"';
        *byte == b';' && !quoted
    });
    let mut values = pairs.filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        pair[..at].trim_ascii().eq_ignore_ascii_case(b"for").then(|| pair[at + 1..].trim_ascii())
    });
    let value = values.next()?;
    // "Each parameter MUST NOT occur more than once per field-value": of two, neither is believed.
    if values.next().is_some() {
        return None;
    }
    // No address needs an escape, so a value with one is none.
    node(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

/// An address with or without a port; one of IPv6 with or without brackets, though with a port it needs them.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(addr) = text.parse() {
        return Some(addr);
    }
    if let Some(addr) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return addr.parse().ok().map(IpAddr::V6);
    }
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return Some(addr.ip());
    }
    // A port may be obfuscated too: `192.0.2.1:_http`.
    let (addr, port) = text.rsplit_once(':')?;
    let addr = addr.strip_prefix('[').and_then(|addr| addr.strip_suffix(']')).unwrap_or(addr);
    port.starts_with('_').then(|| addr.parse().ok()).flatten()
}
