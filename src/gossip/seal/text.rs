//! Secrets in hexadecimal and base64 (RFC 4648).

use zeroize::Zeroizing;

use super::{SECRET_LEN, SecretError};

/// One of them, which does not outlive its use.
pub(super) type Secret = Zeroizing<[u8; SECRET_LEN]>;

/// Characters of a secret in base64, without padding.
const BASE64_LEN: usize = 43;

/// Either form: their lengths tell them apart.
pub(super) fn any(text: &str, line: usize) -> Result<Secret, SecretError> {
    if text.chars().count() == 2 * SECRET_LEN { hex(text, line) } else { base64(text, line) }
}

pub(super) fn hex(text: &str, line: usize) -> Result<Secret, SecretError> {
    unpack::<4>(text, 2 * SECRET_LEN, line, |char| char.to_digit(16))
}

pub(super) fn base64(text: &str, line: usize) -> Result<Secret, SecretError> {
    // Padded, or not; nothing in between.
    let unpadded = text.strip_suffix('=').unwrap_or(text);
    unpack::<6>(unpadded, BASE64_LEN, line, |char| {
        let value = match char {
            'A'..='Z' => u32::from(char) - u32::from('A'),
            'a'..='z' => u32::from(char) - u32::from('a') + 26,
            '0'..='9' => u32::from(char) - u32::from('0') + 52,
            '+' | '-' => 62,
            '/' | '_' => 63,
            _ => return None,
        };
        Some(value)
    })
}

/// Strings `length` characters of `BITS` bits together, the highest first. What is left over has to be 0, so that a
/// secret has one form.
fn unpack<const BITS: u32>(
    text: &str,
    length: usize,
    line: usize,
    value: impl Fn(char) -> Option<u32>,
) -> Result<Secret, SecretError> {
    let given = text.chars().count();
    if given != length {
        return Err(SecretError::Length { line, length: given });
    }
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    let mut bytes = secret.iter_mut();
    let (mut bits, mut held) = (Zeroizing::new(0_u32), 0);
    for (index, char) in text.chars().enumerate() {
        let wrong = SecretError::Character { line, column: index + 1 };
        let Some(value) = value(char) else { return Err(wrong) };
        *bits = *bits << BITS | value;
        held += BITS;
        if held >= 8
            && let Some(byte) = bytes.next()
        {
            held -= 8;
            *byte = (*bits >> held) as u8;
            *bits &= (1 << held) - 1;
        }
        if index + 1 == length && *bits != 0 {
            return Err(wrong);
        }
    }
    Ok(secret)
}
