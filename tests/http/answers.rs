//! Who passes, and what the others are told.

use std::{sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use http::{HeaderName, Response, StatusCode};
use peerlimit::{
    Limiter, ManualClock, Quota,
    http::{Limit, MissingKey, RateLimitLayer, Refusal, key},
};

use super::support::{behind, request, send};

fn two_an_hour() -> Limiter {
    Limiter::local(Quota::per_hour(2))
}

fn by_user() -> key::HeaderKey {
    key::header(HeaderName::from_static("x-user"))
}

#[tokio::test]
async fn each_key_has_its_own_limit_and_the_service_sees_only_what_passes() {
    let (service, handler) = behind(&RateLimitLayer::new(two_an_hour(), by_user()));
    for (user, status) in [("a", 200), ("a", 200), ("a", 429), ("b", 200), ("a", 429)] {
        assert_eq!(send(&service, request(&[("x-user", user)])).await.status, status, "{user}");
    }
    assert_eq!(handler.calls.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn waiting_as_long_as_retry_after_says_succeeds() {
    for quota in [Quota::per_second(3), Quota::per_minute(7), Quota::every(Duration::from_millis(1_001)).burst(2)] {
        let clock = ManualClock::new();
        let limiter = Limiter::local_with_clock(quota, clock.clone());
        let (service, _) = behind(&RateLimitLayer::new(limiter, key::same()));
        for _ in 0..20 {
            let answer = send(&service, request(&[])).await;
            if answer.status == 429 {
                let wait: u64 = answer.field("retry-after").parse().expect("whole seconds");
                clock.advance(Duration::from_secs(wait));
                let again = send(&service, request(&[])).await;
                assert_eq!(again.status, 200, "after {wait} s at {quota:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_is_a_problem_with_the_headers_of_the_limit() {
    let limiter = Limiter::local_with_clock(Quota::per_second(1000), ManualClock::new());
    let users = limiter.scope("users", Quota::per_minute(1));
    let (service, _) = behind(&RateLimitLayer::new(users, key::same()));
    assert_eq!(send(&service, request(&[])).await.status, 200);
    let refused = send(&service, request(&[])).await;
    assert_eq!((refused.status, refused.field("content-type")), (429, "application/problem+json"));
    assert_eq!(refused.field("ratelimit"), r#""users";r=0;t=60"#);
    assert_eq!(refused.field("retry-after"), "60");
    let problem: serde_json::Value = serde_json::from_str(&refused.body).expect("JSON");
    assert_eq!(problem["violated-policies"], serde_json::json!(["users"]));
}

#[tokio::test]
async fn a_function_builds_other_refusals_and_the_layer_adds_its_headers() {
    let layer = RateLimitLayer::new(Limiter::local(Quota::every(Duration::from_secs(60))), key::same());
    let layer = layer.refuse_with(|head, refusal| match refusal {
        Refusal::Limited { decision: Some(decision), .. } => {
            let wait = decision.retry_after.map(|wait| wait.as_secs() > 50);
            let mut response = Response::new(Bytes::from(format!("{} {wait:?}", head.uri().path())));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response
        }
        _ => refusal.response(head),
    });
    let (service, _) = behind(&layer);
    assert_eq!(send(&service, request(&[])).await.status, 200);
    let refused = send(&service, request(&[])).await;
    assert_eq!((refused.status, refused.body.as_str()), (418, "/ Some(true)"));
    assert!(refused.headers.contains_key("retry-after") && refused.headers.contains_key("ratelimit"));
}

#[tokio::test]
async fn a_request_without_a_key_is_refused_exempt_or_shares_a_bucket_as_the_policy_says() {
    let limit = || Limit::new(two_an_hour(), by_user());
    let (refusing, handler) = behind(&RateLimitLayer::limits(limit()));
    assert_eq!(send(&refusing, request(&[])).await.status, 400);
    assert_eq!(handler.calls(), 0);

    let (exempting, _) = behind(&RateLimitLayer::limits(limit().missing_key(MissingKey::Exempt)));
    for _ in 0..5 {
        let answer = send(&exempting, request(&[])).await;
        assert_eq!((answer.status, answer.headers.contains_key("ratelimit")), (200, false));
    }

    let (sharing, _) = behind(&RateLimitLayer::limits(limit().missing_key(MissingKey::Share)));
    for status in [200, 200, 429] {
        assert_eq!(send(&sharing, request(&[])).await.status, status);
    }
    // No key of a client is that bucket, whatever its bytes.
    for user in ["\u{0}", "0", "a"] {
        let Ok(value) = user.parse::<http::HeaderValue>() else { continue };
        assert_eq!(send(&sharing, request(&[("x-user", value.to_str().unwrap())])).await.status, 200);
    }
}

#[tokio::test]
async fn no_peer_address_is_a_server_error_that_says_so() {
    let (service, handler) = behind(&RateLimitLayer::new(two_an_hour(), key::peer_addr()));
    let answer = send(&service, request(&[("x-forwarded-for", "192.0.2.1")])).await;
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("cannot tell its clients apart"), "{}", answer.body);
    assert_eq!(handler.calls(), 0);
}

#[tokio::test]
async fn a_missing_token_is_answered_with_how_to_authenticate() {
    let (service, _) = behind(&RateLimitLayer::new(two_an_hour(), key::bearer_token()));
    let answer = send(&service, request(&[])).await;
    assert_eq!((answer.status, answer.field("www-authenticate")), (401, "Bearer"));
}

#[tokio::test]
async fn costs_are_by_the_request_and_one_above_the_burst_is_never_allowed() {
    let limit = Limit::new(Limiter::local(Quota::per_hour(10)), key::same());
    let cost = |head: &peerlimit::http::RequestHead<'_>| {
        head.headers().get("x-cost").and_then(|cost| cost.to_str().ok()?.parse().ok()).unwrap_or(1)
    };
    let (service, _) = behind(&RateLimitLayer::limits(limit.cost(cost)));
    for (cost, status) in [("6", 200), ("5", 429), ("4", 200), ("0", 200), ("1", 429)] {
        assert_eq!(send(&service, request(&[("x-cost", cost)])).await.status, status, "{cost}");
    }
    let never = send(&service, request(&[("x-cost", "11")])).await;
    assert_eq!((never.status, never.headers.contains_key("retry-after")), (429, false));
}

#[tokio::test]
async fn a_resolver_chooses_the_limiter_and_the_cost_or_lets_pass() {
    let limiter = Limiter::local(Quota::per_second(1000));
    let (free, paid) = (limiter.scope("free", Quota::per_hour(1)), limiter.scope("paid", Quota::per_hour(4)));
    let tiers = move |head: &peerlimit::http::RequestHead<'_>| match head.headers().get("x-tier")?.to_str() {
        Ok("paid") => Some((paid.clone(), 2)),
        _ => Some((free.clone(), 1)),
    };
    let (service, _) = behind(&RateLimitLayer::limits(Limit::resolve(tiers, by_user())));
    for (tier, status) in [("free", 200), ("free", 429), ("paid", 200), ("paid", 200), ("paid", 429)] {
        let answer = send(&service, request(&[("x-user", "a"), ("x-tier", tier)])).await;
        assert_eq!(answer.status, status, "{tier}");
        assert!(answer.field("ratelimit").starts_with(&format!("{tier:?};")));
    }
    for _ in 0..5 {
        let exempt = send(&service, request(&[("x-user", "a")])).await;
        assert_eq!((exempt.status, exempt.headers.contains_key("ratelimit")), (200, false));
    }
}

#[tokio::test]
async fn the_handler_finds_the_decision_where_it_was_asked_for() {
    let layer = RateLimitLayer::new(two_an_hour(), key::same());
    let (service, handler) = behind(&layer);
    send(&service, request(&[])).await;
    assert_eq!(*handler.seen.lock().unwrap(), None);
    let (service, handler) = behind(&layer.insert_decision());
    send(&service, request(&[])).await;
    let seen = handler.seen.lock().unwrap().expect("the decision");
    assert!(seen.allowed && seen.remaining == 0 && seen.limit == 2);
}
