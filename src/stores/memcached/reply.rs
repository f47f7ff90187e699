//! What a server answers, from bytes that may end anywhere.

use thiserror::Error;

/// Longest line of an answer that is taken, its end included. A server's own error texts are shorter.
pub(super) const MAX_LINE: usize = 512;
/// Longest counter: the digits of `u64::MAX`.
const MAX_DIGITS: usize = 20;
const LINE_END: &[u8] = b"\r\n";

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// What the command had as its opaque. Errors come without.
    pub(super) opaque: Option<u64>,
    pub(super) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// A counter, and how long it lasts.
    Counter { value: u64, left: Left },
    /// Done, and nothing to tell.
    Done,
    /// There is no such counter.
    Missing,
    /// The server does not do it, and says why. Graphic ASCII and spaces.
    Refused(String),
}

/// How long a counter lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// So many seconds of the server's clock.
    Seconds(u64),
    /// For ever.
    Forever,
}

/// Bytes that are no answer to anything we ask. The connection that they come from is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{}", self.text())]
pub(super) enum Garbage {
    LongLine,
    LineEnd,
    Unknown,
    Flag,
    Value,
    OutOfStep,
}

impl Garbage {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::LongLine => "a line is too long",
            Self::LineEnd => "a line does not end in CR LF",
            Self::Unknown => "a line is no answer that it knows",
            Self::Flag => "a flag is malformed",
            Self::Value => "a value is no counter",
            Self::OutOfStep => "an answer belongs to another command",
        }
    }
}

/// The first answer in `bytes`, and how many of them it takes up. `None` while it is not whole; at most
/// `MAX_LINE + MAX_DIGITS + 2` bytes are ever waited for.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Garbage> {
    let Some((line, after)) = first_line(bytes)? else { return Ok(None) };
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let opaque_only = |words| Flags::read(words).map(|flags| flags.opaque);
    let (opaque, body) = match words.next() {
        Some(b"VA") => {
            let size = words.next().and_then(number).ok_or(Garbage::Value)?;
            let flags = Flags::read(words)?;
            let size = usize::try_from(size).ok().filter(|size| *size <= MAX_DIGITS).ok_or(Garbage::Value)?;
            let Some(data) = bytes[after..].get(..size + LINE_END.len()) else { return Ok(None) };
            let value = data.strip_suffix(LINE_END).and_then(counter).ok_or(Garbage::Value)?;
            let left = flags.left.ok_or(Garbage::Flag)?;
            let reply = Reply { opaque: flags.opaque, body: Body::Counter { value, left } };
            return Ok(Some((reply, after + data.len())));
        }
        Some(b"HD") => (opaque_only(words)?, Body::Done),
        Some(b"NF" | b"EN") => (opaque_only(words)?, Body::Missing),
        // Two made one counter at once and neither did: the server says that it cannot be.
        Some(b"NS") => (opaque_only(words)?, Body::Refused("NS".into())),
        Some(b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR") => (None, Body::Refused(printable(line))),
        _ => return Err(Garbage::Unknown),
    };
    Ok(Some((Reply { opaque, body }, after)))
}

/// The first line without its end, and where the next one begins.
fn first_line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Garbage> {
    let head = &bytes[..bytes.len().min(MAX_LINE)];
    let Some(end) = head.iter().position(|&byte| byte == b'\n') else {
        return if head.len() < MAX_LINE { Ok(None) } else { Err(Garbage::LongLine) };
    };
    let line = head[..end].strip_suffix(b"\r").ok_or(Garbage::LineEnd)?;
    Ok(Some((line, end + 1)))
}

#[derive(Default)]
struct Flags {
    opaque: Option<u64>,
    left: Option<Left>,
}

impl Flags {
    /// Flags that we did not ask for are left aside: later servers may have more.
    fn read<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Self, Garbage> {
        let mut flags = Self::default();
        for word in words {
            match word {
                b"t-1" => flags.left = Some(Left::Forever),
                [b't', digits @ ..] => flags.left = Some(Left::Seconds(number(digits).ok_or(Garbage::Flag)?)),
                [b'O', digits @ ..] => flags.opaque = Some(number(digits).ok_or(Garbage::Flag)?),
                _ => {}
            }
        }
        Ok(flags)
    }
}

/// A counter that got shorter is padded with spaces.
fn counter(data: &[u8]) -> Option<u64> {
    number(data.trim_ascii_end())
}

/// Digits and nothing else: no sign, no space.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn printable(line: &[u8]) -> String {
    let shown = |&byte: &u8| if byte == b' ' || byte.is_ascii_graphic() { char::from(byte) } else { '.' };
    line.iter().map(shown).collect()
}

#[cfg(test)]
mod tests;
