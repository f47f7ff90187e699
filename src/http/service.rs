//! The service.

use std::{
    mem,
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
    admission::{Admission, Entry, Step, Verdict, tightest},
    body::ResponseBody,
    future::{Passed, ResponseFuture, Waiting},
    head::RequestHead,
    headers,
    limits::{Charges, Limits},
    options::Options,
    refusal::Refusal,
};

/// A service behind limits; made by [`RateLimitLayer`](super::RateLimitLayer).
#[derive(Debug)]
pub struct RateLimit<S, R> {
    inner: S,
    limits: Arc<R>,
    options: Arc<Options>,
}

impl<S: Clone, R> Clone for RateLimit<S, R> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), limits: Arc::clone(&self.limits), options: Arc::clone(&self.options) }
    }
}

impl<S, R> RateLimit<S, R> {
    pub(super) fn new(inner: S, limits: Arc<R>, options: Arc<Options>) -> Self {
        Self { inner, limits, options }
    }

    /// The service inside.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S, R, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimit<S, R>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    R: Limits,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, ReqBody, R::Limiter>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let head = RequestHead::of(&request);
        let mut charges = Charges::new();
        if (self.options.counts_preflight || !is_preflight(&head))
            && let Err(error) = self.limits.collect(&head, &mut charges)
        {
            let refusal = Refusal::no_key(&error);
            return ResponseFuture::refused(refuse::<R::Limiter>(&self.options, &head, &refusal, &[]));
        }
        let mut admission = Admission::new(charges, self.options.timing(), self.options.on_error);
        match admission.run() {
            Step::Done(verdict) => conclude(&mut self.inner, request, admission.entries, verdict, &self.options),
            Step::Ask(deciding) => {
                // The service that was polled ready is the one to call; its clone has to be polled first.
                let clone = self.inner.clone();
                let service = mem::replace(&mut self.inner, clone);
                let options = Arc::clone(&self.options);
                ResponseFuture::deciding(deciding, Waiting { service, request, admission, options })
            }
        }
    }
}

/// What becomes of a request on which all is decided.
pub(super) fn conclude<S, ReqBody, L>(
    service: &mut S,
    mut request: Request<ReqBody>,
    entries: smallvec::SmallVec<[Entry<L>; 1]>,
    verdict: Verdict<L::Error>,
    options: &Options,
) -> ResponseFuture<S, ReqBody, L>
where
    S: Service<Request<ReqBody>>,
    L: RateLimiter,
{
    let refusal = match &verdict {
        Verdict::Pass => {
            if options.inserts_decision
                && let Some((_, decision)) = tightest(&entries)
            {
                request.extensions_mut().insert(*decision);
            }
            let passed = Passed { entries, styles: options.styles, by_response: options.by_response.clone() };
            return ResponseFuture::running(service.call(request), passed);
        }
        Verdict::Refused(by) => Refusal::limited(entries.get(*by).and_then(|entry| entry.answer)),
        Verdict::Failed(error) => Refusal::unavailable(error),
    };
    ResponseFuture::refused(refuse(options, &RequestHead::of(&request), &refusal, &entries))
}

/// The response to a request that may not pass.
fn refuse<L: RateLimiter>(
    options: &Options,
    head: &RequestHead<'_>,
    refusal: &Refusal<'_>,
    entries: &[Entry<L>],
) -> Response<Bytes> {
    let mut response = match &options.refusal {
        Some(refuse) => refuse(head, refusal),
        None => refusal.response(head),
    };
    headers::write(response.headers_mut(), options.styles, entries);
    refusal.retry_after(response.headers_mut());
    response
}

/// As the fetch standard defines it: nobody but a browser sends these without being asked to.
fn is_preflight(head: &RequestHead<'_>) -> bool {
    head.method() == Method::OPTIONS
        && head.headers().contains_key(ORIGIN)
        && head.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}
