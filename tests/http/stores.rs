//! Limiters that have to be waited for, and that fail.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response};
use peerlimit::{
    DynRateLimiter, Limiter, Quota,
    http::{ByResponse, Limit, OnError, RateLimitLayer, RequestHead, key},
};
use tower::{Layer as _, Service, ServiceExt as _};

use super::support::{Body, Handler, Store, behind, request, send};

fn store(count: u64) -> Store {
    Store::new(Limiter::local(Quota::per_hour(count)))
}

#[tokio::test]
async fn an_answer_is_waited_for() {
    let (service, handler) = behind(&RateLimitLayer::new(store(2), key::same()));
    for status in [200, 200, 429] {
        let answer = send(&service, request(&[])).await;
        assert_eq!((answer.status, answer.headers.contains_key("ratelimit")), (status, true));
    }
    assert_eq!(handler.calls(), 2);
}

#[tokio::test]
async fn a_store_that_fails_lets_requests_pass_or_refuses_them_as_told() {
    let failing = store(1);
    failing.fail(true);
    let layer = RateLimitLayer::new(failing.clone(), key::same());
    let (passing, _) = behind(&layer);
    for _ in 0..3 {
        let answer = send(&passing, request(&[])).await;
        assert_eq!((answer.status, answer.headers.contains_key("ratelimit")), (200, false));
    }
    let (refusing, handler) = behind(&layer.on_error(OnError::Refuse));
    let answer = send(&refusing, request(&[])).await;
    assert_eq!((answer.status, answer.headers.contains_key("retry-after")), (503, false));
    assert!(!answer.body.contains("the store is away"), "what fails inside is for the log");
    assert_eq!(handler.calls(), 0);
    failing.fail(false);
    assert_eq!(send(&refusing, request(&[])).await.status, 200);
}

#[tokio::test]
async fn a_store_that_fails_when_it_should_settle_does_not_hold_the_response_back() {
    let store = store(10);
    let layer = RateLimitLayer::new(store.clone(), key::same()).by_response(ByResponse::refund_server_errors());
    let (service, _) = behind(&layer);
    let answer = send(&service, request(&[("x-status", "500")])).await;
    assert_eq!((answer.status, answer.field("ratelimit").contains("r=10")), (500, true));
    assert_eq!(*store.asked.lock().unwrap(), ["decide", "refund"]);
}

/// Panics if it is called without having been polled ready.
#[derive(Debug, Default)]
struct Strict {
    ready: bool,
    clones: Arc<AtomicUsize>,
    closed: Arc<AtomicBool>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        self.clones.fetch_add(1, Ordering::Relaxed);
        Self { ready: false, clones: Arc::clone(&self.clones), closed: Arc::clone(&self.closed) }
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if self.closed.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without having been polled ready");
        std::future::ready(Ok(Response::new(Body::default())))
    }
}

#[tokio::test]
async fn the_service_that_was_polled_ready_is_the_one_that_is_called() {
    let strict = Strict::default();
    let mut local = RateLimitLayer::new(Limiter::local(Quota::per_hour(100)), key::same()).layer(strict.clone());
    let clones = strict.clones.load(Ordering::Relaxed);
    for _ in 0..3 {
        local.ready().await.unwrap().call(request(&[])).await.unwrap();
    }
    assert_eq!(strict.clones.load(Ordering::Relaxed), clones, "an answer at once needs no clone");

    let mut waiting = RateLimitLayer::new(store(100), key::same()).layer(strict.clone());
    for _ in 0..3 {
        waiting.ready().await.unwrap().call(request(&[])).await.unwrap();
    }
    assert_eq!(strict.clones.load(Ordering::Relaxed), clones + 1 + 3);
}

#[tokio::test]
async fn a_service_that_is_not_ready_is_waited_for() {
    let strict = Strict::default();
    strict.closed.store(true, Ordering::Relaxed);
    let mut service = RateLimitLayer::new(store(1), key::same()).layer(strict);
    let waker = std::task::Waker::noop();
    assert!(service.poll_ready(&mut Context::from_waker(waker)).is_pending());
}

#[tokio::test]
async fn requests_of_one_service_wait_for_their_answers_beside_each_other() {
    let mut service = RateLimitLayer::new(store(10), key::same()).layer(Handler::default());
    let mut futures = Vec::new();
    for _ in 0..20 {
        futures.push(service.ready().await.unwrap().call(request(&[])));
    }
    let mut passed = 0;
    for future in futures {
        passed += usize::from(future.await.unwrap().status() == 200);
    }
    assert_eq!(passed, 10);
}

#[tokio::test]
async fn a_list_of_different_limiters_serves_one_layer() {
    let limiter = Limiter::local(Quota::per_hour(3));
    let away = store(5);
    // What a configuration file might say of its tiers, in its order.
    let tiers: Vec<DynRateLimiter> = vec![
        DynRateLimiter::new(limiter.scope("free", Quota::per_hour(1))),
        DynRateLimiter::new(limiter),
        DynRateLimiter::new(away.clone()),
    ];
    let tier = move |head: &RequestHead<'_>| {
        let number: usize = head.headers().get("x-tier")?.to_str().ok()?.parse().ok()?;
        Some((tiers.get(number)?.clone(), 1))
    };
    let layer = RateLimitLayer::limits(Limit::resolve(tier, key::same()));
    let (service, handler) = behind(&layer.clone().on_error(OnError::Refuse));
    for (tier, passes) in [("0", 1), ("1", 3), ("2", 5)] {
        for number in 0..7 {
            let answer = send(&service, request(&[("x-tier", tier)])).await;
            assert_eq!(answer.status, if number < passes { 200 } else { 429 }, "tier {tier}, request {number}");
        }
    }
    assert_eq!(handler.calls(), 9);
    away.fail(true);
    assert_eq!(send(&service, request(&[("x-tier", "2")])).await.status, 503);

    let (service, _) = behind(&layer.by_response(ByResponse::refund_server_errors()));
    away.fail(false);
    away.limiter.default_scope().reset("");
    for _ in 0..10 {
        let answer = send(&service, request(&[("x-tier", "2"), ("x-status", "500")])).await;
        assert_eq!((answer.status, answer.field("ratelimit").contains("r=5")), (500, true));
    }
}

#[tokio::test]
async fn several_limits_of_different_types_are_charged_all_or_none() {
    let limiter = Limiter::local(Quota::per_hour(10));
    let spent = store(1);
    let limits = Limit::new(DynRateLimiter::new(limiter.clone()), key::same())
        .and(Limit::new(DynRateLimiter::new(spent.clone()), key::same()));
    let (service, _) = behind(&RateLimitLayer::limits(limits));
    for status in [200, 429, 429] {
        assert_eq!(send(&service, request(&[])).await.status, status);
    }
    assert_eq!(limiter.peek("").remaining, 9);
}
