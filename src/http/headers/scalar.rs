//! Styles with three fields of one number each.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Told;

pub(super) struct Fields {
    limit: HeaderName,
    remaining: HeaderName,
    reset: HeaderName,
}

pub(super) static RATE_LIMIT: Fields = Fields {
    limit: HeaderName::from_static("ratelimit-limit"),
    remaining: HeaderName::from_static("ratelimit-remaining"),
    reset: HeaderName::from_static("ratelimit-reset"),
};

pub(super) static X_RATE_LIMIT: Fields = Fields {
    limit: HeaderName::from_static("x-ratelimit-limit"),
    remaining: HeaderName::from_static("x-ratelimit-remaining"),
    reset: HeaderName::from_static("x-ratelimit-reset"),
};

/// Sets the fields, unless a layer inside has set them for a limit that is tighter. `reset` is in seconds.
pub(super) fn write(headers: &mut HeaderMap, fields: &Fields, told: &Told, reset: u64) {
    let number = |name| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    if let Some(remaining) = number(&fields.remaining)
        && let Some(until) = number(&fields.reset)
        && (remaining < told.remaining || remaining == told.remaining && until >= reset)
    {
        return;
    }
    headers.insert(&fields.limit, decimal(told.limit));
    headers.insert(&fields.remaining, decimal(told.remaining));
    headers.insert(&fields.reset, decimal(reset));
}

/// A number as a value: one allocation of its length. `HeaderValue::from` makes two, as it reserves for the longest number.
pub(super) fn decimal(mut number: u64) -> HeaderValue {
    const LONGEST: usize = 20;
    let mut digits = [0; LONGEST];
    let mut start = LONGEST;
    loop {
        start -= 1;
        // One digit.
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    // Digits are visible ASCII.
    HeaderValue::from_bytes(&digits[start..]).unwrap_or(HeaderValue::from_static("0"))
}
