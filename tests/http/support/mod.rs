//! Requests, a service that answers them, and a store that takes its time.

use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    marker::PhantomPinned,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use peerlimit::{
    Decision, Limiter, Policy, RateLimiter,
    http::{Limits, RateLimit, RateLimitLayer},
};
use pin_project_lite::pin_project;
use tower::{Layer as _, Service, ServiceExt as _};

pub type Body = Full<Bytes>;

/// Answers as the request's `x-status` says, with the fields of `x-answer-<name>`; counts calls.
#[derive(Clone, Debug, Default)]
pub struct Handler {
    pub calls: Arc<AtomicUsize>,
    pub seen: Arc<Mutex<Option<Decision>>>,
}

impl Handler {
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Service<Request<Body>> for Handler {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.calls.fetch_add(1, Ordering::Relaxed);
        *self.seen.lock().unwrap() = request.extensions().get().copied();
        let mut response = Response::new(Body::from("hello"));
        for (name, value) in request.headers() {
            if name == "x-status" {
                *response.status_mut() = StatusCode::from_bytes(value.as_bytes()).unwrap();
            } else if let Some(name) = name.as_str().strip_prefix("x-answer-") {
                response.headers_mut().insert(name.parse::<http::HeaderName>().unwrap(), value.clone());
            }
        }
        ready(Ok(response))
    }
}

/// A handler behind a layer.
pub fn behind<R: Limits>(layer: &RateLimitLayer<R>) -> (RateLimit<Handler, R>, Handler) {
    let handler = Handler::default();
    (layer.layer(handler.clone()), handler)
}

/// A request with header fields.
pub fn request(fields: &[(&str, &str)]) -> Request<Body> {
    let builder = fields.iter().fold(Request::get("/"), |builder, (name, value)| builder.header(*name, *value));
    builder.body(Body::default()).unwrap()
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    /// A header field that is there once.
    pub fn field(&self, name: &str) -> &str {
        let values: Vec<_> = self.headers.get_all(name).iter().collect();
        assert_eq!(values.len(), 1, "{name} in {:?}", self.headers);
        values[0].to_str().unwrap()
    }

    /// All lines of a header field as the one list that they are.
    pub fn list(&self, name: &str) -> String {
        let lines: Vec<_> = self.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
        lines.join(", ")
    }
}

/// Sends a request to a service.
pub async fn send<S, B>(service: &S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let response = service.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: head.status.as_u16(), headers: head.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

/// What a future that is ready at once comes to.
pub fn now<F: Future>(future: Pin<&mut F>) -> F::Output {
    match future.poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("answers at once"),
    }
}

/// A store: a limiter that answers only when polled again, and fails when told to.
#[derive(Clone, Debug)]
pub struct Store {
    pub limiter: Limiter,
    pub fails: Arc<Mutex<bool>>,
    pub asked: Arc<Mutex<Vec<&'static str>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError;

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the store is away")
    }
}

impl std::error::Error for StoreError {}

impl Store {
    pub fn new(limiter: Limiter) -> Self {
        Self { limiter, fails: Arc::default(), asked: Arc::default() }
    }

    pub fn fail(&self, fails: bool) {
        *self.fails.lock().unwrap() = fails;
    }

    fn later(&self, call: &'static str, answer: impl FnOnce(&Limiter) -> Decision) -> Later {
        self.asked.lock().unwrap().push(call);
        let answer = if *self.fails.lock().unwrap() { Err(StoreError) } else { Ok(answer(&self.limiter)) };
        Later { answer: Some(answer), polls: 0, pinned: PhantomPinned }
    }
}

pin_project! {
    /// Must not be moved once it was polled, as a future of an async block must not.
    pub struct Later {
        answer: Option<Result<Decision, StoreError>>,
        polls: usize,
        #[pin]
        pinned: PhantomPinned,
    }
}

impl Future for Later {
    type Output = Result<Decision, StoreError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        *this.polls += 1;
        if *this.polls < 3 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(this.answer.take().expect("polled once when ready"))
    }
}

impl RateLimiter for Store {
    type Error = StoreError;
    type Deciding = Later;

    fn decide(&self, key: &[u8], cost: u64) -> Later {
        self.later("decide", |limiter| limiter.check_n(key, cost))
    }

    fn peek(&self, key: &[u8], cost: u64) -> Later {
        self.later("peek", |limiter| limiter.default_scope().peek_n(key, cost))
    }

    fn charge(&self, key: &[u8], permits: u64) -> Later {
        self.later("charge", |limiter| RateLimiter::charge(limiter, key, permits).into_inner().unwrap())
    }

    fn refund(&self, key: &[u8], permits: u64) -> Later {
        self.later("refund", |limiter| RateLimiter::refund(limiter, key, permits).into_inner().unwrap())
    }

    fn policy(&self) -> Policy {
        self.limiter.policy()
    }
}
