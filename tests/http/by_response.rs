//! Charges that depend on the response.

use http::HeaderName;
use peerlimit::{
    Limiter, Quota,
    http::{ByResponse, Limit, RateLimitLayer, key},
};

use tower::{Layer as _, ServiceExt as _};

use super::support::{Body, Store, behind, request, send};

fn limiter(count: u64) -> Limiter {
    Limiter::local(Quota::per_hour(count))
}

#[tokio::test]
async fn only_failures_are_counted_where_that_is_asked() {
    let attempts = limiter(2);
    let layer = RateLimitLayer::new(attempts.clone(), key::same()).by_response(ByResponse::count_failures());
    let (service, handler) = behind(&layer);
    for _ in 0..10 {
        let answer = send(&service, request(&[])).await;
        assert_eq!((answer.status, answer.field("ratelimit").contains("r=2")), (200, true));
    }
    let failed = send(&service, request(&[("x-status", "401")])).await;
    assert!(failed.field("ratelimit").contains("r=1"), "the headers count it: {}", failed.field("ratelimit"));
    assert_eq!(send(&service, request(&[("x-status", "500")])).await.status, 500);
    assert_eq!(send(&service, request(&[])).await.status, 429);
    assert_eq!(handler.calls(), 12);
}

#[tokio::test]
async fn a_classifier_of_ones_own_says_what_counts() {
    let layer = RateLimitLayer::new(limiter(1), key::same())
        .by_response(ByResponse::count_if(|head| head.headers().contains_key("x-expensive")));
    let (service, _) = behind(&layer);
    assert_eq!(send(&service, request(&[("x-status", "500")])).await.status, 500);
    assert_eq!(send(&service, request(&[("x-answer-x-expensive", "yes")])).await.status, 200);
    assert_eq!(send(&service, request(&[])).await.status, 429);
}

#[tokio::test]
async fn errors_of_our_own_are_refunded() {
    let limiter = limiter(2);
    let layer = RateLimitLayer::new(limiter.clone(), key::same()).by_response(ByResponse::refund_server_errors());
    let (service, _) = behind(&layer);
    for _ in 0..10 {
        let answer = send(&service, request(&[("x-status", "503")])).await;
        assert_eq!((answer.status, answer.field("ratelimit").contains("r=2;t=0")), (503, true));
    }
    for status in [200, 404] {
        assert_eq!(send(&service, request(&[("x-status", &status.to_string())])).await.status, status);
    }
    assert_eq!(send(&service, request(&[])).await.status, 429);
}

#[tokio::test]
async fn what_consumed_nothing_gets_nothing_back() {
    let limiter = limiter(2);
    let scope = limiter.default_scope().clone();
    let layer = RateLimitLayer::new(limiter.clone(), key::same()).by_response(ByResponse::refund_server_errors());
    let (service, _) = behind(&layer);
    for _ in 0..2 {
        assert_eq!(send(&service, request(&[])).await.status, 200);
    }
    scope.set_shadow(true);
    assert_eq!(send(&service, request(&[("x-status", "503")])).await.status, 503);
    assert_eq!(limiter.peek("").remaining, 0, "it passed for nothing");
    scope.exempt("");
    assert_eq!(send(&service, request(&[("x-status", "503")])).await.status, 503);
    scope.release("");
    assert_eq!(limiter.peek("").remaining, 0, "it passed for nothing");
}

#[tokio::test]
async fn the_response_says_what_a_request_cost() {
    let limiter = limiter(100);
    let limit = Limit::new(limiter.clone(), key::same()).cost(|_| 10);
    let cost = ByResponse::cost_in(HeaderName::from_static("x-cost"));
    let (service, _) = behind(&RateLimitLayer::limits(limit).by_response(cost));
    let remaining = |cost: &'static str, expected: u64| {
        let (service, limiter) = (service.clone(), limiter.clone());
        async move {
            let answer = send(&service, request(&[("x-answer-x-cost", cost)])).await;
            assert_eq!(answer.field("x-cost"), cost, "the field stays");
            assert_eq!(limiter.peek("").remaining, expected);
            assert!(answer.field("ratelimit").contains(&format!("r={expected};")));
        }
    };
    remaining("25", 75).await;
    remaining("1", 74).await;
    remaining("10", 64).await;
    remaining("a lot", 54).await;
    remaining("0", 54).await;
    assert!(send(&service, request(&[])).await.field("ratelimit").contains("r=44;"));
    // More than there is: into debt.
    remaining("60", 0).await;
    assert_eq!(send(&service, request(&[])).await.status, 429);
}

#[tokio::test]
async fn a_refused_request_is_not_settled() {
    let limiter = limiter(1);
    let layer = RateLimitLayer::new(limiter.clone(), key::same()).by_response(ByResponse::refund_if(|_| true));
    let (service, _) = behind(&layer);
    assert!(limiter.allow(""));
    assert_eq!(send(&service, request(&[])).await.status, 429);
    assert_eq!(limiter.peek("").remaining, 0);
}

#[tokio::test]
async fn a_service_that_fails_without_a_response_has_failed() {
    let broken =
        || tower::service_fn(|_: http::Request<Body>| async { Err::<http::Response<Body>, _>(std::fmt::Error) });
    for (by_response, remaining) in [
        (ByResponse::count_failures(), 9),
        (ByResponse::refund_server_errors(), 10),
        (ByResponse::cost_in(HeaderName::from_static("x-cost")), 9),
    ] {
        let limiter = limiter(10);
        let layer = RateLimitLayer::new(limiter.clone(), key::same()).by_response(by_response);
        let failed = layer.layer(broken()).oneshot(request(&[])).await;
        assert!(failed.is_err());
        assert_eq!(limiter.peek("").remaining, remaining);
    }
}

#[tokio::test]
async fn several_limits_of_stores_are_all_settled() {
    let [one, two] = [10, 20].map(|count| Store::new(limiter(count)));
    let limits = Limit::new(one.clone(), key::same()).and(Limit::new(two.clone(), key::same()).cost(|_| 3));
    let (service, _) = behind(&RateLimitLayer::limits(limits).by_response(ByResponse::count_failures()));
    send(&service, request(&[("x-status", "400")])).await;
    send(&service, request(&[])).await;
    assert_eq!((one.limiter.peek("").remaining, two.limiter.peek("").remaining), (9, 17));
    assert_eq!(*two.asked.lock().unwrap(), ["peek", "charge", "peek"]);
}
