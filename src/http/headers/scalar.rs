//! Styles with three fields of one number each.

use http::{HeaderMap, HeaderName};

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
    headers.insert(&fields.limit, told.limit.into());
    headers.insert(&fields.remaining, told.remaining.into());
    headers.insert(&fields.reset, reset.into());
}
