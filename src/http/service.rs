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
use smallvec::SmallVec;
use tower_service::Service;

use crate::backend::RateLimiter;

use super::{
    admission::{Admission, Entry, Step, Told, Verdict, tightness},
    body::{Bodies, Wrapped},
    future::{Passed, ResponseFuture, Waiting},
    head::RequestHead,
    headers::{self, Styles},
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

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
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
        match admission.run(&mut charges.entries) {
            Step::Done(verdict) => conclude(&mut self.inner, request, &mut charges.entries, verdict, options),
            Step::Ask(deciding) => {
                let entries = charges.entries.into_iter().map(Entry::into_owned).collect();
                // The service that was polled ready is the one to call; its clone has to be polled first.
                let clone = self.inner.clone();
                let service = mem::replace(&mut self.inner, clone);
                let shared = Arc::clone(&self.shared);
                ResponseFuture::deciding(deciding, Waiting { service, request, entries, admission, shared })
            }
        }
    }
}

/// What becomes of a request on which all is decided.
pub(super) fn conclude<'a, S, ReqBody, R, M, E>(
    service: &mut S,
    mut request: Request<ReqBody>,
    entries: &mut E,
    verdict: Verdict<<R::Limiter as RateLimiter>::Error>,
    options: &Options,
) -> ResponseFuture<S, ReqBody, R, M>
where
    S: Service<Request<ReqBody>>,
    R: Limits,
    E: Default + Deref<Target = [Entry<'a, R::Limiter>]> + IntoIterator<Item = Entry<'a, R::Limiter>>,
{
    let refusal = match &verdict {
        Verdict::Pass => {
            let decisions = entries.iter().filter_map(|entry| entry.answer);
            if options.inserts_decision
                && let Some(tightest) = decisions.min_by_key(tightness)
            {
                request.extensions_mut().insert(tightest);
            }
            let passed = match &options.by_response {
                None => Passed::told(told(entries, options.styles)),
                Some(by_response) => {
                    let entries = mem::take(entries).into_iter().map(Entry::into_owned);
                    Passed::to_settle(by_response.clone(), entries.collect())
                }
            };
            return ResponseFuture::running(service.call(request), passed, options.styles);
        }
        Verdict::Refused(by) => Refusal::limited(entries.get(*by).and_then(|entry| entry.answer)),
        Verdict::Failed(error) => Refusal::unavailable(error),
    };
    let limits = told(entries, options.styles);
    ResponseFuture::refused(refuse(options, &RequestHead::of(&request), &refusal, &limits))
}

/// What there is to tell, if anything is to be told.
pub(super) fn told<L: RateLimiter + Clone>(entries: &[Entry<'_, L>], styles: Styles) -> SmallVec<[Told; 1]> {
    match styles {
        Styles::NONE => SmallVec::new(),
        _ => entries.iter().filter_map(Entry::told).collect(),
    }
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
