//! Several limits on one request.

use http::HeaderName;
use peerlimit::{
    Limiter, Quota,
    http::{Limit, RateLimitLayer, key},
};

use super::{
    fields::members,
    support::{Store, behind, request, send},
};

#[tokio::test]
async fn all_limits_have_to_allow_a_request_or_none_is_charged() {
    let limiter = Limiter::local(Quota::per_second(1000));
    let wide = limiter.scope("wide", Quota::per_hour(10));
    let narrow = limiter.scope("narrow", Quota::per_hour(2));
    let by_user = key::header(HeaderName::from_static("x-user"));
    let limits = Limit::new(wide.clone(), key::same()).and(Limit::new(narrow.clone(), by_user));
    let (service, handler) = behind(&RateLimitLayer::limits(limits));
    let user = |user: &'static str| request(&[("x-user", user)]);
    let passed = send(&service, user("a")).await;
    assert_eq!(members(&passed, "ratelimit", "r"), [("wide".into(), 9), ("narrow".into(), 1)]);
    send(&service, user("a")).await;
    for _ in 0..20 {
        let refused = send(&service, user("a")).await;
        assert_eq!(refused.status, 429);
        assert_eq!(
            members(&refused, "ratelimit", "r"),
            [("wide".into(), 8), ("narrow".into(), 0)],
            "wide has its permit back"
        );
        assert!(refused.body.contains("[\"narrow\"]"), "{}", refused.body);
    }
    assert_eq!(wide.peek("").remaining, 8);
    for user_id in ["b", "c", "d", "e"] {
        for _ in 0..2 {
            assert_eq!(send(&service, user(user_id)).await.status, 200);
        }
    }
    // Now the first one refuses, and the second is not asked.
    let refused = send(&service, user("f")).await;
    assert_eq!((refused.status, members(&refused, "ratelimit", "r")), (429, vec![("wide".into(), 0)]));
    assert_eq!(narrow.peek("f").remaining, 2);
    assert_eq!(handler.calls(), 10);
}

#[tokio::test]
async fn three_limits_are_given_back_each_its_own_cost() {
    let limiter = Limiter::local(Quota::per_second(1000));
    let scopes = ["one", "two", "three"].map(|name| limiter.scope(name, Quota::per_hour(10)));
    let limit = |index: usize, cost: u64| Limit::new(scopes[index].clone(), key::same()).cost(move |_| cost);
    let (service, _) = behind(&RateLimitLayer::limits(limit(0, 3).and(limit(1, 2)).and(limit(2, 6))));
    assert_eq!(send(&service, request(&[])).await.status, 200);
    for _ in 0..3 {
        assert_eq!(send(&service, request(&[])).await.status, 429);
    }
    assert_eq!(scopes.map(|scope| scope.peek("").remaining), [7, 8, 4]);
}

#[tokio::test]
async fn stores_that_take_their_time_are_given_back_too() {
    let [wide, narrow] = [10, 1].map(|count| Store::new(Limiter::local(Quota::per_hour(count))));
    let limits = Limit::new(wide.clone(), key::same()).and(Limit::new(narrow.clone(), key::same()));
    let (service, handler) = behind(&RateLimitLayer::limits(limits));
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(send(&service, request(&[])).await.status, 429);
    assert_eq!(wide.limiter.peek("").remaining, 9);
    assert_eq!(*wide.asked.lock().unwrap(), ["decide", "decide", "refund"]);
    assert_eq!(*narrow.asked.lock().unwrap(), ["decide", "decide"]);
    assert_eq!(handler.calls(), 1);
}
