//! What is asked of a server, as lines of memcached's meta protocol.

use std::io::Write as _;

/// Longest expiry that the protocol takes as a span of time. What is above it is read as seconds since 1970.
const LONGEST_SPAN: u64 = 30 * 24 * 60 * 60;
/// Last second since 1970 that servers take. Past it they wrap around, to a key that is gone at once or one that never
/// goes.
const LAST_SECOND: u64 = i32::MAX as u64;

/// When a key goes by itself, as the protocol has it. Never 0, which would be never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expiry(u64);

impl Expiry {
    /// In `seconds` from now, at least 1, by a wall clock that says `wall_seconds` since 1970. `None` past what servers
    /// can express, January 2038.
    pub(super) fn after(seconds: u64, wall_seconds: u64) -> Option<Self> {
        if seconds <= LONGEST_SPAN {
            return (seconds > 0).then_some(Self(seconds));
        }
        let at = wall_seconds.checked_add(seconds)?;
        (LONGEST_SPAN + 1..=LAST_SECOND).contains(&at).then_some(Self(at))
    }

    /// The most seconds for which there is an expiry.
    pub(super) fn most_seconds(wall_seconds: u64) -> u64 {
        LAST_SECOND.saturating_sub(wall_seconds).max(LONGEST_SPAN)
    }
}

/// One command on one counter. Each is one line, and each is answered once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// What the server calls the counter: graphic characters, at most 250.
    pub(super) key: String,
    pub(super) verb: Verb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Adds to a counter. One that is not there is made with `permits` and the expiry, in the same step.
    Add { permits: u64, expiry: Expiry },
    /// Reads a counter. As an addition of nothing, so that the answer to a key with something else in it is short as
    /// well.
    Read,
    /// Takes from a counter, not below 0. None is made.
    Take { permits: u64 },
    /// Sets the expiry of a counter.
    Expire { expiry: Expiry },
    /// Removes a counter.
    Forget,
}

impl Command {
    /// Appends the line. The server repeats `opaque` in its answer.
    pub(super) fn write(&self, opaque: u64, out: &mut Vec<u8>) {
        let key = &self.key;
        // `v`: return the value; `t`: the seconds that are left. Writing to memory cannot fail.
        let _infallible = match self.verb {
            Verb::Add { permits, expiry: Expiry(expiry) } => {
                write!(out, "ma {key} N{expiry} J{permits} D{permits} v t O{opaque}\r\n")
            }
            Verb::Read => write!(out, "ma {key} D0 v t O{opaque}\r\n"),
            Verb::Take { permits } => write!(out, "ma {key} MD D{permits} v t O{opaque}\r\n"),
            Verb::Expire { expiry: Expiry(expiry) } => write!(out, "mg {key} T{expiry} O{opaque}\r\n"),
            Verb::Forget => write!(out, "md {key} O{opaque}\r\n"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn a_window_beyond_thirty_days_ends_at_a_time_of_the_wall_clock() {
        assert_eq!(Expiry::after(1, NOW), Some(Expiry(1)));
        assert_eq!(Expiry::after(2_592_000, NOW), Some(Expiry(2_592_000)));
        assert_eq!(Expiry::after(2_592_001, NOW), Some(Expiry(NOW + 2_592_001)));
    }

    #[test]
    fn an_expiry_that_servers_would_take_for_another_one_is_none() {
        assert_eq!(Expiry::after(0, NOW), None, "0 is never");
        let most = Expiry::most_seconds(NOW);
        assert_eq!(Expiry::after(most, NOW), Some(Expiry(2_147_483_647)));
        assert_eq!(Expiry::after(most + 1, NOW), None);
        assert_eq!(Expiry::after(u64::MAX, NOW), None);
        // A wall clock that is not set would make a time of the wall clock a span.
        assert_eq!(Expiry::after(2_592_001, 0), Some(Expiry(2_592_001)));
        // After 2038 spans still work.
        assert_eq!(Expiry::most_seconds(u64::MAX), 2_592_000);
        assert_eq!(Expiry::after(2_592_000, u64::MAX), Some(Expiry(2_592_000)));
    }

    #[test]
    fn each_command_is_one_line() {
        let line = |verb| {
            let mut out = b"before\r\n".to_vec();
            Command { key: "p:n:=k".into(), verb }.write(7, &mut out);
            String::from_utf8(out).unwrap().strip_prefix("before\r\n").unwrap().to_owned()
        };
        assert_eq!(line(Verb::Add { permits: 3, expiry: Expiry(60) }), "ma p:n:=k N60 J3 D3 v t O7\r\n");
        assert_eq!(line(Verb::Read), "ma p:n:=k D0 v t O7\r\n");
        assert_eq!(line(Verb::Take { permits: u64::MAX }), "ma p:n:=k MD D18446744073709551615 v t O7\r\n");
        assert_eq!(line(Verb::Expire { expiry: Expiry(9) }), "mg p:n:=k T9 O7\r\n");
        assert_eq!(line(Verb::Forget), "md p:n:=k O7\r\n");
    }
}
