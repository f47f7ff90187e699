//! The layer, and what can be set.

use std::{marker::PhantomData, sync::Arc};

use bytes::Bytes;
use http::Response;
use tower_layer::Layer;

use crate::backend::RateLimiter;

use super::{
    body::{Kept, Wrapped},
    by_response::ByResponse,
    head::RequestHead,
    headers::HeaderStyle,
    key::KeyExtractor,
    limits::{Always, Limit, Limits},
    options::{OnError, Options},
    refusal::Refusal,
    service::RateLimit,
};

/// Puts limits in front of a service; see the [module](super).
///
/// Clones, and all services that they make, share the limiters and so the counts.
#[derive(Debug)]
#[must_use = "a layer limits nothing until a service is inside of it"]
pub struct RateLimitLayer<R, M = Wrapped> {
    shared: Arc<Shared<R>>,
    bodies: PhantomData<M>,
}

/// What all services of a layer share, behind one pointer: servers clone services for each connection, if not for each
/// request.
#[derive(Debug)]
pub(super) struct Shared<R> {
    pub(super) limits: Arc<R>,
    pub(super) options: Options,
}

impl<R> Clone for Shared<R> {
    fn clone(&self) -> Self {
        Self { limits: Arc::clone(&self.limits), options: self.options.clone() }
    }
}

impl<R, M> Clone for RateLimitLayer<R, M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), bodies: PhantomData }
    }
}

impl<L: RateLimiter + Clone + 'static, K: KeyExtractor> RateLimitLayer<Limit<Always<L>, K>> {
    /// Each request costs one permit of its key at `limiter`. A request without a key is refused.
    pub fn new(limiter: L, key: K) -> Self {
        Self::limits(Limit::new(limiter, key))
    }
}

impl<R: Limits> RateLimitLayer<R> {
    /// All of `limits` have to allow a request.
    pub fn limits(limits: R) -> Self {
        let shared = Shared { limits: Arc::new(limits), options: Options::default() };
        Self { shared: Arc::new(shared), bodies: PhantomData }
    }

    /// Responses keep the type of the service's bodies, which has to be made of [`Bytes`]: axum's `Body` and
    /// http-body-util's `Full` are.
    ///
    /// By default they get a [`ResponseBody`](super::ResponseBody), which does for any body, also hyper's `Incoming`
    /// and tonic's `Body`. axum puts each body that is not its own into a box, so there this spares an allocation a
    /// request.
    pub fn keep_body(self) -> RateLimitLayer<R, Kept> {
        RateLimitLayer { shared: self.shared, bodies: PhantomData }
    }
}

impl<R: Limits, M> RateLimitLayer<R, M> {
    fn set(mut self, set: impl FnOnce(&mut Options)) -> Self {
        // Clones made before keep what they have.
        set(&mut Arc::make_mut(&mut self.shared).options);
        self
    }

    /// In which header fields responses speak of the limits; [`HeaderStyle::Draft`] by default. An empty list hides
    /// them.
    ///
    /// `Retry-After` is on refusals in any case.
    pub fn headers(self, styles: impl IntoIterator<Item = HeaderStyle>) -> Self {
        self.set(|options| options.styles = styles.into_iter().collect())
    }

    /// What becomes of a request when the store that should decide fails; [`OnError::Pass`] by default.
    pub fn on_error(self, on_error: OnError) -> Self {
        self.set(|options| options.on_error = on_error)
    }

    /// Counts CORS preflight requests too. By default they pass free: browsers send them unasked, and a page can
    /// neither avoid them nor see that one was refused.
    ///
    /// A preflight request is an `OPTIONS` with `Origin` and `Access-Control-Request-Method`. Whatever answers them
    /// should be cheap.
    pub fn count_preflight(self) -> Self {
        self.set(|options| options.counts_preflight = true)
    }

    /// Leaves the [`Decision`](crate::Decision) in the extensions of a request that passes, for the handler; of several
    /// the tightest. A request that passes undecided has none.
    pub fn insert_decision(self) -> Self {
        self.set(|options| options.inserts_decision = true)
    }

    /// Charges requests by their responses.
    pub fn by_response(self, by_response: ByResponse) -> Self {
        self.set(|options| options.by_response = Some(by_response))
    }

    /// Answers requests that may not pass. What the layer says in header fields is added: of the limits as always, and
    /// `Retry-After` where the response has none.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{Response, StatusCode};
    /// use peerlimit::{Limiter, Quota, http::{RateLimitLayer, Refusal, key}};
    ///
    /// let limiter = Limiter::local(Quota::per_second(100));
    /// let layer = RateLimitLayer::new(limiter, key::peer_addr()).refuse_with(|head, refusal| match refusal {
    ///     Refusal::Limited { .. } => {
    ///         let mut response = Response::new(Bytes::from("slow down"));
    ///         *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    ///         response
    ///     }
    ///     // As without this function.
    ///     _ => refusal.response(head),
    /// });
    /// ```
    pub fn refuse_with<F>(self, refusal: F) -> Self
    where
        F: Fn(&RequestHead<'_>, &Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
    {
        self.set(|options| options.refusal = Some(Arc::new(refusal)))
    }
}

impl<S, R: Limits, M> Layer<S> for RateLimitLayer<R, M> {
    type Service = RateLimit<S, R, M>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, Arc::clone(&self.shared))
    }
}
