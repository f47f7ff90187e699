//! Escapes in targets. Two spellings of one thing must not be two keys.

use super::KeyWriter;

/// The byte that an escape at the start of `text` stands for.
fn escape(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    // Two digits make at most 255.
    Some((digit(*high)? * 16 + digit(*low)?) as u8)
}

/// The bytes of a name or value of `application/x-www-form-urlencoded`. What is no escape stands for itself.
pub(super) fn form(text: &str) -> impl Iterator<Item = u8> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (first, after) = rest.split_first()?;
        let (byte, after) = match escape(rest) {
            Some(byte) => (byte, &rest[3..]),
            None if *first == b'+' => (b' ', after),
            None => (*first, after),
        };
        rest = after;
        Some(byte)
    })
}

/// A path in which escapes of unreserved characters are those characters, and all others have capital digits.
pub(super) fn write_path(path: &str, key: &mut KeyWriter) {
    let mut rest = path.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        key.write(&rest[..at]);
        rest = &rest[at..];
        let taken = match escape(rest) {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                key.write([byte]);
                3
            }
            Some(_) => {
                key.write([b'%', rest[1].to_ascii_uppercase(), rest[2].to_ascii_uppercase()]);
                3
            }
            None => {
                key.write([b'%']);
                1
            }
        };
        rest = &rest[taken..];
    }
    key.write(rest);
}
