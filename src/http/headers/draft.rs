//! The structured fields of draft-ietf-httpapi-ratelimit-headers-10.

use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{Integer, KeyRef, ListSerializer, StringRef, key_ref};

use super::{policy::Window, until_more, whole_seconds};
use crate::{backend::RateLimiter, http::admission::Entry};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

const QUOTA: &KeyRef = key_ref("q");
const WINDOW: &KeyRef = key_ref("w");
/// A parameter of our own, named as section 3.1 asks.
const BURST: &KeyRef = key_ref("peerlimit-burst");
const REMAINING: &KeyRef = key_ref("r");
const RESET: &KeyRef = key_ref("t");

/// Appends a line with one member for each limit to both lists. Several lines are one list: RFC 9651, section 3.1.
pub(super) fn write<L: RateLimiter>(headers: &mut HeaderMap, entries: &[Entry<L>]) {
    let mut policies = ListSerializer::new();
    let mut limits = ListSerializer::new();
    for entry in entries {
        let Some(decision) = &entry.answer else { continue };
        let quota = entry.limiter.policy().quota;
        let name = super::name(decision.policy);
        let Ok(name) = StringRef::from_str(&name) else { continue };
        let window = Window::of(&quota);
        let mut policy = policies.bare_item(name);
        policy = policy.parameter(QUOTA, integer(window.permits)).parameter(WINDOW, integer(window.seconds));
        if quota.burst_size() != quota.count() {
            let _written = policy.parameter(BURST, integer(quota.burst_size()));
        }
        let reset = whole_seconds(until_more(decision, &quota));
        let limit = limits.bare_item(name);
        let _written = limit.parameter(REMAINING, integer(decision.remaining)).parameter(RESET, integer(reset));
    }
    append(headers, POLICY, policies.finish());
    append(headers, LIMIT, limits.finish());
}

fn integer(number: u64) -> Integer {
    Integer::try_from(number).unwrap_or(Integer::MAX)
}

fn append(headers: &mut HeaderMap, name: HeaderName, list: Option<String>) {
    // No list is empty; what was serialized is visible ASCII.
    if let Some(value) = list.and_then(|list| HeaderValue::try_from(list).ok()) {
        headers.append(name, value);
    }
}
