//! The structured fields of draft-ietf-httpapi-ratelimit-headers-10.

use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{Integer, KeyRef, ListSerializer, StringRef, key_ref};

use super::Told;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

const QUOTA: &KeyRef = key_ref("q");
const WINDOW: &KeyRef = key_ref("w");
/// A parameter of our own, named as section 3.1 asks.
const BURST: &KeyRef = key_ref("peerlimit-burst");
const REMAINING: &KeyRef = key_ref("r");
const RESET: &KeyRef = key_ref("t");

/// As long as most lines are.
const USUAL: usize = 64;

/// Appends a line with one member for each limit to both lists. Several lines are one list: RFC 9651, section 3.1.
pub(super) fn write(headers: &mut HeaderMap, all: &[Told]) {
    let [mut policies, mut limits] = [(); 2].map(|()| String::with_capacity(USUAL));
    let mut policies_list = ListSerializer::with_buffer(&mut policies);
    let mut limits_list = ListSerializer::with_buffer(&mut limits);
    for Told { policy, remaining, more, window, burst, .. } in all {
        let name = super::name(policy);
        let Ok(name) = StringRef::from_str(&name) else { continue };
        let mut policy = policies_list.bare_item(name);
        policy = policy.parameter(QUOTA, integer(window.permits)).parameter(WINDOW, integer(window.seconds));
        if let Some(burst) = burst {
            let _written = policy.parameter(BURST, integer(burst.get()));
        }
        let limit = limits_list.bare_item(name).parameter(REMAINING, integer(*remaining));
        let _written = limit.parameter(RESET, integer(*more));
    }
    append(headers, POLICY, policies);
    append(headers, LIMIT, limits);
}

fn integer(number: u64) -> Integer {
    Integer::try_from(number).unwrap_or(Integer::MAX)
}

fn append(headers: &mut HeaderMap, name: HeaderName, list: String) {
    // What was serialized is visible ASCII.
    if let Ok(value) = HeaderValue::try_from(list) {
        headers.append(name, value);
    }
}
