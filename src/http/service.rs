//! The service.

use std::{
    marker::PhantomData,
    mem,
    ops::Deref,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    Method, Request, Response,
    header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN},
};
use tower_service::Service;

use crate::backend::RateLimiter;

use super::{
    admission::{Admission, Entry, Verdict, tightness},
    body::{Bodies, Wrapped},
    future::{Passed, ResponseFuture, Waiting},
    head::RequestHead,
    headers::{self, Told},
    layer::Shared,
    limits::{Charges, Limits},
    options::Options,
    refusal::Refusal,
};

/// A service behind limits; made by [`RateLimitLayer`](super::RateLimitLayer).
#[derive(Debug)]
pub struct RateLimit<S, R, M = Wrapped> {
    inner: S,
    shared: Arc<Shared<R>>,
    bodies: PhantomData<M>,
}

impl<S: Clone, R, M> Clone for RateLimit<S, R, M> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.shared))
    }
}

impl<S, R, M> RateLimit<S, R, M> {
    pub(super) fn new(inner: S, shared: Arc<Shared<R>>) -> Self {
        Self { inner, shared, bodies: PhantomData }
    }

    /// The service inside.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S, R, M, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimit<S, R, M>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    R: Limits,
    M: Bodies<ResBody>,
{
    type Response = Response<M::Body>;
    type Error = S::Error;
    type Future = ResponseFuture<S, ReqBody, R, M>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<ReqBody>) -> Self::Future {
        let Shared { limits, options } = &*self.shared;
        let head = RequestHead::of(&request);
        let mut charges = Charges::new();
        if (options.counts_preflight || !is_preflight(&head))
            && let Err(error) = limits.collect(&head, &mut charges)
        {
            let refusal = Refusal::no_key(&error);
            return ResponseFuture::refused(refuse(options, &head, &refusal, &[]));
        }
        let mut admission = Admission::new(options.timing(), options.on_error);
        let Some(deciding) = admission.run(&mut charges.entries) else {
            return match conclude(&mut request, &mut charges.entries, admission.verdict(), options) {
                Conclusion::Pass(passed) => ResponseFuture::running(self.inner.call(request), passed, options.styles),
                Conclusion::Refuse(response) => ResponseFuture::refused(response),
            };
        };
        let entries = charges.entries.into_iter().map(Entry::into_owned).collect();
        // The service that was polled ready is the one to call; its clone has to be polled first.
        let clone = self.inner.clone();
        let service = mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared);
        ResponseFuture::deciding(deciding, Waiting { service, request, entries, admission, shared })
    }
}

/// What becomes of a request.
pub(super) enum Conclusion<L: Clone + 'static> {
    /// It goes on to the service; this is kept of it.
    Pass(Passed<L>),
    Refuse(Response<Bytes>),
}

/// What becomes of a request on which all is decided.
#[inline]
pub(super) fn conclude<'a, ReqBody, L, E>(
    request: &mut Request<ReqBody>,
    entries: &mut E,
    verdict: Verdict<L::Error>,
    options: &Options,
) -> Conclusion<L>
where
    L: RateLimiter + Clone,
    E: Default + Deref<Target = [Entry<'a, L>]> + IntoIterator<Item = Entry<'a, L>>,
{
    if !matches!(verdict, Verdict::Pass) {
        return Conclusion::Refuse(refused(request, entries, &verdict, options));
    }
    if options.inserts_decision
        && let Some(tightest) = entries.iter().filter_map(|entry| entry.answer).min_by_key(tightness)
    {
        request.extensions_mut().insert(tightest);
    }
    Conclusion::Pass(match &options.by_response {
        None => Passed::Told(headers::told(entries, options.styles)),
        Some(by_response) => {
            let entries = mem::take(entries).into_iter().map(Entry::into_owned).collect();
            Passed::Settle(Box::new((by_response.clone(), entries)))
        }
    })
}

/// The response to a request that the limits do not let pass.
#[cold]
fn refused<ReqBody, L: RateLimiter + Clone>(
    request: &Request<ReqBody>,
    entries: &[Entry<'_, L>],
    verdict: &Verdict<L::Error>,
    options: &Options,
) -> Response<Bytes> {
    let refusal = match verdict {
        Verdict::Refused(by) => Refusal::limited(entries.get(*by).and_then(|entry| entry.answer)),
        Verdict::Failed(error) => Refusal::unavailable(error),
        // Nobody asks.
        Verdict::Pass => Refusal::limited(None),
    };
    let limits = headers::told(entries, options.styles);
    refuse(options, &RequestHead::of(request), &refusal, &limits)
}

/// The response to a request that may not pass.
fn refuse(options: &Options, head: &RequestHead<'_>, refusal: &Refusal<'_>, limits: &[Told]) -> Response<Bytes> {
    let mut response = match &options.refusal {
        Some(refuse) => refuse(head, refusal),
        None => refusal.response(head),
    };
    headers::write(response.headers_mut(), options.styles, limits);
    refusal.retry_after(response.headers_mut());
    response
}

/// As the fetch standard defines it: nobody but a browser sends these without being asked to.
fn is_preflight(head: &RequestHead<'_>) -> bool {
    head.method() == Method::OPTIONS
        && head.headers().contains_key(ORIGIN)
        && head.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}
