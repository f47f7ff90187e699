//! Beside tower-http's CORS layer.

use http::{HeaderName, Method, Request};
use peerlimit::{
    Limiter, Quota,
    http::{RateLimitLayer, key},
};
use tower::Layer as _;
use tower_http::cors::{Any, CorsLayer};

use super::support::{Body, Handler, behind, request, send};

fn one_an_hour() -> RateLimitLayer<impl peerlimit::http::Limits> {
    RateLimitLayer::new(Limiter::local(Quota::per_hour(1)), key::same())
}

fn cors() -> CorsLayer {
    CorsLayer::new().allow_origin(Any).expose_headers([HeaderName::from_static("ratelimit")])
}

fn preflight() -> Request<Body> {
    let builder = Request::options("/").header("origin", "https://example.com");
    builder.header("access-control-request-method", "PUT").body(Body::default()).unwrap()
}

#[tokio::test]
async fn with_cors_outside_a_refusal_carries_the_headers_of_both() {
    let service = cors().layer(one_an_hour().layer(Handler::default()));
    let from_page = || request(&[("origin", "https://example.com")]);
    assert_eq!(send(&service, from_page()).await.status, 200);
    let refused = send(&service, from_page()).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.field("access-control-allow-origin"), "*");
    assert_eq!(refused.field("access-control-expose-headers"), "ratelimit");
    assert!(refused.headers.contains_key("ratelimit") && refused.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn with_cors_inside_a_refusal_has_no_cors_headers_but_responses_have_both() {
    let service = one_an_hour().layer(cors().layer(Handler::default()));
    let from_page = || request(&[("origin", "https://example.com")]);
    let passed = send(&service, from_page()).await;
    assert!(passed.headers.contains_key("access-control-allow-origin") && passed.headers.contains_key("ratelimit"));
    let refused = send(&service, from_page()).await;
    assert_eq!((refused.status, refused.headers.contains_key("access-control-allow-origin")), (429, false));
}

#[tokio::test]
async fn preflight_requests_are_not_counted_unless_asked() {
    let (service, handler) = behind(&one_an_hour());
    for _ in 0..5 {
        assert_eq!(send(&service, preflight()).await.status, 200);
    }
    assert_eq!(handler.calls(), 5);
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(send(&service, request(&[])).await.status, 429);

    let (service, _) = behind(&one_an_hour().count_preflight());
    assert_eq!(send(&service, preflight()).await.status, 200);
    assert_eq!(send(&service, preflight()).await.status, 429);
}

#[tokio::test]
async fn what_only_looks_like_a_preflight_is_counted() {
    let without = |name: &str| {
        let mut request = preflight();
        request.headers_mut().remove(name);
        request
    };
    let mut get = preflight();
    *get.method_mut() = Method::GET;
    for not_preflight in [without("origin"), without("access-control-request-method"), get] {
        let (service, _) = behind(&one_an_hour());
        send(&service, not_preflight).await;
        assert_eq!(send(&service, request(&[])).await.status, 429);
    }
}
