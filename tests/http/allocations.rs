//! What the layer allocates: nothing, where a request passes and nothing is said of it.

use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use http::HeaderName;
use peerlimit::{
    DynRateLimiter, Limiter, Quota,
    http::{HeaderStyle, Limit, Limits, RateLimit, RateLimitLayer, key},
};
use tower::{Layer as _, Service as _};

use super::support::{Handler, request};

/// A quota under which nothing is refused.
const AMPLE: Quota = Quota::per_second(1_000_000);

fn call<R: Limits>(service: &mut RateLimit<Handler, R>, request: http::Request<super::support::Body>) {
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_ready());
    let future = std::pin::pin!(service.call(request));
    let Poll::Ready(Ok(response)) = future.poll(&mut cx) else { panic!("answers at once") };
    assert_eq!(response.status(), 200);
}

/// Allocations of a request, the handler's included.
fn allocations<R: Limits>(layer: &RateLimitLayer<R>) -> u64 {
    let mut service = layer.layer(Handler::default());
    let request = || request(&[("x-user", "somebody@example.com")]);
    // The key has to be known.
    call(&mut service, request());
    let next = request();
    measure(|| call(&mut service, next)).count_total
}

#[test]
fn an_allowed_request_with_a_borrowed_key_and_no_headers_allocates_nothing() {
    let bare = {
        let mut handler = Handler::default();
        let request = request(&[("x-user", "somebody@example.com")]);
        measure(|| drop(handler.call(request))).count_total
    };
    let limiter = Limiter::local(AMPLE);
    let header = || key::header(HeaderName::from_static("x-user"));
    let silent = RateLimitLayer::new(limiter.clone(), header()).headers([]);
    assert_eq!(allocations(&silent), bare);
    let tuple = RateLimitLayer::new(limiter.clone(), (header(), key::method_and_path())).headers([]);
    assert_eq!(allocations(&tuple), bare);
    let token = RateLimitLayer::new(limiter.default_scope().clone(), key::same()).headers([]);
    assert_eq!(allocations(&token), bare);
    let erased = DynRateLimiter::new(limiter.clone());
    assert_eq!(allocations(&RateLimitLayer::new(erased, header()).headers([])), bare);
    let several = Limit::new(limiter.clone(), header()).and(Limit::new(limiter.clone(), key::same()));
    // A second limit needs room.
    assert_eq!(allocations(&RateLimitLayer::limits(several).headers([])), bare + 1);
    // And what header fields need is little.
    let speaking = RateLimitLayer::new(limiter, header()).headers([HeaderStyle::Draft]);
    let more = allocations(&speaking) - bare;
    assert!(more <= 16, "{more} allocations for two header fields");
}
