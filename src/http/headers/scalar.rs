//! Styles with three fields of one number each.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::whole_seconds;
use crate::bucket::Decision;

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

/// Sets the fields, unless a layer inside has set them for a limit that is tighter.
pub(super) fn write(headers: &mut HeaderMap, fields: &Fields, decision: &Decision, reset: Duration) {
    let reset = whole_seconds(reset);
    let number = |name| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    if let (Some(remaining), Some(until)) = (number(&fields.remaining), number(&fields.reset))
        && (remaining < decision.remaining || remaining == decision.remaining && until >= reset)
    {
        return;
    }
    headers.insert(&fields.limit, decision.limit.into());
    headers.insert(&fields.remaining, decision.remaining.into());
    headers.insert(&fields.reset, reset.into());
}
