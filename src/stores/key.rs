//! How keys are written where a server keeps them.

use std::fmt::Write as _;

use ring::digest;

/// Longest key that is written as it is.
const LONGEST_PLAIN: usize = 64;
/// Bytes of a digest that are kept: 160 bits, out of reach for whoever looks for two keys with one digest.
const DIGEST_BYTES: usize = 20;
/// Longest outcome of [`write`].
pub(super) const MAX_LEN: usize = 1 + LONGEST_PLAIN;

/// Appends `key` in at most [`MAX_LEN`] characters that no server's protocol gives a meaning to: graphic ASCII without braces.
///
/// A short key of such characters stays readable, after a `=`. Any other one becomes `#` and 40 hexadecimal digits of its
/// SHA-256 (FIPS 180-4). So two keys never become one, and no key can pose as the digest of another.
pub(super) fn write(key: &[u8], out: &mut String) {
    match std::str::from_utf8(key) {
        Ok(plain) if plain.len() <= LONGEST_PLAIN && plain.bytes().all(is_plain) => {
            out.push('=');
            out.push_str(plain);
        }
        _ => {
            out.push('#');
            for byte in &digest::digest(&digest::SHA256, key).as_ref()[..DIGEST_BYTES] {
                let _infallible = write!(out, "{byte:02x}");
            }
        }
    }
}

/// Redis takes what is in the first pair of braces for the place of a key, and memcached ends a key at white space.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(key: impl AsRef<[u8]>) -> String {
        let mut out = String::new();
        write(key.as_ref(), &mut out);
        out
    }

    #[test]
    fn a_short_key_stays_readable() {
        assert_eq!(written("user:123"), "=user:123");
        assert_eq!(written(""), "=");
        assert_eq!(written("k".repeat(64)), format!("={}", "k".repeat(64)));
    }

    #[test]
    fn any_other_key_becomes_a_digest() {
        for key in [&b"a b"[..], b"a\r\nflush_all", b"a\0", b"{a}", b"}", "\u{e4}".as_bytes(), &[0xff], &[b'k'; 65]] {
            let written = written(key);
            assert_eq!(written.len(), 41, "{key:?}");
            assert!(written.starts_with('#') && written.bytes().all(is_plain), "{key:?}: {written}");
        }
        // The first digits of the SHA-256 of a space.
        assert_eq!(written(" "), "#36a9e7f1c95b82ffb99743e0c5c4ce95d83c9a43");
    }

    #[test]
    fn no_key_poses_as_the_digest_of_another() {
        assert_eq!(written("#36a9e7f1c95b82ffb99743e0c5c4ce95d83c9a43"), "=#36a9e7f1c95b82ffb99743e0c5c4ce95d83c9a43");
    }
}
